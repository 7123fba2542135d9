"""Fill the window: choose the units that get in.

Required units come first, then the pools in the policy's order. Pools are trimmed if the policy trims, and unspent
tokens can be borrowed by other pools.
"""

from collections.abc import Collection, Sequence
from math import inf

import msgspec

from brimful.core import substitute
from brimful.core.budget import ContextBudget
from brimful.core.candidates import confirmed_duplicates, content_owners, find_copies
from brimful.core.cost import region_of, role_of
from brimful.core.decision import FormName, Reason
from brimful.core.forms import Shaper
from brimful.core.ledger import LedgerWriter, is_from_user
from brimful.core.media import charge_lines, is_media, line_costs
from brimful.core.policy import NO_HISTORY_LIMITS, Policy, Pool
from brimful.core.select import (
    NEWEST_SHARE,
    Queues,
    Room,
    at_low_water,
    cap_large,
    drop_worst,
    grow_shrunk,
    limit_history,
    make_queue,
    rank_units,
    regrow,
    select,
    select_unique,
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
from brimful.core.units import Unit, total_cost, with_heading_costs
from brimful.core.worth import Balance

_LAST_STEP = 0.25  # of its pool, that the last step of an agent's run may take in any case
_STAND_IN_SHARE = 0.25  # of a pool that is trimmed, for which summaries may displace what they do not cover
_REGROW_DIVIDED = 0.1  # of its share: history that gave room to search results grows back only in a far larger window


def fill(
    queues: Queues,
    policy: Policy,
    budget: ContextBudget,
    *,
    base: BaseCost,
    shaper: Shaper,
    writer: LedgerWriter,
    previous: HistoryStart | None = None,
) -> Selection:
    """Choose the units that get in."""
    filling = _Filling(queues, policy, budget, base=base, shaper=shaper, writer=writer, previous=previous)
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


def _shrink_order(unit: Unit) -> tuple[bool, bool, float, str]:
    """Return the sort key by which required units are shrunk: what the user wrote comes last, unless it says it may.

    The user's media come before the user's words.
    """
    return _is_from_user(unit), not is_media(unit.packages[0]), unit.score.total, unit.key


def _is_from_user(unit: Unit) -> bool:
    return any(role_of(each) == "user" and each.flex.min_tokens is None for each in unit.packages)


def _pays(pool: Pool, balance: Balance | None, span: int, target: int) -> bool:
    """Whether it pays to begin history later, although the provider then has to read all of it again."""
    if balance is None or pool.need is None:
        return False
    return target < span and balance.worth(target) - balance.worth(span) > pool.need.reread * target / 1_000


class _Filling:
    """The state of one fill. Units are immutable; they move between lists."""

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
    ) -> None:
        self.queues = dict(queues.queues)
        self.summaries = dict(queues.summaries)
        self.fixed = list(queues.fixed)
        self.waiting_media = queues.media
        self.media: list[tuple[Unit, Reason]] = []
        waiting = (unit for queue in queues.queues.values() for unit in queue.waiting)
        self.members = substitute.cluster_members([*self.fixed, *waiting] if self.summaries else (), self.summaries)
        self.final: set[str] = set()
        self.policy = policy
        self.histories = {pool.name for pool in policy.pools if pool.contiguous}
        self.price = policy.token_price
        self.budget = budget
        self.base = base
        self.shaper = shaper
        self.writer = writer
        self.previous = previous
        self.order: dict[str, list[Unit]] = {}
        self.chosen: dict[str, list[Unit]] = {pool.name: [] for pool in policy.pools}
        self.reasons: dict[str, Reason] = {}
        self.replaced: dict[str, Unit] = {}
        self.duplicates: dict[str, list[tuple[Unit, str]]] = {}
        self.final_history: set[str] = set()
        self.stepped: set[str] = set()
        self.limited: dict[str, tuple[Pool, dict[str, Reason]]] = {}
        self.rooms: dict[str, Room] = {}
        self.borrowed: dict[str, int] = {}
        self.divided = False
        self.ledger: LedgerState | None = None

    # -- totals ------------------------------------------------------------------------------------------------------

    def total(self) -> int:
        media = sum(unit.cost for unit, _ in self.media)
        base = self.base.full if media or any(self.chosen.values()) else self.base.required
        return base + total_cost(self.fixed) + sum(map(total_cost, self.chosen.values())) + media

    def inside(self) -> list[Unit]:
        return [*self.fixed, *(unit for units in self.chosen.values() for unit in units)]

    def fixed_in(self, pool: Pool) -> list[Unit]:
        return [unit for unit in self.fixed if unit.pool == pool.name]

    def room(self, pool: Pool, *, own_limit: bool = True, within_total: bool = True) -> Room:
        """Return what the pool may use, besides its required units and what is in other pools."""
        fixed = self.fixed_in(pool)
        others = sum(total_cost(units) for name, units in self.chosen.items() if name != pool.name)
        total = self.base.full + total_cost(self.fixed) + others
        limit = self.budget.limit(pool.name) - total_cost(fixed)
        left = self.budget.available - total
        tokens = min([limit] * own_limit + [left] * within_total)
        hard = self.budget.hard_limit - total
        return Room(tokens=tokens, hard=hard, items=sum(unit.items for unit in fixed), price=self.price)

    # -- stages ------------------------------------------------------------------------------------------------------

    def require(self) -> None:
        """Add the required units. If they do not fit, shrink those that may shrink, the user's own words last.

        They may use the safety margin only in full. What others wrote leaves room for more than itself.
        """
        total = self.total()
        if total <= self.budget.hard_limit:
            return
        over = total - self.budget.available
        for at, unit in sorted(enumerate(self.fixed), key=lambda row: _shrink_order(row[1])):
            if over <= 0:
                break
            left = unit.cost - over
            limit = left if _is_from_user(unit) else int(left * NEWEST_SHARE)
            smaller = self.shaper.shrink(unit, limit) or self.shaper.smallest(unit)
            if smaller is not None:
                self.fixed[at] = smaller
                over -= unit.cost - smaller.cost
        if self.total() > self.budget.hard_limit:
            raise make_budget_error(self.fixed, self.budget, self.base, self.total())

    def grow_required(self) -> None:
        """Give what is left of the window to required units that were shrunk, but not to media that are not sent."""
        if any(pool.ledger for pool in self.policy.pools):
            return  # the next request has the same text, and room for more
        lines = [unit for unit in self.fixed if unit.tie and unit.tie.reason]
        others = [unit for unit in self.fixed if not (unit.tie and unit.tie.reason)]
        self.fixed = [*grow_shrunk(others, self.budget.available - self.total(), self.shaper), *lines]

    def fill_pool(self, pool: Pool) -> None:
        """Fill one pool up to its limit. If the policy trims later, other pools do not count yet."""
        self._release(pool)
        room = self.room(pool, within_total=not self.policy.trim)
        self._pick(pool, room, self._balance(pool) if pool.need else None)
        if not pool.borrow or pool.name in self.final_history:
            self.final.add(pool.name)

    def fill_again(self, pool: Pool) -> None:
        """Fill a pool again: with all that is left of the window if it borrows, and with summaries released since."""
        room = self.room(pool, own_limit=not pool.borrow)
        more = self._release(pool)
        self.final.add(pool.name)
        has_more_room = pool.borrow and room != self.rooms[pool.name]
        if pool.name in self.final_history or not (has_more_room or more):
            return
        limit = self.budget.limit(pool.name)
        before = {unit.key for unit in self.chosen[pool.name]}
        self._pick(pool, room)
        if not pool.borrow:
            return
        for unit in self.chosen[pool.name]:
            if unit.key not in before:
                self.reasons[unit.key] = "borrowed"
        used = total_cost(self.chosen[pool.name]) + total_cost(self.fixed_in(pool))
        self.borrowed[pool.name] = max(0, used - limit)

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
                self._summarize_chosen(step.summarize, over)
            elif over > 0 and step.drop is not None:
                pool = self.policy.pool(step.drop)
                self._drop_worst(pool, over, spare=pool.min_items)
        pools = [self.policy.pool(step.drop) for step in self.policy.trim if step.drop is not None]
        for pool in pools:
            self._drop_summaries(pool, self.total() - self.budget.available)
        for pool in pools:
            if (over := self.total() - self.budget.hard_limit) > 0:
                self._drop_worst(pool, over, spare=0)
        if self.replaced:
            for pool in pools:
                self._restore(pool)

    def _trim_protected(self) -> None:
        """Drop units of pools without a trim step, but only if these pools do not fit even by themselves."""
        droppable = {step.drop for step in self.policy.trim}
        protected = [pool for pool in self.policy.pools if pool.name not in droppable]
        for pool in reversed(protected):
            alone = total_cost(self.fixed) + sum(total_cost(self.chosen[other.name]) for other in protected)
            if (over := self.base.full + alone - self.budget.hard_limit) > 0:
                self._drop_worst(pool, over, spare=0)

    def represent(self, *, within_total: bool) -> None:
        """Let summaries stand in for clusters that did not get in.

        A best set has chosen among them by their worth, and history with a stable prefix has done so in its own way.
        """
        for pool in self.policy.pools if self.summaries else ():
            if not pool.optimize and pool.low_water is None and pool.ledger is None:
                room = self.room(pool, own_limit=not (pool.borrow and within_total), within_total=within_total)
                self._drop_worst(pool, total_cost(self.chosen[pool.name]) - room.tokens, spare=pool.min_items)

    def reconsider(self, pool: Pool) -> None:
        """Add a duplicate after all if its original did not get in and there is room."""
        if pool.contiguous or not self.duplicates.get(pool.name):
            return
        true = {unit.key for unit, _ in self._duplicates(pool)}
        room, chosen = self.room(pool, own_limit=not pool.borrow), self.chosen[pool.name]
        left, headings = room.tokens - total_cost(chosen), {unit.heading for unit in chosen}
        items, owners = room.items + sum(unit.items for unit in chosen), set(content_owners(self.inside()))
        for unit in (unit for unit, _ in self.duplicates[pool.name] if unit.key not in true):
            cost = unit.cost + unit.heading_due(headings)
            full = pool.max_items is not None and items >= pool.max_items
            worth = not pool.optimize or unit.is_worth(self.price)
            if worth and not full and cost <= left and unit.packages[0].normalized_hash not in owners:
                chosen.append(unit)
                headings.add(unit.heading)
                left, items = left - cost, items + unit.items
                owners.update(content_owners([unit]))

    def add_media(self) -> None:
        """Add the media of messages that are in, with what is left: media are left out before any message is.

        Media of history keep the form that they had in the previous context, until history is trimmed or the current
        message asks about them.
        """
        messages = {package.id for unit in self.inside() for package in unit.packages} if self.waiting_media else ()
        waiting = [(unit, unit.tie) for unit in self.waiting_media if unit.tie and unit.tie.message in messages]
        keeps = self.previous is not None and not self.stepped and self.policy.media.when != "never"
        before = dict(self.previous.media) if self.previous and keeps else {}
        rooms = {pool.name: self._media_room(pool) for pool in self.policy.pools} if waiting else {}
        left = self.budget.available - self.base.full - total_cost(self.inside())
        for unit, tie in sorted(waiting, key=lambda row: before.get(row[0].key, "stub") == "stub"):
            was = before.get(unit.key)
            tokens, items = rooms.get(unit.pool, (left, inf))
            taken, reason = self.shaper.shrink(unit, 0) or unit, tie.reason
            if reason is None and was == "stub" and not tie.is_requested:
                reason = "unchanged"
            elif reason != "no-modality" and (reason is None or was in ("full", "low")):
                taken, reason = self._fit_media(unit, min(left, tokens) if items > 0 else 0, was), "fits"
                if taken.form == "stub":
                    reason = "max-items" if items <= 0 else "pool-full" if tokens < left else "window-full"
            self.media.append((taken, reason))
            left -= taken.cost
            if unit.pool in rooms:
                rooms[unit.pool] = tokens - taken.cost, items - bool(taken.cost)

    def _media_room(self, pool: Pool) -> tuple[float, float]:
        """Return the tokens and items that media may still take of their pool."""
        inside = [*self.chosen[pool.name], *self.fixed_in(pool)]
        tokens = inf if pool.borrow else self.budget.limit(pool.name) - total_cost(inside)
        items = inf if pool.max_items is None else pool.max_items - sum(unit.items for unit in inside)
        return tokens, items

    def _fit_media(self, unit: Unit, left: float, was: FormName | None) -> Unit:
        """Return the largest form that fits, but no larger one than before."""
        if unit.cost <= left and was != "low":
            return unit
        return self.shaper.shrink(unit, max(0, int(min(left, unit.cost)))) or unit

    # -- one pool ----------------------------------------------------------------------------------------------------

    def _pick(self, pool: Pool, room: Room, balance: Balance | None = None) -> None:
        """Choose the units of a pool, and drop what repeats its turns, here and in other pools."""
        self._choose(pool, room, balance)
        for other in self.policy.pools:
            chosen = self.chosen[other.name]
            if copies := find_copies(chosen, self.chosen[pool.name]) if other.dedupe != "id" else []:
                self.duplicates.setdefault(other.name, []).extend(copies)
                gone = {unit.key for unit, _ in copies}
                self.chosen[other.name] = [unit for unit in chosen if unit.key not in gone]

    def _choose(self, pool: Pool, room: Room, balance: Balance | None) -> None:
        self.rooms[pool.name] = room
        unique = self.queues[pool.name].unique
        if unique.owners:  # otherwise this pool has no duplicates
            others = [unit for name, units in self.chosen.items() if name != pool.name for unit in units]
            unique = self.queues[pool.name].without_duplicates(content_owners([*self.fixed, *others]))
        order, self.duplicates[pool.name] = unique.units, unique.duplicates
        if pool.ledger is not None:
            self._pick_with_ledger(pool, order, room)
            return
        if pool.low_water is not None and (again := self._span(pool, order)):
            # The pool is final: what is left over goes to content after history, not before it.
            self.final_history.add(pool.name)
            span, older = again
            high = self._high_water(pool, room)
            max_items = inf if pool.max_items is None else pool.max_items
            if total_cost(span) > high:
                span = cap_large(span, high, self.shaper)
            target = self._target(pool, balance, high)
            fits = total_cost(span) <= high and room.items + sum(u.items for u in span) <= max_items
            if fits and not _pays(pool, balance, total_cost(span), target):
                was_divided = self.previous is not None and self.previous.divided
                stays = was_divided and total_cost(span) > _REGROW_DIVIDED * target
                grown = span if stays else regrow(pool, span, older, room, target, self.shaper)
                self.divided = was_divided and len(grown) == len(span)
                self.order[pool.name], self.chosen[pool.name] = order, grown
                self.stepped.update([pool.name] if len(grown) > len(span) else [])
                return
            self.stepped.add(pool.name)
            self.divided = target < high
            low_pool, low = at_low_water(pool, msgspec.structs.replace(room, tokens=high))
            room = msgspec.structs.replace(room, tokens=target if fits else min(target, low.tokens))
            pool = pool if fits else low_pool
        elif balance:
            target = self._target(pool, balance, room.tokens)
            self.divided = target < room.tokens
            room = msgspec.structs.replace(room, tokens=target)
        if pool.summarize:
            order = self._summarized(pool, order, room)
        if pool.history != NO_HISTORY_LIMITS:
            pool, order, reasons = limit_history(pool, order, room, self.fixed_in(pool))
            self.limited[pool.name] = pool, reasons
        self.order[pool.name] = order
        # Without large steps, a form stays as long as its unit does.
        limits = dict(self.previous.forms) if self.previous is not None and pool.low_water is None else {}
        chosen, copies = select_unique(pool, order, room, self.shaper, limits)
        self.chosen[pool.name] = chosen
        self.duplicates[pool.name] = [*self.duplicates[pool.name], *copies]

    def _pick_with_ledger(self, pool: Pool, order: list[Unit], room: Room) -> None:
        """Keep what the user said and the newest steps. If not everything fits, a large last step is shortened, too."""
        if pool.history != NO_HISTORY_LIMITS:
            pool, order, reasons = limit_history(pool, order, room, self.fixed_in(pool))
            self.limited[pool.name] = pool, reasons
        limits = dict(self.previous.forms) if self.previous is not None else {}
        is_full = total_cost(order) > room.tokens
        needed = self.writer.min_cost(order) if is_full else 0
        for at, unit in enumerate(self.fixed if is_full else ()):
            both = room.tokens + unit.cost
            limit = limits.get(unit.key, max(int(_LAST_STEP * both), int((pool.low_water or 1.0) * both) - needed))
            if unit.pool == pool.name and unit.may_shrink and unit.cost > limit and not is_from_user(unit):
                smaller = self.shaper.shrink(unit, limit) or self.shaper.smallest(unit) or unit
                self.fixed[at] = smaller
                room = msgspec.structs.replace(room, tokens=room.tokens + unit.cost - smaller.cost)
        turns = [unit for unit in order if region_of(unit.packages[0]) in ("history", "current")]
        others = [unit for unit in order if unit not in turns] if len(turns) < len(order) else []
        choice = self.writer.choose(pool, turns, self.fixed_in(pool), room.tokens, self.previous)
        left = msgspec.structs.replace(room, tokens=room.tokens - total_cost(choice.units), hard=0)
        self.order[pool.name] = order
        self.chosen[pool.name] = [*choice.units, *(select(pool, others, left, self.shaper) if others else ())]
        is_cut = is_full or any(unit.whole for unit in self.fixed)
        self.ledger = choice.state or (LedgerState() if is_cut else None)
        self.stepped.update([pool.name] if choice.stepped else [])
        if choice.ledger is not None:
            inside = {unit.key for unit in choice.chosen}
            self.replaced.update({unit.key: choice.ledger for unit in turns if unit.key not in inside})

    def _balance(self, pool: Pool) -> Balance:
        """Weigh the turns of a pool against what was found for the pools after it."""
        later = self.policy.pools[self.policy.pools.index(pool) + 1 :]
        found = [unit for other in later if other.optimize for unit in self.queues[other.name].unique.units]
        room = self.room(pool, own_limit=False)
        return Balance(self.queues[pool.name].ranking, found, room.tokens, self.price)

    def _target(self, pool: Pool, balance: Balance | None, most: int) -> int:
        """Return how many tokens history should get, at most."""
        least = int(self.budget.limit(pool.name) * pool.need.min_share) if pool.need else 0
        return balance.best(min(least, most), most) if balance else most

    def _span(self, pool: Pool, order: list[Unit]) -> tuple[list[Unit], list[Unit]] | None:
        """Return history from where it began last time, with the summaries that were in it, and what is older."""
        if self.previous is None:
            return None
        swaps = substitute.find_swaps(order, self.summaries, elsewhere=self._texts(pool, order))
        again = [swap for swap in swaps if swap.summary.key in self.previous.summaries]
        units = rank_units(pool, substitute.apply_swaps(order, again))
        end = next((at for at, unit in enumerate(units) if unit.key == self.previous.first), None)
        if end is None:
            return None
        self._swap(again)
        limits = dict(self.previous.forms)
        span = [
            (unit.may_shrink and unit.key in limits and self.shaper.shrink(unit, limits[unit.key])) or unit
            for unit in units[: end + 1]
        ]
        return span, units[end + 1 :]

    def _high_water(self, pool: Pool, room: Room) -> int:
        """Return the pool's room plus what the pools after it are certain to leave."""
        later = self.policy.pools[self.policy.pools.index(pool) + 1 :]
        demand = sum(map(self._demand, later))
        left = self.room(pool, own_limit=False).tokens - demand
        return max(room.tokens, left) if pool.borrow else room.tokens

    def _demand(self, pool: Pool) -> int:
        """Return the most that a pool could use: its limit, or all of its candidates that would fit."""
        limit = self.budget.limit(pool.name)
        price = self.price if pool.optimize else 0.0
        waiting = (unit for unit in self.queues[pool.name].waiting if unit.may_shrink or unit.is_worth(price))
        return min(limit, total_cost([unit for unit in waiting if unit.cost <= limit]))

    # -- summaries ---------------------------------------------------------------------------------------------------

    def _summarized(self, pool: Pool, order: list[Unit], room: Room) -> list[Unit]:
        """Replace clusters by summaries until the pool fits, as far back as summaries reach."""
        protected = {unit.key for unit in order[: pool.min_items]}
        swaps = substitute.find_swaps(order, self.summaries, protected, self._texts(pool, order))
        if not swaps or total_cost(order) <= room.tokens:
            return order
        reached = select(pool, rank_units(pool, substitute.apply_swaps(order, swaps)), room, self.shaper)
        within = {unit.key for unit in reached}
        reachable = [swap for swap in swaps if swap.summary.key in within]
        within.update(unit.key for swap in reachable for unit in swap.members)
        over = total_cost([unit for unit in order if unit.key in within]) - room.tokens
        taken = substitute.take_until_saved(reachable, over)
        self._swap(taken)
        return rank_units(pool, substitute.apply_swaps(order, taken))

    def _summarize_chosen(self, name: str, over: int) -> None:
        pool = self.policy.pool(name)
        swaps = substitute.find_swaps(self.chosen[name], self.summaries, elsewhere=self._texts())
        taken = substitute.take_until_saved(swaps, over)
        self._swap(taken)
        self.chosen[name] = rank_units(pool, substitute.apply_swaps(self.chosen[name], taken))

    def _texts(self, pool: Pool | None = None, order: Sequence[Unit] = ()) -> set[str]:
        """Return the normalized hashes of what is in, with this `order` in place of what the pool has now."""
        if not self.summaries:
            return set()
        others = (unit for name, units in self.chosen.items() if pool is None or name != pool.name for unit in units)
        return set(content_owners([*self.fixed, *others, *order]))

    def _release(self, pool: Pool) -> bool:
        """Let summaries of clusters that stayed out compete for a best set; return whether there were any."""
        if not self.summaries or not pool.optimize:
            return False
        inside = {unit.key for unit in self.inside()}
        inside |= {key for key, summary in self.replaced.items() if summary.key in inside}
        free = substitute.releasable_summaries(self.summaries, self.members, self.final, inside)
        released = [unit for unit in free if unit.pool == pool.name]
        for unit in released:
            cluster = str(unit.packages[0].cluster)
            self.summaries[cluster] = [other for other in self.summaries[cluster] if other.key != unit.key]
        if released:
            self.queues[pool.name] = make_queue(pool, [*self.queues[pool.name].waiting, *released])
        return bool(released)

    def _swap(self, taken: Sequence[substitute.Swap]) -> None:
        for swap in taken:
            self.replaced.update({unit.key: swap.summary for unit in swap.members})

    # -- trimming ----------------------------------------------------------------------------------------------------

    def _drop_worst(self, pool: Pool, over: int, spare: int) -> None:
        """Drop the worst units of a pool until so many tokens are saved, and let summaries stand in for clusters.

        These may take the room of better units, but only a share of it: a few lines about everything are worth more
        than the last few items, and less than the best ones. Then they take what is left.
        """
        standing = [unit for unit in self.chosen[pool.name] if unit.replaced_region]
        units = rank_units(pool, [unit for unit in self.chosen[pool.name] if not unit.replaced_region])
        items = sum(unit.items for unit in [*units, *self.fixed_in(pool)]) - spare
        keep = total_cost(units) - over
        share = int((keep + total_cost(standing)) * _STAND_IN_SHARE) - total_cost(standing)
        needed = over
        while True:
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
        self.chosen[pool.name] = [*left, *standing, *added]
        self.reasons.update(dict.fromkeys(dropped, "trimmed"))

    def _stand_ins(self, pool: Pool, dropped: Collection[str]) -> list[Unit]:
        """Return the summaries for this pool of what is out and of what is `dropped`, best first."""
        if not self.summaries:
            return []
        inside = [unit for unit in self.inside() if unit.key not in dropped]
        told, texts = self._told(inside), set(content_owners(inside))
        standing: list[Unit] = []
        for cluster, summaries in self.summaries.items():
            unit = substitute.find_stand_in(summaries, self.members[cluster], told, texts, self.histories)
            if unit is not None and unit.pool == pool.name:
                standing.append(unit)
                texts.add(unit.packages[0].normalized_hash)
        return rank_units(pool, standing)

    def _told(self, inside: Sequence[Unit]) -> dict[str, Unit]:
        """Return what the model sees or reads a summary of, by its key: the unit itself, or the summary."""
        told: dict[str, Unit] = {}
        for unit in inside:
            package = unit.packages[0]
            if package.kind == "summary" and package.cluster in self.members:
                covered = substitute.covered_members(unit, self.members[package.cluster])
                told.update(dict.fromkeys((member.key for member in covered), unit))
        return told | {unit.key: unit for unit in inside}

    def _drop_summaries(self, pool: Pool, over: int) -> None:
        """Drop summaries that stand in for others, worst first, until so many tokens are saved."""
        chosen = self.chosen[pool.name]
        standing = rank_units(pool, [unit for unit in chosen if unit.replaced_region])
        _, dropped = drop_worst(standing, over, len(standing), self.shaper)
        self.chosen[pool.name] = [unit for unit in chosen if unit.key not in dropped]

    def _restore(self, pool: Pool) -> None:
        """Take back what was dropped before summaries saved more than was needed, best first."""
        if pool.contiguous:
            return
        represented = {summary.packages[0].cluster for summary in self.replaced.values()}
        chosen, texts = self.chosen[pool.name], self._texts()
        left, headings = self.room(pool).tokens - total_cost(chosen), {unit.heading for unit in chosen}
        for unit in self.order[pool.name]:
            cost = unit.cost + unit.heading_due(headings)
            package = unit.packages[0]
            dropped = self.reasons.get(unit.key) == "trimmed" and package.cluster not in represented
            if dropped and cost <= left and package.normalized_hash not in texts:
                chosen.append(unit)
                headings.add(unit.heading)
                left -= cost
                del self.reasons[unit.key]

    # -- the result --------------------------------------------------------------------------------------------------

    def selection(self) -> Selection:
        """Return the result of the fill."""
        used = self.total()
        if lines := line_costs([*self.fixed, *(unit for unit, _ in self.media)]):
            self.fixed = [charge_lines(unit, lines) for unit in self.fixed]
            self.media = [(charge_lines(unit, lines), reason) for unit, reason in self.media]
            for name, units in self.chosen.items():
                self.chosen[name] = [charge_lines(unit, lines) for unit in units]
        inside = {unit.key for unit, _ in self.media}
        summaries = self._explain_summaries()
        return Selection(
            required=tuple(self.fixed),
            accounts=tuple(self._account(pool) for pool in self.policy.pools),
            summaries=tuple(summaries),
            media=tuple(self.media),
            other_media=tuple(unit for unit in self.waiting_media if unit.key not in inside),
            used=used,
            divided=self.divided,
            ledger=self.ledger,
        )

    def _explain_summaries(self) -> list[tuple[Unit, Reason]]:
        """Credit summaries that are in with what they cover, and return all with the reason why they are in or out."""
        inside = self.inside() if self.members else []
        told = self._told(inside)
        self.replaced.update({key: unit for key, unit in told.items() if key != unit.key})
        keys = {unit.key for unit in inside}

        def why(summary: Unit, members: Sequence[Unit]) -> Reason:
            if summary.key in keys:
                return "summary"
            return "window-full" if substitute.find_untold(summary, members, told, self.histories) else "verbatim"

        return [(unit, why(unit, self.members[cluster])) for cluster, units in self.summaries.items() for unit in units]

    def _duplicates(self, pool: Pool) -> list[tuple[Unit, str]]:
        duplicates = self.duplicates.get(pool.name)
        return confirmed_duplicates(duplicates, self.inside()) if duplicates else []

    def _account(self, pool: Pool) -> PoolAccount:
        limited, reasons = self.limited.get(pool.name, (pool, {}))
        return PoolAccount(
            pool=limited,
            use=self._use(pool),
            stepped=pool.name in self.stepped,
            continued=pool.name in self.final_history,
            waiting=self.queues[pool.name].waiting,
            order=self.order[pool.name],
            chosen={unit.key: unit for unit in with_heading_costs(self.chosen[pool.name])},
            reasons=self.reasons | reasons,
            replaced=self.replaced,
            duplicates=self._duplicates(pool),
            price=self.price,
        )

    def _use(self, pool: Pool) -> PoolUse:
        media = [unit for unit, _ in self.media if unit.pool == pool.name]
        chosen, fixed = self.chosen[pool.name], [*self.fixed_in(pool), *media]
        return PoolUse(
            name=pool.name,
            limit=self.budget.limit(pool.name),
            max_tokens=self.budget.available if pool.borrow else self.budget.limit(pool.name),
            used=total_cost(chosen) + total_cost(fixed),
            items=sum(unit.items for unit in [*chosen, *fixed]),
            borrowed=self.borrowed.get(pool.name, 0),
        )
