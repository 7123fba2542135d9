"""Values that the janitor and the store exchange: message positions, changes and runs."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from brimful.records import Summary
from brimful.records.search import IndexEntry

RunState = Literal["running", "done", "undoing", "undone", "purged"]
"""What became of a run: `undone` gave everything back, `purged` let go of it."""

MakeIndexEntry = Callable[[Any], IndexEntry]
"""Tells how a record is found."""


class MessagePosition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message as its room sees it: where it stands, when it was said and changed, and whether it is set aside.

    What is `gone` was purged: summaries alone tell of it.
    """

    seq: int
    at: float
    edited: float | None = None
    aside: bool = False
    gone: bool = False


class JanitorRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the janitor. `facts` are numbers by name: how many summaries, messages, memories."""

    number: int
    state: RunState
    holder: str
    begun: float
    ended: float | None = None
    facts: dict[str, int] = {}


class JanitorChange(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done at once: summaries written and removed (by id), messages and memories set aside (by id)."""

    write: tuple[Summary, ...] = ()
    remove: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Say whether there is anything to do."""
        return bool(self.write or self.remove or self.messages or self.memories)
