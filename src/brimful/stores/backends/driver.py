"""The interface of a database backend: run a function in a transaction."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol, TypeVar

import msgspec

from brimful.errors import StoreUnavailable
from brimful.stores.session import Dialect, Row, Session

T = TypeVar("T")
Severity = Literal["error", "warning"]


class Finding(msgspec.Struct, frozen=True):
    """A problem found by a check. A store with a `warning` works; one with an `error` is damaged."""

    level: Severity
    text: str


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
