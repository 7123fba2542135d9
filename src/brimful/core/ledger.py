"""The ledger of an agent's run: what the user said and the newest steps stay, every other step becomes a line.

A line has the call, the values of its result that later steps are likely to need, and the handle of the result:

    r13 get_order(id=W-17) → cust_88, date 2024-05-01, total 80

Lines are only added, so that the prefix stays the same, until they take too much. Then the ledger is written again, and
a summary stands for its oldest steps. A ledger that an earlier round wrote, and that came back, goes on in the new one.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from math import sqrt
from typing import Final

import msgspec

from brimful.cache import content_bytes, memoize
from brimful.core.compaction import compact
from brimful.core.content import ContentPackage, Text, ToolCall
from brimful.core.cost import is_from_user as is_user_message
from brimful.core.cost import is_own, role_of
from brimful.core.decision import Score
from brimful.core.forms import Shaper
from brimful.core.frame import part_text
from brimful.core.handles import Handles
from brimful.core.labels import HISTORY_CLOSE, HISTORY_OPEN, escape_tags, one_line
from brimful.core.ledger_lines import (
    Entry,
    Run,
    count_fields,
    make_entry,
    parts_of,
    pick_values,
    read_counts,
    read_entry,
)
from brimful.core.model import CacheRule
from brimful.core.own_output import handle_number, read_history, write_reach
from brimful.core.policy import LedgerRules, Pool
from brimful.core.prompt import Message, TokenCounter, Tool
from brimful.core.selection import LEDGER_ID, HistoryStart, LedgerState
from brimful.core.units import TimeKey, Unit, time_key, total_cost

_FOLDED_SHARE: Final = 0.15  # of the ledger, for the summary of the oldest steps
_MAX_COUNTED: Final = 4  # fields in the summary
_NEW_LINE: Final = "\n"
CARRIED: Final = "#"
"""Between the id of a ledger that an earlier round wrote and the number of a line in it."""
_READ: Final = 32  # units that a summary is made of; of older ones it only counts the calls
_TASK_SHARE: Final = 0.6  # of the room: a task that takes more is shortened
_SHORTENED: Final = 0.4  # of a large result that stays before steps become lines
_RECENT: Final = 8  # units whose mean is how much a request grows
_MISSING: Final = 2.0  # what a token costs that is missing, as a share of the input price: it is worth more than that
_LINES_FACTOR: Final = 4.0  # times what a line for every step takes, at least, stays
_SLACK: Final = 0.3  # of what a trim leaves free may be used up by lines that are longer than estimated
_MIN_SCALE: Final = 0.5  # if not even half of the lines leave that much free, the first choice that fits will do
_SCALES: Final = (1.0, 0.85, 0.7, 0.5, 0.3, 0.1, 0.0)  # of the room for the ledger, tried until the whole fits


class Choice(msgspec.Struct, frozen=True):
    """The units of a pool that are in, besides the ledger; `state` is None without one. `stepped`: it was trimmed."""

    chosen: list[Unit]
    ledger: Unit | None = None
    state: LedgerState | None = None
    stepped: bool = False

    @property
    def units(self) -> list[Unit]:
        """Everything that is in."""
        return self.chosen if self.ledger is None else [*self.chosen, self.ledger]


class LedgerWriter:
    """Chooses between units in full and lines of the ledger, and writes it."""

    def __init__(
        self,
        counter: TokenCounter,
        cost_of: Callable[[ContentPackage], int],
        handles: Handles,
        shaper: Shaper,
        tools: Sequence[Tool],
        cache: CacheRule | None = None,
    ) -> None:
        self._counter = counter
        self._cost_of = cost_of
        self._handles = handles
        self._shaper = shaper
        self._cache = cache
        self._parameters = {name for tool in tools for name in _parameter_names(tool)}
        self._entries: dict[str, Entry] = {}
        self._carried: dict[str, list[Unit]] = {}

    def choose(
        self, pool: Pool, units: Sequence[Unit], fixed: Sequence[Unit], tokens: int, previous: HistoryStart | None
    ) -> Choice:
        """Choose what gets into a pool beside its `fixed` units. Nothing is left out if all `units` fit."""
        units = sorted(units, key=_start)
        if total_cost(units) <= tokens:
            return Choice(units)
        limits = dict(previous.forms) if previous is not None else {}
        units = [line for unit in units for line in self._carry_over(self._as_before(unit, limits))]
        # Without a state of ours, a ledger among the messages was written by an earlier round, and goes on from there.
        state, known = (previous and previous.ledger) or LedgerState(), {unit.key for unit in units}
        state = state if state.last else self._carried_state(units, fixed)
        state = msgspec.structs.replace(state, lines=tuple(line for line in state.lines if line[0] in known))
        again = self._repeat(units, fixed, state)
        if total_cost(again.units) <= tokens:
            return again
        return self._trim(pool, units, fixed, tokens, state)

    def min_cost(self, units: Iterable[Unit]) -> int:
        """Return about how much it takes to keep what the user said, and a line for every other unit."""
        every = (line for unit in units for line in self._carry_over(unit))
        return sum(unit.cost if is_from_user(unit) else self._entry(unit.whole or unit).tokens for unit in every)

    def _as_before(self, unit: Unit, limits: dict[str, int]) -> Unit:
        return (unit.may_shrink and unit.key in limits and self._shaper.shrink(unit, limits[unit.key])) or unit

    # -- what an earlier round wrote ---------------------------------------------------------------------------------

    def _carry_over(self, unit: Unit) -> list[Unit]:
        """Return a unit; for a ledger, one for its summary and one for each of its lines, which never stay in full."""
        if not is_carried(unit) or unit.key in self._entries:
            return [unit]
        if unit.key in self._carried:
            return self._carried[unit.key]
        history = read_history(unit.packages[0].text)
        counts, summary = read_counts(history.summary)
        carried = [self._make_carried(unit, 0, summary, write_reach(history.last))]
        self._entries[carried[0].key] = counts
        for number, line in enumerate(history.lines, start=1):
            each = self._make_carried(unit, number, line.text)
            self._entries[each.key] = read_entry(line)
            carried.append(each)
        self._carried[unit.key] = carried
        return carried

    def _make_carried(self, unit: Unit, number: int, text: str, reach: str = "") -> Unit:
        own = unit.packages[0]
        package = msgspec.structs.replace(
            own,
            id=f"{own.id}{CARRIED}{number:04}",
            role="system",
            content=f"{HISTORY_OPEN}{text}{reach}{HISTORY_CLOSE}",
            tokens=self._counter.text(text),
        )
        return msgspec.structs.replace(unit, key=package.id, packages=(package,), cost=package.tokens.upper)

    def _carried_state(self, units: Sequence[Unit], fixed: Sequence[Unit]) -> LedgerState:
        """Return the state of the ledger that an earlier round wrote."""
        carried = [unit for unit in units if is_carried(unit)]
        if not carried:
            return LedgerState()
        last = max(map(_start, carried))
        lines = [unit for unit in carried if not is_summary(unit)]
        summary = total_cost(carried) - total_cost(lines)
        tags = self._counter.text(HISTORY_OPEN + HISTORY_CLOSE).upper
        return LedgerState(
            lines=tuple((unit.key, tuple(range(len(self._entry(unit).values)))) for unit in lines),
            whole=tuple(unit.key for unit in (*fixed, *units) if _start(unit) < last and not is_carried(unit)),
            last=carried[-1].key,
            folded=tags + max(summary, int(_FOLDED_SHARE * total_cost(carried))),
        )

    # -- the same as before ------------------------------------------------------------------------------------------

    def _repeat(self, units: Sequence[Unit], fixed: Sequence[Unit], state: LedgerState) -> Choice:
        """Return the choice of the previous context, with everything that is new in full."""
        if not state.last:
            return Choice(list(units))
        lined, kept = {key for key, _ in state.lines}, set(state.whole)
        # If the last unit of the ledger was deleted, nothing tells where it ended: all units count as new then.
        end = next((i for i, unit in enumerate(units) if unit.key == state.last), -1) + 1
        chosen = [unit for i, unit in enumerate(units) if i >= end or unit.key in kept]
        folded = [unit for i, unit in enumerate(units) if i < end and unit.key not in kept and unit.key not in lined]
        return self._make_choice(chosen, units, fixed, folded, state)

    def _make_choice(
        self,
        chosen: list[Unit],
        units: Sequence[Unit],
        fixed: Sequence[Unit],
        folded: Sequence[Unit],
        state: LedgerState,
        *,
        stepped: bool = False,
    ) -> Choice:
        by_key = {unit.key: unit for unit in units}
        lined = [self._entry(by_key[key].whole or by_key[key]) for key, _ in state.lines]
        lines = [line for entry, (_, picks) in zip(lined, state.lines, strict=True) for line in entry.write(picks)]
        summary = self._summarize(folded, state.folded, lined, _find_task([*fixed, *units]))
        if not lines and not summary:
            return Choice(chosen, stepped=stepped)
        reach = self._write_reach(lines, [*folded, *(by_key[key] for key, _ in state.lines)])
        text = f"{HISTORY_OPEN}{_NEW_LINE.join([*lines, ''])}{reach}{summary}{HISTORY_CLOSE}"
        return Choice(chosen, self._make_unit(text, [*fixed, *chosen], units[0]), state, stepped)

    def _write_reach(self, lines: Iterable[str], out: Iterable[Unit]) -> str:
        """Return the highest handle that is left out, unless a line has it: the next round goes on after it."""
        reached = max((self._reached(package) for unit in out for package in unit.packages), default=-1)
        return write_reach(reached) if reached > read_history(_NEW_LINE.join(lines)).last else ""

    def _reached(self, package: ContentPackage) -> int:
        return read_history(package.text).last if is_own(package) else handle_number(self._handles[package.id])

    def _make_unit(self, text: str, inside: Sequence[Unit], any_unit: Unit) -> Unit:
        """Return the ledger as a unit. It comes right after the user's first message, or a summary of older steps."""
        package = ContentPackage(
            id=LEDGER_ID, kind=LEDGER_ID, role="user", content=text, tokens=self._counter.text(text)
        )
        users = sorted(filter(is_from_user, inside), key=lambda unit: (not unit.packages[0].covers, _start(unit)))
        timestamp, position, id = _start(users[0]) if users else (0.0, -1, "")
        return Unit(
            key=LEDGER_ID,
            packages=(package,),
            cost=self._cost_of(package),
            score=Score(1.0, 1.0, 1.0, 1.0, 1.0),
            pool=any_unit.pool,
            fixed=False,
            may_shrink=False,
            replaced_region="history",
            moved=(timestamp, position, f"{id}~"),
        )

    def _summarize(self, folded: Sequence[Unit], limit: int, lined: Sequence[Entry], task: str) -> str:
        if not folded or not limit:
            return ""
        recent = _read_folded(folded)
        # A run may have hundreds of old steps: `compact` gets their counts, as if we had summarized them before.
        calls = Counter(
            part.name
            for unit in folded[:-_READ]
            for _, part in parts_of(unit.whole or unit)
            if isinstance(part, ToolCall)
        )
        earlier = "; ".join(f"{name} ×{times}" for name, times in sorted(calls.items()))
        if earlier:
            summary = Text(text=f"{HISTORY_OPEN}calls: {earlier}\n{HISTORY_CLOSE}")
            recent.insert(0, Message(role="user", parts=(summary,)))
        counted = count_fields((self._entry(unit.whole or unit) for unit in folded), lined, task)
        lines = escape_tags("".join(f"{one_line(line)}\n" for line in islice(counted, _MAX_COUNTED)))
        return lines + _compact(tuple(recent), limit, self._counter)

    # -- a large step ------------------------------------------------------------------------------------------------

    def _trim(
        self, pool: Pool, units: Sequence[Unit], fixed: Sequence[Unit], tokens: int, state: LedgerState
    ) -> Choice:
        rules = pool.ledger or LedgerRules()
        target = self._find_target(pool, rules, units, tokens)
        units = [unit if unit.whole else self._shaper.without_reasoning(unit) or unit for unit in units]
        before = self._repeat(units, fixed, state)
        shorter = self._shorten_results(before, target)
        if shorter is not None:  # without the model's reasoning, or with less of large results
            return shorter
        users = self._keep_users(before.chosen, int(rules.users * target), int(_TASK_SHARE * tokens))
        most = min(int(rules.max_share * target), tokens - total_cost(users))
        if before.ledger is not None and before.ledger.cost > most:
            state, before = LedgerState(), Choice(list(units))
            users = self._keep_users(before.chosen, int(rules.users * target), int(_TASK_SHARE * tokens))
        others = _without(before.chosen, {unit.key for unit in users})
        ledger = before.ledger.cost if before.ledger else 0
        left = target - total_cost(users) - ledger
        newest = self._keep_newest(others, left, rules.newest)
        high, room = target + int(_SLACK * (tokens - target)), left - total_cost(newest)
        choice = Choice([*users, *newest])
        fits: list[Choice] = []
        for scale in _SCALES:  # lines are estimated, so that fewer are tried until they fit
            choice = self._extend(units, fixed, [*users, *newest], int(room * scale), state, before)
            used = total_cost(choice.units)
            if used <= high:
                return choice
            if used <= tokens:
                fits.append(choice)
            if fits and scale <= _MIN_SCALE:
                return fits[0]
        return self._give_way(choice.chosen, tokens)

    def _find_target(self, pool: Pool, rules: LedgerRules, units: Sequence[Unit], tokens: int) -> int:
        """Return to how many tokens to trim: to the low water, or lower if that pays."""
        low, least = int(tokens * (pool.low_water or 1.0)), rules.clear_at_least
        if least != "cheapest":
            return min(low, max(0, tokens - int(least if least >= 1 else least * tokens)))
        if self._cache is None or tokens < self._cache.minimum_tokens:
            return low
        steps = [(unit.whole or unit).cost for unit in units if not is_carried(unit)][-_RECENT:]
        best = find_best_clear(tokens, sum(steps) / max(1, len(steps)), self._cache)
        return min(low, max(tokens - best, int(_LINES_FACTOR * self.min_cost(units))))

    def _shorten_results(self, before: Choice, target: int) -> Choice | None:
        """Return a choice whose large results are shortened, the oldest first; None if it is still too large then.

        A result is not shortened if a value is lost that a line of the ledger would show.
        """
        units, over = list(before.chosen), total_cost(before.units) - target
        for index, unit in enumerate(units):
            if over > 0 and not unit.forms and unit.may_shrink and not is_from_user(unit):
                smaller = self._shaper.shrink(unit, int(_SHORTENED * unit.cost))
                if smaller is not None and self._has_likely_values(smaller):
                    units[index] = smaller
                    over -= unit.cost - smaller.cost
        return msgspec.structs.replace(before, chosen=units, stepped=True) if over <= 0 else None

    def _has_likely_values(self, smaller: Unit) -> bool:
        text = "\n".join(part_text(part) for _, part in parts_of(smaller))
        return all(value.text in text for value in self._entry(smaller.whole or smaller).values if value.is_likely)

    def _keep_users(self, units: Sequence[Unit], tokens: int, task: int) -> list[Unit]:
        """Return what the user said: the first message, and the newest ones that fit, shortened if they are huge.

        The first message, which is the task, may take more than the others.
        """
        users = [unit for unit in units if is_from_user(unit)]
        kept: list[Unit] = []
        for unit in (*users[:1], *reversed(users[1:])):
            limit = tokens if kept else max(tokens, task)
            taken = unit
            if unit.cost > limit:
                taken = (unit.may_shrink and self._shaper.shrink(unit, limit)) or unit
            if taken.cost > limit and kept:
                break
            kept.append(taken)
            tokens -= taken.cost
        return sorted(kept, key=_start)

    def _keep_newest(self, units: Sequence[Unit], tokens: int, share: float) -> list[Unit]:
        """Return the newest units that stay in full: as many as leave room for a rich ledger of the others."""
        rich = [self._entry(unit.whole or unit).tokens for unit in units]
        rest, used = sum(rich), 0
        newest: list[Unit] = []
        for unit, line in zip(reversed(units), reversed(rich), strict=True):
            used, rest = used + unit.cost, rest - line
            if is_carried(unit) or used + min(rest, int((1 - share) * tokens)) > tokens:
                break
            newest.append(unit)
        return newest[::-1]

    def _extend(
        self,
        units: Sequence[Unit],
        fixed: Sequence[Unit],
        chosen: list[Unit],
        room: int,
        state: LedgerState,
        before: Choice,
    ) -> Choice:
        """Return a choice with these units, and lines for all others in about so many tokens."""
        inside = {unit.key for unit in chosen}
        if all(unit.key in inside for unit in units):  # what the user said is shorter, and all the rest fits
            return Choice(chosen, stepped=True)
        out = [unit for unit in _without(before.chosen, inside) if not is_summary(unit)]
        limit = state.folded or int(_FOLDED_SHARE * room)
        picks = self._pick_values(out, units, fixed, room - (limit - state.folded), state)
        lines = (*state.lines, *((unit.key, picks[unit.key]) for unit in out if unit.key in picks))
        gone = {key for key, _ in lines} | inside
        folded = _without(units, gone)
        last = max(_without(units, inside), key=_start)
        kept = tuple(unit.key for unit in (*fixed, *chosen) if _start(unit) < _start(last))
        state = LedgerState(lines=lines, whole=kept, last=last.key, folded=limit)
        return self._make_choice(chosen, units, fixed, folded, state, stepped=True)

    def _pick_values(
        self, out: Sequence[Unit], units: Sequence[Unit], fixed: Sequence[Unit], room: int, state: LedgerState
    ) -> dict[str, tuple[int, ...]]:
        """Choose the values for the lines of units that are out."""
        every = ((unit, self._entry(unit.whole or unit)) for unit in (*units, *fixed))
        entries = [entry for unit, entry in every if entry.is_step or not is_from_user(unit)]
        run = Run([*units, *fixed], self._parameters, entries)
        by_key = {unit.key: unit for unit in units}
        # A value that a line already shows, or that somebody mentioned, needs no second place.
        shown = set(run.mentioned)
        for key, picked in state.lines:
            values = self._entry(by_key[key].whole or by_key[key]).values
            shown.update(values[i].text for i in set(picked).intersection(range(len(values))))
        return pick_values({unit.key: self._entry(unit.whole or unit) for unit in out}, run, shown, room)

    def _give_way(self, chosen: list[Unit], tokens: int) -> Choice:
        """Return a choice for a room that has no place for the task, which is shortened or left out."""
        task = min(filter(is_from_user, chosen), key=_start, default=None)
        smaller = self._shaper.shrink(task, tokens) if task and task.may_shrink else None
        return Choice([] if smaller is None else [smaller], stepped=True)

    # -- lines -------------------------------------------------------------------------------------------------------

    def _entry(self, unit: Unit) -> Entry:
        entry = self._entries.get(unit.key)
        if entry is None:
            entry = self._entries[unit.key] = make_entry(unit, self._handles)
        return entry


