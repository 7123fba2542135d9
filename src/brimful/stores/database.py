"""A database of stores: one for each tenant."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from brimful.core import check
from brimful.errors import InvalidValue, MissingExtra, StoreCorrupt, StoreError
from brimful.stores import backup_file
from brimful.stores.driver import Driver, Finding
from brimful.stores.keys import Keys
from brimful.stores.session import Session
from brimful.stores.sqlite import Sqlite
from brimful.stores.stopping import GoOn, stoppable
from brimful.stores.store import TenantStore
from brimful.stores.urls import Target, parse_url
from brimful.stores.vault import Vault

# What few commands need is imported where it is asked for: a start is a matter of milliseconds.
if TYPE_CHECKING:
    from brimful.stores.callers import Callers
    from brimful.stores.encryption import Encryption
    from brimful.stores.housekeeping import TenantHousekeeping

Progress = Callable[[int, int], None]
"""Is told how much is done, and of how much."""
WAIT: Final = 10.0  # seconds that a writer waits for another process


def _silent(done: int, total: int) -> None:
    """Say nothing."""
    del done, total


def _checking(progress: Progress, go_on: GoOn) -> Progress:
    """Return a progress that tells whether to go on, too."""

    def told(done: int, total: int) -> None:
        go_on()
        progress(done, total)

    return told


class Database:
    """A database, by its URL. Open it, take a tenant's store from it, and close it."""

    def __init__(self, url: str, *, migrate: bool = True, wait: float = WAIT, keys: Keys | None = None) -> None:
        """Read the URL; nothing is opened yet. Without `keys`, those of the environment encrypt, if there are any."""
        self._target: Target = parse_url(url)
        self._migrate = migrate
        self._wait = _seconds(wait)
        self._vault = Vault(keys)
        self._driver: Driver = _driver(self._target, wait=self._wait)

    def __repr__(self) -> str:
        """Show the URL without its password."""
        return f"Database({self._target.shown!r})"

    async def open(self) -> Self:
        """Open the database, and bring its tables up to date."""
        await self._vault.open()
        try:
            await self._driver.open(migrate=self._migrate)
        except BaseException:
            failed, self._driver = self._driver, _driver(self._target, wait=self._wait)  # so that it can be tried again
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
        from brimful.stores.checking import checked  # noqa: PLC0415 - see above

        found = await self._driver.inspect()
        try:
            for tenant in await self.tenants():
                said = await self._driver.read(tenant, checked)
                found += [Finding(each.level, f"{tenant}: {each.what}") for each in said]
        except StoreCorrupt:
            found.append(Finding("error", "not all records can be read; restore a backup"))
        return found

    async def backup(self, path: str | Path, progress: Progress = _silent) -> None:
        """Copy everything as it stands to a SQLite file, while others write on. The file is there when it is whole."""
        await stoppable(lambda go_on: self._backup(Path(path), _checking(progress, go_on), go_on))

    async def restore(self, path: str | Path, progress: Progress = _silent) -> None:
        """Take over everything of a backup; the database must be empty."""
        await stoppable(lambda go_on: self._restore(Path(path), _checking(progress, go_on), go_on))

    async def _backup(self, path: Path, progress: Progress, go_on: GoOn) -> None:
        store = self._driver.path if isinstance(self._driver, Sqlite) else ""
        part = await asyncio.to_thread(backup_file.begin, path, store)
        try:
            if isinstance(self._driver, Sqlite):
                await self._driver.copy_to(part, progress)
            else:
                async with Database(f"sqlite:///{part}", keys=self._vault.keys) as copy:
                    await self._copy_to(copy, progress, go_on)
            await asyncio.to_thread(backup_file.finish, part, path)
        except BaseException:
            await asyncio.to_thread(backup_file.give_up, part)
            raise

    async def _restore(self, path: Path, progress: Progress, go_on: GoOn) -> None:
        if await self.tenants():
            raise StoreError(self._target.shown, "is not empty; restore a backup into a new database")
        if isinstance(self._driver, Sqlite):
            await self._driver.copy_from(path, progress)
            await self._driver.open(migrate=True)
        else:
            # Not from the file itself: it may be of an older version, and stand where nothing may be written.
            with TemporaryDirectory(prefix="brimful-") as folder:
                async with Database(f"sqlite:///{folder}/copy.db", keys=self._vault.keys) as copy:
                    await copy._restore(path, _checking(_silent, go_on), go_on)
                    await copy._copy_to(self, progress, go_on)

    async def optimize(self) -> None:
        """Build what makes a large database quick: graphs of vectors in PostgreSQL, blocks of them in SQLite."""
        if isinstance(self._driver, Sqlite):
            for tenant in await self.tenants():
                await self._mend(tenant)
            return
        from brimful.stores.postgres import Postgres  # noqa: PLC0415 - an extra
        from brimful.stores.postgres_nearness import large  # noqa: PLC0415 - an extra

        if isinstance(self._driver, Postgres):
            for tenant in await self.tenants():
                for embedder, dims in await self._driver.read(tenant, large):
                    await self._driver.index_vectors(embedder, dims)

    async def _mend(self, tenant: str) -> None:
        from brimful.stores.vector_log import logs, mend  # noqa: PLC0415 - numpy, only where there are vectors

        for embedder, scope in await self._driver.read(tenant, logs):
            mending = self._vault.writing(partial(mend, embedder=embedder, scope=scope))
            while await self._driver.write(tenant, mending):
                continue

    async def _copy_to(self, other: "Database", progress: Progress, go_on: GoOn) -> None:
        names = await self.tenants()
        for done, name in enumerate(names):
            take = partial(other._take, tenant=name, go_on=go_on)  # noqa: SLF001 - another one of this class
            await self._driver.read(name, self._vault.reading(take))
            progress(done + 1, len(names))

    def _take(self, source: Session, *, tenant: str, go_on: GoOn) -> None:
        """Write a tenant's rows, while its transaction holds them still elsewhere."""
        if isinstance(self._driver, Sqlite):  # a file that nobody sees before it is whole: page by page, in a short log
            self._copy(source, partial(self._driver.write_now, tenant), go_on)
        else:  # a database that others see: all or nothing
            self._driver.write_now(tenant, lambda target: self._copy(source, lambda function: function(target), go_on))

    def _copy(self, source: Session, run: Callable[[Callable[[Session], None]], None], go_on: GoOn) -> None:
        from brimful.stores.copying import copy_tenant  # noqa: PLC0415 - see above

        def write(function: Callable[[Session], None]) -> None:
            go_on()
            run(function)

        copy_tenant(source, write, lambda function: write(self._vault.writing(function)))

    def tenant(self, name: str) -> TenantStore:
        """Return the store of one tenant. Nothing of another tenant can be reached through it."""
        return TenantStore(self._driver, _checked(name), self._vault)

    def callers(self, tenant: str) -> "Callers":
        """Return the keys of those who may ask a server in a tenant's name."""
        from brimful.stores.callers import Callers  # noqa: PLC0415 - see above

        return Callers(self._driver, _checked(tenant), self._vault)

    def housekeeping(self, tenant: str) -> "TenantHousekeeping":
        """Return what the janitor may do in one tenant's store."""
        from brimful.stores.housekeeping import TenantHousekeeping  # noqa: PLC0415 - see above

        return TenantHousekeeping(self._driver, _checked(tenant), self._vault)

    def encryption(self, tenant: str) -> "Encryption":
        """Return what can be done about the keys of one tenant."""
        from brimful.stores.encryption import Encryption  # noqa: PLC0415 - see above

        return Encryption(self._driver, _checked(tenant), self._vault)


def connect(url: str, *, migrate: bool = True, wait: float = WAIT, keys: Keys | None = None) -> Database:
    """Return the database that a URL names.

    It is opened by `async with connect("sqlite:///chat.db") as database`, or by `await database.open()`.
    """
    return Database(url, migrate=migrate, wait=wait, keys=keys)


def _checked(tenant: str) -> str:
    check.identifier("tenant", tenant, InvalidValue)
    if "\0" in tenant:
        raise InvalidValue("tenant", "has a null character, which no name may have")
    return tenant


def _seconds(wait: object) -> float:
    seconds = check.finite(wait)
    if seconds is None or seconds < 0:
        raise InvalidValue("wait", f"must be a number of seconds from 0, not {check.shown(wait)}")
    return seconds


def _driver(target: Target, *, wait: float) -> Driver:
    if target.kind == "sqlite":
        return Sqlite(target, wait=wait)
    try:
        from brimful.stores.postgres import Postgres  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("postgres", "a PostgreSQL store") from error
    return Postgres(target, wait=wait)
