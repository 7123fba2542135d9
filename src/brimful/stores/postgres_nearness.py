"""Vectors in PostgreSQL: pgvector compares, exactly where documents are few, along a graph where they are many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from brimful.answers import Near
from brimful.stores.session import Placed, Session

if TYPE_CHECKING:
    from brimful.protocols import Vectors

MANY: Final = 20_000  # documents from which a graph is quicker than comparing all

_KEEP: Final = """
INSERT INTO vectors (tenant, embedder, hash, vector) VALUES (:tenant, :embedder, :hash, :vector::halfvec)
ON CONFLICT DO NOTHING
"""
_KNOWN: Final = "SELECT hash FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash IN :passages"
_RENAME: Final = """
INSERT INTO vectors (tenant, embedder, hash, vector)
SELECT tenant, embedder, :new, vector FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash = :old
ON CONFLICT DO NOTHING
"""
_REMOVE: Final = "DELETE FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash IN :passages"
_KEPT: Final = """
SELECT hash, vector::text FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash > :after
ORDER BY hash LIMIT :limit
"""
# Vectors have a length of 1, so the inner product is the cosine, also with a vector of nothing.
_EXACT: Final = """
SELECT d.doc, d.seq, -(v.vector <#> :query::halfvec) AS cosine
FROM documents d JOIN vectors v ON v.tenant = d.tenant AND v.embedder = :embedder AND v.hash = d.passage
WHERE d.tenant = :tenant AND d.scope IN :scopes AND d.passage <> '' ORDER BY cosine DESC, d.doc DESC LIMIT :limit
"""
_GRAPH: Final = """
SELECT d.doc, d.seq, -((v.vector::halfvec({dims})) <#> :query::halfvec({dims})) AS cosine
FROM vectors v JOIN documents d ON d.tenant = v.tenant AND d.passage = v.hash
WHERE v.tenant = :tenant AND v.embedder = :embedder AND d.scope IN :scopes AND d.passage <> ''
ORDER BY (v.vector::halfvec({dims})) <#> :query::halfvec({dims}) LIMIT :limit
"""
_LARGE: Final = """
SELECT e.id, e.dims FROM embedders e WHERE e.tenant = :tenant AND e.dims IS NOT NULL AND e.dropped = 0
  AND (SELECT count(*) FROM vectors v WHERE v.tenant = e.tenant AND v.embedder = e.id) > :many
"""
_SIZE: Final = "SELECT coalesce(sum(documents), 0) FROM scopes WHERE tenant = :tenant AND number IN :scopes"


class PostgresNearness:
    """Which documents have a vector, and which are near."""

    def keep(self, session: Session, embedder: str, passages: Sequence[str], vectors: Vectors) -> None:
        """Keep one vector for each passage."""
        from brimful.stores.halves import unit  # noqa: PLC0415 - numpy, only where there are vectors

        rows = zip(passages, unit(vectors), strict=True)
        session.many(
            _KEEP, ({"embedder": embedder, "hash": passage, "vector": written(vector)} for passage, vector in rows)
        )

    def place(self, session: Session, embedder: str, documents: Sequence[Placed]) -> set[str]:
        """Return the passages that have a vector; documents are found by them."""
        passages = sorted({passage for _, _, passage in documents})
        return {hash for (hash,) in session.rows(_KNOWN, embedder=embedder, passages=passages)}

    def displace(self, session: Session, embedder: str, documents: Sequence[Placed]) -> None:
        """Do nothing: what is no document is not found."""

    def rename(self, session: Session, embedder: str, passages: Mapping[str, str]) -> None:
        """Give vectors the new addresses of their passages; without a new one, a vector is removed."""
        moved = {old: new for old, new in passages.items() if new}
        session.many(_RENAME, ({"embedder": embedder, "old": old, "new": moved[old]} for old in sorted(moved)))
        session.run(_REMOVE, embedder=embedder, passages=[old for old, new in passages.items() if old != new])

    def kept(self, session: Session, embedder: str, after: str, limit: int) -> tuple[list[str], Vectors]:
        """Return passages after one of them, and their vectors."""
        import numpy as np  # noqa: PLC0415 - only where there are vectors

        rows = session.rows(_KEPT, embedder=embedder, after=after, limit=limit)
        numbers = [msgspec.json.decode(vector, type=list[float]) for _, vector in rows]
        return [hash for hash, _ in rows], np.asarray(numbers, dtype=np.float32)

    def drop(self, session: Session, embedder: str) -> None:
        """Do nothing: the vectors are all that there is."""

    def nearest(self, session: Session, embedder: str, scopes: Sequence[int], query: Vectors, limit: int) -> list[Near]:
        """Return the documents nearest to a query of length 1, nearest first."""
        size = session.row(_SIZE, scopes=list(scopes))
        many = size is not None and size[0] > MANY
        sql = _GRAPH.format(dims=len(query)) if many else _EXACT
        found = session.rows(sql, embedder=embedder, scopes=list(scopes), query=written(query), limit=limit)
        found.sort(key=lambda row: (-row[2], -row[0]))
        return [Near(doc=doc, seq=seq, similarity=float(cosine)) for doc, seq, cosine in found]


def written(vector: Vectors) -> str:
    """Return a vector as pgvector reads it."""
    return "[" + ",".join(f"{number:.6g}" for number in vector.tolist()) + "]"


def large(session: Session) -> list[tuple[str, int]]:
    """Return the embedders in use, with their dimensions, of which a tenant has very many vectors."""
    found = session.rows(_LARGE, many=MANY)
    return [(embedder, dims) for embedder, dims in found]
