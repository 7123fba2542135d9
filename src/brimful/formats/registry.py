"""All known formats: those of third-party packages first, then ours, from the most specific to the most general."""

import re
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from brimful.errors import DamagedFile, InvalidValue
from brimful.formats import (
    character_card,
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
from brimful.formats.character_card import PNG_SIGNATURE
from brimful.formats.source import Format, Skipped, Source, is_utf16

ENTRY_POINT_GROUP: Final = "brimful.formats"
"""The entry points by which another package adds importers: `chatlog = "my_package.chatlog:FORMAT"`."""

_JSON_NAME: Final = re.compile(r"^[^.].*\.(json|jsonl|ndjson)(\.gz)?$", re.IGNORECASE)
"""Names that promise JSON. Those that begin with a dot are a system's own: macOS lays `._NAME` beside a file."""
_IMAGE_STARTS: Final = (b"\xff\xd8\xff", b"GIF8", b"RIFF")

BUILTIN_FORMATS: Final = tuple(
    module.FORMAT
    for module in (
        *(records, chatgpt, claude, discord, slack),
        *(character_card, world_info, sillytavern, langchain, llamaindex, openai),
    )
)


def format_names() -> tuple[str, ...]:
    """Return the names of all importers, without loading those of others.

    >>> format_names()[-2:]
    ('llamaindex', 'openai')
    """
    return (
        *(entry.name for entry in entry_points(group=ENTRY_POINT_GROUP)),
        *(importer.name for importer in BUILTIN_FORMATS),
    )


def get_formats(format: str | None = None) -> tuple[Format, ...]:
    """Return all importers that can be used, in the order in which they are asked, or the one of that name."""
    return load_formats(format)[0]


def load_formats(format: str | None = None) -> tuple[tuple[Format, ...], tuple[Skipped, ...]]:
    """Return all importers in the order in which they are asked, or the one of that name; and which are broken.

    A broken one of another package costs its own format alone. If it is the one that was asked for, it is an error.
    """
    if format is None:
        tried = [_try_load(entry) for entry in entry_points(group=ENTRY_POINT_GROUP)]
        theirs = [each for each in tried if isinstance(each, Format)]
        return (*theirs, *BUILTIN_FORMATS), tuple(each for each in tried if isinstance(each, Skipped))
    named = [_load(entry) for entry in entry_points(group=ENTRY_POINT_GROUP, name=format)]
    found = (*named, *(importer for importer in BUILTIN_FORMATS if importer.name == format))
    if not found:
        raise InvalidValue("format", f"must be one of {', '.join(format_names())}, not {format!r}")
    return found[:1], ()


def detect_format(source: Source, format: str | None = None, *, among: Sequence[Format] | None = None) -> Format:
    """Return the importer of that name, or the first that recognizes the head of the file.

    Whoever asks for many files gives the importers that they found once, `among` which to choose.
    """
    for importer in get_formats(format) if among is None else among:
        if importer in BUILTIN_FORMATS and is_utf16(source):
            raise DamagedFile(source.name, "is UTF-16, not UTF-8: convert it first (iconv -f UTF-16 -t UTF-8)")
        if format is not None or (
            not (importer in BUILTIN_FORMATS and _is_binary(source)) and _recognizes(importer, source)
        ):
            return importer
    if not source.head.strip():
        raise InvalidValue(source.name, "is empty")
    if source.head.startswith(_IMAGE_STARTS):
        raise InvalidValue(source.name, "is a picture, and no character card")
    raise InvalidValue(source.name, "is of no known format; `--format` says which it is")


def has_json_name(source: Source) -> bool:
    """Say whether the name of a file promises JSON."""
    return _JSON_NAME.search(source.path.name) is not None


def _is_binary(source: Source) -> bool:
    """Say whether a file is no text, nor a picture, nor meant to be: a store that lies there holds JSON as well."""
    return b"\0" in source.head and not source.head.startswith(PNG_SIGNATURE) and not has_json_name(source)


def _recognizes(importer: Format, source: Source) -> bool:
    """Ask an importer. One of another package that fails does not know the file."""
    if importer in BUILTIN_FORMATS:
        return importer.recognizes(source)
    try:
        return bool(importer.recognizes(source))
    except Exception:  # noqa: BLE001 - code of others, of which nothing is sure
        return False


def _try_load(entry: EntryPoint) -> Format | Skipped:
    try:
        return _load(entry)
    except InvalidValue as error:
        return Skipped.of(error)


def _load(entry: EntryPoint) -> Format:
    try:
        importer = entry.load()
    except Exception as error:
        reason = f"cannot be loaded ({type(error).__name__}: {error}); update or uninstall its package"
        raise InvalidValue(f"format {entry.name!r}", reason) from error
    if not isinstance(importer, Format):
        raise InvalidValue(f"format {entry.name!r}", f"is a {type(importer).__name__}, not a Format")
    return importer
