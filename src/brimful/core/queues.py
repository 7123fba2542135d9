"""The candidates of each pool, best first. They are the same for every fill, whatever the budget."""

from collections.abc import Sequence

import msgspec

from brimful.core.dedupe import Deduplicated, dedupe_by_content
from brimful.core.policy import Policy, Pool
from brimful.core.select import rank_units
from brimful.core.substitute import split_summaries
from brimful.core.units import Unit


class Queue(msgspec.Struct, frozen=True):
    """The candidates of one pool: as they came, in the pool's order, and in that order without those said twice."""

    pool: Pool
    waiting: list[Unit]
    ranking: list[Unit]
    unique: Deduplicated

    def beside(self, inside: dict[str, str]) -> Deduplicated:
        """Return who is left when nothing may be said again that is `inside`: normalized texts, and who has them."""
        if inside.keys().isdisjoint(self.unique.owners.keys()):
            return self.unique
        return dedupe_by_content(self.ranking, inside, everything=self.pool.dedupe == "all")


class Queues(msgspec.Struct, frozen=True):
    """All candidates: those that may not be dropped, the others by pool, and the summaries held ready for clusters."""

    fixed: list[Unit]
    queues: dict[str, Queue]
    summaries: dict[str, list[Unit]]


def make_queues(units: Sequence[Unit], policy: Policy) -> Queues:
    """Put each unit in its place."""
    candidates, summaries = split_summaries(units)
    fixed: list[Unit] = []
    waiting: dict[str, list[Unit]] = {pool.name: [] for pool in policy.pools}
    for unit in candidates:
        (fixed if unit.fixed else waiting[unit.pool]).append(unit)
    return Queues(fixed, {pool.name: make_queue(pool, waiting[pool.name]) for pool in policy.pools}, summaries)


def make_queue(pool: Pool, waiting: list[Unit]) -> Queue:
    """Put the candidates of one pool in its order."""
    ranking = rank_units(pool, waiting)
    if pool.dedupe == "id":
        return Queue(pool, waiting, ranking, Deduplicated(ranking, [], {}))
    return Queue(pool, waiting, ranking, dedupe_by_content(ranking, {}, everything=pool.dedupe == "all"))
