"""Search over everything that a tenant's store holds, and for what a context left out."""

from collections.abc import Iterable
from typing import Final, Literal

from brimful.core.context import Context
from brimful.core.decision import Outcome
from brimful.engine import Engine
from brimful.engine.absence import find_absence
from brimful.packagers.records import plain_text, record_id
from brimful.records import Lorebook, LoreEntry, Message, Persona, Room, Snapshot
from brimful.records.search import CountedMessage
from brimful.server.inspector.context_cache import ContextCache
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import FindQuery, MemoriesQuery, SearchQuery
from brimful.server.inspector.records import find_memories
from brimful.server.inspector.views import View, content_text, load_names, make_excerpt, packages_by_id
from brimful.server.tenants import Tenants
from brimful.stores import Store
from brimful.threads import run_in_thread

MAX_ROOMS: Final = 200  # whose messages are searched: rooms of the newest contexts first, then by id
_MAX_LISTED: Final = 1_000  # personas and lorebooks
_MAX_BUILDS: Final = 500
_MAX_SCANNED: Final = 20_000  # messages, about a second of CPU time; only whole words are found in the others
_PAGE_SIZE: Final = 1_000  # messages
_MAX_FOUND: Final = 100  # memories, and messages

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
    """Hits, grouped by kind, best or newest first. `partial` says that not all rooms were searched."""

    hits: tuple[Hit, ...]
    partial: bool


class Match(View, frozen=True, kw_only=True):
    """A candidate of a context, or a record that was not one: `outcome` is null then, and `why` says the reason."""

    id: str
    kind: str
    excerpt: str
    at: float
    outcome: Outcome | None
    reason: str
    why: str = ""


class FindView(View, frozen=True, kw_only=True):
    """What matches: what was left out, what was not a candidate, and what was included, in this order.

    All words must occur, also as parts of longer words. `partial` says that there may be more matches: the store is so
    large that some messages were searched for whole words only, or not at all.
    """

    matches: tuple[Match, ...]
    partial: bool


class Search:
    """The endpoints that search everything, and for what a context left out."""

    def __init__(self, tenants: Tenants, cache: ContextCache) -> None:
        self._tenants = tenants
        self._cache = cache

    async def find(self, call: Call) -> FindView:
        """Search the candidates of a context, and all memories, messages and lore that were not candidates."""
        query: FindQuery = call.query
        engine = await self._tenants.engine(call.tenant)
        snapshot = await self._cache.snapshot(engine.store, call.name())
        words, limit = query.q.casefold().split(), query.limit
        included, left_out = await run_in_thread(_find_candidates, snapshot.context, words)
        rooms = await _choose_rooms(engine.store, await engine.store.list_records(Room, limit=_MAX_LISTED))
        searched = list(dict.fromkeys([snapshot.room, *rooms]))
        absent, complete = await find_absent(engine, snapshot, query, searched[:MAX_ROOMS])
        groups = (left_out, absent, included)
        return FindView(
            matches=tuple(each for group in groups for each in group[:limit]),
            partial=not complete or len(searched) > MAX_ROOMS or any(len(group) > limit for group in groups),
        )

    async def show(self, call: Call) -> SearchView:
        """Search messages by words and meaning, and everything else for words that must all occur."""
        query: SearchQuery = call.query
        engine = await self._tenants.engine(call.tenant)
        store, words, limit = engine.store, query.q.casefold().split(), query.limit
        rooms = await store.list_records(Room, limit=_MAX_LISTED)
        searched = await _choose_rooms(store, rooms)
        messages = await _find_messages(engine, query.q, searched[:MAX_ROOMS], limit)
        personas = await store.list_records(Persona, limit=_MAX_LISTED)
        hits = [
            *await _find_contexts(store, query.q, messages, limit),
            *(_message_hit(each) for each in messages),
            *await _find_memories(store, query.q, limit),
            *(_lore_hit(each) for each in (await _find_lore(store, words))[:limit]),
            *_named_hits("room", [(each.id, each.name, each.goal) for each in rooms], words, limit),
            *_named_hits("persona", [(each.id, each.name, each.prompt) for each in personas], words, limit),
        ]
        return SearchView(hits=tuple(hits), partial=len(searched) > MAX_ROOMS)


