"""Sessions of Qwen Code: `.qwen/projects/FOLDER/chats/ID.jsonl`, with the parts of Gemini's messages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from brimful.formats.lenient import as_dict, as_dicts, as_str, parse_time
from brimful.sessions.events import (
    Call,
    Category,
    Compaction,
    Event,
    Piece,
    Unknown,
    is_from_user,
    result_category,
    unknown_line,
)
from brimful.sessions.gemini_cli import result_text
from brimful.sessions.lines import Progress, as_count, read_events, text_of, write_json

_OWN: Final = (None, "mid_turn_user_message", "realtime_message")
"""Kinds of messages in which the user speaks. The others are notifications and prompts of the program."""


def read(path: Path, start: int = 0, progress: Progress = lambda _: None) -> Iterator[Event]:
    """Yield what a session file tells, from an offset on."""
    yield from read_events(path, start, progress, _read_line)


def _read_line(place: int, line: dict[str, Any]) -> Iterator[Event]:
    id, at = as_str(line.get("uuid")), parse_time(line.get("timestamp")) or 0.0
    match line.get("type"):
        case "user":
            yield from _pieces(line.get("message"), _speaker(line), id, at, place)
        case "tool_result":
            yield from _pieces(line.get("message"), "system", id, at, place)
        case "assistant":
            if usage := as_dict(line.get("usageMetadata")):
                yield _call(line, usage, id, at)
            yield from _pieces(line.get("message"), "assistant", id, at, place)
        case "system" if line.get("subtype") == "chat_compression":
            yield Compaction(at=at)
            yield from _history(as_dict(line.get("systemPayload")), id, at, place)
        case "system":
            pass
        case kind:
            yield unknown_line(kind)


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


def _history(payload: dict[str, Any], id: str, at: float, place: int) -> Iterator[Event]:
    """Yield the history that a compaction wrote. It begins with the summary."""
    for number, message in enumerate(as_dicts(payload.get("compressedHistory"))):
        is_user = message.get("role") == "user"
        category: Category = "user" if is_user and is_from_user(text_of(message.get("parts"))) else "system"
        if not is_user:
            category = "assistant"
        yield from _pieces(message, category if number else "summary", id, at, place, kept=True)


def _pieces(
    message: object, category: Category, id: str, at: float, place: int, *, kept: bool = False
) -> Iterator[Piece | Unknown]:
    """Yield the thoughts, texts, calls and results of a message."""
    parts = as_dicts(as_dict(message).get("parts"))
    thoughts = text_of([part for part in parts if part.get("thought")])
    text = text_of([part for part in parts if not part.get("thought")])
    images = sum("inlineData" in part or "fileData" in part for part in parts)
    if thoughts:
        yield Piece(id=id, category="thinking", text=thoughts, at=at, place=place, kept=kept)
    if text or images:
        yield Piece(id=id, category=category, text=text, images=images, at=at, place=place, kept=kept)
    for part in parts:
        match part:
            case {"functionCall": {"id": str(own), "name": str(tool)} as call}:
                given = write_json(call.get("args") or {})
                yield Piece(
                    id=own, category="assistant", text=given, at=at, place=place, tool=tool, call=own, kept=kept
                )
            case {"functionResponse": {"id": str(own), "name": str(tool)}}:
                kind, given = result_category(tool), result_text(part)
                yield Piece(
                    id=f"{own}:result", category=kind, text=given, at=at, place=place, tool=tool, call=own, kept=kept
                )
            case {"text": _} | {"inlineData": _} | {"fileData": _}:
                pass
            case _:
                yield Unknown("a part of an unknown type")


def _speaker(line: dict[str, Any]) -> Category:
    """Return whose message it is: the program speaks in messages of the user, too."""
    is_own = line.get("subtype") in _OWN and line.get("provenance") in (None, "real_user")
    return "user" if is_own and is_from_user(text_of(as_dict(line.get("message")).get("parts"))) else "system"
