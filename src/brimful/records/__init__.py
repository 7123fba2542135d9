"""Records: the values that a store holds.

Records are frozen and equal by content. A store returns them as they were written; it assigns only `seq`, the
position of a message in its room.
"""

from brimful.core.validation import preload_types
from brimful.records.base import Record
from brimful.records.contexts import Feedback, Inclusion, Response, Snapshot
from brimful.records.lorebook import Lorebook, LoreEntry
from brimful.records.memory import MEMORY_TYPES, Memory, MemoryType, memory_scope
from brimful.records.messages import Content, Message, Summary
from brimful.records.note import Note
from brimful.records.own_calls import SpendingLimit
from brimful.records.people import Entity, Persona, Room, User
from brimful.records.usage import Usage

__all__ = [
    "MEMORY_TYPES",
    "Content",
    "Entity",
    "Feedback",
    "Inclusion",
    "LoreEntry",
    "Lorebook",
    "Memory",
    "MemoryType",
    "Message",
    "Note",
    "Persona",
    "Record",
    "Response",
    "Room",
    "Snapshot",
    "SpendingLimit",
    "Summary",
    "Usage",
    "User",
    "memory_scope",
]

preload_types(User, Persona, Room, Lorebook, LoreEntry, Message, Memory, Summary, Response, Snapshot, Inclusion)
