"""Fill the window: choose the units that get in.

    required units ─► each pool in turn ─► trim steps ─► pools that borrow, again ─► summaries ─► duplicates ─► media

Each stage is a function from a state to the next one. A pool is filled by one of three strategies: the part of a
conversation that goes on, units in order or as a best set (both in `history` and `select`), or an agent's steps with a
ledger. The state has a `Pick` for each pool, which later stages replace.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from math import inf
from typing import Any

import msgspec

from brimful.core.budget import ContextBudget
from brimful.core.candidates import confirmed_duplicates, content_owners, find_copies
from brimful.core.cost import role_of
from brimful.core.decision import Reason
from brimful.core.forms import Shaper
from brimful.core.history import Choice, Setting, choose_units, choose_with_ledger, find_spare, find_task, replaced_by
from brimful.core.ledger import LedgerWriter
from brimful.core.media import charge_lines, choose_media, is_media, line_costs
from brimful.core.policy import Policy, Pool
from brimful.core.select import (
    NEWEST_SHARE,
    Allowance,
    Queue,
    Queues,
    drop_worst,
    grow_shrunk,
    make_queue,
    rank_units,
    take_within,
)
from brimful.core.selection import (
    BaseCost,
    HistoryStart,
    LedgerState,
    PoolAccount,
    PoolUse,
    Selection,
    make_budget_error,
)
from brimful.core.substitute import Clusters, apply_swaps, find_swaps, make_clusters, take_until_saved
from brimful.core.units import Unit, count_items, total_cost, with_heading_costs
from brimful.core.worth import Balance

_STAND_IN_SHARE = 0.25  # of a pool that is trimmed, for which summaries may displace what they do not cover


def fill(
    queues: Queues,
    policy: Policy,
    budget: ContextBudget,
    *,
    base: BaseCost,
    shaper: Shaper,
    writer: LedgerWriter,
    previous: HistoryStart | None = None,
    retrieved: Mapping[str, int] | None = None,
) -> Selection:
    """Choose the units that get in. In a tool loop, `retrieved` are the search results of the question."""
    candidates = chain(queues.fixed, *(queue.waiting for queue in queues.queues.values()))
    histories = (pool.name for pool in policy.pools if pool.contiguous)
    state = _State(
        policy=policy,
        budget=budget,
        base=base,
        shaper=shaper,
        writer=writer,
        previous=previous,
        retrieved=retrieved,
        waiting_media=queues.media,
        queues=queues.queues,
        clusters=make_clusters(candidates, queues.summaries, histories),
        fixed=queues.fixed,
        picks={pool.name: Pick() for pool in policy.pools},
    )
    state = _require(state)
    for pool in policy.pools:
        state = _fill_pool(state, pool)
    state = _trim(state)
    if any(pool.borrow for pool in policy.pools):
        for pool in policy.pools:
            state = _fill_again(state, pool)
    state = _represent(state, within_total=True)
    for pool in policy.pools:
        state = _reconsider(state, pool)
    return _make_selection(_add_media(_grow_required(state)))


def find_needed(queues: Queues, policy: Policy, base: BaseCost, writer: LedgerWriter) -> int:
    """Return how many tokens must be available so that no required unit is shortened."""
    spare = (
        find_spare(
            pool,
            queues.queues[pool.name].unique.units,
            [unit for unit in queues.fixed if unit.pool == pool.name],
            writer,
        )
        for pool in policy.pools
        if pool.ledger
    )
    return base.full + total_cost(queues.fixed) + max(spare, default=0)


def _shrink_order(unit: Unit) -> tuple[bool, bool, float, str]:
    """Return the sort key by which required units are shrunk: what the user wrote comes last, unless it says it may.

    The user's media come before the user's words.
    """
    return _is_from_user(unit), not is_media(unit.packages[0]), unit.score.total, unit.key


def _is_from_user(unit: Unit) -> bool:
    return any(role_of(each) == "user" and each.flex.min_tokens is None for each in unit.packages)


class Pick(msgspec.Struct, frozen=True, kw_only=True):
    """What is chosen for a pool so far, and why.

    `room` is what it could use, `limited` the pool with the minimum that its limits for history ask for, and `limits`
    says what these kept out. `borrowed` tokens came from other pools.
    """

    room: Allowance | None = None
    order: Sequence[Unit] = ()
    chosen: list[Unit] = []
    duplicates: Sequence[tuple[Unit, str]] = ()
    reasons: dict[str, Reason] = {}
    limited: Pool | None = None
    limits: Mapping[str, Reason] = {}
    stepped: bool = False
    continued: bool = False
    divided: bool = False
    borrowed: int = 0
    ledger: LedgerState | None = None

    def with_reason(self, keys: Iterable[str], reason: Reason) -> dict[str, Reason]:
        """Return the reasons, with this one for some of the units."""
        return self.reasons | dict.fromkeys(keys, reason)

    def choose(self, choice: Choice, room: Allowance, duplicates: Sequence[tuple[Unit, str]]) -> "Pick":
        """Return the pick after another choice. That history made a step, or went on, stays true."""
        return msgspec.structs.replace(
            self,
            room=room,
            order=choice.order,
            chosen=choice.chosen,
            duplicates=[*duplicates, *choice.copies],
            limited=choice.limited or self.limited,
            limits=choice.limits or self.limits,
            stepped=self.stepped or choice.stepped,
            continued=self.continued or choice.continued,
            divided=self.divided if choice.divided is None else choice.divided,
            ledger=choice.ledger,
        )


class _State(msgspec.Struct, frozen=True, kw_only=True):
    """A fill so far: required units, a pick for each pool, and media. Each stage returns the next state.

    `queues` hold the candidates by pool, and `clusters` the summaries that may stand in for others. Pools that are
    `final` are not filled again. `replaced` maps units to the summaries or the ledger that replaced them.
    """

    policy: Policy
    budget: ContextBudget
    base: BaseCost
    shaper: Shaper
    writer: LedgerWriter
    previous: HistoryStart | None
    retrieved: Mapping[str, int] | None
    waiting_media: Sequence[Unit]
    queues: Mapping[str, Queue]
    clusters: Clusters
    fixed: Sequence[Unit]
    picks: Mapping[str, Pick]
    media: Sequence[tuple[Unit, Reason]] = ()
    final: frozenset[str] = frozenset()
    replaced: Mapping[str, Unit] = {}

    @property
    def total(self) -> int:
        media = sum(unit.cost for unit, _ in self.media)
        base = self.base.full if media or any(pick.chosen for pick in self.picks.values()) else self.base.required
        return base + total_cost(self.fixed) + sum(total_cost(pick.chosen) for pick in self.picks.values()) + media

    @property
    def inside(self) -> list[Unit]:
        return [*self.fixed, *(unit for pick in self.picks.values() for unit in pick.chosen)]

    def others(self, pool: Pool) -> list[Unit]:
        return [unit for name, pick in self.picks.items() if name != pool.name for unit in pick.chosen]

    def fixed_in(self, pool: Pool) -> list[Unit]:
        return [unit for unit in self.fixed if unit.pool == pool.name]

    def texts(self, pool: Pool) -> set[str]:
        """Return the normalized hashes of required units and of units in other pools."""
        return set(content_owners([*self.fixed, *self.others(pool)]))

    def duplicates(self, pool: Pool) -> list[tuple[Unit, str]]:
        """Return the duplicates of a pool whose originals are in."""
        duplicates = self.picks[pool.name].duplicates
        return confirmed_duplicates(list(duplicates), self.inside) if duplicates else []

    def room(self, pool: Pool, *, own_limit: bool = True, within_total: bool = True) -> Allowance:
        """Return what the pool may use, besides its required units and the units of other pools."""
        fixed = self.fixed_in(pool)
        others = sum(total_cost(pick.chosen) for name, pick in self.picks.items() if name != pool.name)
        total = self.base.full + total_cost(self.fixed) + others
        limit = self.budget.limit(pool.name) - total_cost(fixed)
        left = self.budget.available - total
        tokens = min([limit] * own_limit + [left] * within_total)
        hard = self.budget.hard_limit - total
        items = count_items(fixed)
        return Allowance(tokens=tokens, hard=hard, items=items, price=self.policy.token_price)

    def change(self, **changes: Any) -> "_State":
        """Return the state with other values of some fields."""
        return msgspec.structs.replace(self, **changes)

    def with_pick(self, pool: Pool, **changes: Any) -> "_State":
        """Return the state with changes to the pick of a pool."""
        pick = msgspec.structs.replace(self.picks[pool.name], **changes)
        return self.change(picks={**self.picks, pool.name: pick})


# -- stages ----------------------------------------------------------------------------------------------------------


def _require(state: _State) -> _State:
    """Add the required units. If they do not fit, shrink those that may shrink, the user's own words last.

    They may use the safety margin only in full. What others wrote leaves room for more than itself: in an agent's
    run when its pool is filled, or else now.
    """
    if state.total <= state.budget.hard_limit:
        return state
    has_ledger = any(pool.ledger for pool in state.policy.pools)
    fixed, over = list(state.fixed), state.total - state.budget.available
    for index, unit in sorted(enumerate(fixed), key=lambda row: _shrink_order(row[1])):
        if over <= 0:
            break
        left = unit.cost - over
        limit = left if has_ledger or _is_from_user(unit) else int(left * NEWEST_SHARE)
        smaller = state.shaper.shrink(unit, limit) or state.shaper.smallest(unit)
        if smaller is not None:
            fixed[index] = smaller
            over -= unit.cost - smaller.cost
    state = state.change(fixed=fixed)
    if state.total > state.budget.hard_limit:
        raise make_budget_error(fixed, state.budget, state.base, state.total)
    return state


def _grow_required(state: _State) -> _State:
    """Give the rest of the window to required units that were shrunk, but not to media that are not sent.

    A task keeps its share.
    """
    if any(pool.ledger for pool in state.policy.pools):
        return state  # the next request has the same text, and room for more
    others = [unit for unit in state.fixed if unit.fixed and not (unit.tie and unit.tie.reason)]
    keys = {unit.key for unit in others}
    rest = [unit for unit in state.fixed if unit.key not in keys]
    return state.change(fixed=[*grow_shrunk(others, state.budget.available - state.total, state.shaper), *rest])


def _fill_pool(state: _State, pool: Pool) -> _State:
    """Fill one pool up to its limit. If the policy trims later, other pools do not count yet."""
    state = _release(state, pool)
    if pool.task_share:
        state = _keep_task(state, pool)
    room = state.room(pool, within_total=not state.policy.trim)
    state = _pick(state, pool, room, _balance(state, pool) if pool.need else None)
    is_final = not pool.borrow or state.picks[pool.name].continued
    return state.change(final=state.final | {pool.name}) if is_final else state


def _keep_task(state: _State, pool: Pool) -> _State:
    """Add the task of an agent without tools, within its share of the pool, before older turns are dropped."""
    room, forms = state.room(pool).tokens, dict(state.previous.forms if state.previous else ())
    waiting, fixed = state.queues[pool.name].waiting, state.fixed_in(pool)
    # If a first request fits, there is nothing to choose. A later one goes on with the form that the task had.
    if state.previous is None and total_cost(waiting) <= room:
        return state
    share, kept = int(pool.task_share * (room + total_cost(fixed))), dict[str, Unit]()
    for unit in find_task([*waiting, *fixed]):
        taken: Unit | None = unit
        if unit.cost > min(share, room):
            limit = min(forms.get(unit.key, share), room)
            taken = state.shaper.shrink(unit, limit) if unit.may_shrink else None
        if taken is not None and not unit.fixed:
            kept[unit.key] = taken
            share, room = share - taken.cost, room - taken.cost
    queue = make_queue(pool, [unit for unit in waiting if unit.key not in kept])
    return state.change(fixed=[*state.fixed, *kept.values()], queues={**state.queues, pool.name: queue})


def _fill_again(state: _State, pool: Pool) -> _State:
    """Fill a pool again: with all that is left of the window if it borrows, and with summaries released since."""
    before, room = state.picks[pool.name], state.room(pool, own_limit=not pool.borrow)
    released = _release(state, pool)
    has_more = released is not state or (pool.borrow and room != before.room)
    state = released.change(final=released.final | {pool.name})
    if before.continued or not has_more:
        return state
    state = _pick(state, pool, room)
    if not pool.borrow:
        return state
    old, pick = {unit.key for unit in before.chosen}, state.picks[pool.name]
    reasons = pick.with_reason((unit.key for unit in pick.chosen if unit.key not in old), "borrowed")
    used = total_cost(pick.chosen) + total_cost(state.fixed_in(pool))
    return state.with_pick(pool, reasons=reasons, borrowed=max(0, used - state.budget.limit(pool.name)))


def _trim(state: _State) -> _State:
    """Take the trim steps in order until the whole fits. Minimum items are dropped last, and only if necessary.

    What a step drops is represented by its summary, so summaries are dropped only if nothing else is left to drop.
    """
    policy, budget = state.policy, state.budget
    if not policy.trim:
        return state
    state = _represent(_trim_protected(state), within_total=False)
    for step in policy.trim:
        over = state.total - budget.available
        if over > 0 and step.summarize is not None:
            state = _summarize_chosen(state, policy.pool(step.summarize), over)
        elif over > 0 and step.drop is not None:
            pool = policy.pool(step.drop)
            state = _drop_worst(state, pool, over, spare=pool.min_items)
    pools = [policy.pool(step.drop) for step in policy.trim if step.drop is not None]
    for pool in pools:
        state = _drop_summaries(state, pool, state.total - budget.available)
    for pool in pools:
        if (over := state.total - budget.hard_limit) > 0:
            state = _drop_worst(state, pool, over, spare=0)
    for pool in pools if state.replaced else ():
        state = _restore(state, pool)
    return state


def _represent(state: _State, *, within_total: bool) -> _State:
    """Let summaries stand in for clusters that did not get in.

    A best set has chosen among them by their worth, and history with a stable prefix has done so in its own way.
    """
    for pool in state.policy.pools if state.clusters.summaries else ():
        if not pool.optimize and pool.low_water is None and pool.ledger is None:
            room = state.room(pool, own_limit=not (pool.borrow and within_total), within_total=within_total)
            over = total_cost(state.picks[pool.name].chosen) - room.tokens
            state = _drop_worst(state, pool, over, spare=pool.min_items)
    return state


def _reconsider(state: _State, pool: Pool) -> _State:
    """Add a duplicate after all if its original did not get in and there is room."""
    pick = state.picks[pool.name]
    if pool.contiguous or not pick.duplicates or state.retrieved is not None:
        return state
    true = {unit.key for unit, _ in state.duplicates(pool)}
    price = state.policy.token_price if pool.optimize else 0.0
    waiting = [unit for unit, _ in pick.duplicates if unit.key not in true and unit.is_worth(price)]
    room = state.room(pool, own_limit=not pool.borrow)
    items = room.items + count_items(pick.chosen)
    most = inf if pool.max_items is None else pool.max_items - items
    added = _find_fitting(pick.chosen, waiting, room.tokens, most, set(content_owners(state.inside)))
    return state.with_pick(pool, chosen=[*pick.chosen, *added])


def _add_media(state: _State) -> _State:
    """Add media of included messages in the remaining room: media are left out before any message is.

    Media of history keep the form that they had in the previous context, until history is trimmed or the current
    message asks about them.
    """
    if not state.waiting_media:
        return state
    inside = state.inside
    messages = {package.id for unit in inside for package in unit.packages}
    waiting = [(unit, unit.tie) for unit in state.waiting_media if unit.tie and unit.tie.message in messages]
    has_stepped = any(pick.stepped for pick in state.picks.values())
    keeps = not has_stepped and state.policy.media.when != "never"
    # A trim changes the prefix anyway, so media may take another form then without another cache miss.
    before = dict(state.previous.media) if state.previous and keeps else {}
    rooms = {pool.name: _media_room(state, pool) for pool in state.policy.pools}
    left = state.budget.available - state.base.full - total_cost(inside)
    return state.change(media=list(choose_media(waiting, before, rooms, left, state.shaper.shrink)))


def _media_room(state: _State, pool: Pool) -> tuple[float, float]:
    """Return the tokens and items that media may still take of their pool."""
    inside = [*state.picks[pool.name].chosen, *state.fixed_in(pool)]
    tokens = inf if pool.borrow else state.budget.limit(pool.name) - total_cost(inside)
    items = inf if pool.max_items is None else pool.max_items - count_items(inside)
    return tokens, items


# -- one pool --------------------------------------------------------------------------------------------------------


def _pick(state: _State, pool: Pool, room: Allowance, balance: Balance | None = None) -> _State:
    """Choose the units of a pool, and drop what repeats its turns, here and in other pools."""
    state = _choose(state, pool, room, balance)
    turns = state.picks[pool.name].chosen
    for other in state.policy.pools:
        pick = state.picks[other.name]
        if copies := find_copies(pick.chosen, turns) if other.dedupe != "id" else []:
            gone = {unit.key for unit, _ in copies}
            chosen = [unit for unit in pick.chosen if unit.key not in gone]
            state = state.with_pick(other, chosen=chosen, duplicates=[*pick.duplicates, *copies])
    return state


def _choose(state: _State, pool: Pool, room: Allowance, balance: Balance | None) -> _State:
    unique = state.queues[pool.name].unique
    if unique.owners:  # otherwise this pool has no duplicates
        unique = state.queues[pool.name].without_duplicates(content_owners([*state.fixed, *state.others(pool)]))
    setting = Setting(
        room=room,
        fixed=state.fixed,
        shaper=state.shaper,
        summaries=state.clusters.summaries,
        texts=partial(state.texts, pool),
        high_water=partial(_high_water, state, pool, room),
        balance=balance,
        min_tokens=int(state.budget.limit(pool.name) * pool.need.min_share) if pool.need else 0,
        previous=state.previous,
        retrieved=state.retrieved,
    )
    if pool.ledger is not None:
        choice = choose_with_ledger(pool, unique.units, setting, state.writer)
    else:
        choice = choose_units(pool, unique.units, setting)
    return state.change(
        picks={**state.picks, pool.name: state.picks[pool.name].choose(choice, room, unique.duplicates)},
        fixed=[choice.shrunk.get(unit.key, unit) for unit in state.fixed],
        replaced={**state.replaced, **choice.replaced},
    )


def _balance(state: _State, pool: Pool) -> Balance:
    """Weigh the turns of a pool against the search results in later pools."""
    results = [
        unit for other in _later(state, pool) if other.optimize for unit in state.queues[other.name].unique.units
    ]
    room = state.room(pool, own_limit=False)
    return Balance(state.queues[pool.name].ranking, results, room.tokens, state.policy.token_price)


def _high_water(state: _State, pool: Pool, room: Allowance) -> int:
    """Return the pool's room plus what the pools after it are certain to leave."""
    if not pool.borrow:
        return room.tokens
    demand = sum(_demand(state, other) for other in _later(state, pool))
    return max(room.tokens, state.room(pool, own_limit=False).tokens - demand)


