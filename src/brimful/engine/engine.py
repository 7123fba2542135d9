"""The engine: a tenant's rooms, personas and memories, and the best context for the next answer."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, Unpack
from weakref import WeakSet

import msgspec

from brimful.assembly.arguments import require_positive, resolve_model
from brimful.assembly.assemble import assemble
from brimful.core import validation
from brimful.core.content import ContentPackage, Media, Role
from brimful.core.context import Context
from brimful.core.model import ModelInfo, Wire
from brimful.core.policy import Policy
from brimful.core.prompt import Tool
from brimful.core.validation import preview, to_finite_float
from brimful.counting import make_observation, make_overflow_observation, vocabulary_for
from brimful.embedding import embedder_for
from brimful.engine.builder import Builder, BuildRequest
from brimful.engine.calibration import Calibrator, get_default_route
from brimful.engine.counts import store_counts
from brimful.engine.events import Event, EventName, Hook, check_hooks, get_build_facts, get_response_facts, notify_hooks
from brimful.engine.exchange import (
    Answer,
    AnswerStream,
    PartialAnswer,
    describe_overflow,
    find_replaced_answers,
    get_smaller_window,
)
from brimful.engine.indexer import IndexCallback, Indexer
from brimful.engine.janitor import ApplyChange, JanitorCallback, JanitorReport, ModelSummarizer, RoomReport, RoomSweep
from brimful.engine.options import (
    RespondOptions,
    Retrieval,
    Turn,
    check_media,
    check_retrieval,
    get_build_options,
    get_context_id,
    parse_usage,
    require_memory_content,
    require_strings,
)
from brimful.engine.personas import (
    PERSONA_KEY,
    apply_room_character,
    apply_system_prompt,
    as_seen_by,
    fill_note_names,
    fill_persona_names,
    get_greeting,
    get_speaker_name,
    get_user,
    make_name_filler,
)
from brimful.engine.plan import BudgetOptions, BuildPlan, make_current, make_plan
from brimful.engine.prompt_cache import LastRequests, PrefixTracker, make_conversation
from brimful.engine.provider_pool import ProviderPool
from brimful.engine.retention import Retention
from brimful.errors import BrimfulError, ContextOverflow, InvalidValue, ProviderError, UnknownRecord
from brimful.janitor.extractive import ExtractiveSummarizer
from brimful.janitor.families import find_duplicate_memories
from brimful.models import default_registry
from brimful.packagers.package import to_timestamp
from brimful.policies import Overrides
from brimful.protocols import Embedder, Housekeeping, Provider, Store, Summarizer
from brimful.records import (
    Content,
    Entity,
    LoreEntry,
    Memory,
    MemoryType,
    Message,
    Persona,
    Record,
    Response,
    Room,
    Snapshot,
    Summary,
    Usage,
    User,
)
from brimful.records.base import parse_duration
from brimful.records.janitor import JanitorChange, JanitorRun
from brimful.records.reply import Reply, ReplyChunk
from brimful.records.search import IndexProgress, PruneReport
from brimful.records.usage import UsageReport
from brimful.retrieval.analyzer import analyze
from brimful.retrieval.breaker import Breaker
from brimful.retrieval.cache import Cache
from brimful.retrieval.documents import Searchable, make_document
from brimful.retrieval.queries import make_queries
from brimful.retrieval.retriever import Retriever
from brimful.retrieval.search import SearchRequest, SearchResult, check_memory_types, limit_hits, memory_scopes
from brimful.stores import Database, Keys, connect


class EngineParts:
    """What an open engine works with."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        breaker: Breaker,
        settings: Retrieval,
        clock: Callable[[], float],
    ) -> None:
        self.store = store
        cache = Cache[SearchResult](most=settings.cache_results, ttl=settings.cache_seconds)
        self.retriever = Retriever(
            store, embedder, clock=clock, breaker=breaker, cache=cache, time_limit=settings.time_limit
        )
        self.builder = Builder(store, self.retriever, settings)
        self.prefixes = PrefixTracker(store)
        self.lessons = Calibrator(store)
        self.requests = LastRequests()
        self.indexer = None if embedder is None else Indexer(store, embedder, breaker=breaker, clock=clock)


