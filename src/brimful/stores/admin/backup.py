"""Backups: copy a database to a file or to another database, row by row.

A backup is written to a temporary file and renamed when it is complete.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from brimful.errors import InvalidValue, StoreCorrupt
from brimful.private_files import create_private
from brimful.stores.index.documents import insert_documents, list_embedders
from brimful.stores.log.usage import USAGE_COLUMNS as OBSERVED
from brimful.stores.session import Row, Session

_SIDE_FILES: Final = ("-wal", "-shm", "-journal")  # SQLite's files next to a database
_PART_DIGITS: Final = 12
_STALE_SECONDS: Final = 86_400.0  # without a write; a running backup may check a large copy for hours
COPIED_TABLES: Final[dict[str, tuple[int, tuple[str, ...]]]] = {
    "tenants": (1, ("tenant",)),
    "data_keys": (1, ("number", "wrapped", "kek", "created", "retired", "mixed")),
    "api_keys": (
        1,
        (
            *("id", "digest", "name", "scopes", "created", "revoked", "user_id"),
            *("expires", "models", "policies", "used"),
        ),
    ),
    "users": (1, ("id", "body")),
    "personas": (1, ("id", "body")),
    "lorebooks": (1, ("id", "body")),
    "contents": (1, ("hash", "body", "uses", "seen")),
    "token_counts": (2, ("tokenizer", "hash", "tokens")),
    "rooms": (1, ("number", "id", "body", "owner", "last", "last_message_at", "unindexed")),
    "messages": (2, ("room", "seq", "id", "hash", "at", "edited", "deleted", "archived_by", "detail")),
    "room_counts": (3, ("room", "counter", "first", "last", "messages", "tokens")),
    "memories": (
        1,
        (
            *("id", "scope", "type", "persona", "user_id", "room", "hash", "at"),
            *("pinned", "summary", "accesses", "accessed", "archived_by", "state", "detail"),
        ),
    ),
    "lore_entries": (1, ("id", "lorebook", "hash", "position", "detail")),
    "summaries": (1, ("id", "room", "hash", "at", "detail")),
    "snapshots": (1, ("number", "id", "room", "persona", "at", "message", "task", "digest", "items", "refs", "body")),
    "context_items": (2, ("item", "room")),
    "responses": (1, ("id", "context", "room", "at", "message", "feedback", "body")),
    "log": (
        1,
        ("position", "kind", "item", "room", "at", "persona", "model", "policy", "user_id", "api_key", "run", "body"),
    ),
    "log_ends": (1, ("tenant", "last", "pruned")),
    "tallies": (7, ("scope", "owner", "size", "hour", "persona", "model", "policy", "body")),
    "usage_reports": (1, ("number", *OBSERVED)),
    "own_calls": (
        2,
        (
            *("day", "kind", "calls", "prompt", "completion", "nanodollars", "unpriced"),
            *("reserved_tokens", "reserved_nanodollars", "tokens_per_day", "nanodollars_per_day"),
        ),
    ),
    "usage_limits": (1, ("subject", "kind", "name", "limits")),
    "limit_counters": (
        3,
        (
            *("period", "start", "subject", "requests", "tokens", "nanodollars"),
            *("reserved_tokens", "reserved_nanodollars"),
        ),
    ),
    "janitor_runs": (1, ("number", "kind", "state", "holder", "started", "heartbeat", "ended", "facts")),
    "janitor_undo": (1, ("number", "run", "item", "room", "body")),
    "learned_messages": (2, ("scope", "message", "run")),
    "scopes": (1, ("number", "scope", "documents", "words", "changes")),
    "documents": (
        1,
        ("doc", "scope", "kind", "item", "seq", "at", "length", "passage", "terms", "part", "start", "stop"),
    ),
    "embedders": (1, ("id", "since", "dims", "dropped")),
    "embedding_queue": (2, ("embedder", "doc")),
    "jobs": (2, ("kind", "subject", "due", "worker", "lease", "attempts", "error")),
}
"""Tables in order of their references: the number of key columns after the tenant, and all columns."""
NUMBERED_TABLES: Final = ("rooms", "snapshots", "usage_reports", "janitor_runs", "janitor_undo", "scopes", "documents")


def begin_backup(path: Path, store: str, *, now: float) -> Path:
    """Return a temporary path for a backup, and remove the files that killed backups to the same path left behind.

    Raises if the backup would overwrite the store itself.
    """
    if store and path.exists() and Path(store).exists() and path.samefile(store):
        raise InvalidValue("path", f"{path} is the store itself; write the copy to another file")
    _remove_stale_parts(path, now)
    part = Path(f"{path}.{uuid4().hex[:_PART_DIGITS]}.part")
    create_private(part)
    return part


def _remove_stale_parts(path: Path, now: float) -> None:
    for part in path.parent.glob(f"{escape(path.name)}.{'[0-9a-f]' * _PART_DIGITS}.part"):
        with suppress(OSError):  # another process may remove it as well, or it is another user's
            files = [file for file in (part, *_side_files(part)) if file.exists()]
            if now - max(file.stat().st_mtime for file in files) > _STALE_SECONDS:
                discard_backup(part)


def finish_backup(part: Path, path: Path, *, force: bool) -> None:
    """Move a complete backup to its path. It has no WAL, so it can be read from anywhere.

    A damaged one is refused, unless it is forced: it may be all that is left, but must not replace a sound backup.
    An older backup at that path may have left a WAL, which would be applied to the new one; so it is removed.
    """
    with closing(sqlite3.connect(part)) as copy:
        if not force:
            _require_sound(copy, path)
        copy.execute("PRAGMA journal_mode = DELETE")
    _remove_side_files(path)
    part.replace(path)


def _require_sound(copy: sqlite3.Connection, path: Path) -> None:
    try:
        ((found, *_), *_) = copy.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        found = " ".join(found.split())
        raise StoreCorrupt(
            str(path), f"was not written, because the store is damaged ({found}); --force copies it as it is"
        )


def read_only_uri(path: Path) -> str:
    """Return a URI that opens a backup read-only, without creating files next to it if possible."""
    alone = not Path(f"{path}{_SIDE_FILES[0]}").exists()
    return f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if alone else ''}"


def discard_backup(part: Path) -> None:
    """Remove an incomplete backup."""
    part.unlink(missing_ok=True)
    _remove_side_files(part)


def _remove_side_files(path: Path) -> None:
    for file in _side_files(path):
        file.unlink(missing_ok=True)


def _side_files(path: Path) -> list[Path]:
    return [Path(f"{path}{ending}") for ending in _SIDE_FILES]


Write = Callable[[Callable[[Session], None]], None]


def copy_tenant(source: Session, write: Write, write_encrypted: Write) -> None:
    """Copy all rows of a tenant. Vectors are indexed again, because each database stores them differently."""
    for table in COPIED_TABLES:
        for rows in _read_pages(source, table):
            write(partial(_insert_rows, source=source, table=table, rows=rows))
    for embedder in list_embedders(source):
        for passages, vectors in _read_vectors(source, embedder):
            write_encrypted(partial(_save_vectors, embedder=embedder, passages=passages, vectors=vectors))
        for rows in _read_pages(source, "documents"):
            documents = [(row[0], row[1], row[7]) for row in rows if row[7]]
            write_encrypted(partial(_index_vectors, embedder=embedder, documents=documents))


def _save_vectors(target: Session, *, embedder: str, passages: list[str], vectors: Any) -> None:
    target.dialect.vector_index.save(target, embedder, passages, vectors)


def _index_vectors(target: Session, *, embedder: str, documents: list[tuple[int, int, str]]) -> None:
    target.dialect.vector_index.add(target, embedder, documents)


def _insert_rows(target: Session, *, source: Session, table: str, rows: list[Row]) -> None:
    columns = [column for column in COPIED_TABLES[table][1] if column != "tenant"]
    names = ", ".join(["tenant", *columns])
    values = ", ".join(f":{name}" for name in ["tenant", *columns])
    written = [dict(zip(COPIED_TABLES[table][1], row, strict=True)) for row in rows]
    statement = f"INSERT INTO {table} ({names}) VALUES ({values})"  # noqa: S608 - our own tables
    if table == "documents":
        for row in written:
            row["terms"] = source.dialect.decode_terms(row["scope"], row["terms"])
        insert_documents(target, statement, written)
    else:
        target.many(statement, written)
    if table in NUMBERED_TABLES:
        target.dialect.advance_sequence(target, table, max(row[0] for row in rows))


def _read_pages(source: Session, table: str) -> Iterator[list[Row]]:
    keys, columns = COPIED_TABLES[table]
    key, begins = ", ".join(columns[:keys]), ", ".join(f":after{i}" for i in range(keys))
    size = source.dialect.tuning.copy_rows
    select = f"SELECT {', '.join(columns)} FROM {table} WHERE tenant = :tenant"  # noqa: S608 - our own tables
    rows = source.rows(f"{select} ORDER BY {key} LIMIT {size}")
    while rows:
        yield rows
        after = {f"after{i}": rows[-1][i] for i in range(keys)}
        rows = source.rows(f"{select} AND ({key}) > ({begins}) ORDER BY {key} LIMIT {size}", **after)


def _read_vectors(source: Session, embedder: str) -> Iterator[tuple[list[str], Any]]:
    size = source.dialect.tuning.copy_rows
    passages, vectors = source.dialect.vector_index.read(source, embedder, "", size)
    while passages:
        yield passages, vectors
        passages, vectors = source.dialect.vector_index.read(source, embedder, passages[-1], size)
