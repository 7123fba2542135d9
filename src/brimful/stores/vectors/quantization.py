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

WORD_BITS: Final = 64  # bits, and components per rotated block
_MAX_LEVEL: Final = 127  # int8; the largest component of a vector maps to it
_BIT_WEIGHTS: Final = (4, 2, 1)  # of the three magnitude bits
_MAGNITUDE_RANGE: Final = 2.6  # standard deviations map to magnitude level 8
_ROTATION_BATCH: Final = 4_096  # vectors; a batch fits in the L2 cache
_SIGN_BATCH: Final = 8_192  # vectors
_COSINE_BATCH: Final = 256  # vectors

Positions = npt.NDArray[np.intp]
Bits = npt.NDArray[np.uint64]
Levels = npt.NDArray[np.int8]
_SCANNED_COMPONENTS: Final = 63  # the largest of 256 components decide almost everything
SCAN_BATCH: Final = 16_384  # words of a plane; a batch fits in the L2 cache
_BYTE: Final = 8  # bits
_TRANSPOSE_STEPS: Final = tuple(
    (np.uint64(mask), np.uint64(by))
    for mask, by in ((0x00AA00AA00AA00AA, 7), (0x0000CCCC0000CCCC, 14), (0x00000000F0F0F0F0, 28))
)
"""Mask and distance of the bits to swap: single bits, then blocks of 2 × 2 and 4 × 4."""
_SAMPLE_WORDS: Final = 256  # words of 64 vectors, to estimate the threshold


class Query(msgspec.Struct, frozen=True):
    """A query vector prepared for search: rotated, with its sign bits and 3-bit component magnitudes."""

    rotated: Floats
    negative: Bits
    sizes: Bits


