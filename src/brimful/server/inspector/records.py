"""Endpoints for rooms, personas, messages, memories and lorebooks."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from math import inf, nextafter
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
from msgspec import UNSET

from brimful.assembly.messages import read_content
from brimful.core import validation
from brimful.core.content import Role
from brimful.engine import Engine
from brimful.engine.plan import get_policy_keys
from brimful.engine.writer import find_removed_sources, new_id, require_memory_content
from brimful.errors import InvalidValue, UnknownPolicy, UnknownRecord
from brimful.policies import load_policy
from brimful.records import Content, Entity, Lorebook, LoreEntry, Memory, Message, Persona, Room
from brimful.records.base import validate_id
from brimful.records.character import Character
from brimful.records.memory import MemoryFilters, memory_cursor, parse_memory_cursor
from brimful.records.runs import JanitorRun
from brimful.retrieval.search import memory_scopes
from brimful.server.errors import ApiError
from brimful.server.inspector.catalogue import ContentCounter
from brimful.server.inspector.context_cache import ContextCache
from brimful.server.inspector.memory_history import MemoryHistory, find_origin
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import (
    ListQuery,
    MemoriesQuery,
    MessagesQuery,
    RemoveMemoriesQuery,
    RemoveQuery,
    ReviewBody,
)
from brimful.server.inspector.record_views import (
    EntryList,
    EntryView,
    LorebookList,
    LorebookView,
    MemoryChain,
    MemoryList,
    MemoryView,
    MessageList,
    MessageView,
    PersonaList,
    PersonaView,
    Removed,
    RemovedMemories,
    RoomList,
    RoomView,
)
from brimful.server.inspector.views import MAX_ANSWERS, Costs, to_view
from brimful.server.tenants import Tenants
from brimful.stores import Store
from brimful.threads import run_in_thread

CONFLICT: Final = 409
_TIMESTAMPS: Final = frozenset(("at", "created"))

R = TypeVar("R", bound=Entity)

MakeViews = Callable[[Store, Sequence[R], str | None], Awaitable[Sequence[msgspec.Struct]]]
"""Returns the views of records, with token counts for a model."""
MAX_SCANNED: Final = 5_000  # memories per request; `next` continues after them
_PAGE_SIZE: Final = 500  # memories


class RecordEndpoints(Generic[R]):
    """Endpoints for records of one kind: rooms, personas or lorebooks."""

    def __init__(
        self,
        kind: type[R],
        views: MakeViews[R],
        make_list: Callable[[tuple[Any, ...], str | None], msgspec.Struct],
        /,
        *,
        tenants: Tenants,
        cache: ContextCache,
        defaults: Callable[[], dict[str, Any]] = dict,
        check: Callable[[R], object] = lambda _: None,
    ) -> None:
        self._kind = kind
        self._views = views
        self._make_list = make_list
        self._tenants = tenants
        self._cache = cache
        self._defaults = defaults
        self._check = check

    @property
    def _kind_name(self) -> str:
        return self._kind.__name__.lower()

    async def list_page(self, call: Call) -> msgspec.Struct:
        query: ListQuery = call.query
        store = self._tenants.store(call.tenant).replica
        records = await store.list_records(self._kind, after=query.after, limit=query.limit)
        after = records[-1].id if len(records) == query.limit else None
        return self._make_list(tuple(await self._views(store, records, query.model)), after)

    async def show(self, call: Call) -> msgspec.Struct:
        store = self._tenants.store(call.tenant)
        return await self._shown(store, await store.require(self._kind, call.name()), call)

    async def create(self, call: Call) -> msgspec.Struct:
        """Create a record; reject an existing id."""
        fields = self._defaults() | body_fields(call.body, id=self._kind_name)
        engine = await self._tenants.engine(call.tenant)
        record = self._kind(**fields)
        if await engine.store.get(self._kind, record.id) is not None:
            raise id_conflict(self._kind_name, record.id)
        return await self._put(engine, record, call)

    async def change(self, call: Call) -> msgspec.Struct:
        engine = await self._tenants.engine(call.tenant)
        record = await engine.store.require(self._kind, call.name())
        return await self._put(engine, with_changes(record, body_fields(call.body)), call)

    async def remove(self, call: Call) -> Removed:
        """Remove a record and everything that belongs to it."""
        id = call.name()
        if not await self._tenants.store(call.tenant).remove(cast("type[Entity]", self._kind), id):
            raise UnknownRecord(self._kind_name, id)
        self._cache.drop(call.tenant)
        return Removed(id=id)

    async def _put(self, engine: Engine, record: R, call: Call) -> msgspec.Struct:
        self._check(record)
        await engine.put(record)
        return await self._shown(engine.store, record, call)

    async def _shown(self, store: Store, record: R, call: Call) -> msgspec.Struct:
        return (await self._views(store, [record], call.query.model))[0]


T = TypeVar("T", bound=msgspec.Struct)
V = TypeVar("V", bound=msgspec.Struct)


def body_fields(body: msgspec.Struct, *, id: str = "") -> dict[str, Any]:
    """Return the fields set in a body. With `id`, a missing id is generated with that prefix."""
    fields = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}
    for name in _TIMESTAMPS & fields.keys():
        validation.require_calendar_time(name, fields[name], InvalidValue)
    return {"id": new_id(id)} | fields if id else fields


def with_changes(record: T, fields: dict[str, Any]) -> T:
    """Return a record with some fields changed; its id cannot change."""
    if fields.pop("id", getattr(record, "id", None)) != getattr(record, "id", None):
        raise InvalidValue("id", "cannot be changed")
    return msgspec.structs.replace(record, **fields)


def id_conflict(kind: str, id: str) -> ApiError:
    """Return the error for an id that already exists."""
    return ApiError("invalid", f"{kind} {id[:80]!r} already exists", status=CONFLICT, code="already_exists", param="id")


def _counted_views(
    view: type[V], text: Callable[[Any], str], tokens: ContentCounter
) -> Callable[[Store, Sequence[Any], str | None], Awaitable[list[V]]]:
    """Return the function that makes views of records with the tokens of a text of each."""

    async def views(store: Store, records: Sequence[Any], model: str | None) -> list[V]:
        counts = await tokens.of(store, [text(record) for record in records], model)
        return [to_view(view, record, tokens=count) for record, count in zip(records, counts, strict=True)]

    return views


def make_rooms(
    tenants: Tenants, tokens: ContentCounter, cache: ContextCache, *, clock: Callable[[], float]
) -> RecordEndpoints[Room]:
    def make_list(records: tuple[RoomView, ...], after: str | None) -> RoomList:
        return RoomList(rooms=records, next=after)

    views = _counted_views(RoomView, _room_text, tokens)
    return RecordEndpoints(Room, views, make_list, tenants=tenants, cache=cache, defaults=lambda: {"created": clock()})


def make_personas(tenants: Tenants, tokens: ContentCounter, cache: ContextCache) -> RecordEndpoints[Persona]:
    def check(persona: Persona) -> None:
        """Reject a policy that would make every context of the persona fail. Files cannot be named."""
        policies, name = tenants.policies, persona.policy or "default"
        if name not in policies:
            raise UnknownPolicy(name, sorted(policies))
        load_policy(policies[name], overrides=get_policy_keys(persona.overrides) or None)

    def make_list(records: tuple[PersonaView, ...], after: str | None) -> PersonaList:
        return PersonaList(personas=records, next=after)

    views = _counted_views(PersonaView, _persona_text, tokens)
    return RecordEndpoints(Persona, views, make_list, tenants=tenants, cache=cache, check=check)


def _room_text(room: Room) -> str:
    """Return the text of a room that is part of its contexts: character, goal, headers and notes."""
    own = room.character or Character()
    character = (own.prompt, own.sheet, own.examples)
    return _join(*character, room.goal, *room.headers, *(note.text for note in room.notes))


def _persona_text(persona: Persona) -> str:
    """Return the text of a persona that is part of its contexts: prompt, character and notes."""
    who = persona.character
    prompt = persona.prompt or (who.prompt if who else "")
    own = (prompt, who.sheet, who.examples) if who else (prompt,)
    return _join(*own, *(note.text for note in persona.notes))


def _join(*texts: str) -> str:
    return "\n".join(text for text in texts if text)


def read_message(content: object) -> tuple[Content, Role | None]:
    """Return the content of a message, and its role if it is a whole message; reject an empty one."""
    read, role = read_content(content, "content")
    if not (read.strip() if isinstance(read, str) else read):
        raise ApiError("invalid", "content: is empty", param="content")
    return read, role


class Messages:
    """Endpoints for messages."""

    def __init__(self, tenants: Tenants, tokens: ContentCounter, cache: ContextCache, costs: Costs) -> None:
        self._tenants = tenants
        self._tokens = tokens
        self._cache = cache
        self._costs = costs

    async def list_page(self, call: Call) -> MessageList:
        """List the messages of a room, newest first, or search results, best first."""
        query: MessagesQuery = call.query
        store, room = self._tenants.store(call.tenant), call.name()
        await store.require(Room, room)
        if query.q.strip():
            return await self._found(call.tenant, room, query)
        page = [entry.message for entry in await store.history(room, before=query.before, limit=query.limit)]
        after = page[-1].seq if len(page) == query.limit else None
        return MessageList(messages=await self._message_views(store, page, query.model), next=after)

    async def create(self, call: Call) -> MessageView:
        engine, room = await self._tenants.engine(call.tenant), call.name()
        await engine.store.require(Room, room)
        message = await self.post(engine, room, msgspec.structs.asdict(call.body))
        return await self.view(engine.store, message, call.query.model)

    async def post(self, engine: Engine, room: str, fields: dict[str, Any]) -> Message:
        """Post a message. Its id may be posted again with the same content, and only in this room."""
        content, role = read_message(fields["content"])
        fields |= {"content": content, "role": fields["role"] or role or "user"}
        known = await engine.store.messages([validate_id("id", fields["id"])]) if fields["id"] else []
        if any(message.room != room for message in known):
            raise id_conflict("message", fields["id"])
        message = await engine.post(room=room, **fields)
        sent = Message(**fields | {"id": message.id, "room": room, "at": message.at})  # as a store holds it
        same = (message.content, message.sender, message.role) == (sent.content, sent.sender, sent.role)
        if not same and message.edited is None:
            raise id_conflict("message", message.id)
        return message

    async def change(self, call: Call) -> MessageView:
        """Replace the content of a message. Past contexts keep what the model saw."""
        engine = await self._tenants.engine(call.tenant)
        message = await engine.edit(call.name(), read_message(call.body.content)[0])
        return await self.view(engine.store, message, call.query.model)

    async def view(self, store: Store, message: Message, model: str | None) -> MessageView:
        """Return a message with its tokens."""
        return (await self._message_views(store, [message], model))[0]

    async def remove(self, call: Call) -> Removed:
        query: RemoveQuery = call.query
        engine, id = await self._tenants.engine(call.tenant), call.name()
        await engine.delete(id, erase=query.erase)
        self._cache.drop(call.tenant)
        return Removed(id=id)

    async def _found(self, tenant: str, room: str, query: MessagesQuery) -> MessageList:
        engine = await self._tenants.engine(tenant)
        results = await engine.search(query.q, room=room, limit=query.limit)
        hits = [(hit.record, hit) for hit in results.hits if isinstance(hit.record, Message)][: query.limit]
        views = await self._message_views(engine.store, [record for record, _ in hits], query.model)
        rated = tuple(
            msgspec.structs.replace(view, relevance=hit.relevance, parts=hit.parts)
            for view, (_, hit) in zip(views, hits, strict=True)
        )
        return MessageList(messages=rated, next=None)

    async def _message_views(
        self, store: Store, messages: Sequence[Message], model: str | None
    ) -> tuple[MessageView, ...]:
        counts = await self._tokens.of(store, [message.content for message in messages], model)
        if not messages:
            return ()
        ids = [message.id for message in messages]
        builds = await store.builds(messages=ids, limit=MAX_ANSWERS * len(ids))
        responses = await store.responses(messages=ids, limit=MAX_ANSWERS * len(ids))
        views = await run_in_thread(lambda: [self._costs.answer_view(each) for each in reversed(responses)])
        answers = {each.message: each for each in views}
        contexts = {build.message: build.id for build in reversed(builds)}
        contexts |= {message: answer.context for message, answer in answers.items()}
        return tuple(
            to_view(
                MessageView, message, tokens=count, context=contexts.get(message.id), answer=answers.get(message.id)
            )
            for message, count in zip(messages, counts, strict=True)
        )


class Memories:
    """Endpoints for memories."""

    def __init__(
        self, tenants: Tenants, tokens: ContentCounter, cache: ContextCache, *, clock: Callable[[], float]
    ) -> None:
        self._tenants = tenants
        self._tokens = tokens
        self._cache = cache
        self._clock = clock

    async def list_page(self, call: Call) -> MemoryList:
        query: MemoriesQuery = call.query
        memories, after = await find_memories(self._tenants.store(call.tenant), query, self._history(call.tenant))
        views = await self.views(memories, query.model, call.tenant)
        return MemoryList(memories=tuple(views), next=after)

    async def chain(self, call: Call) -> MemoryChain:
        """Show what replaced what, from the first memory to the one that is true now."""
        memory = await _find_memory(self._tenants.store(call.tenant), call.name())
        memories = await self._history(call.tenant).chain(memory)
        return MemoryChain(memories=tuple(await self.views(memories, call.query.model, call.tenant)))

    async def show(self, call: Call) -> MemoryView:
        return await self._shown(await _find_memory(self._tenants.store(call.tenant), call.name()), call)

    async def create(self, call: Call) -> MemoryView:
        """Create a memory; reject an existing id."""
        defaults: dict[str, Any] = {"at": self._clock(), "content": ""}
        memory = Memory(**defaults | body_fields(call.body, id="mem"))
        require_memory_content(memory)
        engine = await self._tenants.engine(call.tenant)
        if await engine.store.memories(ids=[memory.id], state=None, limit=1):
            raise id_conflict("memory", memory.id)
        await engine.remember_many([memory])
        return await self._shown(memory, call)

    async def change(self, call: Call) -> MemoryView:
        """Update a memory. Pinning and unpinning touches nothing else."""
        engine, fields = await self._tenants.engine(call.tenant), body_fields(call.body)
        memory = with_changes(await _find_memory(engine.store, call.name()), dict(fields))
        require_memory_content(memory)
        if set(fields) <= {"pinned", "id"}:
            await engine.pin(memory.id, pinned=memory.pinned)
        else:
            await engine.remember_many([msgspec.structs.replace(memory, edited=self._clock())])
        return await self._shown(await _find_memory(engine.store, memory.id), call)

    async def review(self, call: Call) -> JanitorRun:
        """Confirm or reject proposed memories, in a run that can be undone."""
        body: ReviewBody = call.body
        engine = await self._tenants.engine(call.tenant)
        if bool(body.confirm) == bool(body.reject):
            raise ApiError("invalid", "confirm: pass either `confirm` or `reject`, with ids", param="confirm")
        return await (engine.confirm_memories(body.confirm) if body.confirm else engine.reject_memories(body.reject))

    async def remove(self, call: Call) -> Removed:
        query: RemoveQuery = call.query
        engine, id = await self._tenants.engine(call.tenant), call.name()
        await engine.forget(id, erase=query.erase)
        self._cache.drop(call.tenant)
        return Removed(id=id)

    async def remove_matching(self, call: Call) -> RemovedMemories:
        query: RemoveMemoriesQuery = call.query
        engine = await self._tenants.engine(call.tenant)
        filters: MemoryFilters = {
            "persona": query.persona,
            "user": query.user,
            "room": query.room,
            **_common_filters(query),
        }
        removed = await engine.forget_memories(erase=query.erase, **filters)
        self._cache.drop(call.tenant)
        return RemovedMemories(removed=removed)

    async def _shown(self, memory: Memory, call: Call) -> MemoryView:
        return (await self.views([memory], call.query.model, call.tenant))[0]

    def _history(self, tenant: str) -> MemoryHistory:
        return MemoryHistory(self._tenants.store(tenant), self._tenants.database.janitor(tenant))

    async def views(self, memories: Sequence[Memory], model: str | None, tenant: str) -> list[MemoryView]:
        """Return memories with their tokens and what is known about their history."""
        store = self._tenants.store(tenant)
        counts = await self._tokens.of(store, [memory.content for memory in memories], model)
        removed = await find_removed_sources(store, memories)
        archived = await self._history(tenant).archived(memories)
        views = []
        for memory, count in zip(memories, counts, strict=True):
            origin, program = find_origin(memory)
            view = to_view(
                MemoryView,
                memory,
                tokens=count,
                source_removed=memory.source_message in removed,
                origin=origin,
                program=program,
                replaces=memory.supersedes,
                archival=archived.get(memory.id),
            )
            views.append(view)
        return views


async def _find_memory(store: Store, id: str) -> Memory:
    memories = await store.memories(ids=[id], limit=1)
    if not memories:
        raise UnknownRecord("memory", id)
    return memories[0]


def _common_filters(query: MemoriesQuery | RemoveMemoriesQuery) -> MemoryFilters:
    """Return the filters that lists and removals of memories share."""
    return {
        "user_prefix": query.user_prefix,
        "prefix": query.prefix,
        "types": (query.type,) if query.type else (),
        "metadata": _read_metadata(query.metadata),
        "pinned": query.pinned,
        "archived": query.archived,
        "state": query.state,
    }


async def find_memories(
    store: Store, query: MemoriesQuery, history: MemoryHistory | None = None
) -> tuple[list[Memory], str | None]:
    """Return a page of memories and the cursor of the next page. Those that were true at a time need the history."""
    owners = (query.persona, query.user, query.room)
    scopes = memory_scopes(*owners) if any(owner is not None for owner in owners) else None
    filters: MemoryFilters = {"scopes": scopes, **_common_filters(query)}
    words = query.q.casefold().split()
    matches: list[Memory] = []
    at, after = parse_memory_cursor(query.before, "before")
    if query.as_of is not None:
        filters["archived"] = None  # what is archived now was true then
        at = nextafter(query.as_of, inf) if at is None else at
    scans = bool(words) or query.as_of is not None
    for _ in range(max(1, MAX_SCANNED // _PAGE_SIZE) if scans else 1):
        size = _PAGE_SIZE if scans else query.limit
        page = await store.memories(before=at, after=after, limit=size, **filters)
        found = [memory for memory in page if all(word in memory.content.casefold() for word in words)]
        if query.as_of is not None and history is not None:
            found = await history.select_valid(found, query.as_of)
        matches += found[: query.limit - len(matches)]
        if len(matches) == query.limit:
            return matches, memory_cursor(matches[-1])
        if len(page) < size:
            return matches, None
        at, after = page[-1].at, page[-1].id
    return matches, memory_cursor(page[-1])


def _read_metadata(text: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if text else None
    except msgspec.DecodeError as error:
        raise ApiError("invalid", f"metadata: must be a JSON object: {error}", param="metadata") from None


def make_lorebooks(tenants: Tenants, tokens: ContentCounter, cache: ContextCache) -> RecordEndpoints[Lorebook]:
    async def views(store: Store, records: Sequence[Lorebook], model: str | None) -> list[LorebookView]:
        entries = await store.lore([book.id for book in records]) if records else []
        counts = await tokens.of(store, [entry.content for entry in entries], model)
        many = Counter(entry.lorebook for entry in entries)
        whole = Counter[str]()
        for entry, count in zip(entries, counts, strict=True):
            whole[entry.lorebook] += count
        return [to_view(LorebookView, book, entries=many[book.id], tokens=whole[book.id]) for book in records]

    def make_list(records: tuple[LorebookView, ...], after: str | None) -> LorebookList:
        return LorebookList(lorebooks=records, next=after)

    return RecordEndpoints(Lorebook, views, make_list, tenants=tenants, cache=cache)


class LoreEntries:
    """Endpoints for lorebook entries."""

    def __init__(self, tenants: Tenants, tokens: ContentCounter) -> None:
        self._tenants = tenants
        self._views = _counted_views(EntryView, attrgetter("content"), tokens)

    async def list_page(self, call: Call) -> EntryList:
        """List all entries of a lorebook in order."""
        store, book = self._tenants.store(call.tenant), call.name()
        await store.require(Lorebook, book)
        entries = await store.lore([book])
        return EntryList(entries=tuple(await self._views(store, entries, call.query.model)))

    async def create(self, call: Call) -> EntryView:
        """Create an entry; reject an existing id."""
        engine, book = await self._tenants.engine(call.tenant), call.name()
        fields = body_fields(call.body, id="lore")
        await engine.store.require(Lorebook, book)
        if "content" not in fields:
            raise ApiError("invalid", "content: required", param="content")
        entry = LoreEntry(lorebook=book, **fields)
        if await engine.store.lore(ids=[entry.id]):
            raise id_conflict("entry", entry.id)
        await engine.write_lore([entry])
        return (await self._views(engine.store, [entry], call.query.model))[0]

    async def change(self, call: Call) -> EntryView:
        engine = await self._tenants.engine(call.tenant)
        entry = with_changes(await _find_entry(engine.store, call), body_fields(call.body))
        await engine.write_lore([entry])
        return (await self._views(engine.store, [entry], call.query.model))[0]

    async def remove(self, call: Call) -> Removed:
        store = self._tenants.store(call.tenant)
        entry = await _find_entry(store, call)
        await store.remove_lore(entry.id)
        return Removed(id=entry.id)


async def _find_entry(store: Store, call: Call) -> LoreEntry:
    """Return the entry named in the path if it belongs to the lorebook."""
    book, id = call.name(), call.name("entry")
    entries = [entry for entry in await store.lore(ids=[id]) if entry.lorebook == book]
    if not entries:
        raise UnknownRecord("entry", id)
    return entries[0]
