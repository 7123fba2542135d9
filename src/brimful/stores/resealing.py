"""Rows that hold something sealed, walked in batches: each row that the current key did not seal is sealed anew."""

from collections import Counter
from functools import partial
from typing import Any, Final

import msgspec

from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Row, Session
from brimful.stores.tenant_keys import HEADER_BYTES, header, is_sealed, number_of
from brimful.stores.walking import Walk

BATCH: Final = 500  # rows in one transaction: other writers wait some 30 ms for it


class Kept(msgspec.Struct, frozen=True):
    """A column of sealed bodies: by which column its rows are walked, and what each is bound to."""

    table: str
    column: str
    by: str
    bound: tuple[str, ...]

    @property
    def start(self) -> Any:
        """What comes before all rows."""
        return 0 if self.by == "number" else ""


OWNERS: Final = {
    "messages": "(SELECT id FROM rooms r WHERE r.tenant = messages.tenant AND r.number = messages.room)",
    "memories": "scope",
    "lore_entries": "lorebook",
    "summaries": "room",
}
"""Tables of records that refer to a content, and to what each record belongs."""
_ALL: Final = (
    Kept("contents", "body", "hash", ("hash",)),
    *(Kept(table, "body", "id", ("id",)) for table in ("users", "personas", "rooms", "lorebooks")),
    *(Kept(table, "detail", "id", ("id", owner, "hash")) for table, owner in OWNERS.items()),
    Kept("snapshots", "digest", "id", ("id", "room")),
    Kept("snapshots", "body", "id", ("id", "room", "refs")),
    Kept("responses", "body", "id", ("id", "room")),
    Kept("tidied", "body", "number", ("item", "room")),
)
_BLOCKS: Final = f"""
DELETE FROM embedded_blocks WHERE tenant = :tenant AND number IN (
  SELECT number FROM embedded_blocks WHERE tenant = :tenant AND substr(body, 1, {HEADER_BYTES}) <> :header LIMIT :limit)
"""  # noqa: S608 - our own
_FEW: Final = 50  # blocks at once, of 300 kB each
_VECTORS: Final = Kept("vectors", "vector", "number", ("embedder", "hash"))


def reseals(session: Session) -> list[Walk]:
    """Return the walks over all that is sealed."""
    walks = [Walk(kept.table, kept.start, partial(_reseal, kept)) for kept in _kept_by(session)]
    return walks if session.dialect.name == "postgres" else [*walks, Walk("blocks", 0, _drop_blocks)]


def rows_by_key(session: Session) -> Counter[int | None]:
    """Return how many rows each key seals; None stands for what is in the clear."""
    total: Counter[int | None] = Counter()
    for kept in _kept_by(session):
        sql = (
            f"SELECT substr({kept.column}, 1, {HEADER_BYTES}), count(*) FROM {kept.table} "  # noqa: S608 - our own
            "WHERE tenant = :tenant GROUP BY 1"
        )
        for head, rows in session.rows(sql):
            total[number_of(head) if is_sealed(head) else None] += rows
    return total


def _kept_by(session: Session) -> tuple[Kept, ...]:
    """Return what a database keeps sealed. PostgreSQL reads vectors, so it has them in the clear, if at all."""
    return _ALL if session.dialect.name == "postgres" else (*_ALL, _VECTORS)


def _reseal(kept: Kept, session: Session, after: Any) -> tuple[Any, int]:
    """Seal the next rows anew."""
    found = session.rows(_waiting(kept), after=after, limit=BATCH, header=_header(session))
    changed = sum(_resealed(session, kept, row) for row in found)
    return (found[-1][0] if len(found) == BATCH else None), changed


def _drop_blocks(session: Session, after: int) -> tuple[int | None, int]:
    """Forget blocks of vectors, which are made anew from these."""
    changed = session.run(_BLOCKS, header=_header(session), limit=_FEW)
    return (after if changed == _FEW else None), changed


def _waiting(kept: Kept) -> str:
    return (
        f"SELECT {kept.by}, {kept.column}, {', '.join(kept.bound)} FROM {kept.table} "  # noqa: S608 - our own
        f"WHERE tenant = :tenant AND {kept.by} > :after AND substr({kept.column}, 1, {HEADER_BYTES}) <> :header "
        f"ORDER BY {kept.table}.{kept.by} LIMIT :limit"
    )


def _resealed(session: Session, kept: Kept, row: Row) -> int:
    """Seal a row anew, unless somebody changed it meanwhile; then it is sealed by the current key already."""
    which, body, *bound = row
    return session.run(
        f"UPDATE {kept.table} SET {kept.column} = :sealed "  # noqa: S608 - our own
        f"WHERE tenant = :tenant AND {kept.by} = :which AND {kept.column} = :body",
        which=which,
        body=body,
        sealed=seal(session, unseal(session, body, kept.table, *bound), kept.table, *bound),
    )


def _header(session: Session) -> bytes:
    """Return what begins each row that is as it should be; nothing does where nothing is sealed."""
    return header(session.keys.current) if session.keys else b""
