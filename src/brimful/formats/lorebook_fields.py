"""Map a field of ours to where a lorebook format stores it, in both directions.

A file that is imported and exported again stays the same: unknown fields, missing fields and values written in an
unusual way are preserved. Only what changed in the meantime is rewritten. Values are read leniently, since many
programs and versions have written them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from brimful.core.validation import clean_text, to_finite_float
from brimful.records.base import MAX_INTEGER
from brimful.records.lorebook import Logic

JsonObject = Mapping[str, Any]
KeyPath = tuple[str, ...]
Values = dict[str, Any]
EXTENSIONS: Final = "extensions"
BRIMFUL_EXTENSION: Final = "brimful"  # under `extensions`: what the format has no field for

_CANONICAL: Final = msgspec.json.Encoder(order="deterministic")
LOGIC_NUMBERS: Final[tuple[Logic, ...]] = ("and-any", "not-all", "not-any", "and-all")
"""Secondary logics by SillyTavern's numbers."""


class Field(NamedTuple):
    """Fields of a record by their `names`, the `paths` where a format stores them, and how to convert them."""

    names: tuple[str, ...]
    paths: tuple[KeyPath, ...]
    read: Callable[[JsonObject], tuple[Any, ...]]
    write: Callable[..., dict[KeyPath, Any]]


class ReadFields(NamedTuple):
    """What was read: the values of our fields, the rest of the object, and paths that it did not have."""

    values: Values
    rest: dict[str, Any]
    absent: list[list[str]]


def read_fields(raw: JsonObject, fields: Iterable[Field]) -> ReadFields:
    """Read our fields from an object. Whatever we would write differently stays in the rest."""
    rest = _copy(raw)
    values: Values = {}
    absent: list[list[str]] = []
    for field in fields:
        read = field.read(raw)
        values.update(zip(field.names, read, strict=True))
        written = field.write(*read)
        present = {path: value[0] for path in field.paths if (value := value_at(raw, path))}
        if _is_same_json(written, present):
            _remove_values(rest, field.paths)
        else:
            absent += [list(path) for path in written if path not in present]
    return ReadFields(values, rest, absent)


def write_fields(
    values: Values, rest: JsonObject, absent: Sequence[Sequence[str]], fields: Sequence[Field]
) -> dict[str, Any]:
    """Return the rest of an object with our fields added; anything in it that contradicts them is replaced."""
    raw = _copy(rest)
    missing = {tuple(path) for path in absent}
    for field in fields:
        if not any(path in missing or value_at(raw, path) for path in field.paths):
            _set_values(raw, field.write(*(values[name] for name in field.names)))
    for field in fields:
        current = tuple(values[name] for name in field.names)
        if field.read(raw) != current:
            _remove_values(raw, field.paths)
            _set_values(raw, field.write(*current))
    return raw


def unexpressed_values(values: Values, raw: JsonObject, fields: Iterable[Field], defaults: Values) -> Values:
    """Return the values that a written object does not express."""
    expressed: Values = dict(defaults)
    for field in fields:
        expressed.update(zip(field.names, field.read(raw), strict=True))
    return {name: value for name, value in values.items() if name in expressed and expressed[name] != value}


def value_at(raw: JsonObject, path: KeyPath) -> tuple[Any] | tuple[()]:
    """Return the value at a path as a tuple; an empty one if there is none."""
    value: Any = raw
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return ()
        value = value[name]
    return (value,)


def _is_same_json(one: Mapping[KeyPath, Any], other: Mapping[KeyPath, Any]) -> bool:
    """Return whether two objects are the same JSON, in which 1 is neither 1.0 nor true."""
    if one.keys() != other.keys():
        return False
    return all(_CANONICAL.encode(one[path]) == _CANONICAL.encode(other[path]) for path in one)


def _copy(raw: JsonObject) -> dict[str, Any]:
    """Return a copy that can be changed at any path."""
    inner = raw.get(EXTENSIONS)
    return {**raw, EXTENSIONS: dict(inner)} if isinstance(inner, Mapping) else dict(raw)


