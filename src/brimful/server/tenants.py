"""What each tenant has: a store, what was learned there, and an engine once something is to be remembered."""

import asyncio
from collections.abc import Callable, Sequence

from brimful.engine import Engine, Hook, Retrieval
from brimful.engine.lessons import Lessons
from brimful.protocols import Store
from brimful.server.config import RememberConfig
from brimful.stores import Database


class Tenants:
    """All tenants of a database, each opened when it is first asked for."""

    def __init__(
        self,
        database: Database,
        remember: RememberConfig,
        *,
        hooks: Sequence[Hook] = (),
        clock: Callable[[], float],
    ) -> None:
        """Take an open database; `hooks` are told of what engines do."""
        self._database = database
        self._remember = remember
        self._hooks = tuple(hooks)
        self._clock = clock
        self._stores: dict[str, Store] = {}
        self._lessons: dict[str, Lessons] = {}
        self._engines: dict[str, Engine] = {}
        self._opening = asyncio.Lock()

    def store(self, tenant: str) -> Store:
        """Return the store of a tenant."""
        if tenant not in self._stores:
            self._stores[tenant] = self._database.tenant(tenant)
        return self._stores[tenant]

    def lessons(self, tenant: str) -> Lessons:
        """Return what a tenant's answers taught."""
        if tenant not in self._lessons:
            self._lessons[tenant] = Lessons(self.store(tenant))
        return self._lessons[tenant]

    async def engine(self, tenant: str) -> Engine:
        """Return the engine of a tenant, open."""
        async with self._opening:
            if tenant not in self._engines:
                engine = Engine(
                    self._database,
                    tenant=tenant,
                    policy=self._remember.policy,
                    embedder=self._remember.embedder,
                    retrieval=Retrieval(other_rooms=self._remember.other_rooms),
                    hooks=self._hooks,
                    clock=self._clock,
                )
                self._engines[tenant] = await engine.open()
            return self._engines[tenant]

    async def close(self) -> None:
        """Close all engines. The database is closed by who opened it."""
        engines, self._engines = self._engines, {}
        for engine in engines.values():
            await engine.close()
