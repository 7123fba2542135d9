"""Scores: priority, importance, relevance and recency combined into one number."""

from collections.abc import Callable
from math import exp

import msgspec

from brimful.core.content import MAX_PRIORITY, ContentPackage
from brimful.core.policy import Weights

NEUTRAL_RELEVANCE = 0.5  # for packages that did not come from a search
SECONDS_PER_DAY = 86_400.0


class Score(msgspec.Struct, frozen=True, gc=False):
    """The total, and its four parts before weighting, each from 0 to 1."""

    total: float
    priority: float
    importance: float
    relevance: float
    recency: float


def make_scorer(weights: Weights, now: float) -> Callable[[ContentPackage], Score]:
    """Return a function that scores packages at the time `now`. Packages from the future have a recency of 1."""
    of_priority, of_importance, of_recency = weights.priority, weights.importance, weights.recency
    of_relevance, of_merit = weights.relevance, of_priority + of_importance + of_recency
    multiplies, days = weights.multiply_by_relevance, weights.recency_days

    def score(package: ContentPackage) -> Score:
        priority, importance = package.flex.priority / MAX_PRIORITY, package.importance
        relevance = NEUTRAL_RELEVANCE if package.relevance is None else package.relevance
        age_days = (now - package.timestamp) / SECONDS_PER_DAY
        recency = exp(-age_days / days) if age_days > 0 else 1.0
        merit = of_priority * priority + of_importance * importance + of_recency * recency
        total = relevance * merit / of_merit if multiplies else merit + of_relevance * relevance
        return Score(total, priority, importance, relevance, recency)

    return score
