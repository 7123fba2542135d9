"""Models for the requests that the server writes itself, and the upstreams that serve them."""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from brimful.core.model import ModelInfo
from brimful.models.registry import Registry
from brimful.providers import HttpProvider
from brimful.server.proxy.models import ModelResolver
from brimful.server.proxy.upstreams import Upstream, Upstreams
from brimful.server.telemetry import Telemetry
from brimful.server.tenants import Tenants
from brimful.wires import find_wire

_WILD: Final = frozenset("*?[")
"""Characters of patterns of names."""


class ServedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model with its window, and the upstream that serves it, if one does."""

    model: ModelInfo
    window: int
    upstream: Upstream | None


class ServedModels:
    """Finds models by name."""

    def __init__(
        self,
        tenants: Tenants,
        registry: Registry,
        *,
        upstreams: Upstreams,
        resolver: ModelResolver,
        telemetry: Telemetry,
    ) -> None:
        self._tenants = tenants
        self._registry = registry
        self._upstreams = upstreams
        self._resolver = resolver
        self._telemetry = telemetry

    async def find(self, tenant: str, name: str, wire: str | None = None) -> ServedModel:
        """Return a model as its upstream serves it; without an upstream, as the registry knows it.

        For a request that is written already, pass its `wire` format: then an upstream must speak that.
        """
        upstream = self._upstreams.find_any(name) if wire is None else self._upstreams.find(find_wire(wire), name)
        if upstream is None:
            info = self._registry.resolve(name)
            return ServedModel(model=info, window=info.window, upstream=None)
        resolved = await self._resolver.find(upstream, name, self._tenants.calibrator(tenant))
        return ServedModel(model=resolved.model, window=resolved.window, upstream=upstream)

    async def list_names(self) -> list[str]:
        """Return the names of the models that upstreams offer: those in the configuration, and those they list."""
        upstreams = self._upstreams.list_written()
        named = [
            name for each in upstreams for name in (*each.config.models, *each.config.rename) if not _WILD & set(name)
        ]
        listed = await asyncio.gather(*(self._resolver.list_names(each) for each in upstreams))
        served = [name for names in listed for name in names if self._upstreams.find_any(name) is not None]
        return sorted({*named, *served})

    def require_upstream(self, served: ServedModel) -> Upstream:
        """Return the upstream of a model; reject a model without one."""
        if served.upstream is None:
            raise self._upstreams.not_served(served.model.id)
        return served.upstream

    def provider(self, served: ServedModel, client_headers: Mapping[str, str]) -> HttpProvider:
        """Return the provider of a model; reject a model without an upstream."""
        return self.require_upstream(served).provider(client_headers, self._telemetry.trace_headers())
