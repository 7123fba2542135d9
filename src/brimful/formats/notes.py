"""Notes for agents: `MEMORY.md`, `CLAUDE.md`, `AGENTS.md` and their like. Each bullet or paragraph is a memory.

When a file is imported again, its memories become the ones that it has now: the others are archived.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from posixpath import normpath
from typing import Any, Final, NamedTuple

from brimful.formats.ids import content_key
from brimful.formats.lenient import without_empty
from brimful.formats.markdown import recognizes as is_exported
from brimful.formats.markdown import split_front_matter
from brimful.formats.memories import make_memory
from brimful.formats.source import Format, ImportedRecord, Replaces, Skipped, Source

PREFIX: Final = "notes"
NAMES: Final = frozenset(
    ("memory.md", "claude.md", "claude.local.md", "agents.md", "agents.override.md", "gemini.md", "qwen.md")
)
INDEX: Final = "MEMORY.md"
OUTSIDE: Final = "imports a file that is not in the folder, which is not followed"
TOO_DEEP: Final = "imports files more than five deep"
IS_COMMENT: Final = "is a comment"
_MAX_DEPTH: Final = 5  # as in Claude Code
_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_BULLET: Final = re.compile(r"( {0,3}(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)(.*)")
_FENCE: Final = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_RULE: Final = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})")
_UNDERLINE: Final = re.compile(r" {0,3}(=+|-+)[ \t]*")
_IMPORT: Final = re.compile(r"@(\S+)")


class Block(NamedTuple):
    """A bullet or a paragraph with its text, its line, and the headings above it."""

    text: str
    line: int
    headings: tuple[str, ...]


def recognizes(source: Source) -> bool:
    """Return whether a file has one of the known names, or is Markdown next to a `MEMORY.md`."""
    name = source.path.name
    beside = source.path.suffix.lower() == ".md" and source.has_sibling(INDEX) and not is_exported(source)
    return name.lower() in NAMES or beside


def read(source: Source) -> Iterator[ImportedRecord | Replaces | Skipped]:
    """Yield the memories of a file, and what they replace."""
    try:
        text = source.content().removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        yield Skipped(source.name, f"is not UTF-8: {error.reason} at byte {error.start:,}", damaged=True)
        return
    prefix = f"{PREFIX}/{re.sub(r'[^A-Za-z0-9._-]', '-', source.path.name)[:40]}-{content_key(source.place)[:16]}/"
    reading = _Reading(source, prefix)
    yield from reading.read(text, source.path.name, ())
    yield Replaces(prefix, frozenset(reading.ids), source.modified)


class _Reading:
    """One file, with the files that it imports."""

    def __init__(self, source: Source, prefix: str) -> None:
        self._source = source
        self._prefix = prefix
        self.ids: set[str] = set()

    def read(self, text: str, file: str, via: tuple[str, ...]) -> Iterator[ImportedRecord | Skipped]:
        """Yield the memories of a text. `via` are the files that import it."""
        fields, body = split_front_matter(text.replace("\r\n", "\n"))
        skipped_lines = text.replace("\r\n", "\n").count("\n") - body.count("\n")
        for block in split_blocks(body):
            location = (
                f"{self._source.name}:{block.line + skipped_lines}" if not via else f"{self._source.name}: {file}"
            )
            if imported := _IMPORT.fullmatch(block.text.strip()):
                yield from self._follow(location, imported[1], (*via, file))
            elif block.text.lstrip().startswith("<!--") and block.text.rstrip().endswith("-->"):
                yield Skipped(location, IS_COMMENT)
            else:
                yield from self._make(location, block, file, fields)

    def _follow(self, location: str, target: str, via: tuple[str, ...]) -> Iterator[ImportedRecord | Skipped]:
        """Yield the memories of an imported file, if it is in the same folder or below it."""
        path = normpath(f"{Path(via[-1]).parent.as_posix()}/{target}")
        if path in via:
            return
        outside = target.startswith(("~", "/")) or path.startswith("..")
        data = None if outside else self._source.read_sibling(path)
        if data is None or len(via) > _MAX_DEPTH:
            yield Skipped(location, TOO_DEEP if data is not None else OUTSIDE)
            return
        yield from self.read(data.decode(errors="replace"), path, via)

    def _make(
        self, location: str, block: Block, file: str, fields: dict[str, Any]
    ) -> Iterator[ImportedRecord | Skipped]:
        id = f"{self._prefix}{content_key(file, block.headings, block.text)}"
        if id in self.ids:  # the same words again, under the same headings
            return
        self.ids.add(id)
        yield from make_memory(
            location,
            id,
            block.text,
            type="procedural" if file.lower().rpartition("/")[2] in NAMES - {"memory.md"} else "semantic",
            source=" > ".join((file, *block.headings)),
            at=self._source.modified,
            metadata={**fields, **without_empty(file=file, headings=list(block.headings))},
        )


def split_blocks(text: str) -> Iterator[Block]:
    r"""Yield the bullets and paragraphs of a text. A list in a bullet, and a block of code, stay whole.

    >>> [block.text for block in split_blocks("# Tests\n- Run make\n  - twice\n- Be fast\n\nText\nmore\n")]
    ['Run make\n- twice', 'Be fast', 'Text\nmore']
    """
    headings: list[tuple[int, str]] = []
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        above = tuple(name for _, name in headings)
        if heading := _HEADING.fullmatch(line):
            headings = _under(headings, len(heading[1]), heading[2] or "")
            index += 1
        elif not line.strip() or _RULE.fullmatch(line):
            index += 1
        elif bullet := _BULLET.fullmatch(line):
            end = _end_of_bullet(lines, index)
            yield Block(_dedented(bullet[2], lines[index + 1 : end]), index + 1, above)
            index = end
        else:
            end = _end_of_paragraph(lines, index)
            underline = _UNDERLINE.fullmatch(lines[end]) if end < len(lines) and not _FENCE.match(line) else None
            if underline is not None:
                name = " ".join(part.strip() for part in lines[index:end])
                headings = _under(headings, 1 if underline[1][0] == "=" else 2, name)
                end += 1
            else:
                yield Block("\n".join(lines[index:end]).strip("\n"), index + 1, above)
            index = end


def _under(headings: list[tuple[int, str]], level: int, name: str) -> list[tuple[int, str]]:
    """Return the headings after a new one."""
    return [*(each for each in headings if each[0] < level), (level, name.strip())]


def _end_of_fence(lines: list[str], start: int) -> int:
    """Return the line after a block of code that starts here; after this line, if none does."""
    opening = _FENCE.match(lines[start])
    if opening is None:
        return start + 1
    for index in range(start + 1, len(lines)):
        closing = _FENCE.fullmatch(lines[index])
        if closing and closing[1].startswith(opening[1]) and not closing[2].strip():
            return index + 1
    return len(lines)


def _end_of_bullet(lines: list[str], start: int) -> int:
    """Return the line after a bullet: indented lines belong to it, also after empty ones."""
    index = end = start + 1
    while index < len(lines):
        line = lines[index]
        if not line.strip():
            index += 1
            continue
        indented = line.startswith(("  ", "\t"))
        lazy = index == end and not (_BULLET.match(line) or _HEADING.fullmatch(line) or _RULE.fullmatch(line))
        if not indented and not lazy:
            break
        index = end = _end_of_fence(lines, index)
    return end


def _end_of_paragraph(lines: list[str], start: int) -> int:
    """Return the line after a paragraph. Code that follows directly, or after a colon, belongs to it."""
    if _stands_alone(lines[start]):
        return _end_of_comment(lines, start)
    index = _end_of_fence(lines, start)
    if index > start + 1:
        return index
    while index < len(lines):
        line = lines[index]
        if _FENCE.match(line):
            return _end_of_fence(lines, index)
        if not line.strip():
            following = next((i for i in range(index, len(lines)) if lines[i].strip()), len(lines))
            code = following < len(lines) and lines[index - 1].rstrip().endswith(":") and _FENCE.match(lines[following])
            return _end_of_fence(lines, following) if code else index
        if _ends_paragraph(line):
            return index
        index += 1
    return index


def _ends_paragraph(line: str) -> bool:
    """Return whether a line is no part of the paragraph above it."""
    patterns = (_HEADING, _RULE, _UNDERLINE)
    return bool(_BULLET.match(line)) or _stands_alone(line) or any(pattern.fullmatch(line) for pattern in patterns)


def _stands_alone(line: str) -> bool:
    """Return whether a line imports a file, or begins a comment."""
    return bool(_IMPORT.fullmatch(line.strip())) or line.lstrip().startswith("<!--")


def _end_of_comment(lines: list[str], start: int) -> int:
    """Return the line after a comment that starts here; after this line, if none does or it never ends."""
    if lines[start].lstrip().startswith("<!--"):
        for index in range(start, len(lines)):
            if "-->" in lines[index]:
                return index + 1
    return start + 1


def _dedented(first: str, rest: list[str]) -> str:
    """Return the text of a bullet without the indentation of its list."""
    indents = [len(line) - len(line.lstrip()) for line in rest if line.strip() and line[0] in " \t"]
    width = min(indents, default=0)
    return "\n".join((first, *(line[width:] if line[:width].isspace() else line for line in rest))).rstrip()


FORMAT: Final = Format(
    name="notes",
    description="`MEMORY.md`, `CLAUDE.md`, `AGENTS.md` and their like: each bullet or paragraph is a memory",
    recognizes=recognizes,
    read=read,
)
