"""Drift: since some moment a server counts otherwise, and what was observed before says nothing of it any more."""

from collections.abc import Iterable, Sequence
from typing import Final

from brimful.core.tokens import Count

WITNESSES: Final = 3  # observations in a row, so that a single odd one changes nothing
LEAST_BEFORE: Final = 5  # observations that must have taught something, before that can be wrong
LEAST_STEP: Final = 0.04  # of a prompt: makers change their tokenizers by more, and smaller steps the margin bears


def find_step(expected: Sequence[Count], reported: Sequence[int]) -> float | None:
    """Return by what share a server reports more or less than what was learned before lets expect; None if it does not.

    All reports must lie beyond the margin, on the same side.

    >>> counts = [Count(tokens=tokens, basis="calibrated", margin=30) for tokens in (1000, 2000, 1500)]
    >>> find_step(counts, [1300, 2600, 1950])
    0.3
    >>> find_step(counts, [1300, 2010, 1950])
    """
    gaps = [(tokens - count.tokens, count) for tokens, count in zip(reported, expected, strict=True)]
    step = middle(gap / max(1, count.tokens) for gap, count in gaps)
    beyond = all(abs(gap) > count.margin and (gap > 0) == (step > 0) for gap, count in gaps)
    return step if beyond and abs(step) >= LEAST_STEP else None


def middle(values: Iterable[float]) -> float:
    """Return the value in the middle, the upper one of two: the library's median takes long to import.

    >>> middle([3.0, 1.0, 2.0]), middle([1.0, 2.0])
    (2.0, 2.0)
    """
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
