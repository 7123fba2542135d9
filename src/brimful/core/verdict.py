"""Why each candidate of a pool is in or out, once the fill is done."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from brimful.core.decision import Decision, Reason
from brimful.core.policy import Pool
from brimful.core.unit import Unit


class PoolUse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a pool may take and what it took; `lent` tokens of it came from other pools.

    `most` is what it could ever take: its limit, or the whole window's where it borrows.
    """

    name: str
    limit: int
    most: int
    used: int
    items: int
    lent: int = 0


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A pool after the fill: who was considered in which order, who is in, and what was noted on the way.

    `stepped` says that history was trimmed in one large step.
    """

    pool: Pool
    use: PoolUse
    stepped: bool
    order: Sequence[Unit]
    chosen: Mapping[str, Unit]
    reasons: Mapping[str, Reason]
    swapped: Mapping[str, Unit]
    duplicates: Collection[str]


def verdicts(account: Account, candidates: Sequence[Unit], standing: Mapping[str, Unit]) -> list[Decision]:
    """Return one decision for each package of the candidates, duplicates left out. `standing` is all that is in."""
    ranks = _ranks(account)
    cut = max((rank for key, rank in ranks.items() if key in account.chosen), default=0)
    required = account.use.items - sum(unit.items for unit in account.chosen.values())
    least = {unit.key for unit in account.order[: max(0, account.pool.least - required)]}
    decisions: list[Decision] = []
    for unit in candidates:
        rank = ranks.get(unit.key, 0)
        inside = account.chosen.get(unit.key)
        summary = account.swapped.get(unit.key)
        if inside is not None:
            reason = account.reasons.get(unit.key, "least" if unit.key in least else "fits")
            decisions += inside.decisions("kept", reason, rank=rank, cut=cut)
        elif summary is not None and summary.key in standing:
            decisions += unit.decisions("replaced", "summary", by=summary.key, rank=rank, cut=cut)
        elif unit.key not in account.duplicates:
            decisions += unit.decisions("dropped", _why_out(account, unit, rank - cut), rank=rank, cut=cut)
    return decisions


def summary_verdicts(summaries: Mapping[str, Sequence[Unit]], standing: Mapping[str, Unit]) -> Iterator[Decision]:
    """Yield one decision for each summary that was held ready for a cluster."""
    for unit in (unit for units in summaries.values() for unit in units):
        inside = standing.get(unit.key)
        if inside is None:
            yield from unit.decisions("dropped", "verbatim")
        else:
            yield from inside.decisions("kept", "summary")


def _ranks(account: Account) -> dict[str, int]:
    """Return each candidate's place, from 1, in the order that decided: value per token where a best set was sought."""
    order = account.order
    if account.pool.optimize:
        order = sorted(order, key=lambda unit: (-unit.score.total / max(1, unit.cost), unit.key))
    return {unit.key: at for at, unit in enumerate(order, start=1)}


def _why_out(account: Account, unit: Unit, below: int) -> Reason:
    pool, use = account.pool, account.use
    if account.reasons.get(unit.key) == "trimmed":
        return "trimmed"
    if pool.most is not None and use.items + unit.items > pool.most:
        return "most"
    if pool.contiguous and below > 1:
        return "older"
    if account.stepped:
        return "low-water"
    if unit.cost > use.most:
        return "too-large"
    return "pool-full" if unit.cost > max(use.limit, use.used) - use.used else "window-full"
