"""Packagers: a record of any sort → a content package, counted once. Pure."""

from brimful.core.media import needs_vision
from brimful.packagers.message import conversation, message, tool_turn
from brimful.packagers.package import lorebook_entry, media, memory, note, package, summary

__all__ = [
    "conversation",
    "lorebook_entry",
    "media",
    "memory",
    "message",
    "needs_vision",
    "note",
    "package",
    "summary",
    "tool_turn",
]
