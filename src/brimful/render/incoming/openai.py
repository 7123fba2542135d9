"""Read a client's chat completions request."""

from collections.abc import Iterator
from typing import Any, Final

from brimful.core.content import clean_text
from brimful.core.prompt import Media, Message, Part, Role, Text, Tool, ToolCall, ToolResult
from brimful.render.incoming.parts import read_image, read_tool_definition, read_unknown, text_or_empty
from brimful.render.tools import json_text

_ROLES: Final[dict[str, Role]] = {"developer": "system", "system": "system", "assistant": "assistant"}
_NAME_ID_PREFIX: Final = "function "  # begins the id of a call that has none
_AUDIO_TYPES: Final = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "thinking")
"""Where servers put what a model thought. Templates show it again until the user speaks next, and not after that."""


def read_turn(message: dict[str, Any], *, current: bool) -> tuple[Message, ...]:
    """Read a message as one of ours. `current` says that the user has not spoken since."""
    if (id := _answered_call_id(message)) is not None:
        return (_result(message, id),)
    thoughts = (
        [Text(text=text_or_empty(message[key])) for key in _REASONING_FIELDS if message.get(key)] if current else []
    )
    said = (*thoughts, *_parts(message.get("content")), *read_unknown(message.get("refusal")))
    calls = (*_calls(message.get("tool_calls")), *_function_call(message.get("function_call")))
    role = _ROLES.get(message["role"], "user")
    return (Message(role=role, name=text_or_empty(message.get("name")), parts=(*said, *calls)),)


def read_tools(offered: dict[str, Any]) -> Iterator[Tool]:
    """Read the tools on offer, the older `functions` among them; of kinds that are new, all that is said of them."""
    for tools in offered.values():
        yield from (read_tool_definition(tool, "parameters") for tool in _functions(tools))


def _functions(tools: object) -> Iterator[dict[str, Any]]:
    for tool in tools if isinstance(tools, list) else ():
        match tool:
            case {"function": dict(function)} | dict(function):
                yield function


def _answered_call_id(message: dict[str, Any]) -> str | None:
    """Return the id of the call that a message answers; calls of the older kind have none, and go by name."""
    match message:
        case {"role": "tool", "tool_call_id": str(id)}:
            return clean_text(id)
        case {"role": "function", "name": str(name)}:
            return _NAME_ID_PREFIX + clean_text(name)
        case _:
            return None


def _result(message: dict[str, Any], id: str) -> Message:
    said = list(_parts(message.get("content")))
    text = "".join(part.text for part in said if isinstance(part, Text))
    shown = (part for part in said if isinstance(part, Media))
    return Message(
        role="tool", parts=(ToolResult(id=id, content=text, name=text_or_empty(message.get("name"))), *shown)
    )


def _parts(content: object) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(text=clean_text(content))
        return
    for block in content if isinstance(content, list) else read_unknown(content):
        if isinstance(block, dict):
            yield from _block(block)
        else:
            yield from read_unknown(block)


def _block(block: dict[str, Any]) -> Iterator[Part]:
    match block:
        case {"type": "text", "text": str(text)}:
            yield Text(text=clean_text(text))
        case {"type": "image_url", "image_url": {"url": str(url), **shown}}:
            yield from read_image(url, shown.get("detail"))
        case {"type": "image_url", "image_url": str(url)}:
            yield from read_image(url)
        case {"type": "input_audio", "input_audio": {"data": str(data), **rest}} if data:
            form = _AUDIO_TYPES.get(text_or_empty(rest.get("format")), "")
            yield Media(modality="audio", data=clean_text(data), media_type=form)
        case _:
            yield from read_unknown(block)


def _calls(calls: object) -> Iterator[Part]:
    for call in calls if isinstance(calls, list) else ():
        match call:
            case {"id": str(id), "function": {"name": str(name), "arguments": arguments}}:
                written = text_or_empty(arguments) if isinstance(arguments, str) else json_text(arguments)
                yield ToolCall(id=clean_text(id), name=clean_text(name), arguments=written)
            case _:
                yield from read_unknown(call)


def _function_call(call: object) -> Iterator[Part]:
    match call:
        case {"name": str(name), "arguments": str(arguments)}:
            yield ToolCall(
                id=_NAME_ID_PREFIX + clean_text(name), name=clean_text(name), arguments=clean_text(arguments)
            )
