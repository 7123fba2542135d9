"""The keys of a database: every transaction gets those of its tenant."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

from brimful.errors import SealError
from brimful.stores.key_rows import add_key, key_rows
from brimful.stores.key_source import keys_in
from brimful.stores.keys import Keys
from brimful.stores.session import Session
from brimful.stores.tenant_keys import NAMING, KeyRow, TenantKeys, new_row

T = TypeVar("T")

_MOST_TENANTS: Final = 4096  # whose keys are held open; then all are opened anew, as they are needed
_FIRST: Final = 1  # the number of the first key that seals
_ANYTHING: Final = """
SELECT 1 WHERE EXISTS (SELECT 1 FROM contents WHERE tenant = :tenant)
  OR EXISTS (SELECT 1 FROM users WHERE tenant = :tenant) OR EXISTS (SELECT 1 FROM personas WHERE tenant = :tenant)
  OR EXISTS (SELECT 1 FROM lorebooks WHERE tenant = :tenant) OR EXISTS (SELECT 1 FROM rooms WHERE tenant = :tenant)
  OR EXISTS (SELECT 1 FROM counts WHERE tenant = :tenant) OR EXISTS (SELECT 1 FROM responses WHERE tenant = :tenant)
"""


class Vault:
    """Opens a tenant's keys when they are first needed, and holds them."""

    def __init__(self, keys: Keys | None, clock: Callable[[], float] = time.time) -> None:
        """Take keys, or those of the environment, which are looked for when the database is opened."""
        self.keys = keys
        self.clock = clock
        self._held: dict[str, TenantKeys] = {}

    async def open(self) -> None:
        """Get keys from the environment, unless they were given."""
        if self.keys is None:
            self.keys = await asyncio.to_thread(keys_in, os.environ)

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
            session.keys = self._held.get(session.tenant) or self._opened(session, self.keys, key_rows(session))

    def admit_writer(self, session: Session) -> None:
        """Give a transaction that writes the newest keys of its tenant, which are made where there are none."""
        rows = key_rows(session)
        if self.keys is None:
            if rows:
                raise no_key(session.tenant)
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
            if len(self._held) >= _MOST_TENANTS:
                self._held.clear()
            held = self._held[session.tenant] = TenantKeys(session.tenant, keys, rows)
        return held

    def _made(self, session: Session, keys: Keys) -> list[KeyRow]:
        mixed = session.row(_ANYTHING) is not None
        now = self.clock()
        add_key(session, new_row(keys, session.tenant, NAMING, now=now, mixed=mixed))
        add_key(session, new_row(keys, session.tenant, _FIRST, now=now))
        return key_rows(session)


def no_key(tenant: str) -> SealError:
    """Return what to say where something is sealed and no key is given."""
    return SealError(tenant, "no-key", "is encrypted, and no key is given; set BRIMFUL_KEY or BRIMFUL_KEY_COMMAND")
