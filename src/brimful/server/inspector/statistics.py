"""Usage statistics over a period, with their cost."""

from collections.abc import Callable

from brimful.records.base import parse_duration
from brimful.records.own_calls import OwnSpending
from brimful.records.statistics import Statistics
from brimful.server.errors import ApiError
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import StatisticsQuery, cut_page
from brimful.server.inspector.views import View, find_spending, to_view
from brimful.server.tenants import Tenants
from brimful.threads import run_in_thread


class StatisticsView(Statistics, frozen=True, kw_only=True):
    """Statistics with the cost of answers, and savings compared to sending everything uncached, in US dollars.

    Both are null if no price is known.
    """

    cost: float | None
    saved: float | None


class StatisticsList(View, frozen=True, kw_only=True):
    """Statistics of a period, one per group, and what the tenant's own calls of models spent since its first day.

    `next` continues the list of groups; null at its end.
    """

    statistics: tuple[StatisticsView, ...]
    next: int | None
    own_calls: OwnSpending


class StatisticsEndpoint:
    """The endpoint for statistics."""

    def __init__(self, tenants: Tenants, *, clock: Callable[[], float]) -> None:
        self._tenants = tenants
        self._clock = clock

    async def show(self, call: Call) -> StatisticsList:
        query: StatisticsQuery = call.query
        since = self._since(query)
        if since is not None and query.until is not None and since > query.until:
            raise ApiError("invalid", "until: must not be before the start", param="until")
        groups = await self._tenants.store(call.tenant).statistics(
            since=since,
            until=query.until,
            persona=query.persona,
            room=query.room,
            user=query.user,
            key=query.key,
            by=query.by,
        )
        page, following = cut_page(groups[query.after :], query)
        views = await run_in_thread(lambda: tuple(map(_statistics_view, page)))
        spent = await self._tenants.store(call.tenant).own_spending(now=self._clock(), since=since)
        return StatisticsList(statistics=views, next=following, own_calls=spent)

    def _since(self, query: StatisticsQuery) -> float | None:
        if query.last is None:
            return query.since
        if query.since is not None:
            raise ApiError("invalid", "last: use either `last` or `since`", param="last")
        return self._clock() - parse_duration(query.last, "last")


def _statistics_view(statistics: Statistics) -> StatisticsView:
    costs = find_spending(statistics)
    cost, saved = (None, None) if costs is None else (float(costs.cost), float(costs.saved + costs.saved_by_cache))
    return to_view(StatisticsView, statistics, cost=cost, saved=saved)
