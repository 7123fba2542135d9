"""PostgreSQL backend: a connection pool, with each call on a worker thread.

Row-level security binds every transaction to its tenant on the server as well.
"""

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from itertools import chain
from typing import Any, Final, TypeVar, cast

import psycopg
from psycopg import errors, pq, sql
from psycopg_pool import ConnectionPool, PoolTimeout, TooManyRequests

from brimful.errors import InvalidValue, MigrationError, StoreCorrupt, StoreError, StoreUnavailable
from brimful.stores.backends import citus
from brimful.stores.backends.driver import CallThreads, Driver, Finding, PoolUse, raise_if_closed
from brimful.stores.backends.postgres_index import PostgresVectorIndex
from brimful.stores.backends.postgres_text_index import PostgresTextIndex
from brimful.stores.backends.replica import Replica
from brimful.stores.index.terms import bare_terms, pack_terms, unpack_terms
from brimful.stores.migrations import pending_migrations
from brimful.stores.session import Cursor as AnyCursor
from brimful.stores.session import Row, Session, repeat_values
from brimful.stores.tuning import DEFAULT_TUNING, Tuning
from brimful.stores.urls import Target

RETRYABLE: Final = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation)
"""Conflicts between transactions. The loser is retried, and sees what the other one wrote."""

_LOST: Final = "the connection is lost; call again: records that are written twice are stored once"
_UNREACHABLE: Final = "cannot be reached; check the address, the user and the password, and that the server runs"
_LOGIN_REFUSED: Final = ("authentication failed", "pg_hba.conf", "no password supplied", "does not exist")
"""In messages about a login that will not succeed later, either. libpq does not give their codes."""
_UNAVAILABLE: Final = (
    ((errors.DiskFull,), "the server's disk is full; make room and try again"),
    ((errors.InsufficientPrivilege,), "the role may not do this; grant it what it needs"),
    ((errors.ReadOnlySqlTransaction,), "the server can only be read: it is a replica, or set so; use the primary"),
)
_BUSY_REASON: Final = (
    "is too busy, or out of reach; try again, or allow more seconds to wait for a connection in the URL: ?wait=30"
)
_MAY_NOT_CREATE_VECTOR: Final = (
    "needs the extension vector, which this role may not create; as a superuser, run CREATE EXTENSION vector in this "
    "database once"
)
_TOO_LONG: Final = "an id, or the ids that a record names, are too long for the server's index; give shorter ones"
_MISSING_FEATURE: Final = (errors.FeatureNotSupported, errors.UndefinedFile)
_VECTOR: Final = 'extension "vector"'
_NO_VECTOR: Final = (MigrationError, "pgvector must be installed on the server")
_NOT_SUPPORTED: Final = (StoreError, "the server does not support a statement")
_NO_LOGIN: Final = "a role must be able to log in on every server of a cluster; run ALTER ROLE … LOGIN"
_CORRUPT: Final = (errors.DataCorrupted, errors.IndexCorrupted)
_BUSY: Final = (PoolTimeout, TooManyRequests, errors.TooManyConnections, errors.LockNotAvailable)
_LISTS: Final = re.compile(r"\bIN (:\w+)")
_NAMES: Final = re.compile(r"(?<![:\w]):(\w+)")
_NEXT: Final = """
SELECT nextval(pg_get_serial_sequence('documents', 'doc')) FROM generate_series(1, :count) WHERE :tenant::text <> ''
"""
_ADVANCE: Final = """
SELECT setval(s.name, greatest(:number::bigint, coalesce(pg_sequence_last_value(s.name), 1)))
FROM (SELECT pg_get_serial_sequence(:table, :column)::regclass AS name) s WHERE :tenant::text <> ''
"""
PREPARE_AFTER: Final = 5  # runs of a statement
ATTEMPTS: Final = 10  # of a transaction that conflicts with others
RECONNECT_AFTER: Final = 1.0  # seconds between attempts to connect to a server that is down
ROLE: Final = "brimful_app"
_IS_TENANT: Final = "SELECT tenant FROM tenants WHERE tenant = :tenant"
_PROBE: Final = "brimful"  # a tenant, which need not exist
_MIGRATION_LOCK: Final = 0x6272696D  # one process migrates at a time
# Settings end with their transaction, because a pooler gives the next one another session. By SET LOCAL and not by
# set_config(): Citus sends only the former on to the servers that hold the rows.
_BEGIN_READ: Final = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "SET LOCAL hnsw.iterative_scan = strict_order",
    "SET LOCAL hnsw.ef_search = 200",  # neighbours that a search in a graph compares; 40 find less
)
_BEGIN_WRITE: Final = (
    "BEGIN ISOLATION LEVEL READ COMMITTED",
    "SET LOCAL synchronous_commit = on",  # a commit returns when it is on the server's disk
)
# The best index depends on the values: one scope or a hundred, an embedder with or without an HNSW index.
_PLAN_EACH: Final = "SET LOCAL plan_cache_mode = force_custom_plan"  # also of a prepared statement
_ACT_AS_ROLE: Final = f"SET LOCAL ROLE {ROLE}"
_SET_TENANT: Final = "SET LOCAL brimful.tenant = "
_SET_NAMES: Final = "SET LOCAL brimful.names = 'all'"
# A pooler tells clients a number of its own, since their transactions run in several sessions.
_IS_DIRECT: Final = "SELECT pg_backend_pid() = {}"
_BYPASSES: Final = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
# Roles exist for all databases of a server. If another role created the tables, this one has no rights on them.
_CAN_USE_ROLE: Final = f"""
SELECT pg_has_role(oid, 'SET') AND has_table_privilege(oid, to_regclass('messages'), 'INSERT')
FROM pg_roles WHERE rolname = '{ROLE}'
"""  # noqa: S608 - our own role
# In Citus, a plain role may not create the extension, even if it exists.
_CREATE_VECTOR: Final = "CREATE EXTENSION IF NOT EXISTS vector"
_HAS_VECTOR: Final = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector')"
# One graph for each large tenant: in a graph of all tenants, most neighbours would belong to others.
_CREATE_GRAPH: Final = """
CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON vectors
USING hnsw ((vector::halfvec({dims})) halfvec_ip_ops) WHERE tenant = {tenant} AND embedder = {embedder}
"""
_DROP_GRAPH: Final = "DROP INDEX CONCURRENTLY IF EXISTS {name}"
# A build that was interrupted leaves an invalid index. One that is running is invalid as well, but is listed.
_GRAPH_STATE: Final = """
SELECT indisvalid, EXISTS (SELECT FROM pg_stat_progress_create_index WHERE index_relid = indexrelid)
FROM pg_index WHERE indexrelid = to_regclass(%s)
"""


