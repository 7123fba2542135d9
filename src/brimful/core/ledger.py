"""The ledger of an agent's run: what the user said and the newest steps stay, every other step becomes a line.

A line has the call, the values of its result that later steps are likely to need, and the handle of the result:

    r13 get_order(id=W-17) → cust_88, date 2024-05-01, total 80

Lines are only added, so that the prefix stays the same, until they take too much. Then the ledger is written again, and
a summary stands for its oldest steps.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import sqrt
from typing import Any, Final

import msgspec

from brimful.cache import content_bytes, memoize
from brimful.core.compaction import compact
from brimful.core.content import ContentPackage, Text, ToolCall, ToolResult
from brimful.core.cost import role_of
from brimful.core.decision import Score
from brimful.core.forms import Shaper
from brimful.core.handles import Handles
from brimful.core.labels import HISTORY_CLOSE, HISTORY_OPEN, escape_tags, one_line
from brimful.core.model import CacheRule
from brimful.core.policy import LedgerRules, Pool
from brimful.core.prompt import Message, TokenCounter, Tool
from brimful.core.selection import LEDGER_ID, HistoryStart, LedgerState
from brimful.core.units import TimeKey, Unit, time_key, total_cost
from brimful.shorten.values import IDENTIFIER, Value, find_values, parse_json, write_values

_USED: Final = 1.5  # times as likely to be needed, if a call, the user or the assistant has used the value
_ARGUMENT: Final = 1.5  # … if a tool has an argument of this name
_AGE: Final = 0.93  # … for each step since
_CALL: Final = 0.6  # worth of the call itself: a model that does not know of it makes it again
_CALL_AGE: Final = 0.98  # … times that for each step since
_HEAD: Final = -1  # stands for the call in place of one of its values
_MIN_WORTH: Final = 0.04  # values that are less likely to be needed are left out, even if there is room
_LIKELY_ROWS: Final = 4  # … values of a list may be needed, unless a tool has an argument of their name
_TITLE: Final = 0.1  # worth of the beginning of a message
_CHARACTERS: Final = 3  # of a value in a token, about
_SEPARATOR: Final = 2  # tokens between values, with part of a key
_MAX_ARGUMENT: Final = 60  # characters of an argument in a line
_MAX_TITLE: Final = 100  # characters of a message in a line
_FOLDED_SHARE: Final = 0.15  # of the ledger, for the summary of the oldest steps
_NEW_LINE: Final = "\n"
_READ: Final = 32  # units that a summary is made of; of older ones it only counts the calls
_TASK_SHARE: Final = 0.6  # of the room: a task that takes more is shortened
_RECENT: Final = 8  # units whose mean is how much a request grows
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


class _Entry(msgspec.Struct, frozen=True, gc=False):
    """What the ledger can say about a unit: the beginning of each line, how many values it has, and these values.

    `tokens` are estimated with the likely values, and `size` without values.
    """

    heads: tuple[tuple[str, int], ...]
    values: tuple[Value, ...]
    tokens: int
    size: int
    is_step: bool

    def write(self, picks: Sequence[int]) -> Iterator[str]:
        end, picked = 0, set(picks)
        for head, count in self.heads:
            values = [self.values[at] for at in range(end, end + count) if at in picked]
            end += count
            yield escape_tags(one_line(f"{head} → {write_values(values)}" if values else head))


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
        self._entries: dict[str, _Entry] = {}

    def choose(
        self, pool: Pool, units: Sequence[Unit], fixed: Sequence[Unit], tokens: int, previous: HistoryStart | None
    ) -> Choice:
        """Choose what gets into a pool beside its `fixed` units. Nothing is left out if all `units` fit."""
        units = sorted(units, key=_start)
        if total_cost(units) <= tokens:
            return Choice(units)
        limits = dict(previous.forms) if previous is not None else {}
        units = [self._as_before(unit, limits) for unit in units]
        state, known = (previous and previous.ledger) or LedgerState(), {unit.key for unit in units}
        state = msgspec.structs.replace(state, lines=tuple(line for line in state.lines if line[0] in known))
        again = self._repeat(units, fixed, state)
        if total_cost(again.units) <= tokens:
            return again
        return self._trim(pool, units, fixed, tokens, state)

    def min_cost(self, units: Iterable[Unit]) -> int:
        """Return about how much it takes to keep what the user said, and a line for every other unit."""
        return sum(unit.cost if is_from_user(unit) else self._entry(unit.whole or unit).tokens for unit in units)

    def _as_before(self, unit: Unit, limits: dict[str, int]) -> Unit:
        return (unit.may_shrink and unit.key in limits and self._shaper.shrink(unit, limits[unit.key])) or unit

    # -- the same as before ------------------------------------------------------------------------------------------

    def _repeat(self, units: Sequence[Unit], fixed: Sequence[Unit], state: LedgerState) -> Choice:
        """Return the choice of the previous context, with everything that is new in full."""
        if not state.last:
            return Choice(list(units))
        lined, kept = {key for key, _ in state.lines}, set(state.whole)
        end = next((at for at, unit in enumerate(units) if unit.key == state.last), -1) + 1
        chosen = [unit for at, unit in enumerate(units) if at >= end or unit.key in kept]
        folded = [unit for at, unit in enumerate(units) if at < end and unit.key not in kept and unit.key not in lined]
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
        lines = [
            line for key, picks in state.lines for line in self._entry(by_key[key].whole or by_key[key]).write(picks)
        ]
        summary = self._summarize(folded, state.folded)
        if not lines and not summary:
            return Choice(chosen, stepped=stepped)
        text = f"{HISTORY_OPEN}{_NEW_LINE.join([*lines, ''])}{summary}{HISTORY_CLOSE}"
        return Choice(chosen, self._make_unit(text, [*fixed, *chosen], units[0]), state, stepped)

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

    def _summarize(self, folded: Sequence[Unit], limit: int) -> str:
        if not folded or not limit:
            return ""
        recent = [
            Message(role=role_of(package), parts=package.parts)
            for unit in folded[-_READ:]
            for package in (unit.whole or unit).packages
        ]
        calls = Counter(
            part.name
            for unit in folded[:-_READ]
            for _, part in _parts(unit.whole or unit)
            if isinstance(part, ToolCall)
        )
        earlier = "; ".join(f"{name} ×{times}" for name, times in sorted(calls.items()))
        if earlier:
            summary = Text(text=f"{HISTORY_OPEN}calls: {earlier}\n{HISTORY_CLOSE}")
            recent.insert(0, Message(role="user", parts=(summary,)))
        return _compact(tuple(recent), limit, self._counter)

    # -- a large step ------------------------------------------------------------------------------------------------

    def _trim(
        self, pool: Pool, units: Sequence[Unit], fixed: Sequence[Unit], tokens: int, state: LedgerState
    ) -> Choice:
        rules = pool.ledger or LedgerRules()
        target = self._find_target(pool, rules, units, tokens)
        units = [unit if unit.whole else self._shaper.without_reasoning(unit) or unit for unit in units]
        before = self._repeat(units, fixed, state)
        if total_cost(before.units) <= target:  # without the model's reasoning
            return msgspec.structs.replace(before, stepped=True)
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
        if least != "prices":
            return min(low, max(0, tokens - int(least if least >= 1 else least * tokens)))
        if self._cache is None or tokens < self._cache.minimum_tokens:
            return low
        steps = [(unit.whole or unit).cost for unit in units[-_RECENT:]]
        pays = find_paying_clear(tokens, sum(steps) / len(steps), self._cache)
        return min(low, max(tokens - pays, int(_LINES_FACTOR * self.min_cost(units))))

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
            if used + min(rest, int((1 - share) * tokens)) > tokens:
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
        out = _without(before.chosen, inside)
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
        """Choose the values that are most likely to be needed for their tokens. A line without values is a call."""
        run = _RunValues([*units, *fixed], self._parameters)
        by_key = {unit.key: unit for unit in units}
        shown = set(run.said)
        for key, picked in state.lines:
            values = self._entry(by_key[key].whole or by_key[key]).values
            shown.update(values[at].text for at in set(picked).intersection(range(len(values))))
        entries = {unit.key: self._entry(unit.whole or unit) for unit in out}
        picks: dict[str, list[int]] = {}
        for _, key, at in sorted(_rate_values(entries, run), key=lambda row: -row[0]):
            found = () if at == _HEAD else (entries[key].values[at],)
            cost = sum(map(_estimate, found)) + (0 if key in picks else entries[key].size)
            if cost <= room and all(value.text not in shown for value in found):
                picks.setdefault(key, []).extend([at] * len(found))
                shown.update(value.text for value in found)
                room -= cost
        return {key: tuple(sorted(each)) for key, each in picks.items()}

    def _give_way(self, chosen: list[Unit], tokens: int) -> Choice:
        """Return a choice for a room that has no place for the task, which is shortened or left out."""
        task = min(filter(is_from_user, chosen), key=_start, default=None)
        smaller = self._shaper.shrink(task, tokens) if task and task.may_shrink else None
        return Choice([] if smaller is None else [smaller], stepped=True)

    # -- lines -------------------------------------------------------------------------------------------------------

    def _entry(self, unit: Unit) -> _Entry:
        entry = self._entries.get(unit.key)
        if entry is None:
            entry = self._entries[unit.key] = self._make_entry(unit)
        return entry

    def _make_entry(self, unit: Unit) -> _Entry:
        calls = list(self._describe_calls(unit))
        lines = calls or [
            _describe_text(self._handles[package.id], role_of(package), part.text)
            for package, part in _parts(unit)
            if isinstance(part, Text) and part.text.strip()
        ]
        return _Entry(
            heads=tuple((line.head, len(line.values)) for line in lines),
            values=tuple(value for line in lines for value in line.values),
            tokens=sum(line.tokens for line in lines),
            size=sum(_estimate_head(line.head) for line in lines),
            is_step=bool(calls),
        )

    def _describe_calls(self, unit: Unit) -> "Iterator[_Line]":
        results = {part.id: (package, part) for package, part in _parts(unit) if isinstance(part, ToolResult)}
        for package, call in _parts(unit):
            if isinstance(call, ToolCall):
                source, result = results.get(call.id, (package, None))
                content = "" if result is None else result.content
                yield _describe_call(self._handles[source.id], call.name, call.arguments, content)


def find_paying_clear(tokens: int, growth: float, cache: CacheRule) -> int:
    """Return how many of so many tokens a trim must clear to save more than it costs, if requests grow by `growth`.

    What stays is written to the cache again instead of being read from it. What is cleared is not read by any request
    until as much has grown back.

    >>> find_paying_clear(100_000, 2_000, CacheRule(minimum_tokens=1_024, read=0.1, write=1.25))
    37817
    >>> find_paying_clear(100_000, 2_000, CacheRule(minimum_tokens=1_024))
    0
    """
    more = (cache.write - cache.read) * growth / cache.read  # cleared² / growth × read = (tokens - cleared) × more
    return int((sqrt(more * more + 4 * more * tokens) - more) / 2) if more > 0 else 0


class _Line(msgspec.Struct, frozen=True, gc=False):
    """A line of the ledger: its beginning, the values that can follow, and the estimated tokens of the likely ones."""

    head: str
    values: tuple[Value, ...]
    tokens: int


def _make_line(head: str, values: Iterable[Value]) -> _Line:
    found = tuple(values)
    likely = sum(_estimate(value) for value in found if value.worth >= IDENTIFIER / 2)
    return _Line(head, found, _estimate_head(head) + likely)


def _read_call(handle: str, name: str, arguments: str, content: str) -> _Line:
    shown, nested = _read_arguments(arguments)
    own = (value for value in _cached_values(content) if value.text not in shown)
    return _make_line(f"{handle} {name}({shown})", [*nested, *own])


def _read_text(handle: str, role: str, text: str) -> _Line:
    return _make_line(f"{handle} {role}", [Value(_cut(text, _MAX_TITLE), worth=_TITLE), *_cached_values(text)])


def _without(units: Iterable[Unit], keys: Collection[str]) -> list[Unit]:
    return [unit for unit in units if unit.key not in keys]


def _rate_values(entries: Mapping[str, _Entry], run: "_RunValues") -> Iterator[tuple[float, str, int]]:
    """Yield what a line could show, with its worth for its tokens: the call itself, and each of its values.

    `entries` are in order of time. The older a step is, the less its values are worth.
    """
    for age, (key, entry) in enumerate(reversed(list(entries.items()))):
        if entry.is_step:
            yield _CALL * _CALL_AGE**age / entry.size**0.5, key, _HEAD
        for at, value in enumerate(entry.values):
            worth = value.worth * run.factor(value) * _AGE**age
            if worth >= _MIN_WORTH:
                yield worth / _estimate(value) ** 0.5, key, at


class _RunValues:
    """The values that calls, the user and the assistant have used in a run, and the arguments of its tools."""

    def __init__(self, units: Iterable[Unit], parameters: Collection[str]) -> None:
        self.said: set[str] = set()
        self._used: set[str] = set()
        self._keys = {"id", *parameters}
        for unit in units:
            for package, part in _parts(unit.whole or unit):
                if isinstance(part, ToolCall):
                    found = _cached_values(part.arguments)
                    self._used.update(value.text for value in found)
                    self._keys.update(value.key for value in found)
                elif isinstance(part, Text):
                    texts = [value.text for value in _cached_values(part.text)]
                    self._used.update(texts)
                    self.said.update(texts if role_of(package) == "user" else ())

    def factor(self, value: Value) -> float:
        """Return how much more likely it is that a value is needed, because of what the run has done so far."""
        used = _USED if value.text in self._used else 1.0
        return used * (_ARGUMENT if value.key in self._keys else min(1.0, _LIKELY_ROWS / value.siblings))


def is_from_user(unit: Unit) -> bool:
    """Whether the user wrote a part of the unit."""
    return any(role_of(package) == "user" for package in unit.packages)


def _start(unit: Unit) -> TimeKey:
    return time_key(unit.packages[0])


def _parts(unit: Unit) -> Iterator[tuple[ContentPackage, Any]]:
    for package in unit.packages:
        for part in package.parts:
            yield package, part


def _estimate(value: Value) -> int:
    return len(value.written) // _CHARACTERS + _SEPARATOR


def _estimate_head(head: str) -> int:
    return len(head) // _CHARACTERS + _SEPARATOR


def _cut(text: str, length: int) -> str:
    line = one_line(text[: 4 * length])
    return line if len(line) <= length else line[:length].rstrip() + "…"


def _read_arguments(text: str) -> tuple[str, list[Value]]:
    """Return the short arguments of a call as one text, and the values in all others."""
    arguments = parse_json(text)
    if not isinstance(arguments, dict):
        return _cut(text, _MAX_ARGUMENT), []
    shown, values = [], list[Value]()
    for key, value in arguments.items():
        if isinstance(value, dict | list):
            values += find_values(msgspec.json.encode(value).decode())
            continue
        written = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        shown.append(f"{key}={_cut(written, _MAX_ARGUMENT)}")
        values += find_values(written) if len(written) > _MAX_ARGUMENT else ()
    return ", ".join(shown), values


def _parameter_names(tool: Tool) -> Iterator[str]:
    properties = tool.parameters.get("properties")
    yield from properties if isinstance(properties, dict) else ()


def _values(text: str) -> tuple[Value, ...]:
    return find_values(text)


_cached_values: Final = memoize(
    _values, name="values", size=lambda args, found: content_bytes(args[0]) + 200 * len(found)
)
"""Cached, because every request of a run has all of its results again."""


_describe_call: Final = memoize(
    _read_call, name="values", size=lambda args, line: sum(map(content_bytes, args)) + 50 * len(line.values)
)
_describe_text: Final = memoize(
    _read_text, name="values", size=lambda args, line: content_bytes(args[2]) + 50 * len(line.values)
)


def _compact_cached(messages: tuple[Message, ...], limit: int, counter: TokenCounter) -> str:
    text = compact(messages, limit, lambda each: counter.text(each).upper)
    return text.removeprefix(HISTORY_OPEN).removesuffix(HISTORY_CLOSE)


_compact: Final = memoize(
    _compact_cached,
    name="values",
    size=lambda args, text: content_bytes(text) + 100 * len(args[0]),
)
