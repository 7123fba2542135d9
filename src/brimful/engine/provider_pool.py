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
        """Take a name (`ollama`, `openai:http://…/v1`) or a provider; without one, the model tells."""
        self._default = default
        self._clock = clock
        self._offers: ServerModels | None = None
        self._opened: dict[str, Provider] = {}

    def find(self, asked: str | Provider | None, persona: Persona | None, model: ModelInfo) -> Provider:
        """Return the provider. One that was given as such is the caller's, who closes it."""
        spec = asked or (persona.provider if persona else "") or self._default
        if not isinstance(spec, str):
            if not hasattr(spec, "send"):
                raise InvalidValue("provider", f"must be a name, an address or a Provider, not {preview(spec)}")
            return spec
        name = spec or model.id  # not its maker: one maker's models run at several places
        if name not in self._opened:
            from brimful.providers import make_provider, make_provider_for_model  # noqa: PLC0415 - see above

            self._opened[name] = make_provider(spec) if spec else make_provider_for_model(model)
        return self._opened[name]

    async def served(self, model: ModelInfo, provider: Provider) -> ModelInfo:
        """Return the model as its server runs it: one of one's own tells its window, and that it is llama.cpp.

        A server that runs one model answers to any name; where ours tells nothing, its own may.
        """
        from brimful.providers import HttpProvider  # noqa: PLC0415 - see above
        from brimful.providers.server_models import ServerModels  # noqa: PLC0415 - see above

        if not isinstance(provider, HttpProvider):
            return model
        self._offers = self._offers or ServerModels(self._clock)
        offer = await self._offers.find(provider.connection, provider.wire, model.id)
        if offer is None:
            return model
        row = model if model.known or not offer.only else default_registry().resolve(offer.id)
        told = offer.window or row.window
        return msgspec.structs.replace(
            row,
            id=model.id,
            window=min(told, row.window) if row.known else told,
            runtime="llama.cpp" if offer.llama else row.runtime,
        )

    async def close(self) -> None:
        """Let go of all connections that were opened here."""
        opened, self._opened = self._opened, {}
        for provider in opened.values():
            await provider.close()
