"""Build a context: load, retrieve, activate lore, package, assemble, save.

`Builder.assemble` shows the steps in order. `CandidateCollector` does the reading.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from brimful.assembly.arguments import resolve_model, resolve_previous
from brimful.assembly.assemble import assemble
from brimful.assembly.brief import Brief, make_brief
from brimful.core.content import ContentPackage
from brimful.core.context import Context, Unread
from brimful.core.cost import region_of
from brimful.core.model import ModelInfo
from brimful.core.notice import Notice
from brimful.core.policy import MediaRules, Policy, with_searched_history
from brimful.core.selection import RetrievedItem
from brimful.core.validation import preview
from brimful.engine import candidates
from brimful.engine.calibration import Calibrator
from brimful.engine.counts import UsedTokenizers, ensure_counts, prepare_tokenizer, reuse_hit_counts
from brimful.engine.ephemeral import EphemeralSummaries
from brimful.engine.events import Emitter, get_build_facts, log_build
from brimful.engine.history import PackageCache, RecentHistory, get_history_reach, load_history
from brimful.engine.lorebooks import LoreLibrary, get_message_number
from brimful.engine.mentions import find_addressees
from brimful.engine.options import BuildRequest, EngineSettings, read_retrieval
from brimful.engine.personas import (
    JANITOR_PERSONA,
    apply_room_character,
    apply_system_prompt,
    as_seen_by,
    fill_memory_names,
    fill_note_names,
    fill_persona_names,
    make_name_filler,
)
from brimful.engine.plan import BuildPlan, CurrentMessage, make_current, make_plan, require_last_turn, split_answers
from brimful.engine.prompt_cache import PrefixTracker, make_conversation
from brimful.engine.room_totals import count_room, find_unread
from brimful.errors import InvalidValue
from brimful.lore import Activation, LoreIndex, activate
from brimful.packagers.package import media as package_media
from brimful.packagers.records import (
    JANITOR,
    collect_notes,
    header_texts,
    package_header,
    package_notes,
    plain_text,
    record_id,
)
from brimful.records import Content, Lorebook, LoreEntry, Memory, Message, Persona, Room, Snapshot, Summary, User
from brimful.records.search import CountedMessage
from brimful.retrieval.breaker import Breaker
from brimful.retrieval.queries import make_queries
from brimful.retrieval.retriever import Retriever
from brimful.retrieval.search import Hit, SearchRequest, SearchResult, diversify, memory_scopes
from brimful.stores import Store
from brimful.stores.tables.room_counts import RoomCounts, Sum
from brimful.threads import run_in_thread

RECENT_SPEAKERS: Final = 32  # messages; their speakers may be the ones to answer
MAX_PINNED: Final = 200  # pinned memories in a context
TOO_MANY_PINS: Final = Notice(
    kind="too-many-pins",
    text=f"more than {MAX_PINNED} memories are pinned: only the newest are always included",
    facts={"limit": MAX_PINNED},
)
MAX_SUMMARIES: Final = 200  # per room, newest first; older ones cover messages that no window reaches
MANY_UNCOUNTED: Final = 100  # texts; a build that had to count as many leaves other rooms to a worker
_MAX_SUMMARY_ROUNDS: Final = 3  # usually one or two; summaries of nearly the same messages are about equally long
_LAST_MESSAGES: Final = 20  # searched for the last visible message of a room


class Participants(msgspec.Struct, frozen=True, kw_only=True):
    """The room, persona and user of a build, with names filled in; `notices` name records that are not in the store."""

    room: Room
    persona: Persona | None
    user: User | None
    notices: tuple[Notice, ...]


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates for a context, what degraded, how many texts had to be tokenized, and what was not loaded.

    `sums` are new ones of the room's messages, as of the `version` of its search scope.
    """

    packages: tuple[ContentPackage, ...]
    degraded: tuple[Notice, ...]
    tokenized: int
    cached: bool
    summaries: tuple[Summary, ...] = ()
    unread: Unread = Unread()
    sums: tuple[Sum, ...] = ()
    version: str = ""


Fill = Callable[[Sequence[ContentPackage], Sequence[Notice]], Awaitable[Context]]
"""Fills a window with packages. The notices go on the record."""


