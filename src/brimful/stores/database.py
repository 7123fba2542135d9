"""A database with one store per tenant."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from brimful.core import validation
from brimful.errors import InvalidValue, MissingExtra, StoreCorrupt, StoreError
from brimful.stores.admin import backup as _backup
from brimful.stores.backends.driver import Driver, Finding, PoolUse
from brimful.stores.backends.sqlite import SqliteDriver
from brimful.stores.encryption.keyring import Keyring
from brimful.stores.encryption.keys import Keys
from brimful.stores.index.documents import list_embedders
from brimful.stores.session import Session, validate_limit
from brimful.stores.store import Store
from brimful.stores.tables.jobs import (
    ALL_JOBS,
    DUE_JOBS,
    DUE_JOBS_OF_KIND,
    FAILED_JOBS,
    FAILED_JOBS_BY_KIND,
    WAITING_JOBS,
    Job,
    JobKind,
    decode_job,
)
from brimful.stores.tuning import DEFAULT_TUNING, Tuning
from brimful.stores.urls import Target, parse_url

if TYPE_CHECKING:
    from brimful.stores.admin.api_keys import ApiKeys
    from brimful.stores.admin.encryption import Encryption
    from brimful.stores.admin.jobs import Jobs
    from brimful.stores.admin.limits import Limits
    from brimful.stores.admin.runs import JanitorStore
    from brimful.stores.admin.shared_state import SharedState
    from brimful.stores.backends.citus import Distribution
    from brimful.stores.backends.postgres import PostgresDriver


_log = logging.getLogger("brimful.stores")

CheckCancelled = Callable[[], None]
"""Raises if the caller was cancelled. Long work calls it now and then."""
_SMALL_GRAPH: Final = 0.25  # of the size from which there is a graph: one with fewer vectors is dropped
_TENANTS: Final = "SELECT tenant FROM tenants WHERE tenant > :after ORDER BY tenant LIMIT :limit"


class StoppedError(Exception):
    """The caller was cancelled."""


async def run_cancellable(work: Callable[[CheckCancelled], Coroutine[Any, Any, None]]) -> None:
    """Run work that can be cancelled: it stops at its next check, and has cleaned up when this returns.

    A thread cannot be cancelled: without this, Ctrl-C would wait for the end of a copy, however large.
    """
    stop = Event()

    def go_on() -> None:
        if stop.is_set():
            raise StoppedError

    task = asyncio.ensure_future(work(go_on))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # mark it as retrieved
        raise


# Rarely needed modules are imported on first use, to keep start-up fast.


Progress = Callable[[int, int], None]
"""Called with the work done so far and the total."""


def _ignore_progress(done: int, total: int) -> None:
    del done, total


def _with_cancellation(progress: Progress, go_on: CheckCancelled) -> Progress:
    """Return a callback that also checks for cancellation."""

    def checked_progress(done: int, total: int) -> None:
        go_on()
        progress(done, total)

    return checked_progress


class Database:
    """A database. Open it, get the stores of tenants from it, and close it."""

    def __init__(
        self,
        url: str,
        *,
        migrate: bool = True,
        wait: float | None = None,
        replica: str | None = None,
        keys: Keys | None = None,
        tuning: Tuning = DEFAULT_TUNING,
    ) -> None:
        """Parse the URL without opening anything. Without `keys`, the environment is searched for keys.

        `wait` overrides that of the URL. `replica` is the URL of a PostgreSQL server that follows the one of the store:
        statistics, exports, backups and `Store.replica` read from it.
        """
        self._target: Target = parse_url(url)
        self._migrate = migrate
        self._wait = None if wait is None else _validate_wait(wait)
        self._keyring = Keyring(keys)
        self._tuning = tuning
        self._replica = None if replica is None else _validate_replica(self._target, replica)
        self.driver: Driver = self._make_driver()

    def __repr__(self) -> str:
        """Show the URL without its password."""
        return f"Database({self._target.shown!r})"

    async def open(self) -> Self:
        """Open the database and apply pending migrations."""
        await self._keyring.open()
        try:
            await self.driver.open(migrate=self._migrate)
        except BaseException:
            failed, self.driver = self.driver, self._make_driver()  # so that it can be tried again
            await failed.close()
            raise
        return self

    async def reload_keys(self) -> None:
        """Read encryption keys from the environment again, unless they were passed in. The key in use must remain."""
        await self._keyring.reload()

    async def close(self) -> None:
        """Close all connections after running calls have ended."""
        await self.driver.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def read_only(self) -> bool:
        """Whether it can be read but not written, such as a file on a read-only disk."""
        return self.driver.read_only

    @property
    def use(self) -> PoolUse:
        """How many calls are running and waiting for a connection."""
        return self.driver.use

    async def ping(self) -> None:
        """Raise `StoreUnavailable` if the database does not answer. Tenants are not read."""
        await self.driver.ping()

    async def tenants(self, *, after: str = "", limit: int = 1_000) -> list[str]:
        """Return the names of tenants with data that come after `after`, in order of name."""
        rows = await self.driver.read_all(_TENANTS, after=after, limit=validate_limit(limit))
        return [name for (name,) in rows]

    async def has_tenant(self, name: str) -> bool:
        """Return whether a tenant has data."""
        return await self.driver.read(_validate_tenant(name), _is_registered)

    async def all_tenants(self) -> AsyncIterator[str]:
        """Yield the names of all tenants with data, in order of name. They are read in pages."""
        after = ""
        while page := await self.tenants(after=after):
            for name in page:
                yield name
            after = page[-1]

    async def due_jobs(self, kind: JobKind, subject: str | None = "", *, now: float, limit: int = 100) -> list[Job]:
        """Return jobs of all tenants that can be claimed now, the longest due first. None is any subject."""
        chosen: dict[str, str | float] = {"kind": kind, "now": now, "limit": validate_limit(limit)}
        if subject is None:
            rows = await self.driver.read_all(DUE_JOBS_OF_KIND, **chosen)
        else:
            rows = await self.driver.read_all(DUE_JOBS, subject=subject, **chosen)
        return list(map(decode_job, rows))

    async def count_jobs(self, *, now: float, failed: bool = False) -> dict[JobKind, int]:
        """Return the number of jobs of all tenants by kind: those due now, or with `failed`, those that failed last."""
        rows = self.driver.read_all(FAILED_JOBS_BY_KIND) if failed else self.driver.read_all(WAITING_JOBS, now=now)
        return dict(await rows)

    async def list_jobs(self, *, failed: bool = False, limit: int = 100) -> list[Job]:
        """Return jobs of all tenants in the order in which they are due; with `failed`, those whose last try failed."""
        sql = FAILED_JOBS if failed else ALL_JOBS
        return list(map(decode_job, await self.driver.read_all(sql, limit=validate_limit(limit))))

    async def check(self) -> list[Finding]:
        """Return problems with the file, with references between rows, and with the totals of the index."""
        from brimful.stores.admin.integrity import check_tenant  # noqa: PLC0415 - see above

        found = await self.driver.inspect()
        try:
            async for tenant in self.all_tenants():
                problems = await self.driver.read(tenant, check_tenant)
                found += [Finding(each.level, f"{tenant}: {each.text}") for each in problems]
        except StoreCorrupt:
            found.append(Finding("error", "not all records can be read; restore a backup"))
        return found

    async def backup(self, path: str | Path, progress: Progress = _ignore_progress, *, force: bool = False) -> None:
        """Copy everything to a SQLite file, without blocking writers. The file appears when it is complete.

        Raises `StoreCorrupt` if the store is damaged; with `force`, it is copied as it is.
        """
        await run_cancellable(
            lambda go_on: self._backup(Path(path), _with_cancellation(progress, go_on), go_on, force=force)
        )

    async def restore(self, path: str | Path, progress: Progress = _ignore_progress) -> None:
        """Restore a backup. The database must be empty."""
        await run_cancellable(lambda go_on: self._restore(Path(path), _with_cancellation(progress, go_on), go_on))

    def _make_driver(self) -> Driver:
        target = self._target
        wait = target.wait if self._wait is None else self._wait
        if target.kind == "sqlite":
            return SqliteDriver(target, wait=wait, tuning=self._tuning)
        try:
            from brimful.stores.backends.postgres import PostgresDriver, make_replica  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtra("postgres", "a PostgreSQL store") from error
        replica = None if self._replica is None else make_replica(self._replica, self._tuning)
        return PostgresDriver(target, wait=wait, tuning=self._tuning, replica=replica)

    async def _backup(self, path: Path, progress: Progress, go_on: CheckCancelled, *, force: bool) -> None:
        source = await self.driver.stale()
        try:
            await self._backup_from(source, path, progress, go_on, force=force)
        except StoreError as error:
            if source is self.driver:
                raise
            _log.warning("the backup starts again on the primary, because the replica failed: %s", error)
            await self._backup_from(self.driver, path, progress, go_on, force=force)

    async def _backup_from(
        self, source: Driver, path: Path, progress: Progress, go_on: CheckCancelled, *, force: bool
    ) -> None:
        store = self.driver.path if isinstance(self.driver, SqliteDriver) else ""
        part = await asyncio.to_thread(_backup.begin_backup, path, store, now=time.time())
        try:
            if isinstance(self.driver, SqliteDriver):
                await self.driver.copy_to(part, progress)
            else:
                async with Database(f"sqlite:///{part}", keys=self._keyring.keys, tuning=self._tuning) as copy:
                    await self._copy_to(copy, progress, go_on, source)
            await asyncio.to_thread(_backup.finish_backup, part, path, force=force)
        except BaseException:
            await asyncio.to_thread(_backup.discard_backup, part)
            raise

    async def _restore(self, path: Path, progress: Progress, go_on: CheckCancelled) -> None:
        if await self.tenants(limit=1):
            raise StoreError(
                self._target.shown,
                "is not empty; restore a backup into a new database. If an earlier restore into this one was "
                "interrupted, drop it, create it again, and restore again",
            )
        if isinstance(self.driver, SqliteDriver):
            await self.driver.copy_from(path, progress)
            await self.driver.open(migrate=True)
        else:
            # The file may be of an older version and read-only, so a copy is migrated.
            with TemporaryDirectory(prefix="brimful-") as folder:
                async with Database(
                    f"sqlite:///{folder}/copy.db", keys=self._keyring.keys, tuning=self._tuning
                ) as copy:
                    await copy._restore(path, _with_cancellation(_ignore_progress, go_on), go_on)
                    await copy._copy_to(self, progress, go_on, copy.driver)

    async def optimize(self) -> None:
        """Build what speeds up large databases: HNSW indexes in PostgreSQL, vector blocks in SQLite."""
        if isinstance(self.driver, SqliteDriver):
            async for tenant in self.all_tenants():
                await self._write_missing_blocks(tenant)
            return
        async for tenant in self.all_tenants():
            for embedder in await self.driver.read(tenant, list_embedders):
                await self.update_graph(tenant, embedder)

    async def update_graph(self, tenant: str, embedder: str) -> float:
        """Build or drop a tenant's HNSW graph in PostgreSQL, according to its size, without blocking writers.

        Returns the size as a share of the size from which there is a graph, at most a little more than 1.
        """
        from brimful.stores.backends.postgres_index import graph_size  # noqa: PLC0415 - an extra

        driver = self._postgres()
        size = await driver.read(tenant, lambda session: graph_size(session, embedder))
        if size.dims is not None and size.vectors > size.threshold:
            await driver.build_graph(tenant, embedder, size.dims)
        elif size.vectors < size.threshold * _SMALL_GRAPH:
            await driver.drop_graph(tenant, embedder)
        return size.vectors / size.threshold

    async def distribute(self, progress: Progress = _ignore_progress, *, shards: int | None = None) -> "Distribution":
        """Distribute the tables of a PostgreSQL database by tenant over the servers of a Citus cluster.

        Tables that are distributed already stay as they are. Without `shards`, there are `citus.shard_count` of them.
        """
        if shards is not None and not validation.is_whole_number(shards, 1):
            raise InvalidValue("shards", f"must be a whole number from 1, not {validation.preview(shards)}")
        driver, done = self._postgres(), []

        async def work(go_on: CheckCancelled) -> None:
            done.append(await driver.distribute(shards, _with_cancellation(progress, go_on)))

        await run_cancellable(work)
        return done[0]

    async def isolate(self, tenant: str) -> bool:
        """Move a tenant of a Citus cluster to a shard of its own, while it is used. Return False if it has one."""
        return await self._postgres().isolate(_validate_tenant(tenant))

    def _postgres(self) -> "PostgresDriver":
        from brimful.stores.backends.postgres import PostgresDriver  # noqa: PLC0415 - an extra

        if isinstance(self.driver, PostgresDriver):
            return self.driver
        raise StoreError(self._target.shown, "a SQLite file cannot be distributed; use PostgreSQL with Citus")

    async def _write_missing_blocks(self, tenant: str) -> None:
        from brimful.stores.vectors.blocks import list_logs, write_blocks  # noqa: PLC0415 - numpy, only where there are vectors

        for embedder, scope in await self.driver.read(tenant, list_logs):
            write = self._keyring.writing(partial(write_blocks, embedder=embedder, scope=scope))
            while await self.driver.write(tenant, write):
                continue

    async def _copy_to(self, other: "Database", progress: Progress, go_on: CheckCancelled, source: Driver) -> None:
        total = 0
        async for _ in self.all_tenants():
            total += 1
        done = 0
        async for name in self.all_tenants():
            take = partial(other._take, tenant=name, go_on=go_on)  # noqa: SLF001 - another one of this class
            await source.read(name, self._keyring.reading(take))
            done += 1
            progress(done, max(done, total))  # a tenant may have come meanwhile

    def _take(self, source: Session, *, tenant: str, go_on: CheckCancelled) -> None:
        """Write the rows of a tenant that are read in another transaction."""
        if isinstance(
            self.driver, SqliteDriver
        ):  # a file that nobody sees before it is complete: one transaction per page
            self._copy(source, partial(self.driver.write_now, tenant), go_on)
        else:  # a database that others use: one transaction
            self.driver.write_now(tenant, lambda target: self._copy(source, lambda function: function(target), go_on))

    def _copy(self, source: Session, run: Callable[[Callable[[Session], None]], None], go_on: CheckCancelled) -> None:
        from brimful.stores.admin.backup import copy_tenant  # noqa: PLC0415 - see above

        def write(function: Callable[[Session], None]) -> None:
            go_on()
            run(function)

        copy_tenant(source, write, lambda function: write(self._keyring.writing(function)))

    def tenant(self, name: str) -> Store:
        return Store(self.driver, _validate_tenant(name), self._keyring)

    def api_keys(self, tenant: str) -> "ApiKeys":
        from brimful.stores.admin.api_keys import ApiKeys  # noqa: PLC0415 - see above

        return ApiKeys(self.driver, _validate_tenant(tenant), self._keyring)

    def jobs(self, tenant: str) -> "Jobs":
        from brimful.stores.admin.jobs import Jobs  # noqa: PLC0415 - see above

        return Jobs(self.driver, _validate_tenant(tenant), self._keyring)

    def limits(self, tenant: str) -> "Limits":
        """Return the limits of one tenant's API keys and users."""
        from brimful.stores.admin.limits import Limits  # noqa: PLC0415 - see above

        return Limits(self.driver, _validate_tenant(tenant), self._keyring)

    def janitor(self, tenant: str) -> "JanitorStore":
        """Return the janitor's operations on the store of one tenant."""
        from brimful.stores.admin.runs import JanitorStore  # noqa: PLC0415 - see above

        return JanitorStore(self.driver, _validate_tenant(tenant), self._keyring)

    def shared_state(self, tenant: str) -> "SharedState":
        """Return what the servers of one tenant share."""
        from brimful.stores.admin.shared_state import SharedState  # noqa: PLC0415 - see above

        return SharedState(self.driver, _validate_tenant(tenant), self._keyring)

    def encryption(self, tenant: str) -> "Encryption":
        """Return the key management of one tenant."""
        from brimful.stores.admin.encryption import Encryption  # noqa: PLC0415 - see above

        return Encryption(self.driver, _validate_tenant(tenant), self._keyring)


