"""Write records: store them, count them for the models in use, and wake the indexer."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar, Unpack, cast

import msgspec

from brimful.assembly.arguments import require_list
from brimful.assembly.messages import read_content
from brimful.core.content import Role
from brimful.core.validation import preview
from brimful.engine.counts import UsedTokenizers
from brimful.engine.events import Emitter, EventName
from brimful.engine.indexer import Indexer
from brimful.engine.options import ContentInput, EngineSettings, MemoryChanges, MemoryOptions, check_options
from brimful.engine.own_words import normalize_fact, without_hidden
from brimful.errors import InvalidValue, UnknownRecord
from brimful.lore import check_keywords
from brimful.records import Content, LoreEntry, Memory, Message, Record, Summary
from brimful.records.base import validate_id
from brimful.records.memory import LEARNED, MemoryFilters, MemoryState
from brimful.records.runs import JanitorRun
from brimful.records.search import IndexEntry
from brimful.retrieval.documents import PIECE_CHARS, Searchable, make_document, searchable_text
from brimful.stores import Store
from brimful.stores.admin.export import WRITE_RECORDS
from brimful.stores.admin.runs import JanitorStore
from brimful.threads import run_in_thread

_PAGE_MEMORIES: Final = 500  # read at once
_Written = TypeVar("_Written", bound=Searchable)


class Writer:
    """Writes records of one tenant. When a method returns, its records are durable and full-text search finds them."""

    def __init__(
        self,
        store: Store,
        housekeeping: JanitorStore,
        settings: EngineSettings,
        *,
        tokenizers: UsedTokenizers,
        indexer: Indexer | None,
        events: Emitter,
    ) -> None:
        self._store = store
        self._housekeeping = housekeeping
        self._settings = settings
        self._tokenizers = tokenizers
        self._indexer = indexer
        self._events = events

    async def post(  # noqa: PLR0913 - the fields of a message
        self,
        *,
        room: str,
        text: str | None = None,
        content: ContentInput | None = None,
        sender: str = "",
        role: Role | None = None,
        id: str | None = None,
        at: float | datetime | None = None,
        persona: str | None = None,
        hidden: bool = False,
        superseded: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> Message:
        body = content if text is None else text
        if body is None or (text is not None and content is not None):
            raise InvalidValue("text", "pass either `text` or `content`")
        content, own_role = read_content(body, "content")
        message = Message(
            id=id or new_id("msg"),
            room=room,
            content=content,
            sender=sender,
            role=role or own_role or "user",
            at=self._settings.resolve_time(at),
            persona=persona,
            hidden=hidden,
            superseded=superseded,
            metadata={} if metadata is None else cast("dict[str, Any]", metadata),
        )
        return (await self.post_many([message]))[0]

    async def post_many(self, messages: Sequence[Message]) -> list[Message]:
        """Append messages to their rooms, in this order; return them as stored."""
        require_records("messages", messages, Message)
        stored = await self._store.post(await _make_documents(messages))
        await self.process_new(stored)
        for message in stored:
            await self._events.emit("posted", message.room, id=message.id, seq=message.seq, role=message.role)
        for sent, message in zip(messages, stored, strict=True):
            if message.room != sent.room:
                rooms = f"{preview(message.room)}, so it cannot be used in room {preview(sent.room)}"
                raise InvalidValue("id", f"{preview(message.id)} is the id of a message in room {rooms}")
        return stored

    async def edit(self, id: str, content: Content, *, at: float | datetime | None = None) -> Message:
        known = await self._store.messages([validate_id("id", id)])
        if not known:
            raise UnknownRecord("message", id)
        changed = msgspec.structs.replace(known[0], content=content)
        edited_at = self._settings.resolve_time(at)
        [(_, document)] = await _make_documents([changed])
        message = await self._store.edit(id, changed.content, document, at=edited_at)
        if message is None:
            raise UnknownRecord("message", id)
        await self.process_new([message])
        await self._events.emit("edited", message.room, id=id)
        return message

    async def delete(self, id: str, *, erase: bool = False) -> None:
        if not await self._store.delete(id, erase=erase):
            raise UnknownRecord("message", id)
        await self._events.emit("deleted", None, id=id, erased=erase)

    async def supersede(self, ids: Sequence[str]) -> None:
        """Hide messages that were replaced by others."""
        for id in require_list("ids", ids):
            validate_id("ids", id)
        await self._store.hide(ids, superseded=True)

    async def remember(self, text: str, **options: Unpack[MemoryOptions]) -> Memory:
        memory = self._make_memory(text, **options)
        await self.remember_many([memory])
        return memory

    async def propose(self, text: str, **options: Unpack[MemoryOptions]) -> Memory | None:
        """Propose a memory, or remember or ignore it, as the settings say."""
        memory = self._make_memory(text, **options)
        if self._settings.untrusted == "ignore":
            return None
        if self._settings.untrusted == "propose":
            memory = msgspec.structs.replace(memory, content=without_hidden(memory.content), state="proposed")
            require_memory_content(memory)
            if await self._is_known(memory):
                return None
            for known in await self._store.memories(ids=[memory.id], state=None, limit=1):
                metadata = {**memory.metadata, LEARNED: {"supersedes": known.id}}
                memory = msgspec.structs.replace(memory, id=new_id("mem"), metadata=metadata)
        await self.remember_many([memory])
        return memory

    async def review(self, ids: object, state: MemoryState) -> JanitorRun:
        """Confirm or reject proposed memories."""
        names = [validate_id("ids", id) for id in require_list("ids", [ids] if isinstance(ids, str) else ids)]
        if not names:
            raise InvalidValue("ids", "is empty: pass the ids of proposed memories")
        run = await self._housekeeping.review(
            list(dict.fromkeys(names)), state, make_document, holder=new_id("review"), now=self._settings.clock()
        )
        if state == "active":
            await self.process_new(await self._store.memories(ids=names, limit=len(names)))
        await self._events.emit("reviewed", None, run=run.number, **run.facts)
        return run

    async def _is_known(self, memory: Memory) -> bool:
        """Return whether a memory with the same words and owners exists, waits or was rejected."""
        fact, before, after = normalize_fact(memory.content), None, ""
        while page := await self._store.memories(
            scopes=[memory.scope], state=None, before=before, after=after, limit=_PAGE_MEMORIES
        ):
            if any(normalize_fact(each.content) == fact for each in page):
                return True
            before, after = page[-1].at, page[-1].id
        return False

    def _make_memory(self, text: str, **options: Unpack[MemoryOptions]) -> Memory:
        check_options(options, MemoryOptions)
        fields: dict[str, Any] = {
            **options,
            "id": options.get("id") or new_id("mem"),
            "at": self._settings.resolve_time(options.get("at")),
            "metadata": {} if options.get("metadata") is None else options["metadata"],
        }
        memory = Memory(content=text, **fields)
        require_memory_content(memory)
        return memory

    async def remember_many(self, memories: Sequence[Memory]) -> None:
        require_records("memories", memories, Memory)
        await self._check_source_messages(memories)
        await self._store.save_memories(await _make_documents(memories))
        await self.process_new(memories)
        for memory in memories:
            name: EventName = "remembered" if memory.state == "active" else "proposed"
            await self._events.emit(name, memory.room, id=memory.id, type=memory.type, pinned=memory.pinned)

    async def update_memory(
        self, id: str, text: str | None, *, at: float | datetime | None, **changes: Unpack[MemoryChanges]
    ) -> Memory:
        check_options(changes, MemoryChanges)
        fields: dict[str, Any] = {**changes, "edited": self._settings.resolve_time(at)}
        if text is not None:
            fields["content"] = text
        known = await self._store.memories(ids=[validate_id("id", id)], limit=1)
        if not known:
            raise UnknownRecord("memory", id)
        changed = msgspec.structs.replace(known[0], **fields)
        require_memory_content(changed)
        await self._check_source_messages([changed])
        memory = await self._store.update_memory(id, fields, make_document)
        if memory is None:
            raise UnknownRecord("memory", id)
        await self.process_new([memory])
        await self._events.emit("remembered", memory.room, id=memory.id, type=memory.type, pinned=memory.pinned)
        return memory

    async def forget_memories(self, *, erase: bool, **filters: Unpack[MemoryFilters]) -> int:
        """Remove the memories that match filters."""
        count = await self._store.remove_memories(erase=erase, **filters)
        if count:
            await self._events.emit("forgotten", None, count=count, erased=erase)
        return count

    async def _check_source_messages(self, memories: Sequence[Memory]) -> None:
        """Refuse new links to messages that are not in the store. A stored link stays, even if its message is gone."""
        removed = await find_removed_sources(self._store, memories)
        linked = [memory for memory in memories if memory.source_message in removed]
        stored = await self._store.memories(ids=[each.id for each in linked], limit=len(linked)) if linked else []
        links = {memory.id: memory.source_message for memory in stored}
        for memory in linked:
            if links.get(memory.id) != memory.source_message:
                reason = f"{preview(memory.source_message)} is not a message in the store"
                raise InvalidValue("source_message", reason)

    async def forget(self, id: str, *, erase: bool = False) -> None:
        if not await self._store.remove_memory(id, erase=erase):
            raise UnknownRecord("memory", id)
        await self._events.emit("forgotten", None, id=id, erased=erase)

    async def pin(self, id: str, *, pinned: bool = True) -> None:
        if not await self._store.pin(id, pinned=pinned):
            raise UnknownRecord("memory", id)
        await self._events.emit("pinned", None, id=id, pinned=pinned)

    async def write_lore(self, entries: Sequence[LoreEntry]) -> None:
        require_records("entries", entries, LoreEntry)
        await run_in_thread(check_keywords, *entries)  # a stranger may have written thousands
        await self._store.save_lore(await _make_documents(entries))
        await self.process_new(entries)

    async def write_summaries(self, summaries: Sequence[Summary]) -> None:
        require_records("summaries", summaries, Summary)
        await self._store.save_summaries(await _make_documents(summaries))
        await self.process_new(summaries)

    async def load(self, records: Sequence[Record], *, defer: bool = False) -> None:
        """Write records of any kind unchanged, with their counts. With `defer`, messages are indexed later."""
        require_records("records", records, Record)
        for start in range(0, len(records), WRITE_RECORDS):
            batch = records[start : start + WRITE_RECORDS]
            searchable = [record for record in batch if isinstance(record, Searchable)]
            counting = self._tokenizers.count([record.content for record in searchable])
            await self._store.load_records(batch, make_document, defer=defer, count=counting.result)
            await self._index_new([] if defer else searchable)

    async def process_new(self, records: Sequence[Searchable]) -> None:
        """Count records that were just stored, index the rest of very long ones, and have them embedded."""
        await self._tokenizers.store_counts(self._store, [record.content for record in records])
        await self._index_new(records)

    async def _index_new(self, records: Sequence[Searchable]) -> None:
        """Index the rest of very long records, and wake the indexer."""
        very_long = [record.id for record in records if len(searchable_text(record)) > PIECE_CHARS]
        while very_long and await self._store.divide_documents(make_document, very_long):
            pass  # one piece after the other, so that other writers do not wait for all of it
        if self._indexer is not None:
            self._indexer.wake()


def require_records(field: str, values: object, type: type[Record]) -> None:
    """Refuse anything but a list of records of a type."""
    for index, value in enumerate(require_list(field, values)):
        if not isinstance(value, type):
            raise InvalidValue(f"{field}[{index}]", f"must be a {type.__name__}, not {preview(value)}")


async def find_removed_sources(store: Store, memories: Sequence[Memory]) -> set[str]:
    """Return the source messages of memories that are not in the store."""
    ids = {memory.source_message for memory in memories if memory.source_message}
    return ids - {message.id for message in await store.messages(sorted(ids))} if ids else ids


def new_id(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex}"


def require_memory_content(memory: Memory) -> None:
    """Refuse an empty memory."""
    if not memory.content.strip():
        raise InvalidValue("content", "is empty: a memory needs a text")


async def _make_documents(records: Sequence[_Written]) -> list[tuple[_Written, IndexEntry]]:
    """Return records with their index entries. Long texts and many keywords take long to divide and analyze."""
    return await run_in_thread(lambda: [(record, make_document(record)) for record in records])