def _later(state: _State, pool: Pool) -> Sequence[Pool]:
    return state.policy.pools[state.policy.pools.index(pool) + 1 :]


def _demand(state: _State, pool: Pool) -> int:
    """Return the most that a pool could use: its limit, or all of its candidates that would fit."""
    limit = state.budget.limit(pool.name)
    price = state.policy.token_price if pool.optimize else 0.0
    waiting = (unit for unit in state.queues[pool.name].waiting if unit.may_shrink or unit.is_worth(price))
    return min(limit, total_cost([unit for unit in waiting if unit.cost <= limit]))


def _find_fitting(
    chosen: Sequence[Unit], units: Iterable[Unit], tokens: int, items: float = inf, texts: set[str] | None = None
) -> list[Unit]:
    """Return the units that fit beside the `chosen` ones, in this order. A text is added once.

    `texts` are the normalized hashes of included texts. Without them, texts do not count.
    """
    added: list[Unit] = []
    left, headings = tokens - total_cost(chosen), {unit.heading for unit in chosen}
    for unit in units:
        cost = unit.cost + unit.heading_due(headings)
        if items <= 0 or cost > left or (texts is not None and unit.packages[0].normalized_hash in texts):
            continue
        added.append(unit)
        headings.add(unit.heading)
        left, items = left - cost, items - unit.items
        if texts is not None:
            texts.update(content_owners([unit]))
    return added


