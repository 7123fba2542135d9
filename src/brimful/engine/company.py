"""A room as one of several personas sees it: its own words are the assistant's, those of the others are theirs."""

from collections.abc import Sequence
from typing import Final

import msgspec

from brimful.core.content import ToolCall, ToolResult
from brimful.packagers.stored import plain_text
from brimful.records import Message, Persona

SPOKEN_BY: Final = "brimful.persona"
"""In the metadata of an answer: the id of the persona that gave it, whose name may become another one."""


def as_seen(messages: Sequence[Message], persona: Persona | None) -> list[Message]:
    """Return messages, newest first, as a persona sees them; without one, as they are.

    What another persona said, or did with tools, is told in words, as somebody else's.
    """
    if persona is None or not any(_is_others(message, persona) for message in messages):
        return list(messages)
    whose = {
        part.id: message.sender for message in messages if _is_others(message, persona) for part in _calls(message)
    }
    return [_seen(message, persona, whose) for message in messages]


def _seen(message: Message, persona: Persona, whose: dict[str, str]) -> Message:
    if _is_others(message, persona):
        return _told(message, message.sender)
    results = [part.id for part in message.content if isinstance(part, ToolResult)] if message.role == "tool" else []
    caller = next((whose[id] for id in results if id in whose), None)
    return message if caller is None else _told(message, caller)


def _is_others(message: Message, persona: Persona) -> bool:
    if message.role != "assistant":
        return False
    known = message.metadata.get(SPOKEN_BY)
    return message.sender not in ("", persona.id, persona.name) if known is None else known != persona.id


def _calls(message: Message) -> list[ToolCall]:
    return [part for part in message.content if isinstance(part, ToolCall)]


def _told(message: Message, sender: str) -> Message:
    content = message.content
    if not isinstance(content, str) and any(isinstance(part, ToolCall | ToolResult) for part in content):
        content = plain_text(content)
    return msgspec.structs.replace(message, role="user", sender=sender, content=content)
