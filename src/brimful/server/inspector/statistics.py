"""Usage statistics over a period, with costs."""

import asyncio
from collections.abc import Callable

from brimful.errors import MissingExtra
from brimful.models import Spending, spending
from brimful.records.base import parse_duration
from brimful.records.statistics import Statistics
from brimful.server.errors import ApiError
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import StatisticsQuery
from brimful.server.inspector.records import to_view
from brimful.server.inspector.views import View
from brimful.server.tenants import Tenants


class StatisticsView(Statistics, frozen=True, kw_only=True):
    """Figures, with what the answers cost, and what was saved against sending everything in no cache, in US dollars.

    Both are null where the price of no model is known.
    """

    cost: float | None
    saved: float | None


class StatisticsList(View, frozen=True, kw_only=True):
    """Figures of a time, one for each group that was asked for."""

    statistics: tuple[StatisticsView, ...]


class StatisticsEndpoint:
    """Tells figures."""

    def __init__(self, tenants: Tenants, *, clock: Callable[[], float]) -> None:
        """Take the stores, and what tells the time."""
        self._tenants = tenants
        self._clock = clock

    async def told(self, inquiry: Call) -> StatisticsList:
        """Tell the figures of a time."""
        query: StatisticsQuery = inquiry.query
        since = self._since(query)
        if since is not None and query.until is not None and since > query.until:
            raise ApiError("invalid", "until: is before the time begins: there is nothing between", param="until")
        found = await self._tenants.store(inquiry.tenant).statistics(
            since=since, until=query.until, persona=query.persona, room=query.room, by=query.by
        )
        return StatisticsList(statistics=tuple(await asyncio.to_thread(lambda: list(map(_statistics_view, found)))))

    def _since(self, query: StatisticsQuery) -> float | None:
        if query.last is None:
            return query.since
        if query.since is not None:
            raise ApiError("invalid", "last: give `last` or `since`, and not both", param="last")
        return self._clock() - parse_duration(query.last, "last")


def _statistics_view(figures: Statistics) -> StatisticsView:
    spent = _spending(figures)
    cost, saved = (None, None) if spent is None else (float(spent.cost), float(spent.saved + spent.saved_by_cache))
    return to_view(StatisticsView, figures, cost=cost, saved=saved)


def _spending(figures: Statistics) -> Spending | None:
    try:
        return spending(figures.models)
    except MissingExtra:  # prices are an extra: without it, none is known
        return None
