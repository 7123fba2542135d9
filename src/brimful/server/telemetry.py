"""Send server events to the configured telemetry hooks, and continue the traces of clients."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from brimful.engine.events import Emitter, Hook
from brimful.models.registry import Registry
from brimful.server.config import TelemetryConfig
from brimful.telemetry import OpenTelemetry, Prometheus

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

    def watch_engines(self, count: Callable[[], int]) -> None:
        """Show the number of open engines among the metrics."""
        if self.metrics is not None:
            self.metrics.watch("brimful_open_engines", count)

    def emitter(self, tenant: str) -> Emitter:
        """Return an emitter of a tenant's events."""
        return Emitter(self.hooks, tenant=tenant, clock=self._clock)

    def trace_headers(self) -> dict[str, str]:
        """Return headers that make an upstream part of the current trace; none if traces are off."""
        return {} if self._traces is None else self._traces.headers()

    @contextmanager
    def serving(self, method: str, route: str, headers: Mapping[str, str]) -> Iterator[SetStatus]:
        """Continue the trace of a client while its request is served."""
        if self._traces is None:
            yield _ignore_status
            return
        with self._traces.serving(method, route, headers) as set_status:
            yield set_status


def _ignore_status(status: int) -> None:
    del status
