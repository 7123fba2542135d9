"""Documents that wait for a vector."""

from collections.abc import Sequence
from typing import Final

from brimful.stores.session import Placed, Session

_AWAIT: Final = """
INSERT INTO pending (tenant, embedder, doc, passage) VALUES (:tenant, :embedder, :doc, :passage)
ON CONFLICT DO NOTHING
"""
_FORGET: Final = """
DELETE FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash IN :passages AND NOT EXISTS (
  SELECT 1 FROM documents d WHERE d.tenant = vectors.tenant AND d.passage = vectors.hash AND d.passage <> '')
"""


def embedders(session: Session) -> list[str]:
    """Return the embedders in use, the newest first."""
    found = session.rows("SELECT id FROM embedders WHERE tenant = :tenant AND dropped = 0 ORDER BY since DESC")
    return [id for (id,) in found]


def await_vectors(session: Session, documents: Sequence[Placed]) -> None:
    """Let new documents wait for a vector by each embedder that has none of their passage."""
    session.dialect.together(session, "embedders")
    for embedder in embedders(session):
        known = session.dialect.nearness.place(session, embedder, documents)
        waiting = [(doc, passage) for doc, _, passage in documents if passage not in known]
        session.many(_AWAIT, ({"embedder": embedder, "doc": doc, "passage": passage} for doc, passage in waiting))


def settle_removed(session: Session, documents: Sequence[Placed]) -> None:
    """Forget that removed documents wait, and the vectors of passages that no document has any more."""
    if not documents:
        return
    for embedder in embedders(session):
        session.run(
            "DELETE FROM pending WHERE tenant = :tenant AND embedder = :embedder AND doc IN :docs",
            embedder=embedder,
            docs=[doc for doc, _, _ in documents],
        )
        session.dialect.nearness.displace(session, embedder, documents)
        session.run(_FORGET, embedder=embedder, passages=sorted({passage for _, _, passage in documents}))
