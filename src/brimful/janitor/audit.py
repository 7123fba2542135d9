"""Find memories that are not worth keeping: duplicates, junk, contradicted facts, and memories that were never used."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

import msgspec

from brimful.core.content import content_hashes
from brimful.janitor.families import find_numbers
from brimful.records import Memory

FindingKind = Literal["duplicate", "near-duplicate", "junk", "contradicted", "unused"]
CLEANED: Final[tuple[FindingKind, ...]] = ("duplicate", "near-duplicate", "junk")
"""What an audit archives. The others need somebody who decides."""

_LEVEL: Final = r"(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)"
_LOG_LINE: Final = re.compile(
    rf"\W{{0,2}}\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\W+(?:\[?\w+\]?\W+)?{_LEVEL}\b"
    rf"|{_LEVEL}[: ]\W*(?:root|main|\w+(?:[.:]\w+)+)\b"
)
_JUNK: Final[dict[str, re.Pattern[str]]] = {
    reason: re.compile(pattern, re.IGNORECASE)
    for reason, pattern in {
        "a refusal": r"(?:as an ai(?: language)? model|i['’]?m sorry, but i can['’]?t|i cannot assist)\b",
        "a stack trace": r"traceback \(most recent call last\)|[\w.]+(?:error|exception)\b.*\n\s+at ",
        "a web page": r"<(?:!doctype|html|head|body|div|table|p|ul)\b[^>]*>",
        "a diff": r"diff --git |@@ -\d",
        "encoded data": r"[a-z0-9+/=_-]{80,}\Z",
        "without words": r"[\W\d_]*\Z",
    }.items()
}
"""How junk begins. A longer text that only quotes it, such as an explanation with code, is none."""
_TEMPLATE: Final = re.compile(
    r"(?<![`'\"])\{\{[^{}]{1,60}\}\}|<%[^%]{1,60}%>|\[(?:your|insert|user)[ _][a-z _]{1,30}\](?!\()", re.IGNORECASE
)
_MAX_TEMPLATE: Final = 500  # characters; a longer text, or one with code, explains templates
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_MIN_WORDS: Final = 3  # of a text that may be a near-duplicate of another
_MIN_SHARED: Final = 3  # first words of two statements about the same thing
_FILLERS: Final = frozenset(
    {
        *(
            "a",
            "an",
            "the",
            "is",
            "are",
            "was",
            "were",
            "be",
            "been",
            "and",
            "or",
            "of",
            "to",
            "in",
            "on",
            "at",
            "that",
        ),
        *("this", "it", "its", "s", "also", "very", "really", "just", "so", "then", "too", "as"),
    }
)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that is not worth having, and why; `other` is the memory that it repeats, or that contradicts it."""

    id: str
    kind: FindingKind
    reason: str
    other: str = ""


def audit_memories(
    memories: Sequence[Memory], *, is_small_talk: Callable[[str], bool], unused_before: float
) -> list[Finding]:
    """Return the memories of one scope that are not worth keeping, each at most once. Pinned memories are never junk.

    Two memories repeat each other if they have the same words and numbers in the same order, but for fillers and
    punctuation. Of these, the pinned, most used, most important or newest one stays.
    """
    found: dict[str, Finding] = {}
    for finding in (
        *_find_junk(memories, is_small_talk),
        *_find_equal(memories, lambda text: content_hashes(text)[1], "duplicate", "the same text as another memory"),
        *_find_equal(memories, _content_key, "near-duplicate", "the same words as another memory"),
    ):
        found.setdefault(finding.id, finding)
    left = [memory for memory in memories if memory.id not in found]
    for finding in (*_find_contradicted(left), *_find_unused(left, unused_before)):
        found.setdefault(finding.id, finding)
    return sorted(found.values(), key=lambda each: (each.kind, each.id))


def _find_junk(memories: Sequence[Memory], is_small_talk: Callable[[str], bool]) -> Iterator[Finding]:
    for memory in memories:
        text = memory.content.strip()
        if memory.pinned:
            continue
        reason = _find_junk_reason(text) or ("small talk" if is_small_talk(text) else "")
        if reason:
            yield Finding(id=memory.id, kind="junk", reason=reason)


def _find_junk_reason(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and 2 * sum(_LOG_LINE.match(line) is not None for line in lines) > len(lines):
        return "lines of a log"
    if len(text) <= _MAX_TEMPLATE and "`" not in text and _TEMPLATE.search(text):
        return "a template"
    return next((reason for reason, pattern in _JUNK.items() if pattern.match(text)), "")


def _find_equal(
    memories: Sequence[Memory], key: Callable[[str], object], kind: FindingKind, reason: str
) -> Iterator[Finding]:
    groups: dict[object, list[Memory]] = {}
    for memory in memories:
        value = key(memory.content)
        if value is not None:
            groups.setdefault(value, []).append(memory)
    for group in groups.values():
        best = max(group, key=lambda each: (each.pinned, each.accesses, each.importance, each.at, each.id))
        for memory in group:
            if memory.id != best.id and not memory.pinned:
                yield Finding(id=memory.id, kind=kind, reason=reason, other=best.id)


def _content_key(text: str) -> object:
    """Return what two texts with the same content have in common; None for one that is too short to tell."""
    words = tuple(word for word in _words(text) if word not in _FILLERS)
    if len(words) < _MIN_WORDS:
        return None
    return words, find_numbers(text)


def _words(text: str) -> list[str]:
    return [_stem(word.casefold()) for word in _WORD.findall(text)]


def _stem(word: str) -> str:
    """Return a word without its plural or possessive."""
    for ending in ("'s", "’s", "s"):
        if len(word) > len(ending) + 3 and word.endswith(ending) and not word.endswith("ss"):
            return word.removesuffix(ending)
    return word


def _find_contradicted(memories: Sequence[Memory]) -> Iterator[Finding]:
    """Return memories that say the same as a newer one up to their last words: where she lives, what it costs."""
    groups: dict[tuple[str, ...], list[Memory]] = {}
    for memory in memories:
        words = _words(memory.content)
        if len(words) > _MIN_SHARED and not memory.pinned:
            groups.setdefault(tuple(words[:-1]), []).append(memory)
    for group in groups.values():
        newest = max(group, key=lambda each: (each.at, each.id))
        for memory in group:
            if memory.at < newest.at:
                reason = "a newer memory says something else about the same"
                yield Finding(id=memory.id, kind="contradicted", reason=reason, other=newest.id)


def _find_unused(memories: Sequence[Memory], before: float) -> Iterator[Finding]:
    for memory in memories:
        if not memory.pinned and not memory.accesses and memory.at < before:
            yield Finding(id=memory.id, kind="unused", reason="in no context so far")
