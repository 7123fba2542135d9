"""The signs of many vectors, number by number: of each number one bit for every vector.

So 64 vectors are compared with a query at once, and by no more numbers than those of which it says most. How many of
them agree is counted in bits as well: sums stand in planes of their own, the ones, the twos, the fours and so on.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from brimful.stores.vector_codes import WORD, Bits, Places, Query

_COMPARED: Final = 79  # numbers: the largest third of 256 tells as much as all of them, most of which say little
_TOGETHER: Final = 4_096  # words of a plane: what is reckoned for them stays near the processor
_BYTE: Final = 8  # bits
_EXCHANGES: Final = tuple(
    (np.uint64(mask), np.uint64(by))
    for mask, by in ((0x00AA00AA00AA00AA, 7), (0x0000CCCC0000CCCC, 14), (0x00000000F0F0F0F0, 28))
)
"""Which bits of a word change places with those so many places further on: single ones, then blocks of 2 × 2, 4 × 4."""
_SAMPLE: Final = 256  # words, of 64 vectors each, that tell where the best share ends


class Planes:
    """Signs of vectors, which grow at their end."""

    def __init__(self, numbers: int) -> None:
        """Begin with no vector; each will have so many numbers."""
        self._room = np.zeros((numbers, 0), np.uint64)
        self._used = 0

    @property
    def all(self) -> Bits:
        """A row for each number. Bits of vectors that come later may turn up in the last word of an earlier view."""
        return self._room[:, : _words(self._used)]

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return self._room.nbytes

    def extend(self, signs: Bits) -> None:
        """Append vectors by their signs, a row a vector."""
        first, inside = divmod(self._used, WORD)
        end = inside + len(signs)
        if first + _words(end) > self._room.shape[1]:
            self.reserve(max(self._used + len(signs), 2 * self._used))
        rows = np.zeros((_words(end) * WORD, signs.shape[1]), np.uint64)
        rows[inside:end] = signs
        self._room[:, first : first + _words(end)] |= _flipped(rows)
        self._used += len(signs)

    def reserve(self, vectors: int) -> None:
        """Take memory for so many vectors in all."""
        held = self.all
        larger = np.zeros((len(held), _words(max(vectors, self._used))), np.uint64)
        larger[:, : held.shape[1]] = held
        self._room = larger


def likely(planes: Bits, alive: npt.NDArray[np.uint8], query: Query, share: float) -> Places:
    """Return the places of about the best share, by their signs where the query says most.

    `alive` is 0 for those that are not to be found.
    """
    living = _packed(alive, planes.shape[1])
    most = np.argsort(-np.abs(query.turned), kind="stable")[:_COMPARED]
    wanted = [*zip(most.tolist(), (query.turned[most] > 0).tolist(), strict=True)]
    parts = [slice(start, start + _TOGETHER) for start in range(0, planes.shape[1], _TOGETHER)]
    summed = [_summed([planes[at, part] if up else ~planes[at, part] for at, up in wanted]) for part in parts]
    sums = [np.concatenate(plane) for plane in zip(*summed, strict=True)]
    reached = _at_least(sums, _bound(sums, living, share)) & living
    return np.flatnonzero(_unpacked(reached)[: len(alive)].view(np.bool_))


def _words(vectors: int) -> int:
    return -(-vectors // WORD)


def _flipped(signs: Bits) -> Bits:
    """Return signs, a row a vector, as planes, a row a number; vectors are as many as fill whole words.

    A word holds eight signs of eight vectors, and three exchanges of bits make it those of eight numbers. To spread
    bits out into bytes, which numpy can turn by itself, takes three times as long.
    """
    rows, numbers = len(signs) // _BYTE, signs.shape[1] * WORD
    bytes_of = signs.view(np.uint8).reshape(rows, _BYTE, numbers // _BYTE)
    words = np.ascontiguousarray(bytes_of.transpose(0, 2, 1)).view(np.uint64)
    for mask, by in _EXCHANGES:
        other = (words ^ (words >> by)) & mask
        words ^= other ^ (other << by)
    return np.ascontiguousarray(words.view(np.uint8).reshape(rows, numbers).T).view(np.uint64)


def _packed(alive: npt.NDArray[np.uint8], words: int) -> Bits:
    room = np.zeros(words * WORD, np.uint8)
    room[: len(alive)] = alive
    return np.packbits(room, bitorder="little").view(np.uint64)


def _unpacked(words: Bits) -> npt.NDArray[np.uint8]:
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little")


def _summed(planes: list[Bits]) -> list[Bits]:
    """Add bits, vector by vector, and return the sums, their lowest bits first: two or three bits give one, and carry.

    The list is used up.
    """
    sums: list[Bits] = []
    while planes:
        carried = []
        while len(planes) > 1:
            one, other = planes.pop(), planes.pop()
            total, both = one ^ other, one & other
            if planes:
                third = planes.pop()
                both |= total & third
                total ^= third
            planes.append(total)
            carried.append(both)
        sums += planes
        planes = carried
    return sums


def _bound(sums: Sequence[Bits], living: Bits, share: float) -> int:
    """Return which sum the best share reaches, as a sample tells."""
    step = max(1, len(living) // _SAMPLE)
    agreeing = np.zeros(len(living[::step]) * WORD, np.uint8)
    for heft, plane in enumerate(sums):
        agreeing += _unpacked(plane[::step]) << heft
    agreeing = agreeing[_unpacked(living[::step]).view(np.bool_)]
    better = np.cumsum(np.bincount(agreeing)[::-1])
    return max(0, len(better) - 1 - int(np.searchsorted(better, share * len(agreeing))))


def _at_least(sums: Sequence[Bits], bound: int) -> Bits:
    """Return where sums are no smaller than a bound."""
    more, same = np.zeros_like(sums[0]), ~np.zeros_like(sums[0])
    for heft in reversed(range(len(sums))):
        if bound >> heft & 1:
            same &= sums[heft]
        else:
            more |= same & sums[heft]
            same &= ~sums[heft]
    return more | same
