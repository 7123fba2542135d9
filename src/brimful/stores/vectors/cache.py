"""Vectors of a scope in memory: as float32 when there are few, quantized when there are many."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.cache import LRU, VECTOR_BUDGET, CacheBudget
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

_SCANNED_PER_RESULT: Final = 84  # vectors scored by weighted signs, per result
_SCANNED_SHARE: Final = 1 / 256  # plus this share of all vectors
_SCANNED_MIN: Final = 1_500  # plus this many
_RESCORED_PER_RESULT: Final = 32  # vectors ranked by int8 codes, per result
_READ_PER_RESULT: Final = 5  # vectors read from the database, per result

_SCOPE_BYTES: Final = 4_000  # memory of an empty scope: its arrays and its key

CacheKey = tuple[str, str, int, int]
"""Tenant, embedder, generation of the embedder, scope."""
Numbers = npt.NDArray[np.int64]
ReadVectors = Callable[[Sequence[int]], Floats]
"""Returns vectors by number, in order."""


class GrowingArray:
    """An array to which rows can be appended."""

    def __init__(self, rows: npt.NDArray[Any]) -> None:
        self._buffer = rows
        self._used = len(rows)

    @property
    def all(self) -> npt.NDArray[Any]:
        """All rows."""
        return self._buffer[: self._used]

    @property
    def rows(self) -> int:
        return self._used

    @property
    def nbytes(self) -> int:
        """Memory use in bytes."""
        return self._buffer.nbytes

    def extend(self, rows: npt.NDArray[Any]) -> None:
        """Append rows. Earlier views do not change."""
        end = self._used + len(rows)
        if end > len(self._buffer):
            self.reserve(max(end, 2 * len(self._buffer)))
        self._buffer[self._used : end] = rows
        self._used = end

    def reserve(self, rows: int) -> None:
        """Allocate memory for this many rows in total."""
        larger = np.empty((max(rows, self._used), *self._buffer.shape[1:]), dtype=self._buffer.dtype)
        larger[: self._used] = self.all
        self._buffer = larger


def is_large(vectors: int, dims: int, tuning: Tuning) -> bool:
    """Tell whether this many vectors are too many to hold as float32."""
    return vectors * dims * np.dtype(np.float32).itemsize > tuning.max_float_bytes


class QuantizedVectors(msgspec.Struct, frozen=True, kw_only=True):
    """Documents with their `seq`, the numbers of their vectors, and the vectors as int8."""

    docs: Numbers
    seqs: Numbers
    rows: Numbers
    levels: Levels
    scales: Floats


class ScopeVectors:
    """The vectors of one scope by one embedder, up to the last log entry read."""

    def __init__(self, dims: int, tuning: Tuning = DEFAULT_TUNING) -> None:
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
        """Memory use in bytes."""
        columns = [self._docs, self._seqs, self._rows, self._alive, self._scales, self._signs]
        columns += [column for column in (self._matrix, self._levels) if column is not None]
        return self._planes.nbytes + sum(column.nbytes for column in columns)

    def expect(self, vectors: int) -> None:
        """Allocate memory for this many quantized vectors."""
        columns = [self._docs, self._seqs, self._rows, self._alive, self._scales, self._signs]
        if self._levels is not None and vectors * self._levels.all.shape[1] <= self._tuning.max_int8_bytes:
            columns.append(self._levels)
        self._planes.reserve(vectors)
        for column in columns:
            column.reserve(vectors)

    def add(self, docs: Numbers, seqs: Numbers, rows: Numbers, vectors: Floats) -> None:
        if not len(docs):
            return
        if self._matrix is None or is_large(self._matrix.rows + len(docs), vectors.shape[1], self._tuning):
            self.take(quantize_documents(docs, seqs, rows, vectors))
            return
        self._number(docs, seqs, rows)
        self._matrix.extend(vectors)

    def take(self, block: QuantizedVectors) -> None:
        """Add documents with quantized vectors. Vectors held as float32 are quantized, too."""
        if not len(block.docs):
            return
        if self._matrix is not None:
            vectors, self._matrix = self._matrix.all, None
            self._code(*quantize(vectors))
        self._number(block.docs, block.seqs, block.rows)
        self._code(block.levels, block.scales)

    def remove(self, docs: Numbers) -> None:
        if len(docs):
            self._alive.all[np.isin(self._docs.all, docs)] = 0

    def nearest(self, query: Floats, limit: int, read: ReadVectors) -> list[tuple[int, int, float]]:
        """Return (doc, seq, cosine) of the nearest documents, nearest first. `read` loads vectors that are not held."""
        with self.lock:
            docs, seqs, rows, alive = self._docs.all, self._seqs.all, self._rows.all, self._alive.all
            matrix, levels = (None if each is None else each.all for each in (self._matrix, self._levels))
            scales, signs, planes = self._scales.all, self._signs.all, self._planes.all
        if matrix is not None:
            chosen = np.flatnonzero(alive)
            near = np.vecdot(matrix, query)[chosen]  # not `@`, whose BLAS threads keep spinning
        elif levels is not None:
            code = prepare_query(query)
            chosen = preselect(planes, signs, alive, code, limit, _RESCORED_PER_RESULT)
            near = approximate_cosines(levels, scales, chosen, code)
        else:
            chosen = preselect(planes, signs, alive, prepare_query(query), limit, _READ_PER_RESULT)
            near = np.vecdot(read(rows[chosen].tolist()), query)
        best = _top_positions(near, docs[chosen], limit)
        positions = chosen[best]
        return list(zip(docs[positions].tolist(), seqs[positions].tolist(), near[best].tolist(), strict=True))

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
    levels, scales = quantize(vectors)
    return QuantizedVectors(docs=docs, seqs=seqs, rows=rows, levels=levels, scales=scales)


class VectorCache:
    """The most recently searched scopes, limited by bytes."""

    def __init__(self, tuning: Tuning = DEFAULT_TUNING, budget: CacheBudget = VECTOR_BUDGET) -> None:
        self._tuning = tuning
        self._scopes: LRU[CacheKey, ScopeVectors] = LRU(
            name="vectors", size=lambda _, scope: _SCOPE_BYTES + scope.nbytes, keep_last=True, budget=budget
        )

    def __iter__(self) -> Iterator[CacheKey]:
        """Iterate over the cached scopes, least recently searched first."""
        return iter(self._scopes)

    def scope_vectors(self, key: CacheKey, dims: int) -> ScopeVectors:
        """Return the vectors of a scope, empty if it is not cached."""
        return self._scopes.setdefault(key, lambda: ScopeVectors(dims, self._tuning))

    def evict(self, searched: Iterable[CacheKey]) -> None:
        """Measure the scopes that were searched, and drop the least recently used ones if the cache is too large.

        The last one always stays.
        """
        self._scopes.remeasure(searched)


def preselect(
    planes: Bits, signs: Bits, alive: npt.NDArray[np.uint8], query: Query, limit: int, each: int
) -> Positions:
    """Return the positions of the nearest vectors by sign bits, `each` per result."""
    scanned = _SCANNED_PER_RESULT * limit + _SCANNED_SHARE * len(alive) + _SCANNED_MIN
    positions = scan_signs(planes, alive, query, min(1.0, scanned / max(1, len(alive))))
    if len(positions) <= each * limit:
        return positions
    near = score_signs(signs, positions, query)
    return np.sort(positions[np.argpartition(near, -each * limit)[-each * limit :]])


def _top_positions(near: Floats, docs: Numbers, limit: int) -> Numbers:
    """Return the positions of the nearest, nearest first. Of equal ones, the newest document comes first."""
    if len(near) > limit:
        kth = np.partition(near, len(near) - limit)[len(near) - limit]
        positions = np.flatnonzero(near >= kth)
    else:
        positions = np.arange(len(near))
    return positions[np.lexsort((-docs[positions], -near[positions]))][:limit]
