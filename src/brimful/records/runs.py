"""Values that the janitor and the store exchange: message positions, changes and runs."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from brimful.records.memory import Memory
from brimful.records.messages import Summary
from brimful.records.search import IndexEntry

RunState = Literal["running", "done", "undoing", "undone", "purged"]
"""The state of a run. `undone` runs restored everything; `purged` runs can no longer be undone."""

RunKind = Literal["janitor", "learning"]

MakeIndexEntry = Callable[[Any], IndexEntry]
"""Returns the index entry of a record."""


class MessagePosition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The position of a message in its room, without its content. Of purged messages only summaries remain."""

    seq: int
    at: float
    edited: float | None = None
    archived: bool = False
    purged: bool = False


class JanitorRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the janitor, or one time that memories were learned. `facts` are counts by name."""

    number: int
    kind: RunKind = "janitor"
    state: RunState
    holder: str
    started: float
    ended: float | None = None
    facts: dict[str, int] = {}


class Archival(msgspec.Struct, frozen=True, kw_only=True):
    """The run that archived a memory, and the ids of the memories that it added or confirmed: one may replace it."""

    run: int
    kind: RunKind
    at: float
    added: tuple[str, ...] = ()


class JanitorChange(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to apply together: summaries to write, and ids of summaries to remove and of records to archive."""

    write: tuple[Summary, ...] = ()
    remove: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.write or self.remove or self.messages or self.memories)


class LearningChange(msgspec.Struct, frozen=True, kw_only=True):
    """What was learned from messages: memories to add, and ids of memories that they supersede or that are outdated.

    All of them belong to `scope`. `messages` are the hashes of the messages that were read.
    """

    scope: str
    messages: tuple[str, ...]
    add: tuple[Memory, ...] = ()
    supersede: tuple[str, ...] = ()
