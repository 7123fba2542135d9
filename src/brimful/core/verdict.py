"""Why each candidate of a pool is in or out, once the fill is done."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import inf

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
    cut = max((ranks.get(key, 0) for key in account.chosen), default=0)
    required = account.use.items - sum(unit.items for unit in account.chosen.values())
    least = {unit.key for unit in account.order[: max(0, account.pool.least - required)]}
    decisions: list[Decision] = []
    out: list[Unit] = []
    for unit in candidates:
        key = unit.key
        if key in account.chosen:
            reason = account.reasons.get(key, "least" if key in least else "fits")
            decisions += account.chosen[key].decisions("kept", reason, rank=ranks.get(key, 0), cut=cut)
        elif key in account.swapped and account.swapped[key].key in standing:
            by = account.swapped[key].key
            decisions += unit.decisions("replaced", "summary", by=by, rank=ranks.get(key, 0), cut=cut)
        elif key not in account.duplicates:
            out.append(unit)
    return decisions + _dropped(account, out, ranks, cut)


def _dropped(account: Account, units: Sequence[Unit], ranks: Mapping[str, int], cut: int) -> list[Decision]:
    """Return the decisions on what is out. Of a large pile that is most, so single packages take a short way."""
    pool, why = account.pool.name, _why_out(account, cut)
    single = [
        Decision(
            id=unit.key,
            kind=unit.packages[0].kind,
            outcome="dropped",
            reason=why(unit, rank),
            tokens=unit.packages[0].tokens.tokens,
            pool=pool,
            score=unit.score,
            rank=rank,
            cut=cut,
        )
        for unit, rank in ((unit, ranks.get(unit.key, 0)) for unit in units)
        if len(unit.packages) == 1
    ]
    for unit in units:
        if len(unit.packages) > 1:
            rank = ranks.get(unit.key, 0)
            single += unit.decisions("dropped", why(unit, rank), rank=rank, cut=cut)
    return single


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
        order = sorted(order, key=lambda unit: -unit.score.total / (unit.cost or 1))
    return {unit.key: at for at, unit in enumerate(order, start=1)}


def _why_out(account: Account, cut: int) -> Callable[[Unit, int], Reason]:
    """Return a function that says why a unit of some rank is out; the pool's numbers are looked up once."""
    pool, use, reasons, stepped = account.pool, account.use, account.reasons, account.stepped
    room_for_items = inf if pool.most is None else pool.most - use.items
    last = cut + 1 if pool.contiguous else inf
    left = max(use.limit, use.used) - use.used
    most = use.most

    def why(unit: Unit, rank: int) -> Reason:
        if reasons and reasons.get(unit.key) == "trimmed":
            return "trimmed"
        if len(unit.packages) > room_for_items:
            return "most"
        if rank > last:
            return "older"
        if stepped:
            return "low-water"
        if unit.cost > most:
            return "too-large"
        return "pool-full" if unit.cost > left else "window-full"

    return why
