"""Manage the encryption of one tenant: list keys, rotate them, or encrypt an existing store."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import msgspec

from brimful.errors import EncryptionError
from brimful.stores.admin.rekey import REKEY_JOBS
from brimful.stores.admin.rotate_keys import OnProgress, count_rows_by_key, reencryption_jobs, run_batches
from brimful.stores.encryption.keyring import add_key, read_keys, retire_key, update_key
from brimful.stores.encryption.keys import Keys
from brimful.stores.encryption.tenant_keys import ADDRESS_KEY, KeyRow, new_key, rewrap_key
from brimful.stores.session import Session
from brimful.stores.transactions import Transactions

T = TypeVar("T")


class KeyUsage(msgspec.Struct, frozen=True, kw_only=True):
    """A key and the number of rows it encrypts. `number` is None for plain text, 0 for the address key."""

    number: int | None
    rows: int
    kek: str = ""
    created: float | None = None
    retired: float | None = None
    current: bool = False


class Encryption(Transactions):
    """The keys of a tenant. All operations work while the store is in use."""

    async def keys(self) -> list[KeyUsage]:
        """Return the keys of the tenant by number, with their rows; plain text first. This needs no key."""
        return await self._driver.read(self._tenant, _key_usage)

    async def rotate_kek(self) -> int:
        """Wrap the tenant's keys with the current key, and return how many were wrapped with another one."""
        keys = self._keys()
        return await self._write(lambda session: _rewrap(session, keys))

    async def rotate_data_key(self, on_progress: OnProgress = lambda _: None) -> int:
        """Create a new data key, re-encrypt all rows with it, and return the number of changed rows.

        An interrupted rotation is continued. Several processes may work on it together.
        """
        keys = self._keys()
        await self._write(lambda session: _add_data_key(session, keys, self._keyring.clock()))
        return await self._reencrypt(on_progress, 0)

    async def encrypt(self, on_progress: OnProgress = lambda _: None) -> int:
        """Encrypt rows that are in plain text or use an older key, and return the number of changed rows."""
        keys, done = self._keys(), 0
        if (await self._rows())[None]:
            await self._write(lambda session: _mark_mixed(session, keys, mixed=True))
        for each in REKEY_JOBS:
            done = await run_batches(self._write, each, on_progress, done)
        done = await self._reencrypt(on_progress, done)
        await self._write(lambda session: session.dialect.text_index.compact(session))
        if not (await self._rows())[None]:
            await self._write(lambda session: _mark_mixed(session, keys, mixed=False))
        return done

    async def _reencrypt(self, on_progress: OnProgress, done: int) -> int:
        """Re-encrypt rows with the current key, and retire keys that are no longer used."""
        for each in await self._write(reencryption_jobs):
            done = await run_batches(self._write, each, on_progress, done)
        rows, now = await self._rows(), self._keyring.clock()
        await self._write(lambda session: _retire(session, rows, now))
        return done

    async def _rows(self) -> Counter[int | None]:
        return await self._driver.read(self._tenant, count_rows_by_key)

    async def _write(self, function: Callable[[Session], T]) -> T:
        return await self._driver.write(self._tenant, self._keyring.writing(function))  # and adds no tenant

    def _keys(self) -> Keys:
        if self._keyring.keys is None:
            raise EncryptionError(
                self._tenant, "no-key", "no key was given; make one with: openssl rand -base64 32, and set BRIMFUL_KEY"
            )
        return self._keyring.keys


def _key_usage(session: Session) -> list[KeyUsage]:
    rows, keys = count_rows_by_key(session), read_keys(session)
    plain = [KeyUsage(number=None, rows=rows[None])] if rows[None] else []
    return plain + [
        KeyUsage(
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
    session.dialect.lock(session, "keys")
    old = [row for row in read_keys(session) if row.kek != keys.id]
    for row in old:
        update_key(session, rewrap_key(keys, session.tenant, row, mixed=row.mixed))
    return len(old)


def _add_data_key(session: Session, keys: Keys, now: float) -> None:
    """Add a key, unless an older one is still in use: then an interrupted rotation continues."""
    session.dialect.lock(session, "keys")
    rows = read_keys(session)
    if not _old_keys(rows):
        add_key(session, new_key(keys, session.tenant, rows[-1].number + 1, now=now))


def _retire(session: Session, rows: Counter[int | None], now: float) -> None:
    for row in _old_keys(read_keys(session)):
        if not rows[row.number]:
            retire_key(session, row.number, now)


def _mark_mixed(session: Session, keys: Keys, *, mixed: bool) -> None:
    """Record whether rows may be in plain text. If not, reading such a row raises an error."""
    naming = read_keys(session)[ADDRESS_KEY]
    if naming.mixed != mixed:
        update_key(session, rewrap_key(keys, session.tenant, naming, mixed=mixed))


def _old_keys(rows: list[KeyRow]) -> list[KeyRow]:
    """Return old keys that are not retired yet."""
    return [row for row in rows[:-1] if row.number != ADDRESS_KEY and row.retired is None]
