"""What texts cost, for the model that is asked about."""

import asyncio
from collections.abc import Sequence

from brimful.core.cost import count_content
from brimful.core.model import ModelInfo
from brimful.core.tokens import Count
from brimful.counting import counter_for
from brimful.models.registry import Registry
from brimful.records import Content

DEFAULT_MODEL = "gpt-4o"
"""For which texts are counted where neither the caller nor the configuration names a model."""


class Tokens:
    """Counts."""

    def __init__(self, registry: Registry, default: str = DEFAULT_MODEL) -> None:
        """Take the rows of all models, and the name of the one that is meant where none is named."""
        self._registry = registry
        self.default = default

    async def of(self, contents: Sequence[Content], model: str | None) -> list[int]:
        """Return the tokens of contents."""
        return [count.tokens for count in await self.counts(contents, model)]

    async def counts(self, contents: Sequence[Content], model: str | None) -> list[Count]:
        """Return the counts of contents. Others do not wait while long ones are counted."""
        info = self._registry.resolve(model or self.default)
        return await asyncio.to_thread(_counted, contents, info) if contents else []


def _counted(contents: Sequence[Content], model: ModelInfo) -> list[Count]:
    counter = counter_for(model, "hybrid")
    return [count_content(content, counter) for content in contents]
