"""Vectors in SQLite."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from brimful.stores.session import Session

_KNOWN: Final = """
SELECT hash, number FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash IN :passages
"""
_LAST: Final = """
SELECT max(number) FROM embedded WHERE tenant = :tenant AND embedder = :embedder AND scope = :scope
"""
_EMBEDDED: Final = """
INSERT INTO embedded (tenant, embedder, scope, number, doc, vector)
VALUES (:tenant, :embedder, :scope, :number, :doc, :vector)
"""


class SqliteNearness:
    """Which documents have a vector. They are numbered by arrival, so that a cache reads only what is new."""

    def place(self, session: Session, embedder: str, documents: Sequence[tuple[int, int, str]]) -> set[str]:
        """Take up new documents (doc, scope, passage) where their passage has a vector; return those passages."""
        passages = list({passage for _, _, passage in documents})
        known: dict[str, int] = dict(session.rows(_KNOWN, embedder=embedder, passages=passages))
        rows = sorted((scope, doc, known[passage]) for doc, scope, passage in documents if passage in known)
        for scope, group in groupby(rows, key=lambda row: row[0]):
            last = session.row(_LAST, embedder=embedder, scope=scope)
            first = (last[0] or 0) + 1 if last else 1
            session.many(
                _EMBEDDED,
                (
                    {"embedder": embedder, "scope": scope, "number": number, "doc": doc, "vector": vector}
                    for number, (_, doc, vector) in enumerate(group, start=first)
                ),
            )
        return set(known)