# -- summaries -------------------------------------------------------------------------------------------------------


def _summarize_chosen(state: _State, pool: Pool, over: int) -> _State:
    chosen = state.picks[pool.name].chosen
    elsewhere = content_owners(state.inside) if state.clusters.summaries else ()
    taken = take_until_saved(find_swaps(chosen, state.clusters.summaries, elsewhere=elsewhere), over)
    state = state.with_pick(pool, chosen=rank_units(pool, apply_swaps(chosen, taken)))
    return state.change(replaced={**state.replaced, **replaced_by(taken)})


def _release(state: _State, pool: Pool) -> _State:
    """Let summaries of clusters that stayed out compete for a best set. Without any, return the same state."""
    if not state.clusters.summaries or not pool.optimize:
        return state
    inside = {unit.key for unit in state.inside}
    inside |= {key for key, summary in state.replaced.items() if summary.key in inside}
    clusters, released = state.clusters.release(pool.name, state.final, inside)
    if not released:
        return state
    queue = make_queue(pool, [*state.queues[pool.name].waiting, *released])
    return state.change(clusters=clusters, queues={**state.queues, pool.name: queue})


def _stand_ins(state: _State, pool: Pool, dropped: Collection[str]) -> list[Unit]:
    """Return the summaries for this pool of units that are out or `dropped`, best first."""
    if not state.clusters.summaries:
        return []
    inside = [unit for unit in state.inside if unit.key not in dropped]
    return rank_units(pool, state.clusters.stand_ins(pool.name, inside, set(content_owners(inside))))


