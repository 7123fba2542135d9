"""Collect the candidates for one context: load, retrieve, activate lore, package."""

import asyncio
from collections.abc import Iterator
from typing import Final

import msgspec

from brimful.core.content import ContentPackage, Media
from brimful.engine import candidates
from brimful.engine.counts import ensure_counts, prepare_tokenizer, reuse_hit_counts
from brimful.engine.history import PackageCache, RecentHistory, get_history_reach, load_history
from brimful.engine.lorebooks import LoreLibrary, get_message_number
from brimful.engine.options import Retrieval
from brimful.engine.personas import fill_memory_names, make_name_filler
from brimful.engine.plan import BuildPlan, CurrentMessage, require_last_turn
from brimful.lore import Activation, LoreIndex, activate
from brimful.packagers.package import media as package_media
from brimful.packagers.records import collect_notes, header_texts, package_header, package_notes, plain_text
from brimful.protocols import Store
from brimful.records import Content, Lorebook, LoreEntry, Memory, Message, Room, Summary, User
from brimful.retrieval.queries import make_queries
from brimful.retrieval.retriever import Retriever
from brimful.retrieval.search import Hit, SearchRequest, SearchResult, diversify, memory_scopes

RECENT_SPEAKERS: Final = 32  # the last messages, by whom a question may be answered
MAX_PINNED: Final = 200  # memories that are always offered
TOO_MANY_PINS: Final = f"more than {MAX_PINNED} memories are pinned: the newest are offered, the others must be found"
MAX_SUMMARIES: Final = 200  # the newest of a room: older ones cover what no window reaches


class BuildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller wants a context for. `user` is who asks; `begins`, with which message history began last time."""

    current: CurrentMessage
    user: User | None = None
    media: tuple[Media, ...] = ()
    focus: str = ""
    begins: str = ""
    now: float = 0.0


class BuildResult(msgspec.Struct, frozen=True, kw_only=True):
    """All candidates of a build, what it had to do without, and how many texts had to be tokenized for it."""

    packages: tuple[ContentPackage, ...]
    degraded: tuple[str, ...]
    tokenized: int
    cached: bool


class RoomKnowledge(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a room and its people before anything is searched."""

    scopes: tuple[str, ...]
    summaries: list[Summary]
    pinned: list[Memory]
    books: dict[str, Lorebook]
    rooms: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def titles(self) -> dict[str, str]:
        """What the books are called, by their ids."""
        return {book.id: book.name or book.id for book in self.books.values()}


