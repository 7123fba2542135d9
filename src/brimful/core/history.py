"""Choose the units of a pool, so that the beginning of a conversation stays where it was.

Providers cache a prompt from its first token on. History is therefore not cut a little on every turn, but by a large
step now and then:

    span: history from where   ─ fits ────────────────────────► stays as it is
    it began last time, with   ─ over high water ─────────────► step: begins later, at low water
    everything since           ─ finds are worth more ────────► division: begins later, with less than that
                               ─ much of it was deleted ──────► grows back: begins earlier, at low water

High water is the pool's room and what later pools are certain to leave of theirs; low water is a share of it. A
division gives history less than that, because finds are worth more than its oldest turns; it pays only if they are
worth reading all of it again, and history that was divided stays small until it is far below its share. Growing back
goes to low water, too, so that history can stay there for many turns.

A pool with a ledger keeps an agent's newest steps and writes one line about each of the others.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import filterfalse, takewhile
from math import ceil
from typing import Final

import msgspec

from brimful.core.candidates import content_owners
from brimful.core.cost import region_of
from brimful.core.decision import Reason
from brimful.core.forms import Shaper
from brimful.core.ledger import LedgerWriter, is_from_user
from brimful.core.policy import NO_HISTORY_LIMITS, Pool
from brimful.core.select import (
    Allowance,
    at_low_water,
    cap_large,
    limit_history,
    rank_units,
    regrow,
    select,
    select_unique,
    take_within,
)
from brimful.core.selection import HistoryStart, LedgerState
from brimful.core.substitute import Summaries, Swap, apply_swaps, find_swaps, take_until_saved
from brimful.core.units import Unit, count_items, total_cost
from brimful.core.worth import Balance

_LAST_STEP = 0.25  # of its pool, that the last step of an agent's run may take in any case
_FIRST_TURNS = 8  # of a conversation, after the first words of the user, that tell whether it is the run of an agent
_MIN_OBSERVATION = 50  # tokens of what comes back, on average
_OBSERVATIONS = 1.5  # times as long as the answers is what comes back to an agent, at least
_ACTION: Final = re.compile(
    r"^[ \t]{0,8}(?:```|<[a-z_]{1,40}[\s=>/]|action\b|\{\s{0,8}\")", re.IGNORECASE | re.MULTILINE
)
_REGROW_DIVIDED = 0.1  # of its share: history that gave room to search results grows back only in a far larger window


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What a pool has to know of the rest of the window.

    `fixed` are all required units, `texts` returns the normalized hashes of units in other pools, and `high_water`
    the pool's room with what later pools are certain to leave. If history and finds share the window by their worth,
    `balance` weighs them, and history gets `min_tokens` in any case. In a tool loop, `retrieved` has what was found
    for the question, in its order, each with the cost it was shortened to.
    """

    room: Allowance
    fixed: Sequence[Unit]
    shaper: Shaper
    summaries: Summaries
    texts: Callable[[], set[str]]
    high_water: Callable[[], int]
    balance: Balance | None
    min_tokens: int
    previous: HistoryStart | None
    retrieved: Mapping[str, int] | None

    def fixed_in(self, pool: Pool) -> list[Unit]:
        """Return the required units of a pool."""
        return [unit for unit in self.fixed if unit.pool == pool.name]

    def target(self, most: int) -> int:
        """Return how many tokens history should get, at most."""
        return self.balance.best(min(self.min_tokens, most), most) if self.balance else most

    def find_swaps(self, order: Sequence[Unit], protected: Sequence[str] = ()) -> list[Swap]:
        """Return the clusters that summaries could replace. No text is used twice."""
        elsewhere = self.texts().union(content_owners(order)) if self.summaries else ()
        return find_swaps(order, self.summaries, protected, elsewhere)


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The units that were chosen for a pool, and how.

    `order` is that of its candidates, `copies` repeat turns that are in, and `replaced` maps units to the summaries or
    the ledger that replaced them. `limited` is the pool with the minimum that its limits for history ask for, and
    `limits` says which units these kept out. `shrunk` are required units in smaller forms, by key.
    """

    order: Sequence[Unit]
    chosen: list[Unit]
    copies: Sequence[tuple[Unit, str]] = ()
    replaced: Mapping[str, Unit] = {}
    limited: Pool | None = None
    limits: Mapping[str, Reason] = {}
    stepped: bool = False
    continued: bool = False
    divided: bool | None = None
    shrunk: Mapping[str, Unit] = {}
    ledger: LedgerState | None = None


def choose_units(pool: Pool, order: list[Unit], setting: Setting) -> Choice:
    """Choose the units of a pool in its order or as a best set, or go on with the history of the previous context."""
    room = setting.room
    if pool.optimize and setting.retrieved is not None:
        return _repeat_retrieved(pool, order, setting, setting.retrieved)
    if pool.low_water is not None and (span := _find_span(pool, order, setting)):
        return _continue_history(pool, order, span, setting)
    if setting.balance is None:
        return _select(pool, order, room, setting)
    target = setting.target(room.tokens)
    choice = _select(pool, order, _with_tokens(room, target), setting)
    return msgspec.structs.replace(choice, divided=target < room.tokens)


def _repeat_retrieved(pool: Pool, order: list[Unit], setting: Setting, retrieved: Mapping[str, int]) -> Choice:
    """Choose the results of the question's own search: every step of a tool loop has the same ones before it."""
    by_key = {unit.key: unit for unit in order if region_of(unit.packages[0]) == "related"}
    again = [
        (limit and setting.shaper.shrink(by_key[key], limit)) or by_key[key]
        for key, limit in retrieved.items()
        if key in by_key
    ]
    again = take_within(again, setting.room.tokens)
    left = _with_tokens(setting.room, setting.room.tokens - total_cost(again))
    choice = _select(pool, [unit for unit in order if unit.key not in by_key], left, setting)
    limits: dict[str, Reason] = {**choice.limits, **dict.fromkeys(by_key.keys() - retrieved.keys(), "unchanged")}
    return msgspec.structs.replace(choice, order=order, chosen=[*again, *choice.chosen], limits=limits)


