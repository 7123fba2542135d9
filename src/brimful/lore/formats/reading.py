"""Values as other programs write them: read leniently, for years of versions and hands have written them."""

from collections.abc import Callable
from typing import Any, Final

from brimful.core.check import finite
from brimful.core.content import clean_text
from brimful.fields import MOST_WHOLE
from brimful.lore.formats.field import Field, Path, Raw, at
from brimful.lorebook import Logic

LOGIC_NUMBERS: Final[tuple[Logic, ...]] = ("and-any", "not-all", "not-any", "and-all")
"""SillyTavern's numbers of the four logics."""


def text(value: object) -> str:
    """Return a text, or none."""
    return clean_text(value) if isinstance(value, str) else ""


def texts(value: object) -> tuple[str, ...]:
    """Return the texts of a list."""
    return tuple(clean_text(each) for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def whole(value: object, usual: int, low: int = 0) -> int:
    """Return a whole number of a sane size, or what is usual; `true` is 1, as in older files."""
    if isinstance(value, bool):
        return int(value)
    number = finite(value)
    return usual if number is None or not low <= int(number) <= MOST_WHOLE else int(number)


def settled(value: object) -> bool | None:
    """Return a truth value, or None where nothing is said."""
    return value if isinstance(value, bool) else None


def percent(value: object) -> float:
    """Return a share from a number of percent; what is none is all."""
    number = finite(value)
    return 1.0 if number is None else round(min(100.0, max(0.0, number)) / 100, 6)


def in_percent(share: float) -> float:
    """Return a number of percent as people write it.

    >>> in_percent(0.5), in_percent(0.125)
    (50, 12.5)
    """
    number = round(share * 100, 4)
    return int(number) if number == int(number) else number


def split(value: object) -> tuple[str, ...]:
    """Return the names in a text, as groups are written.

    >>> split("weather, mood,")
    ('weather', 'mood')
    """
    return tuple(name for each in text(value).split(",") if (name := each.strip()))


def first(raw: Raw, *paths: Path) -> object:
    """Return the first that is there and not null."""
    found = (at(raw, path) for path in paths)
    return next((each[0] for each in found if each and each[0] is not None), None)


# -- fields of one path ----------------------------------------------------------------------------------------------


def one(name: str, path: Path, read: Callable[[Any], Any], write: Callable[[Any], Any] = lambda value: value) -> Field:
    """Return a field that is always written."""

    def reading(raw: Raw) -> tuple[Any, ...]:
        return (read(first(raw, path)),)

    return Field((name,), (path,), reading, lambda value: {path: write(value)})


def rare(
    name: str, path: Path, read: Callable[[Any], Any], usual: Any, write: Callable[[Any], Any] = lambda value: value
) -> Field:
    """Return a field that is written where it is not as usual."""

    def reading(raw: Raw) -> tuple[Any, ...]:
        return (read(first(raw, path)),)

    return Field((name,), (path,), reading, lambda value: {} if value == usual else {path: write(value)})


def flag(value: object) -> bool:
    """Return whether a thing is said to be so."""
    return value is True


def count(value: object) -> int:
    """Return a number of messages, or 0."""
    return whole(value, 0)


def or_null(value: int) -> int | None:
    """Return a number of messages as it is written: none is null."""
    return value or None


def limit(value: object) -> int | None:
    """Return a number that may be missing."""
    number = whole(value, -1)
    return None if value is None or number < 0 else number


def logic(value: object) -> Logic:
    """Return a logic by its number."""
    number = whole(value, 0)
    return LOGIC_NUMBERS[number] if number < len(LOGIC_NUMBERS) else "and-any"
