"""Vectors in SQLite: kept in a table, searched in memory, which follows a log of what came and went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from brimful.answers import Near
from brimful.stores import embedded
from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Placed, Session

if TYPE_CHECKING:
    from brimful.protocols import Vectors
    from brimful.stores.vector_cache import Shelves

MOST_BYTES: Final = 512 * 2**20  # of vectors in memory

_KEEP: Final = """
INSERT INTO vectors (tenant, embedder, hash, vector) VALUES (:tenant, :embedder, :hash, :vector) ON CONFLICT DO NOTHING
"""
_KNOWN: Final = """
SELECT hash, number FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash IN :passages
"""
_KEPT: Final = """
SELECT hash, vector FROM vectors WHERE tenant = :tenant AND embedder = :embedder AND hash > :after
ORDER BY hash LIMIT :limit
"""
_RELINK: Final = "UPDATE embedded SET vector = :new WHERE tenant = :tenant AND embedder = :embedder AND vector = :old"
_READ: Final = "SELECT number, vector, hash FROM vectors WHERE tenant = :tenant AND number IN :numbers"


class SqliteNearness:
    """Which documents have a vector, and which are near."""

    def __init__(self) -> None:
        """Hold nothing in memory yet."""
        self._held: Shelves | None = None

    def keep(self, session: Session, embedder: str, passages: Sequence[str], vectors: Vectors) -> None:
        """Keep one vector for each passage."""
        from brimful.stores.halves import to_bytes, unit  # noqa: PLC0415 - numpy, only where there are vectors

        rows = [(passage, to_bytes(vector)) for passage, vector in zip(passages, unit(vectors), strict=True)]
        session.many(
            _KEEP,
            (
                {"embedder": embedder, "hash": passage, "vector": seal(session, vector, "vectors", embedder, passage)}
                for passage, vector in rows
            ),
        )

    def place(self, session: Session, embedder: str, documents: Sequence[Placed]) -> set[str]:
        """Take up documents whose passage has a vector, and return those passages."""
        passages = sorted({passage for _, _, passage in documents})
        known: dict[str, int] = dict(session.rows(_KNOWN, embedder=embedder, passages=passages))
        rows = [(scope, doc, known[passage]) for doc, scope, passage in documents if passage in known]
        if rows:
            from brimful.stores.vector_log import mend  # noqa: PLC0415 - numpy, only where there are vectors

            embedded.came(session, embedder, rows)
            for scope in sorted({scope for scope, _, _ in rows}):
                mend(session, embedder, scope)
        return set(known)

    def displace(self, session: Session, embedder: str, documents: Sequence[Placed]) -> None:
        """Note that documents are gone."""
        embedded.went(session, embedder, documents)

    def rename(self, session: Session, embedder: str, passages: Mapping[str, str]) -> None:
        """Give vectors the new addresses of their passages; without a new one, a vector is removed."""
        embedded.drop_blocks(session, embedder)
        addresses = [*passages.keys(), *passages.values()]
        known: dict[str, int] = dict(session.rows(_KNOWN, embedder=embedder, passages=addresses))
        for old, new in passages.items():
            if old in known and new in known:  # the same was said and embedded since then
                session.run(_RELINK, embedder=embedder, old=known[old], new=known[new])
            if old in known and new and new not in known:
                _rename(session, embedder, known[old], new)
            elif old in known:
                session.run("DELETE FROM vectors WHERE tenant = :tenant AND number = :old", old=known[old])

    def kept(self, session: Session, embedder: str, after: str, limit: int) -> tuple[list[str], Vectors]:
        """Return passages after one of them, and their vectors."""
        from brimful.stores.halves import from_bytes  # noqa: PLC0415 - numpy, only where there are vectors

        rows = session.rows(_KEPT, embedder=embedder, after=after, limit=limit)
        return [hash for hash, _ in rows], from_bytes([_opened(session, embedder, *row) for row in rows])

    def drop(self, session: Session, embedder: str) -> None:
        """Forget the log of an embedder."""
        embedded.drop_log(session, embedder)

    def nearest(self, session: Session, embedder: str, scopes: Sequence[int], query: Vectors, limit: int) -> list[Near]:
        """Return the documents nearest to a query of length 1, nearest first."""
        from brimful.stores.vector_log import follow  # noqa: PLC0415 - numpy, only where there are vectors

        found: list[tuple[int, int, float]] = []
        since = _since(session, embedder)
        for scope in scopes:
            shelf = self._shelves().shelf((session.tenant, embedder, since, scope), len(query))
            follow(session, embedder, scope, shelf, len(query))
            found += shelf.nearest(query, limit, lambda numbers: _read(session, embedder, numbers))
        self._shelves().settle()
        found.sort(key=lambda near: (-near[2], -near[0]))
        return [Near(doc=doc, seq=seq, similarity=similarity) for doc, seq, similarity in found[:limit]]

    def _shelves(self) -> Shelves:
        from brimful.stores.vector_cache import Shelves  # noqa: PLC0415 - numpy, only where there are vectors

        if self._held is None:
            self._held = Shelves(MOST_BYTES)
        return self._held


def _since(session: Session, embedder: str) -> int:
    """Return what tells an embedder from the one of that name which was dropped: its log begins anew."""
    found = session.row("SELECT since FROM embedders WHERE tenant = :tenant AND id = :id", id=embedder)
    return int(found[0]) if found else 0


def _read(session: Session, embedder: str, numbers: Sequence[int]) -> Vectors:
    """Return vectors by their numbers, in order; one that was removed meanwhile is nowhere near."""
    from brimful.stores.halves import from_bytes  # noqa: PLC0415 - numpy, only where there are vectors

    rows = session.rows(_READ, numbers=list(numbers))
    kept = {number: _opened(session, embedder, hash, vector) for number, vector, hash in rows}
    blank = bytes(len(next(iter(kept.values()), b"")))
    return from_bytes([kept.get(number, blank) for number in numbers])


def _rename(session: Session, embedder: str, number: int, new: str) -> None:
    for _, vector, old in session.rows(_READ, numbers=[number]):
        session.run(
            "UPDATE vectors SET hash = :new, vector = :vector WHERE tenant = :tenant AND number = :number",
            number=number,
            new=new,
            vector=seal(session, _opened(session, embedder, old, vector), "vectors", embedder, new),
        )


def _opened(session: Session, embedder: str, hash: str, vector: bytes) -> bytes:
    return unseal(session, vector, "vectors", embedder, hash)
