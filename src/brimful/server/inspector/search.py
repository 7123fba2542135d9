"""Search over everything that a tenant's store holds."""

from collections.abc import Iterable
from typing import Final, Literal

from brimful.engine import Engine
from brimful.packagers.records import plain_text
from brimful.records import Lorebook, Message, Persona, Room
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import MemoriesQuery, SearchQuery
from brimful.server.inspector.records import find_memories
from brimful.server.inspector.views import View, load_names, make_excerpt
from brimful.server.tenants import Tenants
from brimful.stores import Store

MAX_ROOMS: Final = 200  # whose messages are searched: those of the newest contexts, then by id
_MAX_LISTED: Final = 1_000  # personas and lorebooks
_MAX_BUILDS: Final = 500

HitKind = Literal["context", "message", "memory", "lore", "room", "persona"]


class Hit(View, frozen=True, kw_only=True):
    """Something that matches. `parent` is the room of a message, or the lorebook of an entry."""

    kind: HitKind
    id: str
    title: str
    excerpt: str
    parent: str = ""
    at: float = 0.0


class SearchView(View, frozen=True, kw_only=True):
    """Hits, those of each kind together, best or newest first. `partial` says that not all rooms were searched."""

    hits: tuple[Hit, ...]
    partial: bool


class Search:
    """The endpoint that searches everything."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants

    async def show(self, call: Call) -> SearchView:
        """Search messages by words and meaning, and everything else for words that must all occur."""
        query: SearchQuery = call.query
        engine = await self._tenants.engine(call.tenant)
        store, words, limit = engine.store, query.q.casefold().split(), query.limit
        rooms = await store.list_records(Room, limit=_MAX_LISTED)
        searched = await _choose_rooms(store, rooms)
        messages = await _find_messages(engine, query.q, searched[:MAX_ROOMS], limit)
        hits = [
            *await _find_contexts(store, query.q, messages, limit),
            *(_message_hit(each) for each in messages),
            *await _find_memories(store, query.q, limit),
            *await _find_lore(store, words, limit),
            *_named_hits("room", [(each.id, each.name, each.goal) for each in rooms], words, limit),
            *await _find_personas(store, words, limit),
        ]
        return SearchView(hits=tuple(hits), partial=len(searched) > MAX_ROOMS)


async def _choose_rooms(store: Store, rooms: Iterable[Room]) -> list[str]:
    """Return the rooms to search, those with the newest contexts first."""
    builds = await store.builds(limit=_MAX_BUILDS)
    return list(dict.fromkeys([*(build.room for build in builds), *(room.id for room in rooms)]))


async def _find_messages(engine: Engine, text: str, rooms: list[str], limit: int) -> list[Message]:
    if not rooms:
        return []
    found = await engine.search(text, room=rooms[0], other_rooms=rooms[1:], limit=limit)
    return [hit.record for hit in found.hits if isinstance(hit.record, Message)][:limit]


async def _find_contexts(store: Store, id: str, messages: list[Message], limit: int) -> list[Hit]:
    """Return the context with this id, and those of messages: built for a question, or answered."""
    texts = {id.strip(): ""}
    for message in messages[:limit]:
        for context in await store.contexts_of(message.id, limit=1):
            texts.setdefault(context, plain_text(message.content))
    builds = [build for context in list(texts)[:limit] if (build := await store.build(context)) is not None]
    names = await load_names(store, builds)
    return [
        Hit(
            kind="context",
            id=build.id,
            title=f"{names.persona(build.persona) or build.model} in {names.room(build.room) or build.room}",
            excerpt=make_excerpt(texts[build.id]),
            parent=build.room,
            at=build.at,
        )
        for build in builds
    ]


def _message_hit(message: Message) -> Hit:
    return Hit(
        kind="message",
        id=message.id,
        title=message.sender or message.role,
        excerpt=make_excerpt(plain_text(message.content)),
        parent=message.room,
        at=message.at,
    )


async def _find_memories(store: Store, text: str, limit: int) -> list[Hit]:
    exact = await store.memories(ids=[text.strip()], limit=1)
    found, _ = await find_memories(store, MemoriesQuery(q=text, limit=limit))
    return [
        Hit(kind="memory", id=each.id, title=each.id, excerpt=make_excerpt(each.content), at=each.at)
        for each in [*exact, *found][:limit]
    ]


async def _find_lore(store: Store, words: list[str], limit: int) -> list[Hit]:
    books = await store.list_records(Lorebook, limit=_MAX_LISTED)
    entries = await store.lore([book.id for book in books]) if books else []
    hits = [
        Hit(
            kind="lore",
            id=each.id,
            title=each.name or each.id,
            excerpt=make_excerpt(each.content),
            parent=each.lorebook,
        )
        for each in entries
        if _contains(words, each.id, each.name, *each.keys, each.content)
    ]
    return hits[:limit]


async def _find_personas(store: Store, words: list[str], limit: int) -> list[Hit]:
    personas = await store.list_records(Persona, limit=_MAX_LISTED)
    return _named_hits("persona", [(each.id, each.name, each.prompt) for each in personas], words, limit)


def _named_hits(kind: HitKind, records: Iterable[tuple[str, str, str]], words: list[str], limit: int) -> list[Hit]:
    hits = [
        Hit(kind=kind, id=id, title=name or id, excerpt=make_excerpt(text))
        for id, name, text in records
        if _contains(words, id, name, text)
    ]
    return hits[:limit]


def _contains(words: Iterable[str], *texts: str) -> bool:
    text = "\n".join(texts).casefold()
    return all(word in text for word in words)
