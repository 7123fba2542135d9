"""Vector search in PostgreSQL, with pgvector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from brimful.records.search import VectorHit
from brimful.stores.session import DocumentRef, Session

if TYPE_CHECKING:
    from brimful.protocols import Vectors

_INSERT: Final = """
INSERT INTO vectors (tenant, embedder, hash, vector) VALUES (:tenant, :embedder, :hash, :vector::halfvec)
ON CONFLICT DO NOTHING
"""
_FIND: Final = "SELECT hash FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash IN :passages"
_RENAME: Final = """
INSERT INTO vectors (tenant, embedder, hash, vector)
SELECT tenant, embedder, :new, vector FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash = :old
ON CONFLICT DO NOTHING
"""
_REMOVE_VECTORS: Final = "DELETE FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash IN :passages"
_LIST: Final = """
SELECT hash, vector::text FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash > :after
ORDER BY hash LIMIT :limit
"""
# Vectors have length 1, so the inner product is the cosine; a zero vector gives 0.
# Each vector is looked up: joined otherwise, the server reads all vectors of the tenant.
_EXACT: Final = """
SELECT d.doc, d.seq, -(v.vector <#> :query::halfvec) AS cosine
FROM documents d CROSS JOIN LATERAL (
  SELECT vector FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash = d.passage OFFSET 0
) v
WHERE d.tenant = :tenant AND d.scope IN :scopes AND d.passage <> '' ORDER BY cosine DESC, d.doc DESC LIMIT :limit
"""
_APPROXIMATE: Final = """
SELECT d.doc, d.seq, -((v.vector::halfvec({dims})) <#> :query::halfvec({dims})) AS cosine
FROM vectors v JOIN documents d ON d.tenant = v.tenant AND d.passage = v.hash
WHERE v.tenant = :tenant AND v.embedder = :embedder AND d.scope IN :scopes AND d.passage <> ''
ORDER BY (v.vector::halfvec({dims})) <#> :query::halfvec({dims}) LIMIT :limit
"""
_COUNT_UP_TO: Final = """
SELECT count(*) FROM (SELECT FROM vectors WHERE tenant = :tenant AND embedder = :embedder LIMIT :many) v
"""


class PostgresVectorIndex:
    """The vector index."""

    def save(self, session: Session, embedder: str, passages: Sequence[str], vectors: Vectors) -> None:
        from brimful.stores.vectors.float16 import normalize  # noqa: PLC0415 - numpy, only where there are vectors

        rows = zip(passages, normalize(vectors), strict=True)
        session.many(
            _INSERT,
            ({"embedder": embedder, "hash": passage, "vector": format_vector(vector)} for passage, vector in rows),
        )

    def add(self, session: Session, embedder: str, documents: Sequence[DocumentRef]) -> set[str]:
        """Return the passages that have a vector. Documents are joined by passage."""
        passages = sorted({passage for _, _, passage in documents})
        return {hash for (hash,) in session.rows(_FIND, embedder=embedder, passages=passages)}

    def remove(self, session: Session, embedder: str, documents: Sequence[DocumentRef]) -> None:
        """Do nothing: removed documents are not joined."""

    def rename(self, session: Session, embedder: str, passages: Mapping[str, str]) -> None:
        moved = {old: new for old, new in passages.items() if new}
        session.many(_RENAME, ({"embedder": embedder, "old": old, "new": moved[old]} for old in sorted(moved)))
        session.run(_REMOVE_VECTORS, embedder=embedder, passages=[old for old, new in passages.items() if old != new])

    def read(self, session: Session, embedder: str, after: str, limit: int) -> tuple[list[str], Vectors]:
        import numpy as np  # noqa: PLC0415 - only where there are vectors

        rows = session.rows(_LIST, embedder=embedder, after=after, limit=limit)
        numbers = [msgspec.json.decode(vector, type=list[float]) for _, vector in rows]
        return [hash for hash, _ in rows], np.asarray(numbers, dtype=np.float32)

    def drop(self, session: Session, embedder: str) -> None:
        """Do nothing: there is nothing but the vectors."""

    def nearest(
        self, session: Session, embedder: str, scopes: Mapping[int, int], query: Vectors, limit: int
    ) -> list[VectorHit]:
        is_large = sum(scopes.values()) > session.dialect.tuning.hnsw_threshold
        sql = _APPROXIMATE.format(dims=len(query)) if is_large else _EXACT
        found = session.rows(sql, embedder=embedder, scopes=list(scopes), query=format_vector(query), limit=limit)
        found.sort(key=lambda row: (-row[2], -row[0]))
        return [VectorHit(doc=doc, seq=seq, similarity=float(cosine)) for doc, seq, cosine in found]


def format_vector(vector: Vectors) -> str:
    """Return a vector in pgvector's text format."""
    return "[" + ",".join(f"{number:.6g}" for number in vector.tolist()) + "]"


class GraphSize(msgspec.Struct, frozen=True, kw_only=True):
    """How many vectors a tenant has by an embedder, counted up to the size from which it needs a graph."""

    dims: int | None
    vectors: int
    threshold: int


def graph_size(session: Session, embedder: str) -> GraphSize:
    """Return how many vectors there are by an embedder."""
    threshold = session.dialect.tuning.hnsw_threshold
    used = session.row("SELECT dims FROM embedders WHERE tenant = :tenant AND id = :id AND dropped = 0", id=embedder)
    count = session.row(_COUNT_UP_TO, embedder=embedder, many=threshold + 1)
    return GraphSize(dims=used[0] if used else None, vectors=count[0] if count else 0, threshold=threshold)
