"""A directory of stores: tenants are divided among several databases, and can be moved from one to another.

A tenant is in the home store, unless a row in `placements` says otherwise. That row is read in the same transaction as
the tenant's data, so no process can use a store that the tenant has left, however long ago it looked.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, Literal, NamedTuple, TypeVar

from brimful.cache import LRU
from brimful.errors import StoreUnavailable
from brimful.stores.backends.driver import Driver, Finding
from brimful.stores.session import Dialect, Row, Session

State = Literal["moving", "moved", "arriving"]
"""The tenant is being copied to another store, is in another store, or is being copied from another store."""
PLACEMENT_LOCK: Final = "placement"
_MAX_TENANTS: Final = 100_000  # whose store is remembered
_PLACEMENT: Final = "SELECT store, state FROM placements WHERE tenant = :tenant"

_log = logging.getLogger("brimful.stores")

T = TypeVar("T")


class Placement(NamedTuple):
    """Where a tenant is, as one of the stores says: the other store, and its state."""

    store: str
    state: State


def get_placement(session: Session) -> Placement | None:
    """Return what a store says about a tenant that is not simply there."""
    row = session.row(_PLACEMENT)
    return None if row is None else Placement(*row)


class _ElsewhereError(Exception):
    """The tenant is in another store."""

    def __init__(self, placement: Placement) -> None:
        super().__init__(placement.store)
        self.placement = placement


class DirectoryDriver:
    """Runs functions in transactions of the store that has the tenant."""

    def __init__(self, shown: str, home: str, stores: Mapping[str, Callable[[], Driver]]) -> None:
        """Open nothing yet. `home` is the store of tenants that were never moved."""
        self.shown = shown
        self.home = home
        self._make = dict(stores)
        self._drivers: dict[str, Driver] = {}
        self._opening = {name: asyncio.Lock() for name in stores}
        self._migrate = True
        self._found: LRU[str, str] = LRU(max_entries=_MAX_TENANTS)

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect of the home store."""
        return self._drivers[self.home].dialect

    @property
    def read_only(self) -> bool:
        """Whether the home store can be read but not written."""
        return self._drivers[self.home].read_only

    @property
    def stores(self) -> list[str]:
        """The names of all stores."""
        return list(self._make)

    async def open(self, *, migrate: bool) -> None:
        """Open all stores. Only the home store has to answer: another one may be opened when it is needed."""
        self._migrate = migrate
        await self.driver(self.home)
        for name in self._make:
            try:
                await self.driver(name)
            except StoreUnavailable as error:
                _log.warning("the tenants in store %s cannot be served: %s", name, error)

    async def close(self) -> None:
        """Close all stores."""
        for driver in self._drivers.values():
            await driver.close()

    async def driver(self, store: str) -> Driver:
        """Return the open driver of a store."""
        if store not in self._make:
            raise StoreUnavailable(self.shown, f"has no store {store!r}, where a tenant is; add it again")
        async with self._opening[store]:
            if store not in self._drivers:
                driver = self._make[store]()
                try:
                    await driver.open(migrate=self._migrate)
                except BaseException:
                    await driver.close()
                    raise
                self._drivers[store] = driver
            return self._drivers[store]

    async def locate(self, tenant: str) -> str:
        """Return the name of the store that has a tenant."""
        await self.read(tenant, lambda _: None)
        return self._found.get(tenant, self.home)

    async def write(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a write transaction. While the tenant is being moved, that is refused."""

        def run(driver: Driver, source: str) -> Awaitable[T]:
            return driver.write(tenant, partial(self._write_here, function=function, source=source))

        return await self._follow(tenant, run)

    async def read(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a read transaction."""

        def run(driver: Driver, source: str) -> Awaitable[T]:
            return driver.read(tenant, lambda session: _run_here(session, function, source, get_placement(session)))

        return await self._follow(tenant, run)

    async def read_stale(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a read transaction: the stores of a directory have no replicas."""
        return await self.read(tenant, function)

    async def stale(self) -> Driver:
        """Return this driver."""
        return self

    def write_now(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a write transaction on the current thread, for a tenant that was located."""
        driver = self._drivers[self._found.get(tenant, self.home)]
        return driver.write_now(tenant, partial(self._write_here, function=function, source=""))

    async def ping(self) -> None:
        """Raise if the home store does not answer. Without another store, the tenants of all others are served."""
        await (await self.driver(self.home)).ping()

    async def read_all(self, sql: str, **values: str | float) -> list[Row]:
        """Return the rows of a statement over all tenants, from every store that answers."""
        rows: list[Row] = []
        for store in self._make:
            try:
                rows += await (await self.driver(store)).read_all(sql, **values)
            except StoreUnavailable as error:
                if store == self.home:
                    raise
                _log.warning("the tenants in store %s are left out: %s", store, error)
        return rows

    async def inspect(self) -> list[Finding]:
        """Return problems of all stores."""
        found = []
        for store in self._make:
            problems = await (await self.driver(store)).inspect()
            found += [Finding(each.level, f"store {store}: {each.text}") for each in problems]
        return found

    async def _follow(self, tenant: str, run: Callable[[Driver, str], Awaitable[T]]) -> T:
        """Run something where the tenant is. `run` gets the store that says that the tenant has moved to this one."""
        store, source = self._found.get(tenant, self.home), ""
        for _ in range(len(self._make) + 1):
            try:
                result = await run(await self.driver(store), source)
            except _ElsewhereError as elsewhere:
                source = store if elsewhere.placement.state == "moved" else ""
                store = elsewhere.placement.store
            else:
                self._found[tenant] = store
                return result
        raise StoreUnavailable(self.shown, f"tenant {tenant!r} is in none of the stores; try again", retriable=True)

    def _write_here(self, session: Session, *, function: Callable[[Session], T], source: str) -> T:
        session.dialect.lock_shared(session, PLACEMENT_LOCK)  # a move waits for all that are writing
        placement = get_placement(session)
        if placement is not None and placement.state == "moving":
            reason = (
                f"tenant {session.tenant!r} is being moved to store {placement.store!r} and can only be read; try "
                "again, or run `brimful db move` again if that was interrupted"
            )
            raise StoreUnavailable(self.shown, reason, retriable=True)
        return _run_here(session, function, source, placement)


def _run_here(session: Session, function: Callable[[Session], T], source: str, placement: Placement | None) -> T:
    """Run a function if the tenant is in this store. A tenant that has left `source` for this store has arrived."""
    is_here = placement is None or placement.state == "moving" or placement == (source, "arriving")
    if placement is not None and not is_here:
        raise _ElsewhereError(placement)
    return function(session)
