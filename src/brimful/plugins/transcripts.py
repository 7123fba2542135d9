"""Read what user and model said from the session files of Claude Code, Codex and Qwen Code."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from brimful.core.content import Role
from brimful.sessions.events import is_from_user

_CODEX_ROLES: Final[Mapping[str, Role]] = {"UserMessage": "user", "AgentMessage": "assistant"}


class Utterance(NamedTuple):
    """A text of user or model, with its id in the file, and the position after its line."""

    id: str
    role: Role
    text: str
    at: float
    end: int


def read_transcript(path: Path, start: int = 0) -> Iterator[Utterance]:
    """Yield what was said after a position of the file. The last line may be half written: it is left for later."""
    with path.open("rb") as file:
        file.seek(start)
        end = start
        for line in file:
            end += len(line)
            if line.endswith(b"\n") and (utterance := _read_line(line, end)) is not None:
                yield utterance


def _read_line(line: bytes, end: int) -> Utterance | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    id, role, text = _read_codex(entry) if entry.get("type") == "event_msg" else _read_claude(entry)
    if role is None or not id or not text.strip() or (role == "user" and not is_from_user(text)):
        return None
    return Utterance(id, role, text, _read_time(entry.get("timestamp")), end)


def _read_claude(entry: Mapping[str, Any]) -> tuple[str, Role | None, str]:
    """Read a line of Claude Code or Qwen Code. What subagents said, and summaries, are left out."""
    match entry:
        case {"type": "user" | "assistant" as role, "uuid": str(id), "message": dict(message)}:
            hidden = any(entry.get(flag) for flag in ("isMeta", "isSidechain", "isCompactSummary"))
            content = message.get("content", message.get("parts"))
            return id, None if hidden else role, _join_text(content)
        case _:
            return "", None, ""


def _read_codex(entry: Mapping[str, Any]) -> tuple[str, Role | None, str]:
    match entry:
        case {"payload": {"type": "item_completed", "item": {"type": str(kind), "id": str(id), "content": content}}}:
            return id, _CODEX_ROLES.get(kind), _join_text(content)
        case _:
            return "", None, ""


def _join_text(content: Any) -> str:
    """Return the text of a message: a string, or blocks or parts, of which the model's thoughts are left out."""
    if isinstance(content, str):
        return content
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    shown = [block for block in blocks if str(block.get("type", "text")).lower() == "text" and not block.get("thought")]
    return "\n".join(text for block in shown if isinstance(text := block.get("text"), str))


def _read_time(timestamp: Any) -> float:
    try:
        return datetime.fromisoformat(str(timestamp)).timestamp()
    except (ValueError, OverflowError):
        return 0.0
