"""Prompt → messages request.

Content is a list of blocks throughout, one block a message of the prompt: a turn that grows adds a block and leaves the
ones before it alone, which is what the prompt cache compares. Later system messages have turns of their own where the
model takes them, and speak as the user, in their place, where it does not.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

from brimful.core.prompt import Media, Message, Part, Prompt, Request, Text, Tool, ToolCall, ToolResult
from brimful.render.canonical import arguments_object, object_schema
from brimful.render.media import mime_type
from brimful.render.names import name_in_text
from brimful.render.prepare import prepare
from brimful.render.turns import Turn, split_system, take_turns

Block = dict[str, Any]

IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
MOST_BREAKPOINTS: Final = 4
_DEFAULT_MAX_TOKENS: Final = 4096  # `max_tokens` is required; every Claude model since 3 can write this many


def write_request(prompt: Prompt, window: int) -> Request:
    """Write the request.

    >>> said = Message(role="user", name="Ada", parts=(Text(text="Hi"),), cache=True)
    >>> write_request(Prompt(model="claude-sonnet-5", messages=(said,)), 200_000)["messages"][0]["content"]
    [{'type': 'text', 'text': 'Ada: Hi', 'cache_control': {'type': 'ephemeral'}}]
    """
    messages = [name_in_text(message) for message in prepare(prompt.messages, carries)]
    first, rest = split_system(messages)
    tools = [_tool(tool) for tool in prompt.tools]
    marked: list[Block] = []
    system = _blocks(first, marked)
    turns = [_turn(turn, marked) for turn in take_turns(rest, system_turns=prompt.system_turns)]
    _set_breakpoints(tools, marked)
    request: Request = {
        "model": prompt.model,
        "max_tokens": prompt.max_output or min(_DEFAULT_MAX_TOKENS, window),
    }
    if tools:
        request["tools"] = tools
    if system:
        request["system"] = system
    request["messages"] = turns
    return request


def carries(media: Media) -> bool:
    """Say whether the wire takes this medium."""
    if media.modality != "image":
        return False
    return media.url.startswith("https://") or (bool(media.data) and mime_type(media) in IMAGE_TYPES)


def _tool(tool: Tool) -> Block:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": object_schema(tool.parameters)}


def _turn(turn: Turn, marked: list[Block]) -> dict[str, Any]:
    return {"role": turn.speaker, "content": _blocks(turn.messages, marked)}


def _blocks(messages: Iterable[Message], marked: list[Block]) -> list[Block]:
    """Write the blocks of some messages, and note those after which the prompt wants a breakpoint."""
    written = []
    for message in messages:
        blocks = [_block(part) for part in message.parts]
        if message.cache:
            marked.append(blocks[-1])
        written.append(blocks)
    return list(chain.from_iterable(written))


def _block(part: Part) -> Block:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Media():
            return {"type": "image", "source": _source(part)}
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments_object(part.arguments)}
        case ToolResult():
            failed = {"is_error": True} if part.is_error else {}
            return {"type": "tool_result", "tool_use_id": part.id, "content": part.content, **failed}


def _source(media: Media) -> dict[str, str]:
    if media.url:
        return {"type": "url", "url": media.url}
    return {"type": "base64", "media_type": mime_type(media), "data": media.data}


def _set_breakpoints(tools: Sequence[Block], marked: Sequence[Block]) -> None:
    """Mark the first block, the most stable one, and the latest, which save the most; the tools if a mark is left.

    Tools come before all else, so a change of the system prompt need not cost them their place in the cache.
    """
    kept = [*marked[:1], *marked[1:][-(MOST_BREAKPOINTS - 1) :]]
    if tools and kept and len(kept) < MOST_BREAKPOINTS:
        kept.insert(0, tools[-1])
    for block in kept:
        block["cache_control"] = {"type": "ephemeral"}