class Opened:
    """What opens and closes: a store, an embedder with its breaker, and the embedding in the background."""

    def __init__(  # noqa: PLR0913 - the options of an engine
        self,
        url: str | Database,
        *,
        tenant: str = "default",
        model: str | ModelInfo = "",
        policy: str | Policy = "default",
        provider: str | Provider = "",
        embedder: str | Embedder | None = "static",
        retrieval: Retrieval = Retrieval(),  # noqa: B008 - frozen
        hooks: Sequence[Hook] = (),
        clock: Callable[[], float] = time.time,
        keys: Keys | None = None,
        keep: str | float | None = None,
        indexing: bool = True,
    ) -> None:
        """Prepare; nothing is opened before `open` or `async with`."""
        self._url = url
        self._keys = keys
        self._indexing = indexing
        self._owned = isinstance(url, str)
        self._database = self._connected()
        self._opening = asyncio.Lock()
        self._tenant = tenant
        self._model = model
        self._policy = policy
        self._providers = ProviderPool(provider, clock)
        self._embedder = embedder_for(embedder)
        self._settings = check_retrieval(retrieval)
        self._hooks = check_hooks(hooks)
        self._clock = clock
        self._vocabularies: dict[str, None] = {}
        self._breaker = Breaker(now=clock(), failures=self._settings.failures, cooldown=self._settings.cooldown)
        self._streams: WeakSet[AnswerStream] = WeakSet()
        self._open: EngineParts | None = None
        self._retention = None if keep is None else Retention(self._own, keep, clock=clock, tell=self._pruned)

    # -- opening and closing -----------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Open the store, bring its tables up to date, and begin to embed what waits, unless `indexing` is off.

        A `Database` that was given is the caller's, who opens and closes it.
        """
        async with self._opening:
            if self._open is None:
                if self._owned:
                    await self._database.open()
                try:
                    self._open = await self._started()
                except BaseException:
                    await self._let_go()  # whoever restores a backup now finds no lock on the file
                    raise
                if self._retention is not None:
                    self._retention.start()
        return self

    async def close(self) -> None:
        """Stop embedding, and close what was opened. What waits to be embedded waits in the store.

        Streams that nobody listens to just now are broken off, and what was said in them is kept.
        """
        for stream in tuple(self._streams):
            await stream.close()
        if self._retention is not None:
            await self._retention.stop()
        opened, self._open = self._open, None
        if opened is not None:
            if opened.indexer is not None:
                await opened.indexer.stop()
            if self._embedder is not None:
                await self._embedder.close()
            await self._providers.close()
            await self._let_go()

    async def _started(self) -> EngineParts:
        parts = EngineParts(
            self._database.tenant(self._tenant), self._embedder, self._breaker, self._settings, self._clock
        )
        if self._model:
            self._remember_vocabulary(self._model)
        if parts.indexer is not None and self._indexing:
            await parts.indexer.start()
        return parts

    async def _let_go(self) -> None:
        """Close the store, if it is our own, so that the engine can be opened again."""
        if self._owned:
            await self._database.close()
            self._database = self._connected()

    async def __aenter__(self) -> Self:
        """Open."""
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    @property
    def store(self) -> Store:
        """The tenant's store, for reading and for whatever has no method here."""
        return self._parts.store

    @property
    def breaker(self) -> Breaker:
        """The breaker before the embedder: its state, its openings, its uptime."""
        return self._breaker

    @property
    def _parts(self) -> EngineParts:
        if self._open is None:
            raise BrimfulError("the engine is not open: use `async with brimful.Engine(…) as engine`")
        return self._open

    async def _own(self) -> list[Store]:
        return [self.store]

    async def _pruned(self, gone: PruneReport) -> None:
        await self._tell("pruned", None, builds=gone.builds, answers=gone.answers, bytes=gone.bytes)

    def _connected(self) -> Database:
        return connect(self._url, keys=self._keys) if isinstance(self._url, str) else self._url

    # -- embedding ---------------------------------------------------------------------------------------------------

    async def settled(self) -> IndexProgress:
        """Wait until all that can be embedded now is embedded, and return how far it came."""
        indexer = self._parts.indexer
        return IndexProgress(done=0, waiting=0) if indexer is None else await indexer.settled()

    async def index(self, told: IndexCallback = lambda _: None) -> IndexProgress:
        """Embed all that waits, here and now, telling of each batch."""
        indexer = self._parts.indexer
        if indexer is None:
            raise InvalidValue("embedder", "is 'none': there is nothing to embed with")
        await indexer.stop()
        try:
            progress = await indexer.drain(told)
        finally:
            if self._indexing:
                await indexer.start()
        await self._tell("indexed", None, done=progress.done, waiting=progress.waiting)
        return progress

    def _remember_vocabulary(self, model: str | ModelInfo) -> None:
        """From now on, what is written is counted for this model, so that builds find it counted."""
        info = default_registry().resolve(model) if isinstance(model, str) else model
        vocabulary = vocabulary_for(info)
        if vocabulary is not None:
            self._vocabularies[vocabulary] = None

    async def _tell(self, name: EventName, room: str | None, **facts: Any) -> None:
        if self._hooks:
            await notify_hooks(
                self._hooks, Event(name=name, at=self._clock(), tenant=self._tenant, room=room, facts=facts)
            )

    def _moment(self, at: float | datetime | None, field: str = "at") -> float:
        try:
            return (
                self._clock() if at is None else validation.require_calendar_time(field, to_timestamp(at), InvalidValue)
            )
        except InvalidValue as error:
            raise InvalidValue(field, error.reason) from None


