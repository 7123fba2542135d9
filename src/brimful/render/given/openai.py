"""A chat completions request as a caller wrote it."""

from collections.abc import Iterator
from typing import Any, Final

from brimful.core.content import clean_text
from brimful.core.prompt import Media, Message, Part, Role, Text, Tool, ToolCall, ToolResult
from brimful.render.canonical import json_text
from brimful.render.given.pieces import image, leaves, tool_of, words

_ROLES: Final[dict[str, Role]] = {"developer": "system", "system": "system", "assistant": "assistant"}
_BY_NAME: Final = "function "  # begins the id of a call that has none
_AUDIO_TYPES: Final = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_THOUGHTS: Final = ("reasoning_content", "reasoning", "thinking")
"""Where servers put what a model thought. Templates show it again until the user speaks next, and not after that."""


def read_turn(message: dict[str, Any], *, current: bool) -> tuple[Message, ...]:
    """Read a message as one of ours. `current` says that the user has not spoken since."""
    if (id := _answered(message)) is not None:
        return (_result(message, id),)
    thoughts = [Text(text=words(message[key])) for key in _THOUGHTS if message.get(key)] if current else []
    said = (*thoughts, *_parts(message.get("content")), *leaves(message.get("refusal")))
    calls = (*_calls(message.get("tool_calls")), *_older_call(message.get("function_call")))
    role = _ROLES.get(message["role"], "user")
    return (Message(role=role, name=words(message.get("name")), parts=(*said, *calls)),)


def read_tools(offered: dict[str, Any]) -> Iterator[Tool]:
    """Read the tools on offer, the older `functions` among them; of kinds that are new, all that is said of them."""
    for tools in offered.values():
        yield from (tool_of(tool, "parameters") for tool in _functions(tools))


def _functions(tools: object) -> Iterator[dict[str, Any]]:
    for tool in tools if isinstance(tools, list) else ():
        match tool:
            case {"function": dict(function)} | dict(function):
                yield function


def _answered(message: dict[str, Any]) -> str | None:
    """Return the id of the call that a message answers; calls of the older kind have none, and go by name."""
    match message:
        case {"role": "tool", "tool_call_id": str(id)}:
            return clean_text(id)
        case {"role": "function", "name": str(name)}:
            return _BY_NAME + clean_text(name)
        case _:
            return None


def _result(message: dict[str, Any], id: str) -> Message:
    said = list(_parts(message.get("content")))
    text = "".join(part.text for part in said if isinstance(part, Text))
    shown = (part for part in said if isinstance(part, Media))
    return Message(role="tool", parts=(ToolResult(id=id, content=text, name=words(message.get("name"))), *shown))


def _parts(content: object) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(text=clean_text(content))
        return
    for block in content if isinstance(content, list) else leaves(content):
        if isinstance(block, dict):
            yield from _block(block)
        else:
            yield from leaves(block)


def _block(block: dict[str, Any]) -> Iterator[Part]:
    match block:
        case {"type": "text", "text": str(text)}:
            yield Text(text=clean_text(text))
        case {"type": "image_url", "image_url": {"url": str(url), **shown}}:
            yield from image(url, shown.get("detail"))
        case {"type": "image_url", "image_url": str(url)}:
            yield from image(url)
        case {"type": "input_audio", "input_audio": {"data": str(data), **rest}} if data:
            form = _AUDIO_TYPES.get(words(rest.get("format")), "")
            yield Media(modality="audio", data=clean_text(data), media_type=form)
        case _:
            yield from leaves(block)


def _calls(calls: object) -> Iterator[Part]:
    for call in calls if isinstance(calls, list) else ():
        match call:
            case {"id": str(id), "function": {"name": str(name), "arguments": arguments}}:
                written = words(arguments) if isinstance(arguments, str) else json_text(arguments)
                yield ToolCall(id=clean_text(id), name=clean_text(name), arguments=written)
            case _:
                yield from leaves(call)


def _older_call(call: object) -> Iterator[Part]:
    match call:
        case {"name": str(name), "arguments": str(arguments)}:
            yield ToolCall(id=_BY_NAME + clean_text(name), name=clean_text(name), arguments=clean_text(arguments))
