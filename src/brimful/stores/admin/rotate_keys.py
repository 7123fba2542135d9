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
"""Changes the next rows after a key. Returns the key to continue from, None at the end, and the number of changes."""
Write = Callable[[Callable[[Session], tuple[Any, int]]], Awaitable[tuple[Any, int]]]
BATCH_ROWS: Final = 500  # per transaction; other writers wait about 30 ms
OWNERS: Final = {
    "messages": "(SELECT id FROM rooms r WHERE r.tenant = messages.tenant AND r.number = messages.room)",
    "memories": "scope",
    "lore_entries": "lorebook",
    "summaries": "room",
}
"""Tables of records with content, and the owner of each record."""
_BLOCKS: Final = f"""
DELETE FROM vector_blocks WHERE tenant = :tenant AND number IN (
  SELECT number FROM vector_blocks WHERE tenant = :tenant AND substr(body, 1, {HEADER_BYTES}) <> :header LIMIT :limit)
"""  # noqa: S608 - our own
_FEW: Final = 50  # blocks per transaction, of 300 kB each


class BatchJob(msgspec.Struct, frozen=True):
    """A job over the rows of a table, in batches."""

    name: str
    start: Any
    batch: Batch


class EncryptionProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The current step, and the number of rows changed so far."""

    step: str
    rows: int


OnProgress = Callable[[EncryptionProgress], None]


async def run_batches(write: Write, job: BatchJob, on_progress: OnProgress, done: int) -> int:
    """Run a job to its end, and return the number of changed rows, added to `done`."""
    after = job.start
    while after is not None:
        after, changed = await write(partial(_run_alone, job.batch, after))
        if changed:
            done += changed
            on_progress(EncryptionProgress(step=job.name, rows=done))
    return done


def _run_alone(batch: Batch, after: Any, session: Session) -> tuple[Any, int]:
    session.dialect.lock(session, "encrypt")
    return batch(session, after)


class EncryptedColumn(msgspec.Struct, frozen=True):
    """A column of encrypted values: the column that orders its rows, and the columns bound to each value."""

    table: str
    name: str
    by: str
    bound: tuple[str, ...]

    @property
    def start(self) -> Any:
        """The key before all rows."""
        return 0 if self.by == "number" else ""


_COLUMNS: Final = (
    EncryptedColumn("contents", "body", "hash", ("hash",)),
    *(EncryptedColumn(table, "body", "id", ("id",)) for table in ("users", "personas", "rooms", "lorebooks")),
    *(EncryptedColumn(table, "detail", "id", ("id", owner, "hash")) for table, owner in OWNERS.items()),
    EncryptedColumn("snapshots", "digest", "id", ("id", "room")),
    EncryptedColumn("snapshots", "body", "id", ("id", "room", "refs")),
    EncryptedColumn("responses", "body", "id", ("id", "room")),
    EncryptedColumn("janitor_undo", "body", "number", ("item", "room")),
)
_VECTORS: Final = EncryptedColumn("vectors", "vector", "number", ("embedder", "hash"))


def reencryption_jobs(session: Session) -> list[BatchJob]:
    """Return the jobs over all encrypted columns."""
    walks = [BatchJob(column.table, column.start, partial(_reencrypt, column)) for column in _columns_for(session)]
    return walks if session.dialect.name == "postgres" else [*walks, BatchJob("blocks", 0, _drop_blocks)]


def count_rows_by_key(session: Session) -> Counter[int | None]:
    """Return the number of rows per key; None is plain text."""
    total: Counter[int | None] = Counter()
    for column in _columns_for(session):
        sql = (
            f"SELECT substr({column.name}, 1, {HEADER_BYTES}), count(*) FROM {column.table} "  # noqa: S608 - our own
            "WHERE tenant = :tenant GROUP BY 1"
        )
        for head, rows in session.rows(sql):
            total[key_number(head) if is_encrypted(head) else None] += rows
    return total


def _columns_for(session: Session) -> tuple[EncryptedColumn, ...]:
    """Return the encrypted columns of a database. PostgreSQL must read vectors, so they are never encrypted there."""
    return _COLUMNS if session.dialect.name == "postgres" else (*_COLUMNS, _VECTORS)


def _reencrypt(column: EncryptedColumn, session: Session, after: Any) -> tuple[Any, int]:
    """Re-encrypt the next rows."""
    found = session.rows(_select_sql(column), after=after, limit=BATCH_ROWS, header=_header(session))
    changed = sum(_reencrypt_row(session, column, row) for row in found)
    return (found[-1][0] if len(found) == BATCH_ROWS else None), changed


def _drop_blocks(session: Session, after: int) -> tuple[int | None, int]:
    """Delete vector blocks, which are built again from the vectors."""
    changed = session.run(_BLOCKS, header=_header(session), limit=_FEW)
    return (after if changed == _FEW else None), changed


def _select_sql(column: EncryptedColumn) -> str:
    return (
        f"SELECT {column.by}, {column.name}, {', '.join(column.bound)} FROM {column.table} "  # noqa: S608 - our own
        f"WHERE tenant = :tenant AND {column.by} > :after AND substr({column.name}, 1, {HEADER_BYTES}) <> :header "
        f"ORDER BY {column.table}.{column.by} LIMIT :limit"
    )


def _reencrypt_row(session: Session, column: EncryptedColumn, row: Row) -> int:
    """Re-encrypt a row, unless it was changed in the meantime, and so already uses the current key."""
    which, body, *bound = row
    return session.run(
        f"UPDATE {column.table} SET {column.name} = :encrypted "  # noqa: S608 - our own
        f"WHERE tenant = :tenant AND {column.by} = :which AND {column.name} = :body",
        which=which,
        body=body,
        encrypted=encrypt(session, decrypt(session, body, column.table, *bound), column.table, *bound),
    )


def _header(session: Session) -> bytes:
    """Return the header of the current key; empty without encryption."""
    return key_header(session.keys.current) if session.keys else b""
