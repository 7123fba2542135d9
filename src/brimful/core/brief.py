r"""A brief: what a helper needs of its parent's conversation, as one text in a number of tokens.

Like a ledger, it consists of lines in order of time, each beginning with its handle:

    r0 user → Which of my orders are broken?
    r7 get_order(order=W7002) → state broken, card_7002
    r9 read_file(path=notes.txt) → truck 7
     The courier called twice. […] W7002 fell from the van.

What was said gets in first, then the values of steps that matter for the helper's task, then the passages of texts that
match it. The lines of a text after its first are indented, so that nothing in it looks like a line of ours. A helper
whose own requests are fitted has the brief read back as a ledger, so that no handle means two things.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Final

import msgspec

from brimful.core.content import ContentPackage, ToolCall, ToolResult
from brimful.core.cost import is_from_user, is_own, is_question, region_of, role_of
from brimful.core.decision import Score
from brimful.core.forms import describe_source
from brimful.core.handles import Handles
from brimful.core.labels import HISTORY_CLOSE, HISTORY_OPEN, escape_tags, one_line
from brimful.core.ledger_lines import Entry, Run, count_fields, make_entry, pick_values, read_entry
from brimful.core.own_output import handle_number, read_history, write_reach
from brimful.core.prompt import TokenCounter
from brimful.core.recall import Item, item_text, rank_items
from brimful.core.tokens import Count
from brimful.core.units import TimeKey, Unit, group_packages, time_key
from brimful.errors import BudgetExceeded
from brimful.shorten import shorten

_TASK_SHARE: Final = 0.6  # of the room, for the parent's task: a longer one is shortened
_SAID_SHARE: Final = 0.3  # … for that, what else was said, and what is pinned
_LINES_SHARE: Final = 0.6  # of the rest, for the lines of steps, unless passages leave more
_SHARE: Final = 0.4  # of the remaining room, for each text
_PINNED, _SAID, _OTHER = range(3)  # ranks of texts: pinned, said by somebody, and anything else
_EARLIER: Final = "earlier"  # before the rest of an earlier summary, which has no handle
_JOIN_TOKENS: Final = 2  # joined texts may have a token or two more than their parts
_INDENT: Final = "\n "
_NEW_LINE: Final = "\n"
_MIN_PASSAGE: Final = 30  # tokens of a text that is shortened
_MAX_COUNTED: Final = 4  # fields of steps that are not shown
_SCALES: Final = (1.0, 0.9, 0.75, 0.5, 0.3, 0.1)  # of the room, tried until the whole fits
_UNCOUNTED: Final = Count(tokens=0, basis="approximate")


class _Row(msgspec.Struct, frozen=True, gc=False):
    """What a brief may show under a handle: its beginning, and its text, which is empty if a line says all of it.

    `step` is the key of the entry that has the line of a call.
    """

    head: str
    text: str
    tokens: int = 0
    step: str = ""
    rank: int = _OTHER
    relevance: float = 0.0

    @property
    def handle(self) -> str:
        return self.head.partition(" ")[0]

    def make_item(self, index: int) -> Item:
        """Return the row for ranking: what it begins with may match as well, such as the name of a file."""
        content = f"{self.head}\n{self.text}"
        package = ContentPackage(id=self.handle, kind="message-recent", content=content, tokens=_UNCOUNTED)
        return Item(handle=f"{index:06}", package=package, relevance=self.relevance)


def is_briefed(package: ContentPackage) -> bool:
    """Whether a brief may show a package: neither instructions nor the helper's task."""
    return region_of(package) not in ("system", "note") and not is_question(package) and not package.excluded


def write_brief(packages: Iterable[ContentPackage], limit: int, counter: TokenCounter, handles: Handles) -> str:
    """Return what helps to answer the current message, in at most `limit` tokens; empty if nothing was said before."""
    ordered = sorted(packages, key=time_key)
    task = [each for each in ordered if is_question(each)]
    draft = _Draft([each for each in ordered if is_briefed(each)], task, counter, handles)
    if not draft.rows:
        return ""
    for text in draft.write(limit):
        if draft.has_task(text) and counter.text(text).upper <= limit:
            return text
    raise draft.too_small(limit)


