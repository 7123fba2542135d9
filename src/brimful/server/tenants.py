"""Stores, calibrations and engines by tenant. Those of idle tenants are let go."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from weakref import WeakValueDictionary

from brimful.core.policy import Policy
from brimful.engine import Engine, Hook, Retrieval
from brimful.engine.calibration import Calibrator, LearnedWindow
from brimful.engine.events import Emitter
from brimful.engine.own_calls import OwnCalls
from brimful.errors import UnknownPolicy
from brimful.protocols import Embedder
from brimful.records.own_calls import SpendingLimit
from brimful.server.config import RememberConfig
from brimful.stores import Database, Store


class _OpenTenant:
    """What is in memory for a tenant, and when it was used last."""

    __slots__ = ("calibrator", "engine", "own_calls", "store", "used")

    def __init__(self, store: Store, own_calls: OwnCalls) -> None:
        self.store = store
        self.own_calls = own_calls
        self.calibrator = Calibrator(store)
        self.engine: Engine | None = None
        self.used = 0.0


class Tenants:
    """All tenants of a database, each opened on first use. `policies` are those that clients may name.

    At most `max_open` tenants stay in memory, each until it was idle for `idle` seconds. Nothing is closed then: an
    engine has no task of its own, since a worker embeds for all tenants, and whoever still uses it keeps it alive.
    """

    def __init__(  # noqa: PLR0913 - the options of a server's engines
        self,
        database: Database,
        remember: RememberConfig,
        *,
        embedder: Embedder | None,
        policies: Mapping[str, str | Policy],
        hooks: Sequence[Hook] = (),
        clock: Callable[[], float],
        record_share: float = 1.0,
        own_calls: SpendingLimit = SpendingLimit(),  # noqa: B008 - frozen
        max_open: int,
        idle: float,
    ) -> None:
        self._database = database
        self._remember = remember
        self._embedder = embedder
        self.policies = policies
        self.default_policy = remember.policy
        self._hooks = tuple(hooks)
        self._clock = clock
        self.record_share = record_share
        self._limit = own_calls
        self.max_open = max_open
        self._idle = idle
        self._open: OrderedDict[str, _OpenTenant] = OrderedDict()  # the most recently used last
        self._engines: WeakValueDictionary[str, Engine] = WeakValueDictionary()
        self._opening = asyncio.Lock()

    @property
    def database(self) -> Database:
        return self._database

    def find_policy(self, name: str | None) -> str | Policy | None:
        """Return a policy that clients may name. Files cannot be named."""
        if name is None:
            return None
        if name not in self.policies:
            raise UnknownPolicy(name, sorted(self.policies))
        return self.policies[name]

    @property
    def engines(self) -> int:
        """The number of engines in memory: of recent tenants, and of tenants that are still in use."""
        return len(self._engines)

    def store(self, tenant: str) -> Store:
        return self._use(tenant).store

    def emitter(self, tenant: str) -> Emitter:
        return Emitter(self._hooks, tenant=tenant, clock=self._clock)

    def own_calls(self, tenant: str) -> OwnCalls:
        return self._use(tenant).own_calls

    def calibrator(self, tenant: str) -> Calibrator:
        return self._use(tenant).calibrator

    def learned_windows(self) -> dict[str, list[LearnedWindow]]:
        """Return the learned windows of tenants in memory, without tenants that have none."""
        now = self._clock()
        windows = {tenant: each.calibrator.learned_windows(now=now) for tenant, each in self._open.items()}
        return {tenant: learned for tenant, learned in windows.items() if learned}

    async def engine(self, tenant: str) -> Engine:
        async with self._opening:
            opened = self._use(tenant)
            if opened.engine is None:
                opened.engine = self._engines.get(tenant) or await self._open_engine(tenant)
                self._engines[tenant] = opened.engine
            return opened.engine

    def release_idle(self, now: float) -> None:
        """Let go of tenants that are idle, or too many."""
        while self._open:
            oldest = next(iter(self._open.values()))
            if len(self._open) <= self.max_open and oldest.used > now - self._idle:
                return
            self._open.popitem(last=False)

    async def close(self) -> None:
        """Close all engines, but not the database."""
        self._open.clear()
        for engine in list(self._engines.values()):
            await engine.close()
        if self._embedder is not None:
            await self._embedder.close()

    def _use(self, tenant: str) -> _OpenTenant:
        opened = self._open.pop(tenant, None) or self._make_tenant(tenant)
        opened.used = self._clock()
        self._open[tenant] = opened
        self.release_idle(opened.used)
        return opened

    def _make_tenant(self, tenant: str) -> _OpenTenant:
        store, events = self._database.tenant(tenant), self.emitter(tenant)
        return _OpenTenant(store, OwnCalls(store, self._limit, clock=self._clock, events=events))

    async def _open_engine(self, tenant: str) -> Engine:
        return await Engine(
            self._database,
            tenant=tenant,
            policy=self._remember.policy,
            policies=self.policies,
            embedder=self._embedder,
            retrieval=Retrieval(other_rooms=self._remember.other_rooms),
            hooks=self._hooks,
            clock=self._clock,
            record_share=self.record_share,
            own_calls=self._limit,
            untrusted=self._remember.untrusted,
            indexing="elsewhere",
        ).open()
