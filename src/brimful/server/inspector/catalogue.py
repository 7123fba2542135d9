"""Available models and policies, and token counts for arbitrary text."""

import asyncio
from collections.abc import Mapping, Sequence

from brimful.core.cost import count_content
from brimful.core.model import ModelInfo
from brimful.core.policy import Policy
from brimful.core.tokens import Count
from brimful.counting import counter_for
from brimful.models.registry import Registry
from brimful.policies import load_policy
from brimful.records import Content
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import CountBody
from brimful.server.inspector.views import ModelList, ModelRow, PolicyList, PolicyRow, TextCount

DEFAULT_MODEL = "gpt-4o"
"""For counting tokens if neither the client nor the configuration names a model."""


class ContentCounter:
    """Counts tokens for a given or the default model."""

    def __init__(self, registry: Registry, default: str = DEFAULT_MODEL) -> None:
        self._registry = registry
        self.default = default

    async def of(self, contents: Sequence[Content], model: str | None) -> list[int]:
        """Return the tokens of contents."""
        return [count.tokens for count in await self.counts(contents, model)]

    async def counts(self, contents: Sequence[Content], model: str | None) -> list[Count]:
        """Return the counts of contents, computed in a thread."""
        info = self._registry.resolve(model or self.default)
        return await asyncio.to_thread(_count_all, contents, info) if contents else []


def _count_all(contents: Sequence[Content], model: ModelInfo) -> list[Count]:
    counter = counter_for(model, "hybrid")
    return [count_content(content, counter) for content in contents]


class Catalogue:
    """Lists models and policies."""

    def __init__(
        self,
        registry: Registry,
        policies: Mapping[str, str | Policy],
        tokens: ContentCounter,
        *,
        upstreams: Sequence[str],
    ) -> None:
        self._registry = registry
        self._policies = policies
        self._tokens = tokens
        self._upstreams = tuple(upstreams)

    async def models(self, call: Call) -> ModelList:
        """List all known models."""
        del call
        rows = sorted(self._registry, key=lambda info: info.id)
        return ModelList(models=tuple(map(_model_row, rows)), default=self._tokens.default, upstreams=self._upstreams)

    async def policies(self, call: Call) -> PolicyList:
        """List the policies that a client may name: the built-in ones, and those in the configuration."""
        del call
        return PolicyList(policies=tuple(map(_policy_row, self._policies.values())))

    async def count(self, call: Call) -> TextCount:
        """Count the tokens of a text."""
        body: CountBody = call.body
        (count,) = await self._tokens.counts([body.text], body.model)
        return TextCount(tokens=count.tokens, basis=count.basis)


def _model_row(info: ModelInfo) -> ModelRow:
    return ModelRow(
        id=info.id,
        provider=info.provider,
        window=info.window,
        max_output=info.max_output,
        max_input=info.max_input,
    )


def _policy_row(name: str | Policy) -> PolicyRow:
    policy = load_policy(name)
    return PolicyRow(name=policy.name, description=policy.description, pools=tuple(pool.name for pool in policy.pools))
