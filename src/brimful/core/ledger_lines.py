"""The lines of a ledger: what each step can say, and what of it is worth its tokens.

A value is worth showing for one of three reasons:

- A later call is likely to need it: it identifies something, was used before, or is an argument of a tool.
- The task asks about it: it is in the user's words, or the values of its field are ("Which orders are *broken*?" asks
  for the field `state` of all orders, if one has the state "broken").
- It differs from its neighbors: nearly all other steps have another value in its field.

Values that are asked for are shown with the name of their row, and hardly age.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from math import log, log2
from typing import Any, Final

import msgspec

from brimful.cache import content_bytes, memoize
from brimful.core.content import ContentPackage, Text, ToolCall, ToolResult
from brimful.core.cost import is_from_user, is_own, role_of
from brimful.core.handles import Handles
from brimful.core.labels import escape_tags, one_line, without_reminders
from brimful.core.language import detect_language, function_words
from brimful.core.own_output import Line as WrittenLine
from brimful.core.own_output import is_cut, without_mark
from brimful.core.units import Unit, time_key
from brimful.shorten import word_set
from brimful.shorten.values import (
    IDENTIFIER,
    Value,
    find_values,
    has_digit,
    is_error,
    is_plain_number,
    parse_json,
    write_values,
)

_USED: Final = 1.5  # times as likely to be needed, if a call, the user or the assistant has used the value
_ARGUMENT: Final = 1.5  # … if a tool has an argument of this name
_AGE: Final = 0.93  # … for each step since
_CALL: Final = 0.6  # worth of the call itself: a model that does not know of it makes it again
_RARE_CALL: Final = 1.0  # times more is one worth that is the only call of its tool among many
_CALL_AGE: Final = 0.98  # … times that for each step since
_MIN_WORTH: Final = 0.04  # values that are less likely to be needed are left out, even if there is room
_LIKELY_ROWS: Final = 4  # … values of a list may be needed, unless a tool has an argument of their name
_SAME_SHAPE: Final = 0.5  # power of that for values without a key that look alike
_ASKED: Final = 1.2  # worth of a value that is in the user's words
_ASKED_FIELD: Final = 1.0  # … of another value of a field that the user asks about
_USUAL: Final = 0.3  # … of the usual value of such a field
_ASKED_LINE: Final = 3.0  # … of a line with all words of the user that any line has
_ASKED_AGE: Final = 0.999  # … times that for each step since
_MIN_MATCH: Final = 0.4  # of the best line's match with the user's words; a worse one shares only common words
_RARE: Final = 0.3  # worth of a value that only one of many steps has
_RARE_ASKED: Final = 2.0  # times more than usual is such a value worth in a field that the user asks about
_MAX_COUNTED: Final = 6  # values of a field in a summary
_MIN_FIELD: Final = 6  # values of a field by which its usual values are known
_MAX_USUAL: Final = 8  # different values of such a field
_LAST_USERS: Final = 2  # messages of the user that count, besides the first
_MIN_WORD: Final = 3  # letters
_TITLE: Final = 0.1  # worth of the beginning of a message
_CHARACTERS: Final = 3  # of a value in a token, about
_SEPARATOR: Final = 2  # tokens between values, with part of a key
_MAX_ARGUMENT: Final = 60  # characters of an argument in a line
_MAX_TITLE: Final = 100  # characters of a message in a line
_ANSWER: Final = 1.3  # a value that is worth this much answers the task by itself
_ASKED_SHARE: Final = 0.15  # of the ledger for values that are asked for, unless there is room for more
_BOUND: Final = 300  # tokens of a line, or
_BOUND_SHARE: Final = 3.0  # … times the mean of what there is for each step, if that is more
_OTHERS: Final = 6  # tokens of values in a line that are asked for, or differ from their neighbors
_HEAD: Final = -1  # stands for the call in place of one of its values

_CARRIED_WORTH: Final = 0.8  # of a value that an earlier round chose, as that of a short text
_KEYED: Final = re.compile(r"^([a-z]\w*+) (.+)")
_COUNTED: Final = re.compile(r"^([^\s:]++) ([^\s:]++): (.+)")
_SUM: Final = re.compile(r"(\d{1,4}) numbers, sum (-?[\d,]{1,24}(?:\.\d{1,18})?)")
_TIMES: Final = re.compile(r"\d{1,4}")

Field = tuple[str, str]
"""The name of a call, and the key of a value in its results."""


class Line(msgspec.Struct, frozen=True, gc=False):
    """A line of the ledger: its call or role, its beginning, and the values that can follow.

    `tokens` are estimated with the likely values, and `size` without values.
    """

    name: str
    head: str
    values: tuple[Value, ...]
    tokens: int
    size: int


class Entry(msgspec.Struct, frozen=True, gc=False):
    """What the ledger can say about a unit: its lines, and the values of all of them."""

    lines: tuple[Line, ...]
    values: tuple[Value, ...]
    is_step: bool

    @property
    def tokens(self) -> int:
        """The estimated tokens with the likely values."""
        return sum(line.tokens for line in self.lines)

    @property
    def size(self) -> int:
        """The estimated tokens without values."""
        return sum(line.size for line in self.lines)

    def write(self, picks: Sequence[int]) -> Iterator[str]:
        """Yield the lines with the values that were picked, by index."""
        end, picked = 0, set(picks)
        for line in self.lines:
            values = [self.values[index] for index in range(end, end + len(line.values)) if index in picked]
            values.sort(key=lambda value: not (value.is_phrase or value.row))  # lines before the values in them
            end += len(line.values)
            yield escape_tags(one_line(f"{line.head} → {write_values(values)}" if values else line.head))

    def fields(self) -> Iterator[tuple[Value, Field]]:
        """Yield each value with its field."""
        for line in self.lines:
            for value in line.values:
                yield value, (line.name, value.key)

    def label(self, index: int) -> int:
        """Return the index of the value that names the row of another one; that itself if it is in no row."""
        row, first = self.values[index].row, index
        if not row:
            return index
        while first and self.values[first - 1].row == row:
            first -= 1
        members = range(first, index)
        return next((each for each in members if self.values[each].worth >= IDENTIFIER), first)


def make_entry(unit: Unit, handles: Handles) -> Entry:
    """Read what the ledger can say about a unit."""
    calls = list(_describe_calls(unit, handles))
    lines = calls or [
        _describe_text(handles[package.id], role_of(package), part.text)
        for package, part in parts_of(unit)
        if isinstance(part, Text) and part.text.strip()
    ]
    return Entry(tuple(lines), tuple(value for line in lines for value in line.values), bool(calls))


def _describe_calls(unit: Unit, handles: Handles) -> Iterator[Line]:
    results = {part.id: (package, part) for package, part in parts_of(unit) if isinstance(part, ToolResult)}
    for package, call in parts_of(unit):
        if isinstance(call, ToolCall):
            source, result = results.get(call.id, (package, None))
            content = "" if result is None else result.content
            content = without_mark(content) if is_cut(source) else content
            yield _describe_call(handles[source.id], call.name, call.arguments, content)


def read_entry(line: WrittenLine) -> Entry:
    """Return what the ledger can say about a line of an earlier one.

    >>> line = WrittenLine("r3", "r3 get_order(id=W-17)", "cust_88, state sent, card")
    >>> entry = read_entry(line)
    >>> [(value.key, value.text) for value in entry.values], list(entry.write(range(3))) == [line.text]
    ([('', 'cust_88'), ('state', 'sent'), ('', 'card')], True)
    """
    name, _ = line.call or ("", "")
    worth = _CARRIED_WORTH if name else _TITLE
    rows = line.values.split("; ") if line.values else []
    values = [
        Value(text, key, worth, row=number if len(rows) > 1 else 0)
        for number, row in enumerate(rows, start=1)
        for key, text in map(_split_key, row.split(", "))
    ]
    if not name or is_error(line.values) or write_values(values) != line.values:
        values = [Value(line.values, worth=worth)] * bool(line.values)
    made = _make_line(name, line.head, values)
    return Entry((made,), made.values, bool(name))


def _split_key(text: str) -> tuple[str, str]:
    match = _KEYED.fullmatch(text)
    return (match[1], match[2]) if match else ("", text)


def read_counts(summary: str) -> tuple[Entry, str]:
    r"""Return the values that an earlier summary counted by their fields, and the rest of the summary.

    >>> counts, rest = read_counts("f state: sent ×2, lost ×1\nf total: 3 numbers, sum 1,350.5\ncalls: f\n")
    >>> [value.text for value in counts.values], rest
    (['sent', 'sent', 'lost', '0', '0', '1350.5'], 'calls: f\n')
    """
    lines, others = list[Line](), list[str]()
    for row in summary.splitlines(keepends=True):
        match = _COUNTED.fullmatch(row.rstrip("\n"))
        texts = list(_read_counted(match[3])) if match else []
        if match and texts:
            lines.append(Line(match[1], "", tuple(Value(text, match[2]) for text in texts), 0, 0))
        else:
            others.append(row)
    return Entry(tuple(lines), tuple(value for line in lines for value in line.values), is_step=False), "".join(others)


def _read_counted(text: str) -> Iterator[str]:
    if match := _SUM.fullmatch(text):
        yield from ["0"] * (int(match[1]) - 1)
        yield match[2].replace(",", "")
        return
    for part in text.split(", "):
        value, _, times = part.rpartition(" ×")
        yield from [value] * int(times) if _TIMES.fullmatch(times) else []


def parts_of(unit: Unit) -> Iterator[tuple[ContentPackage, Any]]:
    """Yield the parts of a unit, each with its package."""
    for package in unit.packages:
        for part in package.parts:
            yield package, part


def _make_line(name: str, head: str, values: Iterable[Value]) -> Line:
    found = tuple(values)
    size = len(head) // _CHARACTERS + _SEPARATOR
    likely = sum(_estimate(value) for value in found if value.is_likely)
    return Line(name, head, found, size + min(likely, _BOUND) + (_OTHERS if found else 0), size)


def _read_call(handle: str, name: str, arguments: str, content: str) -> Line:
    shown, nested = _read_arguments(arguments)
    own = (value for value in _cached_values(content) if value.text not in shown)
    return _make_line(name, f"{handle} {name}({shown})", [*nested, *own])


def _read_text(handle: str, role: str, text: str) -> Line:
    title = Value(_cut(without_reminders(text) or text, _MAX_TITLE), worth=_TITLE)
    return _make_line(role, f"{handle} {role}", [title, *_cached_values(text)])


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


def _cut(text: str, length: int) -> str:
    line = one_line(text[: 4 * length])
    return line if len(line) <= length else line[:length].rstrip() + "…"


def _estimate(value: Value) -> int:
    return len(value.written) // _CHARACTERS + _SEPARATOR


# -- worth -----------------------------------------------------------------------------------------------------------


class Run:
    """What a run has used and what it is about: the values of calls and words, the task, and the fields of results."""

    def __init__(self, units: Iterable[Unit], parameters: Collection[str], entries: Sequence[Entry]) -> None:
        self.mentioned: set[str] = set()
        self._used: set[str] = set()
        self._keys = {"id", *parameters}
        self._shapes: set[str] = set()  # of arguments: what looks like them may be the next one
        units = [unit.whole or unit for unit in units]
        for unit in units:
            for package, part in parts_of(unit):
                if isinstance(part, ToolCall):
                    found = _cached_values(part.arguments)
                    self._used.update(value.text for value in found)
                    self._keys.update(value.key for value in found)
                    self._shapes.update(value.shape for value in found if has_digit(value.shape))
                elif isinstance(part, Text) and not is_own(package):
                    texts = [value.text for value in _cached_values(part.text)]
                    self._used.update(texts)
                    if is_from_user(package):
                        self.mentioned.update(texts)
        self._words = _content_words(_find_task(units))
        self._entries = entries

    def rate(self, field: Field, value: Value, age: int, *, is_step: bool) -> tuple[float, float]:
        """Return how likely a value is to be needed, and how well it answers the task if that is the reason; else 0."""
        used = _USED if value.text in self._used else 1.0
        likely = value.worth * used * self._rate_kind(value) * _AGE**age
        asked = self._rate_asked(field, value) * _ASKED_AGE**age if is_step else 0.0
        return max(likely, asked), asked if asked > likely else 0.0

    def rate_call(self, entry: Entry) -> float:
        """Return what it is worth to know of a call. One unlike most others is worth more: it may be a change."""
        share = self._calls[entry.lines[0].name] / self._calls.total()
        return _CALL * (1 - _RARE_CALL * log2(share) / log2(max(2, self._calls.total())) if share <= 1 / 2 else 1)

    @cached_property
    def _calls(self) -> Counter[str]:
        return Counter(entry.lines[0].name for entry in self._entries if entry.is_step)

    def _rate_kind(self, value: Value) -> float:
        """Rate a value by its kind. Few of many similar values are needed, unless calls use them."""
        if value.key in self._keys:
            return _ARGUMENT
        if value.shape in self._shapes:
            return 1.0
        rows = min(1.0, _LIKELY_ROWS / value.siblings)
        return rows if value.key else rows**_SAME_SHAPE

    def _rate_asked(self, field: Field, value: Value) -> float:
        if value.is_phrase:
            return _ASKED_LINE * self._match(value.text)
        if value.worth >= IDENTIFIER:  # it is likely to be needed, whatever is asked
            return 0.0
        rarity = self._rarity(field, value.text)
        if field in self._asked:
            is_named, is_usual = _is_within(value.text, self._words), self._share(field, value.text) > 1 / 2
            return (_ASKED if is_named else _USUAL if is_usual else _ASKED_FIELD) * (1 + _RARE_ASKED * rarity)
        return _RARE * rarity

    @cached_property
    def _fields(self) -> dict[Field, Counter[str]]:
        return _count_values(self._entries)

    @cached_property
    def _asked(self) -> set[Field]:
        return {field for field, counts in self._fields.items() if _is_asked(field, counts, self._words)}

    def _share(self, field: Field, text: str) -> float:
        """Return the share of a value in its field; 0 if that is no field with usual values."""
        counts = self._fields.get(field)
        return counts[text] / counts.total() if counts and _is_usual(counts) else 0.0

    def _rarity(self, field: Field, text: str) -> float:
        """Return how much a value differs from the usual ones of its field, from 0 to 1."""
        share = self._share(field, text)
        return -log2(share) / log2(self._fields[field].total()) if 0 < share <= 1 / 2 else 0.0

    @cached_property
    def _phrases(self) -> set[str]:
        """The lines and sentences of results."""
        return {value.text for entry in self._entries for value in entry.values if value.is_phrase}

    @cached_property
    def _weights(self) -> dict[str, float]:
        """How rare each of the user's words is among them."""
        counts = Counter(word for text in self._phrases for word in _words(text) & self._words)
        return {word: log(1 + len(self._phrases) / times) for word, times in counts.items()}

    @cached_property
    def _best_match(self) -> float:
        return max(map(self._weigh, self._phrases), default=0.0)

    def _weigh(self, text: str) -> float:
        return sum(self._weights[word] for word in sorted(_words(text) & self._words))

    def _match(self, text: str) -> float:
        """Return how well a line matches the user's words compared with the best one; 0 if that is no match."""
        match = self._weigh(text) / self._best_match if self._best_match else 0.0
        return match if match >= _MIN_MATCH else 0.0