# -- trimming --------------------------------------------------------------------------------------------------------


def _trim_protected(state: _State) -> _State:
    """Drop units of pools without a trim step, but only if these pools do not fit even by themselves."""
    droppable = {step.drop for step in state.policy.trim}
    protected = [pool for pool in state.policy.pools if pool.name not in droppable]
    for pool in reversed(protected):
        alone = total_cost(state.fixed) + sum(total_cost(state.picks[other.name].chosen) for other in protected)
        if (over := state.base.full + alone - state.budget.hard_limit) > 0:
            state = _drop_worst(state, pool, over, spare=0)
    return state


def _drop_worst(state: _State, pool: Pool, over: int, spare: int) -> _State:
    """Drop the worst units of a pool until so many tokens are saved, and let summaries stand in for clusters.

    These may take the room of better units, but only a share of it: a few lines about everything are worth more
    than the last few items, and less than the best ones. Then they take the rest.
    """
    pick, fixed = state.picks[pool.name], state.fixed_in(pool)
    standing = [unit for unit in pick.chosen if unit.replaced_region]
    units = rank_units(pool, [unit for unit in pick.chosen if not unit.replaced_region])
    items = count_items([*units, *fixed]) - spare
    keep = total_cost(units) - over
    share = int((keep + total_cost(standing)) * _STAND_IN_SHARE) - total_cost(standing)
    needed = over
    while True:  # what stands in for dropped units takes room itself, so more of them may have to go
        left, dropped = drop_worst(units, needed, items, state.shaper)
        waiting = _stand_ins(state, pool, dropped)
        added = take_within(waiting, share)
        if over + total_cost(added) <= needed or not left:
            break
        needed = over + total_cost(added)
    rest = [unit for unit in waiting if unit not in added]
    added = take_within([*added, *rest], keep - total_cost(left))
    if pool.max_items is not None:
        added = added[: max(0, pool.max_items - count_items([*left, *standing, *fixed]))]
    return state.with_pick(pool, chosen=[*left, *standing, *added], reasons=pick.with_reason(dropped, "trimmed"))


