"""What a value is asked before it goes into a record: cheap where all is well, clear where it is not.

Structs do not check their types, and a record that was written with a wrong one could not be read back. So each check
returns the value as the record will hold it, or raises with the field's name.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from brimful.errors import InvalidPackage, InvalidValue

LARGEST: Final = 2**53 - 1  # the largest whole number that every reader of JSON holds exactly
LATEST: Final = 253_402_300_800  # seconds since 1970: the end of the year 9999, and of what calendars know
_LONGEST_SHOWN: Final = 80  # characters of a wrong value in an error, which is one line

_Error = type[InvalidValue]


def shown(value: object) -> str:
    """Return how an error shows a wrong value.

    >>> shown(None), shown("x" * 99)[-3:], shown(10**9999), shown([10**9999])
    ('None', 'xx…', 'one beyond 9,007,199,254,740,991', 'list')
    """
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"one beyond {LARGEST:,}"
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python refuses to write numbers of many thousand digits
        return type(value).__name__
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def text(field: str, value: object, error: _Error = InvalidPackage) -> str:
    """Return a text. A text of another type (a `StrEnum`) becomes a plain one, as it will be when it is read back."""
    if type(value) is str:
        return value
    if not isinstance(value, str):
        raise error(field, f"must be a text, not {shown(value)}")
    return str.__str__(value)


def sound_text(field: str, value: object, error: _Error = InvalidPackage) -> str:
    r"""Return a text without lone surrogates, which no provider accepts and no file can hold.

    >>> sound_text("content.id", "call-\ud800")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidPackage: content.id: has a lone surrogate at character 5
    """
    plain = text(field, value, error)
    if not plain.isascii():
        try:
            plain.encode()
        except UnicodeEncodeError as found:
            raise error(field, f"has a lone surrogate at character {found.start}") from None
    return plain


def identifier(field: str, value: object, error: _Error = InvalidPackage) -> str:
    """Return a text that names something: neither empty nor broken. To mend it would make it another name."""
    plain = sound_text(field, value, error)
    if not plain:
        raise error(field, "must not be empty")
    return plain


def finite(value: object) -> float | None:
    """Return a finite number as a float, as which it is read back; None for anything else.

    >>> finite(30), finite(True), finite(10**400), finite(float("nan"))
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


def is_whole(value: object, low: int = 1) -> bool:
    """Say whether a value is a whole number from `low` up, and small enough for a record.

    >>> is_whole(7), is_whole(7.0), is_whole(True), is_whole(0), is_whole(10**400)
    (True, False, False, False, False)
    """
    return type(value) is int and low <= value <= LARGEST


def position(value: object) -> None:
    """Refuse what is no position."""
    if not is_whole(value, -LARGEST):
        raise InvalidPackage("position", f"must be a whole number, not {shown(value)}")


def timestamp(field: str, value: object, error: _Error = InvalidPackage) -> float:
    """Return a time as the float as which it is read back."""
    number = finite(value)
    if number is None:
        raise error(field, f"must be a finite number of seconds, not {shown(value)}")
    return number


def is_share(value: object) -> bool:
    """Say whether a value is a number from 0 to 1 as a record holds it."""
    return type(value) is float and 0.0 <= value <= 1.0


def moment(field: str, value: object, error: _Error = InvalidPackage) -> float:
    """Return a time that somebody tells now, which a calendar has; what is kept or imported may have any."""
    number = timestamp(field, value, error)
    if abs(number) > LATEST:
        raise error(field, f"{shown(value)} is in no calendar: it must be in seconds since 1970, not in milliseconds")
    return number


def share(field: str, value: object, error: _Error = InvalidPackage) -> float:
    """Return a number from 0 to 1."""
    number = finite(value)
    if number is None or not 0.0 <= number <= 1.0:
        raise error(field, f"must be a number from 0 to 1, not {shown(value)}")
    return number


def duration(field: str, value: object) -> float:
    """Return how many seconds something lasts."""
    number = finite(value)
    if number is None or not 0.0 < number <= LARGEST:
        raise InvalidPackage(field, f"must be a positive number, not {shown(value)}")
    return number


def json_object(field: str, value: object, error: _Error = InvalidPackage) -> dict[str, Any]:
    """Return a mapping as the JSON data that it will be in the record: a copy, without tuples, dates or NaN.

    >>> json_object("metadata", {"pair": (1, float("nan"))})
    {'pair': [1, None]}
    """
    if not isinstance(value, Mapping):
        raise error(field, f"must be a dict, not {shown(value)}")
    try:
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value if type(value) is dict else dict(value)))
    except (TypeError, ValueError, OverflowError, RecursionError) as cause:
        raise error(field, f"must be plain JSON data ({cause})") from None
    return plain


def settle(value: msgspec.Struct, field: str, checked: Callable[[str, Any], object], prefix: str = "content.") -> None:
    """Put a field into the form that the record will hold, or refuse it by name."""
    given = getattr(value, field)
    plain = checked(prefix + field, given)
    if plain is not given:
        msgspec.structs.force_setattr(value, field, plain)
