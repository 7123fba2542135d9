"""All known formats: third-party packages first, then ours, from the most specific to the most general."""

import re
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from brimful.errors import DamagedFile, InvalidValue
from brimful.formats import (
    character_card,
    chatgpt,
    claude,
    claude_mem,
    discord,
    langchain,
    letta,
    llamaindex,
    lorebooks,
    markdown,
    mem0,
    notes,
    openai,
    records,
    sillytavern,
    slack,
    zep,
)
from brimful.formats.character_card import PNG_SIGNATURE
from brimful.formats.source import Format, Skipped, Source, is_utf16

ENTRY_POINT_GROUP: Final = "brimful.formats"
"""The entry point group through which packages add formats: `chatlog = "my_package.chatlog:FORMAT"`."""

_JSON_NAME: Final = re.compile(r"^[^.].*\.(json|jsonl|ndjson)(\.gz)?$", re.IGNORECASE)
"""Names of JSON files. macOS puts a `._NAME` with its own data next to some files, so leading dots do not match."""
_IMAGE_STARTS: Final = (b"\xff\xd8\xff", b"GIF8", b"RIFF")

BUILTIN_FORMATS: Final = tuple(
    module.FORMAT
    for module in (
        *(records, markdown, notes, mem0, claude_mem, letta, zep),
        *(chatgpt, claude, discord, slack),
        *(character_card, lorebooks, sillytavern, langchain, llamaindex, openai),
    )
)


def format_names() -> tuple[str, ...]:
    """Return the names of all formats, without loading other packages.

    >>> format_names()[-2:]
    ('llamaindex', 'openai')
    """
    plugins = entry_points(group=ENTRY_POINT_GROUP)
    return (*(entry.name for entry in plugins), *(format.name for format in BUILTIN_FORMATS))


def load_formats(name: str | None = None) -> tuple[tuple[Format, ...], tuple[Skipped, ...]]:
    """Return all formats in the order in which they are tried, or only the named one; and those that do not load.

    A plugin that does not load only disables its own format. If it is the named one, that is an error.
    """
    if name is None:
        loaded = [_try_load(entry) for entry in entry_points(group=ENTRY_POINT_GROUP)]
        plugins = [each for each in loaded if isinstance(each, Format)]
        return (*plugins, *BUILTIN_FORMATS), tuple(each for each in loaded if isinstance(each, Skipped))
    named = [_load(entry) for entry in entry_points(group=ENTRY_POINT_GROUP, name=name)]
    formats = (*named, *(format for format in BUILTIN_FORMATS if format.name == name))
    if not formats:
        raise InvalidValue("format", f"must be one of {', '.join(format_names())}, not {name!r}")
    return formats[:1], ()


def detect_format(source: Source, name: str | None = None, *, formats: Sequence[Format] | None = None) -> Format:
    """Return the format of that name, or the first one that recognizes the file.

    Pass `formats` (from `load_formats`) to avoid loading them again for every file.
    """
    for format in load_formats(name)[0] if formats is None else formats:
        if format in BUILTIN_FORMATS and is_utf16(source):
            raise DamagedFile(source.name, "is UTF-16, not UTF-8: convert it first (iconv -f UTF-16 -t UTF-8)")
        if name is not None or (_may_read(format, source) and _recognizes(format, source)):
            return format
    if not source.head.strip():
        raise InvalidValue(source.name, "is empty")
    if source.head.startswith(_IMAGE_STARTS):
        raise InvalidValue(source.name, "is an image without a character card")
    raise InvalidValue(source.name, "has an unknown format; name it with `--format`")


def has_json_name(source: Source) -> bool:
    """Return whether the file's name says that it is JSON."""
    return _JSON_NAME.search(source.path.name) is not None


def _is_binary(source: Source) -> bool:
    """Return whether a file is binary and no PNG. A database may contain JSON as well, and must not be recognized."""
    return b"\0" in source.head and not source.head.startswith(PNG_SIGNATURE) and not has_json_name(source)


def _may_read(format: Format, source: Source) -> bool:
    return format.reads_binary or format not in BUILTIN_FORMATS or not _is_binary(source)


def _recognizes(format: Format, source: Source) -> bool:
    """Return whether a format recognizes a file. A plugin that fails does not."""
    if format in BUILTIN_FORMATS:
        return format.recognizes(source)
    try:
        return bool(format.recognizes(source))
    except Exception:  # noqa: BLE001 - third-party code may raise anything
        return False


def _try_load(entry: EntryPoint) -> Format | Skipped:
    try:
        return _load(entry)
    except InvalidValue as error:
        return Skipped.from_error(error)


def _load(entry: EntryPoint) -> Format:
    try:
        format = entry.load()
    except Exception as error:
        reason = f"cannot be loaded ({type(error).__name__}: {error}); update or uninstall its package"
        raise InvalidValue(f"format {entry.name!r}", reason) from error
    if not isinstance(format, Format):
        raise InvalidValue(f"format {entry.name!r}", f"is a {type(format).__name__}, not a Format")
    return format