def _find_task(units: Iterable[Unit]) -> str:
    """Return what the user said first, and last."""
    packages = (package for unit in units for package in unit.packages)
    users = sorted((time_key(package), said) for package in packages if (said := _what_user_said(package)))
    return " ".join(text for _, text in (*users[:1], *users[1:][-_LAST_USERS:]))


def _what_user_said(package: ContentPackage) -> str:
    """Return the user's words in a message; none if it is not the user's, or if all of it are reminders."""
    if not is_from_user(package) or is_own(package):
        return ""
    texts = " ".join(part.text for part in package.parts if isinstance(part, Text))
    return without_reminders(texts).strip()


def _content_words(text: str) -> frozenset[str]:
    text = without_reminders(text)
    return frozenset(word_set(text) - word_set(" ".join(function_words(detect_language(text)))))


def _is_within(text: str, words: Collection[str]) -> bool:
    """Whether all words of a key or a value are among some words, and at least one is no function word."""
    own = {word for word in _words(text.replace("_", " ")) if len(word) >= _MIN_WORD}
    return bool(own) and all(word in words for word in own)


def count_fields(folded: Iterable[Entry], others: Iterable[Entry], task: str) -> Iterator[str]:
    """Yield how often steps have each value of the fields that a task asks about, and the sums of their numbers.

    What the task asks about also shows in the values of `others`.

    >>> values = [Value("sent", "state"), Value("80", "total", 0.15), Value("7.5", "total", 0.15)]
    >>> steps = [Entry((Line("get_order", "", (value,), 0, 0),), (value,), True) for value in 6 * values]
    >>> list(count_fields(steps[:12], steps[12:], "Which orders were sent, and what is their total?"))
    ['get_order state: sent ×4', 'get_order total: 8 numbers, sum 350.0']
    """
    counted, words = _count_values(folded), _content_words(task)
    every = _count_values(others)
    for field, counts in sorted(counted.items()):
        every[field] = every.get(field, Counter()) + counts
        if not _is_asked(field, every[field], words):
            continue
        label = " ".join(field)
        if numbers := [Decimal(text) for text in counts.elements() if is_plain_number(text)]:
            yield f"{label}: {len(numbers)} numbers, sum {sum(numbers):,}"
        elif _is_usual(every[field]):
            yield f"{label}: " + ", ".join(f"{text} ×{times}" for text, times in counts.most_common(_MAX_COUNTED))


