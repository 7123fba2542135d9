"""Vectors in few bits, so that a million of them can be looked through in milliseconds.

A vector is turned, so that no number of it matters more than another. Of each number its sign is kept as a bit, and the
number itself in eight. Signs are compared 64 at a time: first those of all vectors, where the query says most (see
`vector_planes`); then those of the likely ones, weighed by how much it says; and of what is left, the numbers are.
"""

import hashlib
from functools import cache
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.stores.halves import Floats

WORD: Final = 64  # bits; vectors are turned in blocks of as many numbers
_LARGEST: Final = 127  # of eight bits with a sign: what the largest number of a vector becomes
_HEFTS: Final = (4, 2, 1)  # of the bits that say how much a query says: from 0 to 7
_MUCH: Final = 2.6  # times the spread of a query's numbers is 8 of these levels
_TOGETHER: Final = 4_096  # vectors that are turned together: what is reckoned for them stays near the processor
_WEIGHED: Final = 8_192  # … whose signs are weighed together
_COMPARED: Final = 256  # … and whose numbers are compared together

Places = npt.NDArray[np.intp]
Bits = npt.NDArray[np.uint64]
Levels = npt.NDArray[np.int8]


class Query(msgspec.Struct, frozen=True):
    """A vector that is asked for: turned; where it is negative; and how much it says where, in bits by heft."""

    turned: Floats
    negative: Bits
    sizes: Bits


def words_for(dims: int) -> int:
    """Return how many words the signs of a vector take.

    >>> words_for(256), words_for(257)
    (4, 5)
    """
    return -(-dims // WORD)


def encode(vectors: Floats) -> tuple[Levels, Floats]:
    """Return the numbers of vectors of length 1, turned and in eight bits, and what they are times."""
    levels = np.empty((len(vectors), words_for(vectors.shape[1]) * WORD), np.int8)
    scales = np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        turned = _turned(vectors[part])
        scales[part] = np.maximum(turned.max(axis=1), -turned.min(axis=1)) / np.float32(_LARGEST)
        turned /= np.maximum(scales[part, None], np.float32(1e-9))
        levels[part] = np.rint(turned, out=turned)
    return levels, scales


def signs_of(levels: Levels) -> Bits:
    """Return the signs of numbers, a row a vector."""
    return _packed(levels > 0)


def encode_query(vector: Floats) -> Query:
    """Return a vector that is asked for, of length 1, as codes are compared with it."""
    turned = _turned(vector[None, :])
    much = max(_MUCH * float(np.sqrt(np.square(turned).mean())), 1e-9)
    sizes = np.minimum(np.abs(turned) * (2 * _HEFTS[0] / much), sum(_HEFTS)).astype(np.uint8)
    return Query(turned[0], _packed(turned < 0)[0], np.stack([_packed(sizes & heft > 0)[0] for heft in _HEFTS]))


def weighed(signs: Bits, places: Places, query: Query) -> npt.NDArray[np.int32]:
    """Return how much of what the query says agrees with the signs at these places."""
    total = np.zeros(len(places), np.int32)
    for start in range(0, len(places), _WEIGHED):
        part = slice(start, start + _WEIGHED)
        # Word by word: rows of a few words would take several times as long.
        agreeing = np.ascontiguousarray(signs.take(places[part], axis=0).T)
        agreeing ^= query.negative[:, None]
        for heft, size in zip(_HEFTS, query.sizes, strict=True):
            bits = np.bitwise_count(agreeing & size[:, None]).sum(axis=0, dtype=_counting(size))
            total[part] += bits.astype(np.int32) * heft
    return total


def cosines(levels: Levels, scales: Floats, places: Places, query: Query) -> Floats:
    """Return the cosines of the vectors in eight bits at these places with the query, to a thousandth."""
    near = np.empty(len(places), np.float32)
    room = np.empty((min(len(places), _COMPARED), levels.shape[1]), np.float32)
    for start in range(0, len(places), _COMPARED):
        part = levels.take(places[start : start + _COMPARED], axis=0)
        room[: len(part)] = part
        near[start : start + _COMPARED] = np.vecdot(room[: len(part)], query.turned)
    near *= scales[places]
    return near


def _counting(mask: Bits) -> type[np.uint8] | type[np.uint16]:
    """Return the kind of number that holds a count of these bits."""
    return np.uint8 if int(np.bitwise_count(mask).sum()) <= np.iinfo(np.uint8).max else np.uint16


def _packed(bits: npt.NDArray[np.bool_]) -> Bits:
    """Return bits, a row a vector, in words."""
    words: Bits = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
    return words


def _turned(vectors: Floats) -> Floats:
    """Return vectors with their numbers mixed, as many as fill whole words: a block of them is every n-th number.

    They are turned a few at a time: for larger products, threads are started that go on turning for a while.
    """
    count, dims = vectors.shape
    words, few = words_for(dims), max(1, min(count, WORD))
    room = np.zeros((-(-count // few) * few, words * WORD), np.float32)
    room[:count, :dims] = vectors
    blocks = room.reshape(-1, few, WORD, words).transpose(3, 0, 1, 2)
    turned: Floats = np.matmul(blocks, _rotations(words)[:, None]).transpose(1, 2, 0, 3).reshape(room.shape)
    return turned[:count]


@cache
def _rotations(words: int) -> Floats:
    """Return a matrix of Hadamard for each block: every number goes into every other, and lengths stay as they are.

    Numbers change their sign before, by chance, and the same ones wherever codes are made.
    """
    places = np.arange(WORD)
    hadamard = 1 - 2.0 * (np.bitwise_count(places[:, None] & places) % 2)
    chance = np.frombuffer(hashlib.shake_128(b"brimful").digest(words * WORD), np.uint8).reshape(words, WORD, 1) % 2
    rotations: Floats = ((1 - 2.0 * chance) * hadamard / np.sqrt(WORD)).astype(np.float32)
    return rotations
