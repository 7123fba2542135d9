"""Objects of SDKs as plain data, and plain data as JSON."""

from typing import Any

import msgspec

from brimful.core.validation import MAX_DEPTH, TOO_DEEP, clean_data, is_too_deep
from brimful.errors import InvalidRequest


def encode_json(value: object, provider: str, field: str) -> bytes:
    """Encode a value as JSON. Lone surrogates, which no provider accepts, are replaced."""
    try:
        try:
            raw = msgspec.json.encode(value, enc_hook=dump_model)
        except UnicodeEncodeError:
            raw = msgspec.json.encode(clean_data(value), enc_hook=lambda each: clean_data(dump_model(each)))
        is_flat = raw.find(b"{", 1) < 0 and raw.find(b"[", 1) < 0  # as most messages are
        may_be_deep = not is_flat and raw.count(b"[") + raw.count(b"{") > MAX_DEPTH
        too_deep = may_be_deep and is_too_deep(msgspec.json.decode(raw))
    except RecursionError:
        too_deep = True
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidRequest(provider, [f"{field}: must be plain JSON data ({error})"]) from None
    if too_deep:
        raise InvalidRequest(provider, [f"{field}: {TOO_DEEP}"])
    return raw


def dump_model(value: Any) -> Any:
    """Return an object of an SDK (a pydantic model) as plain data, without what the API does not take back."""
    if isinstance(value, type) or not callable(getattr(value, "model_dump", None)):
        raise TypeError(f"{type(value).__name__} is not JSON data")
    if getattr(value, "type", None) == "message" and hasattr(value, "stop_reason"):  # Anthropic's, with usage and model
        return {"role": value.role, "content": value.content}
    data = value.model_dump(exclude_none=True, exclude=getattr(value, "__api_exclude__", None))
    return (
        {**data, "tool_calls": list(map(_sendable_call, data["tool_calls"]))}
        if "tool_calls" in data
        else _sendable_call(data)
    )


def _sendable_call(call: Any) -> Any:
    """Return a tool call of OpenAI's SDK without what only streams and parsed answers have."""
    match call:
        case {"id": _, "function": {"name": _, **function}}:
            own = {"name": call["function"]["name"]} | {
                key: item for key, item in function.items() if key != "parsed_arguments"
            }
            return {key: own if key == "function" else item for key, item in call.items() if key != "index"}
        case _:
            return call
