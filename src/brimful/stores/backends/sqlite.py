"""SQLite backend: one writer thread, a few reader threads, and a pool of connections.

A connection caches the pages it read until another one writes, so the most recently used connection is reused first.

With `synchronous=FULL` in WAL mode, a commit returns when the log is on disk: acknowledged writes survive a crash or
a power failure. This costs one `fsync` per writing call; bulk imports batch their writes.
"""

import asyncio
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from brimful.errors import InvalidValue, MigrationError, StoreCorrupt, StoreError, StoreUnavailable
from brimful.private_files import create_private
from brimful.stores.admin import backup
from brimful.stores.backends.driver import CallThreads, Driver, Finding, PoolUse, raise_if_closed
from brimful.stores.backends.sqlite_index import SqliteTextIndex, SqliteVectorIndex
from brimful.stores.migrations import Migration, pending_migrations
from brimful.stores.session import Cursor, Row, Session, repeat_values
from brimful.stores.tuning import DEFAULT_TUNING, Tuning
from brimful.stores.urls import Target

_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_CORRUPT: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNAVAILABLE: Final = {
    sqlite3.SQLITE_FULL: "the disk is full; make room and try again",
    sqlite3.SQLITE_READONLY: "the database may not be written; check the rights of the file and of its folder",
    sqlite3.SQLITE_PERM: "the database may not be used; check the rights of the file and of its folder",
    sqlite3.SQLITE_AUTH: "the database may not be used; check the rights of the file and of its folder",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that the folder exists and may be written",
    sqlite3.SQLITE_IOERR: "reading or writing failed; check the disk and how much room it has",
    sqlite3.SQLITE_NOMEM: "there is not enough memory",
    sqlite3.SQLITE_TOOBIG: "a value is larger than SQLite can hold",
}
_UNWRITABLE: Final = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM)
_LISTS: Final = re.compile(r"\bIN :(\w+)")
READERS: Final = 4
MIN_VERSION: Final = (3, 37, 0)  # strict tables
_SETTINGS: Final = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA synchronous = FULL",
    "PRAGMA secure_delete = ON",  # overwrite deleted content
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -8192",  # KiB for each connection; larger ones are no faster
)
_PING: Final = "SELECT 1 FROM migrations LIMIT 1"
_UNREADABLE: Final = "it cannot be read to its end"
_BEGIN_WRITE: Final = "BEGIN IMMEDIATE"
_RETRY_DELAY: Final = 0.01  # seconds
_LOG_WAIT: Final = 200  # milliseconds for readers to end; other writers wait meanwhile


