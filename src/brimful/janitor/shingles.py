"""How alike two texts are, apart from their numbers. Those are looked at by themselves: they may be what matters."""

import re
import unicodedata
from typing import Final

WIDTH: Final = 4  # characters of a shingle

_NUMBERS: Final = re.compile(r"\d+(?:[.,:]\d+)*")


def normal(text: str) -> str:
    """Return a text without case, form, spacing and numbers.

    >>> normal("You  WON £1,000! Call 0906-55")
    'you won £0! call 0-0'
    """
    return " ".join(_NUMBERS.sub("0", _plain(text)).split())


def numbers(text: str) -> tuple[str, ...]:
    """Return the numbers of a text, in order.

    >>> numbers("You  WON £1,000! Call 0906-55")
    ('1,000', '0906', '55')
    """
    return tuple(_NUMBERS.findall(_plain(text)))


def shingles(text: str) -> frozenset[str]:
    """Return all runs of a few characters in a normal text.

    >>> sorted(shingles("abcdef"))
    ['abcd', 'bcde', 'cdef']
    """
    return frozenset(text[at : at + WIDTH] for at in range(max(1, len(text) - WIDTH + 1)))


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of shingles that two texts have in common, of all that they have: Jaccard's.

    >>> likeness(shingles("abcdef"), shingles("abcdeg"))
    0.5
    """
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
