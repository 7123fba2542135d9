r"""Memories as Markdown, one file for each: the fields as front matter, and the text as it is.

    ---
    record: "memory"
    id: "nut"
    user: "ada"
    at: "2026-10-01T09:00:00+00:00"
    ---
    Ada is allergic to hazelnut.

Each line of the front matter is a name and a JSON value, which any YAML parser reads as well. The text ends before the
last line break. `unedited` is a checksum: if it no longer matches, a person edited the file since it was exported.
"""

import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from brimful.core.validation import decode_json
from brimful.errors import BrimfulError, InvalidValue
from brimful.formats.ids import content_key, join_id
from brimful.formats.lenient import parse_time
from brimful.formats.source import Format, ImportedRecord, Skipped, Source
from brimful.records import Memory

FENCE: Final = "---"
SUFFIX: Final = ".md"
CHECKSUM: Final = "unedited"
_TIMES: Final = ("at", "edited", "ended", "accessed")
_USE: Final = ("accesses", "accessed")  # change when a memory is used, not when it is edited
_FIRST_LINES: Final = (b'---\nrecord: "memory"\n', b'---\r\nrecord: "memory"\r\n')
_LINE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_ -]*):(?:[ \t]+(.*))?")
_NAME_CHARS: Final = 48
_MARK_CHARS: Final = 16
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])", re.IGNORECASE)  # names that Windows keeps


def recognizes(source: Source) -> bool:
    """Return whether a file begins as an exported memory does."""
    return source.head.startswith(_FIRST_LINES)


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield the memory of a file. A file without front matter is a new memory."""
    if source.path.suffix.lower() != SUFFIX or any(part.startswith(".") for part in source.path.parts[1:]):
        yield from source.read_through()
        yield Skipped(source.name, f"is not a {SUFFIX} file")
        return
    try:
        text = source.content().removeprefix(b"\xef\xbb\xbf").decode()
        yield read_memory(text, place=source.place, modified=source.modified)
    except UnicodeDecodeError as error:
        yield Skipped(source.name, f"is not UTF-8: {error.reason} at byte {error.start:,}", damaged=True)
    except InvalidValue as error:
        yield Skipped.from_error(error) if error.field == source.name else Skipped(source.name, str(error))
    except BrimfulError as error:
        yield Skipped(source.name, str(error))


def write_memory(memory: Memory) -> str:
    """Return a memory as the text of a file."""
    fields = {name: value for name, value in _fields(memory).items() if value is not None}
    lines = [f"{name}: {msgspec.json.encode(_written(name, value)).decode()}" for name, value in fields.items()]
    return "\n".join((FENCE, *lines, FENCE, memory.content)) + "\n"


def file_name(memory: Memory) -> str:
    """Return a name that is readable and unique: some words of the memory, and a mark of its id.

    >>> file_name(Memory(id="nut", content="Ada is allergic to hazelnut!"))
    'ada-is-allergic-to-hazelnut-85c2959c64fae277.md'
    """
    plain = unicodedata.normalize("NFKC", memory.content[: 4 * _NAME_CHARS]).lower()
    words = "-".join(re.findall(r"\w+", plain))[:_NAME_CHARS].strip("-_")
    words = "memory" if not words or _RESERVED.fullmatch(words) else words
    return f"{words}-{content_key(memory.id)[:_MARK_CHARS]}{SUFFIX}"


def mark_of(name: str) -> str:
    """Return the part of a file's name that marks its id; it stays when the memory changes.

    >>> mark_of("tea-0123456789abcdef.md")
    '0123456789abcdef'
    """
    return name.removesuffix(SUFFIX).rpartition("-")[2]


def is_unedited(text: str) -> bool:
    """Return whether a file is as it was exported."""
    fields, _ = split_front_matter(text)
    try:
        memory = read_memory(text, place="", modified=0.0)
    except InvalidValue:
        return False
    return fields.get(CHECKSUM) == _checksum(memory)


def read_memory(text: str, *, place: str, modified: float) -> Memory:
    """Return the memory in a file's text. If it was edited since it was exported, `edited` is when.

    Raise `InvalidValue` if a field has a value that it cannot have.
    """
    fields, body = split_front_matter(text)
    if fields.get("record") != "memory":
        return Memory(
            id=join_id("markdown", content_key(place)),
            content=_without_last_break(body),
            source=PurePosixPath(place).name,
            at=modified,
            metadata=fields,
        )
    fields = {key: _read_value(key, value) for key, value in fields.items()}
    checksum = fields.pop(CHECKSUM, None)
    unknown = sorted(fields.keys() - set(Memory.__struct_fields__) - {"record"})
    if unknown:
        raise InvalidValue(unknown[0], "is not a field of a memory; put it into `metadata`")
    try:
        memory = msgspec.convert({**fields, "content": _without_last_break(body)}, Memory)
    except msgspec.ValidationError as error:
        raise InvalidValue("front matter", str(error)) from None
    return memory if checksum == _checksum(memory) else msgspec.structs.replace(memory, edited=modified)


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    r"""Return the fields of a text's front matter, and the text after it.

    A value that is not JSON is a string, and lines below a field belong to it.

    >>> split_front_matter("---\nname: tea\ntags:\n  - a\n---\nAda likes tea.\n")
    ({'name': 'tea', 'tags': '- a'}, 'Ada likes tea.\n')
    """
    first, newline, rest = text.partition("\n")
    if first.rstrip() != FENCE or not newline:
        return {}, text
    if first.endswith("\r"):  # an editor wrote all lines with CRLF
        rest = rest.replace("\r\n", "\n")
    fields: dict[str, Any] = {}
    last = ""
    while rest:
        line, _, rest = rest.partition("\n")
        if line.rstrip() in (FENCE, "..."):
            return fields, rest
        match = _LINE.fullmatch(line)
        if match is not None:
            last = match[1]
            fields[last] = _parse_value((match[2] or "").strip())
        elif last and line.strip():
            fields[last] = "\n".join(str(part) for part in (fields[last], line.strip()) if part not in ("", None))
    return {}, text  # the front matter has no end, so it is none


def _fields(memory: Memory) -> dict[str, Any]:
    """Return all fields but the text, and the checksum."""
    fields = {"record": "memory", **msgspec.to_builtins(memory), CHECKSUM: _checksum(memory)}
    del fields["content"]
    return fields


def _checksum(memory: Memory) -> str:
    """Return a checksum of what a person may edit."""
    fields = msgspec.structs.asdict(memory)
    return content_key(*(fields[name] for name in sorted(fields) if name not in _USE))[:16]


def _written(name: str, value: Any) -> Any:
    """Return a time as people read it, if it is exactly that time."""
    if name not in _TIMES:
        return value
    try:
        written = datetime.fromtimestamp(value, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return value
    return written if parse_time(written) == value else value


def _read_value(name: str, value: Any) -> Any:
    if name not in _TIMES or not isinstance(value, str):
        return value
    time = parse_time(value)
    if time is None:
        raise InvalidValue(name, f"must be a time such as 2026-10-01T09:00:00Z, not {value!r}")
    return time


def _parse_value(text: str) -> Any:
    try:
        return decode_json(text.encode(errors="replace")) if text else ""
    except ValueError:
        return text


def _without_last_break(body: str) -> str:
    return body.removesuffix("\n")


FORMAT: Final = Format(
    name="markdown",
    description="memories as Markdown files, one each, as `brimful export --format markdown` writes them",
    recognizes=recognizes,
    read=read,
    reads_binary=True,  # a text may have a null character
)