class Builder:
    """Builds contexts of one tenant."""

    def __init__(
        self,
        store: Store,
        retriever: Retriever,
        settings: EngineSettings,
        *,
        calibrator: Calibrator,
        tokenizers: UsedTokenizers,
        breaker: Breaker,
        events: Emitter,
        ephemeral: EphemeralSummaries,
    ) -> None:
        self._store = store
        self._ephemeral = ephemeral
        self._breaker = breaker
        self._settings = settings
        self._calibrator = calibrator
        self._tokenizers = tokenizers
        self._events = events
        self._collector = CandidateCollector(store, retriever)
        self._prefixes = PrefixTracker(store)

    async def assemble(self, request: BuildRequest) -> Context:
        """Build a context and save its record."""
        clock = self._settings.clock
        started, now = clock(), self._settings.resolve_time(request.now, "now")
        participants = await self._load_participants(request)
        room, persona = participants.room, participants.persona
        model = resolve_model(self.choose_model(request.model, persona), betas=request.betas)
        calibrated = await self._calibrator.calibrate(model, request.route, now=now)
        windows = [window for window in (request.window, calibrated.window) if window is not None]
        plan = make_plan(
            room,
            persona,
            model=calibrated.model,
            policy=request.policy or self._settings.find_policy(persona),
            overrides=request.overrides,
            tools=bool(request.tools),
            timezone=participants.user.timezone if participants.user else "",
            max_prompt_tokens=request.max_prompt_tokens,
            window=min(windows, default=None),
            completion=request.completion or (persona.completion if persona and not request.max_output else None),
            max_output=request.max_output,
        )
        self._tokenizers.add(plan.vocabulary)
        conversation = make_conversation(room.id, persona.id if persona else None, plan.policy, plan.budget)
        if request.reserve is not None:  # it may differ from one request to the next of the same conversation
            plan = plan.with_window(max(1, plan.budget.window - request.reserve))
        previous = resolve_previous(request.previous) or await self._prefixes.last(conversation)
        plan = msgspec.structs.replace(
            plan,
            current=await self._find_current(request, persona, now),
            steps=tuple(request.steps),
            user=participants.user,
            media=tuple(request.media),
            search_room=request.search_room,
            focus=request.focus or room.focus or (persona.focus if persona else ""),
            retrieval=self._settings.retrieval.with_overrides(read_retrieval(request.retrieval)),
            previous=previous,
            now=now,
        )
        loading = clock()
        collected = await self._collector.collect(plan)
        loaded = max(0.0, clock() - loading)
        collected = msgspec.structs.replace(collected, packages=(*collected.packages, *request.packages))
        if plan.current.message is None and not any(map(_is_conversation, collected.packages)):
            raise await self._nothing_to_answer(room.id)
        fill = partial(
            _fill,
            model=plan.model,
            policy=_choose_policy(plan, collected),
            now=now,
            previous=previous,
            tools=request.tools,
            window=plan.window,
            completion=plan.completion,
            max_output=plan.max_output,
            wire=request.wire,
            # JSON, since the names may contain any separator.
            origin=msgspec.json.encode([room.id, conversation.persona]).decode(),
            focus=plan.focus,
            unread=msgspec.structs.astuple(collected.unread),
            fields=request.fields,
        )
        notices = (*participants.notices, *request.notices, *calibrated.notices, *collected.degraded)
        context = await fill(collected.packages, notices)
        if plan.policy.ephemeral_summaries:
            context = await self._summarize_rest(plan, collected, context, fill)
        if request.save:
            if not plan.steps:  # the next request does not have them
                self._prefixes.keep(conversation, context.history)
            spent = (max(0.0, clock() - started), loaded)
            await self._save(plan, context, request.key, spent)
            if collected.sums:
                await self._store.save_room_counts(room.id, plan.room_counter.name, collected.version, collected.sums)
            if plan.vocabulary and collected.tokenized >= MANY_UNCOUNTED:
                await self._store.add_job("count", plan.vocabulary)
        seconds = clock() - started
        log_build(
            context,
            tenant=self._settings.tenant,
            room=room.id,
            persona=conversation.persona,
            cached=collected.cached,
            tokenized=collected.tokenized,
            seconds=seconds,
        )
        if self._events:
            await self._events.emit(
                "assembled",
                room.id,
                **get_build_facts(context, seconds=seconds),
                persona=conversation.persona,
                cached=collected.cached,
                tokenized=collected.tokenized,
                breaker=self._breaker.state(clock()),
            )
        return context

    async def brief(self, request: BuildRequest, budget: int) -> Brief:
        """Return what a helper needs for the message of a request, and save its context, so that it can be recalled."""
        participants = await self._load_participants(request)
        context = await self.assemble(request)
        brief = await run_in_thread(make_brief, context.inputs, budget)
        snapshot = Snapshot(
            id=brief.context.id,
            room=participants.room.id,
            persona=participants.persona.id if participants.persona else None,
            user=participants.user.id if participants.user else None,
            at=brief.context.inputs.now,
            context=brief.context,
        )
        await self._store.save_context(snapshot, share=self._settings.record_share)
        return brief

    async def _summarize_rest(self, plan: BuildPlan, collected: Candidates, context: Context, fill: Fill) -> Context:
        """Return the context with a summary of the messages that it leaves out, if no stored summary covers them.

        The summary takes room, too. If history begins later for it, it is written again, so that there is no gap.
        """
        notices = context.inputs.degraded
        messages = await self._ephemeral.find_messages(plan, context, collected.summaries)
        for _ in range(_MAX_SUMMARY_ROUNDS if messages else 0):
            written = await self._ephemeral.write(plan, messages)
            context = await fill([*collected.packages, written.package], [*notices, *written.notices])
            left_out = await self._ephemeral.find_messages(plan, context, collected.summaries)
            if not left_out or left_out[-1].seq <= messages[-1].seq:
                break
            messages = left_out
        return context

    def choose_model(self, model: str | ModelInfo | None, persona: Persona | None) -> ModelInfo:
        """Return the model of a call: its own, the persona's, or the engine's."""
        chosen = model or (persona.model if persona else "") or self._settings.model
        if not chosen:
            raise InvalidValue("model", "is not set: pass a model here, in the persona, or in Engine(model=…)")
        return resolve_model(chosen)

    async def _load_participants(self, request: BuildRequest) -> Participants:
        stored_room, persona, user = await self._store.participants(
            request.room, persona=request.persona, user=request.user
        )
        persona_id = request.persona
        if persona_id is None:
            found = await find_addressees(self._store, request.room, request.message, stored=stored_room)
            persona_id = found.personas[0]
            if persona_id != (stored_room.persona if stored_room else None):
                persona = None if persona_id is None else await self._store.get(Persona, persona_id)
        notices = []
        if persona_id == JANITOR and persona is None:
            persona = JANITOR_PERSONA
        if stored_room is None and persona_id != JANITOR:
            text = f"room {preview(request.room)} is not in the store, so it has no messages yet"
            notices.append(Notice(kind="unknown-room", text=text, facts={"room": request.room}))
        if persona_id is not None and persona is None:
            persona = Persona(id=persona_id)
            text = f"persona {preview(persona_id)} is not in the store, so it has no prompt"
            notices.append(Notice(kind="unknown-persona", text=text, facts={"persona": persona_id}))
        persona = persona and apply_room_character(persona, stored_room)
        room, persona = apply_system_prompt(stored_room or Room(id=request.room), persona, request.system)
        user_id = request.user or room.user
        user = user or (User(id=user_id) if user_id else None)
        fill = make_name_filler(persona, user)
        return Participants(
            room=fill_note_names(room, fill),
            persona=persona and fill_persona_names(persona, fill),
            user=user and fill_note_names(user, fill),
            notices=tuple(notices),
        )

    async def _find_current(self, request: BuildRequest, persona: Persona | None, now: float) -> CurrentMessage:
        """Return the message to answer: the one in the request, or the room's last if it is from a user."""
        message = request.message
        if message is None:
            newest = await self._store.history(request.room, limit=_LAST_MESSAGES)
            visible = as_seen_by([entry.message for entry in newest if not entry.message.hidden], persona)
            message = visible[0] if visible and visible[0].role == "user" else None
        return make_current(message, room=request.room, sender=request.sender, now=now, persona=persona)

    async def _nothing_to_answer(self, room: str) -> InvalidValue:
        what = "is empty" if await self._store.get(Room, room) else "does not exist"
        return InvalidValue("room", f"{preview(room)} {what} and no message was passed: there is nothing to answer")

    async def _save(self, plan: BuildPlan, context: Context, key: str | None, seconds: tuple[float, float]) -> None:
        """Save a context, with the seconds that building it took, and how many of them went into loading."""
        snapshot = Snapshot(
            id=context.id,
            room=plan.room.id,
            persona=plan.persona.id if plan.persona else None,
            user=plan.user.id if plan.user else None,
            key=key,
            at=plan.now,
            message=plan.current.id,
            context=context,
            build_seconds=seconds[0],
            search_seconds=seconds[1],
        )
        await self._store.save_context(snapshot, share=self._settings.record_share)


