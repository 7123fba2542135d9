"""Messages as the SDKs of OpenAI, Anthropic and LangChain return them, converted to plain dicts."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from brimful.assembly.arguments import require_list
from brimful.core.content import Part, Role
from brimful.core.prompt import Message
from brimful.core.validation import preview
from brimful.errors import InvalidRequest, InvalidValue
from brimful.wires import read_history
from brimful.wires.incoming import MESSAGE_FIELDS, IncomingWire, dump_model, encode_json, read_message

_JSON_TYPES: Final = (dict, list, str, int, float, type(None))  # if one is wrong in a request, its reader says so
_CONTENT_FIELDS: Final = ("content", "tool_calls", "function_call")
_ANTHROPIC_BLOCKS: Final = frozenset(("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"))
"""Types of blocks that only Anthropic's messages have."""


def plain_messages(messages: Iterable[object], wire: IncomingWire = "openai") -> list[Any]:
    """Return messages as dicts. Objects of an SDK, LangChain messages and pydantic models are converted.

    Objects inside a dict stay: they are converted when the message is encoded.

    >>> plain_messages([{"role": "user", "content": "Hi"}])
    [{'role': 'user', 'content': 'Hi'}]
    """
    field = MESSAGE_FIELDS.get(wire, "messages")
    return [
        message if isinstance(message, _JSON_TYPES) else plain_message(message, wire, f"{field}[{at}]")
        for at, message in enumerate(require_list(field, messages))
    ]


def plain_fields(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request without objects of an SDK, such as the `config` of Google's, except in lists."""
    return {key: dump_model(value) if hasattr(value, "model_dump") else value for key, value in request.items()}


def read_messages(messages: Iterable[object]) -> tuple[Message, ...]:
    """Read messages in OpenAI's format, of any type."""
    plain = [
        message
        if not isinstance(message, dict) or (isinstance(message.get("content"), str) and "tool_calls" not in message)
        else msgspec.json.decode(encode_json(message, "openai", f"messages[{at}]"))
        for at, message in enumerate(plain_messages(messages))
    ]
    return read_history(plain)


def plain_message(message: object, wire: IncomingWire, field: str) -> dict[str, Any]:
    """Return a message as a dict."""
    try:
        data: dict[str, Any] = dict(message if isinstance(message, Mapping) else dump_model(message))
    except (TypeError, ValueError):
        raise InvalidValue(field, _describe(message)) from None
    if "type" in data and "additional_kwargs" in data:
        data = _from_langchain(data, wire, field)
    has_content = isinstance(data.get("role"), str) and not data.keys().isdisjoint(_CONTENT_FIELDS)
    has_content = has_content or (wire == "gemini" and "parts" in data)
    is_item = wire == "responses" and isinstance(data.get("type"), str)
    if not has_content and not is_item and not isinstance(message, Mapping):
        raise InvalidValue(field, _describe(message))
    return data


def read_content(value: object, field: str) -> tuple[str | tuple[Part, ...], Role | None]:
    """Return the content of a message, and its role if `value` is a whole message: a dict or an object of an SDK.

    >>> read_content({"role": "assistant", "content": "Tea."}, "content")
    ('Tea.', 'assistant')
    """
    if isinstance(value, str | tuple):
        return cast("str | tuple[Part, ...]", value), None
    if isinstance(value, list) and all(isinstance(part, Part) for part in value):
        return tuple(value), None
    message = plain_message({"role": "user", "content": value} if isinstance(value, list) else value, "openai", field)
    try:
        message = msgspec.json.decode(encode_json(message, "openai", field))
    except InvalidRequest as error:
        raise InvalidValue(field, error.violations[0].removeprefix(f"{field}: ")) from None
    if not isinstance(message.get("role"), str) or message.keys().isdisjoint(_CONTENT_FIELDS):
        raise InvalidValue(field, _describe(value))
    read = read_message(message, "anthropic" if _is_anthropic(message) else "openai")
    if len(read) > 1:
        raise InvalidValue(field, "has both tool results and other content: use one message for each")
    return read[0].content, None if isinstance(value, list) else read[0].role


def _from_langchain(data: dict[str, Any], wire: IncomingWire, field: str) -> dict[str, Any]:
    from brimful.formats.langchain import to_openai  # noqa: PLC0415 - only for LangChain's messages

    if wire != "openai":
        raise InvalidValue(field, f"is a LangChain message, which can be used in OpenAI's wire format, not in {wire}")
    return {key: value for key, value in to_openai(data).items() if key not in ("id", "metadata")}


def _is_anthropic(message: dict[str, Any]) -> bool:
    blocks = message.get("content")
    return isinstance(blocks, list) and any(
        isinstance(block, dict) and block.get("type") in _ANTHROPIC_BLOCKS for block in blocks
    )


def _describe(message: object) -> str:
    known = "a dict with `role` and `content`, or a message of the openai, anthropic, google-genai or langchain package"
    name = preview(message) if isinstance(message, str | int | float | None) else type(message).__name__
    return f"must be a message: {known}, not {name}"
