"""Map a field of ours to where a lorebook format stores it, in both directions.

A file that is imported and exported again stays the same: unknown fields, missing fields and values written in an
unusual way are preserved. Only what changed in the meantime is written anew. Values are read leniently, since many
programs and versions have written them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from brimful.core.content import clean_text
from brimful.core.validation import to_finite_float
from brimful.records.base import MAX_INTEGER
from brimful.records.lorebook import Logic

JsonObject = Mapping[str, Any]
KeyPath = tuple[str, ...]
Values = dict[str, Any]
EXTENSIONS: Final = "extensions"
BRIMFUL_EXTENSION: Final = "brimful"  # under `extensions`: what the format has no place for

_CANONICAL: Final = msgspec.json.Encoder(order="deterministic")


class Field(NamedTuple):
    """Fields of a record by their `names`, the `paths` at which a format has them, and the way there and back."""

    names: tuple[str, ...]
    paths: tuple[KeyPath, ...]
    read: Callable[[JsonObject], tuple[Any, ...]]
    write: Callable[..., dict[KeyPath, Any]]


class ReadFields(NamedTuple):
    """The values of our fields, extra data to keep besides them, and paths that were absent."""

    values: Values
    extra: dict[str, Any]
    absent: list[list[str]]


def read_fields(raw: JsonObject, fields: Iterable[Field]) -> ReadFields:
    """Read our fields out of what a format says; whatever we would not write just so is kept."""
    kept = _copy(raw)
    values: Values = {}
    absent: list[list[str]] = []
    for field in fields:
        read = field.read(raw)
        values.update(zip(field.names, read, strict=True))
        written = field.write(*read)
        said = {path: found[0] for path in field.paths if (found := value_at(raw, path))}
        if _is_same_json(written, said):
            _remove_values(kept, field.paths)
        else:
            absent += [list(path) for path in written if path not in said]
    return ReadFields(values, kept, absent)


def write_fields(
    values: Values, kept: JsonObject, absent: Sequence[Sequence[str]], fields: Sequence[Field]
) -> dict[str, Any]:
    """Write our fields among what was kept; where what was kept says something else than the values, it is replaced."""
    raw = _copy(kept)
    missing = {tuple(path) for path in absent}
    for field in fields:
        if not any(path in missing or value_at(raw, path) for path in field.paths):
            _set_values(raw, field.write(*(values[name] for name in field.names)))
    for field in fields:
        given = tuple(values[name] for name in field.names)
        if field.read(raw) != given:
            _remove_values(raw, field.paths)
            _set_values(raw, field.write(*given))
    return raw


def unexpressed_values(values: Values, raw: JsonObject, fields: Iterable[Field], usual: Values) -> Values:
    """Return the values that a written text does not tell: those without a place, and those that it cannot express."""
    told: Values = dict(usual)
    for field in fields:
        told.update(zip(field.names, field.read(raw), strict=True))
    return {name: value for name, value in values.items() if name in told and told[name] != value}


def value_at(raw: JsonObject, path: KeyPath) -> tuple[Any] | tuple[()]:
    """Return what stands at a path, as a tuple of it; an empty one if nothing does."""
    value: Any = raw
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return ()
        value = value[name]
    return (value,)


def _is_same_json(one: Mapping[KeyPath, Any], other: Mapping[KeyPath, Any]) -> bool:
    """Say whether two are the same as JSON, in which 1 is neither 1.0 nor true."""
    if one.keys() != other.keys():
        return False
    return all(_CANONICAL.encode(one[path]) == _CANONICAL.encode(other[path]) for path in one)


def _copy(raw: JsonObject) -> dict[str, Any]:
    """Return a copy that may be changed at any path."""
    inner = raw.get(EXTENSIONS)
    return {**raw, EXTENSIONS: dict(inner)} if isinstance(inner, Mapping) else dict(raw)


def _set_values(raw: dict[str, Any], written: Mapping[KeyPath, Any]) -> None:
    for (*outer, name), value in written.items():
        place = raw
        for each in outer:
            inner = place.get(each)
            place[each] = place = inner if isinstance(inner, dict) else {}
        place[name] = value


def _remove_values(raw: dict[str, Any], paths: Iterable[KeyPath]) -> None:
    for *outer, name in paths:
        place: Any = raw
        for each in outer:
            place = place.get(each) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place.pop(name, None)


LOGIC_NUMBERS: Final[tuple[Logic, ...]] = ("and-any", "not-all", "not-any", "and-all")
"""SillyTavern's numbers of the four logics."""


