"""Validation of values before they enter a record, and JSON from untrusted sources.

Structs do not check their types, and a record written with a wrong type could not be read back. Each function returns
the value as the record will hold it, or raises an error that names the field.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

from brimful.errors import InvalidPackage, InvalidValue

MAX_INTEGER: Final = 2**53 - 1  # the largest integer that every JSON parser represents exactly
MAX_TIMESTAMP: Final = 253_402_300_800  # seconds since 1970: the end of the year 9999
MAX_DEPTH: Final = (
    128  # levels of objects and arrays in JSON data: the limit of serde_json, and far below Python's stack
)
TOO_DEEP: Final = f"is nested more than {MAX_DEPTH} levels deep"
_CONTAINERS: Final = frozenset({dict, list})
_MAX_PREVIEW_LENGTH: Final = 80  # characters; errors are one line

_ErrorType = type[InvalidValue]


def preview(value: object) -> str:
    """Return a short representation of an invalid value for an error message.

    >>> preview(None), preview("x" * 99)[-3:], preview(10**9999), preview([10**9999])
    ('None', 'xx…', 'one beyond 9,007,199,254,740,991', 'list')
    """
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        return f"one beyond {MAX_INTEGER:,}"
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python does not print numbers with thousands of digits
        return type(value).__name__
    return text if len(text) <= _MAX_PREVIEW_LENGTH else text[: _MAX_PREVIEW_LENGTH - 1] + "…"


def require_text(field: str, value: object, error: _ErrorType = InvalidPackage) -> str:
    """Return a plain string. A subclass such as `StrEnum` becomes a `str`, as it will be when it is read back."""
    if type(value) is str:
        return value
    if not isinstance(value, str):
        raise error(field, f"must be a string, not {preview(value)}")
    return str.__str__(value)


def require_unicode(field: str, value: object, error: _ErrorType = InvalidPackage) -> str:
    r"""Return a string without lone surrogates, which cannot be encoded as UTF-8.

    >>> require_unicode("content.id", "call-\ud800")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidPackage: content.id: has a lone surrogate at character 5
    """
    plain = require_text(field, value, error)
    if not plain.isascii():
        try:
            plain.encode()
        except UnicodeEncodeError as found:
            raise error(field, f"has a lone surrogate at character {found.start}") from None
    return plain


def require_id(field: str, value: object, error: _ErrorType = InvalidPackage) -> str:
    """Return a non-empty string that can be encoded. It is not repaired, because that would make it another id."""
    plain = require_unicode(field, value, error)
    if not plain:
        raise error(field, "must not be empty")
    return plain


def to_finite_float(value: object) -> float | None:
    """Return a finite number as a float; None for anything else.

    >>> to_finite_float(30), to_finite_float(True), to_finite_float(10**400), to_finite_float(float("nan"))
    (30.0, None, None, None)
    """
    if type(value) is float:
        return value if math.isfinite(value) else None
    if not isinstance(value, float | int) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def is_whole_number(value: object, low: int = 1) -> bool:
    """Whether a value is an integer of at least `low` and at most `MAX_INTEGER`.

    >>> is_whole_number(7), is_whole_number(7.0), is_whole_number(True), is_whole_number(0), is_whole_number(10**400)
    (True, False, False, False, False)
    """
    return type(value) is int and low <= value <= MAX_INTEGER


def require_position(value: object) -> None:
    """Raise `InvalidPackage` unless the value is a position."""
    if not is_whole_number(value, -MAX_INTEGER):
        raise InvalidPackage("position", f"must be a whole number, not {preview(value)}")


def require_timestamp(field: str, value: object, error: _ErrorType = InvalidPackage) -> float:
    number = to_finite_float(value)
    if number is None:
        raise error(field, f"must be a finite number of seconds, not {preview(value)}")
    return number


def is_fraction(value: object) -> bool:
    """Whether a value is a float from 0 to 1."""
    return type(value) is float and 0.0 <= value <= 1.0


def require_calendar_time(field: str, value: object, error: _ErrorType = InvalidPackage) -> float:
    """Return a timestamp that is a calendar date. Stored and imported timestamps may be out of that range."""
    number = require_timestamp(field, value, error)
    if abs(number) > MAX_TIMESTAMP:
        raise error(field, f"{preview(value)} is out of range: it must be in seconds since 1970, not in milliseconds")
    return number


def require_fraction(field: str, value: object, error: _ErrorType = InvalidPackage) -> float:
    """Return a number from 0 to 1."""
    number = to_finite_float(value)
    if number is None or not 0.0 <= number <= 1.0:
        raise error(field, f"must be a number from 0 to 1, not {preview(value)}")
    return number


def require_duration(field: str, value: object) -> float:
    """Return a positive number of seconds."""
    number = to_finite_float(value)
    if number is None or not 0.0 < number <= MAX_INTEGER:
        raise InvalidPackage(field, f"must be a positive number, not {preview(value)}")
    return number


def is_too_deep(value: object) -> bool:
    """Whether plain JSON data is nested deeper than `MAX_DEPTH`."""
    level: list[Any] = [value] if type(value) in _CONTAINERS else []
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        values = (each.values() if isinstance(each, dict) else each for each in level)
        level = [item for items in values for item in items if type(item) in _CONTAINERS]
    return bool(level)


def _is_plain_field(key: object, value: object) -> bool:
    """Whether a field of an object is plain JSON data for sure: most metadata has only names and flags."""
    is_simple = value is None or type(value) is bool or (type(value) is str and value.isascii())
    return is_simple and type(key) is str and key.isascii()


def require_json_object(field: str, value: object, error: _ErrorType = InvalidPackage) -> dict[str, Any]:
    """Return a mapping as plain JSON data: a copy without tuples, dates or NaN.

    >>> require_json_object("metadata", {"pair": (1, float("nan"))})
    {'pair': [1, None]}
    """
    if not isinstance(value, Mapping):
        raise error(field, f"must be a dict, not {preview(value)}")
    if type(value) is dict and all(map(_is_plain_field, value, value.values())):
        return value.copy()
    try:
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value if type(value) is dict else dict(value)))
    except RecursionError:
        raise error(field, TOO_DEEP) from None
    except (TypeError, ValueError, OverflowError) as cause:
        raise error(field, f"must be plain JSON data ({cause})") from None
    if is_too_deep(plain):
        raise error(field, TOO_DEEP)
    return plain


def normalize_field(
    value: msgspec.Struct, field: str, checked: Callable[[str, Any], object], prefix: str = "content."
) -> None:
    """Replace a field of a struct by its validated value."""
    original = getattr(value, field)
    plain = checked(prefix + field, original)
    if plain is not original:
        msgspec.structs.force_setattr(value, field, plain)


def clean_text(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded as UTF-8.

    >>> clean_text("a" + chr(0xD800) + "b")
    'a\N{REPLACEMENT CHARACTER}b'
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_data(value: object) -> object:
    r"""Replace lone surrogates everywhere in JSON data.

    >>> clean_data({"a": ["x\ud800"]}) == {"a": ["x\ufffd"]}
    True
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("keys must be strings")
        return {clean_text(key): clean_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_data(item) for item in value]
    return value


