"""A database with one store per tenant."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from brimful.core import validation
from brimful.errors import InvalidValue, MissingExtra, StoreCorrupt, StoreError
from brimful.stores.admin import backup as _backup
from brimful.stores.backends.driver import Driver, Finding
from brimful.stores.backends.sqlite import SqliteDriver
from brimful.stores.encryption.keyring import Keyring
from brimful.stores.encryption.keys import Keys
from brimful.stores.session import Session
from brimful.stores.store import Store
from brimful.stores.tuning import DEFAULT_TUNING, Tuning
from brimful.stores.urls import Target, parse_url

if TYPE_CHECKING:
    from brimful.stores.admin.api_keys import ApiKeys
    from brimful.stores.admin.encryption import Encryption
    from brimful.stores.admin.janitor import JanitorStore


CheckCancelled = Callable[[], None]
"""Is asked now and then by the work, and ends it where nobody waits for it."""


class StoppedError(Exception):
    """Whoever waited for the work was cancelled."""


async def run_cancellable(work: Callable[[CheckCancelled], Coroutine[Any, Any, None]]) -> None:
    """Wait for work. If the waiting is cancelled, the work ends at its next question, and has tidied up by then.

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
            task.exception()  # nobody else asks for it
        raise


# What few commands need is imported where it is asked for: a start is a matter of milliseconds.


Progress = Callable[[int, int], None]
"""Is told how much is done, and of how much."""
DEFAULT_WAIT: Final = 10.0  # seconds that a writer waits for another process


def _ignore_progress(done: int, total: int) -> None:
    """Say nothing."""
    del done, total


def _with_cancellation(progress: Progress, go_on: CheckCancelled) -> Progress:
    """Return a progress that tells whether to go on, too."""

    def told(done: int, total: int) -> None:
        go_on()
        progress(done, total)

    return told


