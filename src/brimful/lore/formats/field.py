"""One field of ours, and where a format writes it. What a format says otherwise than we would, is kept as it was.

So a file that comes in and goes out again is the same file: fields that we do not know, fields that were left out, and
those that are written in an unusual way. Only what was changed meanwhile is written anew.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

Raw = Mapping[str, Any]
Path = tuple[str, ...]
Values = dict[str, Any]
EXTENSIONS: Final = "extensions"
OURS: Final = "brimful"  # under `extensions`: what the format has no place for

_CANONICAL: Final = msgspec.json.Encoder(order="deterministic")


class Field(NamedTuple):
    """Fields of a record by their `names`, the `paths` at which a format has them, and the way there and back."""

    names: tuple[str, ...]
    paths: tuple[Path, ...]
    read: Callable[[Raw], tuple[Any, ...]]
    write: Callable[..., dict[Path, Any]]


class Taken(NamedTuple):
    """What was read: values by the names of our fields, what is kept beside them, and what was left out."""

    values: Values
    kept: dict[str, Any]
    absent: list[list[str]]


def take(raw: Raw, fields: Iterable[Field]) -> Taken:
    """Read our fields out of what a format says; whatever we would not write just so is kept."""
    kept = _copy(raw)
    values: Values = {}
    absent: list[list[str]] = []
    for field in fields:
        read = field.read(raw)
        values.update(zip(field.names, read, strict=True))
        written = field.write(*read)
        said = {path: found[0] for path in field.paths if (found := at(raw, path))}
        if _same(written, said):
            _drop(kept, field.paths)
        else:
            absent += [list(path) for path in written if path not in said]
    return Taken(values, kept, absent)


def give(values: Values, kept: Raw, absent: Sequence[Sequence[str]], fields: Sequence[Field]) -> dict[str, Any]:
    """Write our fields among what was kept; where what was kept says something else than the values, it is replaced."""
    raw = _copy(kept)
    missing = {tuple(path) for path in absent}
    for field in fields:
        if not any(path in missing or at(raw, path) for path in field.paths):
            _put(raw, field.write(*(values[name] for name in field.names)))
    for field in fields:
        given = tuple(values[name] for name in field.names)
        if field.read(raw) != given:
            _drop(raw, field.paths)
            _put(raw, field.write(*given))
    return raw


def unsaid(values: Values, raw: Raw, fields: Iterable[Field], usual: Values) -> Values:
    """Return the values that a written text does not tell: those without a place, and those that it cannot express."""
    told: Values = dict(usual)
    for field in fields:
        told.update(zip(field.names, field.read(raw), strict=True))
    return {name: value for name, value in values.items() if name in told and told[name] != value}


def at(raw: Raw, path: Path) -> tuple[Any] | tuple[()]:
    """Return what stands at a path, as a tuple of it; an empty one if nothing does."""
    value: Any = raw
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return ()
        value = value[name]
    return (value,)


def _same(one: Mapping[Path, Any], other: Mapping[Path, Any]) -> bool:
    """Say whether two are the same as JSON, in which 1 is neither 1.0 nor true."""
    if one.keys() != other.keys():
        return False
    return all(_CANONICAL.encode(one[path]) == _CANONICAL.encode(other[path]) for path in one)


def _copy(raw: Raw) -> dict[str, Any]:
    """Return a copy that may be changed at any path."""
    inner = raw.get(EXTENSIONS)
    return {**raw, EXTENSIONS: dict(inner)} if isinstance(inner, Mapping) else dict(raw)


def _put(raw: dict[str, Any], written: Mapping[Path, Any]) -> None:
    for (*outer, name), value in written.items():
        place = raw
        for each in outer:
            inner = place.get(each)
            place[each] = place = inner if isinstance(inner, dict) else {}
        place[name] = value


def _drop(raw: dict[str, Any], paths: Iterable[Path]) -> None:
    for *outer, name in paths:
        place: Any = raw
        for each in outer:
            place = place.get(each) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place.pop(name, None)
