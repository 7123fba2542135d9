"""Compressed vectors for fast approximate search.

Vectors are rotated (randomized Hadamard transform) so that every component carries about the same information, then
stored twice: as one sign bit per component (binary quantization) and as int8 codes. A query scans the sign bits of
all vectors, re-scores the best few thousand with weighted signs, and ranks the survivors by int8 dot product.

The scan works on bit planes: one row per component with one bit per vector, so that 64 vectors are compared at once.
Matching signs are counted with a carry-save adder.
"""

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.stores.vectors.float16 import Floats

WORD_BITS: Final = 64  # bits; vectors are rotated in blocks of as many numbers
_MAX_LEVEL: Final = 127  # of eight bits with a sign: what the largest number of a vector becomes
_BIT_WEIGHTS: Final = (4, 2, 1)  # of the bits that say how much a query says: from 0 to 7
_MAGNITUDE_RANGE: Final = 2.6  # times the spread of a query's numbers is 8 of these levels
_ROTATION_BATCH: Final = 4_096  # vectors that are rotated together: what is reckoned for them stays near the processor
_SIGN_BATCH: Final = 8_192  # … whose signs are weighed together
_COSINE_BATCH: Final = 256  # … and whose numbers are compared together

Positions = npt.NDArray[np.intp]
Bits = npt.NDArray[np.uint64]
Levels = npt.NDArray[np.int8]


class Query(msgspec.Struct, frozen=True):
    """A vector that is asked for: rotated; where it is negative; and how much it says where, in bits by heft."""

    rotated: Floats
    negative: Bits
    sizes: Bits


def word_count(dims: int) -> int:
    """Return how many words the signs of a vector take.

    >>> word_count(256), word_count(257)
    (4, 5)
    """
    return -(-dims // WORD_BITS)


def quantize(vectors: Floats) -> tuple[Levels, Floats]:
    """Return the numbers of vectors of length 1, rotated and in eight bits, and what they are times."""
    levels = np.empty((len(vectors), word_count(vectors.shape[1]) * WORD_BITS), np.int8)
    scales = np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), _ROTATION_BATCH):
        part = slice(start, start + _ROTATION_BATCH)
        rotated = _rotate(vectors[part])
        scales[part] = np.maximum(rotated.max(axis=1), -rotated.min(axis=1)) / np.float32(_MAX_LEVEL)
        rotated /= np.maximum(scales[part, None], np.float32(1e-9))
        levels[part] = np.rint(rotated, out=rotated)
    return levels, scales


def sign_bits(levels: Levels) -> Bits:
    """Return the signs of numbers, a row a vector."""
    return _pack_bits(levels > 0)


def prepare_query(vector: Floats) -> Query:
    """Return a vector that is asked for, of length 1, as codes are compared with it."""
    rotated = _rotate(vector[None, :])
    much = max(_MAGNITUDE_RANGE * float(np.sqrt(np.square(rotated).mean())), 1e-9)
    sizes = np.minimum(np.abs(rotated) * (2 * _BIT_WEIGHTS[0] / much), sum(_BIT_WEIGHTS)).astype(np.uint8)
    return Query(
        rotated[0], _pack_bits(rotated < 0)[0], np.stack([_pack_bits(sizes & heft > 0)[0] for heft in _BIT_WEIGHTS])
    )


def score_signs(signs: Bits, places: Positions, query: Query) -> npt.NDArray[np.int32]:
    """Return how much of what the query says agrees with the signs at these places."""
    total = np.zeros(len(places), np.int32)
    for start in range(0, len(places), _SIGN_BATCH):
        part = slice(start, start + _SIGN_BATCH)
        # Word by word: rows of a few words would take several times as long.
        agreeing = np.ascontiguousarray(signs.take(places[part], axis=0).T)
        agreeing ^= query.negative[:, None]
        for heft, size in zip(_BIT_WEIGHTS, query.sizes, strict=True):
            bits = np.bitwise_count(agreeing & size[:, None]).sum(axis=0, dtype=_count_dtype(size))
            total[part] += bits.astype(np.int32) * heft
    return total


def approximate_cosines(levels: Levels, scales: Floats, places: Positions, query: Query) -> Floats:
    """Return the cosines of the vectors in eight bits at these places with the query, to a thousandth."""
    near = np.empty(len(places), np.float32)
    room = np.empty((min(len(places), _COSINE_BATCH), levels.shape[1]), np.float32)
    for start in range(0, len(places), _COSINE_BATCH):
        part = levels.take(places[start : start + _COSINE_BATCH], axis=0)
        room[: len(part)] = part
        near[start : start + _COSINE_BATCH] = np.vecdot(room[: len(part)], query.rotated)
    near *= scales[places]
    return near


