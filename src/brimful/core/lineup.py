"""Who waits for which pool, the best first: what is the same for every fill of one pile, whatever the budget."""

from collections.abc import Sequence

import msgspec

from brimful.core.dedupe import Unique, same_content
from brimful.core.policy import Policy, Pool
from brimful.core.select import ranked
from brimful.core.substitute import set_aside
from brimful.core.unit import Unit


class Queue(msgspec.Struct, frozen=True):
    """The candidates of one pool: as they came, in the pool's order, and in that order without those said twice."""

    pool: Pool
    waiting: list[Unit]
    ranking: list[Unit]
    unique: Unique

    def beside(self, inside: dict[str, str]) -> Unique:
        """Return who is left when nothing may be said again that is `inside`: normalized texts, and who has them."""
        if inside.keys().isdisjoint(self.unique.owners.keys()):
            return self.unique
        return same_content(self.ranking, inside, everything=self.pool.dedupe == "all")


class Lineup(msgspec.Struct, frozen=True):
    """All candidates: those that may not be dropped, the others by pool, and the summaries held ready for clusters."""

    fixed: list[Unit]
    queues: dict[str, Queue]
    summaries: dict[str, list[Unit]]


def line_up(units: Sequence[Unit], policy: Policy) -> Lineup:
    """Put each unit in its place."""
    candidates, summaries = set_aside(units)
    fixed: list[Unit] = []
    waiting: dict[str, list[Unit]] = {pool.name: [] for pool in policy.pools}
    for unit in candidates:
        (fixed if unit.fixed else waiting[unit.pool]).append(unit)
    return Lineup(fixed, {pool.name: queue_of(pool, waiting[pool.name]) for pool in policy.pools}, summaries)


def queue_of(pool: Pool, waiting: list[Unit]) -> Queue:
    """Put the candidates of one pool in its order."""
    ranking = ranked(pool, waiting)
    if pool.dedupe == "id":
        return Queue(pool, waiting, ranking, Unique(ranking, [], {}))
    return Queue(pool, waiting, ranking, same_content(ranking, {}, everything=pool.dedupe == "all"))