def _count_values(entries: Iterable[Entry]) -> dict[Field, Counter[str]]:
    """Return how often each field has each of its values."""
    fields: dict[Field, Counter[str]] = {}
    for entry in entries:
        for value, field in entry.fields():
            if value.key:
                fields.setdefault(field, Counter())[value.text] += 1
    return fields


def _is_usual(counts: Counter[str]) -> bool:
    """Whether a field has few different values, so that one can differ from them."""
    return counts.total() >= _MIN_FIELD and 2 * len(counts) <= counts.total() and len(counts) <= _MAX_USUAL


def _is_asked(field: Field, counts: Counter[str], words: Collection[str]) -> bool:
    """Whether words name a field, or one of its values if it has few different ones."""
    return _is_within(field[1], words) or (_is_usual(counts) and any(_is_within(text, words) for text in counts))


def pick_values(entries: Mapping[str, Entry], run: Run, shown: set[str], room: int) -> dict[str, tuple[int, ...]]:
    """Choose the values that are worth their tokens, as indices by unit. No index: the call alone.

    `entries` are in order of time, and `shown` are values that the request has anyway. No line gets much longer than
    the others, and what is asked for leaves room for what the next calls need.
    """
    picker = _Picker(entries, shown, room)
    for_asked, waiting = int(_ASKED_SHARE * room), list[_Rating]()
    for rating in sorted(_rate_values(entries, run), key=lambda rating: -rating.worth):
        if not rating.asked:
            picker.add(rating)
        elif rating.asked >= _ANSWER or for_asked > 0:
            for_asked -= picker.add(rating)
        else:
            waiting.append(rating)
    for rating in waiting:
        picker.add(rating)
    return {key: tuple(sorted(each)) for key, each in picker.picks.items()}


