"""Available models and policies, and token counts for arbitrary text."""

from collections.abc import Sequence

from brimful.core.cost import count_content
from brimful.core.model import ModelInfo
from brimful.core.policy import Policy
from brimful.core.tokens import Count
from brimful.counting import counter_for
from brimful.models.registry import Registry
from brimful.policies import load_policy
from brimful.records import Content
from brimful.server.access import may_use_model, may_use_policy
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import CountBody
from brimful.server.inspector.views import ModelList, ModelRow, PolicyList, PolicyRow, TextCount
from brimful.server.tenants import Tenants
from brimful.stores import Store
from brimful.threads import run_in_thread

DEFAULT_MODEL = "gpt-4o"
"""For counting tokens if the client names no model, there is no context, and the configuration names none."""


class ContentCounter:
    """Counts tokens for a given model, or that of the newest context."""

    def __init__(self, registry: Registry, default: str = DEFAULT_MODEL) -> None:
        self._registry = registry
        self.default = default

    async def of(self, store: Store, contents: Sequence[Content], model: str | None) -> list[int]:
        """Return the tokens of contents."""
        return [count.tokens for count in await self.counts(store, contents, model)]

    async def counts(self, store: Store, contents: Sequence[Content], model: str | None) -> list[Count]:
        """Return the counts of contents, computed in a thread."""
        if not contents:
            return []
        info = self._registry.resolve(model or await self.default_for(store))
        return await run_in_thread(_count_all, contents, info)

    async def default_for(self, store: Store) -> str:
        """Return the model of the newest context; if there is none, the configured default."""
        newest = await store.builds(limit=1)
        return newest[0].model if newest else self.default


def _count_all(contents: Sequence[Content], model: ModelInfo) -> list[Count]:
    counter = counter_for(model, "hybrid")
    return [count_content(content, counter) for content in contents]


class Catalogue:
    """Lists models and policies."""

    def __init__(
        self, registry: Registry, tenants: Tenants, tokens: ContentCounter, *, upstreams: Sequence[str]
    ) -> None:
        self._registry = registry
        self._tenants = tenants
        self._tokens = tokens
        self._upstreams = tuple(upstreams)

    async def models(self, call: Call) -> ModelList:
        allowed = (info for info in self._registry if may_use_model(call.client, info.id))
        rows = sorted(allowed, key=lambda info: info.id)
        default = await self._tokens.default_for(self._tenants.store(call.tenant))
        return ModelList(models=tuple(map(_model_row, rows)), default=default, upstreams=self._upstreams)

    async def policies(self, call: Call) -> PolicyList:
        """List the policies that a client may name: the built-in ones, and those in the configuration."""
        allowed = (policy for name, policy in self._tenants.policies.items() if may_use_policy(call.client, name))
        return PolicyList(policies=tuple(map(_policy_row, allowed)))

    async def count(self, call: Call) -> TextCount:
        body: CountBody = call.body
        (count,) = await self._tokens.counts(self._tenants.store(call.tenant), [body.text], body.model)
        return TextCount(tokens=count.tokens, basis=count.basis)


def _model_row(info: ModelInfo) -> ModelRow:
    return ModelRow(
        id=info.id, provider=info.provider, window=info.window, max_output=info.max_output, max_input=info.max_input
    )


def _policy_row(name: str | Policy) -> PolicyRow:
    policy = load_policy(name)
    return PolicyRow(name=policy.name, description=policy.description, pools=tuple(pool.name for pool in policy.pools))
