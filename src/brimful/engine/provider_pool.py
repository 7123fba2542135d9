"""Providers of an engine, each opened on first use.

The modules that talk to servers are imported on first use, too, so building a context does not pay for them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from brimful.core.model import ModelInfo
from brimful.core.validation import preview
from brimful.errors import InvalidValue
from brimful.models import default_registry
from brimful.protocols import Provider
from brimful.records import Persona

if TYPE_CHECKING:
    from brimful.providers.server_models import ServerModels


class ProviderPool:
    """Finds the provider for a call: the call's own, the persona's, the engine's, or the model's maker."""

    def __init__(self, default: str | Provider, clock: Callable[[], float]) -> None:
        """Take the default: a name, a URL or a provider; if empty, each model runs at its maker's."""
        self._default = default
        self._clock = clock
        self._server_models: ServerModels | None = None
        self._providers: dict[str, Provider] = {}

    def find(self, provider: str | Provider | None, persona: Persona | None, model: ModelInfo) -> Provider:
        """Return the provider. A provider that was passed as an object is closed by the caller."""
        spec = provider or (persona.provider if persona else "") or self._default
        if not isinstance(spec, str):
            if not hasattr(spec, "send"):
                raise InvalidValue("provider", f"must be a name, a URL or a Provider, not {preview(spec)}")
            return spec
        name = spec or model.id  # not its maker: a maker's models may run at several providers
        if name not in self._providers:
            from brimful.providers import make_provider, make_provider_for_model  # noqa: PLC0415 - see above

            self._providers[name] = make_provider(spec) if spec else make_provider_for_model(model)
        return self._providers[name]

    async def resolve_served(self, model: ModelInfo, provider: Provider) -> ModelInfo:
        """Return the model as its server runs it: self-hosted servers report the window, and whether it is llama.cpp.

        A server with a single model answers to any name; if ours is unknown, the server's name may be known.
        """
        from brimful.providers import HttpProvider  # noqa: PLC0415 - see above
        from brimful.providers.server_models import ServerModels  # noqa: PLC0415 - see above

        if not isinstance(provider, HttpProvider):
            return model
        self._server_models = self._server_models or ServerModels(self._clock)
        served = await self._server_models.find(provider.connection, provider.wire, model.id, known=model.known)
        if served is None:
            return model
        info = model if model.known or not served.only else default_registry().resolve(served.id)
        window = served.window or info.window
        return msgspec.structs.replace(
            info,
            id=model.id,
            window=min(window, info.window) if info.known else window,
            assumed_window=info.assumed_window and served.window is None,
            runtime="llama.cpp" if served.llama else info.runtime,
        )

    async def close(self) -> None:
        """Close all providers that were opened here."""
        providers, self._providers = self._providers, {}
        for provider in providers.values():
            await provider.close()
