"""Send server events to the configured telemetry hooks, and continue the traces of clients."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from brimful.core.context import Context
from brimful.engine.events import Event, EventName, Hook, notify_hooks
from brimful.errors import ContextOverflow
from brimful.models.registry import Registry
from brimful.server.config import TelemetryConfig
from brimful.server.proxy.request import ProxyRequest
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

    async def tell(self, name: EventName, tenant: str, room: str | None = None, **facts: Any) -> None:
        """Send an event to every hook."""
        if self.hooks:
            await notify_hooks(self.hooks, Event(name=name, at=self._clock(), tenant=tenant, room=room, facts=facts))

    async def overflowed(self, asked: ProxyRequest, context: Context, refused: ContextOverflow) -> None:
        """Report that an upstream rejected a prompt as too long."""
        await self.tell(
            "overflowed",
            asked.caller.tenant,
            context=context.id,
            model=context.inputs.model.id,
            route=asked.line.route,
            window=refused.window,
        )

    @contextmanager
    def serving(self, method: str, route: str, headers: Mapping[str, str]) -> Iterator[SetStatus]:
        """Continue the trace of a client while its request is served."""
        if self._traces is None:
            yield _ignore_status
            return
        with self._traces.serving(method, route, headers) as ended:
            yield ended


def _ignore_status(status: int) -> None:
    del status
