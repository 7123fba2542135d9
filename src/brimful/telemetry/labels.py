"""Metric labels for models, with bounded cardinality."""

from typing import Final

from brimful.models import default_registry
from brimful.models.registry import Registry

OTHER: Final = "other"
MAX_UNKNOWN: Final = 50  # unknown names that get their own label
_MAX_LENGTH: Final = 100  # characters of an unknown name


class ModelLabels:
    """Maps model names to labels. Clients can name any model, so the number of unknown names is limited.

    >>> names = ModelLabels(limit=1)
    >>> [names.model(name) for name in ("openai/gpt-4o-2024-08-06", "my-own", "another", "my-own")]
    ['gpt-4o', 'my-own', 'other', 'my-own']
    """

    def __init__(self, registry: Registry | None = None, *, limit: int = MAX_UNKNOWN) -> None:
        self._registry = registry
        self._limit = limit
        self._unknown: set[str] = set()

    def model(self, name: str) -> str:
        registry = self._registry if self._registry is not None else default_registry()
        known = registry.canonical(name)
        if known is not None:
            return known
        if name not in self._unknown and len(self._unknown) < self._limit and len(name) <= _MAX_LENGTH:
            self._unknown.add(name)
        return name if name in self._unknown else OTHER
