"""Counts add up: tokens, margins, and the weakest basis of all."""

from collections.abc import Iterable
from typing import Final

from brimful.core.tokens import Basis, Count

_WEAKEST_LAST: Final[tuple[Basis, ...]] = ("exact", "provider", "bound", "calibrated", "approximate")


def sum_counts(counts: Iterable[Count], tokenizer: str) -> Count:
    """Return the sum under that name.

    >>> sum_counts([Count(tokens=2, basis="exact"), Count(tokens=3, basis="calibrated", margin=1)], "mixed")
    Count(tokens=5, basis='calibrated', tokenizer='mixed', margin=1)
    """
    parts = list(counts)
    weakest = max((_WEAKEST_LAST.index(part.basis) for part in parts), default=0)
    return Count(
        tokens=sum(part.tokens for part in parts),
        basis=_WEAKEST_LAST[weakest],
        tokenizer=tokenizer,
        margin=sum(part.margin for part in parts),
    )
