"""Values that the janitor and the store exchange: message positions, changes and runs."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from brimful.records.messages import Summary
from brimful.records.search import IndexEntry

RunState = Literal["running", "done", "undoing", "undone", "purged"]
"""The state of a run. `undone` runs restored everything; `purged` runs can no longer be undone."""

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
    """One run of the janitor. `facts` are counts by name: summaries, messages, memories."""

    number: int
    state: RunState
    holder: str
    started: float
    ended: float | None = None
    facts: dict[str, int] = {}


class JanitorChange(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to apply together: summaries to write, and ids of summaries to remove and of records to archive."""

    write: tuple[Summary, ...] = ()
    remove: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to change."""
        return bool(self.write or self.remove or self.messages or self.memories)
