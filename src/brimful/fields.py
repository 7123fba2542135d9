"""What the fields of a record are asked before a store takes them."""

import re
from typing import Any, Final

import msgspec

from brimful.core import check
from brimful.core.content import Part, clean_text
from brimful.errors import InvalidValue

SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
MOST_WHOLE: Final = 10**12  # no room, no counter and no order needs more


def settle_fields(
    record: msgspec.Struct,
    *,
    texts: tuple[str, ...] = (),
    refs: tuple[str, ...] = (),
    ids: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    times: tuple[str, ...] = (),
    objects: tuple[str, ...] = (),
) -> None:
    """Check the fields of a record by what they are; texts lose their lone surrogates, which no file can hold."""
    for field in ("id", *refs):
        check.settle(record, field, identifier, "")
    for field in optional:
        if getattr(record, field) is not None:
            check.settle(record, field, identifier, "")
    for field in texts:
        check.settle(record, field, text, "")
    for field in times:
        check.settle(record, field, timestamp, "")
    for field in ids:
        check_texts(field, getattr(record, field))
    for field in (*objects, "metadata") if "metadata" in record.__struct_fields__ else objects:
        check.settle(record, field, json_object, "")


def check_whole(field: str, value: object, low: int = 0) -> None:
    """Refuse what is no whole number of a sane size."""
    if type(value) is not int or not low <= value <= MOST_WHOLE:
        raise InvalidValue(field, f"must be a whole number from {low:,} to {MOST_WHOLE:,}, not {check.shown(value)}")


def is_plain_name(name: object) -> bool:
    """Say whether a name needs no second look."""
    return type(name) is str and name.isascii() and name != "" and "\0" not in name


def identifier(field: str, value: object) -> str:
    """Return a name that every store can hold."""
    plain = check.identifier(field, value, InvalidValue)
    if "\0" in plain:
        raise InvalidValue(field, "has a null character, which no name may have")
    return plain


def share(field: str, value: object) -> float:
    """Return a number from 0 to 1."""
    return check.share(field, value, InvalidValue)


def text(field: str, value: object) -> str:
    """Return a text without lone surrogates."""
    return clean_text(check.text(field, value, InvalidValue))


def content(field: str, value: object) -> str | tuple[Part, ...]:
    """Return what a message may hold."""
    if isinstance(value, str):
        return text(field, value)
    if not isinstance(value, tuple) or not value or not all(isinstance(part, Part) for part in value):
        raise InvalidValue(field, f"must be a text or a tuple of parts, not {check.shown(value)}")
    return value


def timestamp(field: str, value: object) -> float:
    """Return a time."""
    return check.timestamp(field, value, InvalidValue)


def duration(value: object, field: str = "time") -> float:
    """Return the seconds of a time such as 90m, 24h or 7d.

    >>> duration("90m"), duration("30d")
    (5400.0, 2592000.0)
    """
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)([smhdw])", value.strip()) if isinstance(value, str) else None
    if found is None:
        raise InvalidValue(field, f"{check.shown(value)} is not like 90m, 24h or 7d")
    return float(found[1]) * SECONDS[found[2]]


def json_object(field: str, value: object) -> dict[str, Any]:
    """Return plain JSON data."""
    return check.json_object(field, value, InvalidValue)


def check_texts(field: str, values: object) -> None:
    """Refuse what is no tuple of texts."""
    if not isinstance(values, tuple):
        raise InvalidValue(field, f"must be a tuple of texts, not {check.shown(values)}")
    for at, value in enumerate(values):
        check.sound_text(f"{field}[{at}]", value, InvalidValue)


def check_spans(field: str, values: object) -> None:
    """Refuse what is no tuple of spans, each from one place to another that is not before it, in order."""
    if not isinstance(values, tuple):
        raise InvalidValue(field, f"must be a tuple of spans, not {check.shown(values)}")
    end = 0
    for at, span in enumerate(values):
        whole = isinstance(span, tuple) and all(check.is_whole(place, 0) for place in span)
        if not whole or len(span) != len(("first", "last")) or not end <= span[0] <= span[1] <= MOST_WHOLE:
            raise InvalidValue(f"{field}[{at}]", f"must be two places, in order, not {check.shown(span)}")
        end = span[1] + 1
