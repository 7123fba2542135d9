"""The keyring of a database: stores wrapped data keys, and gives every transaction its tenant's keys."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

from brimful.errors import EncryptionError, InvalidValue
from brimful.stores.encryption.keys import KEY_VARIABLE, PREVIOUS_VARIABLE, Keys, keys_from_environment
from brimful.stores.encryption.tenant_keys import ADDRESS_KEY, KeyRow, TenantKeys, new_key
from brimful.stores.session import Session

_READ: Final = """
SELECT number, wrapped, kek, created, retired, mixed FROM data_keys WHERE tenant = :tenant ORDER BY number
"""
_ADD: Final = """
INSERT INTO data_keys (tenant, number, wrapped, kek, created, mixed)
VALUES (:tenant, :number, :wrapped, :kek, :created, :mixed) ON CONFLICT DO NOTHING
"""
_UPDATE: Final = """
UPDATE data_keys SET wrapped = :wrapped, kek = :kek, mixed = :mixed WHERE tenant = :tenant AND number = :number
"""
_MAX_TENANTS: Final = 4096  # with keys in memory; then the cache is cleared
_FIRST_KEY: Final = 1  # the number of the first data key
_HAS_DATA: Final = """
SELECT 1 WHERE EXISTS (SELECT 1 FROM contents WHERE tenant = :tenant)
  OR EXISTS (SELECT 1 FROM users WHERE tenant = :tenant) OR EXISTS (SELECT 1 FROM personas WHERE tenant = :tenant)
  OR EXISTS (SELECT 1 FROM lorebooks WHERE tenant = :tenant) OR EXISTS (SELECT 1 FROM rooms WHERE tenant = :tenant)
  OR EXISTS (SELECT 1 FROM token_counts WHERE tenant = :tenant)
  OR EXISTS (SELECT 1 FROM responses WHERE tenant = :tenant)
"""


def read_keys(session: Session) -> list[KeyRow]:
    """Return the wrapped keys of a tenant, by number."""
    return [
        KeyRow(number=number, wrapped=wrapped, kek=kek, created=created, retired=retired, mixed=bool(mixed))
        for number, wrapped, kek, created, retired, mixed in session.rows(_READ)
    ]


def add_key(session: Session, row: KeyRow) -> None:
    """Save a new key. If another process was first, its key stays."""
    session.run(_ADD, number=row.number, wrapped=row.wrapped, kek=row.kek, created=row.created, mixed=int(row.mixed))


def update_key(session: Session, row: KeyRow) -> None:
    """Save a key that was wrapped again."""
    session.run(_UPDATE, number=row.number, wrapped=row.wrapped, kek=row.kek, mixed=int(row.mixed))


def retire_key(session: Session, number: int, now: float) -> None:
    """Record that a key encrypts nothing any more."""
    session.run(
        "UPDATE data_keys SET retired = :now WHERE tenant = :tenant AND number = :number", number=number, now=now
    )


T = TypeVar("T")


class Keyring:
    """Unwraps the keys of tenants when they are first needed, and caches them."""

    def __init__(self, keys: Keys | None, clock: Callable[[], float] = time.time) -> None:
        """Take keys. Without them, keys are read from the environment when the database is opened."""
        self.keys = keys
        self.clock = clock
        self._from_environment = keys is None
        self._cached: dict[str, TenantKeys] = {}

    async def open(self) -> None:
        """Read keys from the environment, unless they were given."""
        if self.keys is None:
            self.keys = await asyncio.to_thread(keys_from_environment, os.environ)

    async def reload(self) -> None:
        """Read keys from the environment again, if they came from there. They must include the key in use."""
        if not self._from_environment:
            return
        keys = await asyncio.to_thread(keys_from_environment, os.environ)
        if (keys is None) != (self.keys is None):
            raise InvalidValue(KEY_VARIABLE, "was set or unset; restart the server for that")
        if keys is None or self.keys is None:
            return
        if self.keys.id not in keys.ids:
            reason = f"replaces the key {self.keys.id} that is in use: keep that key in {PREVIOUS_VARIABLE}"
            raise InvalidValue(KEY_VARIABLE, reason)
        self.keys = keys
        self._cached.clear()

    def reading(self, function: Callable[[Session], T]) -> Callable[[Session], T]:
        """Return a function whose session has the keys to decrypt."""

        def with_keys(session: Session) -> T:
            self.admit_reader(session)
            return function(session)

        return with_keys

    def writing(self, function: Callable[[Session], T]) -> Callable[[Session], T]:
        """Return a function whose session has the newest keys to encrypt."""

        def with_keys(session: Session) -> T:
            self.admit_writer(session)
            return function(session)

        return with_keys

    def admit_reader(self, session: Session) -> None:
        """Give a read session the keys of its tenant."""
        if self.keys is not None:
            session.keys = self._cached.get(session.tenant) or self._unwrap_keys(session, self.keys, read_keys(session))

    def admit_writer(self, session: Session) -> None:
        """Give a write session the newest keys of its tenant, creating them if there are none."""
        rows = read_keys(session)
        if self.keys is None:
            if rows:
                raise missing_key_error(session.tenant)
        elif rows:
            session.keys = self._unwrap_keys(session, self.keys, rows)
        else:
            # Not cached, because the transaction may fail.
            session.keys = TenantKeys(session.tenant, self.keys, self._create_keys(session, self.keys))

    def _unwrap_keys(self, session: Session, keys: Keys, rows: list[KeyRow]) -> TenantKeys | None:
        if not rows:
            return None
        cached = self._cached.get(session.tenant)
        if cached is None or cached.rows != rows:
            if len(self._cached) >= _MAX_TENANTS:
                self._cached.clear()
            cached = self._cached[session.tenant] = TenantKeys(session.tenant, keys, rows)
        return cached

    def _create_keys(self, session: Session, keys: Keys) -> list[KeyRow]:
        mixed = session.row(_HAS_DATA) is not None
        now = self.clock()
        add_key(session, new_key(keys, session.tenant, ADDRESS_KEY, now=now, mixed=mixed))
        add_key(session, new_key(keys, session.tenant, _FIRST_KEY, now=now))
        return read_keys(session)


def missing_key_error(tenant: str) -> EncryptionError:
    """Return the error for an encrypted store without a key."""
    return EncryptionError(
        tenant, "no-key", "is encrypted, but no key was given; set BRIMFUL_KEY or BRIMFUL_KEY_COMMAND"
    )
