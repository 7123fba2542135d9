"""Reads from a replica of PostgreSQL, as long as it is up and up to date."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from brimful.errors import StoreError, StoreUnavailable
from brimful.stores.backends.driver import Driver
from brimful.stores.session import Session

T = TypeVar("T")

COOLDOWN: Final = 30.0  # seconds without the replica after it failed
# A replica that is connected and has replayed all it received is up to date, even if the last write is long ago.
_LAG: Final = """
SELECT CASE WHEN NOT pg_is_in_recovery() THEN 0
            WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT FROM pg_stat_wal_receiver)
            THEN 0
            ELSE extract(epoch FROM now() - pg_last_xact_replay_timestamp()) END
WHERE :tenant::text IS NOT NULL
"""
_log = logging.getLogger("brimful.stores")


class Replica:
    """A copy of a database that may lag behind it by up to `max_lag` seconds."""

    def __init__(
        self,
        make_driver: Callable[[], Driver],
        shown: str,
        *,
        max_lag: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open nothing yet: it is opened by the first read, and again after a failure."""
        self._make_driver = make_driver
        self._shown = shown
        self._max_lag = max_lag
        self._clock = clock
        self._driver: Driver | None = None
        self._opening = asyncio.Lock()
        self._avoid_until = clock()

    async def close(self) -> None:
        if self._driver is not None:
            await self._driver.close()

    async def read(self, primary: Driver, tenant: str, function: Callable[[Session], T]) -> T:
        """Read from the replica; if it is down or lags, from the primary, with a warning."""

        def checked(session: Session) -> T:
            self._check_lag(session)
            return function(session)

        if self._clock() >= self._avoid_until:
            try:
                return await (await self._open()).read(tenant, checked)
            except StoreError as error:
                self._avoid(error)
        return await primary.read(tenant, function)

    async def choose(self, primary: Driver) -> Driver:
        """Return the driver of the replica, or the primary's if the replica is down or lags."""
        if self._clock() >= self._avoid_until:
            try:
                driver = await self._open()
                await driver.read("", self._check_lag)
            except StoreError as error:
                self._avoid(error)
            else:
                return driver
        return primary

    def _check_lag(self, session: Session) -> None:
        row = session.row(_LAG)
        lag = None if row is None or row[0] is None else float(row[0])
        if lag is None or lag > self._max_lag:
            behind = "by an unknown time" if lag is None else f"by {lag:.1f} s, and max_lag is {self._max_lag:g}"
            raise StoreUnavailable(self._shown, f"lags behind {behind}", retriable=True)

    def _avoid(self, error: StoreError) -> None:
        self._avoid_until = self._clock() + COOLDOWN
        _log.warning("reading from the primary for %d s, because the replica cannot be used: %s", COOLDOWN, error)

    async def _open(self) -> Driver:
        async with self._opening:
            if self._driver is None:
                driver = self._make_driver()
                try:
                    await driver.open(migrate=False)
                except BaseException:
                    await driver.close()
                    raise
                self._driver = driver
            return self._driver
