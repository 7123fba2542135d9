"""The parts of Gemini's messages, in the sessions of Gemini CLI and Qwen Code."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from brimful.formats.lenient import as_dict, as_dicts
from brimful.sessions.events import Category, Event, Piece, Unknown, is_from_user, result_category
from brimful.sessions.lines import as_json, text_of

SUMMARY: Final = "<state_snapshot>"
"""How the summary begins that a compaction writes."""


def read_parts(
    content: object, category: Category, id: str, at: float, place: int, *, repeated: bool = False
) -> Iterator[Event]:
    """Yield the thoughts, texts, calls and results of a message."""
    parts = as_dicts(content)
    thoughts = text_of([part for part in parts if part.get("thought")])
    text = text_of([part for part in parts if not part.get("thought")])
    images = sum("inlineData" in part or "fileData" in part for part in parts)
    piece = partial(Piece, at=at, place=place, repeated=repeated)
    if thoughts:
        yield piece(id=id, category="thinking", text=thoughts)
    if text or images:
        yield piece(id=id, category=category, text=text, images=images)
    for part in parts:
        match part:
            case {"functionCall": {"id": str(own), "name": str(tool)} as call}:
                yield piece(id=own, category="assistant", text=as_json(call.get("args") or {}), tool=tool, call=own)
            case {"functionResponse": {"id": str(own), "name": str(tool)}}:
                kind, text = result_category(tool), result_text(part)
                yield piece(id=f"{own}:result", category=kind, text=text, tool=tool, call=own)
            case {"text": _} | {"inlineData": _} | {"fileData": _}:
                pass
            case _:
                yield Unknown("a part of an unknown type")


def read_history(messages: Iterable[tuple[str, object]], id: str, at: float, place: int) -> Iterator[Event]:
    """Yield the history that a compaction wrote: the parts of each message, with their role."""
    for role, content in messages:
        text = text_of(content)
        category: Category = "assistant"
        if role == "user":
            category = "user" if is_from_user(text) else "system"
        if text.startswith(SUMMARY):
            category = "summary"
        yield from read_parts(content, category, id, at, place, repeated=True)


def result_text(part: dict[str, Any]) -> str:
    """Return what a tool gave, of a part of a message."""
    response = as_dict(as_dict(part.get("functionResponse")).get("response"))
    output = response.get("output", response.get("error", response))
    return output if isinstance(output, str) else as_json(output)
