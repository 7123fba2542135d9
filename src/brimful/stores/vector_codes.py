"""Vectors in few bits, so that a million of them can be looked through in milliseconds.

A vector is turned, so that no number of it matters more than another. Of each number its sign is kept as a bit, and the
number itself in eight. Signs are compared 64 at a time, first all of them with the query, and only where it says much;
then those of the likely ones, weighed by how much it says; and of what is left, the numbers are.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.stores.halves import Floats

WORD: Final = 64  # bits; vectors are turned in blocks of as many numbers
_LARGEST: Final = 127  # of eight bits with a sign: what the largest number of a vector becomes
_HEFTS: Final = (4, 2, 1)  # of the bits that say how much a query says: from 0 to 7
_MUCH: Final = 2.6  # times the spread of a query's numbers is 8 of these levels
_SAMPLE: Final = 20_000  # vectors that tell where the best share ends
_BLOCK: Final = 65_536  # vectors that are looked at together: what is reckoned for them stays near the processor
_TOGETHER: Final = 4_096  # vectors that are turned together, for the same reason
_COMPARED: Final = 256  # … and that are compared together

Places = npt.NDArray[np.intp]
Bits = npt.NDArray[np.uint64]
Levels = npt.NDArray[np.int8]


class Query(msgspec.Struct, frozen=True):
    """A vector that is asked for: turned; where it is negative; and how much it says where, in bits by heft."""

    turned: Floats
    negative: Bits
    sizes: Bits

    @property
    def said(self) -> Bits:
        """Where it says anything at all."""
        said: Bits = np.bitwise_or.reduce(self.sizes, axis=0)
        return said


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
    """Return the signs of numbers, word by word."""
    return _packed(levels > 0)


def encode_query(vector: Floats) -> Query:
    """Return a vector that is asked for, of length 1, as codes are compared with it."""
    turned = _turned(vector[None, :])
    much = max(_MUCH * float(np.sqrt(np.square(turned).mean())), 1e-9)
    sizes = np.minimum(np.abs(turned) * (2 * _HEFTS[0] / much), sum(_HEFTS)).astype(np.uint8)
    return Query(turned[0], _packed(turned < 0)[:, 0], np.stack([_packed(sizes & heft > 0)[:, 0] for heft in _HEFTS]))


def likely(signs: Sequence[Bits], alive: npt.NDArray[np.uint8], query: Query, share: float) -> Places:
    """Return the places of about the best share, by their signs where the query says anything.

    `alive` is 0 for those that are not to be found.
    """
    said = query.said
    agreeing = np.zeros(len(alive), _counting(said))
    for start in range(0, len(alive), _BLOCK):
        part = slice(start, start + _BLOCK)
        _agree([word[part] for word in signs], query.negative, said, agreeing[part])
    agreeing *= alive
    return np.flatnonzero(agreeing >= max(1, _bound(agreeing, share)))  # what is gone has 0


def weighed(signs: Bits, query: Query) -> npt.NDArray[np.int32]:
    """Return how much of what the query says agrees with these signs."""
    total = np.zeros(signs.shape[1], np.int32)
    agreeing = signs ^ query.negative[:, None]
    for heft, size in zip(_HEFTS, query.sizes, strict=True):
        bits = np.bitwise_count(agreeing & size[:, None]).sum(axis=0, dtype=_counting(size))
        total += bits.astype(np.int32) * heft
    return total


def cosines(levels: Levels, scales: Floats, query: Query) -> Floats:
    """Return the cosines of vectors in eight bits with the query, to a thousandth."""
    near = np.empty(len(levels), np.float32)
    room = np.empty((min(len(levels), _COMPARED), levels.shape[1]), np.float32)
    for start in range(0, len(levels), _COMPARED):
        part = levels[start : start + _COMPARED]
        room[: len(part)] = part
        near[start : start + _COMPARED] = np.vecdot(room[: len(part)], query.turned)
    near *= scales
    return near


def _agree(signs: Sequence[Bits], negative: Bits, said: Bits, out: npt.NDArray[Any]) -> None:
    """Count the bits that agree, word by word, in memory that is used again."""
    bits = np.empty(len(out), np.uint64)
    count = np.empty(len(out), np.uint8)
    for word, turn, mask in zip(signs, negative, said, strict=True):
        np.bitwise_xor(word, turn, out=bits)
        np.bitwise_and(bits, mask, out=bits)
        np.bitwise_count(bits, out=count)
        np.add(out, count, out=out)


def _bound(agreeing: npt.NDArray[Any], share: float) -> int:
    """Return how many bits agree for the best share, as a sample tells."""
    sample = agreeing[:: max(1, len(agreeing) // _SAMPLE)]
    better = np.cumsum(np.bincount(sample)[::-1])
    return int(len(better) - 1 - np.searchsorted(better, min(len(sample), share * len(sample))))


def _counting(mask: Bits) -> type[np.uint8] | type[np.uint16]:
    """Return the kind of number that holds a count of these bits."""
    return np.uint8 if int(np.bitwise_count(mask).sum()) <= np.iinfo(np.uint8).max else np.uint16


def _packed(bits: npt.NDArray[np.bool_]) -> Bits:
    """Return bits, a row a vector, word by word."""
    words: Bits = np.packbits(bits, axis=1, bitorder="little").view(np.uint64).T
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
