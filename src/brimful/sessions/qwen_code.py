"""Sessions of Qwen Code: `.qwen/projects/FOLDER/chats/ID.jsonl`, with the parts of Gemini's messages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from brimful.formats.lenient import as_dict, as_dicts, as_str
from brimful.sessions.events import Call, Category, Compaction, Event, Unknown, is_from_user
from brimful.sessions.gemini_parts import read_history, read_parts
from brimful.sessions.lines import Progress, as_count, read_events, read_lines, text_of, time_of

_OWN: Final = (None, "mid_turn_user_message", "realtime_message")
"""Kinds of messages in which the user speaks. The others are notifications and prompts of the program."""


def read(path: Path, start: int = 0, progress: Progress = lambda _: None) -> Iterator[Event]:
    """Yield what a session file tells, from an offset on."""
    yield from read_events(read_lines(path, start, progress), _read_line)


def _read_line(place: int, line: dict[str, Any]) -> Iterator[Event]:
    id, at = as_str(line.get("uuid")), time_of(line)
    parts = as_dict(line.get("message")).get("parts")
    match line.get("type"):
        case "user":
            yield from read_parts(parts, _speaker(line, text_of(parts)), id, at, place)
        case "tool_result":
            yield from read_parts(parts, "system", id, at, place)
        case "assistant":
            if usage := as_dict(line.get("usageMetadata")):
                yield _call(line, usage, id, at)
            yield from read_parts(parts, "assistant", id, at, place)
        case "system" if line.get("subtype") == "chat_compression":
            yield Compaction(at=at)
            history = as_dicts(as_dict(line.get("systemPayload")).get("compressedHistory"))
            yield from read_history([(as_str(each.get("role")), each.get("parts")) for each in history], id, at, place)
        case "system":
            pass
        case kind:
            yield Unknown(f"a line of type {kind!r}")


def _call(line: dict[str, Any], usage: dict[str, Any], id: str, at: float) -> Call:
    cached = as_count(usage.get("cachedContentTokenCount"))
    return Call(
        id=id,
        model=as_str(line.get("model")),
        at=at,
        uncached=max(0, as_count(usage.get("promptTokenCount")) - cached),
        read=cached,
        output=as_count(usage.get("candidatesTokenCount")) + as_count(usage.get("thoughtsTokenCount")),
        window=as_count(line.get("contextWindowSize")),
    )


def _speaker(line: dict[str, Any], text: str) -> Category:
    """Return whose message it is: the program speaks in messages of the user, too."""
    is_own = line.get("subtype") in _OWN and line.get("provenance") in (None, "real_user")
    return "user" if is_own and is_from_user(text) else "system"