def find_best_clear(tokens: int, growth: float, cache: CacheRule) -> int:
    """Return how many of so many tokens a trim should clear, if requests grow by `growth`, at most a third of them.

    A trim makes the provider write to the cache what it would have read from it, and the more it clears, the rarer it
    is. But cleared tokens are missing until as many have grown back, half of them on average. As for any stock that is
    filled up now and then, the sum of both is lowest at a square root.

    >>> find_best_clear(100_000, 2_000, CacheRule(minimum_tokens=1_024, read=0.1, write=1.25))
    15559
    >>> find_best_clear(100_000, 2_000, CacheRule(minimum_tokens=1_024))
    0
    """
    again = (cache.write - cache.read) * growth * tokens
    return min(tokens // 3, int(sqrt(2 * max(0.0, again) / (_MISSING - cache.read))))


def _without(units: Iterable[Unit], keys: Collection[str]) -> list[Unit]:
    return [unit for unit in units if unit.key not in keys]


def _read_folded(folded: Sequence[Unit]) -> list[Message]:
    """Return the messages to summarize: the newest units, and what an earlier round wrote."""
    carried = [unit for unit in folded[:-_READ] if is_carried(unit)]
    return [
        Message(role=role_of(package), parts=package.parts)
        for unit in (*carried, *folded[-_READ:])
        for package in (unit.whole or unit).packages
    ]


def _find_task(units: Iterable[Unit]) -> str:
    """Return what the user said first."""
    task = min(filter(is_from_user, units), key=_start, default=None)
    return " ".join(part.text for _, part in parts_of(task.whole or task) if isinstance(part, Text)) if task else ""


def is_from_user(unit: Unit) -> bool:
    """Whether the user wrote a part of the unit."""
    return any(map(is_user_message, unit.packages))


def is_carried(unit: Unit) -> bool:
    """Whether the unit is a ledger or a summary that an earlier round wrote, or a line of it."""
    return len(unit.packages) == 1 and is_own(unit.packages[0])


def is_summary(unit: Unit) -> bool:
    """Whether the unit is the summary of a ledger that an earlier round wrote."""
    return is_carried(unit) and unit.key.endswith(f"{CARRIED}0000")


def _start(unit: Unit) -> TimeKey:
    return time_key(unit.packages[0])


def _parameter_names(tool: Tool) -> Iterator[str]:
    properties = tool.parameters.get("properties")
    yield from properties if isinstance(properties, dict) else ()


def _compact_cached(messages: tuple[Message, ...], limit: int, counter: TokenCounter) -> str:
    text = compact(messages, limit, lambda each: counter.text(each).upper)
    return text.removeprefix(HISTORY_OPEN).removesuffix(HISTORY_CLOSE)


_compact: Final = memoize(
    _compact_cached, name="values", size=lambda args, text: content_bytes(text) + 100 * len(args[0])
)
