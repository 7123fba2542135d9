"""Families: texts that are nearly equal, found by a sketch of each and confirmed by comparing them.

The first text of a family is its head; every other one is at least so much like the head. A sketch (MinHash, by
`rensa`) finds the heads that a text may be like, so that ten thousand texts need not be compared with each other.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from brimful.janitor.shingles import likeness, normal, shingles

ALIKE: Final = 0.6  # of the shingles of both that a text shares with the head of its family
SHORT: Final = 16  # characters: shorter texts are of one family only if they are equal
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
    """The heads of families so far, and a sketch of each."""

    def __init__(self, alike: float) -> None:
        from rensa import RMinHash, RMinHashLSH  # noqa: PLC0415 - only where there is something to compare

        self._alike = alike
        self._sketch = RMinHash
        self._index = RMinHashLSH(alike, SKETCH, BANDS)
        self._heads: list[tuple[str, frozenset[str]]] = []

    def of(self, text: str) -> str:
        """Return the head that a text is most like; a text that is like none becomes one."""
        if len(text) < SHORT:
            return text
        pieces = shingles(text)
        sketch = self._sketch(SKETCH, _SEED)
        sketch.update(sorted(pieces))
        near = [(likeness(pieces, self._heads[at][1]), -at) for at in self._index.query(sketch)]
        best = max(near, default=(0.0, 0))
        if best[0] >= self._alike:
            return self._heads[-best[1]][0]
        self._index.insert(len(self._heads), sketch)
        self._heads.append((text, pieces))
        return text
