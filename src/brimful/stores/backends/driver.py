"""The interface of a database backend: run a function in a transaction."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any, Literal, ParamSpec, Protocol, TypeVar

import msgspec

from brimful.errors import StoreUnavailable
from brimful.stores.session import Dialect, Row, Session

P = ParamSpec("P")
T = TypeVar("T")
Severity = Literal["error", "warning"]


class Finding(msgspec.Struct, frozen=True):
    """A problem found by a check. A store with a `warning` works; one with an `error` is damaged."""

    level: Severity
    text: str


class PoolUse(msgspec.Struct, frozen=True):
    """How many calls a database can run at a time, how many are running, and how many wait."""

    size: int
    in_use: int
    waiting: int


class CallThreads(ThreadPoolExecutor):
    """Threads with a connection each, which count their calls."""

    def __init__(self, size: int, name: str) -> None:
        super().__init__(size, name)
        self._size = size
        self._calls = 0
        self._lock = Lock()

    @property
    def use(self) -> PoolUse:
        """How many calls are running and waiting."""
        calls = self._calls
        return PoolUse(size=self._size, in_use=min(calls, self._size), waiting=max(0, calls - self._size))

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function in one of the threads."""
        future = super().submit(fn, *args, **kwargs)
        self._count(1)
        future.add_done_callback(self._end)
        return future

    def _end(self, future: Future[Any]) -> None:
        del future
        self._count(-1)

    def _count(self, change: int) -> None:
        with self._lock:
            self._calls += change


@contextmanager
def raise_if_closed(store: str) -> Iterator[None]:
    """Raise `StoreUnavailable` if the store was closed: its threads accept no more work."""
    try:
        yield
    except RuntimeError:
        raise StoreUnavailable(store, "was closed; open it again") from None


class Driver(Protocol):
    """An open database."""

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect."""

    @property
    def read_only(self) -> bool:
        """Whether it can be read but not written."""

    @property
    def use(self) -> PoolUse:
        """How many calls are running and waiting."""

    async def open(self, *, migrate: bool) -> None:
        """Open it and apply pending migrations."""

    async def close(self) -> None:
        """Close all connections."""

    async def write(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a write transaction, which is durable when this returns."""

    async def read(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a read transaction."""

    async def read_stale(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a read transaction that may miss the newest writes."""

    async def stale(self) -> "Driver":
        """Return the database for a long read that may miss the newest writes: a replica, or this one."""

    def write_now(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a write transaction on the current thread."""

    async def ping(self) -> None:
        """Raise if the database does not answer. This reads nothing that grows."""

    async def read_all(self, sql: str, **values: str | float) -> list[Row]:
        """Return the rows of a statement over all tenants. It may read the tables `tenants` and `jobs` only."""

    async def inspect(self) -> list[Finding]:
        """Return problems of the database itself."""
