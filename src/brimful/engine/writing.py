"""Writing: what is said, what is to be remembered, what is known of the world."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from brimful.core.check import shown
from brimful.core.content import Role
from brimful.engine.counts import keep
from brimful.engine.given import want_known
from brimful.engine.opened import Opened
from brimful.errors import InvalidValue, UnknownRecord
from brimful.records import Content, LoreEntry, Memory, MemoryType, Message, Plain, Record, Summary
from brimful.retrieval.indexed import Searchable, indexed

SUPERSEDED: Final = "superseded"
"""What the metadata of a message say that another took the place of."""


class Writing(Opened):
    """Everything that goes into the store. It is durable when a call returns, and counted and found from then on."""

    async def put(self, record: Plain) -> None:
        """Write a user, persona, room or lorebook."""
        await self.store.put(record)

    async def post(
        self,
        *,
        room: str,
        text: str | None = None,
        content: Content | None = None,
        sender: str = "",
        role: Role = "user",
        id: str | None = None,
        at: float | datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Message:
        """Say something in a room: a `text`, or a `content` of parts. The same id twice is one message."""
        said = content if text is None else text
        if said is None or (text is not None and content is not None):
            raise InvalidValue("text", "give a text, or a content of parts, and not both")
        message = Message(
            id=id or new_id("msg"),
            room=room,
            content=said,
            sender=sender,
            role=role,
            at=self._moment(at),
            metadata=dict(metadata or {}),
        )
        return (await self.post_many([message]))[0]

    async def post_many(self, messages: Sequence[Message]) -> list[Message]:
        """Append messages to their rooms, in this order; return them as they stand in the store.

        An id that stands for something in another room is refused, once all others are in: it would be lost in silence.
        """
        stored = await self.store.post([(message, indexed(message)) for message in messages])
        await self._written([message.content for message in stored])
        for message in stored:
            await self._tell("posted", message.room, id=message.id, seq=message.seq, role=message.role)
        for given, message in zip(messages, stored, strict=True):
            if message.room != given.room:
                where = f"in room {shown(message.room)}, and cannot be posted in {shown(given.room)} as well"
                raise InvalidValue("id", f"{shown(message.id)} is that of a message {where}")
        return stored

    async def edit(self, id: str, content: Content, *, at: float | datetime | None = None) -> Message:
        """Give a message another content."""
        known = await self.store.messages([id])
        if not known:
            raise UnknownRecord("message", id)
        changed = msgspec.structs.replace(known[0], content=content)
        message = await self.store.edit(id, changed.content, indexed(changed), at=self._moment(at))
        if message is None:
            raise UnknownRecord("message", id)
        await self._written([message.content])
        await self._tell("edited", message.room, id=id)
        return message

    async def delete(self, id: str, *, erase: bool = False) -> None:
        """Take a message out of its room; with `erase`, its content leaves past contexts, too."""
        if not await self.store.delete(id, erase=erase):
            raise UnknownRecord("message", id)
        await self._tell("deleted", None, id=id, erased=erase)

    async def supersede(self, ids: Sequence[str]) -> None:
        """Set messages aside that a conversation left behind: kept and exported, in no context, found by no search."""
        await self.store.hide(ids, why=SUPERSEDED)

    async def remember(  # noqa: PLR0913 - every one has a default but the text
        self,
        text: str,
        *,
        type: MemoryType = "semantic",
        persona: str | None = None,
        user: str | None = None,
        room: str | None = None,
        importance: float = 0.5,
        source: str = "",
        pinned: bool = False,
        id: str | None = None,
        at: float | datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Memory:
        """Keep something to be known later, by everybody or by whom it is said to belong to."""
        memory = Memory(
            id=id or new_id("mem"),
            content=text,
            type=type,
            persona=persona,
            user=user,
            room=room,
            importance=importance,
            source=source,
            pinned=pinned,
            at=self._moment(at),
            metadata=dict(metadata or {}),
        )
        want_known(memory)
        await self.remember_many([memory])
        return memory

    async def remember_many(self, memories: Sequence[Memory]) -> None:
        """Keep memories, each in the place of the one with its id."""
        await self.store.remember([(memory, indexed(memory)) for memory in memories])
        await self._written([memory.content for memory in memories])
        for memory in memories:
            await self._tell("remembered", memory.room, id=memory.id, type=memory.type, pinned=memory.pinned)

    async def forget(self, id: str, *, erase: bool = False) -> None:
        """Remove a memory; with `erase`, its content leaves past contexts, too."""
        if not await self.store.forget(id, erase=erase):
            raise UnknownRecord("memory", id)
        await self._tell("forgotten", None, id=id, erased=erase)

    async def pin(self, id: str, *, pinned: bool = True) -> None:
        """Pin a memory, so that it stands in every context it belongs to; or let it go again."""
        if not await self.store.pin(id, pinned=pinned):
            raise UnknownRecord("memory", id)
        await self._tell("pinned", None, id=id, pinned=pinned)

    async def write_lore(self, entries: Sequence[LoreEntry]) -> None:
        """Write lorebook entries."""
        await self.store.write_lore([(entry, indexed(entry)) for entry in entries])
        await self._written([entry.content for entry in entries])

    async def summarize(self, summaries: Sequence[Summary]) -> None:
        """Write summaries of messages."""
        await self.store.summarize([(summary, indexed(summary)) for summary in summaries])
        await self._written([summary.content for summary in summaries])

    async def load(self, records: Sequence[Record]) -> None:
        """Write records as they were, whatever they are; one that is there stands, or is replaced if it may change."""
        await self.store.load(records, indexed)
        await self._written([record.content for record in records if isinstance(record, Searchable)])

    async def _written(self, contents: Sequence[Content]) -> None:
        for vocabulary in tuple(self._vocabularies):
            await keep(self.store, vocabulary, contents)
        if self._parts.indexer is not None:
            self._parts.indexer.wake()


def new_id(prefix: str) -> str:
    """Return an id that nothing else has."""
    return f"{prefix}-{uuid.uuid4().hex}"
