"""The interface of a database backend: run a function in a transaction."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol, TypeVar

import msgspec

from brimful.errors import StoreUnavailable
from brimful.stores.session import Dialect, Session

T = TypeVar("T")
Severity = Literal["error", "warning"]


class Finding(msgspec.Struct, frozen=True):
    """Something that a check found. A store with a `warning` works; one with an `error` is damaged."""

    level: Severity
    what: str


@contextmanager
def raise_if_closed(store: str) -> Iterator[None]:
    """Say of a store that was closed that it was: its threads take up nothing more."""
    try:
        yield
    except RuntimeError:
        raise StoreUnavailable(store, "was closed; open it again") from None


class Driver(Protocol):
    """A database that is open."""

    @property
    def dialect(self) -> Dialect:
        """How the database wants things said."""
        ...

    async def open(self, *, migrate: bool) -> None:
        """Open it, and bring its tables up to date."""
        ...

    async def close(self) -> None:
        """Let go of all connections."""
        ...

    async def write(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a transaction. What it wrote is durable when this returns."""
        ...

    async def read(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function that reads."""
        ...

    def write_now(self, tenant: str, function: Callable[[Session], T]) -> T:
        """Run a function in a transaction, on the thread that asks."""
        ...

    async def tenants(self) -> list[str]:
        """Return the names of all tenants, sorted."""
        ...

    async def inspect(self) -> list[Finding]:
        """Return what is wrong with the database itself."""
        ...
