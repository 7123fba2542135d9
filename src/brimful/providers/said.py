"""What a server says instead of an answer: many forms, one value."""

from typing import Any, Final

import msgspec

from brimful.core.lenient import decode_json

_LONGEST: Final = 4_000  # characters of a message that are looked at


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """An error as a server told it.

    `message` is its sentence, `kinds` are the words by which programs know it (type, code, status), `code` is an HTTP
    status within it, `facts` are all fields of it.
    """

    message: str
    kinds: frozenset[str] = frozenset()
    code: int | None = None
    facts: dict[str, Any] = {}


def read_error(body: bytes) -> Said:
    """Read the body of an error, whatever it is.

    >>> read_error(b'{"error": {"message": "No.", "type": "invalid_request_error", "code": 400}}').message
    'No.'
    >>> read_error(b'{"error": "model not found"}').message, read_error(b"<html>Bad Gateway").message
    ('model not found', '<html>Bad Gateway')
    """
    try:
        told = decode_json(body)
    except ValueError:
        return Said(message=_plain(body))
    if isinstance(told, list) and told:  # Gemini, where no events were asked for
        told = told[0]
    if not isinstance(told, dict):
        return Said(message=_plain(body))
    error = told.get("error")
    inner = error if isinstance(error, dict) else told
    message = _message(error) or _message(told) or _plain(body)
    return Said(message=message[:_LONGEST], kinds=_kinds(told, inner), code=_code(inner), facts=inner)


def _message(value: object) -> str:
    """Return the sentence: a text, or the field of an object that holds it, with what a router passes on behind it."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return ""
    sentence = next((text for key in ("message", "detail", "error") if (text := _message(value.get(key)))), "")
    metadata = value.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None  # OpenRouter
    return f"{sentence}: {raw}" if isinstance(raw, str) and raw else sentence


def _kinds(*objects: dict[str, Any]) -> frozenset[str]:
    words = (found.get(key) for found in objects for key in ("type", "code", "status", "error_type", "param"))
    return frozenset(word for word in words if isinstance(word, str))


def _code(inner: dict[str, Any]) -> int | None:
    code = inner.get("code")
    return code if type(code) is int and 400 <= code <= 599 else None  # noqa: PLR2004 - statuses of errors


def _plain(body: bytes) -> str:
    return " ".join(body[:_LONGEST].decode(errors="replace").split())
