"""Which importers there are: those of other packages first, then ours, from the most particular to the most general."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from brimful.errors import InvalidValue
from brimful.importers import openai, records
from brimful.importers.importer import Importer
from brimful.importers.source import Source

GROUP: Final = "brimful.importers"
"""The entry points by which another package adds importers: `chatlog = "my_package.chatlog:IMPORTER"`."""

OURS: Final = (records.IMPORTER, openai.IMPORTER)


def importer_names() -> tuple[str, ...]:
    """Return the names of all importers, without loading those of others.

    >>> importer_names()[-2:]
    ('records', 'openai')
    """
    return (*(entry.name for entry in entry_points(group=GROUP)), *(importer.name for importer in OURS))


def importer_for(source: Source, format: str | None = None) -> Importer:
    """Return the importer of that name, or the first that recognises the head of the file."""
    for importer in _named(format) if format else (*map(_loaded, entry_points(group=GROUP)), *OURS):
        if format or importer.recognises(source):
            return importer
    if format:
        raise InvalidValue("format", f"must be one of {', '.join(importer_names())}, not {format!r}")
    if not source.head.strip():
        raise InvalidValue(source.name, "is empty")
    raise InvalidValue(source.name, f"is of no known format; say which it is: {', '.join(importer_names())}")


def _named(name: str) -> Iterator[Importer]:
    yield from (_loaded(entry) for entry in entry_points(group=GROUP, name=name))
    yield from (importer for importer in OURS if importer.name == name)


def _loaded(entry: EntryPoint) -> Importer:
    try:
        importer = entry.load()
    except Exception as error:
        reason = f"cannot be loaded ({type(error).__name__}: {error}); name the format, or uninstall it"
        raise InvalidValue(f"importer {entry.name!r}", reason) from error
    if not isinstance(importer, Importer):
        raise InvalidValue(f"importer {entry.name!r}", f"is a {type(importer).__name__}, not an Importer")
    return importer
