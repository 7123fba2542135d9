"""Decode JSON from untrusted sources, and prepare msgspec decoders before threads start."""

import json
import re
from typing import Any, Final

import msgspec

from brimful.core.prompt import clean_data

_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def decode_json(data: str | bytes) -> Any:
    r"""Decode JSON. Escaped lone surrogates are replaced; anything else that is wrong is a ValueError.

    >>> decode_json('"a\\ud800"')
    'a�'
    >>> decode_json(b'{"a": NaN}')
    Traceback (most recent call last):
    ...
    ValueError: is not JSON: JSON is malformed: invalid character (byte 6)
    """
    try:
        return msgspec.json.decode(data)
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 text: {error.reason}") from None
    except RecursionError:
        raise ValueError("is not JSON: nested too deeply") from None
    except msgspec.DecodeError as error:
        decoded = _decode_with_surrogates(data)
        if decoded is None:
            raise ValueError(f"is not JSON: {error}") from None
        return decoded


def _decode_with_surrogates(data: str | bytes) -> Any:
    """Decode with Python's own parser, which accepts lone surrogates."""
    try:
        text = data if isinstance(data, str) else data.decode()
        return clean_data(json.loads(text, parse_constant=_reject_constant)) if _SURROGATE_ESCAPE.search(text) else None
    except (ValueError, RecursionError):
        return None


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def preload_types(*kinds: Any) -> None:
    """Create decoders for these types now.

    msgspec inspects a type when it is first decoded, and the process crashes if two threads start that at the same time
    (msgspec 0.22). So modules call this for the types they define, while they are imported by a single thread.
    """
    for kind in kinds:
        msgspec.json.Decoder(kind)
