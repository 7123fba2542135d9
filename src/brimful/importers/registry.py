"""Which importers there are: those of other packages first, then ours, from the most particular to the most general."""

import re
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from brimful.errors import DamagedFile, InvalidValue
from brimful.importers import (
    cards,
    chatgpt,
    claude,
    discord,
    langchain,
    llamaindex,
    openai,
    records,
    sillytavern,
    slack,
    world_info,
)
from brimful.importers.importer import Importer
from brimful.importers.png import SIGNATURE
from brimful.importers.source import Skipped, Source, is_utf_16

GROUP: Final = "brimful.importers"
"""The entry points by which another package adds importers: `chatlog = "my_package.chatlog:IMPORTER"`."""

_CALLED_JSON: Final = re.compile(r"^[^.].*\.(json|jsonl|ndjson)(\.gz)?$", re.IGNORECASE)
"""Names that promise JSON. Those that begin with a dot are a system's own: macOS lays `._NAME` beside a file."""
_PICTURES: Final = (b"\xff\xd8\xff", b"GIF8", b"RIFF")

OURS: Final = tuple(
    module.IMPORTER
    for module in (
        *(records, chatgpt, claude, discord, slack),
        *(cards, world_info, sillytavern, langchain, llamaindex, openai),
    )
)


def importer_names() -> tuple[str, ...]:
    """Return the names of all importers, without loading those of others.

    >>> importer_names()[-2:]
    ('llamaindex', 'openai')
    """
    return (*(entry.name for entry in entry_points(group=GROUP)), *(importer.name for importer in OURS))


def importers_for(format: str | None = None) -> tuple[Importer, ...]:
    """Return all importers that can be used, in the order in which they are asked, or the one of that name."""
    return usable_importers(format)[0]


def usable_importers(format: str | None = None) -> tuple[tuple[Importer, ...], tuple[Skipped, ...]]:
    """Return all importers in the order in which they are asked, or the one of that name; and which are broken.

    A broken one of another package costs its own format alone. If it is the one that was asked for, it is an error.
    """
    if format is None:
        tried = [_tried(entry) for entry in entry_points(group=GROUP)]
        theirs = [each for each in tried if isinstance(each, Importer)]
        return (*theirs, *OURS), tuple(each for each in tried if isinstance(each, Skipped))
    named = [_loaded(entry) for entry in entry_points(group=GROUP, name=format)]
    found = (*named, *(importer for importer in OURS if importer.name == format))
    if not found:
        raise InvalidValue("format", f"must be one of {', '.join(importer_names())}, not {format!r}")
    return found[:1], ()


def importer_for(source: Source, format: str | None = None, *, among: Sequence[Importer] | None = None) -> Importer:
    """Return the importer of that name, or the first that recognises the head of the file.

    Whoever asks for many files gives the importers that they found once, `among` which to choose.
    """
    for importer in importers_for(format) if among is None else among:
        if importer in OURS and is_utf_16(source):
            raise DamagedFile(source.name, "is UTF-16, not UTF-8: convert it first (iconv -f UTF-16 -t UTF-8)")
        if format is not None or (not (importer in OURS and _is_binary(source)) and _recognises(importer, source)):
            return importer
    if not source.head.strip():
        raise InvalidValue(source.name, "is empty")
    if source.head.startswith(_PICTURES):
        raise InvalidValue(source.name, "is a picture, and no character card")
    raise InvalidValue(source.name, "is of no known format; `--format` says which it is")


def is_called_json(source: Source) -> bool:
    """Say whether the name of a file promises JSON."""
    return _CALLED_JSON.search(source.path.name) is not None


def _is_binary(source: Source) -> bool:
    """Say whether a file is no text, nor a picture, nor meant to be: a store that lies there holds JSON as well."""
    return b"\0" in source.head and not source.head.startswith(SIGNATURE) and not is_called_json(source)


def _recognises(importer: Importer, source: Source) -> bool:
    """Ask an importer. One of another package that fails does not know the file."""
    if importer in OURS:
        return importer.recognises(source)
    try:
        return bool(importer.recognises(source))
    except Exception:  # noqa: BLE001 - code of others, of which nothing is sure
        return False


def _tried(entry: EntryPoint) -> Importer | Skipped:
    try:
        return _loaded(entry)
    except InvalidValue as error:
        return Skipped.of(error)


def _loaded(entry: EntryPoint) -> Importer:
    try:
        importer = entry.load()
    except Exception as error:
        reason = f"cannot be loaded ({type(error).__name__}: {error}); update or uninstall its package"
        raise InvalidValue(f"importer {entry.name!r}", reason) from error
    if not isinstance(importer, Importer):
        raise InvalidValue(f"importer {entry.name!r}", f"is a {type(importer).__name__}, not an Importer")
    return importer