class _Picker:
    """Picks values as long as there is room: `picks` are their indices by unit."""

    def __init__(self, entries: Mapping[str, Entry], shown: set[str], room: int) -> None:
        self._entries, self._shown, self._room = entries, shown, room
        self._bound = max(_BOUND, int(_BOUND_SHARE * room / max(1, len(entries))))
        self._spent: Counter[str] = Counter()
        self.picks: dict[str, list[int]] = {}

    def add(self, rating: "_Rating") -> int:
        """Pick a value if it fits, and return its tokens."""
        key, entry = rating.key, self._entries[rating.key]
        wanted = _with_label(entry, rating, self.picks.get(key, ()))
        values = [entry.values[index] for index in wanted]
        if not rating.asked and any(value.text in self._shown for value in values):
            return 0
        tokens = sum(map(_estimate, values))
        cost = tokens + (0 if key in self.picks else entry.size)
        if cost > self._room or (self._spent[key] + tokens > self._bound and not rating.asked):
            return 0
        self.picks.setdefault(key, []).extend(wanted)
        self._shown.update(value.text for value in values)
        self._spent[key] += tokens
        self._room -= cost
        return tokens


class _Rating(msgspec.Struct, frozen=True, gc=False):
    """What a line could show: a value by its index, or the call itself, with its worth for its tokens."""

    worth: float
    key: str
    index: int
    asked: float = 0.0


