"""generateContent request → prompt, for counting. The request has passed the rules."""

from collections.abc import Iterator
from typing import Any, Final, cast

from brimful.core.content import Modality
from brimful.core.prompt import Media, Message, Part, Prompt, Request, Role, Text, Tool, ToolCall, ToolResult
from brimful.render.canonical import json_text

WirePart = dict[str, Any]

_ROLES: Final[dict[str, Role]] = {"user": "user", "model": "assistant"}


def read_request(request: Request) -> Prompt:
    """Read the request. A user's content with function responses becomes a tool message, and one of what follows them.

    >>> asked = {"role": "user", "parts": [{"text": "Hi"}]}
    >>> read_request({"model": "models/gemini-3-pro", "contents": [asked]}).model
    'gemini-3-pro'
    """
    system = request.get("systemInstruction")
    first = [Message(role="system", parts=tuple(_part(part) for part in system["parts"]))] if system else []
    declared = (tool for tools in request.get("tools") or () for tool in tools["functionDeclarations"])
    config = request.get("generationConfig") or {}
    return Prompt(
        model=request["model"].removeprefix("models/"),
        messages=(*first, *(message for content in request["contents"] for message in _messages(content))),
        tools=tuple(_tool(tool) for tool in declared),
        max_output=config.get("maxOutputTokens"),
    )


def _tool(tool: dict[str, Any]) -> Tool:
    schema = tool.get("parametersJsonSchema") or tool.get("parameters") or {}
    return Tool(name=tool["name"], description=tool.get("description") or "", parameters=schema)


def _messages(content: dict[str, Any]) -> Iterator[Message]:
    parts = [_part(part) for part in content["parts"]]
    results = tuple(part for part in parts if isinstance(part, ToolResult))
    rest = tuple(part for part in parts if not isinstance(part, ToolResult))
    if results:
        yield Message(role="tool", parts=results)
    if rest:
        yield Message(role=_ROLES[content["role"]], parts=rest)


def _part(part: WirePart) -> Part:
    match part:
        case {"text": text}:
            return Text(text=text)
        case {"inlineData": data}:
            return Media(modality=_modality(data["mimeType"]), data=data["data"], media_type=data["mimeType"])
        case {"fileData": file}:
            return Media(modality=_modality(file["mimeType"]), url=file["fileUri"], media_type=file["mimeType"])
        case {"functionCall": call}:
            arguments = json_text(call.get("args") or {})
            return ToolCall(id=call.get("id") or call["name"], name=call["name"], arguments=arguments)
        case _:
            return _result(part["functionResponse"])


def _modality(mime_type: str) -> Modality:
    return cast("Modality", mime_type.partition("/")[0])


def _result(answer: dict[str, Any]) -> ToolResult:
    response = answer["response"]
    id = answer.get("id") or answer["name"]
    match response:
        case {"output": str(text)} if len(response) == 1:
            return ToolResult(id=id, name=answer["name"], content=text)
        case {"error": str(text)} if len(response) == 1:
            return ToolResult(id=id, name=answer["name"], content=text, is_error=True)
        case _:
            return ToolResult(id=id, name=answer["name"], content=json_text(response))
