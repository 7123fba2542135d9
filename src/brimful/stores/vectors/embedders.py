"""Embedders and their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from brimful.errors import InvalidValue
from brimful.records.search import Document, IndexProgress, VectorHit, VectorQuery
from brimful.stores.index.documents import decode_document, get_scope_groups, list_embedders, mark_changed
from brimful.stores.session import DocumentRef, Session, validate_limit
from brimful.stores.tables.jobs import add_job

if TYPE_CHECKING:
    from brimful.protocols import Vectors


_USE: Final = """
INSERT INTO embedders (tenant, id, since) VALUES (:tenant, :id, :since)
ON CONFLICT (tenant, id) DO UPDATE SET since = excluded.since, dropped = 0
"""
_ENQUEUE_ALL: Final = """
INSERT INTO embedding_queue (tenant, embedder, doc)
SELECT tenant, :id, doc FROM documents WHERE tenant = :tenant AND passage <> ''
"""
_BACKLOG: Final = """
SELECT d.doc, s.scope, d.kind, d.item, d.seq, d.at, d.part, d.start, d.stop FROM embedding_queue p
JOIN documents d ON d.tenant = p.tenant AND d.doc = p.doc
JOIN scopes s ON s.tenant = d.tenant AND s.number = d.scope
WHERE p.tenant = :tenant AND p.embedder = :embedder ORDER BY p.doc LIMIT :limit
"""
_STATE: Final = """
SELECT (SELECT dims FROM embedders WHERE tenant = :tenant AND id = :embedder AND dropped = 0),
  (SELECT count(*) FROM (
    SELECT 1 FROM embedding_queue WHERE tenant = :tenant AND embedder = :embedder LIMIT :limit
  ) waiting)
