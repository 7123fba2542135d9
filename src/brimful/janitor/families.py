"""Families of near-duplicate texts: found by MinHash LSH, confirmed by Jaccard similarity of their shingles.

The first text of a family is its head. Every other one is similar to the head and to the next few members: without
those, two texts would join a family for what each shares with the head, but not with each other. Numbers are ignored
here and compared separately, since they may be what matters.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.core.content import content_hashes
from brimful.records import Memory

SHINGLE_CHARS: Final = 4  # characters of a shingle

_NUMBERS: Final = re.compile(r"\d+(?:[.,:]\d+)*")
MIN_SIMILARITY: Final = 0.6  # Jaccard similarity of a text and the head of its family
MAX_WITNESSES: Final = 4  # members after the head that a text must be similar to; more change nothing on real messages
MIN_FUZZY_CHARS: Final = 16  # shorter texts must be equal
MAX_FUZZY_CHARS: Final = 10_000  # so must longer ones: floods do not consist of novels
SKETCH_SIZE: Final = 128  # numbers in a sketch
LSH_BANDS: Final = 32  # of four hashes: finds 99 of 100 texts at the minimum similarity, and more above it
_BAND: Final = np.dtype((np.void, SKETCH_SIZE // LSH_BANDS * 4))
_RANDOM: Final[npt.NDArray[np.uint32]] = (
    np.random.PCG64(20).random_raw(2 * SKETCH_SIZE).astype(np.uint32)
)  # the same in all versions of numpy
_FACTORS, _OFFSETS = (_RANDOM | np.uint32(1))[:SKETCH_SIZE, None], _RANDOM[SKETCH_SIZE:, None]
_BASE: Final = np.uint64(0x9E3779B97F4A7C15)  # of the polynomial that hashes a shingle: odd, with mixed bits


def normalize(text: str) -> str:
    """Return a text in NFKC, without case, extra spaces and numbers.

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
    """Return all substrings of four characters of a normalized text.

    >>> sorted(make_shingles("abcdef"))
    ['abcd', 'bcde', 'cdef']
    """
    return frozenset(text[i : i + SHINGLE_CHARS] for i in range(max(1, len(text) - SHINGLE_CHARS + 1)))


def jaccard_similarity(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the Jaccard similarity of two sets of shingles.

    >>> jaccard_similarity(make_shingles("abcdef"), make_shingles("abcdeg"))
    0.5
    """
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def make_sketch(text: str) -> npt.NDArray[np.uint32]:
    """Return the MinHash sketch of a text: the least hash of all its shingles, under each of 128 hash functions.

    Two sketches are equal in about as many numbers as the sets of shingles are similar.

    >>> one, other = make_sketch("win a free phone now"), make_sketch("win a free phone today")
    >>> 0.4 < float((one == other).mean()) < 0.8
    True
    """
    characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    hashes = np.zeros(max(1, len(characters) - SHINGLE_CHARS + 1), np.uint64)
    for index in range(SHINGLE_CHARS):
        hashes = hashes * _BASE + characters[index : index + len(hashes)]
    products = _FACTORS * (hashes >> np.uint64(32)).astype(np.uint32)
    products += _OFFSETS
    sketch: npt.NDArray[np.uint32] = products.min(axis=1)
    return sketch


def _fold_case(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


class Family(msgspec.Struct, frozen=True):
    """Indices of near-duplicate texts, in order; the first is the head."""

    members: tuple[int, ...]


def find_families(texts: Sequence[str], min_similarity: float = MIN_SIMILARITY) -> list[Family]:
    """Return the families of some texts, in the order of their heads. A text without near-duplicates is a family, too.

    >>> texts = ["Win a FREE phone now, call 111", "Lunch?", "win a free phone now, call 9"]
    >>> [family.members for family in find_families(texts)]
    [(0, 2), (1,)]
    """
    equal: dict[str, list[int]] = {}
    for position, text in enumerate(texts):
        equal.setdefault(normalize(text), []).append(position)
    index = _FamilyIndex(min_similarity)
    families: dict[str, list[int]] = {}
    for text, members in equal.items():
        families.setdefault(index.find_head(text), []).extend(members)
    return [Family(tuple(sorted(members))) for members in sorted(families.values(), key=min)]


class _FamilyIndex:
    """The heads of all families so far, each with its MinHash sketch and the shingles of its first members."""

    def __init__(self, min_similarity: float) -> None:
        self._min_similarity = min_similarity
        self._buckets: list[dict[bytes, list[int]]] = [{} for _ in range(LSH_BANDS)]  # heads by a part of their sketch
        self._heads: list[str] = []
        self._members: list[list[frozenset[str]]] = []

    def find_head(self, text: str) -> str:
        """Return the head of the family that a text belongs to; a text that is similar to none starts a new one."""
        if not MIN_FUZZY_CHARS <= len(text) <= MAX_FUZZY_CHARS:
            return text
        pieces = make_shingles(text)
        bands = list(zip(self._buckets, make_sketch(text).view(_BAND).tolist(), strict=True))
        near = {i for bucket, band in bands if band in bucket for i in bucket[band]}
        best = max(((self._similarity(pieces, i), -i) for i in near), default=(0.0, 0))
        if best[0] >= self._min_similarity:
            members = self._members[-best[1]]
            members.extend([pieces] if len(members) <= MAX_WITNESSES else [])
            return self._heads[-best[1]]
        for bucket, band in bands:
            bucket.setdefault(band, []).append(len(self._heads))
        self._heads.append(text)
        self._members.append([pieces])
        return text

    def _similarity(self, pieces: frozenset[str], index: int) -> float:
        """Return the similarity of a text to the head of a family; 0 if it differs from its other first members."""
        head, *others = (jaccard_similarity(pieces, other) for other in self._members[index])
        return head if all(share >= self._min_similarity for share in others) else 0.0


def find_duplicate_memories(memories: Sequence[Memory], unread: Iterable[str]) -> list[Memory]:
    """Return the memories among `unread` (ids) that repeat another memory of the same scope.

    Of equal memories, the pinned, most used, most important or newest one stays. Case and spacing do not matter;
    numbers do.
    """
    candidates = set(unread)
    equal: dict[tuple[str, str], list[Memory]] = {}
    for memory in memories:
        equal.setdefault((memory.scope, content_hashes(memory.content)[1]), []).append(memory)
    duplicates = []
    for group in equal.values():
        best = max(group, key=lambda each: (each.pinned, each.accesses, each.importance, each.at, each.id))
        duplicates += [memory for memory in group if memory.id != best.id and memory.id in candidates]
    return duplicates