class _Draft:
    """What a brief may say, in order of time, and what it says within a limit."""

    def __init__(
        self,
        packages: Sequence[ContentPackage],
        task: Sequence[ContentPackage],
        counter: TokenCounter,
        handles: Handles,
    ) -> None:
        self._counter = counter
        self._handles = handles
        self._task = " ".join(each.text for each in task)
        self._entries: dict[str, Entry] = {}
        self._users: list[int] = []
        self._reach = -1
        self.rows: list[_Row] = []
        singles, groups, _ = group_packages(packages)
        units = sorted(map(_make_unit, [*((each,) for each in singles), *groups]), key=_start)
        for unit in units:
            if is_own(unit.packages[0]):
                self._read_own(unit.packages[0])
            else:
                self._read(unit)
        self._run = Run([*units, *(_make_unit((each,)) for each in task)], (), list(self._entries.values()))

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read_own(self, package: ContentPackage) -> None:
        """Read a ledger, or a brief, that came with the messages."""
        history = read_history(package.text)
        self._reach = max(self._reach, history.last)
        for line in history.lines:
            entry = read_entry(line)
            key = f"{package.id} {line.handle}" if entry.is_step else ""
            self._add(line.head, "" if key else line.values, step=key, rank=_SAID)
            self._entries.update({key: entry} if key else {})
        if history.summary:
            self._add(_EARLIER, history.summary, rank=_SAID)

    def _read(self, unit: Unit) -> None:
        entry = make_entry(unit, self._handles)
        results: dict[str, str] = {}
        for package in unit.packages:
            handle = self._handles[package.id]
            self._reach = max(self._reach, handle_number(handle))
            result = "\n".join(part.content for part in package.parts if isinstance(part, ToolResult))
            said = tuple(part for part in package.parts if not isinstance(part, ToolCall | ToolResult))
            if said:
                self._read_said(package, handle, item_text(msgspec.structs.replace(package, content=said)))
            if entry.is_step:
                results[handle] = result
            elif result:  # without its call
                self._add(f"{handle} {_describe(package)}", result)
        # A line begins with the handle of the message with its result. A result is listed once, with its first call.
        for line in entry.lines if entry.is_step else ():
            self._add(line.head, results.pop(line.head.partition(" ")[0], ""), step=unit.key)
        self._entries.update({unit.key: entry} if entry.is_step else {})

    def _read_said(self, package: ContentPackage, handle: str, text: str) -> None:
        region = region_of(package)
        if region == "history" and is_from_user(package):
            self._users.append(len(self.rows))
        rank = _PINNED if region == "pinned" else _SAID if region == "history" else _OTHER
        self._add(f"{handle} {_describe(package)}", text, rank=rank, relevance=package.relevance or 0.0)

    def _add(self, head: str, text: str, *, step: str = "", rank: int = _OTHER, relevance: float = 0.0) -> None:
        if text.strip() or step:
            self.rows.append(_Row(head, text.strip(), self._count(text), step, rank, relevance))

    # -- choosing ----------------------------------------------------------------------------------------------------

    def write(self, limit: int) -> Iterator[str]:
        """Yield briefs to try, the longest first. The last one has nothing but the parent's task."""
        if sum(row.tokens for row in self.rows) <= limit:
            lines = self._write_lines({key: range(len(entry.values)) for key, entry in self._entries.items()})
            yield self._render({i: row.text for i, row in enumerate(self.rows) if row.text}, lines)
        room = limit - self._count(self._render({}, {}))
        for scale in _SCALES:
            yield self._choose(int(scale * room))
        texts: dict[int, str] = {}
        self._take(self._task_rows, room, 1.0, texts)
        yield self._render(texts, {})

    @cached_property
    def _task_rows(self) -> list[int]:
        """The parent's task: what the user said first, or last in a conversation without tools; empty if nothing."""
        return self._users[:1] if self._entries else self._users[-1:]

    @cached_property
    def _said(self) -> list[int]:
        """What else was said, and what is pinned: that first, then the newest."""
        said = (i for i, row in enumerate(self.rows) if row.rank < _OTHER and row.text and i not in self._task_rows)
        return sorted(said, key=lambda i: (self.rows[i].rank, -i))

    def has_task(self, text: str) -> bool:
        """Whether a brief has the parent's task, if there is one."""
        return all(f"\n{_write_row(self.rows[i].head, '')}" in text for i in self._task_rows)

    def too_small(self, limit: int) -> BudgetExceeded:
        """Return the error that says how much is needed at least."""
        rows = [self.rows[i] for i in self._task_rows]
        least = self._render(dict.fromkeys(self._task_rows, ""), {})
        needed = self._count(least) + sum(min(row.tokens, _MIN_PASSAGE) for row in rows)
        required = [(row.handle, row.tokens) for row in rows]
        return BudgetExceeded(needed=max(needed, limit + 1), limit=limit, required=required, where="a brief")

    def _choose(self, room: int) -> str:
        """Return a brief of about so many tokens."""
        texts: dict[int, str] = {}
        left = self._take(self._task_rows, int(_TASK_SHARE * room), 1.0, texts)
        used = int(_TASK_SHARE * room) - left
        left = int(_SAID_SHARE * room) - used
        used += left - self._take(self._said, left, _SHARE, texts)
        rest = room - used
        for_lines = int(_LINES_SHARE * rest)
        others = [i for i, row in enumerate(self.rows) if row.text and i not in texts]
        ranked = rank_items([self.rows[i].make_item(i) for i in others], self._task)
        lines, tail = self._pick_lines(for_lines, texts)
        left = rest - self._count_lines(lines, tail)
        left = self._take([int(item.handle) for item in ranked], left, _SHARE, texts)
        used = self._count_lines(lines, tail)
        lines, tail = self._pick_lines(for_lines + left, texts)  # what no passage needs
        left += used - self._count_lines(lines, tail)
        self._take([i for i in self._said if i not in texts], left, 1.0, texts)
        return self._render(texts, lines, tail)

    def _pick_lines(self, room: int, texts: Collection[int]) -> tuple[dict[int, str], str]:
        """Return the lines of steps in about so many tokens, and a note on the steps that have none."""
        picks = pick_values(self._entries, self._run, set(self._run.mentioned), room)
        return self._write_lines(picks), self._count_others({*picks, *(self.rows[i].step for i in texts)})

    def _take(self, indices: Iterable[int], room: int, share: float, texts: dict[int, str]) -> int:
        """Add texts, each in at most this share of the remaining room, and return the room that remains."""
        for i in indices:
            text = self._fit(self.rows[i], int(share * room))
            if text:
                texts[i] = text
                room -= self._count(_write_row(self.rows[i].head, text))
        return room

    def _fit(self, row: _Row, limit: int) -> str:
        """Return the text of a row in at most so many tokens, or the parts of it that match the task; empty if none."""
        room = limit - self._count(_write_row(row.head, "")) - _JOIN_TOKENS
        if row.tokens <= room:
            return row.text
        shorter = shorten(row.text, room, self._count, self._task) if room >= _MIN_PASSAGE else None
        return shorter.text if shorter else ""

    def _count_others(self, shown: Collection[str]) -> str:
        """Return the calls of steps that are not shown, and the fields in them that the task asks about."""
        folded = [entry for key, entry in self._entries.items() if key not in shown]
        others = [entry for key, entry in self._entries.items() if key in shown]
        calls = Counter(line.name for entry in folded for line in entry.lines)
        counted = [one_line(each) for each in islice(count_fields(folded, others, self._task), _MAX_COUNTED)]
        named = "; ".join(f"{one_line(name)} ×{times}" for name, times in sorted(calls.items()))
        return escape_tags(_NEW_LINE.join([*counted, *([f"calls: {named}"] if named else [])]))

    # -- writing -----------------------------------------------------------------------------------------------------

    def _write_lines(self, picks: Mapping[str, Sequence[int]]) -> dict[int, str]:
        """Return the lines of steps with these values, by the index of their row."""
        written = {key: iter(list(self._entries[key].write(each))) for key, each in picks.items()}
        return {i: next(written[row.step]) for i, row in enumerate(self.rows) if row.step in written}

    def _render(self, texts: Mapping[int, str], lines: Mapping[int, str], tail: str = "") -> str:
        body = "".join(f"{self._write(i, texts, lines)}\n" for i in sorted({*texts, *lines}))
        reach = write_reach(self._reach) if self._reach > read_history(body).last else ""
        return f"{HISTORY_OPEN}{body}{reach}{tail and tail + _NEW_LINE}{HISTORY_CLOSE}"

    def _count_lines(self, lines: Mapping[int, str], tail: str) -> int:
        return self._count(_NEW_LINE.join([*lines.values(), tail]))

    def _write(self, index: int, texts: Mapping[int, str], lines: Mapping[int, str]) -> str:
        row, text = self.rows[index], texts.get(index, "")
        line = lines.get(index, "")
        if not line or text == row.text:  # which has all values
            return _write_row(row.head, text) if text or not line else line
        return f"{line}{_INDENT}{_indent(text)}" if text else line

    def _count(self, text: str) -> int:
        return self._counter.text(text).upper


def _write_row(head: str, text: str) -> str:
    return f"{escape_tags(one_line(head))} → {_indent(text)}"


def _indent(text: str) -> str:
    """Return a text with all of its lines but the first indented."""
    return _INDENT.join(escape_tags(text).splitlines())


def _describe(package: ContentPackage) -> str:
    """Return what a package is: a message by the name or the role of its sender, anything else by its kind."""
    if region_of(package) in ("history", "current"):
        return package.name or role_of(package)
    return describe_source(package)


def _make_unit(packages: tuple[ContentPackage, ...]) -> Unit:
    return Unit(
        key=packages[0].id,
        packages=packages,
        cost=0,
        score=Score(1.0, 1.0, 1.0, 1.0, 1.0),
        pool="",
        fixed=False,
        may_shrink=False,
    )


def _start(unit: Unit) -> TimeKey:
    return time_key(unit.packages[0])