class RoomKnowledge(msgspec.Struct, frozen=True, kw_only=True):
    """What is read before searching: memory scopes, summaries, pinned memories, lorebooks and other rooms.

    `newest` are the room's newest messages, and `versions` those of all scopes to search.
    """

    scopes: tuple[str, ...]
    summaries: list[Summary]
    pinned: list[Memory]
    newest: list[CountedMessage]
    counts: RoomCounts
    books: dict[str, Lorebook]
    rooms: tuple[str, ...]
    versions: dict[str, str]
    notices: tuple[Notice, ...]

    @property
    def titles(self) -> dict[str, str]:
        """Names of the lorebooks, by id."""
        return {book.id: book.name or book.id for book in self.books.values()}


class LoadedContent(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was read, before it is packaged. In a tool loop, it `repeats` what was found for the question."""

    known: RoomKnowledge
    recent: RecentHistory
    lore_index: LoreIndex
    lore: Activation
    retrieved: tuple[Hit, ...]
    hits: list[Hit]
    memory_summaries: list[Memory]
    repeats: bool = False

    def contents(self) -> Iterator[Content]:
        """Yield all contents except those whose counts came with them: history, and most search hits."""
        yield from (memory.content for memory in self.known.pinned)
        yield from (entry.text for entry in self.lore.activated)
        yield from (self.lore_index.entries[exclusion.entry].text for exclusion in self.lore.excluded)
        yield from (summary.content for summary in self.known.summaries)
        yield from (memory.content for memory in self.memory_summaries)
        yield from (plain_text(hit.record.content) for hit in self.hits if hit.tokens is None)


class CandidateCollector:
    """Collects everything that may go into a context."""

    def __init__(self, store: Store, retriever: Retriever) -> None:
        self._store = store
        self._retriever = retriever
        self._packages = PackageCache()
        self._library = LoreLibrary(store)

    async def collect(self, plan: BuildPlan) -> Candidates:
        """Return the candidates for a context. The tokenizer is loaded meanwhile."""
        collected, _ = await asyncio.gather(self._collect(plan), prepare_tokenizer(plan.vocabulary))
        return collected

    async def _collect(self, plan: BuildPlan) -> Candidates:
        reach = get_history_reach(plan.policy, plan.budget, current=plan.current.message is not None)
        known = await self._load_knowledge(plan, self._packages.first_page(plan.room.id, reach))
        recent = await load_history(
            self._store,
            plan.room.id,
            counter=plan.counter,
            vocabulary=plan.vocabulary,
            reach=reach,
            cache=self._packages,
            newest=known.newest,
            persona=plan.persona,
            summaries=known.summaries,
            current=plan.current.posted,
            include_user=plan.current.message is None,
        )
        if plan.steps:
            plan, recent = await self._add_steps(plan, recent)
        question = _find_question(plan.current, recent)
        found = plan.retrieved_before(question.message)
        retrieved = await self._retrieve(plan, known, recent, question) if found is None else SearchResult()
        lore_index, lore = await self._activate_lore(plan, known, recent, retrieved)
        if found is not None:
            hits = await self._load_again(plan, known, lore_index, found)
        else:
            hits = candidates.filter_lore_hits(retrieved.hits, lore) if known.books else list(retrieved.hits)
        loaded = LoadedContent(
            known=known,
            recent=recent,
            lore_index=lore_index,
            lore=lore,
            retrieved=retrieved.hits,
            hits=hits,
            memory_summaries=await self._load_memory_summaries(known, hits),
            repeats=found is not None,
        )
        await reuse_hit_counts(plan.vocabulary, retrieved.hits)
        headers = header_texts(plan.persona, plan.room, plan.user).values()
        notes = (note.text for note in collect_notes(plan.persona, plan.room, plan.user).values())
        tokenized = await ensure_counts(self._store, plan.vocabulary, [*loaded.contents(), *headers, *notes])
        packages = await run_in_thread(_make_packages, plan, loaded)
        total = await count_room(self._store, known.counts, plan.room_counter)
        return Candidates(
            packages=tuple(packages),
            degraded=(*known.notices, *retrieved.degraded, *lore.notices),
            tokenized=tokenized + recent.counted + total.tokenized,
            cached=retrieved.cached,
            summaries=tuple(known.summaries),
            unread=find_unread(total, _find_candidates(plan, loaded, packages), recent.packages, plan.room_counter),
            sums=total.sums,
            version=known.versions.get(f"room:{plan.room.id}", ""),
        )

    async def _add_steps(self, plan: BuildPlan, recent: RecentHistory) -> tuple[BuildPlan, RecentHistory]:
        """Return history that ends with the current message and the steps after it, which are not stored."""
        since = (*([plan.current.message] if plan.current.message else []), *plan.steps)
        first = recent.messages[0].seq + 1 if recent.messages else 1
        newest = [
            message if message.seq else msgspec.structs.replace(message, seq=max(first, since[0].seq) + i, at=plan.now)
            for i, message in enumerate(since)
        ][::-1]
        packaged = [(await self._packages.package(each, plan.counter, None))[0] for each in newest]
        recent = msgspec.structs.replace(
            recent, messages=(*newest, *recent.messages), packages=(*packaged, *recent.packages)
        )
        return msgspec.structs.replace(plan, current=CurrentMessage()), recent

    async def _load_knowledge(self, plan: BuildPlan, messages: int) -> RoomKnowledge:
        """Read what a search depends on, and the newest messages, which it does not have to find."""
        user = plan.user.id if plan.user else None
        room = plan.search_room or plan.room.id
        persona = plan.persona.id if plan.persona else None
        scopes = memory_scopes(persona, user, room) if plan.retrieval.memories else ()
        books, rooms = await asyncio.gather(self._load_lorebooks(plan), self._find_other_rooms(plan, user))
        searched = SearchRequest(room=room, other_rooms=rooms, memories=scopes, lorebooks=tuple(books))
        contents = await self._store.room_contents(
            plan.room.id,
            memories=scopes,
            max_pinned=MAX_PINNED + 1,
            limit=messages,
            tokenizer=plan.vocabulary or "",
            counter=plan.room_counter.name,
            scopes=searched.scopes,
        )
        fill = make_name_filler(plan.persona, plan.user)
        return RoomKnowledge(
            scopes=scopes,
            summaries=contents.summaries[:MAX_SUMMARIES],
            pinned=[fill_memory_names(memory, fill) for memory in contents.pinned[:MAX_PINNED]],
            newest=contents.newest,
            counts=contents.counts,
            books=books,
            rooms=rooms,
            versions=contents.versions,
            notices=tuple(_knowledge_notices(plan, contents.pinned)),
        )

    async def _load_memory_summaries(self, known: RoomKnowledge, hits: Sequence[Hit]) -> list[Memory]:
        """Return the summaries of the clusters of pinned and retrieved memories, except those that are among them."""
        memories = [*known.pinned, *(hit.record for hit in hits if isinstance(hit.record, Memory))]
        clusters = {memory.cluster for memory in memories if memory.cluster and not memory.summary}
        if not clusters:
            return []
        found = await self._store.memories(scopes=known.scopes, summary=True, limit=MAX_SUMMARIES)
        loaded = {memory.id for memory in memories}
        return [memory for memory in found if memory.cluster in clusters and memory.id not in loaded]

    async def _activate_lore(
        self, plan: BuildPlan, known: RoomKnowledge, recent: RecentHistory, retrieved: SearchResult
    ) -> tuple[LoreIndex, Activation]:
        """Activate lore entries by keywords in recent messages, and those that retrieval found."""
        user = plan.user.id if plan.user else None
        index = await self._library.load_index(known.books, plan.persona, user, now=plan.now)
        if not index.entries:
            return index, Activation()
        turns = await self._library.turns(index, plan.room.id, plan.current, recent.messages, plan.persona)
        activation = await run_in_thread(
            activate,
            index,
            turns,
            seed=plan.room.id,
            count_tokens=candidates.make_lore_cost(index, known.titles, counter=plan.counter),
            persona=await self._library.describe_persona(plan.persona, user, index.sources),
            retrieved={hit.record.id: hit.relevance for hit in retrieved.hits if isinstance(hit.record, LoreEntry)},
            clock=time.monotonic,
        )
        return index, activation

    async def _load_lorebooks(self, plan: BuildPlan) -> dict[str, Lorebook]:
        return await self._library.books(plan.room, plan.persona, plan.user) if plan.retrieval.lore else {}

    async def _find_other_rooms(self, plan: BuildPlan, user: str | None) -> tuple[str, ...]:
        limit = plan.retrieval.other_rooms
        if not limit or user is None:
            return ()
        rooms = await self._store.rooms_of(user, limit=limit + 1)
        return tuple(each.id for each in rooms if each.id != plan.room.id)[:limit]

    async def _load_again(
        self, plan: BuildPlan, known: RoomKnowledge, lore: LoreIndex, found: Sequence[RetrievedItem]
    ) -> list[Hit]:
        """Return what was found for the question, as far as it is still there and may be seen."""
        ids = [record_id(each.id) for each in found]
        rooms = {plan.room.id, *known.rooms}
        messages = {each.id: each for each in await self._store.messages(ids) if each.room in rooms and not each.hidden}
        memories = {
            each.id: each for each in await self._store.memories(ids=ids, scopes=known.scopes, limit=len(ids) + 1)
        }
        return [hit for each in found if (hit := candidates.make_hit(each, messages, memories, lore)) is not None]

    async def _retrieve(
        self, plan: BuildPlan, known: RoomKnowledge, recent: RecentHistory, question: CurrentMessage
    ) -> SearchResult:
        if not plan.max_results:
            return SearchResult()
        question = CurrentMessage() if plan.search_room else question
        posted = question.posted
        queries = make_queries(
            question.text,
            asker=question.sender,
            position=posted.seq if posted is not None and posted.room == plan.room.id else None,
            goal=plan.room.goal,
            recent=recent.messages[:RECENT_SPEAKERS],
            focus=plan.focus,
            persona=(plan.persona.id, plan.persona.name) if plan.persona else (),
        )
        search = SearchRequest(
            room=plan.search_room or plan.room.id,
            before=recent.search_end(plan.history_start),
            other_rooms=known.rooms,
            memories=known.scopes,
            types=tuple(plan.retrieval.types),
            lorebooks=tuple(known.books),
            limit=plan.max_results,
            max_memories=plan.retrieval.max_memories,
            pinned=False if len(known.pinned) < MAX_PINNED else None,  # pinned ones are in anyway
            fallback=plan.retrieval.fallback,
            min_relevance=plan.retrieval.min_relevance,
            floor=plan.min_relevance,
            few=plan.few_memories if plan.retrieval.max_memories is None else 0,
            half_life=plan.retrieval.half_life,
            tokenizer=plan.vocabulary or "",
        )
        return await self._retriever.retrieve(queries, search, now=plan.now, versions=known.versions)


def _knowledge_notices(plan: BuildPlan, pinned: Sequence[Memory]) -> Iterator[Notice]:
    if len(pinned) > MAX_PINNED:
        yield TOO_MANY_PINS
    left_out = plan.retrieval.left_out
    if left_out and not plan.search_room:  # the janitor's sessions need none
        text = f"left out of this context, as requested: {', '.join(left_out)}"
        yield Notice(kind="left-out", text=text, facts={"sources": list(left_out)})


def _find_candidates(plan: BuildPlan, loaded: LoadedContent, packages: Iterable[ContentPackage]) -> dict[str, Message]:
    """Return the messages of the room that are candidates, by id. Not all search hits are."""
    names = {record_id(package.id) for package in packages}
    found = (hit.record for hit in loaded.hits)
    hits = [each for each in found if isinstance(each, Message) and each.room == plan.room.id]
    messages = (*loaded.recent.messages, *hits, *([plan.current.posted] if plan.current.posted else []))
    return {message.id: message for message in messages if message.id in names}


def _make_packages(plan: BuildPlan, loaded: LoadedContent) -> list[ContentPackage]:
    counter, known, recent = plan.counter, loaded.known, loaded.recent
    history, answers = split_answers(plan.current, recent.messages, recent.packages)
    history = history if plan.current.message else require_last_turn(history)
    if any(pool.ledger for pool in plan.policy.pools):
        history = candidates.name_by_position(history)
    summaries = candidates.filter_summaries(known.summaries, recent.sure, recent.partial_clusters)
    notes = collect_notes(plan.persona, plan.room, plan.user)
    packages = [
        *package_header(plan.persona, plan.room, counter=counter, user=plan.user, available=plan.budget.available),
        *candidates.add_matches(candidates.package_pinned(known.pinned, counter=counter), loaded.retrieved),
        *candidates.add_matches(
            candidates.package_lore(loaded.lore.activated, known.titles, counter=counter), loaded.retrieved
        ),
        *candidates.package_excluded_lore(loaded.lore.excluded, loaded.lore_index, known.titles, counter=counter),
        *candidates.package_summaries(summaries, counter=counter),
        *candidates.package_memory_summaries(loaded.memory_summaries, loaded.hits, counter=counter),
        *history,
        *package_notes(notes, _turn_number(plan, recent), counter=counter),
        *plan.current.packages(counter),
        *answers,
        *(package_media(part, counter=counter) for part in plan.media),
    ]
    packages += _package_hits(plan, loaded, packages)
    if not plan.retrieval.media:
        packages = candidates.exclude_media(packages)
    return candidates.make_ids_unique(packages)


def _package_hits(plan: BuildPlan, loaded: LoadedContent, others: Sequence[ContentPackage]) -> list[ContentPackage]:
    """Package what search found: what may be worth its tokens, or exactly what an earlier request had."""
    recent, hits = loaded.recent, loaded.hits
    package = partial(
        candidates.package_hits, counter=plan.counter, room=plan.room.id, books=loaded.known.titles, others=others
    )
    if loaded.repeats:
        return package(hits)
    newest = max((message.seq for message in recent.messages), default=0)
    is_in = recent.make_filter(plan.history_start)
    hits = [hit for hit in hits if not _is_current_or_later(hit, plan, newest) and not is_in(hit.record)]
    price, few = plan.policy.token_price, plan.few_memories
    hits = candidates.limit_hits(hits, counter=plan.counter, tokens=plan.tokens_for_results, price=price, few=few)
    return candidates.limit_misses(package(diversify(hits)), plan.policy, now=plan.now, few=few)


async def _fill(packages: Sequence[ContentPackage], notices: Sequence[Notice], **options: Any) -> Context:
    return await run_in_thread(assemble, packages, degraded=notices, **options)


def _choose_policy(plan: BuildPlan, collected: Candidates) -> Policy:
    """Return the policy for what was collected. A conversation that does not fit takes less if it is searched.

    Steps that follow what was found take the room that was left, so that history does not have to be trimmed for them.
    """
    policy = plan.policy
    if not plan.retrieval.media:
        policy = msgspec.structs.replace(policy, media=MediaRules(when="never"))
    is_searched = (
        not plan.steps and plan.retrieval.max_results > 0 and (plan.persona is None or plan.persona.id != JANITOR)
    )
    whole = sum(each.tokens.upper for each in collected.packages if region_of(each) != "related")
    fits = not collected.unread.messages and whole <= plan.budget.available
    return with_searched_history(policy) if is_searched and not fits else policy


def _is_conversation(package: ContentPackage) -> bool:
    return package.kind.startswith(("message-recent", "tool-"))


def _find_question(current: CurrentMessage, recent: RecentHistory) -> CurrentMessage:
    """Return the message to search for: during tool loops, it is the last user message."""
    if current.message is not None:
        return current
    return CurrentMessage(message=next((message for message in recent.messages if message.role == "user"), None))


def _turn_number(plan: BuildPlan, recent: RecentHistory) -> int:
    """Return the number of the current turn. A turn is one message from each side."""
    return (get_message_number(plan.current, recent.messages) + 1) // 2


def _is_current_or_later(hit: Hit, plan: BuildPlan, newest: int) -> bool:
    """Whether a hit is the current message, or was posted after it and after all of the loaded history.

    If a message is answered again, search would otherwise find its first answer.
    """
    posted = plan.current.posted
    if posted is None or not isinstance(hit.record, Message) or hit.record.room != posted.room:
        return False
    return hit.record.id == posted.id or hit.record.seq > max(posted.seq, newest)
