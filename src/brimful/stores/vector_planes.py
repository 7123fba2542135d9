"""The signs of many vectors, number by number: of each number one bit for every vector.

So 64 vectors are compared with a query at once, and by no more numbers than those of which it says most. How many of
them agree is counted in bits as well: sums stand in planes of their own, the ones, the twos, the fours and so on.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from brimful.stores.vector_codes import WORD, Bits, Places, Query

_COMPARED: Final = 63  # numbers: the largest of 256 tell nearly as much as all of them, most of which say little
_TOGETHER: Final = 16_384  # words of a plane: what is reckoned for them stays near the processor
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
    most = np.argsort(-np.abs(query.turned), kind="stable")[:_COMPARED]
    up = query.turned[most] > 0
    parts = [planes[:, start : start + _TOGETHER] for start in range(0, planes.shape[1], _TOGETHER)]
    summed = [_agreeing(part, most[up].tolist(), most[~up].tolist()) for part in parts]
    sums = [np.concatenate(plane) for plane in zip(*summed, strict=True)]
    places = _places(_at_least(sums, _bound(sums, alive, share)))
    places = places[: np.searchsorted(places, len(alive))]
    return places[alive[places] > 0]


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


def _places(words: Bits) -> Places:
    """Return where bits are set: few are, so only bytes that hold one are looked into."""
    octets = words.view(np.uint8)
    some = np.flatnonzero(octets > 0)  # of numbers themselves, it would take four times as long
    bits = np.flatnonzero(np.unpackbits(octets[some], bitorder="little").view(np.bool_))
    places: Places = some[bits >> 3] * _BYTE + (bits & 7)
    return places


def _agreeing(planes: Bits, up: Sequence[int], down: Sequence[int]) -> list[Bits]:
    """Return how many signs of each vector are up and down where they should be, more by the same number for all.

    Those that are up but should be down are subtracted: a number with all its bits inverted is the most that they can
    hold, less that number. So the sums are inverted, which are few, and not the planes.
    """
    right, wrong = (_summed((0, planes[at]) for at in places) for places in (up, down))
    return _summed([*enumerate(right), *((heft, ~plane) for heft, plane in enumerate(wrong))])


def _summed(planes: Iterable[tuple[int, Bits]]) -> list[Bits]:
    """Add bits, vector by vector, each of which counts twice as much for each step of its heft; return sums likewise.

    Three bits of a heft are added as soon as they are there, so that what was carried is still near the processor.
    """
    held: list[list[Bits]] = []
    for heft, plane in planes:
        _add(held, heft, plane)
    for heft, level in enumerate(held):  # which may grow by one meanwhile
        if len(level) > 1:
            one, other = level
            held[heft] = [one ^ other]
            _add(held, heft + 1, one & other)
    return [plane for (plane,) in held]


def _add(held: list[list[Bits]], heft: int, plane: Bits) -> None:
    """Add a plane to those that are held, never more than two of a heft: three give one, and carry."""
    while len(held) > heft and len(held[heft]) > 1:
        one, other = held[heft]
        both, total = one ^ other, one ^ plane  # `both` is `one`, unless both others differ from it
        both &= total
        both ^= one
        total ^= other
        held[heft], plane = [total], both
        heft += 1
    if heft == len(held):
        held.append([])
    held[heft].append(plane)


def _bound(sums: Sequence[Bits], alive: npt.NDArray[np.uint8], share: float) -> list[bool]:
    """Return which sum the best share reaches, as a sample tells: its bits, the highest first."""
    words = np.arange(0, len(sums[0]), max(1, len(sums[0]) // _SAMPLE))
    same = living = _living(words, alive)
    least = share * int(np.bitwise_count(living).sum())
    bound, more = [], np.zeros_like(living)
    for plane in reversed(sums):
        up = plane[words] & same
        bound.append(bool(np.bitwise_count(more | up).sum() >= least))
        same, more = (up, more) if bound[-1] else (same, more | up)
    return bound


def _at_least(sums: Sequence[Bits], bound: Sequence[bool]) -> Bits:
    """Return where sums are no smaller than a bound."""
    same, more = ~np.zeros_like(sums[0]), np.zeros_like(sums[0])
    for plane, needed in zip(reversed(sums), bound, strict=True):
        up = plane & same
        same, more = (up, more) if needed else (same, more | up)
    return more | same


def _living(words: Places, alive: npt.NDArray[np.uint8]) -> Bits:
    """Return who is alive, in some words of a plane."""
    places = (words[:, None] * WORD + np.arange(WORD)).ravel()
    bits = np.zeros(len(places), np.uint8)
    inside = places[: np.searchsorted(places, len(alive))]
    bits[: len(inside)] = alive[inside]
    return np.packbits(bits, bitorder="little").view(np.uint64)