def connect(
    url: str,
    *,
    migrate: bool = True,
    wait: float | None = None,
    replica: str | None = None,
    keys: Keys | None = None,
    tuning: Tuning = DEFAULT_TUNING,
) -> Database:
    """Return the database of a URL.

    Open it with `async with connect("sqlite:///chat.db") as database` or `await database.open()`.
    """
    return Database(url, migrate=migrate, wait=wait, replica=replica, keys=keys, tuning=tuning)


def _is_registered(session: Session) -> bool:
    return session.row("SELECT 1 FROM tenants WHERE tenant = :tenant") is not None


def _validate_tenant(tenant: str) -> str:
    validation.require_id("tenant", tenant, InvalidValue)
    if "\0" in tenant:
        raise InvalidValue("tenant", "must not contain a null character")
    return tenant


def _validate_wait(wait: object) -> float:
    seconds = validation.to_finite_float(wait)
    if seconds is None or seconds < 0:
        raise InvalidValue("wait", f"must be a number of seconds from 0, not {validation.preview(wait)}")
    return seconds


def _validate_replica(target: Target, url: str) -> Target:
    try:
        replica = parse_url(url)
    except InvalidValue as error:
        raise InvalidValue("replica", error.reason) from None
    if target.kind != "postgres" or replica.kind != "postgres":
        raise InvalidValue("replica", "must be the URL of a PostgreSQL server, and so must that of the store")
    return replica
