"""Choose the units of one pool: in order, contiguous, or as the best set.

A queue holds a pool's candidates, best first.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Final

import msgspec

from brimful.core.candidates import Deduplicated, dedupe_by_content, find_copies
from brimful.core.decision import Reason
from brimful.core.forms import Menu, Shaper
from brimful.core.knapsack import choose, choose_options
from brimful.core.policy import Policy, Pool
from brimful.core.substitute import split_summaries
from brimful.core.units import Unit, count_items, total_cost

_REGROW_BELOW = 2 / 3  # of low water: trimming never leaves less, so messages were deleted
_NEWEST = 2  # messages of history that may take more than others
NEWEST_SHARE = 0.35  # of history, for each of the newest messages
ITEM_SHARE = 0.1  # of the pool, for any other item that may shrink, if not everything fits
_MAX_WITH_OPTIONS = 8  # units of an optimized pool that get smaller forms: the best ones
_NO_LIMITS: Final[Mapping[str, int]] = MappingProxyType({})
_MAX_SHRINK_TRIES = 8  # candidates to try to shrink into the last gap of an optimized pool


class Allowance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a pool may use: `tokens` by its limit, `hard` for its minimum items. `items` are already in it.

    In a best set, each token costs `price`.
    """

    tokens: int
    hard: int
    items: int = 0
    price: float = 0.0


def choose_best_set(units: Sequence[Unit], tokens: int, beside: Sequence[Unit] = ()) -> list[Unit]:
    """Return units with near the highest total value that fits into `tokens`, `beside` some that are already in.

    Never worse than taking whatever fits in the order of the list.
    """
    present = {unit.heading for unit in beside}
    headings = [unit.heading_due(present) for unit in units]
    values = [unit.value for unit in units]
    if not any(headings):
        return [units[i] for i in choose(values, [unit.cost for unit in units], tokens)]
    # Charge each unit with its share of a heading: first as if all units under it got in, then as they actually did.
    optimistic = _choose_sharing_headings(units, headings, values, tokens, range(len(units)))
    realistic = _choose_sharing_headings(units, headings, values, tokens, optimistic)
    orders = (_chosen_first(realistic, _by_density(units)), range(len(units)))
    return max((_take_what_fits(units, order, tokens, present) for order in orders), key=total_score)


def choose_best_forms(
    units: Sequence[Unit], room: Allowance, beside: Sequence[Unit], menus: Sequence[Menu], shaper: Shaper
) -> list[Unit]:
    """Return the best set with at most one form of each unit, from a menu for each.

    A larger form is taken only if what it adds is worth more than the tokens that it adds. Never worse than taking
    whatever fits in full in the order of the list.
    """
    present = {unit.heading for unit in beside}
    headings = [unit.heading_due(present) for unit in units]
    price = room.price
    made = _make_forms(units, _charge_menus(units, menus, headings, price), room, shaper)
    if not any(headings):
        return [made[i] for i in sorted(made)]
    # Headings were shared as if all units got in, so the set may be over its limit: take what fits, the densest first.
    variants = [made.get(i, unit) for i, unit in enumerate(units)]
    orders = ((variants, _chosen_first(made, _by_density(variants))), (units, range(len(units))))
    sets = (
        _take_what_fits(each, [i for i in order if each[i].is_worth(price)], room.tokens, present)
        for each, order in orders
    )
    return max(sets, key=lambda chosen: total_score(chosen, price))


def _make_forms(units: Sequence[Unit], menus: Sequence[Menu], room: Allowance, shaper: Shaper) -> dict[int, Unit]:
    """Return the best set with at most one form of each unit, by index."""
    picked = choose_options([menu.values for menu in menus], [menu.costs for menu in menus], room.tokens)
    forms = {i: shaper.shrink(units[i], menus[i].limits[row]) if row else units[i] for i, row in picked.items()}
    return {i: unit for i, unit in forms.items() if unit is not None and unit.is_worth(room.price)}


def _by_density(units: Sequence[Unit]) -> list[int]:
    return sorted(range(len(units)), key=lambda i: -units[i].value / (units[i].cost or 1))