def _select(pool: Pool, order: list[Unit], room: Allowance, setting: Setting) -> Choice:
    replaced: dict[str, Unit] = {}
    if pool.summarize:
        order, replaced = _summarize(pool, order, room, setting)
    limited, order, limits = _limit(pool, order, room, setting)
    # Without large steps, a form stays as long as its unit does.
    forms = dict(setting.previous.forms) if setting.previous is not None and pool.low_water is None else {}
    chosen, copies = select_unique(limited or pool, order, room, setting.shaper, forms)
    return Choice(order=order, chosen=chosen, copies=copies, replaced=replaced, limited=limited, limits=limits)


def _limit(
    pool: Pool, order: list[Unit], room: Allowance, setting: Setting
) -> tuple[Pool | None, list[Unit], dict[str, Reason]]:
    if pool.history == NO_HISTORY_LIMITS:
        return None, order, {}
    return limit_history(pool, order, room, setting.fixed_in(pool))


def _with_tokens(room: Allowance, tokens: int) -> Allowance:
    return msgspec.structs.replace(room, tokens=tokens)


def find_task(units: Iterable[Unit]) -> list[Unit]:
    """Return what the user said before the first answer, if the conversation is the run of an agent without tools.

    In such a run, messages of the user are what came of the actions in the answers: most answers have one, or what
    comes back is longer than the answers. In other conversations, the first words matter no more than later ones. Only
    the first turns decide, so that it stays decided.
    """
    turns = sorted(filter(_is_turn, units), key=lambda unit: unit.when)
    task = list(takewhile(is_from_user, turns))
    rest = turns[len(task) : len(task) + _FIRST_TURNS]
    answers = list(filterfalse(is_from_user, rest))
    acts = sum(_ACTION.search(unit.packages[0].text) is not None for unit in answers)
    observed = total_cost(rest) - total_cost(answers)
    least = max(_OBSERVATIONS * total_cost(answers), _MIN_OBSERVATION * (len(rest) - len(answers)))
    is_run = 2 * acts >= len(answers) or observed > least
    return task if is_run and len(rest) > len(answers) > 1 else []


