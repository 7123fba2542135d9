"""Cut a text to a number of tokens, where a reader would: at the end of a sentence or a line."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final

MARK: Final = " […]"

_SENTENCE_OR_LINE: Final = re.compile(r"""[.!?…]+["'»”’)\]]*(?=\s)|[。！？]+[」』”’）]*|(?=\n)""")
_WORD: Final = re.compile(r"\S(?=\s)")
_JOINER: Final = "\u200d"  # binds two emoji to one


def cut(text: str, limit: int, count: Callable[[str], int]) -> str | None:
    """Return the longest beginning of the text that counts at most `limit` with the mark after it.

    It ends at a sentence or a line; if not even the first fits, at a word; if not even that fits, at a character.
    A text that fits stays as it is. None if nothing fits. The effort follows the result's length, not the text's.

    >>> cut("One two. Three four. Five six.", 24, len)
    'One two. Three four. […]'
    >>> cut("One two. Three four. Five six.", 9, len)
    'One […]'
    >>> cut("One two. Three four. Five six.", 6, len)
    'On […]'
    >>> cut("One two. Three four. Five six.", 4, len) is None
    True
    """
    if count(text) <= limit:
        return text

    def fits(end: int) -> bool:
        return bool(text[:end].strip()) and count(_marked(text, end)) <= limit

    for ends in (_ends(_SENTENCE_OR_LINE, text), _ends(_WORD, text), range(1, len(text))):
        if (end := _last_fitting(ends, fits)) is not None:
            whole = _whole_character(text, end)
            return _marked(text, whole if text[:whole].strip() else end)
    return None


def _marked(text: str, end: int) -> str:
    return text[:end].rstrip() + MARK


def _ends(pattern: re.Pattern[str], text: str) -> Sequence[int]:
    return [match.end() for match in pattern.finditer(text) if match.end()]


def _last_fitting(ends: Sequence[int], fits: Callable[[int], bool]) -> int | None:
    """Double the step until an end does not fit, then halve the gap: no long beginning is ever counted in vain."""
    low, high = -1, 0
    while high < len(ends) and fits(ends[high]):
        low, high = high, high * 2 + 1
    high = min(high, len(ends))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(ends[middle]) else (low, middle)
    return ends[low] if low >= 0 else None


def _whole_character(text: str, end: int) -> int:
    """Step back to where no accent, joiner or skin tone is torn from the character before it."""
    while 0 < end < len(text) and (_binds(text[end]) or text[end - 1] == _JOINER):
        end -= 1
    return end


def _binds(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Mn", "Me", "Mc")
        or character == _JOINER
        or "\U0001f3fb" <= character <= "\U0001f3ff"
    )