@contextmanager
def raise_store_errors(store: str) -> Iterator[None]:
    """Convert errors of SQLite to store errors."""
    try:
        yield
    except sqlite3.Error as error:
        raise _to_store_error(store, error) from error
    except UnicodeEncodeError as error:
        raise InvalidValue("text", f"has a lone surrogate at character {error.start}") from None


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether another connection holds the lock."""
    return _error_kind(error) in _BUSY


def _error_kind(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF  # the low byte is the primary error code


def _to_store_error(store: str, error: sqlite3.Error) -> StoreError:
    code = _error_kind(error)
    if code in _BUSY:
        return StoreUnavailable(store, "another process holds the lock; try again", retriable=True)
    if code in _CORRUPT:
        return StoreCorrupt(store, f"not a database, or a damaged one ({error}); restore a backup")
    if code in _UNAVAILABLE:
        return StoreUnavailable(store, f"{_UNAVAILABLE[code]} ({error})")
    return StoreError(store, str(error))


class SqliteDialect:
    """SQL unchanged; lists are JSON arrays."""

    name = "sqlite"
    row_lock = ""  # a writer holds the write lock of the database

    def __init__(self, tuning: Tuning) -> None:
        self.tuning = tuning
        self.text_index = SqliteTextIndex()
        self.vector_index = SqliteVectorIndex()

    def statement(self, sql: str) -> str:
        """Expand the lists of a statement."""
        return _expand_lists(sql)

    def insert(self, cursor: Cursor, sql: str, batches: Sequence[Sequence[Row]]) -> None:
        """Insert each batch with one statement. Other threads run meanwhile; one for each row would wait for them."""
        for rows in batches:
            cursor.execute(repeat_values(sql, len(rows), "?"), list(chain.from_iterable(rows)))

    def encode_list(self, values: list[Any]) -> str:
        return msgspec.json.encode(values).decode()

    def encode_terms(self, tokens: list[str]) -> list[str]:
        """Return the tokens unchanged: the newest documents of a token are counted in the stored list."""
        return tokens

    def decode_terms(self, scope: int, stored: str) -> list[str]:
        del scope
        return msgspec.json.decode(stored, type=list[str])

    def next_doc_numbers(self, session: Session, count: int) -> list[int]:
        """Return the next numbers. The write lock keeps others from taking them."""
        row = session.row("SELECT seq FROM sqlite_sequence WHERE name = 'documents' AND :tenant = :tenant")
        first = row[0] + 1 if row else 1
        return list(range(first, first + count))

    def advance_sequence(self, session: Session, table: str, number: int) -> None:
        """Do nothing: AUTOINCREMENT continues after the largest number."""

    def lock(self, session: Session, what: str) -> None:
        """Do nothing: a writer holds the write lock of the database."""

    def lock_shared(self, session: Session, what: str) -> None:
        """Do nothing: a writer holds the write lock of the database."""


@lru_cache(maxsize=512)
def _expand_lists(sql: str) -> str:
    """Return a statement that reads its lists from JSON.

    >>> _expand_lists("SELECT body FROM users WHERE id IN :ids")
    'SELECT body FROM users WHERE id IN (SELECT value FROM json_each(:ids))'
    """
    return _LISTS.sub(r"IN (SELECT value FROM json_each(:\1))", sql)


T = TypeVar("T")


Progress = Callable[[int, int], None]
"""Called with the work done so far and the total."""


class SqliteDriver:
    """Runs functions in transactions of a SQLite database. Several processes may use one file at once."""

    def __init__(self, target: Target, *, wait: float, tuning: Tuning = DEFAULT_TUNING) -> None:
        """Open nothing yet. A writer waits up to `wait` seconds for other processes."""
        self.dialect = SqliteDialect(tuning)
        self._target = target
        # Absolute: connections are opened later, when the working directory may have changed.
        self.path = str(Path(target.path).absolute()) if target.path else ""
        self._wait = wait
        self._log_has_erased = False
        self._read_only_uri = ""  # if the file can only be read
        self._open: list[sqlite3.Connection] = []
        self._idle: list[sqlite3.Connection] = []  # most recently used last
        self._writer = CallThreads(1, "brimful-write")
        # An in-memory database has only one connection.
        self._readers = self._writer if target.in_memory else CallThreads(READERS, "brimful-read")

    @property
    def read_only(self) -> bool:
        """Whether the file can be read but not written."""
        return bool(self._read_only_uri)

    @property
    def use(self) -> PoolUse:
        """How many calls are running and waiting."""
        pools = [pool.use for pool in {self._writer, self._readers}]
        return PoolUse(
            size=sum(each.size for each in pools),
            in_use=sum(each.in_use for each in pools),
            waiting=sum(each.waiting for each in pools),
        )

    async def open(self, *, migrate: bool) -> None:
        """Open the file and apply pending migrations. A file that cannot be written is opened for reading."""
        await self._on(self._writer, lambda: self._prepare(migrate=migrate))

    async def close(self) -> None:
        """Close all connections after running calls have ended."""
        for pool in {self._writer, self._readers}:
            await asyncio.to_thread(pool.shutdown)
        self._discard_connections()

    @property
    def open_connections(self) -> int:
        """The number of open connections."""
        return len(self._open)

    async def write(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a write transaction."""
        return await self._on(self._writer, lambda: self._transact(_BEGIN_WRITE, tenant, function))

    async def read(self, tenant: str, function: Callable[[Session], T]) -> T:
        return await self._on(self._readers, lambda: self._transact("BEGIN", tenant, function))

    async def read_stale(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a read transaction: a file has no replica."""
        return await self.read(tenant, function)

    async def stale(self) -> Driver:
        """Return this database."""
        return self

    def write_now(self, tenant: str, function: Callable[[Session], T]) -> T:
        return self._transact(_BEGIN_WRITE, tenant, function)

    async def ping(self) -> None:
        """Read one row of the file."""
        await self._on(self._readers, lambda: self._query(_PING))

    async def read_all(self, sql: str, **values: str | float) -> list[Row]:
        """Return the rows of a statement over all tenants."""
        return await self._on(self._readers, lambda: self._query(sql, values))

    async def inspect(self) -> list[Finding]:
        """Return problems with the file, its references and its full-text index."""
        return await self._on(self._writer, self._inspect)

    async def copy_to(self, path: Path, progress: Progress) -> None:
        """Copy the database to a file, without blocking writers."""
        await self._on(self._readers, lambda: self._copy_to_file(path, progress))

    async def copy_from(self, path: Path, progress: Progress) -> None:
        """Restore the contents of a file."""
        await self._on(self._writer, lambda: self._restore_file(path, progress))

    async def _on(self, pool: CallThreads, function: Callable[[], T]) -> T:
        with raise_if_closed(self._target.shown):
            future = asyncio.get_running_loop().run_in_executor(pool, function)
        return await future

    def _transact(self, begin: str, tenant: str, function: Callable[[Session], T]) -> T:
        with raise_store_errors(self._target.shown), self._connection() as connection:
            connection.execute(begin)
            session = Session(connection.cursor(), self.dialect, tenant)
            try:
                result = function(session)
                connection.execute("COMMIT")
            except BaseException:
                # After an error such as a full disk, SQLite may have rolled back by itself.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            if session.erases or (self._log_has_erased and begin == _BEGIN_WRITE):
                self._empty_log(connection, wait=_LOG_WAIT if session.erases else 0)
            return result

    def _empty_log(self, connection: sqlite3.Connection, *, wait: int) -> None:
        """Write the log (WAL) into the file and truncate it: it still has the pages from before, with erased texts.

        While somebody reads an older state, the log is needed; the next writes try again.
        """
        self._log_has_erased = True
        connection.execute(f"PRAGMA busy_timeout = {wait}")
        try:
            with suppress(sqlite3.OperationalError):  # such as a full disk: the write itself is durable
                is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                self._log_has_erased = bool(is_busy)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * self._wait)}")

    def _query(self, sql: str, values: Mapping[str, str | float] = {}) -> list[Row]:
        with raise_store_errors(self._target.shown), self._connection() as connection:
            return connection.execute(sql, values).fetchall()

    def _inspect(self) -> list[Finding]:
        found = [Finding("error", f"the file is damaged: {what}") for what in self._find_damage()]
        try:
            orphaned = {row[0] for row in self._query("PRAGMA foreign_key_check")}
            found += [Finding("error", f"rows of {table} belong to nothing") for table in sorted(orphaned)]
        except StoreCorrupt:
            found.append(Finding("error", "what rows refer to cannot be read"))
        if self.read_only:
            return [*found, Finding("warning", "the full-text index was not checked, since the file cannot be written")]
        try:
            self._query("INSERT INTO text_index (text_index) VALUES ('integrity-check')")
        except StoreCorrupt:
            found.append(Finding("error", "the full-text index is damaged"))
        return found

    def _find_damage(self) -> list[str]:
        """Return what SQLite reports. If the full check fails, the quick check often still works."""
        try:
            return [row[0] for row in self._query("PRAGMA integrity_check") if row[0] != "ok"]
        except StoreCorrupt:
            with suppress(StoreCorrupt):
                return [row[0] for row in self._query("PRAGMA quick_check") if row[0] != "ok"] or [_UNREADABLE]
            return [_UNREADABLE]

    def _copy_to_file(self, path: Path, progress: Progress) -> None:
        with raise_store_errors(self._target.shown), self._connection() as connection:
            connection.execute("BEGIN")  # a snapshot; otherwise every write would restart the copy
            try:
                connection.execute("SELECT count(*) FROM migrations").fetchone()
                with raise_store_errors(str(path)), closing(sqlite3.connect(path)) as copy:
                    connection.backup(copy, pages=self.dialect.tuning.backup_pages, progress=_backup_progress(progress))
            finally:
                connection.execute("ROLLBACK")

    def _restore_file(self, path: Path, progress: Progress) -> None:
        with raise_store_errors(str(path)), closing(sqlite3.connect(backup.read_only_uri(path), uri=True)) as copy:
            applied = _applied_migrations(copy)
            if not applied:
                raise StoreError(str(path), "is a database, but not a backup of a store")
            # Refuses a file written by a newer version.
            pending_migrations(self._migrations(), applied, str(path), migrate=True)
            with raise_store_errors(self._target.shown), self._connection() as connection:
                copy.backup(connection, pages=self.dialect.tuning.backup_pages, progress=_backup_progress(progress))

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Return the most recently used idle connection, or a new one."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._open_connection()
        try:
            yield connection
        finally:
            if not connection.in_transaction:  # a connection that could not end its transaction is unusable
                self._idle.append(connection)

    def _open_connection(self) -> sqlite3.Connection:
        connection = self._connect()
        self._open.append(connection)  # first: the settings of a damaged file may fail, and it must be closed
        for setting in _SETTINGS:
            connection.execute(setting)
        return connection

    def _connect(self) -> sqlite3.Connection:
        if self.path and not self.read_only:
            create_private(Path(self.path))  # SQLite gives the log and the journal the rights of the file
        return sqlite3.connect(
            self._read_only_uri or self.path or ":memory:",
            uri=self.read_only,
            timeout=self._wait,
            isolation_level=None,  # explicit transactions only
            check_same_thread=False,  # connections are closed by another thread
            cached_statements=256,
        )

    def _prepare(self, *, migrate: bool) -> None:
        if sqlite3.sqlite_version_info < MIN_VERSION:
            needed = ".".join(map(str, MIN_VERSION))
            raise MigrationError(self._target.shown, f"needs SQLite {needed}, but this is {sqlite3.sqlite_version}")
        with raise_store_errors(self._target.shown):
            try:
                self._migrate(migrate=migrate)
            except sqlite3.Error as error:
                if not self._can_only_be_read(error):
                    raise
                self._migrate(migrate=migrate)

    def _can_only_be_read(self, error: sqlite3.Error) -> bool:
        """Return whether a file that cannot be written can be read, and use it like that from now on.

        Without its log and the right to create one, SQLite reads a file only if it is declared immutable.
        """
        if _error_kind(error) not in _UNWRITABLE or not self.path or not Path(self.path).is_file():
            return False
        for options in ("mode=ro", "mode=ro&immutable=1"):
            self._discard_connections()
            self._read_only_uri = f"{Path(self.path).as_uri()}?{options}"
            with suppress(sqlite3.Error), self._connection() as connection:
                if _applied_migrations(connection):
                    return True
        self._discard_connections()
        self._read_only_uri = ""
        return False

    def _discard_connections(self) -> None:
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._idle.clear()

    def _migrate(self, *, migrate: bool) -> None:
        with self._connection() as connection:
            if not self.read_only:
                self._keep_log(connection)
            if not self._pending(connection, migrate=migrate):
                return  # no need to wait for a writer
            connection.execute(_BEGIN_WRITE)
            try:
                for script in self._pending(connection, migrate=migrate):  # checked again, under the lock
                    _apply_migration(connection, script)
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def _keep_log(self, connection: sqlite3.Connection) -> None:
        """Turn on WAL. If others open the same new file, this statement fails without waiting, so it is retried."""
        end = time.monotonic() + self._wait
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() >= end:
                    raise
                time.sleep(_RETRY_DELAY)
            else:
                return

    def _pending(self, connection: sqlite3.Connection, *, migrate: bool) -> list[Migration]:
        applied = _applied_migrations(connection)
        return pending_migrations(self._migrations(), applied, self._target.shown, migrate=migrate)

    def _migrations(self) -> Sequence[Migration]:
        return self.dialect.tuning.migrations(self.dialect.name)


def is_store_file(path: Path) -> bool:
    """Tell whether a file is a store. If it cannot be read, opening it will give the reason."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return bool(_applied_migrations(connection))
    except sqlite3.Error:
        return True


def _applied_migrations(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the checksums of applied migrations by name."""
    known = connection.execute("SELECT name FROM sqlite_schema WHERE name = 'migrations'").fetchall()
    return dict(connection.execute("SELECT name, checksum FROM migrations").fetchall()) if known else {}


def _apply_migration(connection: sqlite3.Connection, script: Migration) -> None:
    """Run a migration statement by statement: `executescript` would end the transaction."""
    for statement in script.statements:
        connection.execute(statement)
    connection.execute("INSERT INTO migrations (name, checksum) VALUES (?, ?)", (script.name, script.checksum))


def _backup_progress(progress: Progress) -> Callable[[int, int, int], None]:
    def tell(_: int, remaining: int, total: int) -> None:
        progress(total - remaining, total)

    return tell