def _drop_summaries(state: _State, pool: Pool, over: int) -> _State:
    """Drop summaries that stand in for others, worst first, until so many tokens are saved."""
    chosen = state.picks[pool.name].chosen
    standing = rank_units(pool, [unit for unit in chosen if unit.replaced_region])
    _, dropped = drop_worst(standing, over, len(standing), state.shaper)
    return state.with_pick(pool, chosen=[unit for unit in chosen if unit.key not in dropped])


def _restore(state: _State, pool: Pool) -> _State:
    """Take back dropped units, best first, if summaries saved more than was needed after they were dropped."""
    if pool.contiguous:
        return state  # a message that came back without its neighbors would leave a gap
    pick = state.picks[pool.name]
    represented = {summary.packages[0].cluster for summary in state.replaced.values()}
    texts = content_owners(state.inside) if state.clusters.summaries else {}
    waiting = (
        unit
        for unit in pick.order
        if pick.reasons.get(unit.key) == "trimmed"
        and unit.packages[0].cluster not in represented
        and unit.packages[0].normalized_hash not in texts
    )
    back = _find_fitting(pick.chosen, waiting, state.room(pool).tokens)
    keys = {unit.key for unit in back}
    reasons = {key: reason for key, reason in pick.reasons.items() if key not in keys}
    return state.with_pick(pool, chosen=[*pick.chosen, *back], reasons=reasons)


