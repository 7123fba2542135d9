"""Transactions of one tenant."""

from collections.abc import Callable
from typing import TypeVar

from brimful.core import validation
from brimful.errors import InvalidValue
from brimful.stores.backends.driver import Driver
from brimful.stores.encryption.keyring import Keyring
from brimful.stores.session import Session

T = TypeVar("T")


class Transactions:
    """Runs functions in transactions of one tenant."""

    def __init__(self, driver: Driver, tenant: str, vault: Keyring) -> None:
        """Bind a database to a tenant."""
        self._driver = driver
        self._tenant = tenant
        self._vault = vault
        self._known = False

    def __repr__(self) -> str:
        """Name the tenant."""
        return f"TenantStore({self._tenant!r})"

    @property
    def tenant(self) -> str:
        """Whose store it is."""
        return self._tenant

    async def _read(self, function: Callable[[Session], T]) -> T:
        return await self._driver.read(self._tenant, self._vault.reading(function))

    async def _write(self, function: Callable[[Session], T]) -> T:
        result = await self._driver.write(self._tenant, self._vault.writing(self._named(function)))
        self._known = True
        return result

    def _named(self, function: Callable[[Session], T]) -> Callable[[Session], T]:
        """Return a function that writes down who the tenant is, once."""

        def named(session: Session) -> T:
            session.run("INSERT INTO tenants (tenant) VALUES (:tenant) ON CONFLICT DO NOTHING")
            return function(session)

        return function if self._known else named


def validate_limit(limit: int) -> int:
    """Return how many of something are wanted at most."""
    if not validation.is_whole_number(limit, 0):
        raise InvalidValue("limit", f"must be a whole number from 0, not {validation.preview(limit)}")
    return limit