SUPERSEDED: Final = "superseded"
"""What the metadata of a message say that another took the place of."""


class Writing(Opened):
    """Everything that goes into the store. It is durable when a call returns, and counted and found from then on."""

    async def put(self, record: Entity) -> None:
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
        stored = await self.store.post([(message, make_document(message)) for message in messages])
        await self._written([message.content for message in stored])
        for message in stored:
            await self._tell("posted", message.room, id=message.id, seq=message.seq, role=message.role)
        for given, message in zip(messages, stored, strict=True):
            if message.room != given.room:
                where = f"in room {preview(message.room)}, and cannot be posted in {preview(given.room)} as well"
                raise InvalidValue("id", f"{preview(message.id)} is that of a message {where}")
        return stored

    async def edit(self, id: str, content: Content, *, at: float | datetime | None = None) -> Message:
        """Give a message another content."""
        known = await self.store.messages([id])
        if not known:
            raise UnknownRecord("message", id)
        changed = msgspec.structs.replace(known[0], content=content)
        message = await self.store.edit(id, changed.content, make_document(changed), at=self._moment(at))
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
        require_memory_content(memory)
        await self.remember_many([memory])
        return memory

    async def remember_many(self, memories: Sequence[Memory]) -> None:
        """Keep memories, each in the place of the one with its id."""
        await self.store.remember([(memory, make_document(memory)) for memory in memories])
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
        await self.store.write_lore([(entry, make_document(entry)) for entry in entries])
        await self._written([entry.content for entry in entries])

    async def summarize(self, summaries: Sequence[Summary]) -> None:
        """Write summaries of messages."""
        await self.store.summarize([(summary, make_document(summary)) for summary in summaries])
        await self._written([summary.content for summary in summaries])

    async def load(self, records: Sequence[Record]) -> None:
        """Write records as they were, whatever they are; one that is there stands, or is replaced if it may change."""
        await self.store.load(records, make_document)
        await self._written([record.content for record in records if isinstance(record, Searchable)])

    async def _written(self, contents: Sequence[Content]) -> None:
        for vocabulary in tuple(self._vocabularies):
            await store_counts(self.store, vocabulary, contents)
        if self._parts.indexer is not None:
            self._parts.indexer.wake()


def new_id(prefix: str) -> str:
    """Return an id that nothing else has."""
    return f"{prefix}-{uuid.uuid4().hex}"


_LAST_MESSAGES: Final = 20  # messages among which the one that ends a room is looked for: the very last may be hidden


