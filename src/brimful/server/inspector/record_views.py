"""Schemas of stored records in responses, each with its token count."""

from typing import Literal

from brimful.records import Lorebook, LoreEntry, Memory, Message, Persona, Room
from brimful.server.inspector.views import View


class RoomView(Room, frozen=True, kw_only=True, tag="room"):
    """A room. `tokens` are those of its goal and headers, which stand in every context."""

    tokens: int


class RoomList(View, frozen=True, kw_only=True):
    """Rooms by id. `next` is what to pass as `after`; null at the end."""

    rooms: tuple[RoomView, ...]
    next: str | None


class MessageView(Message, frozen=True, kw_only=True, tag="message"):
    """A message, and the tokens of what is said in it. `relevance` is set where it was searched for."""

    tokens: int
    relevance: float | None = None


class MessageList(View, frozen=True, kw_only=True):
    """Messages, newest first, or by relevance where something was searched for. `next` is what to pass as `before`."""

    messages: tuple[MessageView, ...]
    next: int | None


class PersonaView(Persona, frozen=True, kw_only=True, tag="persona"):
    """A persona, and the tokens of its prompt, its character and its notes."""

    tokens: int


class PersonaList(View, frozen=True, kw_only=True):
    """Personas by id. `next` is what to pass as `after`; null at the end."""

    personas: tuple[PersonaView, ...]
    next: str | None


class MemoryView(Memory, frozen=True, kw_only=True, tag="memory"):
    """A memory, and its tokens."""

    tokens: int


class MemoryList(View, frozen=True, kw_only=True):
    """Memories, newest first. `next` is what to pass as `before`; null at the end."""

    memories: tuple[MemoryView, ...]
    next: str | None


class LorebookView(Lorebook, frozen=True, kw_only=True, tag="lorebook"):
    """A lorebook: how many entries it has, and the tokens of all of them together."""

    entries: int
    tokens: int


class LorebookList(View, frozen=True, kw_only=True):
    """Lorebooks by id. `next` is what to pass as `after`; null at the end."""

    lorebooks: tuple[LorebookView, ...]
    next: str | None


class EntryView(LoreEntry, frozen=True, kw_only=True, tag="lore-entry"):
    """An entry of a lorebook, and its tokens."""

    tokens: int


class EntryList(View, frozen=True, kw_only=True):
    """All entries of a lorebook, by their order."""

    entries: tuple[EntryView, ...]


class Removed(View, frozen=True, kw_only=True):
    """What is no longer there."""

    id: str
    removed: Literal[True] = True
