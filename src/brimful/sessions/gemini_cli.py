"""Sessions of Gemini CLI: `.gemini/tmp/PROJECT/chats/session-TIME-ID.jsonl`.

Of lines with the same id, the last one counts.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from brimful.formats.lenient import as_dict, as_dicts, as_str, parse_time
from brimful.sessions.events import Call, Category, Event, Piece, Unknown, is_from_user, result_category, unknown_line
from brimful.sessions.lines import Progress, as_count, read_lines, text_of, write_json


def read(path: Path, start: int = 0, progress: Progress = lambda _: None) -> Iterator[Event]:
    """Yield what a session file tells, from an offset on. A message that is still being written comes next time."""
    waiting: dict[str, tuple[int, dict[str, Any]]] = {}
    last = {as_str(line.get("id")): place for place, line in _messages(path, start)}
    for place, line in read_lines(path, start, progress):
        if isinstance(line, Unknown):
            yield line
            continue
        head = as_dict(line.get("$set"))
        for number, first in enumerate(as_dicts(head.get("messages"))):
            waiting[as_str(first.get("id")) or f"{place}.{number}"] = (place, first)
        for where, first in waiting.values():
            if last.get(as_str(first.get("id")), where) <= place:
                yield from _read_message(where, first)
        waiting.clear()
        if last.get(as_str(line.get("id"))) == place:
            yield from _read_message(place, line)


def _messages(path: Path, start: int) -> Iterator[tuple[int, dict[str, Any]]]:
    for place, line in read_lines(path, start):
        if not isinstance(line, Unknown) and as_str(line.get("id")):
            yield place, line


def _read_message(place: int, line: dict[str, Any]) -> Iterator[Event]:
    kind, id, at = as_str(line.get("type")), as_str(line.get("id")), parse_time(line.get("timestamp")) or 0.0
    if kind == "gemini":
        yield from _read_answer(place, line, at)
    elif kind == "user":
        # Results of tools are in the answer, too.
        if text := text_of(line.get("content")):
            category: Category = "user" if is_from_user(text) else "system"
            yield Piece(id=id, category=category, text=text, at=at, place=place)
    elif kind not in {"info", "error", "warning"}:
        yield unknown_line(kind)


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
    if thoughts:
        yield Piece(id=id, category="thinking", text=thoughts, at=at, place=place)
    if text := text_of(line.get("content")):
        yield Piece(id=id, category="assistant", text=text, at=at, place=place)
    calls = as_dicts(line.get("toolCalls"))
    for call in calls:
        name, own, text = as_str(call.get("name")), as_str(call.get("id")), write_json(call.get("args") or {})
        yield Piece(id=own, category="assistant", text=text, at=at, place=place, tool=name, call=own)
    for call in calls:
        name, own = as_str(call.get("name")), as_str(call.get("id"))
        text = "\n".join(result_text(part) for part in as_dicts(call.get("result")))
        yield Piece(
            id=f"{own}:result", category=result_category(name), text=text, at=at, place=place, tool=name, call=own
        )


def result_text(part: dict[str, Any]) -> str:
    """Return what a tool gave, of a part of a message."""
    response = as_dict(as_dict(part.get("functionResponse")).get("response"))
    output = response.get("output", response.get("error", response))
    return output if isinstance(output, str) else write_json(output)
