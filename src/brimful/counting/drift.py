"""Drift: since some moment a server counts otherwise, and what was observed before says nothing of it any more."""

from collections.abc import Sequence
from itertools import accumulate
from math import sqrt
from statistics import median
from typing import Final

LEAST_AFTER: Final = 3  # observations, so that a single odd one changes nothing
LEAST_BEFORE: Final = 3
LEAST_STEP: Final = 0.04  # of a prompt: makers change their tokenizers by more, and smaller steps the margin bears
_NOISE: Final = 4.0  # robust deviations that a step must have at least
_OVERLAP: Final = 0.1  # of the errors before and after may lie on the wrong side


def find_change(errors: Sequence[float]) -> int | None:
    """Return where errors, the oldest first, begin to be others than before; None if they do not.

    >>> find_change([0.01, -0.01, 0.0, 0.01, 0.31, 0.29, 0.3])
    4
    >>> find_change([0.01, -0.01, 0.0, 0.01, 0.31, 0.02, 0.0])
    """
    at = _likeliest(errors)
    return at if at is not None and _differ(errors[:at], errors[at:]) else None


def _likeliest(errors: Sequence[float]) -> int | None:
    """Return the place at which the means before and after are furthest apart, for their numbers."""
    sums = list(accumulate(errors, initial=0.0))
    count = len(errors)
    places = range(LEAST_BEFORE, count - LEAST_AFTER + 1)

    def apart(at: int) -> float:
        before, after = sums[at] / at, (sums[-1] - sums[at]) / (count - at)
        return abs(after - before) * sqrt(at * (count - at))

    return max(places, key=apart, default=None)


def _differ(before: Sequence[float], after: Sequence[float]) -> bool:
    step = median(after) - median(before)
    noise = 1.4826 * median([*_deviations(before), *_deviations(after)])
    if abs(step) < max(LEAST_STEP, _NOISE * noise):
        return False
    middle = (median(after) + median(before)) / 2
    wrong = sum((error > middle) == (step > 0) for error in before) / len(before)
    missing = sum((error > middle) != (step > 0) for error in after) / len(after)
    return wrong <= _OVERLAP and missing <= _OVERLAP


def _deviations(errors: Sequence[float]) -> list[float]:
    centre = median(errors)
    return [abs(error - centre) for error in errors]