_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE: Final = rb"\u003"  # the start of an escaped colon


def decode_json(data: str | bytes) -> Any:
    r"""Decode JSON. Escaped lone surrogates are replaced; anything else that is wrong is a ValueError.

    Code that handles the result may be recursive, so data that is nested too deeply is refused here.

    >>> decode_json('"a\\ud800"')
    'a�'
    >>> decode_json(b'{"a": NaN}')
    Traceback (most recent call last):
    ...
    ValueError: is not JSON: JSON is malformed: invalid character (byte 6)
    """
    try:
        decoded = msgspec.json.decode(data)
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 text: {error.reason}") from None
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    except msgspec.DecodeError as error:
        decoded = _decode_with_surrogates(data)
        if decoded is None:
            raise ValueError(f"is not JSON: {error}") from None
    if is_too_deep(decoded):
        raise ValueError(TOO_DEEP)
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


def find_duplicate_key(data: bytes, decoded: Any) -> str | None:
    """Return a key that occurs twice in one object of a JSON document, which parsers read differently.

    `decoded` is the document as `decode_json` returned it.

    >>> find_duplicate_key(b'{"model": "a", "model": "b"}', {"model": "b"})
    'model'
    """
    # A colon follows each key. Without escaped ones, the decoded data has as many colons unless keys were dropped.
    if data.count(b":") == msgspec.json.encode(decoded).count(b":") and _ESCAPE not in data:
        return None
    duplicates: list[str] = []

    def collect(pairs: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                duplicates.append(key)
                return
            seen.add(key)

    json.loads(data.decode(), object_pairs_hook=collect)
    return duplicates[0] if duplicates else None


def preload_types(*kinds: Any) -> None:
    """Create decoders for these types now.

    msgspec inspects a type when it is first decoded, and the process crashes if two threads start that at the same time
    (msgspec 0.22). So modules call this for the types they define, while they are imported by a single thread.
    """
    for kind in kinds:
        msgspec.json.Decoder(kind)


@lru_cache(256)
def is_timezone(name: str) -> bool:
    """Whether it is the name of a time zone. `UTC` is one on machines without a database of time zones, too."""
    try:
        return name == "UTC" or bool(ZoneInfo(name))
    except (ValueError, OSError, LookupError):
        return False
