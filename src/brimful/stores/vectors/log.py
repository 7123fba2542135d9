"""The log of documents that received or lost a vector, which in-memory indexes follow."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from brimful.stores.session import DocumentRef, Session

REMOVED: Final = 0  # the vector of a removed document

_LAST: Final = """
SELECT coalesce(max(number), 0) FROM vector_log WHERE tenant = :tenant AND embedder = :embedder AND scope = :scope
"""
_INSERT: Final = """
INSERT INTO vector_log (tenant, embedder, scope, number, doc, vector)
VALUES (:tenant, :embedder, :scope, :number, :doc, :vector)
"""
_DROP_BLOCKS: Final = """
DELETE FROM vector_blocks
WHERE tenant = :tenant AND embedder = :embedder AND scope = :scope AND last >= :first AND first <= :last
"""


def log_length(session: Session, embedder: str, scope: int) -> int:
    """Return the length of a scope's log."""
    last = session.row(_LAST, embedder=embedder, scope=scope)
    return int(last[0]) if last else 0


def log_added(session: Session, embedder: str, rows: Sequence[tuple[int, int, int]]) -> None:
    """Log documents that received a vector, as (scope, document, vector)."""
    for scope, group in groupby(sorted(rows), key=itemgetter(0)):
        first = log_length(session, embedder, scope) + 1
        session.many(
            _INSERT,
            (
                {"embedder": embedder, "scope": scope, "number": number, "doc": doc, "vector": vector}
                for number, (_, doc, vector) in enumerate(group, start=first)
            ),
        )


def log_removed(session: Session, embedder: str, documents: Sequence[DocumentRef]) -> None:
    """Log removed documents, and delete the blocks that contain them."""
    log_added(session, embedder, [(scope, doc, REMOVED) for doc, scope, _ in documents])
    for scope, group in groupby(sorted((scope, doc) for doc, scope, _ in documents), key=itemgetter(0)):
        docs = [doc for _, doc in group]
        session.run(_DROP_BLOCKS, embedder=embedder, scope=scope, first=docs[0], last=docs[-1])


def drop_blocks(session: Session, embedder: str) -> None:
    session.run("DELETE FROM vector_blocks WHERE tenant = :tenant AND embedder = :embedder", embedder=embedder)


def drop_log(session: Session, embedder: str) -> None:
    drop_blocks(session, embedder)
    session.run("DELETE FROM vector_log WHERE tenant = :tenant AND embedder = :embedder", embedder=embedder)