class Database:
    """A database, by its URL. Open it, take a tenant's store from it, and close it."""

    def __init__(
        self,
        url: str,
        *,
        migrate: bool = True,
        wait: float = DEFAULT_WAIT,
        keys: Keys | None = None,
        tuning: Tuning = DEFAULT_TUNING,
    ) -> None:
        """Read the URL; nothing is opened yet. Without `keys`, those of the environment encrypt, if there are any."""
        self._target: Target = parse_url(url)
        self._migrate = migrate
        self._wait = _validate_wait(wait)
        self._keyring = Keyring(keys)
        self._tuning = tuning
        self._driver: Driver = _make_driver(self._target, self._wait, self._tuning)

    def __repr__(self) -> str:
        """Show the URL without its password."""
        return f"Database({self._target.shown!r})"

    async def open(self) -> Self:
        """Open the database, and bring its tables up to date."""
        await self._keyring.open()
        try:
            await self._driver.open(migrate=self._migrate)
        except BaseException:
            failed, self._driver = (
                self._driver,
                _make_driver(self._target, self._wait, self._tuning),
            )  # so that it can be tried again
            await failed.close()
            raise
        return self

    async def close(self) -> None:
        """Let go of all connections, once what is under way has ended."""
        await self._driver.close()

    async def __aenter__(self) -> Self:
        """Open it."""
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    async def tenants(self) -> list[str]:
        """Return the names of all tenants that ever wrote something, sorted."""
        return await self._driver.tenants()

    async def check(self) -> list[Finding]:
        """Return all that is wrong: with the file, with what rows refer to, with the totals of the index."""
        from brimful.stores.admin.integrity import check_tenant  # noqa: PLC0415 - see above

        found = await self._driver.inspect()
        try:
            for tenant in await self.tenants():
                said = await self._driver.read(tenant, check_tenant)
                found += [Finding(each.level, f"{tenant}: {each.what}") for each in said]
        except StoreCorrupt:
            found.append(Finding("error", "not all records can be read; restore a backup"))
        return found

    async def backup(self, path: str | Path, progress: Progress = _ignore_progress) -> None:
        """Copy everything as it stands to a SQLite file, while others write on. The file is there when it is whole."""
        await run_cancellable(lambda go_on: self._backup(Path(path), _with_cancellation(progress, go_on), go_on))

    async def restore(self, path: str | Path, progress: Progress = _ignore_progress) -> None:
        """Take over everything of a backup; the database must be empty."""
        await run_cancellable(lambda go_on: self._restore(Path(path), _with_cancellation(progress, go_on), go_on))

    async def _backup(self, path: Path, progress: Progress, go_on: CheckCancelled) -> None:
        store = self._driver.path if isinstance(self._driver, SqliteDriver) else ""
        part = await asyncio.to_thread(_backup.begin_backup, path, store)
        try:
            if isinstance(self._driver, SqliteDriver):
                await self._driver.copy_to(part, progress)
            else:
                async with Database(f"sqlite:///{part}", keys=self._keyring.keys, tuning=self._tuning) as copy:
                    await self._copy_to(copy, progress, go_on)
            await asyncio.to_thread(_backup.finish_backup, part, path)
        except BaseException:
            await asyncio.to_thread(_backup.discard_backup, part)
            raise

    async def _restore(self, path: Path, progress: Progress, go_on: CheckCancelled) -> None:
        if await self.tenants():
            raise StoreError(self._target.shown, "is not empty; restore a backup into a new database")
        if isinstance(self._driver, SqliteDriver):
            await self._driver.copy_from(path, progress)
            await self._driver.open(migrate=True)
        else:
            # The file may be of an older version and read-only, so a copy is migrated.
            with TemporaryDirectory(prefix="brimful-") as folder:
                async with Database(
                    f"sqlite:///{folder}/copy.db", keys=self._keyring.keys, tuning=self._tuning
                ) as copy:
                    await copy._restore(path, _with_cancellation(_ignore_progress, go_on), go_on)
                    await copy._copy_to(self, progress, go_on)

    async def optimize(self) -> None:
        """Build what makes a large database quick: graphs of vectors in PostgreSQL, blocks of them in SQLite."""
        if isinstance(self._driver, SqliteDriver):
            for tenant in await self.tenants():
                await self._mend(tenant)
            return
        from brimful.stores.backends.postgres import PostgresDriver  # noqa: PLC0415 - an extra
        from brimful.stores.backends.postgres_index import large_embedders  # noqa: PLC0415 - an extra

        if isinstance(self._driver, PostgresDriver):
            for tenant in await self.tenants():
                for embedder, dims in await self._driver.read(tenant, large_embedders):
                    await self._driver.index_vectors(embedder, dims)

    async def _mend(self, tenant: str) -> None:
        from brimful.stores.vectors.blocks import list_logs, write_blocks  # noqa: PLC0415 - numpy, only where there are vectors

        for embedder, scope in await self._driver.read(tenant, list_logs):
            mending = self._keyring.writing(partial(write_blocks, embedder=embedder, scope=scope))
            while await self._driver.write(tenant, mending):
                continue

    async def _copy_to(self, other: "Database", progress: Progress, go_on: CheckCancelled) -> None:
        names = await self.tenants()
        for done, name in enumerate(names):
            take = partial(other._take, tenant=name, go_on=go_on)  # noqa: SLF001 - another one of this class
            await self._driver.read(name, self._keyring.reading(take))
            progress(done + 1, len(names))

    def _take(self, source: Session, *, tenant: str, go_on: CheckCancelled) -> None:
        """Write a tenant's rows, while its transaction holds them still elsewhere."""
        if isinstance(
            self._driver, SqliteDriver
        ):  # a file that nobody sees before it is whole: page by page, in a short log
            self._copy(source, partial(self._driver.write_now, tenant), go_on)
        else:  # a database that others see: all or nothing
            self._driver.write_now(tenant, lambda target: self._copy(source, lambda function: function(target), go_on))

    def _copy(self, source: Session, run: Callable[[Callable[[Session], None]], None], go_on: CheckCancelled) -> None:
        from brimful.stores.admin.backup import copy_tenant  # noqa: PLC0415 - see above

        def write(function: Callable[[Session], None]) -> None:
            go_on()
            run(function)

        copy_tenant(source, write, lambda function: write(self._keyring.writing(function)))

    def tenant(self, name: str) -> Store:
        """Return the store of one tenant. Nothing of another tenant can be reached through it."""
        return Store(self._driver, _validate_tenant(name), self._keyring)

    def callers(self, tenant: str) -> "ApiKeys":
        """Return the keys of those who may ask a server in a tenant's name."""
        from brimful.stores.admin.api_keys import ApiKeys  # noqa: PLC0415 - see above

        return ApiKeys(self._driver, _validate_tenant(tenant), self._keyring)

    def housekeeping(self, tenant: str) -> "JanitorStore":
        """Return what the janitor may do in one tenant's store."""
        from brimful.stores.admin.janitor import JanitorStore  # noqa: PLC0415 - see above

        return JanitorStore(self._driver, _validate_tenant(tenant), self._keyring)

    def encryption(self, tenant: str) -> "Encryption":
        """Return what can be done about the keys of one tenant."""
        from brimful.stores.admin.encryption import Encryption  # noqa: PLC0415 - see above

        return Encryption(self._driver, _validate_tenant(tenant), self._keyring)


def connect(
    url: str,
    *,
    migrate: bool = True,
    wait: float = DEFAULT_WAIT,
    keys: Keys | None = None,
    tuning: Tuning = DEFAULT_TUNING,
) -> Database:
    """Return the database that a URL names.

    It is opened by `async with connect("sqlite:///chat.db") as database`, or by `await database.open()`.
    """
    return Database(url, migrate=migrate, wait=wait, keys=keys, tuning=tuning)


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


def _make_driver(target: Target, wait: float, tuning: Tuning) -> Driver:
    if target.kind == "sqlite":
        return SqliteDriver(target, wait=wait, tuning=tuning)
    try:
        from brimful.stores.backends.postgres import PostgresDriver  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("postgres", "a PostgreSQL store") from error
    return PostgresDriver(target, wait=wait, tuning=tuning)
