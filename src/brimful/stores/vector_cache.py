"""Vectors of one scope, held in memory: as they are where they are few, as codes where they are many."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.stores.halves import Floats
from brimful.stores.vector_codes import (
    WORD,
    Bits,
    Levels,
    Places,
    Query,
    cosines,
    encode,
    encode_query,
    signs_of,
    weighed,
    words_for,
)
from brimful.stores.vector_planes import Planes, likely

EXACT: Final = 24 * 2**20  # bytes up to which all vectors of a scope are held: 24,576 of 256 numbers
CODED: Final = 384 * 2**20  # bytes up to which their numbers are, in eight bits: 1,572,864; of more, the signs alone
_LIKELY: Final = 84  # vectors whose signs are weighed, for each document that is asked for
_LIKELY_SHARE: Final = 1 / 256  # … of all
_LIKELY_ANYWAY: Final = 1_500  # … and besides
_CLOSE: Final = 32  # vectors whose numbers are compared, for each document
_READ: Final = 5  # … and so many where they have to be read for it

Key = tuple[str, str, int, int]
"""Tenant, embedder, since when it is used, scope."""
Numbers = npt.NDArray[np.int64]
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
    def rows(self) -> int:
        """How many rows are in it."""
        return self._used

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return self._room.nbytes

    def extend(self, rows: npt.NDArray[Any]) -> None:
        """Append rows. Whoever holds an earlier view keeps it as it was."""
        end = self._used + len(rows)
        if end > len(self._room):
            self.reserve(max(end, 2 * len(self._room)))
        self._room[self._used : end] = rows
        self._used = end

    def reserve(self, rows: int) -> None:
        """Take memory for so many rows in all."""
        larger = np.empty((max(rows, self._used), *self._room.shape[1:]), dtype=self._room.dtype)
        larger[: self._used] = self.all
        self._room = larger


def is_large(vectors: int, dims: int) -> bool:
    """Say whether so many vectors are too many to be held as they are."""
    return vectors * dims * np.dtype(np.float32).itemsize > EXACT


class Coded(msgspec.Struct, frozen=True, kw_only=True):
    """Documents with their places, the numbers of their vectors, and these in eight bits."""

    docs: Numbers
    seqs: Numbers
    rows: Numbers
    levels: Levels
    scales: Floats


class Shelf:
    """The vectors of one scope by one embedder, as far as the log was read."""

    def __init__(self, dims: int) -> None:
        """Begin with nothing."""
        self.lock = Lock()
        self.last = 0
        self._docs = Column(np.empty(0, dtype=np.int64))
        self._seqs = Column(np.empty(0, dtype=np.int64))
        self._rows = Column(np.empty(0, dtype=np.int64))
        self._alive = Column(np.empty(0, dtype=np.uint8))
        self._matrix: Column | None = Column(np.empty((0, dims), dtype=np.float32))
        self._planes = Planes(words_for(dims) * WORD)
        self._signs = Column(np.empty((0, words_for(dims)), dtype=np.uint64))
        self._levels: Column | None = Column(np.empty((0, words_for(dims) * WORD), dtype=np.int8))
        self._scales = Column(np.empty(0, dtype=np.float32))

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        columns = [self._docs, self._seqs, self._rows, self._alive, self._scales, self._signs]
        columns += [column for column in (self._matrix, self._levels) if column is not None]
        return self._planes.nbytes + sum(column.nbytes for column in columns)

    def expect(self, vectors: int) -> None:
        """Take memory for so many vectors, which will be codes."""
        columns = [self._docs, self._seqs, self._rows, self._alive, self._scales, self._signs]
        if self._levels is not None and vectors * self._levels.all.shape[1] <= CODED:
            columns.append(self._levels)
        self._planes.reserve(vectors)
        for column in columns:
            column.reserve(vectors)

    def add(self, docs: Numbers, seqs: Numbers, rows: Numbers, vectors: Floats) -> None:
        """Take up documents with their vectors."""
        if not len(docs):
            return
        if self._matrix is None or is_large(self._matrix.rows + len(docs), vectors.shape[1]):
            self.take(coded(docs, seqs, rows, vectors))
            return
        self._number(docs, seqs, rows)
        self._matrix.extend(vectors)

    def take(self, given: Coded) -> None:
        """Take up documents with their vectors in codes; those that are held as they are become codes, too."""
        if not len(given.docs):
            return
        if self._matrix is not None:
            held, self._matrix = self._matrix.all, None
            self._code(*encode(held))
        self._number(given.docs, given.seqs, given.rows)
        self._code(given.levels, given.scales)

    def remove(self, docs: Numbers) -> None:
        """Take documents out."""
        if len(docs):
            self._alive.all[np.isin(self._docs.all, docs)] = 0

    def nearest(self, query: Floats, limit: int, read: Read) -> list[tuple[int, int, float]]:
        """Return (doc, seq, cosine) of the nearest documents, nearest first; `read` is asked for what is not held."""
        with self.lock:
            docs, seqs, rows, alive = self._docs.all, self._seqs.all, self._rows.all, self._alive.all
            matrix, levels = (None if each is None else each.all for each in (self._matrix, self._levels))
            scales, signs, planes = self._scales.all, self._signs.all, self._planes.all
        if matrix is not None:
            chosen = np.flatnonzero(alive)
            near = np.vecdot(matrix, query)[chosen]  # not `@`, whose threads go on turning for a while
        elif levels is not None:
            code = encode_query(query)
            chosen = close(planes, signs, alive, code, limit, _CLOSE)
            near = cosines(levels, scales, chosen, code)
        else:
            chosen = close(planes, signs, alive, encode_query(query), limit, _READ)
            near = np.vecdot(read(rows[chosen].tolist()), query)
        best = _top(near, docs[chosen], limit)
        places = chosen[best]
        return list(zip(docs[places].tolist(), seqs[places].tolist(), near[best].tolist(), strict=True))

    def _number(self, docs: Numbers, seqs: Numbers, rows: Numbers) -> None:
        for column, values in ((self._docs, docs), (self._seqs, seqs), (self._rows, rows)):
            column.extend(values)
        self._alive.extend(np.ones(len(docs), dtype=np.uint8))

    def _code(self, levels: Levels, scales: Floats) -> None:
        signs = signs_of(levels)
        self._planes.extend(signs)
        self._signs.extend(signs)
        self._scales.extend(scales)
        if self._levels is not None and (self._levels.rows + len(levels)) * levels.shape[1] <= CODED:
            self._levels.extend(levels)
        else:
            self._levels = None


def coded(docs: Numbers, seqs: Numbers, rows: Numbers, vectors: Floats) -> Coded:
    """Return documents with their vectors in codes."""
    levels, scales = encode(vectors)
    return Coded(docs=docs, seqs=seqs, rows=rows, levels=levels, scales=scales)


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


def close(planes: Bits, signs: Bits, alive: npt.NDArray[np.uint8], query: Query, limit: int, each: int) -> Places:
    """Return the places of those that seem nearest by their signs, `each` times as many as are asked for."""
    wanted = _LIKELY * limit + _LIKELY_SHARE * len(alive) + _LIKELY_ANYWAY
    places = likely(planes, alive, query, min(1.0, wanted / max(1, len(alive))))
    if len(places) <= each * limit:
        return places
    near = weighed(signs, places, query)
    return np.sort(places[np.argpartition(near, -each * limit)[-each * limit :]])


def _top(near: Floats, docs: Numbers, limit: int) -> Numbers:
    """Return the places of the nearest, nearest first; of equals, the newest document first."""
    if len(near) > limit:
        kth = np.partition(near, len(near) - limit)[len(near) - limit]
        places = np.flatnonzero(near >= kth)
    else:
        places = np.arange(len(near))
    return places[np.lexsort((-docs[places], -near[places]))][:limit]
