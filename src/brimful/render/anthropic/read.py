"""Messages request → prompt, for counting. The request has passed the rules."""

from collections.abc import Iterator
from typing import Any

from brimful.core.prompt import Media, Message, Part, Prompt, Request, Role, Text, Tool, ToolCall, ToolResult
from brimful.render.canonical import json_text

Block = dict[str, Any]
Content = str | list[Block]


def read_request(request: Request) -> Prompt:
    """Read the request. A user turn with tool results becomes a tool message, and a user message of what follows them.

    >>> asked = {"role": "user", "content": "Hi"}
    >>> read_request({"model": "m", "max_tokens": 9, "system": "Be kind.", "messages": [asked]}).messages[0]
    Message(role='system', parts=(Text(text='Be kind.'),), name='', sources=(), cache=False)
    """
    names = _names_of_calls(request["messages"])
    system = (_message("system", [block], names) for block in _blocks(request.get("system") or []))
    spoken = (message for turn in request["messages"] for message in _messages(turn, names))
    return Prompt(
        model=request["model"],
        messages=(*system, *spoken),
        tools=tuple(_tool(tool) for tool in request.get("tools") or ()),
        max_output=request["max_tokens"],
        system_turns=any(turn["role"] == "system" for turn in request["messages"]),
    )


def _tool(tool: Block) -> Tool:
    return Tool(name=tool["name"], description=tool.get("description") or "", parameters=tool["input_schema"])


def _names_of_calls(turns: list[dict[str, Any]]) -> dict[str, str]:
    blocks = (block for turn in turns for block in _blocks(turn["content"]))
    return {block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"}


def _blocks(content: Content) -> list[Block]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _messages(turn: dict[str, Any], names: dict[str, str]) -> Iterator[Message]:
    blocks = _blocks(turn["content"])
    results = [block for block in blocks if block["type"] == "tool_result"]
    rest = [block for block in blocks if block["type"] != "tool_result"]
    if results:
        yield _message("tool", results, names)
    if rest:
        yield _message(turn["role"], rest, names)


def _message(role: Role, blocks: list[Block], names: dict[str, str]) -> Message:
    marked = any(block.get("cache_control") for block in blocks)
    return Message(role=role, parts=tuple([part for block in blocks for part in _parts(block, names)]), cache=marked)


def _parts(block: Block, names: dict[str, str]) -> Iterator[Part]:
    match block["type"]:
        case "text":
            yield Text(text=block["text"])
        case "image":
            yield _image(block["source"])
        case "tool_use":
            yield ToolCall(id=block["id"], name=block["name"], arguments=json_text(block["input"]))
        case _:
            id, inner = block["tool_use_id"], _blocks(block.get("content") or [])
            text = "".join(each["text"] for each in inner if each["type"] == "text")
            yield ToolResult(id=id, content=text, name=names.get(id, ""), is_error=block.get("is_error") or False)
            yield from (_image(each["source"]) for each in inner if each["type"] == "image")


def _image(source: dict[str, str]) -> Media:
    if source["type"] == "url":
        return Media(modality="image", url=source["url"])
    return Media(modality="image", data=source["data"], media_type=source["media_type"])
