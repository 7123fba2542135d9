"""Priority, importance, relevance and recency: one number, and its parts."""

import math

import msgspec

from brimful.core.content import HIGHEST_PRIORITY, ContentPackage
from brimful.core.policy import Weights

NEUTRAL_RELEVANCE = 0.5  # for what was not searched for
SECONDS_A_DAY = 86_400.0


class Score(msgspec.Struct, frozen=True, gc=False):
    """The whole and the four parts as they were before weighting, each from 0 to 1."""

    total: float
    priority: float
    importance: float
    relevance: float
    recency: float


def score(package: ContentPackage, weights: Weights, now: float) -> Score:
    """Score a package at the time `now`. What lies in the future is as recent as can be."""
    priority = package.flex.priority / HIGHEST_PRIORITY
    relevance = NEUTRAL_RELEVANCE if package.relevance is None else package.relevance
    age_days = (now - package.timestamp) / SECONDS_A_DAY
    recency = math.exp(-age_days / weights.recency_days) if age_days > 0 else 1.0
    merit = weights.priority * priority + weights.importance * package.importance + weights.recency * recency
    if weights.relevance_multiplies:
        total = relevance * merit / (weights.priority + weights.importance + weights.recency)
    else:
        total = merit + weights.relevance * relevance
    return Score(total, priority, package.importance, relevance, recency)
