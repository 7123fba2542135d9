"""Values that the janitor and the store exchange: message positions, changes and runs."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from brimful.records import Memory, Message, Summary
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


class Housekeeping(Protocol):
    """What can be done to a tenant's store between conversations, and how it is undone.

    One run at a time: it holds the store until it ends, or until nothing was heard of it for as long as its lease. What
    a run does is written down before it is done; the last run that was not undone can be undone.
    """

    async def places(self, room: str) -> list[MessagePosition]:
        """Return where messages stand in a room, in order, those set aside included."""
        ...

    async def said(self, room: str, places: Sequence[int]) -> list[Message]:
        """Return the messages at these places of a room, in order, those set aside included."""
        ...

    async def builds(self, room: str) -> int:
        """Return how many builds of a room are on record."""
        ...

    async def unused(self, room: str, *, before: float) -> list[tuple[int, str]]:
        """Return place and id of messages from before a time that stood in no context on record."""
        ...

    async def unread(self, *, before: float, after: str = "", limit: int = 1000) -> list[Memory]:
        """Return memories from before a time that nothing ever used and nobody pinned, by id."""
        ...

    async def begin(self, *, holder: str, now: float, lease: float) -> JanitorRun:
        """Begin a run, or go on with one that nothing was heard of for as long as the lease."""
        ...

    async def beat(self, run: JanitorRun, *, now: float) -> None:
        """Say that a run is still under way."""
        ...

    async def tidy(self, run: JanitorRun, change: JanitorChange, indexed: MakeIndexEntry, *, now: float) -> None:
        """Do something, so that it can be undone; all of it, or where it is long, one part after the other."""
        ...

    async def end(self, run: JanitorRun, facts: dict[str, int], *, now: float) -> JanitorRun | None:
        """End a run; None if it did nothing, and leaves no trace."""
        ...

    async def undo(self, indexed: MakeIndexEntry, *, holder: str, now: float, lease: float) -> JanitorRun | None:
        """Give back what the last run took, exactly as it was; None if there is nothing to undo."""
        ...

    async def purge(self, *, before: int) -> int:
        """Let go for good of what runs before this number set aside, and return how much it was."""
        ...

    async def runs(self, *, limit: int = 20) -> list[JanitorRun]:
        """Return runs, newest first."""
        ...

    async def aside(self) -> dict[str, int]:
        """Return how many messages and memories are set aside."""
        ...