class Assembling(Writing):
    """Reads what was written, finds what matters now, and fills a model's window with it."""

    async def assemble(  # noqa: PLR0913 - every one has a default but the room
        self,
        *,
        room: str,
        persona: str | None = None,
        message: Content | Message | None = None,
        model: str | ModelInfo | None = None,
        policy: str | Policy | None = None,
        sender: str = "",
        user: str | None = None,
        media: Sequence[Media] = (),
        tools: Sequence[Tool | Mapping[str, Any]] = (),
        focus: str = "",
        system: str | None = None,
        window: int | None = None,
        completion: int | None = None,
        overrides: Mapping[str, Any] | Overrides | None = None,
        wire: Wire | None = None,
        route: str = "",
        notes: Sequence[str] = (),
        fields: Mapping[str, Any] | None = None,
        now: float | datetime | None = None,
        save: bool = True,
    ) -> Context:
        """Build the best context for the next answer in a room, and keep its record.

        Without a `persona`, the room's own answers. `message` is what is to be answered: a text, parts, or a message
        that was posted; without one, the room ends with it. `focus` is one more thing to look for. `system` stands in
        the place of the persona's prompt. `route` is the server that will be asked: what was learned of the model there
        is heeded. `notes` are said on the record. `fields` are a caller's own, beside the messages: they are passed on.
        With `save=False` nothing is kept: a dry run.
        """
        require_strings(room=room, persona=persona, sender=sender, user=user, focus=focus, system=system, route=route)
        begun, moment = self._clock(), self._moment(now, "now")
        place, who, asker, missing = await self._whereabouts(room, persona, user, system)
        persona = who.id if who else None
        window = require_positive("window", window)
        completion = require_positive("completion", completion) or (who.completion if who else None)
        lesson = await self._parts.lessons.learned(self._model_of(model, who), route, now=moment)
        window = min((each for each in (window, lesson.window) if each is not None), default=None)
        plan = self._plan(place, who, lesson.model, policy, overrides=overrides, window=window, completion=completion)
        given = await self._last_words(room, who) if message is None else message
        current = make_current(given, room=room, sender=sender, now=moment, persona=who)
        conversation = make_conversation(room, persona, plan.policy, plan.budget)
        previous = await self._parts.prefixes.last(conversation)
        asked = BuildRequest(
            current=current,
            user=asker,
            media=check_media(media),
            focus=focus or "",
            begins=previous.first if previous else "",
            now=moment,
        )
        built = await self._parts.builder.build(plan, asked)
        if current.message is None and not any(map(_is_conversation, built.packages)):
            what = "is empty" if await self.store.get(Room, room) else "is no room of the store"
            raise InvalidValue("room", f"{preview(room)} {what}, and there is no message: there is nothing to answer")
        context = await asyncio.to_thread(
            assemble,
            built.packages,
            model=plan.model,
            policy=plan.policy,
            now=moment,
            previous=previous,
            tools=tools,
            window=window,
            completion=completion,
            wire=wire,
            degraded=(*missing, *notes, *lesson.notes, *built.degraded),
            origin=msgspec.json.encode([room, persona]).decode(),  # names may hold any sign that could part them
            fields=fields,
        )
        if save:
            self._parts.prefixes.keep(conversation, context.history)
            await self.store.save(
                Snapshot(id=context.id, room=room, persona=persona, at=moment, message=current.id, context=context)
            )
        if self._hooks:
            await self._tell(
                "assembled",
                room,
                **get_build_facts(context, seconds=self._clock() - begun),
                persona=persona,
                cached=built.cached,
                tokenized=built.tokenized,
                breaker=self._breaker.state(self._clock()),
            )
        return context

    async def search(
        self,
        text: str,
        *,
        persona: str | None = None,
        user: str | None = None,
        room: str | None = None,
        types: Sequence[str] = (),
        limit: int = 20,
        now: float | datetime | None = None,
    ) -> SearchResult:
        """Find memories that persona and user may know, and with a room what was said there, the most relevant first.

        Each of the two brings `limit` at most, as a build would rank them.
        """
        check_memory_types(types)
        wanted = SearchRequest(
            room=room,
            memories=memory_scopes(persona, user, room),
            types=tuple(types or self._settings.types),
            limit=limit,
            least_relevance=self._settings.least_relevance,
            half_life=self._settings.half_life,
        )
        found = await self._parts.retriever.retrieve(make_queries(text), wanted, now=self._moment(now, "now"))
        return msgspec.structs.replace(found, hits=limit_hits(limit, found.hits))

    async def _last_words(self, room: str, persona: Persona | None) -> Message | None:
        """Return the message that ends a room, if somebody else said it: that is what is to be answered."""
        newest = await self.store.history(room, limit=_LAST_MESSAGES)
        seen = as_seen_by([entry.message for entry in newest if not entry.message.hidden], persona)
        return seen[0] if seen and seen[0].role == "user" else None

    async def _whereabouts(
        self, room: str, persona: str | None, user: str | None, system: str | None
    ) -> tuple[Room, Persona | None, User | None, list[str]]:
        """Return room, persona and user as this call means them, and note what was looked for in vain."""
        place = await self.store.get(Room, room)
        persona = place.persona if persona is None and place else persona
        who = None if persona is None else await self.store.get(Persona, persona)
        notes = []
        if place is None:
            notes.append(f"room {preview(room)} is not in the store: nothing was said in it yet")
        if persona is not None and who is None:
            who = Persona(id=persona)
            notes.append(f"persona {preview(persona)} is not in the store: it has no prompt")
        who = who and apply_room_character(who, place)
        told, who = apply_system_prompt(place or Room(id=room), who, system)
        asker = await get_user(self.store, user or told.user)
        fill = make_name_filler(who, asker)
        asker = asker and fill_note_names(asker, fill)
        return fill_note_names(told, fill), who and fill_persona_names(who, fill), asker, notes

    def _model_of(self, model: str | ModelInfo | None, persona: Persona | None) -> ModelInfo:
        """Settle the model: what the caller says, then the persona, then the engine."""
        named = model or (persona.model if persona else "") or self._model
        if not named:
            raise InvalidValue("model", "say for which model: here, in the persona, or in Engine(model=…)")
        return resolve_model(named)

    def _plan(
        self,
        room: Room,
        persona: Persona | None,
        model: ModelInfo,
        policy: str | Policy | None,
        **limits: Unpack[BudgetOptions],
    ) -> BuildPlan:
        """Settle the policy: what the caller says, then the persona, then the engine."""
        by = policy or (persona.policy if persona else "") or self._policy
        plan = make_plan(room, persona, model=model, policy=by, **limits)
        if plan.vocabulary is not None:
            self._vocabularies[plan.vocabulary] = None
        return plan


