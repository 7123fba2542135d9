"""Metric labels for models, with bounded cardinality."""

from typing import Final

from brimful.models import default_registry
from brimful.models.registry import Registry

OTHER: Final = "other"
MAX_UNKNOWN: Final = 50  # names that no registry knows and that are told apart all the same


class ModelLabels:
    """Calls models by the names of their rows. Callers may name models as they like; measurements must not grow so.

    >>> names = ModelLabels(most=1)
    >>> [names.model(name) for name in ("openai/gpt-4o-2024-08-06", "my-own", "another", "my-own")]
    ['gpt-4o', 'my-own', 'other', 'my-own']
    """

    def __init__(self, registry: Registry | None = None, *, most: int = MAX_UNKNOWN) -> None:
        """Take the rows of all models."""
        self._registry = registry
        self._most = most
        self._unknown: set[str] = set()

    def model(self, name: str) -> str:
        """Return what to call a model."""
        registry = self._registry if self._registry is not None else default_registry()
        known = registry.canonical(name)
        if known is not None:
            return known
        if name not in self._unknown and len(self._unknown) < self._most:
            self._unknown.add(name)
        return name if name in self._unknown else OTHER