@contextmanager
def raise_store_errors(store: str) -> Iterator[None]:
    """Convert errors of PostgreSQL to store errors."""
    try:
        yield
    except (psycopg.Error, PoolTimeout, TooManyRequests) as error:
        raise _to_store_error(store, error) from error
    except UnicodeEncodeError as error:
        raise InvalidValue("text", f"has a lone surrogate at character {error.start}") from None


def unreachable_error(store: str, error: psycopg.OperationalError) -> StoreUnavailable:
    """Return the error for a server that cannot be reached. It may be starting, unless it answered about the login."""
    message = _one_line(error)
    refuses_login = any(words in message for words in _LOGIN_REFUSED)
    return StoreUnavailable(store, f"{_UNREACHABLE} ({message})", retriable=not refuses_login)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _to_store_error(store: str, error: Exception) -> StoreError:
    message = _one_line(error)
    for kinds, reason in _UNAVAILABLE:
        if isinstance(error, kinds):
            what = _MAY_NOT_CREATE_VECTOR if _VECTOR in message else reason
            return StoreUnavailable(store, f"{what} ({message})")
    if isinstance(error, _MISSING_FEATURE):
        kind, reason = _NO_VECTOR if _VECTOR in message else _NOT_SUPPORTED
        return kind(store, f"{reason} ({message})")
    if isinstance(error, _CORRUPT):
        return StoreCorrupt(store, f"the database is damaged ({message}); restore a backup")
    if isinstance(error, _BUSY):
        return StoreUnavailable(store, _BUSY_REASON, retriable=True)
    if isinstance(error, psycopg.OperationalError) and not isinstance(error, errors.ProgramLimitExceeded):
        may_log_in = citus.NO_LOGIN not in message
        return StoreUnavailable(store, f"{_LOST if may_log_in else _NO_LOGIN} ({message})", retriable=may_log_in)
    return StoreError(store, f"{_TOO_LONG} ({message})" if isinstance(error, errors.ProgramLimitExceeded) else message)


