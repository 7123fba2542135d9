"""Vectors of a scope in memory: as float32 when there are few, quantized when there are many."""

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.cache import LRU
from brimful.stores.tuning import DEFAULT_TUNING, Tuning
from brimful.stores.vectors.float16 import Floats
from brimful.stores.vectors.quantization import (
    WORD_BITS,
    Bits,
    Levels,
    Positions,
    Query,
    SignPlanes,
    approximate_cosines,
    prepare_query,
    quantize,
    scan_signs,
    score_signs,
    sign_bits,
    word_count,
)

_SCANNED_PER_RESULT: Final = 84  # vectors whose signs are weighed, for each document that is asked for
_SCANNED_SHARE: Final = 1 / 256  # … of all
_SCANNED_MIN: Final = 1_500  # … and besides
_RESCORED_PER_RESULT: Final = 32  # vectors whose numbers are compared, for each document
_READ_PER_RESULT: Final = 5  # … and so many where they have to be read for it

CacheKey = tuple[str, str, int, int]
"""Tenant, embedder, since when it is used, scope."""
Numbers = npt.NDArray[np.int64]
ReadVectors = Callable[[Sequence[int]], Floats]
"""Returns vectors by their numbers, in order."""


class GrowingArray:
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


def is_large(vectors: int, dims: int, tuning: Tuning) -> bool:
    """Say whether so many vectors are too many to be held as they are."""
    return vectors * dims * np.dtype(np.float32).itemsize > tuning.max_float_bytes


class QuantizedVectors(msgspec.Struct, frozen=True, kw_only=True):
    """Documents with their places, the numbers of their vectors, and these in eight bits."""

    docs: Numbers
    seqs: Numbers
    rows: Numbers
    levels: Levels
    scales: Floats


class ScopeVectors:
    """The vectors of one scope by one embedder, as far as the log was read."""

    def __init__(self, dims: int, tuning: Tuning = DEFAULT_TUNING) -> None:
        """Begin with nothing."""
        self.lock = Lock()
        self._tuning = tuning
        self.last = 0
        self._docs = GrowingArray(np.empty(0, dtype=np.int64))
        self._seqs = GrowingArray(np.empty(0, dtype=np.int64))
        self._rows = GrowingArray(np.empty(0, dtype=np.int64))
        self._alive = GrowingArray(np.empty(0, dtype=np.uint8))
        self._matrix: GrowingArray | None = GrowingArray(np.empty((0, dims), dtype=np.float32))
        self._planes = SignPlanes(word_count(dims) * WORD_BITS)
        self._signs = GrowingArray(np.empty((0, word_count(dims)), dtype=np.uint64))
        self._levels: GrowingArray | None = GrowingArray(np.empty((0, word_count(dims) * WORD_BITS), dtype=np.int8))
        self._scales = GrowingArray(np.empty(0, dtype=np.float32))

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        columns = [self._docs, self._seqs, self._rows, self._alive, self._scales, self._signs]
        columns += [column for column in (self._matrix, self._levels) if column is not None]
        return self._planes.nbytes + sum(column.nbytes for column in columns)

    def expect(self, vectors: int) -> None:
        """Take memory for so many vectors, which will be codes."""
        columns = [self._docs, self._seqs, self._rows, self._alive, self._scales, self._signs]
        if self._levels is not None and vectors * self._levels.all.shape[1] <= self._tuning.max_int8_bytes:
            columns.append(self._levels)
        self._planes.reserve(vectors)
        for column in columns:
            column.reserve(vectors)

    def add(self, docs: Numbers, seqs: Numbers, rows: Numbers, vectors: Floats) -> None:
        """Take up documents with their vectors."""
        if not len(docs):
            return
        if self._matrix is None or is_large(self._matrix.rows + len(docs), vectors.shape[1], self._tuning):
            self.take(quantize_documents(docs, seqs, rows, vectors))
            return
        self._number(docs, seqs, rows)
        self._matrix.extend(vectors)

    def take(self, given: QuantizedVectors) -> None:
        """Take up documents with their vectors in codes; those that are held as they are become codes, too."""
        if not len(given.docs):
            return
        if self._matrix is not None:
            held, self._matrix = self._matrix.all, None
            self._code(*quantize(held))
        self._number(given.docs, given.seqs, given.rows)
        self._code(given.levels, given.scales)

    def remove(self, docs: Numbers) -> None:
        """Take documents out."""
        if len(docs):
            self._alive.all[np.isin(self._docs.all, docs)] = 0

    def nearest(self, query: Floats, limit: int, read: ReadVectors) -> list[tuple[int, int, float]]:
        """Return (doc, seq, cosine) of the nearest documents, nearest first; `read` is asked for what is not held."""
        with self.lock:
            docs, seqs, rows, alive = self._docs.all, self._seqs.all, self._rows.all, self._alive.all
            matrix, levels = (None if each is None else each.all for each in (self._matrix, self._levels))
            scales, signs, planes = self._scales.all, self._signs.all, self._planes.all
        if matrix is not None:
            chosen = np.flatnonzero(alive)
            near = np.vecdot(matrix, query)[chosen]  # not `@`, whose threads go on turning for a while
        elif levels is not None:
            code = prepare_query(query)
            chosen = preselect(planes, signs, alive, code, limit, _RESCORED_PER_RESULT)
            near = approximate_cosines(levels, scales, chosen, code)
        else:
            chosen = preselect(planes, signs, alive, prepare_query(query), limit, _READ_PER_RESULT)
            near = np.vecdot(read(rows[chosen].tolist()), query)
        best = _top_positions(near, docs[chosen], limit)
        places = chosen[best]
        return list(zip(docs[places].tolist(), seqs[places].tolist(), near[best].tolist(), strict=True))

    def _number(self, docs: Numbers, seqs: Numbers, rows: Numbers) -> None:
        for column, values in ((self._docs, docs), (self._seqs, seqs), (self._rows, rows)):
            column.extend(values)
        self._alive.extend(np.ones(len(docs), dtype=np.uint8))

    def _code(self, levels: Levels, scales: Floats) -> None:
        signs = sign_bits(levels)
        self._planes.extend(signs)
        self._signs.extend(signs)
        self._scales.extend(scales)
        if (
            self._levels is not None
            and (self._levels.rows + len(levels)) * levels.shape[1] <= self._tuning.max_int8_bytes
        ):
            self._levels.extend(levels)
        else:
            self._levels = None


