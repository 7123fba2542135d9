"""Smaller forms of a unit: text cut at the end of a sentence or line, marked, and counted again."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from brimful.core.content import ContentPackage, Part, Text, ToolResult
from brimful.core.prompt import TokenCounter
from brimful.core.units import Unit

CUT_MARK: Final = " […]"

_SENTENCE_OR_LINE: Final = re.compile(r"""(?<![.!?…])[.!?…]++["'»”’)\]]*+(?=\s)|[。！？]+[」』”’）]*|(?=\n)""")
_WORD: Final = re.compile(r"\S(?=\s)")
_JOINER: Final = "\u200d"  # joins two emoji into one


def cut_text(text: str, limit: int, count: Callable[[str], int]) -> str | None:
    """Return the longest prefix of the text that counts at most `limit` tokens, including the mark after it.

    It ends at a sentence or a line; if not even the first one fits, at a word; if not even that fits, at a character.
    A text that fits is returned unchanged; None means that nothing fits. The time depends on the length of the result.

    >>> cut_text("One two. Three four. Five six.", 24, len)
    'One two. Three four. […]'
    >>> cut_text("One two. Three four. Five six.", 9, len)
    'One […]'
    >>> cut_text("One two. Three four. Five six.", 6, len)
    'On […]'
    >>> cut_text("One two. Three four. Five six.", 4, len) is None
    True
    """
    if count(text) <= limit:
        return text

    def fits(end: int) -> bool:
        return bool(text[:end].strip()) and count(_with_mark(text, end)) <= limit

    for ends in (_match_ends(_SENTENCE_OR_LINE, text), _match_ends(_WORD, text), range(1, len(text))):
        if (end := _last_fitting(ends, fits)) is not None:
            whole = _whole_character(text, end)
            return _with_mark(text, whole if text[:whole].strip() else end)
    return None


def _with_mark(text: str, end: int) -> str:
    return text[:end].rstrip() + CUT_MARK


def _match_ends(pattern: re.Pattern[str], text: str) -> Sequence[int]:
    return [match.end() for match in pattern.finditer(text) if match.end()]


def _last_fitting(ends: Sequence[int], fits: Callable[[int], bool]) -> int | None:
    """Find the last end that fits by galloping search, so that no long prefix is counted needlessly."""
    low, high = -1, 0
    while high < len(ends) and fits(ends[high]):
        low, high = high, high * 2 + 1
    high = min(high, len(ends))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(ends[middle]) else (low, middle)
    return ends[low] if low >= 0 else None


def _whole_character(text: str, end: int) -> int:
    """Step back so that no accent, joiner or skin tone is separated from its character."""
    while 0 < end < len(text) and (_joins_previous(text[end]) or text[end - 1] == _JOINER):
        end -= 1
    return end


def _joins_previous(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Mn", "Me", "Mc")
        or character == _JOINER
        or "\U0001f3fb" <= character <= "\U0001f3ff"
    )


def make_shrinker(counter: TokenCounter) -> Callable[[Unit, int], Unit | None]:
    """Return a function that shrinks a unit to a number of tokens if its packages allow it, the largest first."""

    def shrink(unit: Unit, room: int) -> Unit | None:
        packages, costs, shrunk = list(unit.packages), list(unit.costs), list(unit.shrunk)
        for at in sorted(range(unit.items), key=lambda at: (-unit.costs[at], at)):
            over = sum(costs) - room
            smaller = _shrink_package(packages[at], packages[at].tokens.upper - over, counter) if over > 0 else None
            if smaller is not None:
                costs[at] -= packages[at].tokens.upper - smaller.tokens.upper
                packages[at] = smaller
                shrunk.append(smaller.id)
        if sum(costs) > room:
            return None
        return msgspec.structs.replace(
            unit, packages=tuple(packages), shares=tuple(costs), cost=sum(costs), shrunk=tuple(shrunk)
        )

    return shrink


def min_cost(unit: Unit) -> int | None:
    """Return the approximate cost of the unit with everything cut that may be cut; None if nothing may."""
    saved = 0
    for package in unit.packages:
        if _cuttable_text(package) is not None and package.flex.min_tokens is not None:
            # A cut at the end of a sentence is below its limit, so the limit is twice the minimum.
            saved += max(0, package.tokens.upper - 2 * package.flex.min_tokens)
    return unit.cost - saved if saved else None


def _shrink_package(package: ContentPackage, limit: int, counter: TokenCounter) -> ContentPackage | None:
    """Cut the package's text to the limit, or nearly to its minimum if the limit is below that."""
    text, minimum = _cuttable_text(package), package.flex.min_tokens
    if text is None or minimum is None:
        return None
    shorter = cut_text(text, limit if limit >= minimum else 2 * minimum, lambda part: counter.text(part).upper)
    if shorter is None or (count := counter.text(shorter)).upper < minimum:
        return None
    return msgspec.structs.replace(
        package, content=_with_text(package, shorter), tokens=count, hash="", normalized_hash=""
    )


def _cuttable_text(package: ContentPackage) -> str | None:
    """Return the text that can be cut: a plain string, or a tool result."""
    if isinstance(package.content, str):
        return package.content
    match package.content:
        case (Text(text=text),) | (ToolResult(content=text),):
            return text
        case _:
            return None


def _with_text(package: ContentPackage, text: str) -> str | tuple[Part, ...]:
    match package.content:
        case (ToolResult() as result,):
            return (msgspec.structs.replace(result, content=text),)
        case _:
            return text