def _charge_menus(
    units: Sequence[Unit], menus: Sequence[Menu], headings: Sequence[int], price: float
) -> Sequence[Menu]:
    """Return the menus less the price of the tokens, and with a share of each heading."""
    if price:
        menus = [menu if unit.free else menu.with_price(price) for unit, menu in zip(units, menus, strict=True)]
    if not any(headings):
        return menus
    sharing = Counter(unit.heading for unit in units)
    return [
        menu.with_heading(-(-heading // sharing[unit.heading])) if heading else menu
        for unit, menu, heading in zip(units, menus, headings, strict=True)
    ]


def _choose_sharing_headings(
    units: Sequence[Unit], headings: Sequence[int], values: Sequence[float], tokens: int, chosen: Iterable[int]
) -> list[int]:
    """Return the best set if headings are shared as in `chosen`. It may be over the limit."""
    sharing = Counter(units[i].heading for i in chosen)
    costs = [
        unit.cost + -(-heading // max(1, sharing[unit.heading])) for unit, heading in zip(units, headings, strict=True)
    ]
    return choose(values, costs, tokens)


def total_score(units: Sequence[Unit], price: float = 0.0) -> float:
    """Return the sum of the values, less the price of the tokens."""
    return sum(unit.value - price * unit.cost for unit in units)


def _chosen_first(chosen: Iterable[int], dense: Sequence[int]) -> list[int]:
    """Return the chosen indices, then all others, each by score per token."""
    inside = set(chosen)
    return [i for i in dense if i in inside] + [i for i in dense if i not in inside]


def _take_what_fits(units: Sequence[Unit], order: Iterable[int], tokens: int, present: set[str]) -> list[Unit]:
    taken, headings = list[int](), set(present)
    for index in order:
        unit = units[index]
        cost = unit.cost + unit.heading_due(headings)
        if cost <= tokens:
            taken.append(index)
            headings.add(unit.heading)
            tokens -= cost
    return [units[i] for i in sorted(taken)]


def rank_units(pool: Pool, units: Sequence[Unit]) -> list[Unit]:
    """Sort by the pool's order, best first. The newer one of two with the same score comes first."""
    match pool.order:
        case "newest":
            return sorted(units, key=lambda unit: unit.when, reverse=True)
        case "relevance":
            return sorted(units, key=lambda u: (-u.score.relevance, -u.score.total, *_newest_first(u)))
        case _:
            return sorted(units, key=lambda u: (-u.score.total, *_newest_first(u)))


def _newest_first(unit: Unit) -> tuple[float, int, str]:
    timestamp, position, _ = unit.when
    return -timestamp, -position, unit.key


def select(
    pool: Pool, order: Sequence[Unit], room: Allowance, shaper: Shaper, limits: Mapping[str, int] = _NO_LIMITS
) -> list[Unit]:
    """Return the units that get in, shrunk if necessary. `limits` come from the last context."""
    if pool.optimize:
        return _select_best_set(pool, order, room, shaper)
    return _select_in_order(pool, order, room, shaper, limits)


def select_unique(
    pool: Pool, order: Sequence[Unit], room: Allowance, shaper: Shaper, limits: Mapping[str, int] = _NO_LIMITS
) -> tuple[list[Unit], list[tuple[Unit, str]]]:
    """Return the units that get in, without those that repeat a turn among them, and those that do.

    Which turns get in is known only afterwards, so copies of them are dropped then, and their room goes to the rest.
    """
    chosen = select(pool, order, room, shaper, limits)
    duplicates: list[tuple[Unit, str]] = []
    while pool.dedupe != "id" and (copies := find_copies(chosen, chosen)):
        duplicates += copies
        gone = {unit.key for unit, _ in copies}
        chosen = [unit for unit in chosen if unit.key not in gone]
        tried = gone.union(unit.key for unit in chosen)
        order = [unit for unit in order if unit.key not in gone]
        used = total_cost(chosen)
        left = Allowance(
            tokens=room.tokens - used, hard=room.hard - used, items=room.items + count_items(chosen), price=room.price
        )
        chosen += select(pool, [unit for unit in order if unit.key not in tried], left, shaper, limits)
    return chosen, duplicates


def limit_history(
    pool: Pool, order: Sequence[Unit], room: Allowance, fixed: Sequence[Unit]
) -> tuple[Pool, list[Unit], dict[str, Reason]]:
    """Apply a pool's limits for history, newest first, beside the `fixed` units of the pool.

    Return the pool with its minimum, the units that may get in (the minimum first), and why others may not.
    """
    limits, present = pool.history, list(filter(_is_history, fixed))
    items = count_items(present)
    used = total_cost(present)
    tokens = inf if limits.share is None else (room.tokens + used) * limits.share - used
    most = inf if limits.max_items is None else limits.max_items
    minimum: list[Unit] = []
    reasons: dict[str, Reason] = {}
    for unit in sorted(filter(_is_history, order), key=lambda each: each.when, reverse=True):
        if items + unit.items > most:
            reasons[unit.key] = "max-items"
        # The minimum of items gets in even if it takes more than the share.
        elif items >= limits.min_items and unit.cost > tokens:
            reasons[unit.key] = "pool-full"
        else:
            minimum += [unit] * (items < limits.min_items)
            items += unit.items
            tokens -= unit.cost
    first = {unit.key for unit in minimum}
    rest = [unit for unit in order if unit.key not in first and unit.key not in reasons]
    least = room.items + count_items(minimum) if minimum else 0
    return msgspec.structs.replace(pool, min_items=max(pool.min_items, least)), [*minimum, *rest], reasons


def _is_history(unit: Unit) -> bool:
    kind = unit.packages[0].kind
    return kind in ("message-recent", "message-current") or kind.startswith("tool-")


def at_low_water(pool: Pool, room: Allowance) -> tuple[Pool, Allowance]:
    """Return a pool and its room reduced to low water."""
    share = 1.0 if pool.low_water is None else pool.low_water
    max_items = None if pool.max_items is None else max(1, int(pool.max_items * share))
    low = Allowance(tokens=int(room.tokens * share), hard=room.hard, items=room.items)
    return msgspec.structs.replace(pool, max_items=max_items), low


def cap_large(span: Sequence[Unit], tokens: int, shaper: Shaper) -> list[Unit]:
    """Shorten large units of a history, newest first, until it fits, so that it may go on from where it began.

    The later a unit is, the more of the prefix stays. Units that were shortened before are shortened again only if
    that is not enough.
    """
    units, over = list(span), total_cost(span) - tokens
    for again in (False, True):
        for rank, unit in enumerate(units):
            if over > 0 and (again or unit.whole is None):
                units[rank] = _fit_unit(unit, unit.cost, _cap(tokens, rank), shaper, capped=True) or unit
                over -= unit.cost - units[rank].cost
    return units


def _cap(tokens: int, rank: int) -> int:
    """Return what a large unit of a history may take. The newest ones may take more."""
    return int(tokens * (NEWEST_SHARE if rank < _NEWEST else ITEM_SHARE))


def regrow(
    pool: Pool, span: list[Unit], older: Sequence[Unit], room: Allowance, high: int, shaper: Shaper
) -> list[Unit]:
    """Return history as it is, or with older units before it if much of it is gone.

    It grows to low water of `high`, as if it had been trimmed, so that it stays there for many turns.
    """
    _, low_room = at_low_water(pool, room)
    if not older or total_cost(span) > low_room.tokens * _REGROW_BELOW:
        return span
    low_pool, low = at_low_water(pool, msgspec.structs.replace(room, tokens=high))
    grown = select(low_pool, [*span, *older], low, shaper)
    return grown if len(grown) > len(span) else span


def drop_worst(units: Sequence[Unit], over: int, items: int, shaper: Shaper) -> tuple[list[Unit], list[str]]:
    """Drop units from the end until `over` tokens are saved. Return those that are left and the keys of the others.

    At most `items` items are dropped. The last one may be shrunk instead.
    """
    left, dropped = list(units), list[str]()
    under = Counter(unit.heading for unit in left)
    while left and over > 0 and left[-1].items <= items:
        worst = left.pop()
        smaller = shaper.shrink(worst, worst.cost - over) if worst.may_shrink else None
        if smaller is not None:
            left.append(smaller)
            break
        dropped.append(worst.key)
        under[worst.heading] -= 1
        over -= worst.cost if under[worst.heading] else worst.cost + worst.heading_cost
        items -= worst.items
    return left, dropped


def take_within(units: Iterable[Unit], tokens: int) -> list[Unit]:
    """Return the first units, without those that do not fit into what the ones before them left."""
    taken: list[Unit] = []
    for unit in units:
        if unit.cost <= tokens:
            taken.append(unit)
            tokens -= unit.cost
    return taken


def _select_in_order(
    pool: Pool, order: Sequence[Unit], room: Allowance, shaper: Shaper, limits: Mapping[str, int] = _NO_LIMITS
) -> list[Unit]:
    most, everything = inf if pool.max_items is None else pool.max_items, total_cost(order)
    if everything <= room.tokens and room.items + count_items(order) <= most:
        return grow_shrunk(order, room.tokens - everything, shaper)
    chosen: list[Unit] = []
    used, items = 0, room.items
    headings: set[str] = set()
    # In history, no item takes so much that others have no room, unless all fit.
    full = everything > room.tokens and any(unit.may_shrink for unit in order)
    capped = pool.contiguous and full
    repeated = limits if full else _NO_LIMITS
    same: set[str] = set()
    for rank, unit in enumerate(order):
        limit = max(room.hard, room.tokens) if items < pool.min_items else room.tokens
        left = limit - used - unit.heading_due(headings)
        taken: Unit | None = None
        if items + unit.items <= most:
            taken = _repeat_form(unit, repeated, left, shaper)
            if taken is not None:
                same.add(unit.key)
            else:
                cap = _cap(room.tokens, rank if pool.contiguous else _NEWEST)
                taken = _fit_unit(unit, left, cap, shaper, capped=capped)
        if taken is None:
            if pool.contiguous:
                break
            continue
        chosen.append(taken)
        headings.add(taken.heading)
        used = limit - left + taken.cost
        items += taken.items
    return grow_shrunk(chosen, room.tokens - used, shaper, same)


def _repeat_form(unit: Unit, limits: Mapping[str, int], left: int, shaper: Shaper) -> Unit | None:
    """Return the form that a unit had in the last context, if it fits."""
    again = shaper.shrink(unit, limits[unit.key]) if unit.may_shrink and unit.key in limits else None
    return again if again is not None and again.cost <= left else None


def _fit_unit(unit: Unit, left: int, cap: int, shaper: Shaper, *, capped: bool) -> Unit | None:
    """Return the unit, or a form of it if it does not fit or takes more than its cap."""
    is_large = unit.may_shrink and shaper.is_large(unit)
    if unit.cost <= left and not (capped and is_large and unit.cost > cap):
        return unit
    if not is_large:
        return shaper.shrink(unit, left) if unit.may_shrink else None
    smaller = shaper.shrink(unit, min(left, cap)) or shaper.smallest(unit)
    if smaller is not None and smaller.cost <= left:
        return smaller
    # It has no smaller form that fits: a large item is better than none.
    return unit if unit.cost <= left else shaper.shrink(unit, left)


def grow_shrunk(
    chosen: Sequence[Unit], left: int, shaper: Shaper, same: Container[str] = (), price: float = 0.0
) -> list[Unit]:
    """Give the remaining tokens to shrunk units, first ones first, if the gain is worth it.

    Units in `same` do not grow.
    """
    if not any(unit.whole for unit in chosen):
        return list(chosen)
    grown = []
    for unit in chosen:
        larger = unit
        if unit.whole is not None and left > 0 and unit.key not in same:
            fits = unit.whole.cost <= unit.cost + left
            larger = unit.whole if fits else shaper.shrink(unit, unit.cost + left) or unit
            if price and larger.value - unit.value <= price * (larger.cost - unit.cost):
                larger = unit
            left -= larger.cost - unit.cost
        grown.append(larger)
    return grown


def _select_best_set(pool: Pool, order: Sequence[Unit], room: Allowance, shaper: Shaper) -> list[Unit]:
    """Choose the minimum in order, the best set of the rest, and one more unit that shrinks into the last gap."""
    forced = _select_in_order(pool, order[: max(0, pool.min_items - room.items)], room, shaper)
    keys = {unit.key for unit in forced}
    rest = [unit for unit in order if unit.key not in keys] if keys else order
    left, price = msgspec.structs.replace(room, tokens=room.tokens - total_cost(forced)), room.price
    chosen = [*forced, *(_choose_beside(rest, left, forced, shaper) if left.tokens > 0 else ())]
    if pool.max_items is not None:
        # Limiting the best set can leave less than going down the list would have taken.
        chosen = max(
            _limit_items(chosen, pool.max_items - room.items),
            _select_in_order(pool, [unit for unit in order if unit.key in keys or unit.is_worth(price)], room, shaper),
            key=lambda units: total_score(units, price),
        )
    if pool.max_items is None or room.items + len(chosen) < pool.max_items:
        chosen += _fill_gap(rest, chosen, room, shaper)
    return grow_shrunk(chosen, room.tokens - total_cost(chosen), shaper, price=price)


def _choose_beside(units: Sequence[Unit], room: Allowance, beside: Sequence[Unit], shaper: Shaper) -> list[Unit]:
    if menus := _make_menus(units, room.tokens, shaper, room.price):
        return choose_best_forms(units, room, beside, menus, shaper)
    return choose_best_set([unit for unit in units if unit.is_worth(room.price)], room.tokens, beside)


def _make_menus(units: Sequence[Unit], tokens: int, shaper: Shaper, price: float) -> list[Menu]:
    """Return what to choose from for each unit; nothing if nothing may shrink, or everything fits and costs nothing.

    Forms are made only of the best units. Those that come with forms keep them.
    """
    if not any(unit.may_shrink for unit in units) or (not price and total_cost(units) <= tokens):
        return []
    menus = [shaper.own_menu(unit) for unit in units]
    others = [i for i, unit in enumerate(units) if unit.may_shrink and len(menus[i].costs) == 1]
    for index in sorted(others, key=lambda i: (-units[i].score.total, units[i].key))[:_MAX_WITH_OPTIONS]:
        menus[index] = shaper.menu(units[index])
    return menus


def _limit_items(chosen: Sequence[Unit], max_items: int) -> list[Unit]:
    kept: list[Unit] = []
    items = 0
    for unit in sorted(chosen, key=lambda u: (-u.value, u.key)):
        if items + unit.items <= max_items:
            kept.append(unit)
            items += unit.items
    return kept


def _fill_gap(order: Sequence[Unit], chosen: Sequence[Unit], room: Allowance, shaper: Shaper) -> list[Unit]:
    """Shrink the best unit that was left out into the remaining tokens, if that is worth them."""
    taken, headings = {unit.key for unit in chosen}, {unit.heading for unit in chosen}
    left = room.tokens - total_cost(chosen)
    may_shrink = (unit for unit in order if unit.may_shrink and unit.key not in taken)
    for unit, _ in zip(may_shrink, range(_MAX_SHRINK_TRIES), strict=False):
        shrunk = shaper.shrink(unit, left - unit.heading_due(headings))
        if shrunk is not None and shrunk.is_worth(room.price):
            return [shrunk]
    return []


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
    """All candidates: required ones, the others by pool, summaries that may replace clusters, and media of messages."""

    fixed: list[Unit]
    queues: dict[str, Queue]
    summaries: dict[str, list[Unit]]
    media: list[Unit]


def make_queues(units: Sequence[Unit], media: Sequence[Unit], policy: Policy) -> Queues:
    """Sort units into required ones, pools, summaries and media of messages."""
    candidates, summaries = split_summaries(units)
    fixed: list[Unit] = []
    waiting: dict[str, list[Unit]] = {pool.name: [] for pool in policy.pools}
    for unit in candidates:
        (fixed if unit.fixed else waiting[unit.pool]).append(unit)
    fixed += [unit for unit in media if unit.fixed]
    optional = sorted((unit for unit in media if not unit.fixed), key=lambda unit: (-unit.score.total, unit.key))
    queues = {pool.name: make_queue(pool, waiting[pool.name]) for pool in policy.pools}
    return Queues(fixed, queues, summaries, optional)


def make_queue(pool: Pool, waiting: list[Unit]) -> Queue:
    """Rank and deduplicate the candidates of one pool."""
    ranking = rank_units(pool, waiting)
    if pool.dedupe == "id":
        return Queue(pool, waiting, ranking, Deduplicated(ranking, [], {}))
    return Queue(pool, waiting, ranking, dedupe_by_content(ranking, {}, everything=pool.dedupe == "all"))
