"""Quantized blocks of the vector log, stored so that a large store can be searched as soon as it is open.

A block holds consecutive entries of the log. It is deleted with the first of its documents that is removed, and
written again when the next vectors arrive.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.stores.encryption.cipher import decrypt, encrypt
from brimful.stores.session import Row, Session
from brimful.stores.vectors.cache import Numbers, QuantizedVectors, ScopeVectors, is_large, quantize_documents
from brimful.stores.vectors.float16 import Floats, decode_float16
from brimful.stores.vectors.log import REMOVED, log_length

_TABLE: Final = "vector_blocks"
_HEADER_NUMBERS: Final = 3  # the number of documents, their components, and the number of removed documents

_INSERT: Final = """
INSERT INTO vector_blocks (tenant, embedder, scope, block, first, last, body)
VALUES (:tenant, :embedder, :scope, :block, :first, :last, :body) ON CONFLICT DO NOTHING
"""
_LIST: Final = """
SELECT block FROM vector_blocks
WHERE tenant = :tenant AND embedder = :embedder AND scope = :scope
"""
_READ_BLOCK: Final = """
SELECT body FROM vector_blocks
WHERE tenant = :tenant AND embedder = :embedder AND scope = :scope AND block = :block
"""
_COUNT: Final = """
SELECT count(*) FROM vector_blocks WHERE tenant = :tenant AND embedder = :embedder AND scope = :scope
"""
_BATCH: Final = 10_000  # entries per query
_BLOCKS_AT_ONCE: Final = 4  # per transaction, so that other writers do not wait long
_READ_LOG: Final = """
SELECT e.number, e.doc, d.seq, e.vector, v.vector, v.hash FROM vector_log e
LEFT JOIN documents d ON d.doc = e.doc LEFT JOIN vectors v ON v.number = e.vector
WHERE e.tenant = :tenant AND e.embedder = :embedder AND e.scope = :scope AND e.number > :last
ORDER BY e.number LIMIT :limit
"""
_LOGS: Final = """
SELECT e.id, s.number FROM embedders e JOIN scopes s ON s.tenant = e.tenant
WHERE e.tenant = :tenant AND e.dropped = 0 AND s.documents > 0
"""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the log: added documents with quantized vectors, and removed documents."""

    added: QuantizedVectors
    removed: Numbers


def list_blocks(session: Session, embedder: str, scope: int) -> list[int]:
    """Return the numbers of stored blocks."""
    return [block for (block,) in session.rows(_LIST, embedder=embedder, scope=scope)]


def missing_blocks(session: Session, embedder: str, scope: int, entries: int) -> list[int]:
    """Return the numbers of blocks that are missing for a log of this length."""
    whole = entries // session.dialect.tuning.block_entries
    row = session.row(_COUNT, embedder=embedder, scope=scope)
    if row is not None and row[0] == whole:
        return []
    return sorted(set(range(whole)).difference(list_blocks(session, embedder, scope)))


def read_block(session: Session, embedder: str, scope: int, block: int) -> Block | None:
    """Return a block, or None if it is not stored."""
    row = session.row(_READ_BLOCK, embedder=embedder, scope=scope, block=block)
    return None if row is None else _decode_block(decrypt(session, row[0], *_location(embedder, scope, block)))


def save_block(session: Session, embedder: str, scope: int, block: int, contents: Block) -> None:
    session.run(
        _INSERT,
        embedder=embedder,
        scope=scope,
        block=block,
        first=int(contents.added.docs.min(initial=np.iinfo(np.int64).max)),
        last=int(contents.added.docs.max(initial=0)),
        body=encrypt(session, _encode_block(contents), *_location(embedder, scope, block)),
    )


def _location(embedder: str, scope: int, block: int) -> tuple[str, ...]:
    return _TABLE, embedder, str(scope), str(block)


def _encode_block(block: Block) -> bytes:
    added = block.added
    head = np.array([*added.levels.shape, len(block.removed)], "<i8")
    columns = [
        *(each.astype("<i8") for each in (added.docs, added.seqs, added.rows, block.removed)),
        added.scales.astype("<f4"),
    ]
    return b"".join(each.tobytes() for each in (head, *columns, added.levels))


