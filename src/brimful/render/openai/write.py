"""Prompt → chat completions request.

A message's content is one string wherever it can be: template-based servers behind this API take strings everywhere and
lists only at times, and a form that never changes keeps the cached prefix. Only media need a list.
The messages come last in the request, so that a longer conversation is a longer text of the same beginning.
"""

from collections.abc import Iterator
from typing import Any, Final

from brimful.core.alternate import OPENING
from brimful.core.prompt import Media, Message, Prompt, Request, Text, ToolCall, ToolResult
from brimful.render.canonical import arguments_text
from brimful.render.functions import function_tool
from brimful.render.media import data_url, mime_type
from brimful.render.names import fits_name_field, name_in_text
from brimful.render.prepare import prepare

DETAILS: Final = ("auto", "low", "high", "original")
_CONTENT: Final = (Text, Media)
AUDIO_FORMATS: Final = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def write_request(prompt: Prompt) -> Request:
    """Write the request.

    >>> said = Message(role="user", name="Ada", parts=(Text(text="Hi"),))
    >>> write_request(Prompt(model="gpt-4o", messages=(said,), max_output=99))["messages"]
    [{'role': 'user', 'name': 'Ada', 'content': 'Hi'}]
    """
    request: Request = {"model": prompt.model}
    if prompt.max_output is not None:
        request["max_completion_tokens"] = prompt.max_output
    if prompt.tools:
        request["tools"] = [function_tool(tool) for tool in prompt.tools]
    messages = prepare(prompt.messages, carries)
    written = [wire_message for message in messages for wire_message in _messages(message)]
    request["messages"] = written or [{"role": "user", "content": OPENING}]
    return request


def carries(media: Media) -> bool:
    """Say whether the wire takes this medium."""
    match media.modality:
        case "image":
            return bool(media.data) or media.url.startswith(("https://", "http://"))
        case "audio":
            return bool(media.data) and mime_type(media) in AUDIO_FORMATS
        case _:
            return False


def _messages(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        for part in message.parts:
            if isinstance(part, ToolResult):
                yield {"role": "tool", "tool_call_id": part.id, "content": part.content}
        return
    yield _spoken(message if not message.name or fits_name_field(message.name) else name_in_text(message))


def _spoken(message: Message) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message.role}
    if message.name:
        written["name"] = message.name
    match message.parts:
        case (Text(text=text),):  # most of any conversation
            written["content"] = text
            return written
    written["content"] = _content([part for part in message.parts if isinstance(part, _CONTENT)])
    calls = [_call(part) for part in message.parts if isinstance(part, ToolCall)]
    if calls:
        written["tool_calls"] = calls
    return written


def _content(parts: list[Text | Media]) -> str | list[dict[str, Any]] | None:
    match parts:
        case []:
            return None
        case [Text(text=text)]:
            return text
        case _:
            return [_block(part) for part in parts]


def _block(part: Text | Media) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Media(modality="audio"):
            sound = {"data": part.data, "format": AUDIO_FORMATS[mime_type(part)]}
            return {"type": "input_audio", "input_audio": sound}
        case Media():
            detail = part.detail if part.detail in DETAILS else "auto"
            return {"type": "image_url", "image_url": {"url": data_url(part), "detail": detail}}


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments_text(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}
