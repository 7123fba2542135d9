"""Sessions of Gemini CLI: `.gemini/tmp/PROJECT/chats/session-TIME-ID.jsonl`.

Of lines with the same id, the last one counts. A line may replace the whole history: by that of a session that goes on,
or by what a compaction left.
"""

from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from brimful.formats.lenient import as_dict, as_dicts, as_str
from brimful.sessions.events import Call, Category, Compaction, Event, Piece, Unknown, is_from_user, result_category
from brimful.sessions.gemini_parts import SUMMARY, read_history, result_text
from brimful.sessions.lines import Progress, as_count, as_json, read_events, read_lines, text_of, time_of


class _Reader:
    """Where the messages of a file stand: the first and the last place of each id, and which ones compactions wrote."""

    def __init__(self, path: Path) -> None:
        self._first: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._kept: set[str] = set()
        self._resumed = False
        self.end = 0  # the place of the last line, when the places were looked for
        for place, line in read_lines(path):
            self.end = place
            if isinstance(line, Unknown):
                continue
            messages = _history(line)
            is_compacted = any(self._is_new_summary(each, place) for each in messages)
            for each in messages:
                id = as_str(each.get("id"))
                if self._first.setdefault(id, place) == place and is_compacted:
                    self._kept.add(id)
                self._last.setdefault(id, place)
            if id := as_str(line.get("id")):
                self._first.setdefault(id, place)
                self._last[id] = place

    def read(self, place: int, line: dict[str, Any]) -> Iterator[Event]:
        messages = _history(line)
        if any(self._is_new_summary(each, place) for each in messages):
            at = time_of(as_dict(line.get("$set")), "lastUpdated")
            yield Compaction(at=at)
            history = [("user" if each.get("type") == "user" else "model", each.get("content")) for each in messages]
            yield from read_history(history, f"compaction {place}", at, place)
            return
        self._resumed = self._resumed or any(self._first[as_str(each.get("id"))] < place for each in messages[1:])
        for each in [*messages, line]:
            id = as_str(each.get("id"))
            if self._last.get(id) == place and (each is line or self._first[id] == place):
                for event in _read_message(place, each):
                    yield self._complete(event, is_kept=id in self._kept)

    def _complete(self, event: Event, *, is_kept: bool) -> Event:
        """Return an event with what stands elsewhere in the file: a message that was kept can get new calls."""
        if isinstance(event, Call):
            resumed, self._resumed = self._resumed, False
            return replace(event, resumed=resumed)
        return replace(event, repeated=True) if is_kept and isinstance(event, Piece) and not event.tool else event

    def _is_new_summary(self, message: dict[str, Any], place: int) -> bool:
        is_new = self._first.get(as_str(message.get("id")), place) == place
        return is_new and text_of(message.get("content")).startswith(SUMMARY)


def read(path: Path, start: int = 0, progress: Progress = lambda _: None) -> Iterator[Event]:
    """Yield what a session file tells, from an offset on. A message that is still being written comes next time."""
    reader = _Reader(path)
    lines = takewhile(lambda line: line[0] <= reader.end, read_lines(path, start, progress))
    yield from read_events(lines, reader.read)


def _history(line: dict[str, Any]) -> list[dict[str, Any]]:
    return as_dicts(as_dict(line.get("$set")).get("messages"))


def _read_message(place: int, line: dict[str, Any]) -> Iterator[Event]:
    kind, id, at = as_str(line.get("type")), as_str(line.get("id")), time_of(line)
    if kind == "gemini":
        yield from _read_answer(place, line, at)
    elif kind == "user":
        # Results of tools are in the answer, too.
        if text := text_of(line.get("content")):
            category: Category = "user" if is_from_user(text) else "system"
            yield Piece(id=id, category=category, text=text, at=at, place=place)
    elif kind not in {"info", "error", "warning"}:
        yield Unknown(f"a line of type {kind!r}")


def _read_answer(place: int, line: dict[str, Any], at: float) -> Iterator[Event]:
    id, tokens = as_str(line.get("id")), as_dict(line.get("tokens"))
    if tokens:
        cached = as_count(tokens.get("cached"))
        yield Call(
            id=id,
            model=as_str(line.get("model")),
            at=at,
            uncached=max(0, as_count(tokens.get("input")) - cached),
            read=cached,
            output=as_count(tokens.get("output")) + as_count(tokens.get("thoughts")),
        )
    thoughts = "\n".join(as_str(each.get("description")) for each in as_dicts(line.get("thoughts")))
    piece = partial(Piece, at=at, place=place)
    if thoughts:
        yield piece(id=id, category="thinking", text=thoughts)
    if text := text_of(line.get("content")):
        yield piece(id=id, category="assistant", text=text)
    calls = [(as_str(call.get("name")), as_str(call.get("id")), call) for call in as_dicts(line.get("toolCalls"))]
    for name, own, call in calls:
        yield piece(id=own, category="assistant", text=as_json(call.get("args") or {}), tool=name, call=own)
    for name, own, call in calls:
        text = "\n".join(result_text(part) for part in as_dicts(call.get("result")))
        yield piece(id=f"{own}:result", category=result_category(name), text=text, tool=name, call=own)
