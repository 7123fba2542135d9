"""PostgreSQL: a pool of connections, each call on a thread. The server, too, binds every transaction to its tenant."""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import psycopg
from psycopg import IsolationLevel, sql
from psycopg_pool import ConnectionPool

from brimful.stores.driver import Finding, while_open
from brimful.stores.migrate import pending_scripts
from brimful.stores.postgres_dialect import PostgresDialect
from brimful.stores.postgres_errors import AGAIN, told, unreachable
from brimful.stores.session import Session
from brimful.stores.urls import Target

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

CONNECTIONS: Final = 8
ATTEMPTS: Final = 10  # of a transaction that meets others
ROLE: Final = "brimful_app"
_MIGRATING: Final = 0x6272696D  # one process migrates at a time
_BIND: Final = "SELECT set_config('brimful.tenant', %s, true)"
_BIND_AS: Final = f"SELECT set_config('role', '{ROLE}', true), set_config('brimful.tenant', %s, true)"
_BYPASSES: Final = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
# The role is there for all databases of a server. Where another one made the tables, it has no rights on them.
_MAY_ACT: Final = f"""
SELECT pg_has_role(oid, 'SET') AND has_table_privilege(oid, to_regclass('messages'), 'INSERT')
FROM pg_roles WHERE rolname = '{ROLE}'
"""  # noqa: S608 - our own role
_SETTINGS: Final = (
    # Which index is right depends on the values: one scope or a hundred, an embedder with a graph or without.
    "SET plan_cache_mode = force_custom_plan",
    "SET hnsw.iterative_scan = strict_order",
    "SET synchronous_commit = on",  # what was acknowledged is on the server's disk
)

# Where nobody set up a log, it would print each lost connection, which our errors tell.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())

_GRAPH: Final = """
CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON vectors
USING hnsw ((vector::halfvec({dims})) halfvec_ip_ops) WHERE embedder = {embedder}
"""


class Postgres:
    """Runs functions in transactions of a PostgreSQL database."""

    def __init__(self, target: Target, *, wait: float) -> None:
        """Take up no connection yet. `wait` is how many seconds a call waits for one."""
        self.dialect = PostgresDialect()
        self._target = target
        self._wait = wait
        self._bind = _BIND
        self._bound = True
        self._threads = ThreadPoolExecutor(CONNECTIONS, "brimful-postgres")
        self._pool = ConnectionPool(
            target.url,
            kwargs={"connect_timeout": max(1, round(wait)), "autocommit": False},
            min_size=1,
            max_size=CONNECTIONS,
            open=False,
            timeout=wait,
            configure=_configure,
        )

    async def open(self, *, migrate: bool) -> None:
        """Connect, and bring the tables up to date."""
        await self._on(lambda: self._prepare(migrate=migrate))

    async def close(self) -> None:
        """Close all connections, once what is under way has ended."""
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self._pool.close)

    async def write(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a transaction; again, if it met another one."""
        return await self._on(lambda: self._attempt(tenant, function, reads=False))

    async def read(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function on one state of the database."""
        return await self._on(lambda: self._attempt(tenant, function, reads=True))

    def write_now(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a transaction, on the thread that asks."""
        return self._attempt(tenant, function, reads=False)

    async def tenants(self) -> list[str]:
        """Return the names of all tenants, sorted."""
        return await self._on(self._named)

    async def inspect(self) -> list[Finding]:
        """Say where the server does not keep tenants apart; all else of the database is the server's to keep right."""
        if self._bound:
            return []
        return [Finding("warning", f"the role bypasses row-level security and may not act as {ROLE}; use a plain role")]

    async def index_vectors(self, embedder: str, dims: int) -> None:
        """Build a graph of an embedder's vectors, while others write on."""
        await self._on(lambda: self._graphed(embedder, dims))

    async def _on(self, function: Callable[[], T]) -> T:
        with while_open(self._target.shown):
            future = asyncio.get_running_loop().run_in_executor(self._threads, function)
        return await future

    def _attempt(self, tenant: str, function: Callable[[Session], T], *, reads: bool) -> T:
        with told(self._target.shown):
            for _ in range(ATTEMPTS - 1):
                try:
                    return self._transact(tenant, function, reads=reads)
                except AGAIN:
                    continue
                except _Stale:
                    self._pool.check()
            return self._transact(tenant, function, reads=reads)

    def _transact(self, tenant: str, function: Callable[[Session], T], *, reads: bool) -> T:
        with self._pool.connection() as connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ if reads else IsolationLevel.READ_COMMITTED
            connection.read_only = reads
            cursor = connection.cursor()
            try:
                cursor.execute(self._bind, (tenant,))
            except psycopg.OperationalError as error:
                raise _Stale(str(error)) from error
            return function(Session(cursor, self.dialect, tenant))

    def _prepare(self, *, migrate: bool) -> None:
        with told(self._target.shown):
            with self._connected() as connection:
                self._migrate(connection, migrate=migrate)
                bypasses, may_act = _first(connection, _BYPASSES), _first(connection, _MAY_ACT)
                self._bind = _BIND_AS if bypasses and may_act else _BIND
                self._bound = may_act or not bypasses
            self._pool.open(wait=True, timeout=self._wait)

    def _connected(self) -> Connection:
        try:
            return psycopg.connect(self._target.url, connect_timeout=max(1, round(self._wait)))
        except psycopg.OperationalError as error:
            raise unreachable(self._target.shown, error) from error

    def _named(self) -> list[str]:
        with told(self._target.shown), self._pool.connection() as connection:
            connection.execute("SELECT set_config('brimful.names', 'all', true)")
            return [name for (name,) in connection.execute("SELECT tenant FROM tenants ORDER BY tenant")]

    def _graphed(self, embedder: str, dims: int) -> None:
        name = f"vectors_near_{hashlib.blake2b(embedder.encode(), digest_size=8).hexdigest()}"
        statement = sql.SQL(_GRAPH).format(name=sql.Identifier(name), dims=sql.Literal(dims), embedder=embedder)
        with told(self._target.shown), psycopg.connect(self._target.url, autocommit=True) as connection:
            connection.execute(statement)

    def _migrate(self, connection: Connection, *, migrate: bool) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
        known = _first(connection, "SELECT to_regclass('migrations') IS NOT NULL")
        rows = connection.execute("SELECT name, checksum FROM migrations").fetchall() if known else []
        for script in pending_scripts(self.dialect.name, dict(rows), self._target.shown, migrate=migrate):
            connection.execute(script.text.encode())
            connection.execute(
                "INSERT INTO migrations (name, checksum) VALUES (%s, %s)", (script.name, script.checksum)
            )


class _Stale(psycopg.OperationalError):
    """A connection was lost before anything was asked of it."""


def _configure(connection: Connection) -> None:
    for setting in _SETTINGS:
        connection.execute(setting.encode())
    connection.commit()


def _first(connection: Connection, statement: str) -> bool:
    row = connection.execute(statement.encode()).fetchone()
    return bool(row and row[0])