def word_count(dims: int) -> int:
    """Return the number of 64-bit words for the signs of a vector.

    >>> word_count(256), word_count(257)
    (4, 5)
    """
    return -(-dims // WORD_BITS)


def quantize(vectors: Floats) -> tuple[Levels, Floats]:
    """Rotate unit vectors and quantize them to int8; return the codes and the scale of each vector."""
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
    """Return the sign bits of int8 codes, one row per vector."""
    return _pack_bits(levels > 0)


def prepare_query(vector: Floats) -> Query:
    """Prepare a unit vector for comparison with quantized vectors."""
    rotated = _rotate(vector[None, :])
    largest = max(_MAGNITUDE_RANGE * float(np.sqrt(np.square(rotated).mean())), 1e-9)
    sizes = np.minimum(np.abs(rotated) * (2 * _BIT_WEIGHTS[0] / largest), sum(_BIT_WEIGHTS)).astype(np.uint8)
    return Query(
        rotated[0], _pack_bits(rotated < 0)[0], np.stack([_pack_bits(sizes & weight > 0)[0] for weight in _BIT_WEIGHTS])
    )


def score_signs(signs: Bits, positions: Positions, query: Query) -> npt.NDArray[np.int32]:
    """Return the weighted number of components whose sign agrees with the query, for these positions."""
    total = np.zeros(len(positions), np.int32)
    for start in range(0, len(positions), _SIGN_BATCH):
        part = slice(start, start + _SIGN_BATCH)
        # Transposed, because loops over rows of a few words are several times slower.
        agreeing = np.ascontiguousarray(signs.take(positions[part], axis=0).T)
        agreeing ^= query.negative[:, None]
        for weight, size in zip(_BIT_WEIGHTS, query.sizes, strict=True):
            bits = np.bitwise_count(agreeing & size[:, None]).sum(axis=0, dtype=_count_dtype(size))
            total[part] += bits.astype(np.int32) * weight
    return total


def approximate_cosines(levels: Levels, scales: Floats, positions: Positions, query: Query) -> Floats:
    """Return the cosines of int8 vectors at these positions with the query, to about 0.001."""
    near = np.empty(len(positions), np.float32)
    buffer = np.empty((min(len(positions), _COSINE_BATCH), levels.shape[1]), np.float32)
    for start in range(0, len(positions), _COSINE_BATCH):
        part = levels.take(positions[start : start + _COSINE_BATCH], axis=0)
        buffer[: len(part)] = part
        near[start : start + _COSINE_BATCH] = np.vecdot(buffer[: len(part)], query.rotated)
    near *= scales[positions]
    return near


def _count_dtype(mask: Bits) -> type[np.uint8] | type[np.uint16]:
    """Return the smallest dtype that can count these bits."""
    return np.uint8 if int(np.bitwise_count(mask).sum()) <= np.iinfo(np.uint8).max else np.uint16


def _pack_bits(bits: npt.NDArray[np.bool_]) -> Bits:
    """Pack bits into words, one row per vector."""
    words: Bits = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
    return words


def _rotate(vectors: Floats) -> Floats:
    """Rotate vectors, padded to whole words. A block consists of every n-th component.

    Small matrix products avoid BLAS threads, which keep spinning after large ones.
    """
    count, dims = vectors.shape
    words, batch = word_count(dims), max(1, min(count, WORD_BITS))
    buffer = np.zeros((-(-count // batch) * batch, words * WORD_BITS), np.float32)
    buffer[:count, :dims] = vectors
    blocks = buffer.reshape(-1, batch, WORD_BITS, words).transpose(3, 0, 1, 2)
    rotated: Floats = np.matmul(blocks, _hadamard_matrices(words)[:, None]).transpose(1, 2, 0, 3).reshape(buffer.shape)
    return rotated[:count]


@cache
def _hadamard_matrices(words: int) -> Floats:
    """Return an orthogonal Hadamard matrix for each block.

    Signs are flipped pseudo-randomly first, in the same way on every machine.
    """
    positions = np.arange(WORD_BITS)
    hadamard = 1 - 2.0 * (np.bitwise_count(positions[:, None] & positions) % 2)
    chance = (
        np.frombuffer(hashlib.shake_128(b"brimful").digest(words * WORD_BITS), np.uint8).reshape(words, WORD_BITS, 1)
        % 2
    )
    rotations: Floats = ((1 - 2.0 * chance) * hadamard / np.sqrt(WORD_BITS)).astype(np.float32)
    return rotations


class SignPlanes:
    """Bit planes of sign bits, to which vectors can be appended."""

    def __init__(self, numbers: int) -> None:
        """Start empty, with this many components per vector."""
        self._buffer = np.zeros((numbers, 0), np.uint64)
        self._used = 0

    @property
    def all(self) -> Bits:
        """One row per component. The last word of an earlier view may show bits of vectors appended later."""
        return self._buffer[:, : _plane_words(self._used)]

    @property
    def nbytes(self) -> int:
        """Memory use in bytes."""
        return self._buffer.nbytes

    def extend(self, signs: Bits) -> None:
        """Append sign bits, one row per vector."""
        first, inside = divmod(self._used, WORD_BITS)
        end = inside + len(signs)
        if first + _plane_words(end) > self._buffer.shape[1]:
            self.reserve(max(self._used + len(signs), 2 * self._used))
        rows = np.zeros((_plane_words(end) * WORD_BITS, signs.shape[1]), np.uint64)
        rows[inside:end] = signs
        self._buffer[:, first : first + _plane_words(end)] |= _transpose_bits(rows)
        self._used += len(signs)

    def reserve(self, vectors: int) -> None:
        """Allocate memory for this many vectors in total."""
        planes = self.all
        larger = np.zeros((len(planes), _plane_words(max(vectors, self._used))), np.uint64)
        larger[:, : planes.shape[1]] = planes
        self._buffer = larger


def scan_signs(
    planes: Bits, alive: npt.NDArray[np.uint8], query: Query, share: float, *, batch: int = SCAN_BATCH
) -> Positions:
    """Return the positions of about the best share, by the signs of the query's largest components.

    `alive` is 0 for removed vectors.
    """
    largest = np.argsort(-np.abs(query.rotated), kind="stable")[:_SCANNED_COMPONENTS]
    up = query.rotated[largest] > 0
    parts = [planes[:, start : start + batch] for start in range(0, planes.shape[1], batch)]
    summed = [_count_agreements(part, largest[up].tolist(), largest[~up].tolist()) for part in parts]
    sums = [np.concatenate(plane) for plane in zip(*summed, strict=True)]
    positions = _set_positions(_at_or_above(sums, _estimate_threshold(sums, alive, share)))
    positions = positions[: np.searchsorted(positions, len(alive))]
    return positions[alive[positions] > 0]


def _plane_words(vectors: int) -> int:
    return -(-vectors // WORD_BITS)


def _transpose_bits(signs: Bits) -> Bits:
    """Transpose sign bits, one row per vector, to planes, one row per component. Vectors fill whole words.

    A word holds 8 × 8 bits, which are transposed in three swap steps. Unpacking bits to bytes for numpy's own transpose
    takes three times as long.
    """
    rows, numbers = len(signs) // _BYTE, signs.shape[1] * WORD_BITS
    bytes_of = signs.view(np.uint8).reshape(rows, _BYTE, numbers // _BYTE)
    words = np.ascontiguousarray(bytes_of.transpose(0, 2, 1)).view(np.uint64)
    for mask, by in _TRANSPOSE_STEPS:
        other = (words ^ (words >> by)) & mask
        words ^= other ^ (other << by)
    return np.ascontiguousarray(words.view(np.uint8).reshape(rows, numbers).T).view(np.uint64)


def _set_positions(words: Bits) -> Positions:
    """Return the positions of set bits. They are rare, so only nonzero bytes are unpacked."""
    octets = words.view(np.uint8)
    some = np.flatnonzero(octets > 0)  # on a boolean array, four times faster
    bits = np.flatnonzero(np.unpackbits(octets[some], bitorder="little").view(np.bool_))
    positions: Positions = some[bits >> 3] * _BYTE + (bits & 7)
    return positions


def _count_agreements(planes: Bits, up: Sequence[int], down: Sequence[int]) -> list[Bits]:
    """Return the number of agreeing signs of each vector, plus a constant, as bit planes.

    Wrong signs are subtracted by adding the bitwise complement of their sums, which are fewer than the planes.
    """
    right, wrong = (_sum_planes((0, planes[i]) for i in positions) for positions in (up, down))
    return _sum_planes([*enumerate(right), *((level, ~plane) for level, plane in enumerate(wrong))])


def _sum_planes(planes: Iterable[tuple[int, Bits]]) -> list[Bits]:
    """Add bits per vector with a carry-save adder. A plane of level n counts 2ⁿ; the sums have one plane per level.

    Three planes of a level are added as soon as they are available, while the carry is still in the cache.
    """
    levels: list[list[Bits]] = []
    for level, plane in planes:
        _add_plane(levels, level, plane)
    for level, planes_of_level in enumerate(levels):  # which may grow by one
        if len(planes_of_level) > 1:
            one, other = planes_of_level
            levels[level] = [one ^ other]
            _add_plane(levels, level + 1, one & other)
    return [plane for (plane,) in levels]


def _add_plane(levels: list[list[Bits]], level: int, plane: Bits) -> None:
    """Add a plane. There are never more than two per level: three give a sum and a carry."""
    while len(levels) > level and len(levels[level]) > 1:
        one, other = levels[level]
        both, total = one ^ other, one ^ plane  # the majority is `one`, unless both others differ from it
        both &= total
        both ^= one
        total ^= other
        levels[level], plane = [total], both
        level += 1
    if level == len(levels):
        levels.append([])
    levels[level].append(plane)


def _estimate_threshold(sums: Sequence[Bits], alive: npt.NDArray[np.uint8], share: float) -> list[bool]:
    """Estimate from a sample the sum that the best share reaches; its bits, highest first."""
    words = np.arange(0, len(sums[0]), max(1, len(sums[0]) // _SAMPLE_WORDS))
    same = living = _alive_bits(words, alive)
    min_count = share * int(np.bitwise_count(living).sum())
    bound, more = [], np.zeros_like(living)
    for plane in reversed(sums):
        up = plane[words] & same
        bound.append(bool(np.bitwise_count(more | up).sum() >= min_count))
        same, more = (up, more) if bound[-1] else (same, more | up)
    return bound


def _at_or_above(sums: Sequence[Bits], bound: Sequence[bool]) -> Bits:
    """Return a bit for each vector whose sum reaches the threshold."""
    same, more = ~np.zeros_like(sums[0]), np.zeros_like(sums[0])
    for plane, needed in zip(reversed(sums), bound, strict=True):
        up = plane & same
        same, more = (up, more) if needed else (same, more | up)
    return more | same


def _alive_bits(words: Positions, alive: npt.NDArray[np.uint8]) -> Bits:
    """Return the `alive` bits of some words of a plane."""
    positions = (words[:, None] * WORD_BITS + np.arange(WORD_BITS)).ravel()
    bits = np.zeros(len(positions), np.uint8)
    inside = positions[: np.searchsorted(positions, len(alive))]
    bits[: len(inside)] = alive[inside]
    return np.packbits(bits, bitorder="little").view(np.uint64)