def _count_dtype(mask: Bits) -> type[np.uint8] | type[np.uint16]:
    """Return the kind of number that holds a count of these bits."""
    return np.uint8 if int(np.bitwise_count(mask).sum()) <= np.iinfo(np.uint8).max else np.uint16


def _pack_bits(bits: npt.NDArray[np.bool_]) -> Bits:
    """Return bits, a row a vector, in words."""
    words: Bits = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
    return words


def _rotate(vectors: Floats) -> Floats:
    """Return vectors with their numbers mixed, as many as fill whole words: a block of them is every n-th number.

    They are rotated a few at a time: for larger products, threads are started that go on turning for a while.
    """
    count, dims = vectors.shape
    words, few = word_count(dims), max(1, min(count, WORD_BITS))
    room = np.zeros((-(-count // few) * few, words * WORD_BITS), np.float32)
    room[:count, :dims] = vectors
    blocks = room.reshape(-1, few, WORD_BITS, words).transpose(3, 0, 1, 2)
    rotated: Floats = np.matmul(blocks, _hadamard_matrices(words)[:, None]).transpose(1, 2, 0, 3).reshape(room.shape)
    return rotated[:count]


@cache
def _hadamard_matrices(words: int) -> Floats:
    """Return a matrix of Hadamard for each block: every number goes into every other, and lengths stay as they are.

    Numbers change their sign before, by chance, and the same ones wherever codes are made.
    """
    places = np.arange(WORD_BITS)
    hadamard = 1 - 2.0 * (np.bitwise_count(places[:, None] & places) % 2)
    chance = (
        np.frombuffer(hashlib.shake_128(b"brimful").digest(words * WORD_BITS), np.uint8).reshape(words, WORD_BITS, 1)
        % 2
    )
    rotations: Floats = ((1 - 2.0 * chance) * hadamard / np.sqrt(WORD_BITS)).astype(np.float32)
    return rotations


_SCANNED_COMPONENTS: Final = (
    63  # numbers: the largest of 256 tell nearly as much as all of them, most of which say little
)
SCAN_BATCH: Final = 16_384  # words of a plane: what is reckoned for them stays near the processor
_BYTE: Final = 8  # bits
_TRANSPOSE_STEPS: Final = tuple(
    (np.uint64(mask), np.uint64(by))
    for mask, by in ((0x00AA00AA00AA00AA, 7), (0x0000CCCC0000CCCC, 14), (0x00000000F0F0F0F0, 28))
)
"""Which bits of a word change places with those so many places further on: single ones, then blocks of 2 × 2, 4 × 4."""
_SAMPLE_WORDS: Final = 256  # words, of 64 vectors each, that tell where the best share ends


class SignPlanes:
    """Signs of vectors, which grow at their end."""

    def __init__(self, numbers: int) -> None:
        """Begin with no vector; each will have so many numbers."""
        self._room = np.zeros((numbers, 0), np.uint64)
        self._used = 0

    @property
    def all(self) -> Bits:
        """A row for each number. Bits of vectors that come later may turn up in the last word of an earlier view."""
        return self._room[:, : _plane_words(self._used)]

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return self._room.nbytes

    def extend(self, signs: Bits) -> None:
        """Append vectors by their signs, a row a vector."""
        first, inside = divmod(self._used, WORD_BITS)
        end = inside + len(signs)
        if first + _plane_words(end) > self._room.shape[1]:
            self.reserve(max(self._used + len(signs), 2 * self._used))
        rows = np.zeros((_plane_words(end) * WORD_BITS, signs.shape[1]), np.uint64)
        rows[inside:end] = signs
        self._room[:, first : first + _plane_words(end)] |= _transpose_bits(rows)
        self._used += len(signs)

    def reserve(self, vectors: int) -> None:
        """Take memory for so many vectors in all."""
        held = self.all
        larger = np.zeros((len(held), _plane_words(max(vectors, self._used))), np.uint64)
        larger[:, : held.shape[1]] = held
        self._room = larger


def scan_signs(
    planes: Bits, alive: npt.NDArray[np.uint8], query: Query, share: float, *, batch: int = SCAN_BATCH
) -> Positions:
    """Return the places of about the best share, by their signs where the query says most.

    `alive` is 0 for those that are not to be found.
    """
    most = np.argsort(-np.abs(query.rotated), kind="stable")[:_SCANNED_COMPONENTS]
    up = query.rotated[most] > 0
    parts = [planes[:, start : start + batch] for start in range(0, planes.shape[1], batch)]
    summed = [_count_agreements(part, most[up].tolist(), most[~up].tolist()) for part in parts]
    sums = [np.concatenate(plane) for plane in zip(*summed, strict=True)]
    places = _set_positions(_at_or_above(sums, _estimate_threshold(sums, alive, share)))
    places = places[: np.searchsorted(places, len(alive))]
    return places[alive[places] > 0]


def _plane_words(vectors: int) -> int:
    return -(-vectors // WORD_BITS)


def _transpose_bits(signs: Bits) -> Bits:
    """Return signs, a row a vector, as planes, a row a number; vectors are as many as fill whole words.

    A word holds eight signs of eight vectors, and three exchanges of bits make it those of eight numbers. To spread
    bits out into bytes, which numpy can turn by itself, takes three times as long.
    """
    rows, numbers = len(signs) // _BYTE, signs.shape[1] * WORD_BITS
    bytes_of = signs.view(np.uint8).reshape(rows, _BYTE, numbers // _BYTE)
    words = np.ascontiguousarray(bytes_of.transpose(0, 2, 1)).view(np.uint64)
    for mask, by in _TRANSPOSE_STEPS:
        other = (words ^ (words >> by)) & mask
        words ^= other ^ (other << by)
    return np.ascontiguousarray(words.view(np.uint8).reshape(rows, numbers).T).view(np.uint64)


def _set_positions(words: Bits) -> Positions:
    """Return where bits are set: few are, so only bytes that hold one are looked into."""
    octets = words.view(np.uint8)
    some = np.flatnonzero(octets > 0)  # of numbers themselves, it would take four times as long
    bits = np.flatnonzero(np.unpackbits(octets[some], bitorder="little").view(np.bool_))
    places: Positions = some[bits >> 3] * _BYTE + (bits & 7)
    return places


def _count_agreements(planes: Bits, up: Sequence[int], down: Sequence[int]) -> list[Bits]:
    """Return how many signs of each vector are up and down where they should be, more by the same number for all.

    Those that are up but should be down are subtracted: a number with all its bits inverted is the most that they can
    hold, less that number. So the sums are inverted, which are few, and not the planes.
    """
    right, wrong = (_sum_planes((0, planes[at]) for at in places) for places in (up, down))
    return _sum_planes([*enumerate(right), *((heft, ~plane) for heft, plane in enumerate(wrong))])


def _sum_planes(planes: Iterable[tuple[int, Bits]]) -> list[Bits]:
    """Add bits, vector by vector, each of which counts twice as much for each step of its heft; return sums likewise.

    Three bits of a heft are added as soon as they are there, so that what was carried is still near the processor.
    """
    held: list[list[Bits]] = []
    for heft, plane in planes:
        _add_plane(held, heft, plane)
    for heft, level in enumerate(held):  # which may grow by one meanwhile
        if len(level) > 1:
            one, other = level
            held[heft] = [one ^ other]
            _add_plane(held, heft + 1, one & other)
    return [plane for (plane,) in held]


def _add_plane(held: list[list[Bits]], heft: int, plane: Bits) -> None:
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


def _estimate_threshold(sums: Sequence[Bits], alive: npt.NDArray[np.uint8], share: float) -> list[bool]:
    """Return which sum the best share reaches, as a sample tells: its bits, the highest first."""
    words = np.arange(0, len(sums[0]), max(1, len(sums[0]) // _SAMPLE_WORDS))
    same = living = _alive_bits(words, alive)
    least = share * int(np.bitwise_count(living).sum())
    bound, more = [], np.zeros_like(living)
    for plane in reversed(sums):
        up = plane[words] & same
        bound.append(bool(np.bitwise_count(more | up).sum() >= least))
        same, more = (up, more) if bound[-1] else (same, more | up)
    return bound


def _at_or_above(sums: Sequence[Bits], bound: Sequence[bool]) -> Bits:
    """Return where sums are no smaller than a bound."""
    same, more = ~np.zeros_like(sums[0]), np.zeros_like(sums[0])
    for plane, needed in zip(reversed(sums), bound, strict=True):
        up = plane & same
        same, more = (up, more) if needed else (same, more | up)
    return more | same


def _alive_bits(words: Positions, alive: npt.NDArray[np.uint8]) -> Bits:
    """Return who is alive, in some words of a plane."""
    places = (words[:, None] * WORD_BITS + np.arange(WORD_BITS)).ravel()
    bits = np.zeros(len(places), np.uint8)
    inside = places[: np.searchsorted(places, len(alive))]
    bits[: len(inside)] = alive[inside]
    return np.packbits(bits, bitorder="little").view(np.uint64)
