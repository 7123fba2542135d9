"""The base class of all records, and the validation of their fields."""

import re
from typing import Any, Final

import msgspec

from brimful.core import validation
from brimful.core.content import Part
from brimful.core.validation import clean_text
from brimful.errors import InvalidValue

UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
MAX_INTEGER: Final = 10**12  # larger than any sequence number, count or order


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="record"):
    """A value with an id in a store. Encoded as JSON, it has a `record` field with its kind."""

    id: str


def normalize_fields(
    record: msgspec.Struct,
    *,
    texts: tuple[str, ...] = (),
    refs: tuple[str, ...] = (),
    ids: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    times: tuple[str, ...] = (),
    objects: tuple[str, ...] = (),
) -> None:
    """Validate the fields of a record, and remove lone surrogates from strings."""
    for field in ("id", *refs):
        validation.normalize_field(record, field, validate_id, "")
    for field in optional:
        if getattr(record, field) is not None:
            validation.normalize_field(record, field, validate_id, "")
    for field in texts:
        validation.normalize_field(record, field, validate_string, "")
    for field in times:
        validation.normalize_field(record, field, validate_time, "")
    for field in ids:
        check_strings(field, getattr(record, field))
    for field in (*objects, "metadata") if "metadata" in record.__struct_fields__ else objects:
        validation.normalize_field(record, field, validate_json_object, "")


def check_integer(field: str, value: object, low: int = 0) -> None:
    """Raise if a value is not a whole number in range."""
    if type(value) is not int or not low <= value <= MAX_INTEGER:
        raise InvalidValue(
            field, f"must be a whole number from {low:,} to {MAX_INTEGER:,}, not {validation.preview(value)}"
        )


def is_plain_name(name: object) -> bool:
    """Tell whether a name needs no further validation."""
    return type(name) is str and name.isascii() and name != "" and "\0" not in name


def validate_id(field: str, value: object) -> str:
    """Return a valid id."""
    plain = validation.require_id(field, value, InvalidValue)
    if "\0" in plain:
        raise InvalidValue(field, "must not contain a null character")
    return plain


def validate_share(field: str, value: object) -> float:
    """Return a number from 0 to 1."""
    return validation.require_fraction(field, value, InvalidValue)


def validate_string(field: str, value: object) -> str:
    """Return a string without lone surrogates."""
    return clean_text(validation.require_text(field, value, InvalidValue))


def validate_content(field: str, value: object) -> str | tuple[Part, ...]:
    """Return the content of a message."""
    if isinstance(value, str):
        return validate_string(field, value)
    if not isinstance(value, tuple) or not value or not all(isinstance(part, Part) for part in value):
        raise InvalidValue(field, f"must be a string or a tuple of parts, not {validation.preview(value)}")
    return value


def validate_time(field: str, value: object) -> float:
    """Return a timestamp."""
    return validation.require_timestamp(field, value, InvalidValue)


def parse_duration(value: object, field: str = "time") -> float:
    """Return the seconds of a duration such as 90m, 24h or 7d.

    >>> parse_duration("90m"), parse_duration("30d")
    (5400.0, 2592000.0)
    """
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)([smhdw])", value.strip()) if isinstance(value, str) else None
    if found is None:
        raise InvalidValue(field, f"{validation.preview(value)} is not a duration such as 90m, 24h or 7d")
    return float(found[1]) * UNIT_SECONDS[found[2]]


def validate_json_object(field: str, value: object) -> dict[str, Any]:
    return validation.require_json_object(field, value, InvalidValue)


def check_strings(field: str, values: object) -> None:
    """Raise if a value is not a tuple of strings."""
    if not isinstance(values, tuple):
        raise InvalidValue(field, f"must be a tuple of strings, not {validation.preview(values)}")
    for index, value in enumerate(values):
        validation.require_unicode(f"{field}[{index}]", value, InvalidValue)


def check_spans(field: str, values: object) -> None:
    """Raise if a value is not a tuple of spans (first, last), in order and without overlap."""
    if not isinstance(values, tuple):
        raise InvalidValue(field, f"must be a tuple of spans, not {validation.preview(values)}")
    end = 0
    for index, span in enumerate(values):
        whole = isinstance(span, tuple) and all(validation.is_whole_number(seq, 0) for seq in span)
        if not whole or len(span) != len(("first", "last")) or not end <= span[0] <= span[1] <= MAX_INTEGER:
            raise InvalidValue(f"{field}[{index}]", f"must be two positions, in order, not {validation.preview(span)}")
        end = span[1] + 1
