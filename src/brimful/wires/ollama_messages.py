"""Ollama's messages as clients write them: read as neutral messages, and without images that became texts."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from brimful.core.content import Media, Part, Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Request
from brimful.core.validation import clean_text, is_whole_number
from brimful.wires.contents import NAME_ID, number_calls
from brimful.wires.parts import read_unknown, text_or_empty
from brimful.wires.tools import json_text

_ROLES: Final[dict[str, Role]] = {"system": "system", "assistant": "assistant"}
_OPTIONS: Final = "options"
_MAX_OUTPUT: Final = "num_predict"
_WINDOW: Final = "num_ctx"


def read_chat_message(message: Mapping[str, Any], *, current: bool) -> tuple[Message, ...]:
    """Read a message. `current` means that no user message follows it."""
    content = tuple(_read_text(message.get("content")))
    images = tuple(_read_images(message.get("images")))
    if message["role"] == "tool":
        name = text_or_empty(message.get("tool_name")) or text_or_empty(message.get("name"))
        text = "".join(part.text for part in content if isinstance(part, Text))
        id = text_or_empty(message.get("tool_call_id")) or NAME_ID + name
        return (Message(role="tool", parts=(ToolResult(id=id, name=name, content=text), *images)),)
    thoughts = [Text(text=text_or_empty(message["thinking"]))] if current and message.get("thinking") else []
    calls = number_calls(list(_read_calls(message.get("tool_calls"))))
    role = _ROLES.get(message["role"], "user")
    return (Message(role=role, parts=(*thoughts, *content, *images, *calls)),)


def _read_text(content: object) -> Iterator[Part]:
    if isinstance(content, str):
        yield from [Text(text=clean_text(content))] if content else []
    else:
        yield from read_unknown(content)


def _read_images(images: object) -> Iterator[Part]:
    for image in images if isinstance(images, list) else ():
        if isinstance(image, str) and image:
            yield Media(modality="image", data=clean_text(image))


def _read_calls(calls: object) -> Iterator[Part]:
    for call in calls if isinstance(calls, list) else ():
        match call:
            case {"function": {"name": str(name), **function}}:
                id = text_or_empty(call.get("id")) or NAME_ID + clean_text(name)
                yield ToolCall(id=id, name=clean_text(name), arguments=json_text(function.get("arguments") or {}))
            case _:
                yield from read_unknown(call)


def with_image_texts(message: dict[str, Any]) -> dict[str, Any]:
    r"""Return a message in which texts that replace images are part of its content.

    >>> with_image_texts({"role": "user", "content": "Look:", "images": ["aGk=", {"type": "text", "text": "[image]"}]})
    {'role': 'user', 'content': 'Look:\n\n[image]', 'images': ['aGk=']}
    """
    images = message.get("images")
    if not isinstance(images, list) or not any(isinstance(each, dict) for each in images):
        return message
    texts = [each["text"] for each in images if isinstance(each, dict)]
    left = [each for each in images if not isinstance(each, dict)]
    content = "\n\n".join(text for text in (message.get("content"), *texts) if text)
    changed = {key: left if key == "images" else value for key, value in message.items() if key != "images" or left}
    return changed | {"content": content}


def read_option(request: Request, name: str) -> int | None:
    """Return an option of a request, if it is a positive number."""
    options = request.get(_OPTIONS)
    value = options.get(name) if isinstance(options, Mapping) else None
    return int(value) if isinstance(value, int) and is_whole_number(value) else None


def read_max_output(request: Request) -> int | None:
    """Return the request's output limit, if it has one."""
    return read_option(request, _MAX_OUTPUT)


def read_window(request: Request) -> int | None:
    """Return the window that a request asks for, if it does."""
    return read_option(request, _WINDOW)


def write_max_output(request: Request, tokens: int) -> Request:
    """Return a request with an output limit, unless it has one of its own."""
    return request if read_max_output(request) is not None else _with_option(request, _MAX_OUTPUT, tokens)


def write_window(request: Request, tokens: int) -> Request:
    """Return a request that asks for a window, unless it asks for one itself.

    >>> write_window({"options": {"temperature": 0}}, 8192), write_window({"options": {"num_ctx": 4096}}, 8192)
    ({'options': {'temperature': 0, 'num_ctx': 8192}}, {'options': {'num_ctx': 4096}})
    """
    return request if read_window(request) is not None else _with_option(request, _WINDOW, tokens)


def _with_option(request: Request, name: str, value: int) -> Request:
    options = request.get(_OPTIONS)
    return {**request, _OPTIONS: {**(options if isinstance(options, Mapping) else {}), name: value}}
