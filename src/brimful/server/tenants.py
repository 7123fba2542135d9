"""Stores, calibrations and engines by tenant, and the janitor that visits all of them periodically."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from brimful.core.policy import Policy
from brimful.engine import Engine, Hook, Retrieval
from brimful.engine.calibration import Calibrator
from brimful.engine.retention import PeriodicTask, parse_interval
from brimful.errors import BrimfulError
from brimful.server.config import RememberConfig
from brimful.stores import Database, Store

_log = logging.getLogger("brimful.server")


class Tenants:
    """All tenants of a database, each opened on first use. `policies` are those that clients may name."""

    def __init__(
        self,
        database: Database,
        remember: RememberConfig,
        *,
        policies: Mapping[str, str | Policy],
        hooks: Sequence[Hook] = (),
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._remember = remember
        self.policies = policies
        self.default_policy = remember.policy
        self._hooks = tuple(hooks)
        self._clock = clock
        self._stores: dict[str, Store] = {}
        self._calibrators: dict[str, Calibrator] = {}
        self._engines: dict[str, Engine] = {}
        self._opening = asyncio.Lock()

    async def names(self, *, after: str, limit: int) -> list[str]:
        """Return the names of the tenants after a name, in order."""
        return await self._database.tenants(after=after, limit=limit)

    def store(self, tenant: str) -> Store:
        """Return the store of a tenant."""
        if tenant not in self._stores:
            self._stores[tenant] = self._database.tenant(tenant)
        return self._stores[tenant]

    def calibrator(self, tenant: str) -> Calibrator:
        """Return the calibration of a tenant."""
        if tenant not in self._calibrators:
            self._calibrators[tenant] = Calibrator(self.store(tenant))
        return self._calibrators[tenant]

    async def engine(self, tenant: str) -> Engine:
        """Return the open engine of a tenant."""
        async with self._opening:
            if tenant not in self._engines:
                engine = Engine(
                    self._database,
                    tenant=tenant,
                    policy=self._remember.policy,
                    policies=self.policies,
                    embedder=self._remember.embedder,
                    retrieval=Retrieval(other_rooms=self._remember.other_rooms),
                    hooks=self._hooks,
                    clock=self._clock,
                )
                self._engines[tenant] = await engine.open()
            return self._engines[tenant]

    async def close(self) -> None:
        """Close all engines, but not the database."""
        engines, self._engines = self._engines, {}
        for engine in engines.values():
            await engine.close()


class PeriodicJanitor:
    """Runs the janitor for all tenants at regular intervals."""

    def __init__(self, tenants: Tenants, names: Callable[[], AsyncIterator[str]], interval: str) -> None:
        self._tenants = tenants
        self._names = names
        self._rounds = PeriodicTask(self.run, parse_interval(interval, "janitor_interval"), "the janitor is paused")

    async def run(self) -> None:
        """Run once. If it fails for a tenant, that is logged and retried in the next round."""
        async for name in self._names():
            try:
                engine = await self._tenants.engine(name)
                await engine.run_janitor()
            except BrimfulError as error:
                _log.warning("the janitor failed for tenant %s: %s", name, error)

    def start(self) -> None:
        """Start the first round immediately."""
        self._rounds.start()

    async def stop(self) -> None:
        """Stop. An unfinished round continues at the next start."""
        await self._rounds.stop()
