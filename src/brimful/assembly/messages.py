"""Messages as the SDKs of OpenAI, Anthropic and LangChain return them, converted to plain dicts."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from brimful.assembly.arguments import require_list
from brimful.core.content import Part, Role
from brimful.core.prompt import Message
from brimful.core.validation import preview
from brimful.errors import InvalidRequest, InvalidValue
from brimful.wires import Wire
from brimful.wires.encode import dump_model, encode_json
from brimful.wires.incoming import read_message
from brimful.wires.openai_chat import WIRE as OPENAI
from brimful.wires.openai_chat import read_history
from brimful.wires.registry import detect_wire
from brimful.wires.wire import has_role_and_content

_JSON_TYPES: Final = (dict, list, str, int, float, type(None))  # if one is wrong in a request, its reader says so


def plain_messages(messages: Iterable[object], wire: Wire = OPENAI) -> list[Any]:
    """Return messages as dicts. Objects of an SDK, LangChain messages and pydantic models are converted.

    Objects inside a dict stay: they are converted when the message is encoded.

    >>> plain_messages([{"role": "user", "content": "Hi"}])
    [{'role': 'user', 'content': 'Hi'}]
    """
    field = wire.message_field
    return [
        message if isinstance(message, _JSON_TYPES) else plain_message(message, wire, f"{field}[{i}]")
        for i, message in enumerate(require_list(field, messages))
    ]


def plain_fields(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request without objects of an SDK, such as the `config` of Google's, except in lists."""
    return {key: dump_model(value) if hasattr(value, "model_dump") else value for key, value in request.items()}


def read_messages(messages: Iterable[object]) -> tuple[Message, ...]:
    """Read messages in OpenAI's format, of any type."""
    plain = [
        message
        if not isinstance(message, dict) or (isinstance(message.get("content"), str) and "tool_calls" not in message)
        else msgspec.json.decode(encode_json(message, OPENAI.provider, f"messages[{i}]"))
        for i, message in enumerate(plain_messages(messages))
    ]
    return read_history(plain)


def plain_message(message: object, wire: Wire, field: str) -> dict[str, Any]:
    """Return a message as a dict."""
    try:
        data: dict[str, Any] = dict(message if isinstance(message, Mapping) else dump_model(message))
    except (TypeError, ValueError):
        raise InvalidValue(field, _describe(message)) from None
    if "type" in data and "additional_kwargs" in data:
        data = _from_langchain(data, wire, field)
    if not wire.is_message(data) and not isinstance(message, Mapping):
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
    message = plain_message({"role": "user", "content": value} if isinstance(value, list) else value, OPENAI, field)
    try:
        message = msgspec.json.decode(encode_json(message, OPENAI.provider, field))
    except InvalidRequest as error:
        raise InvalidValue(field, error.violations[0].removeprefix(f"{field}: ")) from None
    if not has_role_and_content(message):
        raise InvalidValue(field, _describe(value))
    read = read_message(message, detect_wire(message))
    if len(read) > 1:
        raise InvalidValue(field, "has both tool results and other content: use one message for each")
    return read[0].content, None if isinstance(value, list) else read[0].role


def _from_langchain(data: dict[str, Any], wire: Wire, field: str) -> dict[str, Any]:
    from brimful.formats.langchain import to_openai  # noqa: PLC0415 - only for LangChain's messages

    if not wire.has_openai_messages:
        reason = f"is a LangChain message, which can be used in OpenAI's wire format, not in {wire.name}"
        raise InvalidValue(field, reason)
    return {key: value for key, value in to_openai(data).items() if key not in ("id", "metadata")}


def _describe(message: object) -> str:
    known = "a dict with `role` and `content`, or a message of the openai, anthropic, google-genai or langchain package"
    name = preview(message) if isinstance(message, str | int | float | None) else type(message).__name__
    return f"must be a message: {known}, not {name}"
