"""Schemas of stored records in responses, each with its token count."""

from typing import Literal

from brimful.janitor.audit import Finding
from brimful.records import Lorebook, LoreEntry, Memory, Message, Persona, Room
from brimful.retrieval.search import Parts
from brimful.server.inspector.memory_history import ArchivedView, Origin
from brimful.server.inspector.views import AnswerView, View


class RoomView(Room, frozen=True, kw_only=True, tag="room"):
    """A room with the tokens of its goal, headers, notes and character, which are part of every context."""

    tokens: int


class RoomList(View, frozen=True, kw_only=True):
    """Rooms sorted by id. Pass `next` as `after` to get the next page; it is null on the last one."""

    rooms: tuple[RoomView, ...]
    next: str | None


class MessageView(Message, frozen=True, kw_only=True, tag="message"):
    """A message with its tokens, and in search results its relevance and the parts of that.

    `context` is the context that it answers, or else the newest one that was built for it; null if there is none.
    `answer` is the record of an answer: its model, usage, time and cost.
    """

    tokens: int
    context: str | None = None
    answer: AnswerView | None = None
    relevance: float | None = None
    parts: Parts | None = None


class MessageList(View, frozen=True, kw_only=True):
    """Messages, newest first or by relevance. Pass `next` as `before` to get the next page."""

    messages: tuple[MessageView, ...]
    next: int | None


class PersonaView(Persona, frozen=True, kw_only=True, tag="persona"):
    """A persona with the tokens of its prompt, character and notes."""

    tokens: int


class PersonaList(View, frozen=True, kw_only=True):
    """Personas sorted by id. Pass `next` as `after` to get the next page; it is null on the last one."""

    personas: tuple[PersonaView, ...]
    next: str | None


class MemoryView(Memory, frozen=True, kw_only=True, tag="memory"):
    """A memory with its tokens. `source_removed` says that the message it was taken from is gone.

    `origin` is where it comes from, and `program` the name of the program or source. `replaces` is the id of the memory
    that it replaced when it was learned. `archival` says which run archived it, null if none did.
    """

    tokens: int
    source_removed: bool
    origin: Origin
    program: str
    replaces: str | None
    archival: ArchivedView | None


class MemoryList(View, frozen=True, kw_only=True):
    """Memories, newest first. Pass `next` as `before` to get the next page; it is null on the last one."""

    memories: tuple[MemoryView, ...]
    next: str | None


class MemoryChain(View, frozen=True, kw_only=True):
    """Memories that replaced each other, oldest first."""

    memories: tuple[MemoryView, ...]


class AuditView(View, frozen=True, kw_only=True):
    """What an audit found among this many `memories`: the number of findings of each kind, and the first of each.

    `records` are the memories that the findings name, by id.
    """

    memories: int
    counts: dict[str, int]
    findings: tuple[Finding, ...]
    records: dict[str, MemoryView]


class ArchivedMemories(View, frozen=True, kw_only=True):
    """How many memories were archived, and in which run; null if none was."""

    archived: int
    run: int | None


class LorebookView(Lorebook, frozen=True, kw_only=True, tag="lorebook"):
    """A lorebook with the number and total tokens of its entries."""

    entries: int
    tokens: int


class LorebookList(View, frozen=True, kw_only=True):
    """Lorebooks sorted by id. Pass `next` as `after` to get the next page; it is null on the last one."""

    lorebooks: tuple[LorebookView, ...]
    next: str | None


class EntryView(LoreEntry, frozen=True, kw_only=True, tag="lore-entry"):
    """A lorebook entry with its tokens."""

    tokens: int


class EntryList(View, frozen=True, kw_only=True):
    """All entries of a lorebook in order."""

    entries: tuple[EntryView, ...]


class Removed(View, frozen=True, kw_only=True):
    """Confirms a removal."""

    id: str
    removed: Literal[True] = True


class RemovedMemories(View, frozen=True, kw_only=True):
    """How many memories were removed."""

    removed: int