def clean_str(value: object) -> str:
    """Return a text, or none."""
    return clean_text(value) if isinstance(value, str) else ""


def clean_strs(value: object) -> tuple[str, ...]:
    """Return the texts of a list."""
    return tuple(clean_text(each) for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def int_in_range(value: object, usual: int, low: int = 0) -> int:
    """Return a whole number of a sane size, or what is usual; `true` is 1, as in older files."""
    if isinstance(value, bool):
        return int(value)
    number = to_finite_float(value)
    return usual if number is None or not low <= int(number) <= MAX_INTEGER else int(number)


def bool_or_none(value: object) -> bool | None:
    """Return a truth value, or None where nothing is said."""
    return value if isinstance(value, bool) else None


def share_from_percent(value: object) -> float:
    """Return a share from a number of percent; what is none is all."""
    number = to_finite_float(value)
    return 1.0 if number is None else round(min(100.0, max(0.0, number)) / 100, 6)


def percent_from_share(share: float) -> float:
    """Return a number of percent as people write it.

    >>> percent_from_share(0.5), percent_from_share(0.125)
    (50, 12.5)
    """
    number = round(share * 100, 4)
    return int(number) if number == int(number) else number


def split_names(value: object) -> tuple[str, ...]:
    """Return the names in a text, as groups are written.

    >>> split_names("weather, mood,")
    ('weather', 'mood')
    """
    return tuple(name for each in clean_str(value).split(",") if (name := each.strip()))


def first_present(raw: JsonObject, *paths: KeyPath) -> object:
    """Return the first that is there and not null."""
    found = (value_at(raw, path) for path in paths)
    return next((each[0] for each in found if each and each[0] is not None), None)


# -- fields of one path ----------------------------------------------------------------------------------------------


def required_field(
    name: str, path: KeyPath, read: Callable[[Any], Any], write: Callable[[Any], Any] = lambda value: value
) -> Field:
    """Return a field that is always written."""

    def reading(raw: JsonObject) -> tuple[Any, ...]:
        return (read(first_present(raw, path)),)

    return Field((name,), (path,), reading, lambda value: {path: write(value)})


def optional_field(
    name: str, path: KeyPath, read: Callable[[Any], Any], usual: Any, write: Callable[[Any], Any] = lambda value: value
) -> Field:
    """Return a field that is written where it is not as usual."""

    def reading(raw: JsonObject) -> tuple[Any, ...]:
        return (read(first_present(raw, path)),)

    return Field((name,), (path,), reading, lambda value: {} if value == usual else {path: write(value)})


def is_true(value: object) -> bool:
    """Return whether a thing is said to be so."""
    return value is True


def count_or_zero(value: object) -> int:
    """Return a number of messages, or 0."""
    return int_in_range(value, 0)


def none_if_zero(value: int) -> int | None:
    """Return a number of messages as it is written: none is null."""
    return value or None


def int_or_none(value: object) -> int | None:
    """Return a number that may be missing."""
    number = int_in_range(value, -1)
    return None if value is None or number < 0 else number


def logic_from_number(value: object) -> Logic:
    """Return a logic by its number."""
    number = int_in_range(value, 0)
    return LOGIC_NUMBERS[number] if number < len(LOGIC_NUMBERS) else "and-any"
