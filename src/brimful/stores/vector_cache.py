"""Floats of one scope, held in memory: exact where they are few, signatures where they are many.

A signature is the sign of each number of a vector, one bit each. The fewer bits differ, the nearer two vectors are:
that is quick to tell of a million, and whoever seems near is then compared exactly.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from brimful.stores.halves import Floats

EXACT: Final = 48 * 2**20  # bytes up to which all vectors of a scope are held: 49,152 of 256 numbers
COARSE: Final = 100_000  # documents from which the first 64 bits are looked at first
_CANDIDATES: Final = 4  # compared exactly, for each one that is asked for
_COARSE_SHARE: Final = 16  # one of how many passes the first look
_SAMPLE: Final = 10_000  # documents that tell where the best share ends
_WORD: Final = 64  # bits

Key = tuple[str, str, int, int]
"""Tenant, embedder, since when it is used, scope."""
Numbers = npt.NDArray[np.int64]
Signatures = npt.NDArray[np.uint64]
Read = Callable[[Sequence[int]], Floats]
"""Returns vectors by their numbers, in order."""


class Column:
    """An array that grows at its end."""

    def __init__(self, kept: npt.NDArray[Any]) -> None:
        """Begin with some rows."""
        self._room = kept
        self._used = len(kept)

    @property
    def all(self) -> npt.NDArray[Any]:
        """What is in it."""
        return self._room[: self._used]

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return self._room.nbytes

    def extend(self, rows: npt.NDArray[Any]) -> None:
        """Append rows. Whoever holds an earlier view keeps it as it was."""
        end = self._used + len(rows)
        if end > len(self._room):
            larger = np.empty((max(end, 2 * len(self._room)), *self._room.shape[1:]), dtype=self._room.dtype)
            larger[: self._used] = self.all
            self._room = larger
        self._room[self._used : end] = rows
        self._used = end


class Shelf:
    """The vectors of one scope by one embedder, as far as the log was read."""

    def __init__(self, dims: int) -> None:
        """Begin with nothing."""
        self.lock = Lock()
        self.last = 0
        self._docs = Column(np.empty(0, dtype=np.int64))
        self._seqs = Column(np.empty(0, dtype=np.int64))
        self._rows = Column(np.empty(0, dtype=np.int64))
        self._alive = Column(np.empty(0, dtype=np.bool_))
        self._matrix: Column | None = Column(np.empty((0, dims), dtype=np.float32))
        self._words = [Column(np.empty(0, dtype=np.uint64)) for _ in range(-(-dims // _WORD))]

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        columns = [self._docs, self._seqs, self._rows, self._alive, *self._words]
        return sum(column.nbytes for column in columns) + (self._matrix.nbytes if self._matrix else 0)

    def add(self, docs: Sequence[int], seqs: Sequence[int], rows: Sequence[int], vectors: Floats) -> None:
        """Take up documents with their vectors."""
        for column, values in ((self._docs, docs), (self._seqs, seqs), (self._rows, rows)):
            column.extend(np.asarray(values, dtype=np.int64))
        self._alive.extend(np.ones(len(docs), dtype=np.bool_))
        if self._matrix is not None and len(self._docs.all) * vectors.shape[1] * vectors.itemsize <= EXACT:
            self._matrix.extend(vectors)
            return
        if self._matrix is not None:
            self._sign(self._matrix.all)
            self._matrix = None
        self._sign(vectors)

    def remove(self, docs: Sequence[int]) -> None:
        """Take documents out."""
        self._alive.all[np.isin(self._docs.all, np.asarray(docs, dtype=np.int64))] = False

    def nearest(self, query: Floats, limit: int, read: Read) -> list[tuple[int, int, float]]:
        """Return (doc, seq, cosine) of the nearest documents, nearest first."""
        with self.lock:
            docs, seqs, rows, alive = self._docs.all, self._seqs.all, self._rows.all, self._alive.all
            matrix = None if self._matrix is None else self._matrix.all
            words = [word.all for word in self._words]
        if matrix is not None:
            chosen = np.flatnonzero(alive)
            cosines = (matrix @ query)[chosen]
        else:
            chosen = candidates(words, alive, signatures(query[None, :])[0], limit * _CANDIDATES)
            cosines = read(rows[chosen].tolist()) @ query
        best = _top(cosines, docs[chosen], limit)
        return [
            (int(docs[at]), int(seqs[at]), float(cosine))
            for at, cosine in zip(chosen[best], cosines[best], strict=True)
        ]

    def _sign(self, vectors: Floats) -> None:
        for word, bits in zip(self._words, signatures(vectors).T, strict=True):
            word.extend(bits)


class Shelves:
    """The scopes that were searched last, as many as fit into so many bytes."""

    def __init__(self, most: int) -> None:
        """Hold nothing yet."""
        self._most = most
        self._lock = Lock()
        self._held: OrderedDict[Key, Shelf] = OrderedDict()

    def shelf(self, key: Key, dims: int) -> Shelf:
        """Return a scope's shelf, which may be empty."""
        with self._lock:
            shelf = self._held.get(key)
            if shelf is None:
                shelf = self._held[key] = Shelf(dims)
            self._held.move_to_end(key)
            return shelf

    def settle(self) -> None:
        """Let go of those that were searched longest ago, if there are too many; the last one stays in any case."""
        with self._lock:
            total = sum(shelf.nbytes for shelf in self._held.values())
            while total > self._most and len(self._held) > 1:
                total -= self._held.popitem(last=False)[1].nbytes


