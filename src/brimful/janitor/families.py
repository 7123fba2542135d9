"""Families: texts that are nearly equal, found by a sketch of each and confirmed by comparing them.

The first text of a family is its head. Every other one is at least so much like the head, and like the few that came
after it: without these witnesses, two texts would be of one family for what each shares with the head, and not with
each other. A sketch (MinHash, by `rensa`) finds the heads that a text may be like, so that ten thousand texts need not
be compared with each other.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from brimful.janitor.shingles import likeness, normal, shingles

ALIKE: Final = 0.6  # of the shingles of both that a text shares with the head of its family
WITNESSES: Final = 4  # texts after the head that a text must be like, too; more change nothing on real messages
SHORT: Final = 16  # characters: shorter texts are of one family only if they are equal
LONG: Final = 10_000  # characters: so are longer ones, since whoever floods does not write novels
SKETCH: Final = 128  # numbers in a sketch
BANDS: Final = (
    32  # of them that must agree in four: what is ALIKE is found in 99 of 100 cases, what is more alike always
)
_SEED: Final = 20  # any will do, as long as it stays


class Family(msgspec.Struct, frozen=True):
    """Places of nearly equal texts in a list, in order; the first is the head."""

    members: tuple[int, ...]


def families(texts: Sequence[str], alike: float = ALIKE) -> list[Family]:
    """Return the families of some texts, in the order of their heads; a text that is like no other is one by itself.

    >>> texts = ["Win a FREE phone now, call 111", "Lunch?", "win a free phone now, call 9"]
    >>> [family.members for family in families(texts)]
    [(0, 2), (1,)]
    """
    same: dict[str, list[int]] = {}
    for at, text in enumerate(texts):
        same.setdefault(normal(text), []).append(at)
    heads = _Heads(alike)
    found: dict[str, list[int]] = {}
    for text, places in same.items():
        found.setdefault(heads.of(text), []).extend(places)
    return [Family(tuple(sorted(places))) for places in sorted(found.values(), key=min)]


class _Heads:
    """The heads of families so far: a sketch of each, and the shingles of the first of its family."""

    def __init__(self, alike: float) -> None:
        from rensa import RMinHash, RMinHashLSH  # noqa: PLC0415 - only where there is something to compare

        self._alike = alike
        self._sketch = RMinHash
        self._index = RMinHashLSH(alike, SKETCH, BANDS)
        self._heads: list[str] = []
        self._first: list[list[frozenset[str]]] = []

    def of(self, text: str) -> str:
        """Return the head of the family that a text is of; a text that is like none becomes one."""
        if not SHORT <= len(text) <= LONG:
            return text
        pieces = shingles(text)
        sketch = self._sketch(SKETCH, _SEED)
        sketch.update(sorted(pieces))
        best = max(((self._likeness(pieces, at), -at) for at in self._index.query(sketch)), default=(0.0, 0))
        if best[0] >= self._alike:
            first = self._first[-best[1]]
            first.extend([pieces] if len(first) <= WITNESSES else [])
            return self._heads[-best[1]]
        self._index.insert(len(self._heads), sketch)
        self._heads.append(text)
        self._first.append([pieces])
        return text

    def _likeness(self, pieces: frozenset[str], at: int) -> float:
        """Return how much a text is like the head of a family; 0 if it is not like the others of its first."""
        head, *others = (likeness(pieces, other) for other in self._first[at])
        return head if all(share >= self._alike for share in others) else 0.0
