"""Endpoints for the operators of a server: tenants, background jobs, what is in memory, and reloading."""

from collections.abc import Awaitable, Callable, Mapping

from brimful.cache import SHARED_BUDGET, VECTOR_BUDGET
from brimful.engine.calibration import LearnedWindow
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import JobsQuery, TenantsQuery
from brimful.server.inspector.views import View
from brimful.server.proxy.upstreams import UpstreamState
from brimful.server.tenants import Tenants
from brimful.stores.tables.jobs import Job
from brimful.telemetry.prometheus import memory_bytes


class TenantList(View, frozen=True, kw_only=True):
    """The names of tenants that have data. `next` continues the list; null at its end."""

    tenants: tuple[str, ...]
    next: str | None


class JobList(View, frozen=True, kw_only=True):
    """Background jobs of all tenants, in the order in which they are due."""

    jobs: tuple[Job, ...]


class Status(View, frozen=True, kw_only=True):
    """What one server process holds in memory, and the background jobs that it does now.

    `engines` are open, one for each recent tenant; `max_engines` is their limit. `memory_bytes` is the resident memory
    of the process, 0 if it is not known; `cache_bytes` is the part of it that caches use. `upstreams` are those of the
    configuration, and whether they answered their last request. `learned_windows` are those that providers named when
    they refused requests, by tenant.
    """

    engines: int
    max_engines: int
    running_jobs: int
    upstreams: dict[str, UpstreamState]
    memory_bytes: int
    cache_bytes: int
    learned_windows: dict[str, tuple[LearnedWindow, ...]]


class Reloaded(View, frozen=True, kw_only=True):
    """The configuration was reloaded. `needs_restart` are settings that differ, but change only when it restarts."""

    needs_restart: tuple[str, ...]


class Features(View, frozen=True, kw_only=True):
    """Optional parts of the inspector.

    With `sessions`, it shows sessions of coding agents on this machine. With `upstreams`, there are servers whose
    models can answer, and with `chat`, this client may ask them. The others say what it may see: `admin` the state of
    the server and its jobs, `keys` API keys, and `limits` limits.
    """

    sessions: bool
    upstreams: bool
    chat: bool
    admin: bool
    keys: bool
    limits: bool


class Administration:
    """Endpoints about the server itself."""

    def __init__(
        self,
        tenants: Tenants,
        *,
        running_jobs: Callable[[], int],
        upstreams: Callable[[], Mapping[str, UpstreamState]],
        reload: Callable[[], Awaitable[tuple[str, ...]]],
        has_upstreams: bool,
        shows_sessions: bool,
    ) -> None:
        self._tenants = tenants
        self._running_jobs = running_jobs
        self._upstreams = upstreams
        self._reload = reload
        self._has_upstreams = has_upstreams
        self._shows_sessions = shows_sessions

    async def features(self, call: Call) -> Features:
        """Return which optional parts are on for this client."""
        scopes = call.client.scopes
        return Features(
            sessions=self._shows_sessions,
            upstreams=self._has_upstreams,
            chat="chat" in scopes,
            admin="admin" in scopes,
            keys="keys" in scopes and bool(call.client.key),
            limits="keys" in scopes,
        )

    async def list_tenants(self, call: Call) -> TenantList:
        """Return a page of tenants, in order of name."""
        query: TenantsQuery = call.query
        names = await self._tenants.database.tenants(after=query.after, limit=query.limit + 1)
        page = tuple(names[: query.limit])
        return TenantList(tenants=page, next=page[-1] if len(names) > query.limit else None)

    async def list_jobs(self, call: Call) -> JobList:
        query: JobsQuery = call.query
        return JobList(jobs=tuple(await self._tenants.database.list_jobs(failed=query.failed, limit=query.limit)))

    async def reload(self, call: Call) -> Reloaded:
        """Reload the configuration and report what needs a restart."""
        del call
        return Reloaded(needs_restart=await self._reload())

    async def status(self, call: Call) -> Status:
        """Return what this process holds in memory."""
        del call
        sizes = SHARED_BUDGET.sizes() | VECTOR_BUDGET.sizes()
        return Status(
            engines=self._tenants.engines,
            max_engines=self._tenants.max_open,
            running_jobs=self._running_jobs(),
            upstreams=dict(self._upstreams()),
            memory_bytes=memory_bytes(),
            cache_bytes=sum(sizes.values()),
            learned_windows={tenant: tuple(each) for tenant, each in self._tenants.learned_windows().items()},
        )