# -- summaries -------------------------------------------------------------------------------------------------------


def _summarize(pool: Pool, order: list[Unit], room: Allowance, setting: Setting) -> tuple[list[Unit], dict[str, Unit]]:
    """Replace clusters by summaries until the pool fits, as far back as summaries reach."""
    swaps = setting.find_swaps(order, protected=[unit.key for unit in order[: pool.min_items]])
    if not swaps or total_cost(order) <= room.tokens:
        return order, {}
    # With every summary in use, the pool reaches as far back as it can. What is older stays out, summarized or not.
    reached = select(pool, rank_units(pool, apply_swaps(order, swaps)), room, setting.shaper)
    within = {unit.key for unit in reached}
    reachable = [swap for swap in swaps if swap.summary.key in within]
    within.update(unit.key for swap in reachable for unit in swap.members)
    over = total_cost([unit for unit in order if unit.key in within]) - room.tokens
    taken = take_until_saved(reachable, over)
    return rank_units(pool, apply_swaps(order, taken)), replaced_by(taken)


def replaced_by(swaps: Sequence[Swap]) -> dict[str, Unit]:
    """Return the summary of each unit that is replaced, by its key."""
    return {unit.key: swap.summary for swap in swaps for unit in swap.members}


# -- a history that goes on ------------------------------------------------------------------------------------------


class _Span(msgspec.Struct, frozen=True):
    """History from where it began last time, newest first, older units, and the units that its summaries replaced."""

    units: list[Unit]
    older: list[Unit]
    replaced: dict[str, Unit]


def _find_span(pool: Pool, order: list[Unit], setting: Setting) -> _Span | None:
    """Return the history of the previous context with all that came after it, or None if its beginning is gone."""
    previous = setting.previous
    if previous is None:
        return None
    # A summary that is new since then would change the prefix, so only the ones that were in it are used.
    again = [swap for swap in setting.find_swaps(order) if swap.summary.key in previous.summaries]
    units = rank_units(pool, apply_swaps(order, again))
    end = next((i for i, unit in enumerate(units) if unit.key == previous.first), None)
    if end is None:
        return None
    limits = dict(previous.forms)
    span = [
        (unit.may_shrink and unit.key in limits and setting.shaper.shrink(unit, limits[unit.key])) or unit
        for unit in units[: end + 1]
    ]
    return _Span(span, units[end + 1 :], replaced_by(again))


def _continue_history(pool: Pool, order: list[Unit], span: _Span, setting: Setting) -> Choice:
    """Go on with a history. The pool is final then: leftover tokens go to the pools after it."""
    high = setting.high_water()
    units = cap_large(span.units, high, setting.shaper) if total_cost(span.units) > high else span.units
    items = setting.room.items + count_items(units)
    fits = total_cost(units) <= high and (pool.max_items is None or items <= pool.max_items)
    target = setting.target(high)
    if fits and not _pays(pool, setting.balance, total_cost(units), target):
        return _stay(pool, order, msgspec.structs.replace(span, units=units), target, setting)
    low_pool, low = at_low_water(pool, _with_tokens(setting.room, high))
    if fits:
        choice = _select(pool, order, _with_tokens(setting.room, target), setting)
    else:
        choice = _select(low_pool, order, _with_tokens(setting.room, min(target, low.tokens)), setting)
    replaced = {**span.replaced, **choice.replaced}
    return msgspec.structs.replace(choice, stepped=True, continued=True, divided=target < high, replaced=replaced)


def _pays(pool: Pool, balance: Balance | None, span: int, target: int) -> bool:
    """Whether it pays to begin history later, although the provider then has to read all of it again."""
    if balance is None or pool.need is None:
        return False
    return target < span and balance.worth(target) - balance.worth(span) > pool.need.reread * target / 1_000