def quantize_documents(docs: Numbers, seqs: Numbers, rows: Numbers, vectors: Floats) -> QuantizedVectors:
    """Return documents with their vectors in codes."""
    levels, scales = quantize(vectors)
    return QuantizedVectors(docs=docs, seqs=seqs, rows=rows, levels=levels, scales=scales)


class VectorCache:
    """The most recently searched scopes, limited by bytes."""

    def __init__(self, max_bytes: int, tuning: Tuning = DEFAULT_TUNING) -> None:
        """Start empty."""
        self._tuning = tuning
        self._scopes: LRU[CacheKey, ScopeVectors] = LRU(
            max_size=max_bytes, size=lambda _, scope: scope.nbytes, keep_last=True
        )

    def __iter__(self) -> Iterator[CacheKey]:
        """Iterate over the cached scopes, least recently searched first."""
        return iter(self._scopes)

    def scope_vectors(self, key: CacheKey, dims: int) -> ScopeVectors:
        """Return the vectors of a scope, empty if it is not cached."""
        return self._scopes.setdefault(key, lambda: ScopeVectors(dims, self._tuning))

    def evict(self) -> None:
        """Drop the least recently searched scopes if the cache is too large. The last one always stays."""
        self._scopes.remeasure()


def preselect(
    planes: Bits, signs: Bits, alive: npt.NDArray[np.uint8], query: Query, limit: int, each: int
) -> Positions:
    """Return the places of those that seem nearest by their signs, `each` times as many as are asked for."""
    wanted = _SCANNED_PER_RESULT * limit + _SCANNED_SHARE * len(alive) + _SCANNED_MIN
    places = scan_signs(planes, alive, query, min(1.0, wanted / max(1, len(alive))))
    if len(places) <= each * limit:
        return places
    near = score_signs(signs, places, query)
    return np.sort(places[np.argpartition(near, -each * limit)[-each * limit :]])


def _top_positions(near: Floats, docs: Numbers, limit: int) -> Numbers:
    """Return the places of the nearest, nearest first; of equals, the newest document first."""
    if len(near) > limit:
        kth = np.partition(near, len(near) - limit)[len(near) - limit]
        places = np.flatnonzero(near >= kth)
    else:
        places = np.arange(len(near))
    return places[np.lexsort((-docs[places], -near[places]))][:limit]
