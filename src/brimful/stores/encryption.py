"""The keys of one tenant, and what is done about them: a look, a rotation, or sealing a store that was in the clear."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import msgspec

from brimful.errors import SealError
from brimful.stores.driver import Driver
from brimful.stores.key_rows import add_key, key_rows, retire_key, wrap_key
from brimful.stores.keys import Keys
from brimful.stores.readdressing import WALKS
from brimful.stores.resealing import reseals, rows_by_key
from brimful.stores.session import Session
from brimful.stores.settling import settle_some
from brimful.stores.tenant_keys import NAMING, KeyRow, new_row, rewrapped
from brimful.stores.vault import Vault
from brimful.stores.walking import Told, walk

T = TypeVar("T")


class KeyUse(msgspec.Struct, frozen=True, kw_only=True):
    """A key and how many rows it seals. `number` is None for what is in the clear, 0 for the secret of addresses."""

    number: int | None
    rows: int
    kek: str = ""
    created: float | None = None
    retired: float | None = None
    current: bool = False


class Encryption:
    """What can be done about a tenant's keys while its store is in use."""

    def __init__(self, driver: Driver, tenant: str, vault: Vault) -> None:
        """Bind a database to a tenant."""
        self._driver = driver
        self._tenant = tenant
        self._vault = vault

    def __repr__(self) -> str:
        """Name the tenant."""
        return f"Encryption({self._tenant!r})"

    async def keys(self) -> list[KeyUse]:
        """Return the tenant's keys by number, with their rows; what is in the clear comes first. It takes no key."""
        return await self._driver.read(self._tenant, _uses)

    async def rotate_kek(self) -> int:
        """Wrap the tenant's keys with the current key from outside; return how many others had wrapped."""
        keys = self._keys()
        return await self._write(lambda session: _rewrap(session, keys))

    async def rotate_data_key(self, told: Told = lambda _: None) -> int:
        """Seal with a new key from now on, and all rows anew; return how many rows were changed.

        A rotation that was interrupted is finished; whoever joins in helps.
        """
        keys = self._keys()
        await self._write(lambda session: _renew(session, keys, self._vault.clock()))
        return await self._reseal(told, 0)

    async def encrypt(self, told: Told = lambda _: None) -> int:
        """Seal all that is in the clear, or sealed by an older key; return how many rows were changed."""
        keys, done = self._keys(), 0
        if (await self._rows())[None]:
            await self._write(lambda session: _mark(session, keys, mixed=True))
        for each in WALKS:
            done = await walk(self._write, each, told, done)
        done = await self._reseal(told, done)
        await self._write(lambda session: session.dialect.lexicon.purge(session))
        if not (await self._rows())[None]:
            await self._write(lambda session: _mark(session, keys, mixed=False))
        return done

    async def _reseal(self, told: Told, done: int) -> int:
        """Seal what the current key did not seal, and retire the keys that seal nothing any more."""
        while await self._write(settle_some):  # an older version of Brimful kept digests in the clear
            continue
        for each in await self._write(reseals):
            done = await walk(self._write, each, told, done)
        rows, now = await self._rows(), self._vault.clock()
        await self._write(lambda session: _retire(session, rows, now))
        return done

    async def _rows(self) -> Counter[int | None]:
        return await self._driver.read(self._tenant, rows_by_key)

    async def _write(self, function: Callable[[Session], T]) -> T:
        return await self._driver.write(self._tenant, self._vault.writing(function))

    def _keys(self) -> Keys:
        if self._vault.keys is None:
            raise SealError(
                self._tenant, "no-key", "no key is given; make one with: openssl rand -base64 32, and set BRIMFUL_KEY"
            )
        return self._vault.keys


def _uses(session: Session) -> list[KeyUse]:
    rows, keys = rows_by_key(session), key_rows(session)
    clear = [KeyUse(number=None, rows=rows[None])] if rows[None] else []
    return clear + [
        KeyUse(
            number=key.number,
            rows=rows[key.number],
            kek=key.kek,
            created=key.created,
            retired=key.retired,
            current=key is keys[-1],
        )
        for key in keys
    ]


def _rewrap(session: Session, keys: Keys) -> int:
    session.dialect.alone(session, "keys")
    old = [row for row in key_rows(session) if row.kek != keys.id]
    for row in old:
        wrap_key(session, rewrapped(keys, session.tenant, row, mixed=row.mixed))
    return len(old)


def _renew(session: Session, keys: Keys, now: float) -> None:
    """Make a new key, unless an older one is still in use: then a rotation was begun, and is not finished."""
    session.dialect.alone(session, "keys")
    rows = key_rows(session)
    if not _superseded(rows):
        add_key(session, new_row(keys, session.tenant, rows[-1].number + 1, now=now))


def _retire(session: Session, rows: Counter[int | None], now: float) -> None:
    for row in _superseded(key_rows(session)):
        if not rows[row.number]:
            retire_key(session, row.number, now)


def _mark(session: Session, keys: Keys, *, mixed: bool) -> None:
    """Note whether rows may be in the clear: where none may be, one that is found in the clear is refused."""
    naming = key_rows(session)[NAMING]
    if naming.mixed != mixed:
        wrap_key(session, rewrapped(keys, session.tenant, naming, mixed=mixed))


def _superseded(rows: list[KeyRow]) -> list[KeyRow]:
    """Return keys that seal no longer, and may still open something."""
    return [row for row in rows[:-1] if row.number != NAMING and row.retired is None]
