"""Usage of models over time, computed from statistics."""

from collections.abc import Iterable

from brimful.errors import MissingExtra
from brimful.models import spending
from brimful.records.statistics import PeriodUsage, Statistics


def list_usage(groups: Iterable[Statistics]) -> list[PeriodUsage]:
    """Return the usage of each day or hour of statistics."""
    return [
        PeriodUsage(
            key=each.key,
            begin=each.begin or 0.0,
            requests=each.answers.total,
            prompt=each.answers.prompt,
            cached=each.answers.cached,
            completion=each.answers.completion,
            reasoning=each.answers.reasoning,
            cost=_find_cost(each),
        )
        for each in groups
        if each.answers.total
    ]


def _find_cost(group: Statistics) -> float | None:
    try:
        spent = spending(group.models)
    except MissingExtra:  # prices are an extra
        return None
    return None if spent is None else float(spent.cost)