def _find_candidates(context: Context, words: list[str]) -> tuple[list[Match], list[Match]]:
    """Return the candidates that contain all words: those that are included, and the others without duplicates."""
    packages = packages_by_id(context)
    groups: tuple[list[Match], list[Match]] = ([], [])
    for decision in context.decisions:
        package = packages[decision.id]
        text = content_text(package.content)
        if decision.outcome != "duplicate" and _contains(words, decision.id, text):
            item = Match(
                id=decision.id,
                kind=decision.kind,
                excerpt=make_excerpt(text),
                at=package.timestamp,
                outcome=decision.outcome,
                reason=decision.reason,
            )
            groups[not decision.included].append(item)
    return groups


async def find_absent(
    engine: Engine, snapshot: Snapshot, query: FindQuery, rooms: list[str], *, max_scanned: int = _MAX_SCANNED
) -> tuple[list[Match], bool]:
    """Return records that contain all words and were not candidates, and whether everything was searched.

    Answers to the context are left out.
    """
    store, limit, words = engine.store, query.limit, query.q.casefold().split()
    known = {record_id(decision.id) for decision in snapshot.context.decisions}
    known |= {answer.message for answer in await store.responses(context=snapshot.id) if answer.message}
    pages = [
        await find_memories(store, MemoriesQuery(q=query.q, archived=archived, limit=_MAX_FOUND))
        for archived in (False, True)
    ]
    memories = [memory for page, _ in pages for memory in page]
    messages, complete = await _scan_messages(store, words, rooms, max_scanned)
    if not complete:
        hits = (await engine.search(query.q, room=rooms[0], other_rooms=rooms[1:], limit=_MAX_FOUND)).hits
        found = (hit.record for hit in hits if isinstance(hit.record, Message))
        messages += [message for message in found if _contains(words, plain_text(message.content))]
    lore = await _find_lore(store, words)
    ids = dict.fromkeys([query.q.strip(), *(record.id for record in (*memories, *messages, *lore))])
    matches = []
    for id in ids:
        absence = None if id in known else await find_absence(store, snapshot, id)
        if absence is not None:
            matches.append(
                Match(
                    id=id,
                    kind=absence.kind,
                    excerpt=make_excerpt(absence.text),
                    at=absence.at,
                    outcome=None,
                    reason=absence.reason,
                    why=absence.why,
                )
            )
        if len(matches) > limit:
            break
    return matches, complete and all(cursor is None for _, cursor in pages)


async def _scan_messages(
    store: Store, words: list[str], rooms: Iterable[str], max_scanned: int
) -> tuple[list[Message], bool]:
    """Return the newest messages of rooms that contain all words, and whether all messages were read."""
    found: list[Message] = []
    scanned = 0
    for room in rooms:
        page: list[CountedMessage] | None = None
        while page is None or len(page) == _PAGE_SIZE:
            if scanned >= max_scanned or len(found) >= _MAX_FOUND:
                return found, False
            before = None if page is None else page[-1].message.seq
            page = await store.history(room, before=before, limit=_PAGE_SIZE, include_archived=True)
            scanned += len(page)
            found += [each.message for each in page if _contains(words, plain_text(each.message.content))]
    return found, True


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
    """Return the context with this id, and contexts of a message with this id: built for it, or answered by it."""
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


async def _find_lore(store: Store, words: list[str]) -> list[LoreEntry]:
    books = await store.list_records(Lorebook, limit=_MAX_LISTED)
    entries = await store.lore([book.id for book in books]) if books else []
    return [each for each in entries if _contains(words, each.id, each.name, *each.keys, each.content)]


def _lore_hit(entry: LoreEntry) -> Hit:
    excerpt = make_excerpt(entry.content)
    return Hit(kind="lore", id=entry.id, title=entry.name or entry.id, excerpt=excerpt, parent=entry.lorebook)


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
