"""Re-encrypt rows with the current data key, in batches."""

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import msgspec

from brimful.stores.encryption.cipher import decrypt, encrypt
from brimful.stores.encryption.tenant_keys import HEADER_BYTES, is_encrypted, key_header, key_number
from brimful.stores.session import Row, Session

Batch = Callable[[Session, Any], tuple[Any, int]]
"""Changes the next rows after a place; returns the place to go on from, None at the end, and how many it changed."""
Write = Callable[[Callable[[Session], tuple[Any, int]]], Awaitable[tuple[Any, int]]]


class BatchJob(msgspec.Struct, frozen=True):
    """What is walked, from where, and what is done with a batch of it."""

    name: str
    start: Any
    batch: Batch


class EncryptionProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far it has come: what is walked now, and how many rows were changed in all."""

    step: str
    rows: int


OnProgress = Callable[[EncryptionProgress], None]


async def run_batches(write: Write, given: BatchJob, told: OnProgress, done: int) -> int:
    """Walk to the end, and return how many rows were changed, with those `done` before."""
    after = given.start
    while after is not None:
        after, changed = await write(partial(_run_alone, given.batch, after))
        if changed:
            done += changed
            told(EncryptionProgress(step=given.name, rows=done))
    return done


def _run_alone(batch: Batch, after: Any, session: Session) -> tuple[Any, int]:
    session.dialect.lock(session, "seal")
    return batch(session, after)


BATCH_ROWS: Final = 500  # rows in one transaction: other writers wait some 30 ms for it


class EncryptedColumn(msgspec.Struct, frozen=True):
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
_COLUMNS: Final = (
    EncryptedColumn("contents", "body", "hash", ("hash",)),
    *(EncryptedColumn(table, "body", "id", ("id",)) for table in ("users", "personas", "rooms", "lorebooks")),
    *(EncryptedColumn(table, "detail", "id", ("id", owner, "hash")) for table, owner in OWNERS.items()),
    EncryptedColumn("snapshots", "digest", "id", ("id", "room")),
    EncryptedColumn("snapshots", "body", "id", ("id", "room", "refs")),
    EncryptedColumn("responses", "body", "id", ("id", "room")),
    EncryptedColumn("janitor_undo", "body", "number", ("item", "room")),
)
_BLOCKS: Final = f"""
DELETE FROM vector_blocks WHERE tenant = :tenant AND number IN (
  SELECT number FROM vector_blocks WHERE tenant = :tenant AND substr(body, 1, {HEADER_BYTES}) <> :header LIMIT :limit)
"""  # noqa: S608 - our own
_FEW: Final = 50  # blocks at once, of 300 kB each
_VECTORS: Final = EncryptedColumn("vectors", "vector", "number", ("embedder", "hash"))


def reencryption_jobs(session: Session) -> list[BatchJob]:
    """Return the walks over all that is sealed."""
    walks = [BatchJob(kept.table, kept.start, partial(_reencrypt, kept)) for kept in _columns_for(session)]
    return walks if session.dialect.name == "postgres" else [*walks, BatchJob("blocks", 0, _drop_blocks)]


def count_rows_by_key(session: Session) -> Counter[int | None]:
    """Return how many rows each key seals; None stands for what is in the clear."""
    total: Counter[int | None] = Counter()
    for kept in _columns_for(session):
        sql = (
            f"SELECT substr({kept.column}, 1, {HEADER_BYTES}), count(*) FROM {kept.table} "  # noqa: S608 - our own
            "WHERE tenant = :tenant GROUP BY 1"
        )
        for head, rows in session.rows(sql):
            total[key_number(head) if is_encrypted(head) else None] += rows
    return total


def _columns_for(session: Session) -> tuple[EncryptedColumn, ...]:
    """Return what a database keeps sealed. PostgreSQL reads vectors, so it has them in the clear, if at all."""
    return _COLUMNS if session.dialect.name == "postgres" else (*_COLUMNS, _VECTORS)


def _reencrypt(kept: EncryptedColumn, session: Session, after: Any) -> tuple[Any, int]:
    """Seal the next rows anew."""
    found = session.rows(_select_sql(kept), after=after, limit=BATCH_ROWS, header=_header(session))
    changed = sum(_reencrypt_row(session, kept, row) for row in found)
    return (found[-1][0] if len(found) == BATCH_ROWS else None), changed


def _drop_blocks(session: Session, after: int) -> tuple[int | None, int]:
    """Forget blocks of vectors, which are made anew from these."""
    changed = session.run(_BLOCKS, header=_header(session), limit=_FEW)
    return (after if changed == _FEW else None), changed


def _select_sql(kept: EncryptedColumn) -> str:
    return (
        f"SELECT {kept.by}, {kept.column}, {', '.join(kept.bound)} FROM {kept.table} "  # noqa: S608 - our own
        f"WHERE tenant = :tenant AND {kept.by} > :after AND substr({kept.column}, 1, {HEADER_BYTES}) <> :header "
        f"ORDER BY {kept.table}.{kept.by} LIMIT :limit"
    )


def _reencrypt_row(session: Session, kept: EncryptedColumn, row: Row) -> int:
    """Seal a row anew, unless somebody changed it meanwhile; then it is sealed by the current key already."""
    which, body, *bound = row
    return session.run(
        f"UPDATE {kept.table} SET {kept.column} = :sealed "  # noqa: S608 - our own
        f"WHERE tenant = :tenant AND {kept.by} = :which AND {kept.column} = :body",
        which=which,
        body=body,
        sealed=encrypt(session, decrypt(session, body, kept.table, *bound), kept.table, *bound),
    )


def _header(session: Session) -> bytes:
    """Return what begins each row that is as it should be; nothing does where nothing is sealed."""
    return key_header(session.keys.current) if session.keys else b""