class LoadedContent(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was read, before it is packaged."""

    known: RoomKnowledge
    recent: RecentHistory
    shelf: LoreIndex
    lore: Activation
    hits: list[Hit]

    def contents(self) -> Iterator[Content]:
        """Yield the content of whatever will be packaged beside history, which came with its counts."""
        yield from (memory.content for memory in self.known.pinned)
        yield from (told.text for told in self.lore.told)
        yield from (self.shelf.entries[held.entry].text for held in self.lore.held)
        yield from (summary.content for summary in self.known.summaries)
        yield from (plain_text(hit.record.content) for hit in self.hits)


class Builder:
    """Collects the candidates of a tenant's builds."""

    def __init__(self, store: Store, retriever: Retriever, settings: Retrieval) -> None:
        """Read from this store, and search with this retriever."""
        self._store = store
        self._retriever = retriever
        self._settings = settings
        self._packaged = PackageCache()
        self._library = LoreLibrary(store)

    async def build(self, plan: BuildPlan, asked: BuildRequest) -> BuildResult:
        """Collect everything that may go into the context; meanwhile, the tokenizer is made ready for it."""
        built, _ = await asyncio.gather(self._collected(plan, asked), prepare_tokenizer(plan.vocabulary))
        return built

    async def _collected(self, plan: BuildPlan, asked: BuildRequest) -> BuildResult:
        known = await self._known(plan, asked)
        recent = await load_history(
            self._store,
            plan.room.id,
            counter=plan.counter,
            vocabulary=plan.vocabulary,
            reach=get_history_reach(plan.policy, plan.budget),
            packaged=self._packaged,
            persona=plan.persona,
            summaries=known.summaries,
            asked=asked.current.posted,
            asker=asked.current.message is None,
        )
        retrieved = await self._retrieve(plan, asked, known, recent)
        shelf, lore = await self._activate(plan, asked, known, recent, retrieved)
        hits = candidates.filter_lore_hits(retrieved.hits, lore)
        loaded = LoadedContent(known=known, recent=recent, shelf=shelf, lore=lore, hits=hits)
        await reuse_hit_counts(plan.vocabulary, retrieved.hits)
        heads = header_texts(plan.persona, plan.room, asked.user).values()
        notes = (note.text for note in collect_notes(plan.persona, plan.room, asked.user).values())
        tokenized = await ensure_counts(self._store, plan.vocabulary, [*loaded.contents(), *heads, *notes])
        packages = await asyncio.to_thread(_make_packages, plan, asked, loaded)
        return BuildResult(
            packages=tuple(packages),
            degraded=(*known.notes, *retrieved.degraded, *lore.notes),
            tokenized=tokenized + recent.counted,
            cached=retrieved.cached,
        )

    async def _known(self, plan: BuildPlan, asked: BuildRequest) -> RoomKnowledge:
        user = asked.user.id if asked.user else None
        scopes = memory_scopes(plan.persona.id if plan.persona else None, user, plan.room.id)
        summaries, pinned, books, rooms = await asyncio.gather(
            self._store.summaries(plan.room.id),
            self._store.memories(scopes=scopes, pinned=True, limit=MAX_PINNED + 1),
            self._library.books(plan.room, plan.persona, asked.user),
            self._other_rooms(plan.room, user),
        )
        fill = make_name_filler(plan.persona, asked.user)
        return RoomKnowledge(
            scopes=scopes,
            summaries=summaries[:MAX_SUMMARIES],
            pinned=[fill_memory_names(memory, fill) for memory in pinned[:MAX_PINNED]],
            books=books,
            rooms=rooms,
            notes=(TOO_MANY_PINS,) if len(pinned) > MAX_PINNED else (),
        )

    async def _activate(
        self, plan: BuildPlan, asked: BuildRequest, known: RoomKnowledge, recent: RecentHistory, retrieved: SearchResult
    ) -> tuple[LoreIndex, Activation]:
        """Find out which lore is told, from what was said and from what retrieval found."""
        user = asked.user.id if asked.user else None
        shelf = await self._library.shelf(known.books, plan.persona, user, now=asked.now)
        if not shelf.entries:
            return shelf, Activation()
        turns = await self._library.turns(shelf, plan.room.id, asked.current, recent.messages, plan.persona)
        lore = await asyncio.to_thread(
            activate,
            shelf,
            turns,
            seed=plan.room.id,
            tokens=candidates.make_lore_cost(shelf, known.titles, counter=plan.counter),
            who=await self._library.who(plan.persona, user, shelf.sources),
            found={hit.record.id: hit.relevance for hit in retrieved.hits if isinstance(hit.record, LoreEntry)},
        )
        return shelf, lore

    async def _other_rooms(self, room: Room, user: str | None) -> tuple[str, ...]:
        if not self._settings.other_rooms or user is None:
            return ()
        rooms = await self._store.rooms_of(user, limit=self._settings.other_rooms + 1)
        return tuple(each.id for each in rooms if each.id != room.id)[: self._settings.other_rooms]

    async def _retrieve(
        self, plan: BuildPlan, asked: BuildRequest, known: RoomKnowledge, recent: RecentHistory
    ) -> SearchResult:
        limit = plan.finds(self._settings.most)
        if not limit:
            return SearchResult()
        question = _get_question(asked.current, recent)
        questions = make_queries(
            question.text,
            asker=question.sender,
            goal=plan.room.goal,
            recent=recent.messages[:RECENT_SPEAKERS],
            focus=asked.focus,
        )
        wanted = SearchRequest(
            room=plan.room.id,
            before=recent.searched_to(asked.begins),
            other_rooms=known.rooms,
            memories=known.scopes,
            types=tuple(self._settings.types),
            lorebooks=tuple(known.books),
            limit=limit,
            least_relevance=self._settings.least_relevance,
            half_life=self._settings.half_life,
            tokenizer=plan.vocabulary or "",
        )
        return await self._retriever.retrieve(questions, wanted, now=asked.now)


def _make_packages(plan: BuildPlan, asked: BuildRequest, loaded: LoadedContent) -> list[ContentPackage]:
    counter, known, recent = plan.counter, loaded.known, loaded.recent
    history = recent.packages if asked.current.message else require_last_turn(recent.packages)
    packages = [
        *package_header(plan.persona, plan.room, counter=counter, user=asked.user, available=plan.budget.available),
        *candidates.package_pinned(known.pinned, counter=counter),
        *candidates.package_lore(loaded.lore.told, known.titles, counter=counter),
        *candidates.package_excluded_lore(loaded.lore.held, loaded.shelf, known.titles, counter=counter),
        *candidates.package_summaries(
            candidates.filter_summaries(known.summaries, recent.sure, recent.parted), counter=counter
        ),
        *history,
        *package_notes(
            collect_notes(plan.persona, plan.room, asked.user), _turn_number(asked, recent), counter=counter
        ),
        *asked.current.packages(counter),
        *(package_media(part, counter=counter) for part in asked.media),
    ]
    told = max((message.seq for message in recent.messages), default=0)
    others = [hit for hit in loaded.hits if not _is_current_or_later(hit, asked, told)]
    hits = candidates.limit_hits(others, counter=counter, tokens=plan.tokens_for_finds)
    packages += candidates.package_hits(
        diversify(hits), counter=counter, room=plan.room.id, books=known.titles, others=packages
    )
    return candidates.make_ids_unique(packages)


def _get_question(current: CurrentMessage, recent: RecentHistory) -> CurrentMessage:
    """Return what is asked: while an agent takes steps, it is still what a person said last."""
    if current.message is not None:
        return current
    return CurrentMessage(message=next((message for message in recent.messages if message.role == "user"), None))


def _turn_number(asked: BuildRequest, recent: RecentHistory) -> int:
    """Return the how manyth turn of the room is built: two messages, one of each side, are a turn."""
    return (get_message_number(asked.current, recent.messages) + 1) // 2


def _is_current_or_later(hit: Hit, asked: BuildRequest, told: int) -> bool:
    """Say whether a search for a question has found the question, or what was said after it and after all that is told.

    A question that is asked again finds its own answer, of course.
    """
    posted = asked.current.posted
    if posted is None or not isinstance(hit.record, Message) or hit.record.room != posted.room:
        return False
    return hit.record.id == posted.id or hit.record.seq > max(posted.seq, told)
