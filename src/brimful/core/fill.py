"""Fill the window: choose the units that get in.

    required units ─► each pool in turn ─► trim steps ─► pools that borrow, again ─► summaries ─► duplicates ─► media

Each stage starts with what the one before it left. A pool is filled by one of three strategies: the part of a
conversation that goes on, units in order or as a best set (both in `history` and `select`), or an agent's steps with a
ledger. What it chose is a `Pick`, a value that later stages replace.
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
from brimful.core.substitute import apply_swaps, find_swaps, make_clusters, take_until_saved
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
    filling = _Filling(
        queues,
        policy,
        budget,
        base=base,
        shaper=shaper,
        writer=writer,
        previous=previous,
        retrieved=retrieved,
    )
    filling.require()
    for pool in policy.pools:
        filling.fill_pool(pool)
    filling.trim()
    if any(pool.borrow for pool in policy.pools):
        for pool in policy.pools:
            filling.fill_again(pool)
    filling.represent(within_total=True)
    for pool in policy.pools:
        filling.reconsider(pool)
    filling.grow_required()
    filling.add_media()
    return filling.selection()


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


class _Filling:
    """The state of one fill: required units, a pick for each pool, and media. Units are immutable."""

    def __init__(
        self,
        queues: Queues,
        policy: Policy,
        budget: ContextBudget,
        *,
        base: BaseCost,
        shaper: Shaper,
        writer: LedgerWriter,
        previous: HistoryStart | None,
        retrieved: Mapping[str, int] | None,
    ) -> None:
        self.policy = policy
        self.budget = budget
        self.base = base
        self.shaper = shaper
        self.writer = writer
        self.previous = previous
        self.retrieved = retrieved
        self.queues = dict(queues.queues)
        self.waiting_media = queues.media
        candidates = chain(queues.fixed, *(queue.waiting for queue in queues.queues.values()))
        histories = (pool.name for pool in policy.pools if pool.contiguous)
        self.clusters = make_clusters(candidates, queues.summaries, histories)
        self.fixed = list(queues.fixed)
        self.picks = {pool.name: Pick() for pool in policy.pools}
        self.media: list[tuple[Unit, Reason]] = []
        self.final: set[str] = set()  # pools that are not filled again
        self.replaced: dict[str, Unit] = {}

    # -- totals ------------------------------------------------------------------------------------------------------

    def total(self) -> int:
        media = sum(unit.cost for unit, _ in self.media)
        base = self.base.full if media or any(pick.chosen for pick in self.picks.values()) else self.base.required
        return base + total_cost(self.fixed) + sum(total_cost(pick.chosen) for pick in self.picks.values()) + media

    def inside(self) -> list[Unit]:
        return [*self.fixed, *(unit for pick in self.picks.values() for unit in pick.chosen)]

    def others(self, pool: Pool) -> list[Unit]:
        return [unit for name, pick in self.picks.items() if name != pool.name for unit in pick.chosen]

    def fixed_in(self, pool: Pool) -> list[Unit]:
        return [unit for unit in self.fixed if unit.pool == pool.name]

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

    def change(self, pool: Pool, **changes: Any) -> None:
        self.picks[pool.name] = msgspec.structs.replace(self.picks[pool.name], **changes)

    # -- stages ------------------------------------------------------------------------------------------------------

    def require(self) -> None:
        """Add the required units. If they do not fit, shrink those that may shrink, the user's own words last.

        They may use the safety margin only in full. What others wrote leaves room for more than itself: in an agent's
        run when its pool is filled, or else now.
        """
        has_ledger = any(pool.ledger for pool in self.policy.pools)
        total = self.total()
        if total <= self.budget.hard_limit:
            return
        over = total - self.budget.available
        for index, unit in sorted(enumerate(self.fixed), key=lambda row: _shrink_order(row[1])):
            if over <= 0:
                break
            left = unit.cost - over
            limit = left if has_ledger or _is_from_user(unit) else int(left * NEWEST_SHARE)
            smaller = self.shaper.shrink(unit, limit) or self.shaper.smallest(unit)
            if smaller is not None:
                self.fixed[index] = smaller
                over -= unit.cost - smaller.cost
        if self.total() > self.budget.hard_limit:
            raise make_budget_error(self.fixed, self.budget, self.base, self.total())

    def grow_required(self) -> None:
        """Give the rest of the window to required units that were shrunk, but not to media that are not sent.

        A task keeps its share.
        """
        if any(pool.ledger for pool in self.policy.pools):
            return  # the next request has the same text, and room for more
        others = [unit for unit in self.fixed if unit.fixed and not (unit.tie and unit.tie.reason)]
        keys = {unit.key for unit in others}
        rest = [unit for unit in self.fixed if unit.key not in keys]
        self.fixed = [*grow_shrunk(others, self.budget.available - self.total(), self.shaper), *rest]

    def fill_pool(self, pool: Pool) -> None:
        """Fill one pool up to its limit. If the policy trims later, other pools do not count yet."""
        self._release(pool)
        if pool.task_share:
            self._keep_task(pool)
        room = self.room(pool, within_total=not self.policy.trim)
        self._pick(pool, room, self._balance(pool) if pool.need else None)
        if not pool.borrow or self.picks[pool.name].continued:
            self.final.add(pool.name)

    def _keep_task(self, pool: Pool) -> None:
        """Add the task of an agent without tools, within its share of the pool, before older turns are dropped."""
        room, forms = self.room(pool).tokens, dict(self.previous.forms if self.previous else ())
        waiting = self.queues[pool.name].waiting
        # If a first request fits, there is nothing to choose. A later one goes on with the form that the task had.
        if self.previous is None and total_cost(waiting) <= room:
            return
        share, kept = int(pool.task_share * (room + total_cost(self.fixed_in(pool)))), dict[str, Unit]()
        for unit in find_task([*waiting, *self.fixed_in(pool)]):
            taken: Unit | None = unit
            if unit.cost > min(share, room):
                limit = min(forms.get(unit.key, share), room)
                taken = self.shaper.shrink(unit, limit) if unit.may_shrink else None
            if taken is not None and not unit.fixed:
                kept[unit.key] = taken
                share, room = share - taken.cost, room - taken.cost
        self.fixed += kept.values()
        self.queues[pool.name] = make_queue(pool, [unit for unit in waiting if unit.key not in kept])

    def fill_again(self, pool: Pool) -> None:
        """Fill a pool again: with all that is left of the window if it borrows, and with summaries released since."""
        before = self.picks[pool.name]
        room = self.room(pool, own_limit=not pool.borrow)
        more = self._release(pool)
        self.final.add(pool.name)
        has_more_room = pool.borrow and room != before.room
        if before.continued or not (has_more_room or more):
            return
        self._pick(pool, room)
        if not pool.borrow:
            return
        old, pick = {unit.key for unit in before.chosen}, self.picks[pool.name]
        reasons = pick.with_reason((unit.key for unit in pick.chosen if unit.key not in old), "borrowed")
        used = total_cost(pick.chosen) + total_cost(self.fixed_in(pool))
        self.change(pool, reasons=reasons, borrowed=max(0, used - self.budget.limit(pool.name)))

    def trim(self) -> None:
        """Take the trim steps in order until the whole fits. Minimum items are dropped last, and only if necessary.

        What a step drops is represented by its summary, so summaries are dropped only if nothing else is left to drop.
        """
        if not self.policy.trim:
            return
        self._trim_protected()
        self.represent(within_total=False)
        for step in self.policy.trim:
            over = self.total() - self.budget.available
            if over > 0 and step.summarize is not None:
                self._summarize_chosen(self.policy.pool(step.summarize), over)
            elif over > 0 and step.drop is not None:
                pool = self.policy.pool(step.drop)
                self._drop_worst(pool, over, spare=pool.min_items)
        pools = [self.policy.pool(step.drop) for step in self.policy.trim if step.drop is not None]
        for pool in pools:
            self._drop_summaries(pool, self.total() - self.budget.available)
        for pool in pools:
            if (over := self.total() - self.budget.hard_limit) > 0:
                self._drop_worst(pool, over, spare=0)
        for pool in pools if self.replaced else ():
            self._restore(pool)

    def represent(self, *, within_total: bool) -> None:
        """Let summaries stand in for clusters that did not get in.

        A best set has chosen among them by their worth, and history with a stable prefix has done so in its own way.
        """
        for pool in self.policy.pools if self.clusters.summaries else ():
            if not pool.optimize and pool.low_water is None and pool.ledger is None:
                room = self.room(pool, own_limit=not (pool.borrow and within_total), within_total=within_total)
                over = total_cost(self.picks[pool.name].chosen) - room.tokens
                self._drop_worst(pool, over, spare=pool.min_items)

    def reconsider(self, pool: Pool) -> None:
        """Add a duplicate after all if its original did not get in and there is room."""
        pick = self.picks[pool.name]
        if pool.contiguous or not pick.duplicates or self.retrieved is not None:
            return
        true = {unit.key for unit, _ in self._duplicates(pool)}
        price = self.policy.token_price if pool.optimize else 0.0
        waiting = [unit for unit, _ in pick.duplicates if unit.key not in true and unit.is_worth(price)]
        room = self.room(pool, own_limit=not pool.borrow)
        items = room.items + count_items(pick.chosen)
        most = inf if pool.max_items is None else pool.max_items - items
        self._add_fitting(pool, waiting, room.tokens, most, set(content_owners(self.inside())))

    def add_media(self) -> None:
        """Add media of included messages in the remaining room: media are left out before any message is.

        Media of history keep the form that they had in the previous context, until history is trimmed or the current
        message asks about them.
        """
        if not self.waiting_media:
            return
        inside = self.inside()
        messages = {package.id for unit in inside for package in unit.packages}
        waiting = [(unit, unit.tie) for unit in self.waiting_media if unit.tie and unit.tie.message in messages]
        has_stepped = any(pick.stepped for pick in self.picks.values())
        keeps = not has_stepped and self.policy.media.when != "never"
        # A trim changes the prefix anyway, so media may take another form then without another cache miss.
        before = dict(self.previous.media) if self.previous and keeps else {}
        rooms = {pool.name: self._media_room(pool) for pool in self.policy.pools}
        left = self.budget.available - self.base.full - total_cost(inside)
        self.media = list(choose_media(waiting, before, rooms, left, self.shaper.shrink))

    def _media_room(self, pool: Pool) -> tuple[float, float]:
        """Return the tokens and items that media may still take of their pool."""
        inside = [*self.picks[pool.name].chosen, *self.fixed_in(pool)]
        tokens = inf if pool.borrow else self.budget.limit(pool.name) - total_cost(inside)
        items = inf if pool.max_items is None else pool.max_items - count_items(inside)
        return tokens, items

    # -- one pool ----------------------------------------------------------------------------------------------------

    def _pick(self, pool: Pool, room: Allowance, balance: Balance | None = None) -> None:
        """Choose the units of a pool, and drop what repeats its turns, here and in other pools."""
        self._choose(pool, room, balance)
        turns = self.picks[pool.name].chosen
        for other in self.policy.pools:
            pick = self.picks[other.name]
            if copies := find_copies(pick.chosen, turns) if other.dedupe != "id" else []:
                gone = {unit.key for unit, _ in copies}
                chosen = [unit for unit in pick.chosen if unit.key not in gone]
                self.change(other, chosen=chosen, duplicates=[*pick.duplicates, *copies])

    def _choose(self, pool: Pool, room: Allowance, balance: Balance | None) -> None:
        unique = self.queues[pool.name].unique
        if unique.owners:  # otherwise this pool has no duplicates
            included = content_owners([*self.fixed, *self.others(pool)])
            unique = self.queues[pool.name].without_duplicates(included)
        setting = Setting(
            room=room,
            fixed=self.fixed,
            shaper=self.shaper,
            summaries=self.clusters.summaries,
            texts=partial(self._texts, pool),
            high_water=partial(self._high_water, pool, room),
            balance=balance,
            min_tokens=int(self.budget.limit(pool.name) * pool.need.min_share) if pool.need else 0,
            previous=self.previous,
            retrieved=self.retrieved,
        )
        if pool.ledger is not None:
            choice = choose_with_ledger(pool, unique.units, setting, self.writer)
        else:
            choice = choose_units(pool, unique.units, setting)
        self.picks[pool.name] = self.picks[pool.name].choose(choice, room, unique.duplicates)
        self.fixed = [choice.shrunk.get(unit.key, unit) for unit in self.fixed] if choice.shrunk else self.fixed
        self.replaced.update(choice.replaced)

    def _balance(self, pool: Pool) -> Balance:
        """Weigh the turns of a pool against the search results in later pools."""
        later = self.policy.pools[self.policy.pools.index(pool) + 1 :]
        found = [unit for other in later if other.optimize for unit in self.queues[other.name].unique.units]
        room = self.room(pool, own_limit=False)
        return Balance(self.queues[pool.name].ranking, found, room.tokens, self.policy.token_price)

    def _high_water(self, pool: Pool, room: Allowance) -> int:
        """Return the pool's room plus what the pools after it are certain to leave."""
        if not pool.borrow:
            return room.tokens
        later = self.policy.pools[self.policy.pools.index(pool) + 1 :]
        return max(room.tokens, self.room(pool, own_limit=False).tokens - sum(map(self._demand, later)))

    def _demand(self, pool: Pool) -> int:
        """Return the most that a pool could use: its limit, or all of its candidates that would fit."""
        limit = self.budget.limit(pool.name)
        price = self.policy.token_price if pool.optimize else 0.0
        waiting = (unit for unit in self.queues[pool.name].waiting if unit.may_shrink or unit.is_worth(price))
        return min(limit, total_cost([unit for unit in waiting if unit.cost <= limit]))

    def _texts(self, pool: Pool) -> set[str]:
        """Return the normalized hashes of required units and of units in other pools."""
        return set(content_owners([*self.fixed, *self.others(pool)]))

    def _add_fitting(
        self, pool: Pool, units: Iterable[Unit], tokens: int, items: float = inf, texts: set[str] | None = None
    ) -> list[Unit]:
        """Add the units that fit, in this order, and return them. A text is added once.

        `texts` are the normalized hashes of included texts. Without them, texts do not count.
        """
        chosen, added = self.picks[pool.name].chosen, list[Unit]()
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
        self.change(pool, chosen=[*chosen, *added])
        return added

    # -- summaries ---------------------------------------------------------------------------------------------------

    def _summarize_chosen(self, pool: Pool, over: int) -> None:
        chosen = self.picks[pool.name].chosen
        elsewhere = content_owners(self.inside()) if self.clusters.summaries else ()
        taken = take_until_saved(find_swaps(chosen, self.clusters.summaries, elsewhere=elsewhere), over)
        self.replaced.update(replaced_by(taken))
        self.change(pool, chosen=rank_units(pool, apply_swaps(chosen, taken)))

    def _release(self, pool: Pool) -> bool:
        """Let summaries of clusters that stayed out compete for a best set; return whether there were any."""
        if not self.clusters.summaries or not pool.optimize:
            return False
        inside = {unit.key for unit in self.inside()}
        inside |= {key for key, summary in self.replaced.items() if summary.key in inside}
        self.clusters, released = self.clusters.release(pool.name, self.final, inside)
        if released:
            self.queues[pool.name] = make_queue(pool, [*self.queues[pool.name].waiting, *released])
        return bool(released)

    def _stand_ins(self, pool: Pool, dropped: Collection[str]) -> list[Unit]:
        """Return the summaries for this pool of units that are out or `dropped`, best first."""
        if not self.clusters.summaries:
            return []
        inside = [unit for unit in self.inside() if unit.key not in dropped]
        return rank_units(pool, self.clusters.stand_ins(pool.name, inside, set(content_owners(inside))))

    # -- trimming ----------------------------------------------------------------------------------------------------

    def _trim_protected(self) -> None:
        """Drop units of pools without a trim step, but only if these pools do not fit even by themselves."""
        droppable = {step.drop for step in self.policy.trim}
        protected = [pool for pool in self.policy.pools if pool.name not in droppable]
        for pool in reversed(protected):
            alone = total_cost(self.fixed) + sum(total_cost(self.picks[other.name].chosen) for other in protected)
            if (over := self.base.full + alone - self.budget.hard_limit) > 0:
                self._drop_worst(pool, over, spare=0)

    def _drop_worst(self, pool: Pool, over: int, spare: int) -> None:
        """Drop the worst units of a pool until so many tokens are saved, and let summaries stand in for clusters.

        These may take the room of better units, but only a share of it: a few lines about everything are worth more
        than the last few items, and less than the best ones. Then they take the rest.
        """
        pick = self.picks[pool.name]
        standing = [unit for unit in pick.chosen if unit.replaced_region]
        units = rank_units(pool, [unit for unit in pick.chosen if not unit.replaced_region])
        items = sum(unit.items for unit in [*units, *self.fixed_in(pool)]) - spare
        keep = total_cost(units) - over
        share = int((keep + total_cost(standing)) * _STAND_IN_SHARE) - total_cost(standing)
        needed = over
        while True:  # what stands in for dropped units takes room itself, so more of them may have to go
            left, dropped = drop_worst(units, needed, items, self.shaper)
            waiting = self._stand_ins(pool, dropped)
            added = take_within(waiting, share)
            if over + total_cost(added) <= needed or not left:
                break
            needed = over + total_cost(added)
        rest = [unit for unit in waiting if unit not in added]
        added = take_within([*added, *rest], keep - total_cost(left))
        if pool.max_items is not None:
            present = sum(unit.items for unit in [*left, *standing, *self.fixed_in(pool)])
            added = added[: max(0, pool.max_items - present)]
        self.change(pool, chosen=[*left, *standing, *added], reasons=pick.with_reason(dropped, "trimmed"))

    def _drop_summaries(self, pool: Pool, over: int) -> None:
        """Drop summaries that stand in for others, worst first, until so many tokens are saved."""
        chosen = self.picks[pool.name].chosen
        standing = rank_units(pool, [unit for unit in chosen if unit.replaced_region])
        _, dropped = drop_worst(standing, over, len(standing), self.shaper)
        self.change(pool, chosen=[unit for unit in chosen if unit.key not in dropped])

    def _restore(self, pool: Pool) -> None:
        """Take back dropped units, best first, if summaries saved more than was needed after they were dropped."""
        if pool.contiguous:
            return  # a message that came back without its neighbors would leave a gap
        pick = self.picks[pool.name]
        represented = {summary.packages[0].cluster for summary in self.replaced.values()}
        texts = content_owners(self.inside()) if self.clusters.summaries else {}
        waiting = (
            unit
            for unit in pick.order
            if pick.reasons.get(unit.key) == "trimmed"
            and unit.packages[0].cluster not in represented
            and unit.packages[0].normalized_hash not in texts
        )
        back = {unit.key for unit in self._add_fitting(pool, waiting, self.room(pool).tokens)}
        self.change(pool, reasons={key: reason for key, reason in pick.reasons.items() if key not in back})

    # -- the result --------------------------------------------------------------------------------------------------

    def selection(self) -> Selection:
        """Return the result of the fill."""
        used = self.total()
        # The fill charged each media item what it costs beyond its line, and its message with the line.
        if lines := line_costs([*self.fixed, *(unit for unit, _ in self.media)]):
            self.fixed = [charge_lines(unit, lines) for unit in self.fixed]
            self.media = [(charge_lines(unit, lines), reason) for unit, reason in self.media]
            for pool in self.policy.pools:
                self.change(pool, chosen=[charge_lines(unit, lines) for unit in self.picks[pool.name].chosen])
        summaries = self._explain_summaries() if self.clusters.members else []
        sent = {unit.key for unit, _ in self.media}
        return Selection(
            required=tuple(self.fixed),
            accounts=tuple(self._account(pool) for pool in self.policy.pools),
            summaries=tuple(summaries),
            media=tuple(self.media),
            other_media=tuple(unit for unit in self.waiting_media if unit.key not in sent),
            used=used,
            divided=any(pick.divided for pick in self.picks.values()),
            ledger=next((pick.ledger for pick in self.picks.values() if pick.ledger is not None), None),
        )

    def _explain_summaries(self) -> list[tuple[Unit, Reason]]:
        """Credit summaries that are in with what they cover, and return all with the reason why they are in or out."""
        inside = self.inside()
        represented = self.clusters.find_represented(inside)
        self.replaced.update({key: unit for key, unit in represented.items() if key != unit.key})
        return self.clusters.explain(inside)

    def _duplicates(self, pool: Pool) -> list[tuple[Unit, str]]:
        duplicates = self.picks[pool.name].duplicates
        return confirmed_duplicates(list(duplicates), self.inside()) if duplicates else []

    def _account(self, pool: Pool) -> PoolAccount:
        pick = self.picks[pool.name]
        return PoolAccount(
            pool=pick.limited or pool,
            use=self._use(pool),
            stepped=pick.stepped,
            continued=pick.continued,
            waiting=self.queues[pool.name].waiting,
            order=pick.order,
            chosen={unit.key: unit for unit in with_heading_costs(pick.chosen)},
            reasons={**pick.reasons, **pick.limits},
            replaced=self.replaced,
            duplicates=self._duplicates(pool),
            price=self.policy.token_price,
        )

    def _use(self, pool: Pool) -> PoolUse:
        pick = self.picks[pool.name]
        media = [unit for unit, _ in self.media if unit.pool == pool.name]
        inside = [*self.fixed_in(pool), *media]
        return PoolUse(
            name=pool.name,
            limit=self.budget.limit(pool.name),
            max_tokens=self.budget.available if pool.borrow else self.budget.limit(pool.name),
            used=total_cost(pick.chosen) + total_cost(inside),
            items=count_items([*pick.chosen, *inside]),
            borrowed=pick.borrowed,
        )
