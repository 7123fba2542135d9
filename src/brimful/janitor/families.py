"""Families of near-duplicate texts: found by MinHash LSH (`rensa`), confirmed by Jaccard similarity of their shingles.

The first text of a family is its head. Every other one is similar to the head and to the next few members: without
those, two texts would join a family for what each shares with the head, but not with each other. Numbers are ignored
here and compared separately, since they may be what matters.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from brimful.core.content import content_hashes
from brimful.records import Memory

SHINGLE_CHARS: Final = 4  # characters of a shingle

_NUMBERS: Final = re.compile(r"\d+(?:[.,:]\d+)*")


def normalize(text: str) -> str:
    """Return a text without case, form, spacing and numbers.

    >>> normalize("You  WON £1,000! Call 0906-55")
    'you won £0! call 0-0'
    """
    return " ".join(_NUMBERS.sub("0", _fold_case(text)).split())


def find_numbers(text: str) -> tuple[str, ...]:
    """Return the numbers of a text, in order.

    >>> find_numbers("You  WON £1,000! Call 0906-55")
    ('1,000', '0906', '55')
    """
    return tuple(_NUMBERS.findall(_fold_case(text)))


def make_shingles(text: str) -> frozenset[str]:
    """Return all runs of a few characters in a normal text.

    >>> sorted(make_shingles("abcdef"))
    ['abcd', 'bcde', 'cdef']
    """
    return frozenset(text[at : at + SHINGLE_CHARS] for at in range(max(1, len(text) - SHINGLE_CHARS + 1)))


def jaccard_similarity(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of shingles that two texts have in common, of all that they have: Jaccard's.

    >>> jaccard_similarity(make_shingles("abcdef"), make_shingles("abcdeg"))
    0.5
    """
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def _fold_case(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


MIN_SIMILARITY: Final = 0.6  # of the shingles of both that a text shares with the head of its family
MAX_WITNESSES: Final = 4  # texts after the head that a text must be like, too; more change nothing on real messages
MIN_FUZZY_CHARS: Final = 16  # characters: shorter texts are of one family only if they are equal
MAX_FUZZY_CHARS: Final = 10_000  # characters: so are longer ones, since whoever floods does not write novels
SKETCH_SIZE: Final = 128  # numbers in a sketch
LSH_BANDS: Final = (
    32  # of them that must agree in four: what is ALIKE is found in 99 of 100 cases, what is more alike always
)
_SEED: Final = 20  # any will do, as long as it stays


class Family(msgspec.Struct, frozen=True):
    """Places of nearly equal texts in a list, in order; the first is the head."""

    members: tuple[int, ...]


def find_families(texts: Sequence[str], alike: float = MIN_SIMILARITY) -> list[Family]:
    """Return the families of some texts, in the order of their heads; a text that is like no other is one by itself.

    >>> texts = ["Win a FREE phone now, call 111", "Lunch?", "win a free phone now, call 9"]
    >>> [family.members for family in find_families(texts)]
    [(0, 2), (1,)]
    """
    same: dict[str, list[int]] = {}
    for at, text in enumerate(texts):
        same.setdefault(normalize(text), []).append(at)
    heads = _FamilyIndex(alike)
    found: dict[str, list[int]] = {}
    for text, places in same.items():
        found.setdefault(heads.of(text), []).extend(places)
    return [Family(tuple(sorted(places))) for places in sorted(found.values(), key=min)]


class _FamilyIndex:
    """The heads of families so far: a sketch of each, and the shingles of the first of its family."""

    def __init__(self, alike: float) -> None:
        from rensa import RMinHash, RMinHashLSH  # noqa: PLC0415 - only where there is something to compare

        self._alike = alike
        self._sketch = RMinHash
        self._index = RMinHashLSH(alike, SKETCH_SIZE, LSH_BANDS)
        self._heads: list[str] = []
        self._first: list[list[frozenset[str]]] = []

    def of(self, text: str) -> str:
        """Return the head of the family that a text is of; a text that is like none becomes one."""
        if not MIN_FUZZY_CHARS <= len(text) <= MAX_FUZZY_CHARS:
            return text
        pieces = make_shingles(text)
        sketch = self._sketch(SKETCH_SIZE, _SEED)
        sketch.update(sorted(pieces))
        best = max(((self._likeness(pieces, at), -at) for at in self._index.query(sketch)), default=(0.0, 0))
        if best[0] >= self._alike:
            first = self._first[-best[1]]
            first.extend([pieces] if len(first) <= MAX_WITNESSES else [])
            return self._heads[-best[1]]
        self._index.insert(len(self._heads), sketch)
        self._heads.append(text)
        self._first.append([pieces])
        return text

    def _likeness(self, pieces: frozenset[str], at: int) -> float:
        """Return how much a text is like the head of a family; 0 if it is not like the others of its first."""
        head, *others = (jaccard_similarity(pieces, other) for other in self._first[at])
        return head if all(share >= self._alike for share in others) else 0.0


def find_duplicate_memories(memories: Sequence[Memory], unread: Iterable[str]) -> list[Memory]:
    """Return those of the `unread` (by id) that say what another memory of the same scope says.

    The one that stays is pinned, or was used most, or is the most important, or the newest. Case, form and spacing do
    not count; numbers do.
    """
    spare = set(unread)
    same: dict[tuple[str, str], list[Memory]] = {}
    for memory in memories:
        same.setdefault((memory.scope, content_hashes(memory.content)[1]), []).append(memory)
    found = []
    for alike in same.values():
        best = max(alike, key=lambda each: (each.pinned, each.accesses, each.importance, each.at, each.id))
        found += [memory for memory in alike if memory.id != best.id and memory.id in spare]
    return found