def _rate_values(entries: Mapping[str, Entry], run: Run) -> Iterator[_Rating]:
    """Yield everything that lines could show. The older a step is, the less its values are worth."""
    for age, (key, entry) in enumerate(reversed(list(entries.items()))):
        if entry.is_step:
            yield _Rating(run.rate_call(entry) * _CALL_AGE**age / entry.size**0.5, key, _HEAD)
        for index, (value, field) in enumerate(entry.fields()):
            worth, asked = run.rate(field, value, age, is_step=entry.is_step)
            if worth >= _MIN_WORTH:
                yield _Rating(worth / _estimate(value) ** 0.5, key, index, asked)


def _with_label(entry: Entry, rating: _Rating, picked: Collection[int]) -> list[int]:
    """Return the indices that show a value. One that is asked for needs the name of its row beside it."""
    if rating.index == _HEAD:
        return []
    label = entry.label(rating.index) if rating.asked else rating.index
    return [index for index in sorted({label, rating.index}) if index not in picked]


def _values(text: str) -> tuple[Value, ...]:
    return find_values(without_reminders(text) or text)


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


def _word_set(text: str) -> frozenset[str]:
    return frozenset(word_set(text))


_words: Final = memoize(_word_set, name="values", size=lambda args, words: 2 * content_bytes(args[0]) + 60 * len(words))
