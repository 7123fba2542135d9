"""Where models run: the providers of an engine, each opened when it is first asked."""

from brimful.core.check import shown
from brimful.core.model import ModelInfo
from brimful.errors import InvalidValue
from brimful.protocols import Provider
from brimful.providers import provider_for, provider_of
from brimful.records import Persona


class Providers:
    """Finds the provider for a call: the call's own, the persona's, the engine's, or the model's maker."""

    def __init__(self, default: str | Provider = "") -> None:
        """Take a name (`ollama`, `openai:http://…/v1`) or a provider; without one, the model tells."""
        self._default = default
        self._opened: dict[str, Provider] = {}

    def find(self, asked: str | Provider | None, persona: Persona | None, model: ModelInfo) -> Provider:
        """Return the provider. One that was given as such is the caller's, who closes it."""
        spec = asked or (persona.provider if persona else "") or self._default
        if not isinstance(spec, str):
            if not hasattr(spec, "send"):
                raise InvalidValue("provider", f"must be a name, an address or a Provider, not {shown(spec)}")
            return spec
        name = spec or model.id  # not its maker: one maker's models run at several places
        if name not in self._opened:
            self._opened[name] = provider_for(spec) if spec else provider_of(model)
        return self._opened[name]

    async def close(self) -> None:
        """Let go of all connections that were opened here."""
        opened, self._opened = self._opened, {}
        for provider in opened.values():
            await provider.close()
