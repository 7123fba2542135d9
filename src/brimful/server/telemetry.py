"""Send server events to the configured telemetry hooks, and continue the traces of clients."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from brimful.engine.events import Emitter, Hook
from brimful.models.registry import Registry
from brimful.server.config import TelemetryConfig
from brimful.stores import Database
from brimful.telemetry import OpenTelemetry, Prometheus

GAUGE_SECONDS: Final = 5.0  # between two updates of gauges that other processes show

SetStatus = Callable[[int], None]
"""Sets the status code of a request on its span."""


class Telemetry:
    """Sends events to the hooks enabled in the configuration."""

    def __init__(self, config: TelemetryConfig, registry: Registry, *, clock: Callable[[], float]) -> None:
        self.metrics = Prometheus(tenant_label=config.tenant_label, models=registry) if config.metrics else None
        self._traces = OpenTelemetry(models=registry) if config.otel else None
        self._clock = clock

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """All enabled hooks; engines use them, too."""
        return tuple(hook for hook in (self.metrics, self._traces) if hook is not None)

    def watch(self, database: Database, engines: Callable[[], int], upstreams: Callable[[], Mapping[str, int]]) -> None:
        """Show the use of the database's connections, the number of open engines and which upstreams are available."""
        if self.metrics is not None:
            self.metrics.watch("brimful_open_engines", engines)
            self.metrics.watch("brimful_upstream_available", upstreams)
            self.metrics.watch("brimful_database_pool_size", lambda: database.use.size)
            self.metrics.watch("brimful_database_pool_in_use", lambda: database.use.in_use)
            self.metrics.watch("brimful_database_pool_waiting", lambda: database.use.waiting)

    async def keep_current(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Update the gauges of this process until cancelled: another process may be the one that shows them."""
        while self.metrics is not None:
            await sleep(GAUGE_SECONDS)
            self.metrics.refresh()

    def emitter(self, tenant: str) -> Emitter:
        """Return an emitter of a tenant's events."""
        return Emitter(self.hooks, tenant=tenant, clock=self._clock)

    def trace_headers(self) -> dict[str, str]:
        """Return headers that make an upstream part of the current trace; none if traces are off."""
        return {} if self._traces is None else self._traces.headers()

    @contextmanager
    def serving(self, method: str, route: str, headers: Mapping[str, str]) -> Iterator[SetStatus]:
        """Continue the trace of a client while its request is served, and count the request."""
        with self._in_flight():
            if self._traces is None:
                yield _ignore_status
                return
            with self._traces.serving(method, route, headers) as set_status:
                yield set_status

    async def count_request(self, path: str, status: int, log_fields: Mapping[str, Any], seconds: float) -> None:
        """Count a request that was served. `path` is the template of its path."""
        emitter = self.emitter(log_fields.get("tenant", ""))
        await emitter.emit("served", path=path, status=status, seconds=max(0.0, seconds))

    @asynccontextmanager
    async def timing(self, tenant: str, upstream: str, model: str) -> AsyncGenerator[None, None]:
        """Measure the time that an upstream takes, unless it fails."""
        started = self._clock()
        yield
        seconds = max(0.0, self._clock() - started)
        await self.emitter(tenant).emit("upstream_ended", upstream=upstream, model=model, seconds=seconds)

    @contextmanager
    def _in_flight(self) -> Iterator[None]:
        if self.metrics is None:
            yield
            return
        self.metrics.add_in_flight(1)
        try:
            yield
        finally:
            self.metrics.add_in_flight(-1)


def _ignore_status(status: int) -> None:
    del status