def _set_values(raw: dict[str, Any], written: Mapping[KeyPath, Any]) -> None:
    for (*outer, name), value in written.items():
        target = raw
        for each in outer:
            inner = target.get(each)
            target[each] = target = inner if isinstance(inner, dict) else {}
        target[name] = value


def _remove_values(raw: dict[str, Any], paths: Iterable[KeyPath]) -> None:
    for *outer, name in paths:
        target: Any = raw
        for each in outer:
            target = target.get(each) if isinstance(target, dict) else None
        if isinstance(target, dict):
            target.pop(name, None)


def clean_str(value: object) -> str:
    """Return a cleaned string; an empty one for any other type."""
    return clean_text(value) if isinstance(value, str) else ""


def clean_strs(value: object) -> tuple[str, ...]:
    """Return the cleaned strings of a list."""
    return tuple(clean_text(each) for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def int_in_range(value: object, default: int, low: int = 0) -> int:
    """Return an integer within limits, or else the default; `true` is 1, as in older files."""
    if isinstance(value, bool):
        return int(value)
    number = to_finite_float(value)
    return default if number is None or not low <= int(number) <= MAX_INTEGER else int(number)


def bool_or_none(value: object) -> bool | None:
    """Return a boolean, or None for any other type."""
    return value if isinstance(value, bool) else None


def share_from_percent(value: object) -> float:
    """Return a share from a percentage; 1 for any other type."""
    number = to_finite_float(value)
    return 1.0 if number is None else round(min(100.0, max(0.0, number)) / 100, 6)


def percent_from_share(share: float) -> float:
    """Return a percentage, as an integer if it is whole.

    >>> percent_from_share(0.5), percent_from_share(0.125)
    (50, 12.5)
    """
    number = round(share * 100, 4)
    return int(number) if number == int(number) else number


def split_names(value: object) -> tuple[str, ...]:
    """Return the names in a comma-separated string.

    >>> split_names("weather, mood,")
    ('weather', 'mood')
    """
    return tuple(name for each in clean_str(value).split(",") if (name := each.strip()))


def first_present(raw: JsonObject, *paths: KeyPath) -> object:
    """Return the first value that is present and not null."""
    values = (value_at(raw, path) for path in paths)
    return next((each[0] for each in values if each and each[0] is not None), None)


# -- fields of one path ----------------------------------------------------------------------------------------------


def required_field(
    name: str, path: KeyPath, read: Callable[[Any], Any], write: Callable[[Any], Any] = lambda value: value
) -> Field:
    """Return a field that is always written."""

    def read_value(raw: JsonObject) -> tuple[Any, ...]:
        return (read(first_present(raw, path)),)

    return Field((name,), (path,), read_value, lambda value: {path: write(value)})


def optional_field(
    name: str,
    path: KeyPath,
    read: Callable[[Any], Any],
    default: Any,
    write: Callable[[Any], Any] = lambda value: value,
) -> Field:
    """Return a field that is written unless it has its default."""

    def read_value(raw: JsonObject) -> tuple[Any, ...]:
        return (read(first_present(raw, path)),)

    return Field((name,), (path,), read_value, lambda value: {} if value == default else {path: write(value)})


def is_true(value: object) -> bool:
    return value is True


def count_or_zero(value: object) -> int:
    """Return a number of messages, or 0."""
    return int_in_range(value, 0)


def none_if_zero(value: int) -> int | None:
    """Return a number of messages, or None for 0."""
    return value or None


def int_or_none(value: object) -> int | None:
    """Return an integer, or None if it is missing or negative."""
    number = int_in_range(value, -1)
    return None if value is None or number < 0 else number


def logic_from_number(value: object) -> Logic:
    """Return a secondary logic by its number."""
    number = int_in_range(value, 0)
    return LOGIC_NUMBERS[number] if number < len(LOGIC_NUMBERS) else "and-any"
