"""Parts of the log of vectors, coded and kept, so that a large store is searched as soon as it is open.

A block is made of the entries of the log that come one after the other. It goes with the first of its documents that is
removed, so that nothing of it stays, and is made again when the next vectors come.
"""

from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Session
from brimful.stores.vector_cache import Coded, Numbers

ENTRIES: Final = 1_024  # of the log in a block
_TABLE: Final = "embedded_blocks"
_HEAD: Final = 3  # numbers that begin a body: how many documents, how many numbers each, how many are gone

_KEEP: Final = """
INSERT INTO embedded_blocks (tenant, embedder, scope, block, first, last, body)
VALUES (:tenant, :embedder, :scope, :block, :first, :last, :body) ON CONFLICT DO NOTHING
"""
_KEPT: Final = """
SELECT block FROM embedded_blocks
WHERE tenant = :tenant AND embedder = :embedder AND scope = :scope
"""
_READ: Final = """
SELECT body FROM embedded_blocks
WHERE tenant = :tenant AND embedder = :embedder AND scope = :scope AND block = :block
"""
_COUNT: Final = """
SELECT count(*) FROM embedded_blocks WHERE tenant = :tenant AND embedder = :embedder AND scope = :scope
"""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """What some entries of the log say: documents that came, coded, and those that are gone."""

    came: Coded
    gone: Numbers


def kept_blocks(session: Session, embedder: str, scope: int) -> list[int]:
    """Return the numbers of the blocks that are kept."""
    return [block for (block,) in session.rows(_KEPT, embedder=embedder, scope=scope)]


def missing_blocks(session: Session, embedder: str, scope: int, entries: int) -> list[int]:
    """Return the numbers of the blocks of so many entries that are not kept."""
    whole = entries // ENTRIES
    row = session.row(_COUNT, embedder=embedder, scope=scope)
    if row is not None and row[0] == whole:
        return []
    return sorted(set(range(whole)).difference(kept_blocks(session, embedder, scope)))


def read_block(session: Session, embedder: str, scope: int, block: int) -> Block | None:
    """Return a block; None if it is not kept."""
    row = session.row(_READ, embedder=embedder, scope=scope, block=block)
    return None if row is None else _unpacked(unseal(session, row[0], *_place(embedder, scope, block)))


def keep_block(session: Session, embedder: str, scope: int, block: int, given: Block) -> None:
    """Keep a block."""
    session.run(
        _KEEP,
        embedder=embedder,
        scope=scope,
        block=block,
        first=int(given.came.docs.min(initial=np.iinfo(np.int64).max)),
        last=int(given.came.docs.max(initial=0)),
        body=seal(session, _packed(given), *_place(embedder, scope, block)),
    )


def _place(embedder: str, scope: int, block: int) -> tuple[str, ...]:
    return _TABLE, embedder, str(scope), str(block)


def _packed(block: Block) -> bytes:
    came = block.came
    head = np.array([*came.levels.shape, len(block.gone)], "<i8")
    columns = [
        *(each.astype("<i8") for each in (came.docs, came.seqs, came.rows, block.gone)),
        came.scales.astype("<f4"),
    ]
    return b"".join(each.tobytes() for each in (head, *columns, came.levels))


def _unpacked(body: bytes) -> Block:
    count, dims, gone = np.frombuffer(body, "<i8", _HEAD).tolist()
    room = _Reader(body, 8 * _HEAD)
    docs, seqs, rows = (room.next("<i8", count) for _ in range(3))
    left = room.next("<i8", gone)
    scales = room.next("<f4", count)
    levels = room.next("i1", count * dims).reshape(count, dims)
    return Block(came=Coded(docs=docs, seqs=seqs, rows=rows, levels=levels, scales=scales), gone=left)


class _Reader:
    """Takes columns from a body, one after the other."""

    def __init__(self, body: bytes, start: int) -> None:
        self._body = body
        self._at = start

    def next(self, kind: str, count: int) -> npt.NDArray[Any]:
        column = np.frombuffer(self._body, kind, count, self._at)
        self._at += column.nbytes
        return column