def _is_conversation(package: ContentPackage) -> bool:
    return package.kind.startswith(("message-recent", "tool-"))


class AnswerDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What is told of an answer. Without a `route`, it came from the model's own provider."""

    content: Content | None = None
    sender: str = ""
    model: str = ""
    route: str = ""
    usage: Usage | None = None
    seconds: float | None = None
    finish: str = ""
    metadata: dict[str, Any] = {}


class Answering(Assembling):
    """Keeps answers, each linked to the context that produced it."""

    async def record_response(  # noqa: PLR0913 - every one has a default but the context
        self,
        context: Context | str,
        text: str | None = None,
        *,
        content: Content | None = None,
        sender: str = "",
        model: str = "",
        route: str = "",
        usage: Usage | Mapping[str, Any] | None = None,
        seconds: float | None = None,
        finish: str = "",
        id: str | None = None,
        at: float | datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Response:
        """Keep the answer to a context: what was said goes into the room, and the usage stands beside our count.

        Without a `sender`, the persona says it whose context it was. `route` says which server answered: counts for a
        model are learned for each.
        """
        require_strings(sender=sender, model=model, route=route, finish=finish)
        name = get_context_id(context)
        snapshot = await self.store.snapshot(name)
        if snapshot is None:
            raise UnknownRecord("context", name)
        who = None if snapshot.persona is None else await self.store.get(Persona, snapshot.persona)
        told = AnswerDetails(
            content=content if text is None else text,
            sender=sender or get_speaker_name(who, snapshot.persona),
            model=model,
            route=route,
            usage=parse_usage(usage),
            seconds=seconds,
            finish=finish,
            metadata=dict(metadata or {}),
        )
        response, _ = await self._keep(snapshot.context, told, room=snapshot.room, of=snapshot.id, id=id, at=at)
        return response

    async def _keep(
        self,
        context: Context,
        told: AnswerDetails,
        *,
        room: str,
        of: str,
        id: str | None = None,
        at: float | datetime | None = None,
    ) -> tuple[Response, Message | None]:
        """Post what was said in answer to the snapshot `of` a context, keep what is told of it, and learn from it."""
        moment, name = self._moment(at), id or new_id("res")
        said = await self.store.messages([f"{id}/message"]) if id else []
        if any(message.room != room for message in said):
            raise InvalidValue("id", f"{preview(name)} is that of an answer to another context")
        message = None if told.content is None else await self._said(told, room=room, of=of, name=name, at=moment)
        seen = await self._observed(context, told, room=room, of=of, id=f"{name}/usage", at=moment)
        response = Response(
            id=name,
            context=of,
            room=room,
            message=message.id if message else None,
            model=told.model or context.inputs.model.id,
            route=told.route,
            at=moment,
            seconds=told.seconds,
            usage=told.usage,
            finish=told.finish,
            expected_cached=seen.expected_cached if seen else 0,
            notes=get_response_notes(seen),
            metadata=told.metadata,
        )
        await self.store.respond(response)
        stands = next((each for each in await self.store.responses(context=of) if each.id == name), None)
        if stands is None:
            raise InvalidValue("id", f"{preview(name)} is that of an answer to another context")
        if seen is not None:
            await self._parts.lessons.observe(seen, now=self._clock())
        await self._tell("responded", room, **get_response_facts(stands, context))
        return stands, message

    async def _said(self, told: AnswerDetails, *, room: str, of: str, name: str, at: float) -> Message:
        """Post an answer in the place of others to the same question; one that came too late stands aside itself."""
        build = await self.store.build(of)
        asked = next(iter(await self.store.messages([build.message])), None) if build and build.message else None
        late = asked is not None and asked.metadata.get(SUPERSEDED) is True
        message = await self.post(
            room=room,
            content=told.content,
            sender=told.sender,
            role="assistant",
            id=f"{name}/message",
            at=at,
            metadata={
                **({PERSONA_KEY: build.persona} if build and build.persona else {}),
                **({"hidden": True, SUPERSEDED: True} if late else {}),
            },
        )
        if build is not None and asked is not None and not message.hidden:
            await self.supersede(await find_replaced_answers(self.store, message, build))
        return message

    async def _observed(
        self, context: Context, told: AnswerDetails, *, room: str, of: str, id: str, at: float
    ) -> UsageReport | None:
        """Return what the provider reported beside our count; None if it reported nothing."""
        if told.usage is None or not told.usage.prompt:
            return None
        route = told.route or get_default_route(context.inputs.model)
        return await asyncio.to_thread(
            make_observation,
            context,
            told.usage,
            id=id,
            route=route,
            room=room,
            at=at,
            snapshot=of,
            expected_cached=self._parts.requests.expect(context, context.inputs.origin, context.inputs.model.id, route),
        )


def get_response_notes(seen: UsageReport | None) -> tuple[str, ...]:
    """Say what was amiss with an answer: that its provider did not read all of the prompt."""
    if seen is None or seen.kind != "cut":
        return ()
    lost = f"{seen.reported:,} of {seen.counted:,} tokens"
    return (
        f"{seen.route} reports {lost} for the prompt: it has silently cut it; look at the window that it was given",
    )


class Responding(Answering):
    """Asks models, and keeps what they say."""

    async def respond(
        self,
        room: str,
        persona: str | None = None,
        message: Content | Message | None = None,
        **asking: Unpack[RespondOptions],
    ) -> Answer:
        """Post a message, build the context for its answer, ask the model, and keep the answer in the room.

        Without a message, the room ends with what is to be answered: a question, or what tools gave back. `id` is the
        message's own; given twice, it is one message. A prompt that the provider finds too long is built again for the
        window that it told, and sent once more.
        """
        turn = await self._turn(room, persona, message, asking)
        context = await self._context(turn)
        async with self._telling(turn):
            try:
                reply = await turn.provider.send(context.request)
            except ContextOverflow as refused:
                context = await self._smaller(turn, context, refused)
                reply = await turn.provider.send(context.request)
        return await self._answered(turn, context, reply)

    def stream(
        self,
        room: str,
        persona: str | None = None,
        message: Content | Message | None = None,
        **asking: Unpack[RespondOptions],
    ) -> AnswerStream:
        """Do what `respond` does, and give the answer piece by piece as it comes."""
        stream = AnswerStream(self._streamed(room, persona, message, asking))
        self._streams.add(stream)
        return stream

    async def greet(self, room: str, persona: str, *, user: str | None = None, which: int = 0) -> Message | None:
        """Let a persona say its greeting in a room where nobody spoke yet; None if it has none, or somebody did.

        `which` chooses one of its other greetings, from 1 on.
        """
        who = await self.store.get(Persona, persona)
        place = await self.store.get(Room, room)
        who = who and apply_room_character(who, place)
        if who is None or who.character is None or await self.store.history(room, limit=1):
            return None
        asker = await get_user(self.store, user or (place.user if place else None))
        greeting = get_greeting(fill_persona_names(who, make_name_filler(who, asker)), which)
        if not greeting:
            return None
        by = {PERSONA_KEY: who.id}
        return await self.post(room=room, text=greeting, sender=who.called, role="assistant", metadata=by)

    # -- one turn ----------------------------------------------------------------------------------------------------

    async def _turn(
        self, room: str, persona: str | None, message: Content | Message | None, asking: RespondOptions
    ) -> Turn:
        """Settle who answers, by which model, and where that runs; and post what is to be answered."""
        begun, building = self._clock(), get_build_options(asking)
        at = self._moment(asking.get("now"), "now")
        persona = persona or await self._host(room)
        who = None if persona is None else await self.store.get(Persona, persona)
        model = self._model_of(asking.get("model"), who)
        provider = self._providers.find(asking.get("provider"), who, model)
        return Turn(
            room=room,
            persona=persona,
            speaker=get_speaker_name(who, persona),
            message=await self._posted(room, message, asking, at),
            model=await self._providers.served(model, provider),
            provider=provider,
            window=asking.get("window"),
            building=building,
            at=at,
            begun=begun,
        )

    async def _host(self, room: str) -> str | None:
        place = await self.store.get(Room, room)
        return place.persona if place else None

    async def _posted(
        self, room: str, message: Content | Message | None, asking: RespondOptions, at: float
    ) -> Message | None:
        match message:
            case None:
                return None
            case Message():
                return message if message.seq else (await self.post_many([message]))[0]
            case _:
                if not message:
                    raise InvalidValue("message", "is empty: there is nothing to answer")
                sender, id = asking.get("sender", ""), asking.get("id")
                posted = await self.post(room=room, content=message, sender=sender, id=id, at=at)
                meant = Message(id=posted.id, room=room, content=message).content  # as a store holds it
                if posted.content != meant and not posted.edited:
                    raise InvalidValue(
                        "id", f"{preview(id)} is that of a message that was deleted, or says something else"
                    )
                return posted

    async def _context(self, turn: Turn, *, window: int | None = None, notes: tuple[str, ...] = ()) -> Context:
        return await self.assemble(
            room=turn.room,
            persona=turn.persona,
            message=turn.message,
            model=turn.model,
            window=window or turn.window,
            wire=turn.provider.wire,
            route=turn.provider.route,
            notes=notes,
            now=turn.at,
            **turn.building,
        )

    @asynccontextmanager
    async def _telling(self, turn: Turn) -> AsyncGenerator[None, None]:
        """Tell the hooks if a provider does not answer."""
        try:
            yield
        except ProviderError as error:
            await self._tell(
                "failed",
                turn.room,
                model=turn.model.id,
                provider=turn.model.provider,
                route=error.route,
                error=type(error).__name__,
                status=error.status,
                seconds=max(0.0, self._clock() - turn.begun),
            )
            raise

    async def _smaller(self, turn: Turn, context: Context, refused: ContextOverflow) -> Context:
        """Learn from a refusal, and build again."""
        now = self._clock()
        seen = make_overflow_observation(
            context, refused, id=new_id("obs"), route=turn.provider.route, room=turn.room, at=now
        )
        await self._parts.lessons.observe(seen, now=now)
        await self._tell(
            "overflowed",
            turn.room,
            context=context.id,
            model=turn.model.id,
            route=refused.route,
            window=refused.window,
        )
        window = get_smaller_window(context, refused)
        return await self._context(turn, window=window, notes=(describe_overflow(context, refused),))

    async def _answered(self, turn: Turn, context: Context, reply: Reply) -> Answer:
        told = AnswerDetails(
            content=get_reply_content(reply),
            sender=turn.speaker,
            model=reply.model,
            route=turn.provider.route,
            usage=reply.usage,
            seconds=self._clock() - turn.begun,
            finish=reply.finish,
        )
        response, message = await self._keep(context, told, room=turn.room, of=context.id)
        return Answer(reply=reply, context=context, response=response, message=message)

    # -- as it comes -------------------------------------------------------------------------------------------------

    async def _streamed(
        self, room: str, persona: str | None, message: Content | Message | None, asking: RespondOptions
    ) -> AsyncGenerator[ReplyChunk | Answer, None]:
        turn = await self._turn(room, persona, message, asking)
        said = PartialAnswer(await self._context(turn))
        try:
            async with self._telling(turn), aclosing(self._pieces(turn, said)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:  # whoever leaves early, or is cut off, finds what was said so far in the room
            if said.broken_off:
                await asyncio.shield(self._answered(turn, said.context, said.so_far()))
        yield await self._answered(turn, said.context, said.whole())

    async def _pieces(self, turn: Turn, said: PartialAnswer) -> AsyncGenerator[ReplyChunk, None]:
        try:
            async with aclosing(turn.provider.stream(said.context.request)) as pieces:
                async for piece in pieces:
                    yield said.heard(piece)
        except ContextOverflow as refused:
            if said.begun:
                raise
            said.context = await self._smaller(turn, said.context, refused)
            async with aclosing(turn.provider.stream(said.context.request)) as pieces:
                async for piece in pieces:
                    yield said.heard(piece)


def get_reply_content(reply: Reply) -> Content | None:
    """Return what goes into the room: plain text as such, since its count is kept with it; None if nothing was said."""
    return reply.parts if reply.calls else reply.text or None


JANITOR_LEASE: Final = 90.0  # seconds after which a janitor of whom nothing is heard is taken for dead
HEARTBEAT: Final = 20.0  # seconds between two signs of life
_PAGE_RECORDS: Final = 500  # rooms or memories read at once
_MAX_MEMORIES_IN_SCOPE: Final = 20_000  # memories of one scope that are compared with each other


class Tidying(Responding):
    """Keeps rooms in order, between conversations."""

    async def tidy(
        self,
        room: str | None = None,
        *,
        older: str | float | None = None,
        dry_run: bool = False,
        purge: bool = False,
        summarizer: Summarizer | None = None,
        now: float | datetime | None = None,
        told: JanitorCallback = lambda _: None,
    ) -> JanitorReport:
        """Put a room in order, or all of them, and say what was done; with `dry_run`, what would be done.

        Floods give way to a line, days get a summary, months and years that lie back one for all. With `older`,
        a time such as `180d` or a number of seconds, messages that are covered by a summary, are older, and were in no
        context on record, are set aside, and memories that say again what another says. With `purge`, what earlier
        runs set aside is let go for good.
        `summarizer` writes the summaries; without one, what was said is quoted. `told` is told how much is done.
        """
        moment = self._moment(now)
        age = None if older is None else _parse_age(older)
        rooms = await self._rooms(room)
        house = self._housekeeping
        sweep = RoomSweep(
            self.store, house, summarizer or ExtractiveSummarizer(analyze), self._embedder, now=moment, older=age
        )
        if dry_run:
            done = await self._swept(sweep, rooms, self._dry, told)
            spare = await self._doubles(house, moment, age) if room is None else ()
            return msgspec.structs.replace(done, dry_run=True, memories=len(spare))
        run = await house.begin(holder=new_id("janitor"), now=self._clock(), lease=JANITOR_LEASE)
        done = JanitorReport()
        try:
            async with self._alive(house, run):

                async def do(change: JanitorChange) -> None:
                    await house.tidy(run, change, make_document, now=self._clock())
                    await self._written([summary.content for summary in change.write])

                done = await self._swept(sweep, rooms, do, told)
                spare = await self._doubles(house, moment, age) if room is None else ()
                await do(JanitorChange(memories=spare))
                purged = await house.purge(before=run.number) if purge else 0
                done = msgspec.structs.replace(done, memories=len(spare), purged=purged)
        finally:  # also of one that is broken off: what it did is whole, and can be undone
            ended = await house.end(run, done.facts, now=self._clock())
        done = msgspec.structs.replace(done, run=ended.number if ended else None)
        await self._tell("tidied", room, run=done.run, **done.facts)
        return done

    async def untidy(self) -> JanitorRun | None:
        """Undo the last run of the janitor, and return it; None if none is left. Done again, it goes further back."""
        run = await self._housekeeping.undo(
            make_document, holder=new_id("janitor"), now=self._clock(), lease=JANITOR_LEASE
        )
        if run is not None and self._parts.indexer is not None:
            self._parts.indexer.wake()
        return run

    async def tidyings(self, *, limit: int = 20) -> list[JanitorRun]:
        """Return the runs of the janitor, newest first."""
        return await self._housekeeping.runs(limit=limit)

    async def aside(self) -> dict[str, int]:
        """Return how many messages and memories are set aside."""
        return await self._housekeeping.aside()

    def summarizer(
        self, model: str | ModelInfo | None = None, *, provider: str | Provider | None = None, window: int | None = None
    ) -> Summarizer:
        """Return a summarizer that asks a language model: this one, or the engine's."""
        info = self._model_of(model, None)
        return ModelSummarizer(info, self._providers.find(provider, None, info), window=window)

    @property
    def _housekeeping(self) -> Housekeeping:
        self._parts  # noqa: B018 - says so if the engine is not open
        return self._database.housekeeping(self._tenant)

    async def _rooms(self, room: str | None) -> list[str]:
        if room is not None:
            if await self.store.get(Room, room) is None:
                raise UnknownRecord("room", room)
            return [room]
        found: list[str] = []
        while page := await self.store.listed(Room, after=found[-1] if found else "", limit=_PAGE_RECORDS):
            found += [each.id for each in page]
        return found

    async def _swept(
        self, sweep: RoomSweep, rooms: Sequence[str], do: ApplyChange, told: JanitorCallback
    ) -> JanitorReport:
        done: list[RoomReport] = []
        for at, room in enumerate(rooms):

            def far(part: float, at: int = at) -> None:
                told((at + part) / len(rooms))

            done.append(await sweep.room(room, do, far))
            far(1.0)
        return JanitorReport(rooms=tuple(each for each in done if each))

    async def _doubles(self, house: Housekeeping, now: float, older: float | None) -> tuple[str, ...]:
        """Return memories, of those that nothing ever used, that say again what another says."""
        if older is None:
            return ()
        scopes: dict[str, list[str]] = {}
        after = ""
        while page := await house.unread(before=now - older, after=after, limit=_PAGE_RECORDS):
            for memory in page:
                scopes.setdefault(memory.scope, []).append(memory.id)
            after = page[-1].id
        found: list[str] = []
        for scope, unread in scopes.items():
            known = await self.store.memories(scopes=[scope], limit=_MAX_MEMORIES_IN_SCOPE)
            found += [memory.id for memory in find_duplicate_memories(known, unread)]
        return tuple(found)

    async def _dry(self, change: JanitorChange) -> None:
        """Do nothing."""

    @contextlib.asynccontextmanager
    async def _alive(self, house: Housekeeping, run: JanitorRun) -> AsyncIterator[None]:
        """Give signs of life while something takes long, such as a model that is asked."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(HEARTBEAT)
                await house.beat(run, now=self._clock())

        task = asyncio.create_task(beat(), name="brimful-janitor")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _parse_age(older: str | float) -> float:
    seconds = parse_duration(older, "older") if isinstance(older, str) else to_finite_float(older)
    if seconds is None or seconds < 0:
        raise InvalidValue("older", f"must be a time such as '180d', or a number of seconds, not {preview(older)}")
    return seconds


class Engine(Tidying):
    """One tenant's rooms, personas and memories, and contexts for their next answers.

    `url` names the store: `sqlite:///chat.db`, `postgresql://…`. `model` and `policy` are what is meant where a call
    and its persona say nothing. `provider` is where models run: `openai`, `anthropic`, `gemini`, `ollama`, a server's
    address, or a provider of your own; without one, each model is asked at its maker's. `embedder` is `static` (in the
    package), `minilm`, `openai:…`, `ollama:…`, or `none`.
    """