def signatures(vectors: Floats) -> Signatures:
    """Return the signs of vectors, packed.

    >>> signatures(np.array([[0.5, -0.5, 0.5]], dtype=np.float32)).tolist()
    [[5]]
    """
    bits = np.packbits(vectors > 0, axis=1, bitorder="little")
    room = np.zeros((len(vectors), -(-vectors.shape[1] // _WORD) * (_WORD // 8)), dtype=np.uint8)
    room[:, : bits.shape[1]] = bits
    return room.view(np.uint64)


def candidates(words: Sequence[Signatures], alive: npt.NDArray[np.bool_], query: Signatures, count: int) -> Numbers:
    """Return the places of those whose signatures, told word by word, differ least from the query's."""
    places = np.flatnonzero(alive)
    if len(places) > COARSE:
        places = _nearly(np.where(alive, np.bitwise_count(words[0] ^ query[0]), np.uint8(255)), count)
    differing = np.zeros(len(places), dtype=np.uint16)
    for word, bits in zip(words, query, strict=True):
        differing += np.bitwise_count(word[places] ^ bits)
    return places[_least(differing, count)]


def _nearly(differing: npt.NDArray[np.uint8], count: int) -> Numbers:
    """Return the places of the best share, by a bound that a sample tells."""
    sample = np.sort(differing[:: max(1, len(differing) // _SAMPLE)])
    share = max(1 / _COARSE_SHARE, count / len(differing))
    return np.flatnonzero(differing <= sample[min(len(sample) - 1, int(len(sample) * share))])


def _least(values: npt.NDArray[np.uint16], count: int) -> Numbers:
    """Return the places of the `count` least values, of equals the last: small whole numbers need no sorting."""
    if count >= len(values):
        return np.arange(len(values))
    bound = int(np.searchsorted(np.cumsum(np.bincount(values)), count))
    below = np.flatnonzero(values < bound)
    equal = np.flatnonzero(values == bound)
    return np.sort(np.concatenate((below, equal[len(equal) - (count - len(below)) :])))


def _top(cosines: Floats, docs: Numbers, limit: int) -> Numbers:
    """Return the places of the largest cosines, largest first; of equals, the newest document first."""
    if len(cosines) > limit:
        kth = np.partition(cosines, len(cosines) - limit)[len(cosines) - limit]
        places = np.flatnonzero(cosines >= kth)
    else:
        places = np.arange(len(cosines))
    return places[np.lexsort((-docs[places], -cosines[places]))][:limit]