class PostgresDialect:
    """psycopg's parameter style; lists are arrays."""

    name = "postgres"
    row_lock = " FOR NO KEY UPDATE"

    def __init__(self, tuning: Tuning) -> None:
        self.tuning = tuning
        self.text_index = PostgresTextIndex()
        self.vector_index = PostgresVectorIndex()

    def statement(self, sql: str) -> str:
        """Translate parameters and lists for psycopg."""
        return _translate(sql)

    def insert(self, cursor: AnyCursor, sql: str, batches: Sequence[Sequence[Row]]) -> None:
        """Insert each batch with one statement: one for each row takes several times as long.

        While the server inserts a batch, the next one is encoded.
        """
        connection = cast("Cursor", cursor).connection
        with connection.pipeline() if len(batches) > 1 else nullcontext():
            for rows in batches:
                prepare = None if len(rows) == 1 else False  # a statement for each number of rows would be prepared
                values = list(chain.from_iterable(rows))
                psycopg.RawCursor(connection).execute(repeat_values(sql, len(rows), "$"), values, prepare=prepare)

    def encode_list(self, values: list[Any]) -> str:
        """Return an array literal, of whatever type the statement expects: psycopg takes many times as long."""
        return format_array(values)

    def encode_terms(self, tokens: list[str]) -> list[str]:
        """Return the terms as one element, without their scope: a list of tokens takes twice the space."""
        return [pack_terms(bare_terms(tokens))] if tokens else []

    def decode_terms(self, scope: int, stored: list[str]) -> list[str]:
        return [f"{scope:x}:{term}" for packed in stored for term in unpack_terms(packed)]

    def next_doc_numbers(self, session: Session, count: int) -> list[int]:
        """Reserve document numbers from the sequence."""
        return [number for (number,) in session.rows(_NEXT, count=count)]

    def advance_sequence(self, session: Session, table: str, number: int) -> None:
        """Advance a sequence, never backwards."""
        session.rows(_ADVANCE, table=table, column="doc" if table == "documents" else "number", number=number)

    def lock(self, session: Session, what: str) -> None:
        """Take an exclusive advisory lock."""
        session.rows("SELECT pg_advisory_xact_lock(hashtextextended(:what || ' ' || :tenant, 0))", what=what)

    def lock_shared(self, session: Session, what: str) -> None:
        """Take a shared advisory lock."""
        session.rows("SELECT pg_advisory_xact_lock_shared(hashtextextended(:what || ' ' || :tenant, 0))", what=what)


def format_array(values: Sequence[str] | Sequence[int]) -> str:
    r"""Return an array in PostgreSQL's text format.

    >>> print(format_array(["a", 'b "c"', "\\", "", "NULL"]), format_array([1, 2]), format_array([]))
    {"a","b \"c\"","\\","","NULL"} {1,2} {}
    """
    elements = [each for each in values if isinstance(each, str)]
    if not elements:
        return f"{{{','.join(map(str, values))}}}"
    joined = "".join(elements)
    if '"' in joined or "\\" in joined:
        elements = [each.replace("\\", r"\\").replace('"', r"\"") for each in elements]
    quoted = '","'.join(elements)
    return f'{{"{quoted}"}}'


@lru_cache(maxsize=512)
def _translate(sql: str) -> str:
    """Translate a statement for psycopg.

    >>> _translate("SELECT body FROM users WHERE tenant = :tenant AND id IN :ids AND x::text LIKE 'a%'")
    "SELECT body FROM users WHERE tenant = %(tenant)s AND id = ANY(%(ids)s) AND x::text LIKE 'a%%'"
    """
    return _NAMES.sub(r"%(\1)s", _LISTS.sub(r"= ANY(\1)", sql.replace("%", "%%")))


