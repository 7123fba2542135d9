"""What a database must do for a store: run a function in a transaction."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from brimful.stores.session import Session

T = TypeVar("T")


class Driver(Protocol):
    """A database that is open."""

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