# -- the result ------------------------------------------------------------------------------------------------------


def _make_selection(state: _State) -> Selection:
    """Return the result of the fill."""
    used, state = state.total, _charge_lines(state)
    summaries: list[tuple[Unit, Reason]] = []
    if state.clusters.members:  # summaries that are in are credited with what they cover
        inside = state.inside
        represented = state.clusters.find_represented(inside)
        covered = {key: unit for key, unit in represented.items() if key != unit.key}
        summaries, state = state.clusters.explain(inside), state.change(replaced={**state.replaced, **covered})
    sent = {unit.key for unit, _ in state.media}
    return Selection(
        required=tuple(state.fixed),
        accounts=tuple(_make_account(state, pool) for pool in state.policy.pools),
        summaries=tuple(summaries),
        media=tuple(state.media),
        other_media=tuple(unit for unit in state.waiting_media if unit.key not in sent),
        used=used,
        divided=any(pick.divided for pick in state.picks.values()),
        ledger=next((pick.ledger for pick in state.picks.values() if pick.ledger is not None), None),
    )


def _charge_lines(state: _State) -> _State:
    """Move the cost of each line from its message, with which the fill counted it, to the media item."""
    lines = line_costs([*state.fixed, *(unit for unit, _ in state.media)])
    if not lines:
        return state
    for pool in state.policy.pools:
        state = state.with_pick(pool, chosen=[charge_lines(unit, lines) for unit in state.picks[pool.name].chosen])
    return state.change(
        fixed=[charge_lines(unit, lines) for unit in state.fixed],
        media=[(charge_lines(unit, lines), reason) for unit, reason in state.media],
    )


def _make_account(state: _State, pool: Pool) -> PoolAccount:
    pick, limit = state.picks[pool.name], state.budget.limit(pool.name)
    inside = [*state.fixed_in(pool), *(unit for unit, _ in state.media if unit.pool == pool.name)]
    return PoolAccount(
        pool=pick.limited or pool,
        use=PoolUse(
            name=pool.name,
            limit=limit,
            max_tokens=state.budget.available if pool.borrow else limit,
            used=total_cost(pick.chosen) + total_cost(inside),
            items=count_items([*pick.chosen, *inside]),
            borrowed=pick.borrowed,
        ),
        stepped=pick.stepped,
        continued=pick.continued,
        waiting=state.queues[pool.name].waiting,
        order=pick.order,
        chosen={unit.key: unit for unit in with_heading_costs(pick.chosen)},
        reasons={**pick.reasons, **pick.limits},
        replaced=state.replaced,
        duplicates=state.duplicates(pool),
        price=state.policy.token_price,
    )
