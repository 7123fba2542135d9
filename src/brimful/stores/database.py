"""A database of stores: one for each tenant."""

from types import TracebackType
from typing import Final, Self

from brimful.core import check
from brimful.errors import InvalidValue, MissingExtra
from brimful.stores.driver import Driver
from brimful.stores.encryption import Encryption
from brimful.stores.keys import Keys
from brimful.stores.sqlite import Sqlite
from brimful.stores.store import TenantStore
from brimful.stores.urls import Target, parse_url
from brimful.stores.vault import Vault

WAIT: Final = 10.0  # seconds that a writer waits for another process


class Database:
    """A database, by its URL. Open it, take a tenant's store from it, and close it."""

    def __init__(self, url: str, *, migrate: bool = True, wait: float = WAIT, keys: Keys | None = None) -> None:
        """Read the URL; nothing is opened yet. Without `keys`, those of the environment encrypt, if there are any."""
        self._target: Target = parse_url(url)
        self._migrate = migrate
        self._vault = Vault(keys)
        self._driver: Driver = _driver(self._target, wait=wait)

    def __repr__(self) -> str:
        """Show the URL without its password."""
        return f"Database({self._target.shown!r})"

    async def open(self) -> Self:
        """Open the database, and bring its tables up to date."""
        await self._vault.open()
        await self._driver.open(migrate=self._migrate)
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

    def tenant(self, name: str) -> TenantStore:
        """Return the store of one tenant. Nothing of another tenant can be reached through it."""
        return TenantStore(self._driver, _checked(name), self._vault)

    def encryption(self, tenant: str) -> Encryption:
        """Return what can be done about the keys of one tenant."""
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


def _driver(target: Target, *, wait: float) -> Driver:
    if target.kind == "sqlite":
        return Sqlite(target, wait=wait)
    try:
        from brimful.stores.postgres import Postgres  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("postgres", "a PostgreSQL store") from error
    return Postgres(target, wait=wait)
