"""The candidates of each pool, best first. They are the same for every fill, whatever the budget."""

from collections.abc import Sequence

import msgspec

from brimful.core.dedupe import Deduplicated, dedupe_by_content
from brimful.core.policy import Policy, Pool
from brimful.core.select import rank_units
from brimful.core.substitute import split_summaries
from brimful.core.units import Unit


class Queue(msgspec.Struct, frozen=True):
    """The candidates of one pool: as given, in the pool's order, and in that order without duplicates."""

    pool: Pool
    waiting: list[Unit]
    ranking: list[Unit]
    unique: Deduplicated

    def without_duplicates(self, included: dict[str, str]) -> Deduplicated:
        """Return the candidates without duplicates of each other or of `included`: ids by normalized hash."""
        if included.keys().isdisjoint(self.unique.owners.keys()):
            return self.unique
        return dedupe_by_content(self.ranking, included, everything=self.pool.dedupe == "all")


class Queues(msgspec.Struct, frozen=True):
    """All candidates: required ones, the others by pool, and summaries that may replace clusters."""

    fixed: list[Unit]
    queues: dict[str, Queue]
    summaries: dict[str, list[Unit]]


def make_queues(units: Sequence[Unit], policy: Policy) -> Queues:
    """Sort units into required ones, pools and summaries."""
    candidates, summaries = split_summaries(units)
    fixed: list[Unit] = []
    waiting: dict[str, list[Unit]] = {pool.name: [] for pool in policy.pools}
    for unit in candidates:
        (fixed if unit.fixed else waiting[unit.pool]).append(unit)
    return Queues(fixed, {pool.name: make_queue(pool, waiting[pool.name]) for pool in policy.pools}, summaries)


def make_queue(pool: Pool, waiting: list[Unit]) -> Queue:
    """Rank and deduplicate the candidates of one pool."""
    ranking = rank_units(pool, waiting)
    if pool.dedupe == "id":
        return Queue(pool, waiting, ranking, Deduplicated(ranking, [], {}))
    return Queue(pool, waiting, ranking, dedupe_by_content(ranking, {}, everything=pool.dedupe == "all"))