T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]
Cursor = psycopg.Cursor[tuple[Any, ...]]


# Without a logging setup, psycopg would print every lost connection, which our errors report already.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class PostgresDriver:
    """Runs functions in transactions of a PostgreSQL database."""

    def __init__(
        self, target: Target, *, wait: float, tuning: Tuning = DEFAULT_TUNING, replica: Replica | None = None
    ) -> None:
        """Open no connection yet. A call waits up to `wait` seconds for one."""
        self.dialect = PostgresDialect(tuning)
        self._target = target
        self._wait = wait
        self._replica = replica
        self._settings: tuple[str, ...] = ()
        self._prepares = False
        self._one_by_one = False
        self._acts_as_role = False
        self._bound = True
        self._read_only = False
        # As many threads as connections: a call waits for a thread, however long, and then has a connection.
        self._threads = CallThreads(target.connections, "brimful-postgres")
        self._pool = ConnectionPool(
            target.connection_url,
            kwargs={"connect_timeout": max(1, round(wait)), "autocommit": True},
            min_size=1,
            max_size=target.connections,
            open=False,
            timeout=wait,
            reconnect_timeout=RECONNECT_AFTER,
            configure=self._configure,
        )

    @property
    def read_only(self) -> bool:
        """Return whether the server is a replica."""
        return self._read_only

    @property
    def use(self) -> PoolUse:
        """How many calls are running and waiting."""
        return self._threads.use

    async def open(self, *, migrate: bool) -> None:
        """Connect and apply pending migrations."""
        await self._on(lambda: self._prepare(migrate=migrate))

    async def close(self) -> None:
        """Close all connections after running calls have ended."""
        if self._replica is not None:
            await self._replica.close()
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self._pool.close)

    async def write(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a write transaction, and retry it after a conflict."""
        return await self._on(lambda: self._attempt(tenant, function, reads=False))

    async def read(self, tenant: str, function: Callable[[Session], T]) -> T:
        return await self._on(lambda: self._attempt(tenant, function, reads=True))

    async def read_stale(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a read transaction of the replica, if there is one."""
        return await (self._replica.read(self, tenant, function) if self._replica else self.read(tenant, function))

    async def stale(self) -> Driver:
        """Return the replica, if there is one that can be used."""
        return await self._replica.choose(self) if self._replica else self

    def write_now(self, tenant: str, function: Callable[[Session], T]) -> T:
        return self._attempt(tenant, function, reads=False)

    async def ping(self) -> None:
        """Ask the server, and on a cluster only its coordinator."""
        await self._on(self._ping)

    async def read_all(self, sql: str, **values: str | float) -> list[Row]:
        """Return the rows of a statement over all tenants. Row-level security allows it for two tables."""
        return await self._on(lambda: self._read_all(sql, values))

    async def inspect(self) -> list[Finding]:
        """Warn if row-level security is not enforced. The server checks everything else itself."""
        if self._bound:
            return []
        return [Finding("warning", f"the role bypasses row-level security and may not act as {ROLE}; use a plain role")]

    async def distribute(self, shards: int | None, progress: Callable[[int, int], None]) -> citus.Distribution:
        """Distribute the tables over the servers of a Citus cluster."""
        return await self._on(lambda: self._distribute(shards, progress))

    async def isolate(self, tenant: str) -> bool:
        """Move a tenant to a shard of its own, in a Citus cluster. Return False if it has one."""
        return await self._on(lambda: self._isolate(tenant))

    async def build_graph(self, tenant: str, embedder: str, dims: int) -> bool:
        """Build an HNSW graph of a tenant's vectors, without blocking writers. Returns False if there is one."""
        return await self._on(lambda: self._build_graph(tenant, embedder, dims))

    async def drop_graph(self, tenant: str, embedder: str) -> bool:
        """Drop the HNSW graph of a tenant's vectors, without blocking writers. Returns False if there is none."""
        return await self._on(lambda: self._drop_graph(tenant, embedder))

    async def _on(self, function: Callable[[], T]) -> T:
        with raise_if_closed(self._target.shown):
            future = asyncio.get_running_loop().run_in_executor(self._threads, function)
        return await future

    def _configure(self, connection: Connection) -> None:
        connection.prepare_threshold = PREPARE_AFTER if self._prepares else None

    def _attempt(self, tenant: str, function: Callable[[Session], T], *, reads: bool) -> T:
        until = time.monotonic() + self._wait
        with raise_store_errors(self._target.shown):
            for _ in range(ATTEMPTS - 1):
                try:
                    return self._transact(tenant, function, reads=reads)
                except RETRYABLE:
                    continue
                except _StaleConnectionError:
                    if time.monotonic() > until:  # a pooler accepts connections while the server is down
                        raise
                    self._pool.check()
            return self._transact(tenant, function, reads=reads)

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """Borrow a connection.

        The pool would double its pause after every failed attempt, and serve nobody for minutes after an outage. So it
        gives up early, and every call makes it connect again at once.
        """
        until = time.monotonic() + self._wait
        while True:
            left = until - time.monotonic()
            try:
                connection = self._pool.getconn(min(left, RECONNECT_AFTER))
                break
            except PoolTimeout:
                if left <= RECONNECT_AFTER:
                    raise
        try:
            with connection:
                yield connection
        finally:
            self._pool.putconn(connection)

    def _transact(self, tenant: str, function: Callable[[Session], T], *, reads: bool) -> T:
        with self._connection() as connection:
            cursor = connection.cursor()
            begin = _BEGIN_READ if reads else _BEGIN_WRITE
            try:
                self._begin(cursor, *begin, *self._settings, _SET_TENANT + sql.quote(tenant, connection))
            except psycopg.OperationalError as error:
                raise _StaleConnectionError(str(error)) from error
            cursor.format = pq.Format.BINARY  # bytes are half as long as in text
            return function(Session(cursor, self.dialect, tenant))

    def _begin(self, cursor: Cursor, *statements: str) -> None:
        """Begin a transaction in one round trip.

        Citus sends the whole text of a query on with each setting, so it gets one query for each. This takes more
        processor time than one query for all.
        """
        if not self._one_by_one:
            cursor.execute("; ".join(statements))
            return
        with cursor.connection.pipeline():
            for statement in statements:
                cursor.execute(statement)

    def _prepare(self, *, migrate: bool) -> None:
        with raise_store_errors(self._target.shown):
            with self._connect() as connection:
                citus.require_coordinator(connection, self._target.shown)
                self._migrate(connection, migrate=migrate)
                bypasses, may_act = citus.is_true(connection, _BYPASSES), citus.is_true(connection, _CAN_USE_ROLE)
                direct = citus.is_true(connection, _IS_DIRECT.format(connection.info.backend_pid))
                self._prepares = direct if self._target.prepare is None else self._target.prepare
                self._acts_as_role = bypasses and may_act
                self._one_by_one = citus.is_installed(connection)
                is_distributed = citus.is_distributed(connection)
                self._settings = (
                    *((citus.PROPAGATE,) if self._one_by_one else ()),
                    *((_ACT_AS_ROLE,) if self._acts_as_role else ()),
                    *((_PLAN_EACH,) if self._prepares else ()),
                )
                self._bound = may_act or not bypasses
                self._read_only = citus.is_true(connection, "SELECT pg_is_in_recovery()")
            self._pool.open(wait=True, timeout=self._wait)
            if is_distributed:
                self._check_cluster()

    def _check_cluster(self) -> None:
        """Raise if workers would not know the tenant: row-level security would hide every row from it."""
        try:
            found = self._transact(_PROBE, lambda session: session.rows(citus.READ_BACK), reads=True)
        except psycopg.OperationalError as error:
            if citus.NO_LOGIN in str(error):
                raise
            return  # a worker that is down is no reason not to serve the tenants of the others
        if found[0][1] != _PROBE:
            raise StoreError(self._target.shown, citus.NOT_PROPAGATED)

    def _distribute(self, shards: int | None, progress: Callable[[int, int], None]) -> citus.Distribution:
        with raise_store_errors(self._target.shown):
            with self._connect() as connection:
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
                done = citus.distribute_tables(connection, self._target.shown, shards=shards, progress=progress)
                if self._acts_as_role:
                    citus.allow_login(connection, ROLE)
            self._check_cluster()
            return done

    def _isolate(self, tenant: str) -> bool:
        with raise_store_errors(self._target.shown), self._connect() as connection:
            if not self._transact(tenant, lambda session: session.rows(_IS_TENANT), reads=True):
                raise StoreError(self._target.shown, f"has no tenant {tenant!r}")
            connection.autocommit = True
            may_copy = citus.is_true(connection, _BYPASSES)
            return citus.isolate_tenant(connection, self._target.shown, tenant, may_copy=may_copy)

    def _connect(self) -> Connection:
        try:
            return psycopg.connect(
                self._target.connection_url(), connect_timeout=max(1, round(self._wait)), prepare_threshold=None
            )
        except psycopg.OperationalError as error:
            raise unreachable_error(self._target.shown, error) from error

    def _ping(self) -> None:
        with raise_store_errors(self._target.shown), self._connection() as connection:
            connection.execute("SELECT 1")

    def _read_all(self, sql: str, values: Mapping[str, str | float]) -> list[Row]:
        with raise_store_errors(self._target.shown), self._connection() as connection:
            cursor = connection.cursor()
            self._begin(cursor, _BEGIN_READ[0], *self._settings, _SET_NAMES)
            return cursor.execute(self.dialect.statement(sql).encode(), values).fetchall()

    def _build_graph(self, tenant: str, embedder: str, dims: int) -> bool:
        name = _graph_name(tenant, embedder)
        with (
            raise_store_errors(self._target.shown),
            psycopg.connect(self._target.connection_url(), autocommit=True) as connection,
        ):
            valid, building = connection.execute(_GRAPH_STATE, (name,)).fetchone() or (None, False)
            if valid or building:
                return False
            if valid is not None:
                connection.execute(sql.SQL(_DROP_GRAPH).format(name=sql.Identifier(name)))
            connection.execute(
                sql.SQL(_CREATE_GRAPH).format(
                    name=sql.Identifier(name), dims=sql.Literal(dims), tenant=tenant, embedder=embedder
                )
            )
        return True

    def _drop_graph(self, tenant: str, embedder: str) -> bool:
        name = _graph_name(tenant, embedder)
        with (
            raise_store_errors(self._target.shown),
            psycopg.connect(self._target.connection_url(), autocommit=True) as connection,
        ):
            known = connection.execute(_GRAPH_STATE, (name,)).fetchone()
            if known is not None:
                connection.execute(sql.SQL(_DROP_GRAPH).format(name=sql.Identifier(name)))
        return known is not None

    def _migrate(self, connection: Connection, *, migrate: bool) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
        known = citus.is_true(connection, "SELECT to_regclass('migrations') IS NOT NULL")
        rows = connection.execute("SELECT name, checksum FROM migrations").fetchall() if known else []
        has_vector = citus.is_true(connection, _HAS_VECTOR)
        migrations = self.dialect.tuning.migrations(self.dialect.name)
        pending = pending_migrations(migrations, dict(rows), self._target.shown, migrate=migrate)
        is_distributed = bool(pending) and citus.is_distributed(connection)
        if is_distributed:
            connection.execute(citus.SEQUENTIAL)
        for script in pending:
            for statement in script.statements:  # Citus forwards the whole text of a query to the workers
                if not (has_vector and statement.endswith(_CREATE_VECTOR)):
                    connection.execute(statement.encode())
            connection.execute(
                "INSERT INTO migrations (name, checksum) VALUES (%s, %s)", (script.name, script.checksum)
            )
        if is_distributed:  # tables that are new
            citus.distribute_tables(connection, self._target.shown)


def make_replica(target: Target, tuning: Tuning) -> Replica:
    """Return a replica, which is not opened yet."""
    return Replica(
        lambda: PostgresDriver(target, wait=target.wait, tuning=tuning), target.shown, max_lag=target.max_lag
    )


class _StaleConnectionError(psycopg.OperationalError):
    """A connection was lost before its first statement."""


def _graph_name(tenant: str, embedder: str) -> str:
    digest = hashlib.blake2b(f"{tenant}\0{embedder}".encode(), digest_size=8)
    return f"vectors_near_{digest.hexdigest()}"