def _decode_block(body: bytes) -> Block:
    count, dims, removals = np.frombuffer(body, "<i8", _HEADER_NUMBERS).tolist()
    buffer = _Reader(body, 8 * _HEADER_NUMBERS)
    docs, seqs, rows = (buffer.next("<i8", count) for _ in range(3))
    removed = buffer.next("<i8", removals)
    scales = buffer.next("<f4", count)
    levels = buffer.next("i1", count * dims).reshape(count, dims)
    added = QuantizedVectors(docs=docs, seqs=seqs, rows=rows, levels=levels, scales=scales)
    return Block(added=added, removed=removed)


class _Reader:
    """Reads columns from a body, one after the other."""

    def __init__(self, body: bytes, start: int) -> None:
        self._body = body
        self._at = start

    def next(self, kind: str, count: int) -> npt.NDArray[Any]:
        column = np.frombuffer(self._body, kind, count, self._at)
        self._at += column.nbytes
        return column


def follow_log(session: Session, embedder: str, scope: int, vectors: ScopeVectors, dims: int) -> None:
    """Apply new log entries to vectors in memory. A long log is loaded from blocks first."""
    size = session.dialect.tuning.block_entries
    with vectors.lock:
        blocks = set() if vectors.last else _prepare(session, embedder, scope, vectors, dims)
        while True:
            block, inside = divmod(vectors.last, size)
            if block in blocks and not inside and (stored := read_block(session, embedder, scope, block)):
                vectors.take(stored.added)
                vectors.remove(stored.removed)
                vectors.last += size
                continue
            limit = size - inside if blocks else _BATCH
            rows = session.rows(_READ_LOG, embedder=embedder, scope=scope, last=vectors.last, limit=limit)
            if rows:
                added, removed = _decode_entries(session, embedder, rows)
                vectors.add(*added)
                vectors.remove(removed)
                vectors.last = rows[-1][0]
            if len(rows) < limit:
                return


def write_blocks(session: Session, embedder: str, scope: int) -> bool:
    """Write a few missing blocks of a long log. Returns whether more are missing."""
    length = log_length(session, embedder, scope)
    row = session.row("SELECT dims FROM embedders WHERE tenant = :tenant AND id = :id", id=embedder)
    if row is None or row[0] is None or not is_large(length, row[0], session.dialect.tuning):
        return False
    missing = missing_blocks(session, embedder, scope, length)
    size = session.dialect.tuning.block_entries
    for block in missing[:_BLOCKS_AT_ONCE]:
        rows = session.rows(_READ_LOG, embedder=embedder, scope=scope, last=block * size, limit=size)
        added, removed = _decode_entries(session, embedder, rows)
        save_block(session, embedder, scope, block, Block(added=quantize_documents(*added), removed=removed))
    return len(missing) > _BLOCKS_AT_ONCE


def list_logs(session: Session) -> list[tuple[str, int]]:
    """Return the embedders in use, and the scopes that may have vectors by them."""
    return [(embedder, scope) for embedder, scope in session.rows(_LOGS)]


def _prepare(session: Session, embedder: str, scope: int, vectors: ScopeVectors, dims: int) -> set[int]:
    """Allocate memory for a long log, and return its stored blocks."""
    length = log_length(session, embedder, scope)
    if not is_large(length, dims, session.dialect.tuning):
        return set()
    vectors.expect(length)
    return set(list_blocks(session, embedder, scope))


def _decode_entries(
    session: Session, embedder: str, rows: Sequence[Row]
) -> tuple[tuple[Numbers, Numbers, Numbers, Floats], Numbers]:
    """Return the added documents that still exist, and the removed ones."""
    removed = {doc for _, doc, _, vector, *_ in rows if vector == REMOVED}
    added = [row for row in rows if row[1] not in removed and row[2] is not None and row[4] is not None]
    _, docs, seqs, numbers, bodies, hashes = zip(*added, strict=True) if added else [()] * 6
    decrypted = [decrypt(session, body, "vectors", embedder, hash) for body, hash in zip(bodies, hashes, strict=True)]
    columns = (np.array(docs, np.int64), np.array(seqs, np.int64), np.array(numbers, np.int64))
    return (*columns, decode_float16(decrypted)), np.array(sorted(removed), np.int64)