"""


def use_embedder(session: Session, embedder: str) -> None:
    """Start using an embedder: documents without a vector by it are queued."""
    session.dialect.lock(session, "embedders")
    known = list_embedders(session)
    if session.dialect.name == "postgres":
        add_job(session, "graph", embedder)
    if known and known[0] == embedder:
        return
    newest = session.row("SELECT coalesce(max(since), 0) FROM embedders WHERE tenant = :tenant")
    session.run(_USE, id=embedder, since=1 + (newest[0] if newest else 0))
    if embedder not in known:
        session.run(_ENQUEUE_ALL, id=embedder)
        add_job(session, "embed", embedder)


def drop_embedder(session: Session, embedder: str) -> None:
    """Delete all vectors by an embedder, and its queue. Its row stays, because `since` never decreases."""
    session.dialect.lock(session, "embedders")
    session.dialect.vector_index.drop(session, embedder)
    session.run("DELETE FROM vectors WHERE tenant = :tenant AND embedder = :id", id=embedder)
    session.run("DELETE FROM embedding_queue WHERE tenant = :tenant AND embedder = :id", id=embedder)
    session.run("DELETE FROM jobs WHERE tenant = :tenant AND kind = 'embed' AND subject = :id", id=embedder)
    session.run("UPDATE embedders SET dropped = 1, dims = NULL WHERE tenant = :tenant AND id = :id", id=embedder)


def backlog(session: Session, embedder: str, *, limit: int = 100) -> list[Document]:
    """Return documents that are queued for a vector by this embedder, oldest first."""
    return [decode_document(row) for row in session.rows(_BACKLOG, embedder=embedder, limit=validate_limit(limit))]


def save_vectors(session: Session, embedder: str, docs: Sequence[int], vectors: Vectors) -> int:
    """Save the vectors of documents, and return how many documents left the queue.

    Vectors are stored by the hash of the passage, so documents with an equal passage share one. Scopes are changed
    first, as by all that write documents, which otherwise might wait for each other.
    """
    changed = session.rows(
        "SELECT DISTINCT scope FROM documents WHERE tenant = :tenant AND doc IN :docs", docs=[int(doc) for doc in docs]
    )
    scopes = {scope for (scope,) in changed}
    mark_changed(session, scopes)
    session.dialect.lock_shared(session, "embedders")
    if not len(docs) or not _accepts(session, embedder, int(vectors.shape[1])):
        return 0
    found = session.rows(
        "SELECT doc, passage FROM documents WHERE tenant = :tenant AND passage <> '' AND doc IN :docs",
        docs=[int(doc) for doc in docs],
    )
    passages: dict[int, str] = dict(found)
    rows = {passages[int(doc)]: i for i, doc in enumerate(docs) if int(doc) in passages}
    order = sorted(rows)
    session.dialect.vector_index.save(session, embedder, order, vectors[[rows[passage] for passage in order]])
    indexed = _dequeue(session, embedder, order)
    session.dialect.vector_index.add(session, embedder, indexed)
    mark_changed(session, {scope for _, scope, _ in indexed} - scopes)
    return len(indexed)


def index_progress(session: Session, embedder: str) -> IndexProgress:
    """Return how many documents have a vector by this embedder, and how many are queued."""
    found = session.row(
        "SELECT (SELECT count(*) FROM documents WHERE tenant = :tenant AND passage <> ''), "
        "(SELECT count(*) FROM embedding_queue WHERE tenant = :tenant AND embedder = :embedder), "
        "(SELECT count(*) FROM embedders WHERE tenant = :tenant AND id = :embedder AND dropped = 0)",
        embedder=embedder,
    )
    total, waiting, used = found or (0, 0, 0)
    return IndexProgress(done=total - waiting if used else 0, waiting=waiting)


def search_vectors(
    session: Session, embedder: str, queries: Sequence[VectorQuery], *, limit: int, max_backlog: int
) -> tuple[list[list[VectorHit]], int]:
    """Return the nearest documents, and how many are queued for a vector: at most `max_backlog` are counted.

    A build needs both, and one transaction costs less than two.
    """
    validate_limit(limit)
    from brimful.stores.vectors.float16 import normalize  # noqa: PLC0415 - numpy, which a store without vectors does not need

    dims, waiting = session.rows(_STATE, embedder=embedder, limit=validate_limit(max_backlog))[0]
    scopes = get_scope_groups(session, (each.scopes for each in queries))
    found = []
    for each in queries:
        vector = normalize(each.vector.reshape(-1))
        nonempty = {scope.number: scope.documents for scope in scopes[each.scopes] if scope.documents}
        is_searchable = nonempty and limit and vector.any() and _check_dims(embedder, dims, len(vector))
        near = session.dialect.vector_index.nearest(session, embedder, nonempty, vector, limit) if is_searchable else []
        found.append(near)
    return found, waiting


def _accepts(session: Session, embedder: str, dims: int) -> bool:
    """Tell whether the embedder is in use. Its first vectors set the dimensions, and others must match."""
    session.run(
        "UPDATE embedders SET dims = :dims WHERE tenant = :tenant AND id = :id AND dims IS NULL AND dropped = 0",
        id=embedder,
        dims=dims,
    )
    return _check_dims(embedder, _dims(session, embedder), dims)


def _dims(session: Session, embedder: str) -> int | None:
    found = session.row("SELECT dims FROM embedders WHERE tenant = :tenant AND id = :id AND dropped = 0", id=embedder)
    return found[0] if found else None


def _check_dims(embedder: str, known: int | None, dims: int) -> bool:
    if known is not None and known != dims:
        found = f"have {dims} dimensions, and those by {embedder!r} have {known}"
        raise InvalidValue(
            "vectors",
            f"{found}: is another model behind its name? `brimful index --drop {embedder}` forgets the old ones",
        )
    return known is not None


def _dequeue(session: Session, embedder: str, passages: Sequence[str]) -> list[DocumentRef]:
    """Remove passages from the queue, and return their documents."""
    found = session.rows(
        "SELECT doc, scope, passage FROM documents WHERE tenant = :tenant AND passage IN :passages AND passage <> ''",
        passages=list(passages),
    )
    waited = session.rows(
        "DELETE FROM embedding_queue WHERE tenant = :tenant AND embedder = :embedder AND doc IN :docs RETURNING doc",
        embedder=embedder,
        docs=[doc for doc, _, _ in found],
    )
    queued = {doc for (doc,) in waited}
    return [(doc, scope, passage) for doc, scope, passage in found if doc in queued]
