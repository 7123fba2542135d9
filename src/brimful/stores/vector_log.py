"""Following the log of vectors: into memory, and into blocks that are kept."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from brimful.stores import vector_blocks as blocks
from brimful.stores.embedded import GONE, entries
from brimful.stores.halves import Floats, from_bytes
from brimful.stores.sealing import unseal
from brimful.stores.session import Row, Session
from brimful.stores.vector_cache import Numbers, Shelf, coded, is_large

_BATCH: Final = 10_000  # entries read at once
_MENDED: Final = 4  # blocks that are made at once: other writers wait for it

_READ: Final = """
SELECT e.number, e.doc, d.seq, e.vector, v.vector, v.hash FROM embedded e
LEFT JOIN documents d ON d.doc = e.doc LEFT JOIN vectors v ON v.number = e.vector
WHERE e.tenant = :tenant AND e.embedder = :embedder AND e.scope = :scope AND e.number > :last
ORDER BY e.number LIMIT :limit
"""
_LOGS: Final = """
SELECT e.id, s.number FROM embedders e JOIN scopes s ON s.tenant = e.tenant
WHERE e.tenant = :tenant AND e.dropped = 0 AND s.documents > 0
"""


def follow(session: Session, embedder: str, scope: int, shelf: Shelf, dims: int) -> None:
    """Take up what the log says since it was last read; whoever begins with a long one takes blocks."""
    with shelf.lock:
        ahead = set() if shelf.last else _begun(session, embedder, scope, shelf, dims)
        while True:
            block, inside = divmod(shelf.last, blocks.ENTRIES)
            if block in ahead and not inside and (kept := blocks.read_block(session, embedder, scope, block)):
                shelf.take(kept.came)
                shelf.remove(kept.gone)
                shelf.last += blocks.ENTRIES
                continue
            limit = blocks.ENTRIES - inside if ahead else _BATCH
            rows = session.rows(_READ, embedder=embedder, scope=scope, last=shelf.last, limit=limit)
            if rows:
                came, gone = _told(session, embedder, rows)
                shelf.add(*came)
                shelf.remove(gone)
                shelf.last = rows[-1][0]
            if len(rows) < limit:
                return


def mend(session: Session, embedder: str, scope: int) -> bool:
    """Make a few of the blocks of a long log that are missing; say whether more of them are."""
    length = entries(session, embedder, scope)
    row = session.row("SELECT dims FROM embedders WHERE tenant = :tenant AND id = :id", id=embedder)
    if row is None or row[0] is None or not is_large(length, row[0]):
        return False
    missing = blocks.missing_blocks(session, embedder, scope, length)
    for block in missing[:_MENDED]:
        rows = session.rows(_READ, embedder=embedder, scope=scope, last=block * blocks.ENTRIES, limit=blocks.ENTRIES)
        came, gone = _told(session, embedder, rows)
        blocks.keep_block(session, embedder, scope, block, blocks.Block(came=coded(*came), gone=gone))
    return len(missing) > _MENDED


def logs(session: Session) -> list[tuple[str, int]]:
    """Return the embedders in use, and the scopes that may have vectors by them."""
    return [(embedder, scope) for embedder, scope in session.rows(_LOGS)]


def _begun(session: Session, embedder: str, scope: int, shelf: Shelf, dims: int) -> set[int]:
    """Make ready for a log, and return which blocks are kept of one that is long."""
    length = entries(session, embedder, scope)
    if not is_large(length, dims):
        return set()
    shelf.expect(length)
    return set(blocks.kept_blocks(session, embedder, scope))


def _told(
    session: Session, embedder: str, rows: Sequence[Row]
) -> tuple[tuple[Numbers, Numbers, Numbers, Floats], Numbers]:
    """Return the documents that came with these entries and are still there, and those that are gone."""
    gone = {doc for _, doc, _, vector, *_ in rows if vector == GONE}
    came = [row for row in rows if row[1] not in gone and row[2] is not None and row[4] is not None]
    _, docs, seqs, numbers, kept, hashes = zip(*came, strict=True) if came else [()] * 6
    opened = [unseal(session, body, "vectors", embedder, hash) for body, hash in zip(kept, hashes, strict=True)]
    columns = (np.array(docs, np.int64), np.array(seqs, np.int64), np.array(numbers, np.int64))
    return (*columns, from_bytes(opened)), np.array(sorted(gone), np.int64)
