"""Endpoints for rooms, personas, messages, memories and lorebooks."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
from msgspec import UNSET

from brimful.core import validation
from brimful.engine import Engine
from brimful.engine.writer import new_id, require_memory_content
from brimful.errors import InvalidValue, UnknownRecord
from brimful.protocols import Store
from brimful.records import Entity, Lorebook, LoreEntry, Memory, Message, Persona, Room
from brimful.records.character import Character
from brimful.retrieval.search import memory_scopes
from brimful.server.errors import ApiError
from brimful.server.inspector.catalogue import ContentCounter
from brimful.server.inspector.context_cache import ContextCache
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import ListQuery, MemoriesQuery, MessagesQuery, RemoveQuery
from brimful.server.inspector.record_views import (
    EntryList,
    EntryView,
    LorebookList,
    LorebookView,
    MemoryList,
    MemoryView,
    MessageList,
    MessageView,
    PersonaList,
    PersonaView,
    Removed,
    RoomList,
    RoomView,
)
from brimful.server.tenants import Tenants

CONFLICT: Final = 409
_TIMESTAMPS: Final = frozenset(("at", "created"))

R = TypeVar("R", bound=Entity)

MakeViews = Callable[[Store, Sequence[R], str | None], Awaitable[Sequence[msgspec.Struct]]]
"""Returns records as they are shown, with their tokens for a model."""


class RecordEndpoints(Generic[R]):
    """Records of one kind: rooms, personas or lorebooks."""

    def __init__(
        self,
        kind: type[R],
        views: MakeViews[R],
        listed: Callable[[tuple[Any, ...], str | None], msgspec.Struct],
        /,
        *,
        tenants: Tenants,
        loaded: ContextCache,
        begin: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        """Take the kind, how its records and lists of them are shown, and what a new one begins with."""
        self._kind = kind
        self._views = views
        self._listed = listed
        self._tenants = tenants
        self._loaded = loaded
        self._begin = begin

    @property
    def _called(self) -> str:
        return self._kind.__name__.lower()

    async def listed(self, inquiry: Call) -> msgspec.Struct:
        """List records by id."""
        query: ListQuery = inquiry.query
        store = self._tenants.store(inquiry.tenant)
        records = await store.listed(self._kind, after=query.after, limit=query.limit)
        after = records[-1].id if len(records) == query.limit else None
        return self._listed(tuple(await self._views(store, records, query.model)), after)

    async def show(self, inquiry: Call) -> msgspec.Struct:
        """Show one."""
        store = self._tenants.store(inquiry.tenant)
        return await self._shown(store, await self._found(store, inquiry.name()), inquiry)

    async def create(self, inquiry: Call) -> msgspec.Struct:
        """Make one; an id that is taken is refused."""
        said = self._begin() | body_fields(inquiry.body, id=self._called)
        engine = await self._tenants.engine(inquiry.tenant)
        record = self._kind(**said)
        if await engine.store.get(self._kind, record.id) is not None:
            raise id_conflict(self._called, record.id)
        return await self._put(engine, record, inquiry)

    async def change(self, inquiry: Call) -> msgspec.Struct:
        """Change what is said of one."""
        engine = await self._tenants.engine(inquiry.tenant)
        record = await self._found(engine.store, inquiry.name())
        return await self._put(engine, with_changes(record, body_fields(inquiry.body)), inquiry)

    async def remove(self, inquiry: Call) -> Removed:
        """Remove one, and all that belongs to it."""
        id = inquiry.name()
        if not await self._tenants.store(inquiry.tenant).remove(cast("type[Entity]", self._kind), id):
            raise UnknownRecord(self._called, id)
        self._loaded.drop(inquiry.tenant)
        return Removed(id=id)

    async def _put(self, engine: Engine, record: R, inquiry: Call) -> msgspec.Struct:
        await engine.put(record)
        return await self._shown(engine.store, record, inquiry)

    async def _found(self, store: Store, id: str) -> R:
        record = await store.get(self._kind, id)
        if record is None:
            raise UnknownRecord(self._called, id)
        return record

    async def _shown(self, store: Store, record: R, inquiry: Call) -> msgspec.Struct:
        return (await self._views(store, [record], inquiry.query.model))[0]


T = TypeVar("T", bound=msgspec.Struct)


def body_fields(body: msgspec.Struct, *, id: str = "") -> dict[str, Any]:
    """Return the fields that a body says. With `id`, one that names no id gets a new one that begins so."""
    fields = {name: getattr(body, name) for name in body.__struct_fields__}
    said = {name: value for name, value in fields.items() if value is not UNSET}
    for name in _TIMESTAMPS & said.keys():
        validation.require_calendar_time(name, said[name], InvalidValue)
    return {"id": new_id(id)} | said if id else said


def with_changes(record: T, said: dict[str, Any]) -> T:
    """Return a record with what is said of it; its id is what it is."""
    if said.pop("id", getattr(record, "id", None)) != getattr(record, "id", None):
        raise InvalidValue("id", "cannot be changed: make another one, and remove this one")
    return msgspec.structs.replace(record, **said)


def to_view(kind: type[T], record: msgspec.Struct, **more: Any) -> T:
    """Return a record in the form in which it is shown."""
    return kind(**{name: getattr(record, name) for name in record.__struct_fields__}, **more)


def id_conflict(kind: str, id: str) -> ApiError:
    """Return what is said of an id that is taken."""
    return ApiError("invalid", f"there is a {kind} {id[:80]!r} already", status=CONFLICT, code="taken", param="id")


def make_rooms(
    tenants: Tenants, tokens: ContentCounter, loaded: ContextCache, *, clock: Callable[[], float]
) -> RecordEndpoints[Room]:
    """Return the rooms of all tenants."""

    async def views(store: Store, records: Sequence[Room], model: str | None) -> list[RoomView]:
        del store
        counts = await tokens.of([_room_text(room) for room in records], model)
        return [to_view(RoomView, room, tokens=count) for room, count in zip(records, counts, strict=True)]

    def listed(found: tuple[RoomView, ...], after: str | None) -> RoomList:
        return RoomList(rooms=found, next=after)

    return RecordEndpoints(Room, views, listed, tenants=tenants, loaded=loaded, begin=lambda: {"created": clock()})


def make_personas(tenants: Tenants, tokens: ContentCounter, loaded: ContextCache) -> RecordEndpoints[Persona]:
    """Return the personas of all tenants."""

    async def views(store: Store, records: Sequence[Persona], model: str | None) -> list[PersonaView]:
        del store
        counts = await tokens.of([_persona_text(persona) for persona in records], model)
        return [to_view(PersonaView, each, tokens=count) for each, count in zip(records, counts, strict=True)]

    def listed(found: tuple[PersonaView, ...], after: str | None) -> PersonaList:
        return PersonaList(personas=found, next=after)

    return RecordEndpoints(Persona, views, listed, tenants=tenants, loaded=loaded)


def _room_text(room: Room) -> str:
    """Return the texts of a room that its contexts hold: its goal, its headers, its notes, and who answers in it."""
    here = room.character or Character()
    told = (here.prompt, here.sheet, here.examples)
    return _join(*told, room.goal, *room.headers, *(note.text for note in room.notes))


def _persona_text(persona: Persona) -> str:
    """Return the texts of a persona that its contexts hold: its prompt, who it is, and its notes."""
    who = persona.character
    prompt = persona.prompt or (who.prompt if who else "")
    own = (prompt, who.sheet, who.examples) if who else (prompt,)
    return _join(*own, *(note.text for note in persona.notes))


def _join(*texts: str) -> str:
    return "\n".join(text for text in texts if text)


class Messages:
    """Shows messages."""

    def __init__(self, tenants: Tenants, tokens: ContentCounter, loaded: ContextCache) -> None:
        """Take the stores."""
        self._tenants = tenants
        self._tokens = tokens
        self._loaded = loaded

    async def listed(self, inquiry: Call) -> MessageList:
        """List the messages of a room, newest first, or those that matter for what is searched for, the best first."""
        query: MessagesQuery = inquiry.query
        store, room = self._tenants.store(inquiry.tenant), inquiry.name()
        if await store.get(Room, room) is None:
            raise UnknownRecord("room", room)
        if query.q.strip():
            return await self._found(inquiry.tenant, room, query)
        page = [entry.message for entry in await store.history(room, before=query.before, limit=query.limit)]
        after = page[-1].seq if len(page) == query.limit else None
        return MessageList(messages=await self._shown(page, [None] * len(page), query.model), next=after)

    async def remove(self, inquiry: Call) -> Removed:
        """Take a message out of its room."""
        query: RemoveQuery = inquiry.query
        engine, id = await self._tenants.engine(inquiry.tenant), inquiry.name()
        await engine.delete(id, erase=query.erase)
        self._loaded.drop(inquiry.tenant)
        return Removed(id=id)

    async def _found(self, tenant: str, room: str, query: MessagesQuery) -> MessageList:
        engine = await self._tenants.engine(tenant)
        found = await engine.search(query.q, room=room, limit=query.limit)
        hits = [(hit.record, hit.relevance) for hit in found.hits if isinstance(hit.record, Message)][: query.limit]
        shown = await self._shown([record for record, _ in hits], [relevance for _, relevance in hits], query.model)
        return MessageList(messages=shown, next=None)

    async def _shown(
        self, messages: Sequence[Message], relevances: Sequence[float | None], model: str | None
    ) -> tuple[MessageView, ...]:
        counts = await self._tokens.of([message.content for message in messages], model)
        return tuple(
            to_view(MessageView, message, tokens=count, relevance=relevance)
            for message, count, relevance in zip(messages, counts, relevances, strict=True)
        )


MAX_SCANNED: Final = 5_000  # memories looked through for words at a time; `next` goes on behind them
_PAGE_SIZE: Final = 500  # … read at a time


class Memories:
    """Shows and changes memories."""

    def __init__(
        self, tenants: Tenants, tokens: ContentCounter, loaded: ContextCache, *, clock: Callable[[], float]
    ) -> None:
        """Take the stores, and what tells the time."""
        self._tenants = tenants
        self._tokens = tokens
        self._loaded = loaded
        self._clock = clock

    async def listed(self, inquiry: Call) -> MemoryList:
        """List memories, newest first."""
        query: MemoriesQuery = inquiry.query
        found, after = await _find_page(self._tenants.store(inquiry.tenant), query)
        return MemoryList(memories=tuple(await self._views(found, query.model)), next=after)

    async def show(self, inquiry: Call) -> MemoryView:
        """Show one."""
        return await self._shown(await _find_memory(self._tenants.store(inquiry.tenant), inquiry.name()), inquiry)

    async def create(self, inquiry: Call) -> MemoryView:
        """Keep something to be known later; an id that is taken is refused."""
        fresh: dict[str, Any] = {"at": self._clock(), "content": ""}
        memory = Memory(**fresh | body_fields(inquiry.body, id="mem"))
        require_memory_content(memory)
        engine = await self._tenants.engine(inquiry.tenant)
        if await engine.store.memories(ids=[memory.id], limit=1):
            raise id_conflict("memory", memory.id)
        await engine.remember_many([memory])
        return await self._shown(memory, inquiry)

    async def change(self, inquiry: Call) -> MemoryView:
        """Change one. Where it is only pinned, or let go again, nothing else of it is touched."""
        engine, said = await self._tenants.engine(inquiry.tenant), body_fields(inquiry.body)
        memory = with_changes(await _find_memory(engine.store, inquiry.name()), dict(said))
        require_memory_content(memory)
        if set(said) <= {"pinned", "id"}:
            await engine.pin(memory.id, pinned=memory.pinned)
        else:
            await engine.remember_many([memory])
        return await self._shown(memory, inquiry)

    async def forget(self, inquiry: Call) -> Removed:
        """Forget one."""
        query: RemoveQuery = inquiry.query
        engine, id = await self._tenants.engine(inquiry.tenant), inquiry.name()
        await engine.forget(id, erase=query.erase)
        self._loaded.drop(inquiry.tenant)
        return Removed(id=id)

    async def _shown(self, memory: Memory, inquiry: Call) -> MemoryView:
        return (await self._views([memory], inquiry.query.model))[0]

    async def _views(self, memories: Sequence[Memory], model: str | None) -> list[MemoryView]:
        counts = await self._tokens.of([memory.content for memory in memories], model)
        return [to_view(MemoryView, memory, tokens=count) for memory, count in zip(memories, counts, strict=True)]


async def _find_memory(store: Store, id: str) -> Memory:
    found = await store.memories(ids=[id], limit=1)
    if not found:
        raise UnknownRecord("memory", id)
    return found[0]


async def _find_page(store: Store, query: MemoriesQuery) -> tuple[list[Memory], str | None]:
    """Return a page of memories, and where the next one begins."""
    owners = (query.persona, query.user, query.room)
    scopes = memory_scopes(*owners) if any(owner is not None for owner in owners) else None
    words = query.q.casefold().split()
    found: list[Memory] = []
    at, after = _parse_cursor(query.before)
    for _ in range(max(1, MAX_SCANNED // _PAGE_SIZE) if words else 1):
        size = _PAGE_SIZE if words else query.limit
        page = await store.memories(scopes=scopes, pinned=query.pinned, before=at, after=after, limit=size)
        for memory in page:
            at, after = memory.at, memory.id
            if all(word in memory.content.casefold() for word in words):
                found.append(memory)
                if len(found) == query.limit:
                    return found, _cursor(memory)
        if len(page) < size:
            return found, None
    return found, _cursor(page[-1])


def _cursor(memory: Memory) -> str:
    return f"{memory.at!r} {memory.id}"


def _parse_cursor(cursor: str) -> tuple[float | None, str]:
    """Read where a page begins: behind the memory of that time and id."""
    if not cursor:
        return None, ""
    at, _, id = cursor.partition(" ")
    try:
        return msgspec.convert(at, float, strict=False), id
    except msgspec.ValidationError:
        raise ApiError("invalid", "before: must be the `next` of another answer", param="before") from None


def make_lorebooks(tenants: Tenants, tokens: ContentCounter, loaded: ContextCache) -> RecordEndpoints[Lorebook]:
    """Return the lorebooks of all tenants."""

    async def views(store: Store, records: Sequence[Lorebook], model: str | None) -> list[LorebookView]:
        entries = await store.lore([book.id for book in records]) if records else []
        counts = await tokens.of([entry.content for entry in entries], model)
        many = Counter(entry.lorebook for entry in entries)
        whole = Counter[str]()
        for entry, count in zip(entries, counts, strict=True):
            whole[entry.lorebook] += count
        return [to_view(LorebookView, book, entries=many[book.id], tokens=whole[book.id]) for book in records]

    def listed(found: tuple[LorebookView, ...], after: str | None) -> LorebookList:
        return LorebookList(lorebooks=found, next=after)

    return RecordEndpoints(Lorebook, views, listed, tenants=tenants, loaded=loaded)


class LoreEntries:
    """Shows and changes the entries of lorebooks."""

    def __init__(self, tenants: Tenants, tokens: ContentCounter) -> None:
        """Take the stores."""
        self._tenants = tenants
        self._tokens = tokens

    async def listed(self, inquiry: Call) -> EntryList:
        """List all entries of a lorebook, by their order."""
        store, book = self._tenants.store(inquiry.tenant), inquiry.name()
        await _require_lorebook(store, book)
        entries = await store.lore([book])
        return EntryList(entries=tuple(await self._views(entries, inquiry.query.model)))

    async def create(self, inquiry: Call) -> EntryView:
        """Write an entry; an id that is taken is refused."""
        engine, book = await self._tenants.engine(inquiry.tenant), inquiry.name()
        said = body_fields(inquiry.body, id="lore")
        await _require_lorebook(engine.store, book)
        if "content" not in said:
            raise ApiError("invalid", "content: say what the entry tells", param="content")
        entry = LoreEntry(lorebook=book, **said)
        if await engine.store.lore(ids=[entry.id]):
            raise id_conflict("entry", entry.id)
        await engine.write_lore([entry])
        return (await self._views([entry], inquiry.query.model))[0]

    async def change(self, inquiry: Call) -> EntryView:
        """Change an entry."""
        engine = await self._tenants.engine(inquiry.tenant)
        entry = with_changes(await _find_entry(engine.store, inquiry), body_fields(inquiry.body))
        await engine.write_lore([entry])
        return (await self._views([entry], inquiry.query.model))[0]

    async def remove(self, inquiry: Call) -> Removed:
        """Remove an entry."""
        store = self._tenants.store(inquiry.tenant)
        entry = await _find_entry(store, inquiry)
        await store.remove_lore(entry.id)
        return Removed(id=entry.id)

    async def _views(self, entries: Sequence[LoreEntry], model: str | None) -> list[EntryView]:
        counts = await self._tokens.of([entry.content for entry in entries], model)
        return [to_view(EntryView, entry, tokens=count) for entry, count in zip(entries, counts, strict=True)]


async def _require_lorebook(store: Store, id: str) -> None:
    if await store.get(Lorebook, id) is None:
        raise UnknownRecord("lorebook", id)


async def _find_entry(store: Store, inquiry: Call) -> LoreEntry:
    """Return the entry that the path names, of the lorebook that it names."""
    book, id = inquiry.name(), inquiry.name("entry")
    found = [entry for entry in await store.lore(ids=[id]) if entry.lorebook == book]
    if not found:
        raise UnknownRecord("entry", id)
    return found[0]
