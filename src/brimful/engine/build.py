"""One build: load, retrieve, package. What comes out is all that the pure stages need."""

import asyncio
from collections.abc import Iterator
from typing import Final

import msgspec

from brimful.core.content import ContentPackage, Media
from brimful.engine import candidates
from brimful.engine.counts import know, know_found, ready
from brimful.engine.current import Current, answered
from brimful.engine.history import Packaged, Recent, load_recent, reach_of
from brimful.engine.introduction import named_memory, names_of
from brimful.engine.lore import Library, number_of
from brimful.engine.plan import Plan
from brimful.engine.settings import Retrieval
from brimful.lore import Activation, Shelf, activate
from brimful.packagers.media import media as package_media
from brimful.packagers.stored import head_of, headed, noted, notes_of, plain_text
from brimful.protocols import Store
from brimful.records import Content, Lorebook, LoreEntry, Memory, Message, Room, Summary, User
from brimful.retrieval.queries import queries
from brimful.retrieval.retriever import Retriever
from brimful.retrieval.spread import spread
from brimful.retrieval.wanted import Hit, Retrieved, Wanted, memory_scopes

SPEAKERS_AMONG: Final = 32  # the last messages, by whom a question may be answered
PINNED_MOST: Final = 200  # memories that are always offered
TOO_MANY_PINS: Final = f"more than {PINNED_MOST} memories are pinned: the newest are offered, the others must be found"
SUMMARIES_MOST: Final = 200  # the newest of a room: older ones cover what no window reaches


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller wants a context for. `user` is who asks; `begins`, with which message history began last time."""

    current: Current
    user: User | None = None
    media: tuple[Media, ...] = ()
    focus: str = ""
    begins: str = ""
    now: float = 0.0


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """All candidates of a build, what it had to do without, and how many texts had to be tokenized for it."""

    packages: tuple[ContentPackage, ...]
    degraded: tuple[str, ...]
    tokenized: int
    cached: bool


class Known(msgspec.Struct, frozen=True, kw_only=True):
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


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was read, before it is packaged."""

    known: Known
    recent: Recent
    shelf: Shelf
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
        self._packaged = Packaged()
        self._library = Library(store)

    async def build(self, plan: Plan, asked: Asked) -> Built:
        """Collect everything that may go into the context; meanwhile, the tokenizer is made ready for it."""
        built, _ = await asyncio.gather(self._collected(plan, asked), ready(plan.vocabulary))
        return built

    async def _collected(self, plan: Plan, asked: Asked) -> Built:
        known = await self._known(plan, asked)
        recent = await load_recent(
            self._store,
            plan.room.id,
            counter=plan.counter,
            vocabulary=plan.vocabulary,
            reach=reach_of(plan.policy, plan.budget),
            packaged=self._packaged,
            persona=plan.persona,
            summaries=known.summaries,
            asked=asked.current.posted,
            asker=asked.current.message is None,
        )
        retrieved = await self._retrieve(plan, asked, known, recent)
        shelf, lore = await self._activate(plan, asked, known, recent, retrieved)
        hits = candidates.found_lore(retrieved.hits, lore)
        loaded = Loaded(known=known, recent=recent, shelf=shelf, lore=lore, hits=hits)
        await know_found(plan.vocabulary, retrieved.hits)
        heads = head_of(plan.persona, plan.room, asked.user).values()
        notes = (note.text for note in notes_of(plan.persona, plan.room, asked.user).values())
        tokenized = await know(self._store, plan.vocabulary, [*loaded.contents(), *heads, *notes])
        packages = await asyncio.to_thread(_packaged, plan, asked, loaded)
        return Built(
            packages=tuple(packages),
            degraded=(*known.notes, *retrieved.degraded, *lore.notes),
            tokenized=tokenized + recent.counted,
            cached=retrieved.cached,
        )

    async def _known(self, plan: Plan, asked: Asked) -> Known:
        user = asked.user.id if asked.user else None
        scopes = memory_scopes(plan.persona.id if plan.persona else None, user, plan.room.id)
        summaries, pinned, books, rooms = await asyncio.gather(
            self._store.summaries(plan.room.id),
            self._store.memories(scopes=scopes, pinned=True, limit=PINNED_MOST + 1),
            self._library.books(plan.room, plan.persona, asked.user),
            self._other_rooms(plan.room, user),
        )
        fill = names_of(plan.persona, asked.user)
        return Known(
            scopes=scopes,
            summaries=summaries[:SUMMARIES_MOST],
            pinned=[named_memory(memory, fill) for memory in pinned[:PINNED_MOST]],
            books=books,
            rooms=rooms,
            notes=(TOO_MANY_PINS,) if len(pinned) > PINNED_MOST else (),
        )

    async def _activate(
        self, plan: Plan, asked: Asked, known: Known, recent: Recent, retrieved: Retrieved
    ) -> tuple[Shelf, Activation]:
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
            tokens=candidates.lore_cost(shelf, known.titles, counter=plan.counter),
            who=await self._library.who(plan.persona, user, shelf.sources),
            found={hit.record.id: hit.relevance for hit in retrieved.hits if isinstance(hit.record, LoreEntry)},
        )
        return shelf, lore

    async def _other_rooms(self, room: Room, user: str | None) -> tuple[str, ...]:
        if not self._settings.other_rooms or user is None:
            return ()
        rooms = await self._store.rooms_of(user, limit=self._settings.other_rooms + 1)
        return tuple(each.id for each in rooms if each.id != room.id)[: self._settings.other_rooms]

    async def _retrieve(self, plan: Plan, asked: Asked, known: Known, recent: Recent) -> Retrieved:
        limit = plan.finds(self._settings.most)
        if not limit:
            return Retrieved()
        question = _question(asked.current, recent)
        questions = queries(
            question.text,
            asker=question.sender,
            goal=plan.room.goal,
            recent=recent.messages[:SPEAKERS_AMONG],
            focus=asked.focus,
        )
        wanted = Wanted(
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


def _packaged(plan: Plan, asked: Asked, loaded: Loaded) -> list[ContentPackage]:
    counter, known, recent = plan.counter, loaded.known, loaded.recent
    history = recent.packages if asked.current.message else answered(recent.packages)
    packages = [
        *headed(plan.persona, plan.room, counter=counter, user=asked.user, available=plan.budget.available),
        *candidates.pinned_memories(known.pinned, counter=counter),
        *candidates.lore(loaded.lore.told, known.titles, counter=counter),
        *candidates.held_lore(loaded.lore.held, loaded.shelf, known.titles, counter=counter),
        *candidates.summaries_of(
            candidates.worth_telling(known.summaries, recent.sure, recent.parted), counter=counter
        ),
        *history,
        *noted(notes_of(plan.persona, plan.room, asked.user), _turn(asked, recent), counter=counter),
        *asked.current.packages(counter),
        *(package_media(part, counter=counter) for part in asked.media),
    ]
    told = max((message.seq for message in recent.messages), default=0)
    others = [hit for hit in loaded.hits if not _is_asked(hit, asked, told)]
    hits = candidates.enough(others, counter=counter, tokens=plan.tokens_for_finds)
    packages += candidates.found(spread(hits), counter=counter, room=plan.room.id, books=known.titles, others=packages)
    return candidates.distinct(packages)


def _question(current: Current, recent: Recent) -> Current:
    """Return what is asked: while an agent takes steps, it is still what a person said last."""
    if current.message is not None:
        return current
    return Current(message=next((message for message in recent.messages if message.role == "user"), None))


def _turn(asked: Asked, recent: Recent) -> int:
    """Return the how manyth turn of the room is built: two messages, one of each side, are a turn."""
    return (number_of(asked.current, recent.messages) + 1) // 2


def _is_asked(hit: Hit, asked: Asked, told: int) -> bool:
    """Say whether a search for a question has found the question, or what was said after it and after all that is told.

    A question that is asked again finds its own answer, of course.
    """
    posted = asked.current.posted
    if posted is None or not isinstance(hit.record, Message) or hit.record.room != posted.room:
        return False
    return hit.record.id == posted.id or hit.record.seq > max(posted.seq, told)
