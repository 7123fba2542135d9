"""Sessions in SQLite databases, of opencode and Hermes. They are only read, also while the program writes."""

import re
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from brimful.formats.lenient import as_dict, as_dicts, as_str, parse_object, parse_time
from brimful.sessions.events import Call, Category, Compaction, Event, Piece, Unknown, result_category
from brimful.sessions.lines import Progress, as_count, as_json, text_of

_WITHOUT_CONTENT: Final = frozenset({"step-start", "step-finish", "snapshot", "patch", "subtask", "agent", "retry"})


def connect(path: Path) -> sqlite3.Connection:
    """Open a database for reading only."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)
    connection.row_factory = sqlite3.Row
    return connection


# -- opencode --------------------------------------------------------------------------------------------------------


def read_opencode(path: Path, id: str, start: int = 0, progress: Progress = lambda _: None) -> Iterator[Event]:
    """Yield what opencode stores of a session, but for its first `start` messages."""
    with closing(connect(path)) as connection:
        rows = connection.execute("SELECT id, data FROM message WHERE session_id = ? ORDER BY id", (id,)).fetchall()
        for number, row in enumerate(rows):
            progress(number + 1)
            if number >= start:
                message = parse_object(_bytes(row["data"]))
                found = connection.execute("SELECT id, data FROM part WHERE message_id = ? ORDER BY id", (row["id"],))
                parts = [(as_str(part["id"]), parse_object(_bytes(part["data"]))) for part in found]
                yield from _read_opencode_message(number, row["id"], message, parts)


def _read_opencode_message(
    place: int, id: str, message: dict[str, Any], parts: list[tuple[str, dict[str, Any]]]
) -> Iterator[Event]:
    at = parse_time(as_dict(message.get("time")).get("created")) or 0.0
    is_answer, is_summary = message.get("role") == "assistant", message.get("summary") is True
    tokens = as_dict(message.get("tokens"))
    cache = as_dict(tokens.get("cache"))
    call = Call(
        id=id,
        model=as_str(message.get("modelID")),
        at=at,
        uncached=as_count(tokens.get("input")),
        read=as_count(cache.get("read")),
        written=as_count(cache.get("write")),
        output=as_count(tokens.get("output")) + as_count(tokens.get("reasoning")),
        tools=as_str(message.get("agent")),  # each agent has definitions of its own
    )
    if is_answer and call.prompt:
        yield call
    if is_summary:
        yield Compaction(at=at)
    for own, part in parts:
        yield from _read_opencode_part(place, own, part, at, is_answer=is_answer, is_summary=is_summary)


def _read_opencode_part(
    place: int, id: str, part: dict[str, Any], at: float, *, is_answer: bool, is_summary: bool
) -> Iterator[Event]:
    piece = partial(Piece, at=at, place=place)
    match part.get("type"):
        case "text":
            category: Category = "system" if part.get("synthetic") is True else "user"
            if is_answer:
                category = "summary" if is_summary else "assistant"
            yield piece(id=id, category=category, text=as_str(part.get("text")))
        case "reasoning":
            yield piece(id=id, category="thinking", text=as_str(part.get("text")))
        case "file":
            yield piece(id=id, category="user", text="", images=int(as_str(part.get("mime")).startswith("image/")))
        case "tool":
            state, tool, call = as_dict(part.get("state")), as_str(part.get("tool")), as_str(part.get("callID"))
            yield piece(id=id, category="assistant", text=as_json(state.get("input") or {}), tool=tool, call=call)
            output = as_str(state.get("output")) or as_str(state.get("error"))
            yield piece(id=f"{id}:result", category=result_category(tool), text=output, tool=tool, call=call)
        case str(kind) if kind in _WITHOUT_CONTENT or kind == "compaction":
            pass
        case kind:
            yield Unknown(f"a part of type {kind!r}")


# -- Hermes ----------------------------------------------------------------------------------------------------------

_CALL: Final = re.compile(
    r"API call #\d+: model=(?P<model>\S+).*? in=(?P<prompt>\d+) out=(?P<output>\d+)(?:.*? cache=(?P<read>\d+)/)?"
)
_AT_ONCE: Final = 0.001  # seconds between messages that a compaction kept: it writes them a microsecond apart
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d),(\d{3})")


def read_hermes(path: Path, id: str, start: int = 0, progress: Progress = lambda _: None) -> Iterator[Event]:
    """Yield what Hermes stores of a session, but for its first `start` rows; usage of calls is in its log.

    What was compacted stays in the database, and messages that were kept are written again.
    """
    calls = deque(_hermes_calls(path.parent / "logs" / "agent.log", id))
    tools: dict[str, str] = {}
    with closing(connect(path)) as connection:
        session = connection.execute("SELECT system_prompt FROM sessions WHERE id = ?", (id,)).fetchone()
        if session is not None and session["system_prompt"] and not start:
            yield Piece(id="system", category="system", text=session["system_prompt"], lasting=True)
        query = "SELECT max(id) FROM messages WHERE session_id = ? AND compacted"
        compacted = connection.execute(query, (id,)).fetchone()[0]
        kept_until = 0.0
        rows = connection.execute("SELECT * FROM messages WHERE session_id = ? ORDER BY id", (id,))
        for number, row in enumerate(rows):
            progress(number + 1)
            if compacted is not None and row["id"] > compacted:
                compacted = None
                yield Compaction(at=row["timestamp"])
                kept_until = row["timestamp"]
            is_kept = row["timestamp"] <= kept_until
            if is_kept:
                kept_until = row["timestamp"] + _AT_ONCE
            call = calls.popleft() if calls and row["role"] == "assistant" and not is_kept else None
            if number >= start:
                if call is not None:
                    yield call
                for piece in _read_hermes_row(number, row, tools):
                    yield replace(piece, repeated=is_kept)


def _read_hermes_row(place: int, row: sqlite3.Row, tools: dict[str, str]) -> list[Piece]:
    piece = partial(Piece, id=str(row["id"]), at=float(row["timestamp"]), place=place)
    text = text_of(row["content"])
    match row["role"]:
        case "tool":
            tool = row["tool_name"] or tools.get(row["tool_call_id"], "")
            output = parse_object(text.encode()).get("output")
            answer = output if isinstance(output, str) else text
            return [piece(category=result_category(tool), text=answer, tool=tool, call=row["tool_call_id"] or "")]
        case "assistant":
            pieces = [piece(category="thinking", text=row["reasoning"])] if row["reasoning"] else []
            pieces += [piece(category="assistant", text=text)] if text else []
            for call in as_dicts(parse_list(row["tool_calls"])):
                function, id = as_dict(call.get("function")), as_str(call.get("id"))
                tools[id] = as_str(function.get("name"))
                given = as_json(function.get("arguments") or {})
                pieces.append(piece(category="assistant", text=given, tool=tools[id], call=id))
            return pieces
        case role:
            return [piece(category="user" if role == "user" else "system", text=text)]


def parse_list(text: object) -> list[Any]:
    """Return a list that is written as JSON; an empty one for anything else."""
    wrapped = parse_object(b'{"list":%b}' % _bytes(text)) if text else {}
    found = wrapped.get("list")
    return found if isinstance(found, list) else []


def _hermes_calls(log: Path, id: str) -> Iterator[Call]:
    if not log.exists():
        return
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if f"[{id}]" in line and (found := _CALL.search(line)):
                read = int(found["read"] or 0)
                when = _TIME.match(line)
                at = parse_time(f"{when[1]}T{when[2]}.{when[3]}") if when else None
                yield Call(
                    id="",
                    model=found["model"],
                    at=at or 0.0,
                    uncached=max(0, int(found["prompt"]) - read),
                    read=read,
                    output=int(found["output"]),
                )


def _bytes(text: object) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogatepass")