def _stay(pool: Pool, order: list[Unit], span: _Span, target: int, setting: Setting) -> Choice:
    """Keep a history that fits, and let it grow back if much of it is gone."""
    was_divided = setting.previous is not None and setting.previous.divided
    grown = span.units
    if not was_divided or total_cost(grown) <= _REGROW_DIVIDED * target:
        grown = regrow(pool, grown, span.older, setting.room, target, setting.shaper)
    has_grown = len(grown) > len(span.units)
    return Choice(
        order=order,
        chosen=grown,
        replaced=span.replaced,
        stepped=has_grown,
        continued=True,
        divided=was_divided and not has_grown,
    )


# -- a ledger --------------------------------------------------------------------------------------------------------


def choose_with_ledger(pool: Pool, order: list[Unit], setting: Setting, writer: LedgerWriter) -> Choice:
    """Keep what the user wrote and the newest steps. If not everything fits, a large last step is shortened, too."""
    limited, order, limits = _limit(pool, order, setting.room, setting)
    pool = limited or pool
    is_full = total_cost(order) > setting.room.tokens or any(unit.whole for unit in setting.fixed_in(pool))
    shrunk = _shrink_steps(pool, setting, order, writer) if is_full else {}
    fixed = [shrunk.get(unit.key, unit) for unit in setting.fixed]
    tokens = setting.room.tokens + total_cost(setting.fixed) - total_cost(fixed)
    turns = list(filter(_is_turn, order))
    own = [shrunk.get(unit.key, unit) for unit in setting.fixed_in(pool)]
    choice = writer.choose(pool, turns, own, tokens, setting.previous)
    left = msgspec.structs.replace(setting.room, tokens=tokens - total_cost(choice.units), hard=0)
    others = select(pool, list(filterfalse(_is_turn, order)), left, setting.shaper)
    inside = {unit.key for unit in choice.chosen}
    is_cut = is_full or any(unit.whole for unit in fixed)
    return Choice(
        order=order,
        chosen=[*choice.units, *others],
        replaced={unit.key: choice.ledger for unit in turns if choice.ledger and unit.key not in inside},
        limited=limited,
        limits=limits,
        stepped=choice.stepped,
        shrunk=shrunk,
        # Without lines, too, the state makes the next context repeat the forms of required steps.
        ledger=choice.state or (LedgerState() if is_cut else None),
    )


def _is_turn(unit: Unit) -> bool:
    return region_of(unit.packages[0]) in ("history", "current")


def find_spare(pool: Pool, order: Sequence[Unit], fixed: Sequence[Unit], writer: LedgerWriter) -> int:
    """Return how many tokens a pool needs beside its `fixed` units so that none of these steps is shortened."""
    everything, needed, low = total_cost(order), writer.min_cost(order), pool.low_water or 1.0
    rooms = (
        min(unit.cost + everything, ceil(unit.cost / _LAST_STEP), ceil((unit.cost + needed) / low)) - unit.cost
        for unit in filter(_may_shorten, fixed)
    )
    return max(rooms, default=0)


def _may_shorten(unit: Unit) -> bool:
    return unit.may_shrink and not is_from_user(unit)


def _shrink_steps(pool: Pool, setting: Setting, order: Sequence[Unit], writer: LedgerWriter) -> dict[str, Unit]:
    """Return the required steps that are too large in a smaller form, so that others have room, and the ledger."""
    before = dict(setting.previous.forms) if setting.previous is not None else {}
    tokens = setting.room.tokens
    shrunk: dict[str, Unit] = {}
    for unit in filter(_may_shorten, setting.fixed_in(pool)):
        both = tokens + unit.cost
        limit = before.get(unit.key, int(_LAST_STEP * both))
        if unit.cost > limit and unit.key not in before:
            limit = max(limit, int((pool.low_water or 1.0) * both) - writer.min_cost(order))
        if unit.cost > limit:
            smaller = setting.shaper.shrink(unit, limit) or setting.shaper.smallest(unit) or unit
            shrunk[unit.key] = smaller
            tokens += unit.cost - smaller.cost
    return shrunk
