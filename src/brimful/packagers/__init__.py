"""Packagers: a record of any sort → a content package, counted once. Pure."""

from brimful.packagers.lorebook import lorebook_entry
from brimful.packagers.media import media, media_if_needed, needs_vision
from brimful.packagers.memory import memory
from brimful.packagers.message import conversation, message, tool_turn
from brimful.packagers.note import note
from brimful.packagers.package import package
from brimful.packagers.summary import summary

__all__ = [
    "conversation",
    "lorebook_entry",
    "media",
    "media_if_needed",
    "memory",
    "message",
    "needs_vision",
    "note",
    "package",
    "summary",
    "tool_turn",
]
