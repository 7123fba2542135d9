"""The keyring of a database: stores wrapped data keys, and gives every transaction those of its tenant."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

from brimful.errors import EncryptionError
from brimful.stores.encryption.keys import Keys, keys_from_environment
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


def read_keys(session: Session) -> list[KeyRow]:
    """Return a tenant's keys, wrapped, by number."""
    return [
        KeyRow(number=number, wrapped=wrapped, kek=kek, created=created, retired=retired, mixed=bool(mixed))
        for number, wrapped, kek, created, retired, mixed in session.rows(_READ)
    ]


def add_key(session: Session, row: KeyRow) -> None:
    """Keep a new key; if another process was first, its key stands."""
    session.run(_ADD, number=row.number, wrapped=row.wrapped, kek=row.kek, created=row.created, mixed=int(row.mixed))


def update_key(session: Session, row: KeyRow) -> None:
    """Keep a key that was wrapped anew."""
    session.run(_UPDATE, number=row.number, wrapped=row.wrapped, kek=row.kek, mixed=int(row.mixed))


def retire_key(session: Session, number: int, now: float) -> None:
    """Note that nothing is sealed with a key any more."""
    session.run(
        "UPDATE data_keys SET retired = :now WHERE tenant = :tenant AND number = :number", number=number, now=now
    )


T = TypeVar("T")

_MAX_TENANTS: Final = 4096  # whose keys are held open; then all are opened anew, as they are needed
_FIRST_KEY: Final = 1  # the number of the first key that seals
_HAS_DATA: Final = """
SELECT 1 WHERE EXISTS (SELECT 1 FROM contents WHERE tenant = :tenant)
  OR EXISTS (SELECT 1 FROM users WHERE tenant = :tenant) OR EXISTS (SELECT 1 FROM personas WHERE tenant = :tenant)
  OR EXISTS (SELECT 1 FROM lorebooks WHERE tenant = :tenant) OR EXISTS (SELECT 1 FROM rooms WHERE tenant = :tenant)
  OR EXISTS (SELECT 1 FROM token_counts WHERE tenant = :tenant)
  OR EXISTS (SELECT 1 FROM responses WHERE tenant = :tenant)
"""


class Keyring:
    """Opens a tenant's keys when they are first needed, and holds them."""

    def __init__(self, keys: Keys | None, clock: Callable[[], float] = time.time) -> None:
        """Take keys, or those of the environment, which are looked for when the database is opened."""
        self.keys = keys
        self.clock = clock
        self._held: dict[str, TenantKeys] = {}

    async def open(self) -> None:
        """Get keys from the environment, unless they were given."""
        if self.keys is None:
            self.keys = await asyncio.to_thread(keys_from_environment, os.environ)

    def reading(self, function: Callable[[Session], T]) -> Callable[[Session], T]:
        """Return a function whose transaction can read what is sealed."""

        def admitted(session: Session) -> T:
            self.admit_reader(session)
            return function(session)

        return admitted

    def writing(self, function: Callable[[Session], T]) -> Callable[[Session], T]:
        """Return a function whose transaction seals what it writes."""

        def admitted(session: Session) -> T:
            self.admit_writer(session)
            return function(session)

        return admitted

    def admit_reader(self, session: Session) -> None:
        """Give a transaction that reads the keys of its tenant."""
        if self.keys is not None:
            session.keys = self._held.get(session.tenant) or self._opened(session, self.keys, read_keys(session))

    def admit_writer(self, session: Session) -> None:
        """Give a transaction that writes the newest keys of its tenant, which are made where there are none."""
        rows = read_keys(session)
        if self.keys is None:
            if rows:
                raise missing_key_error(session.tenant)
        elif rows:
            session.keys = self._opened(session, self.keys, rows)
        else:
            # Not held: should the transaction fail, there never were such keys.
            session.keys = TenantKeys(session.tenant, self.keys, self._made(session, self.keys))

    def _opened(self, session: Session, keys: Keys, rows: list[KeyRow]) -> TenantKeys | None:
        if not rows:
            return None
        held = self._held.get(session.tenant)
        if held is None or held.rows != rows:
            if len(self._held) >= _MAX_TENANTS:
                self._held.clear()
            held = self._held[session.tenant] = TenantKeys(session.tenant, keys, rows)
        return held

    def _made(self, session: Session, keys: Keys) -> list[KeyRow]:
        mixed = session.row(_HAS_DATA) is not None
        now = self.clock()
        add_key(session, new_key(keys, session.tenant, ADDRESS_KEY, now=now, mixed=mixed))
        add_key(session, new_key(keys, session.tenant, _FIRST_KEY, now=now))
        return read_keys(session)


def missing_key_error(tenant: str) -> EncryptionError:
    """Return what to say where something is sealed and no key is given."""
    return EncryptionError(
        tenant, "no-key", "is encrypted, and no key is given; set BRIMFUL_KEY or BRIMFUL_KEY_COMMAND"
    )
