"""The engine: a tenant's rooms, personas and memories, and the best context for the next answer."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Literal, NoReturn, Self, Unpack, get_args

from brimful.assembly.arguments import require_list, require_positive, resolve_model
from brimful.assembly.brief import Brief, require_budget
from brimful.assembly.fit import FitOptions
from brimful.core.content import Role
from brimful.core.context import Context
from brimful.core.model import ModelInfo
from brimful.core.policy import Policy
from brimful.core.recall import Recalled
from brimful.core.validation import is_whole_number, preview
from brimful.counting import vocabulary_for
from brimful.embedding import embedder_for
from brimful.engine.builder import Builder
from brimful.engine.calibration import Calibrator
from brimful.engine.counts import UsedTokenizers
from brimful.engine.ephemeral import EphemeralSummaries
from brimful.engine.events import Emitter, Hook, check_hooks
from brimful.engine.fitting import DEFAULT_ROOM, RequestFitter
from brimful.engine.indexer import IndexCallback, Indexer, divide_long_texts
from brimful.engine.janitor import AuditReport, Janitor, JanitorCallback, JanitorReport, ModelSummarizer, parse_age
from brimful.engine.learning import Learner, LearningModel, LearningReport, require_scope
from brimful.engine.missing_await import explain_missing_await
from brimful.engine.options import (
    AssembleOptions,
    BuildRequest,
    ContentInput,
    EngineSettings,
    MemoryChanges,
    MemoryOptions,
    MessageInput,
    RespondOptions,
    ResponseOptions,
    Retrieval,
    RetrievalOverrides,
    check_options,
    require_string,
    resolve_message,
)
from brimful.engine.own_calls import OwnCalls, check_prices, find_billed_model
from brimful.engine.provider_pool import ProviderPool
from brimful.engine.recaller import Recaller
from brimful.engine.responder import Answer, AnswerStream, Responder
from brimful.engine.retention import Retention
from brimful.engine.usage import list_usage
from brimful.engine.writer import Writer
from brimful.errors import BrimfulError, ContextOverflow, InvalidValue
from brimful.models import default_registry
from brimful.protocols import Embedder, Provider, Reranker, Summarizer
from brimful.records import Content, Entity, LoreEntry, Memory, Message, Record, Response, Summary, memory_scope
from brimful.records.base import validate_id
from brimful.records.contexts import PruneReport, Rating
from brimful.records.memory import MemoryFilters, MemoryPage, Untrusted, memory_cursor, parse_memory_cursor
from brimful.records.own_calls import OwnSpending, SpendingLimit
from brimful.records.removal import RemovalReport
from brimful.records.runs import JanitorRun
from brimful.records.search import IndexProgress
from brimful.records.statistics import Grouping, PeriodUsage, Statistics
from brimful.retrieval.breaker import Breaker
from brimful.retrieval.cache import Cache
from brimful.retrieval.documents import make_document
from brimful.retrieval.queries import make_queries
from brimful.retrieval.rerank import Reranking
from brimful.retrieval.retriever import Retriever
from brimful.retrieval.search import (
    SearchRequest,
    SearchResult,
    check_memory_types,
    encode_metadata_filter,
    memory_scopes,
)
from brimful.stores import Database, Keys, Store, connect
from brimful.stores.admin.runs import JanitorStore

MAX_PREFIX_SCOPES: Final = 2_000  # that a search by prefix reads


class EngineParts:
    """The parts of an open engine, each with what it needs."""

    def __init__(  # noqa: PLR0913 - what the parts share
        self,
        store: Store,
        housekeeping: JanitorStore,
        settings: EngineSettings,
        *,
        embedder: Embedder | None,
        summarizer: Summarizer | None,
        reranker: Reranker | None,
        own_calls: OwnCalls,
        breaker: Breaker,
        providers: ProviderPool,
        tokenizers: UsedTokenizers,
        events: Emitter,
    ) -> None:
        clock, retrieval = settings.clock, settings.retrieval
        cache = Cache[SearchResult](
            max_entries=retrieval.cache_size, ttl=retrieval.cache_ttl, size=lambda result: result.nbytes
        )
        calibrator = Calibrator(store)
        self.store = store
        self.housekeeping = housekeeping
        self.own_calls = own_calls
        self.indexer = None if embedder is None else Indexer(store, embedder, breaker=breaker, clock=clock)
        self.retriever = Retriever(
            store,
            embedder,
            clock=clock,
            breaker=breaker,
            cache=cache,
            time_limit=retrieval.timeout,
            reranking=None
            if reranker is None
            else Reranking(
                reranker,
                clock=clock,
                breaker=Breaker(now=clock(), failures=retrieval.max_failures, cooldown=retrieval.cooldown),
                time_limit=retrieval.timeout,
            ),
        )
        self.writer = Writer(store, housekeeping, settings, tokenizers=tokenizers, indexer=self.indexer, events=events)
        self.builder = Builder(
            store,
            self.retriever,
            settings,
            calibrator=calibrator,
            tokenizers=tokenizers,
            breaker=breaker,
            events=events,
            ephemeral=EphemeralSummaries(store, summarizer, clock=clock),
        )
        self.recaller = Recaller(store, self.retriever, settings, self.builder)
        self.responder = Responder(
            store,
            settings,
            writer=self.writer,
            builder=self.builder,
            calibrator=calibrator,
            providers=providers,
            events=events,
        )
        self.fitter = RequestFitter(store, settings, calibrator=calibrator, responder=self.responder, events=events)
        self.janitor = Janitor(
            store, housekeeping, embedder, settings, writer=self.writer, indexer=self.indexer, events=events
        )
        self.learner = Learner(
            store,
            housekeeping,
            self.retriever,
            settings,
            writer=self.writer,
            build=self.builder.assemble,
            own_calls=own_calls,
            events=events,
        )
        self._dividing: asyncio.Task[None] | None = None

    async def start_indexing(self) -> None:
        """Index in the background. Without an embedder, only imported and very long texts need work."""
        if self.indexer is not None:
            await self.indexer.start()
        else:
            self._dividing = asyncio.create_task(divide_long_texts(self.store), name="brimful-divide")

    async def wait_indexed(self) -> IndexProgress:
        """Wait until nothing more can be indexed now."""
        if self._dividing is not None:
            await asyncio.wait([self._dividing])
        return IndexProgress(done=0, waiting=0) if self.indexer is None else await self.indexer.wait_idle()

    async def stop_indexing(self) -> None:
        """Stop. What remains is done at the next start."""
        if self.indexer is not None:
            await self.indexer.stop()
        if self._dividing is not None:
            self._dividing.cancel()
            await asyncio.gather(self._dividing, return_exceptions=True)


@explain_missing_await
class Engine:
    """One tenant's rooms, personas and memories, and contexts for their next answers.

    - `url`: the store, such as `sqlite:///chat.db` or `postgresql://…`, or an open `Database`.
    - `tenant`: whose records these are.
    - `model`, `policy`: defaults for calls and personas that name none. Without a policy, conversations with tools get
      `agent` and all others `default`.
    - `policies`: the policies that personas may name, by name. By default, they may name built-in policies and files.
      Pass this if strangers may edit personas.
    - `provider`: where models run: `openai`, `anthropic`, `gemini`, `ollama`, the URL of a server, or your own
      `Provider`. By default, each model runs at its maker's.
    - `embedder`: `static` (included), `small`, `openai:…`, `ollama:…`, your own `Embedder`, or `none`.
    - `summarizer`: writes the summaries that a policy with `ephemeral_summaries` allows: a model's name, or your own
      `Summarizer`. By default they quote messages.
    - `own_calls`: how much the calls of models that the engine makes by itself may spend in a day: a `SpendingLimit`.
      By default there is no limit.
    - `reranker`: reorders the best hits of a search: your own `Reranker`. By default there is none.
    - `retrieval`: settings for search.
    - `hooks`: functions that are called with every `Event`.
    - `clock`: returns the current time.
    - `replica`: the URL of a PostgreSQL server that follows the one of the store, for statistics, exports, backups and
      `store.replica`.
    - `keys`: encryption keys; by default the one in the environment, if any.
    - `retention`: how long to keep contexts and responses, such as `"30d"` or seconds; by default forever.
    - `record_share`: the share of contexts that are recorded in full, from 0 to 1; of the others, only a summary is.
    - `untrusted`: what becomes of text for memories that did not come from a user, such as what a page says: `propose`
      (it waits for somebody who confirms it), `ignore`, or `trust`.
    - `indexing`: whether to embed new records in the background; with `"elsewhere"`, a worker does it.
    """

    def __init__(  # noqa: PLR0913 - the options of an engine
        self,
        url: str | Database,
        *,
        tenant: str = "default",
        model: str | ModelInfo = "",
        policy: str | Policy | None = None,
        policies: Mapping[str, str | Policy] | None = None,
        provider: str | Provider = "",
        embedder: str | Embedder | None = "static",
        summarizer: str | Summarizer | None = None,
        own_calls: SpendingLimit | None = None,
        reranker: Reranker | None = None,
        retrieval: Retrieval = Retrieval(),  # noqa: B008 - frozen
        hooks: Sequence[Hook] = (),
        clock: Callable[[], float] = time.time,
        replica: str | None = None,
        keys: Keys | None = None,
        retention: str | float | None = None,
        record_share: float = 1.0,
        untrusted: Untrusted = "propose",
        indexing: bool | Literal["elsewhere"] = True,
    ) -> None:
        """Prepare an engine. `open` or `async with` opens it."""
        if not callable(clock):
            raise InvalidValue("clock", f"must be a function that returns the time, not {preview(clock)}")
        if indexing not in (True, False, "elsewhere"):
            raise InvalidValue("indexing", f"must be True, False or 'elsewhere', not {preview(indexing)}")
        if replica is not None and not isinstance(url, str):
            raise InvalidValue("replica", "belongs to the Database that was passed in place of a URL")
        self._url = url
        self._replica = replica
        self._keys = keys
        self._indexing = indexing
        self._owns_database = isinstance(url, str)
        self._database = self._connect()
        self._opening = asyncio.Lock()
        self._settings = EngineSettings(
            tenant=tenant,
            model=model,
            policy=policy,
            policies=policies,
            retrieval=retrieval,
            record_share=record_share,
            untrusted=untrusted,
            clock=clock,
        )
        self._providers = ProviderPool(provider, clock)
        self._embedder = embedder_for(embedder)
        if summarizer is not None and not isinstance(summarizer, str) and not hasattr(summarizer, "summarize"):
            reason = f"must be the name of a model or a Summarizer, not {preview(summarizer)}"
            raise InvalidValue("summarizer", reason)
        self._summarizer = summarizer
        self._limit = _check_limit(own_calls, summarizer, self._embedder)
        if reranker is not None and not hasattr(reranker, "rerank"):
            raise InvalidValue("reranker", f"must be a Reranker, with a method `rerank`, not {preview(reranker)}")
        self._reranker = reranker
        self._breaker = Breaker(now=clock(), failures=retrieval.max_failures, cooldown=retrieval.cooldown)
        self._events = Emitter(check_hooks(hooks), tenant=tenant, clock=clock)
        self._tokenizers = UsedTokenizers()
        self._parts: EngineParts | None = None
        self._retention = (
            None
            if retention is None
            else Retention(self._list_stores, retention, clock=clock, on_pruned=self._report_pruned)
        )

    # -- opening and closing -----------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Open the store, migrate its tables, and start to embed new records in the background.

        A `Database` passed in place of a URL is opened and closed by the caller.
        """
        async with self._opening:
            if self._parts is None:
                if self._owns_database:
                    await self._database.open()
                try:
                    self._parts = await self._start()
                except BaseException:
                    await self._release_database()  # no lock stays on the file, so that a backup can be restored
                    raise
                if self._retention is not None:
                    self._retention.start()
        return self

    async def close(self) -> None:
        """Stop embedding and close the store. Records that are not embedded yet stay in the backlog.

        Open streams are closed, and what was received of their answers is recorded.
        """
        if self._parts is not None:
            await self._parts.responder.close()
        if self._retention is not None:
            await self._retention.stop()
        parts, self._parts = self._parts, None
        if parts is not None:
            await parts.stop_indexing()
            if self._embedder is not None:
                await self._embedder.close()
            await self._providers.close()
            await self._release_database()

    def __enter__(self) -> NoReturn:
        """Say that the engine is asynchronous."""
        raise BrimfulError(
            "the engine is asynchronous: use `async with` in an `async def` function, or `with brimful.SyncEngine(…)`"
        )

    def __exit__(self, *_: object) -> None:
        """Do nothing: `with` does not get this far."""

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def store(self) -> Store:
        """The tenant's store, for everything that has no method here."""
        return self._open.store

    @property
    def database(self) -> Database:
        """The database of all tenants, for administration."""
        return self._database

    @property
    def breaker(self) -> Breaker:
        """The circuit breaker of the embedder: its state, openings and uptime."""
        return self._breaker

    # -- writing -----------------------------------------------------------------------------------------------------

    async def put(self, record: Entity) -> None:
        """Write a user, persona, room or lorebook, replacing the one with its id."""
        await self.store.put(record)

    async def remove(self, kind: type[Entity], id: str) -> RemovalReport:
        """Remove a user, persona, room or lorebook with everything that belongs to it, and return what was removed."""
        if kind not in get_args(Entity):
            raise InvalidValue("kind", f"must be User, Persona, Room or Lorebook, not {preview(kind)}")
        return await self.store.remove(kind, id)

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
        hidden: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> Message:
        """Post a message in a room: `text`, or `content`. The same id posted twice is one message.

        `content` is a list of parts, or a whole message in OpenAI's or Anthropic's format, as a dict or as the object
        that their SDKs or LangChain return. `role` is the message's own by default, or "user".

        A `hidden` message is stored and exported, but excluded from contexts and search.
        """
        return await self._open.writer.post(
            room=room,
            text=text,
            content=content,
            sender=sender,
            role=role,
            id=id,
            at=at,
            hidden=hidden,
            metadata=metadata,
        )

    async def post_many(self, messages: Sequence[Message]) -> list[Message]:
        """Append messages to their rooms, in this order; return them as stored.

        Raises `InvalidValue` if an id belongs to a message in another room, after all others are stored.
        """
        return await self._open.writer.post_many(messages)

    async def edit(self, id: str, content: Content, *, at: float | datetime | None = None) -> Message:
        """Replace the content of a message."""
        return await self._open.writer.edit(id, content, at=at)

    async def delete(self, id: str, *, erase: bool = False) -> None:
        """Delete a message; with `erase`, also remove its content from past contexts."""
        await self._open.writer.delete(id, erase=erase)

    async def supersede(self, ids: Sequence[str]) -> None:
        """Hide messages that were replaced by others: they are stored and exported, but in no context and no search."""
        await self._open.writer.supersede(ids)

    async def remember(self, text: str, **options: Unpack[MemoryOptions]) -> Memory:
        """Write a memory for everybody, or for a `persona`, `user` or `room`.

        `source_message` is the id of the message it was taken from. With `summary`, it stands for the other memories of
        its `cluster`, and replaces them where a policy summarizes.
        """
        return await self._open.writer.remember(text, **options)

    async def remember_many(self, memories: Sequence[Memory]) -> None:
        """Write memories, replacing those with the same ids."""
        await self._open.writer.remember_many(memories)

    async def propose(self, text: str, **options: Unpack[MemoryOptions]) -> Memory | None:
        """Propose a memory whose text may not come from a user, such as one that a model wants to write.

        It is stored with the state `proposed`, and no context and no search has it until `confirm_memories`. Returns
        None if a memory with the same words and owners exists, waits, or was rejected. The options are the same as for
        `remember`. With `untrusted="trust"`, the engine remembers it at once; with `"ignore"`, it does nothing.
        """
        return await self._open.writer.propose(text, **options)

    async def confirm_memories(self, ids: str | Sequence[str]) -> JanitorRun:
        """Confirm proposed memories, in a run that `undo_janitor` undoes: from now on, contexts may have them.

        What they supersede is archived. List what is proposed with `list_memories(state="proposed")`.
        """
        return await self._open.writer.review(ids, "active")

    async def reject_memories(self, ids: str | Sequence[str]) -> JanitorRun:
        """Reject proposed memories, in a run that `undo_janitor` undoes. The same text is not proposed again."""
        return await self._open.writer.review(ids, "rejected")

    async def pin(self, id: str, *, pinned: bool = True) -> None:
        """Pin a memory, so that every context it belongs to includes it; or unpin it."""
        await self._open.writer.pin(id, pinned=pinned)

    async def forget(self, id: str, *, erase: bool = False) -> None:
        """Remove a memory; with `erase`, also remove its content from past contexts."""
        await self._open.writer.forget(id, erase=erase)

    async def update_memory(
        self, id: str, text: str | None = None, *, at: float | datetime | None = None, **changes: Unpack[MemoryChanges]
    ) -> Memory:
        """Change a memory in place, and return it. What you do not pass stays as it is; `metadata` is replaced.

        Contexts that included the memory keep what they had. `at` is the time of the change.
        """
        return await self._open.writer.update_memory(id, text, at=at, **changes)

    async def forget_memories(self, *, erase: bool = False, **filters: Unpack[MemoryFilters]) -> int:
        """Remove all memories that match the filters, and return their number. Archived ones are removed, too.

        At least one filter is required. The filters are the same as for `list_memories`. With `erase`, the content of
        the memories is also removed from past contexts.
        """
        return await self._open.writer.forget_memories(erase=erase, **filters)

    async def write_lore(self, entries: Sequence[LoreEntry]) -> None:
        """Write lorebook entries."""
        await self._open.writer.write_lore(entries)

    async def write_summaries(self, summaries: Sequence[Summary]) -> None:
        """Write summaries of messages."""
        await self._open.writer.write_summaries(summaries)

    async def load(self, records: Sequence[Record], *, defer: bool = False) -> None:
        """Write records of any kind unchanged, as an import does. Existing messages stay; others are replaced.

        With `defer`, messages are indexed later, in the background or by `index_deferred`: search finds them then.
        """
        await self._open.writer.load(records, defer=defer)

    async def index_deferred(self, on_batch: Callable[[int], None] = lambda _: None) -> int:
        """Index all messages that were loaded with `defer`; return their number. `on_batch` gets the number so far."""
        done = 0
        while count := await self.store.divide_documents(make_document):
            done += count
            on_batch(done)
        return done

    # -- embedding and search ----------------------------------------------------------------------------------------

    async def wait_indexed(self) -> IndexProgress:
        """Wait until everything that can be indexed now is indexed, and return the progress of embedding."""
        return await self._open.wait_indexed()

    async def index(self, on_progress: IndexCallback = lambda _: None) -> IndexProgress:
        """Embed everything in the backlog now. `on_progress` is called after each batch."""
        indexer = self._open.indexer
        if indexer is None:
            raise InvalidValue("embedder", "is 'none', so nothing can be embedded")
        await indexer.stop()
        try:
            progress = await indexer.drain(on_progress)
        finally:
            if self._indexing is True:
                await indexer.start()
        await self._events.emit("indexed", None, done=progress.done, waiting=progress.waiting)
        return progress

    async def search(  # noqa: PLR0913 - the filters
        self,
        text: str,
        *,
        persona: str | None = None,
        user: str | None = None,
        room: str | None = None,
        other_rooms: Sequence[str] = (),
        user_prefix: str = "",
        prefix: str = "",
        types: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        min_relevance: float | None = None,
        limit: int = 20,
        now: float | datetime | None = None,
    ) -> SearchResult:
        """Search the memories that persona and user may know, and the messages of a room, most relevant first.

        Returns at most `limit` memories and `limit` messages with at least this relevance, ranked as in a build.

        - `other_rooms`: further rooms whose messages are searched.
        - `user_prefix`: in place of `user`, the memories of all users whose ids start with this, such as `"team-7/"`.
          Memories that belong to no user are left out.
        - `prefix`: only memories whose ids start with this.
        - `metadata`: only memories with these values in their metadata.
        """
        check_memory_types(types)
        require_string("prefix", prefix)
        retrieval = self._settings.retrieval.with_overrides(RetrievalOverrides(min_relevance=min_relevance))
        request = SearchRequest(
            room=room,
            other_rooms=_check_rooms(other_rooms),
            memories=await self._memory_scopes(persona, user, room, user_prefix),
            types=tuple(types or retrieval.types),
            prefix=prefix,
            metadata=encode_metadata_filter(metadata),
            limit=limit,
            fallback=retrieval.fallback,
            min_relevance=retrieval.min_relevance,
            half_life=retrieval.half_life,
        )
        moment = self._settings.resolve_time(now, "now")
        return await self._open.retriever.retrieve(make_queries(text), request, now=moment)

    async def list_memories(
        self, *, cursor: str = "", limit: int = 100, **filters: Unpack[MemoryFilters]
    ) -> MemoryPage:
        """Return a page of the memories that match all filters, newest first; `cursor` is `next` of the page before.

        A memory that exists all the while is on exactly one page, whatever else is written. The filters:

        - `user`, `persona`, `room`: memories that belong to it. Other than in `search`, those of everybody are not
          included.
        - `user_prefix`, `prefix`: memories of users whose ids start with this; memories whose ids do.
        - `types`, `pinned`, `summary`: as in the memory. `metadata`: only memories with these values in it.
        - `state`: `proposed` or `rejected` memories in place of active ones; None for all.
        - `ids`, `scopes`: exactly these. `archived=True`: those that the janitor archived or that were superseded.
        """
        if not is_whole_number(limit, 1):
            raise InvalidValue("limit", f"must be a positive integer, not {preview(limit)}")
        before, after = parse_memory_cursor(cursor)
        found = await self.store.memories(before=before, after=after, limit=limit + 1, **filters)
        page = tuple(found[:limit])
        return MemoryPage(memories=page, next=memory_cursor(page[-1]) if len(found) > limit else None)

    async def count_memories(self, **filters: Unpack[MemoryFilters]) -> int:
        """Return the number of memories that match all filters of `list_memories`."""
        return await self.store.count_memories(**filters)

    # -- contexts and answers ----------------------------------------------------------------------------------------

    async def assemble(
        self,
        *,
        room: str,
        persona: str | None = None,
        message: MessageInput | None = None,
        **options: Unpack[AssembleOptions],
    ) -> Context:
        """Build the best context for the next answer in a room, and save its record.

        - `persona`: who answers; by default the one that the message mentions (`@name`), or else the room's own.
        - `message`: what to answer: a string, parts, or a posted message; by default the room's last message.
        - `model`, `policy`, `overrides`: by default the persona's or the engine's.
        - `retrieval`: what to look up for this call: `memories`, `lore`, `media` (whether to have them at all),
          `other_rooms`, memory `types`, `min_relevance`, `max_memories` and others, by default the engine's.
        - `user`, `sender`: whose memories are known, and who sent `message` if it is not posted.
        - `key`: the id of an API key, to count its usage.
        - `media`, `tools`: attached to the request.
        - `focus`: one more thing to search for; by default the room's or the persona's.
        - `system`: replaces the persona's prompt.
        - `window`, `completion`: tokens of the window, and those reserved for the answer.
        - `max_output`: reserved for the answer without a `completion`, but less before required content is shortened.
        - `betas`: beta features that you send in Anthropic's header. Some widen the window.
        - `wire`, `route`: format of the request, and the server it goes to, for calibrated counts.
        - `fields`: further fields of the request, such as `temperature`. `notices`: added to the record.
        - `steps`: messages that follow and are not stored, such as calls of a tool of your own and their results.
          `previous`: the context that they continue. `reserve`: tokens of the window for what you add to the request.
        - `now`: the current time. `save=False` is a dry run: nothing is stored.
        """
        check_options(options, AssembleOptions)
        request = BuildRequest(room=room, persona=persona, message=resolve_message(message), **options)
        return await self._open.builder.assemble(request)

    async def brief(
        self,
        room: str,
        task: str,
        budget: int,
        *,
        persona: str | None = None,
        user: str | None = None,
        model: str | ModelInfo | None = None,
        retrieval: Mapping[str, Any] | RetrievalOverrides | None = None,
        now: float | datetime | None = None,
    ) -> Brief:
        """Return what a helper needs of a room for its task, in at most `budget` tokens.

        Like `brimful.brief`, with the memories, lorebook entries and older messages that match the task. To recall what
        it shortened or left out, pass its `context` to `recall`.

        - `persona`, `user`: on whose behalf, by default the room's own.
        - `model`: the helper's model, by default the persona's or the engine's.
        - `retrieval`: as in `assemble`.
        """
        require_budget(task, budget)
        request = BuildRequest(
            room=room, persona=persona, message=task, user=user, model=model, retrieval=retrieval, now=now, save=False
        )
        return await self._open.builder.brief(request, budget)

    async def recall(
        self,
        handle: str = "",
        *,
        query: str = "",
        max_tokens: int = 1_000,
        context: Context | str | None = None,
        room: str | None = None,
        persona: str | None = None,
        user: str | None = None,
        model: str | ModelInfo | None = None,
    ) -> Recalled:
        """Return what a context or a room holds under a handle or id, in at most `max_tokens`.

        If it does not fit, the parts that match the query are returned. Without a handle, everything that the context
        left out is searched, and all messages and memories that its room, persona and user may see.

        - `context`: a stored context, or its id. It says on whose behalf to recall.
        - `room`: used without a context, with its own `persona` and `user` unless others are passed.
        - `model`: counts the tokens; by default the context's, the persona's or the engine's.
        """
        return await self._open.recaller.recall(
            handle,
            query=query,
            max_tokens=max_tokens,
            context=context,
            room=room,
            persona=persona,
            user=user,
            model=model,
        )

    async def respond(
        self,
        room: str,
        message: MessageInput | None = None,
        *,
        persona: str | None = None,
        **options: Unpack[RespondOptions],
    ) -> Answer:
        """Post a message, build a context, send it to the model, and record the answer in the room.

        Without a message, the room's last message or tool results are answered. Without a `persona`, each persona that
        the message mentions answers in turn (see `Answer.others`), or else the room's own; an unknown one is an error.
        If the provider rejects the request as too long, it is rebuilt for the window that the provider named and sent
        once more. `id` is that of the message. The other options are the same as for `assemble`.
        """
        return await self._open.responder.respond(room, persona, resolve_message(message), options)

    def stream(
        self,
        room: str,
        message: MessageInput | None = None,
        *,
        persona: str | None = None,
        **options: Unpack[RespondOptions],
    ) -> AnswerStream:
        """Like `respond`, but return the answer chunk by chunk."""
        return self._open.responder.stream(room, persona, resolve_message(message), options)

    async def greet(self, room: str, persona: str, *, user: str | None = None, greeting: int = 0) -> Message | None:
        """Post a persona's greeting in an empty room; return None if the room is not empty or there is no greeting.

        `greeting` selects one of its alternative greetings, starting at 1.
        """
        return await self._open.responder.greet(room, persona, user=user, greeting=greeting)

    async def record_response(
        self, context: Context | str, text: str | None = None, **options: Unpack[ResponseOptions]
    ) -> Response:
        """Record an answer that you got from a provider yourself: post it in the room and store its usage.

        The `sender` defaults to the context's persona. `route` names the server that answered, for calibrated counts.
        """
        return await self._open.responder.record_response(context, text, **options)

    async def rate(
        self, response: Response | str, rating: Rating | None, *, note: str = "", at: float | datetime | None = None
    ) -> Response:
        """Store what somebody thinks of an answer: `good` or `bad`, and why. None removes it.

        `response` is the stored response or its id.
        """
        return await self._open.responder.rate(response, rating, note, at)

    # -- requests of your own ----------------------------------------------------------------------------------------

    async def fit(
        self,
        request: dict[str, Any],
        *,
        conversation: str = "",
        route: str = "",
        save: bool = True,
        **options: Unpack[FitOptions],
    ) -> Context:
        """Make a request of your own fit its window, and save its record. Send the `request` of the context.

        Like `brimful.fit`, with counts calibrated by what `observe` has reported, and as a continuation of the
        conversation's request before it. `route` names the server that it goes to. The options are the same as for
        `brimful.fit`. Records are in the room with the name of the conversation, or else in `fit`; without `save`, none
        is written.
        """
        return await self._open.fitter.fit(request, conversation, route, options, save=save)

    async def observe(
        self, context: Context, *, conversation: str = "", **options: Unpack[ResponseOptions]
    ) -> Response:
        """Record the answer to a request that `fit` made, here or without an engine, and learn from its `usage`.

        The record of the context is saved if it is new. No answer is posted unless it is passed as `content`. The
        options are the same as for `record_response`.
        """
        return await self._open.fitter.observe(context, conversation or DEFAULT_ROOM, options)

    async def observe_overflow(self, context: Context, error: ContextOverflow, *, route: str = "") -> None:
        """Learn from a provider that refused a request of `fit` as too long. Later requests fit the window it named."""
        await self._open.fitter.observe_overflow(context, error, route)

    # -- learning ----------------------------------------------------------------------------------------------------

    async def learn(  # noqa: PLR0913 - whose memories, and how to learn them
        self,
        messages: object = None,
        *,
        user: str | None = None,
        persona: str | None = None,
        room: str | None = None,
        from_room: str | None = None,
        model: str | ModelInfo | None = None,
        provider: str | Provider | None = None,
        window: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        now: float | datetime | None = None,
    ) -> LearningReport:
        """Learn memories from a conversation, and report what was added, changed and outdated, and why.

        Facts are learned from what users wrote. What is quoted or pasted in their messages, and what an assistant wrote
        after a call of a tool, is only proposed, unless the engine's `untrusted` says otherwise.

        A fact that corrects a known memory supersedes it. Only memories with exactly the same owners are superseded,
        and never pinned ones. Superseded memories are archived, and `undo_learning` restores them. Messages from which
        was learned before are not read again.

        - `messages`: strings, dicts, objects of an SDK, or `Message` records. With `from_room`, the messages of a room.
        - `user`, `persona`, `room`: whose memories these are; at least one is required. With `from_room` alone, the
          memories are for that room.
        - `model`, `provider`, `window`: the model that extracts the facts, by default that of the engine. If its reply
          cannot be used, `notes` of the report say so, and the next call reads these messages again. So they do if
          own calls reach their daily limit.
        - `metadata`: added to each new memory.
        """
        if (messages is None) == (from_room is None):
            raise InvalidValue("messages", "pass either `messages` or `from_room`")
        for field, value in {"user": user, "persona": persona, "room": room, "from_room": from_room}.items():
            if value is not None:
                validate_id(field, value)
        require_positive("window", window)
        scope = require_scope(persona, user, room, from_room)
        info = self._open.builder.choose_model(model, None)
        found = self._providers.find(provider, None, info)
        self._open.own_calls.require_price(info, found.wire)
        return await self._open.learner.learn(
            messages,
            scope,
            model=LearningModel(model=info, provider=found, window=window),
            metadata=metadata,
            now=self._settings.resolve_time(now, "now"),
        )

    async def undo_learning(self, run: int | None = None) -> JanitorRun | None:
        """Undo a run of `learn`, by default the last one, and return it; None if there is none that was not undone.

        Its memories are removed, those they superseded are back, and its messages can be learned from again.
        """
        if run is not None and not is_whole_number(run, 1):
            raise InvalidValue("run", f"must be the number of a run, not {preview(run)}")
        return await self._open.learner.undo(run)

    # -- janitor -----------------------------------------------------------------------------------------------------

    async def run_janitor(  # noqa: PLR0913 - everything that a run depends on
        self,
        room: str | None = None,
        *,
        older_than: str | float | None = None,
        dry_run: bool = False,
        purge: bool = False,
        summarize: bool = True,
        summarizer: Summarizer | None = None,
        fallback: bool = True,
        focus: str = "",
        now: float | datetime | None = None,
        on_progress: JanitorCallback = lambda _: None,
    ) -> JanitorReport:
        """Clean up one room or all rooms, and report what was done; with `dry_run`, what would be done.

        Floods are collapsed to one line, days are summarized, and older months and years rolled up. With `older_than`
        (`"180d"` or seconds), messages that a summary covers and no context included are archived, and so are duplicate
        memories. `purge` deletes what earlier runs archived. Without `summarize`, no days are summarized and nothing is
        rolled up; the report says how much is `pending`. `summarizer` writes the summaries; by default they quote
        messages, and so they do if it fails; without `fallback`, its error is raised, and what was done so far stays.
        `focus` says what matters most in them, and is searched for in the room; by default it is that of the persona
        `brimful-janitor`. `on_progress` is called with the share of the work done.
        """
        require_string("focus", focus)
        if purge and not summarize:
            raise InvalidValue("purge", "needs `summarize`: days with deleted messages cannot be summarized later")
        if not callable(on_progress):
            raise InvalidValue("on_progress", f"must be a function, not {preview(on_progress)}")
        return await self._open.janitor.run(
            room,
            min_age=parse_age(older_than),
            dry_run=dry_run,
            purge=purge,
            summarize=summarize,
            summarizer=summarizer,
            fallback=fallback,
            focus=focus or "",
            now=self._settings.resolve_time(now, "now"),
            on_progress=on_progress,
        )

    async def audit_memories(
        self,
        user: str | None = None,
        *,
        apply: bool = False,
        unused_for: str | float = "180d",
        now: float | datetime | None = None,
    ) -> AuditReport:
        """Find memories that are not worth having: duplicates, junk, contradicted ones, and those never used.

        With `apply`, duplicates, near-duplicates and junk are archived, in one run that `undo_janitor` undoes. Pinned
        memories never are. The others are only reported, since they need somebody who decides.

        - `user`: only memories of this user, by default all memories.
        - `unused_for`: the age of memories that no context used, as a duration such as `"180d"` or in seconds.
        """
        age = parse_age(unused_for, "unused_for")
        if age is None:
            raise InvalidValue("unused_for", "must be a duration, such as '180d'")
        if user is not None:
            require_string("user", user)
        time = self._settings.resolve_time(now, "now")
        return await self._open.janitor.audit(user, unused_for=age, apply=apply, now=time)

    async def archive_memories(self, ids: Sequence[str]) -> JanitorRun | None:
        """Archive memories, such as those that an audit found, in one run that `undo_janitor` undoes.

        Archived memories are in no context. Pinned and unknown ones are skipped; if there are no others, there is no
        run, and None is returned.
        """
        return await self._open.janitor.archive(
            list(dict.fromkeys(validate_id("ids", id) for id in require_list("ids", ids)))
        )

    async def undo_janitor(self, run: int | None = None) -> JanitorRun | None:
        """Undo the janitor's last run and return it; None if there is none left. Call it again to go further back.

        With the number of a `run`, that one is undone; raises if it is not the last one.
        """
        if run is not None and not is_whole_number(run, 1):
            raise InvalidValue("run", f"must be the number of a run, not {preview(run)}")
        return await self._open.janitor.undo(run)

    async def list_janitor_runs(self, *, limit: int = 20) -> list[JanitorRun]:
        """Return the runs of the janitor and of `learn`, newest first."""
        return await self._open.housekeeping.runs(limit=limit)

    async def count_archived(self) -> dict[str, int]:
        """Return the numbers of archived messages and memories."""
        return await self._open.housekeeping.count_archived()

    def make_summarizer(
        self, model: str | ModelInfo | None = None, *, provider: str | Provider | None = None, window: int | None = None
    ) -> Summarizer:
        """Return a summarizer for `run_janitor` that uses a language model: this one, or the engine's."""
        info = self._open.builder.choose_model(model, None)
        found, own_calls = self._providers.find(provider, None, info), self._open.own_calls
        own_calls.require_price(info, found.wire)
        return ModelSummarizer(info, found, build=self._build, own_calls=own_calls, window=window)

    # -- usage -------------------------------------------------------------------------------------------------------

    async def statistics(
        self,
        *,
        since: float | datetime | None = None,
        until: float | datetime | None = None,
        persona: str | None = None,
        room: str | None = None,
        user: str | None = None,
        key: str | None = None,
        by: Grouping = "",
    ) -> list[Statistics]:
        """Return statistics of contexts and responses in a time span: one, or with `by` one for each group.

        - `persona`, `room`, `user`, `key`: only of these. `key` is the id of an API key. At most one of `room`, `user`
          and `key` may be given.
        - `by`: `"hour"`, `"day"`, `"model"`, `"policy"`, `"persona"`, `"user"` or `"key"`.
        """
        for field, value in (("persona", persona), ("room", room), ("user", user), ("key", key)):
            require_string(field, value)
        start, end = (
            None if each is None else self._settings.resolve_time(each, field)
            for field, each in (("since", since), ("until", until))
        )
        return await self.store.statistics(
            since=start, until=end, persona=persona, room=room, user=user, key=key, by=by
        )

    async def usage(
        self,
        user: str | None = None,
        *,
        key: str | None = None,
        since: float | datetime | None = None,
        until: float | datetime | None = None,
        by: Literal["day", "hour"] = "day",
    ) -> list[PeriodUsage]:
        """Return requests, tokens and cost over time, of one `user`, of one API key by its id, or of all.

        Days and hours are in UTC; those without a request are left out.
        """
        if by not in ("day", "hour"):
            raise InvalidValue("by", f"must be day or hour, not {preview(by)}")
        return list_usage(await self.statistics(since=since, until=until, user=user, key=key, by=by))

    async def own_spending(self, since: float | datetime | None = None) -> OwnSpending:
        """Return what calls of models that the engine made by itself have spent, by kind, and today's limit.

        `since`: only of this UTC day and later ones.
        """
        start = None if since is None else self._settings.resolve_time(since, "since")
        return await self.store.own_spending(now=self._settings.clock(), since=start)

    # -- parts -------------------------------------------------------------------------------------------------------

    @property
    def _open(self) -> EngineParts:
        if self._parts is None:
            raise BrimfulError("the engine is not open: use `async with brimful.Engine(…) as engine`")
        return self._parts

    async def _memory_scopes(
        self, persona: str | None, user: str | None, room: str | None, user_prefix: str
    ) -> tuple[str, ...]:
        """Return the scopes of memories to search."""
        require_string("user_prefix", user_prefix)
        if not user_prefix:
            return memory_scopes(persona, user, room)
        if user is not None:
            raise InvalidValue("user_prefix", "cannot be combined with `user`")
        scopes: list[str] = []
        for owner in dict.fromkeys((None, persona)):
            start = memory_scope(owner, user_prefix, None).removesuffix(":")
            scopes += await self.store.memory_scopes(start, limit=MAX_PREFIX_SCOPES + 1)
        ends = {memory_scope(None, None, owner).rpartition(":")[2] for owner in (None, room)}
        found = tuple(sorted(scope for scope in scopes if scope.rpartition(":")[2] in ends))
        if len(found) > MAX_PREFIX_SCOPES:
            reason = f"matches more than {MAX_PREFIX_SCOPES:,} users; search with a longer prefix"
            raise InvalidValue("user_prefix", reason)
        return found

    async def _start(self) -> EngineParts:
        store = self._database.tenant(self._settings.tenant)
        own_calls = OwnCalls(store, self._limit, clock=self._settings.clock, events=self._events)
        parts = EngineParts(
            store,
            self._database.janitor(self._settings.tenant),
            self._settings,
            embedder=self._embedder if self._database.read_only else own_calls.meter(self._embedder),
            summarizer=self._find_summarizer(own_calls),
            own_calls=own_calls,
            reranker=self._reranker,
            breaker=self._breaker,
            providers=self._providers,
            tokenizers=self._tokenizers,
            events=self._events,
        )
        if self._settings.model and self._settings.uses_tokenizer:
            model = self._settings.model
            info = default_registry().resolve(model) if isinstance(model, str) else model
            self._tokenizers.add(vocabulary_for(info))
        if self._indexing == "elsewhere":
            if self._embedder is not None and not self._database.read_only:
                await parts.store.use_embedder(self._embedder.id)  # from now on, documents are queued for it
        elif self._indexing and not self._database.read_only:
            await parts.start_indexing()
        return parts

    def _find_summarizer(self, own_calls: OwnCalls) -> Summarizer | None:
        if not isinstance(self._summarizer, str):
            return self._summarizer
        model = resolve_model(self._summarizer)
        provider = self._providers.find(None, None, model)
        return ModelSummarizer(model, provider, build=self._build, own_calls=own_calls)

    async def _build(self, request: BuildRequest) -> Context:
        return await self._open.builder.assemble(request)

    def _connect(self) -> Database:
        return connect(self._url, replica=self._replica, keys=self._keys) if isinstance(self._url, str) else self._url

    async def _release_database(self) -> None:
        """Close the database if it is our own, so that the engine can be opened again."""
        if self._owns_database:
            await self._database.close()
            self._database = self._connect()

    async def _list_stores(self) -> AsyncIterator[Store]:
        yield self.store

    async def _report_pruned(self, report: PruneReport) -> None:
        await self._events.emit("pruned", None, builds=report.builds, answers=report.answers, bytes=report.bytes)


def _check_limit(
    limit: SpendingLimit | None, summarizer: str | Summarizer | None, embedder: Embedder | None
) -> SpendingLimit:
    """Return a limit. The models that are known now must have prices if dollars are limited."""
    if limit is None:
        return SpendingLimit()
    if not isinstance(limit, SpendingLimit):
        raise InvalidValue("own_calls", f"must be a SpendingLimit, not {preview(limit)}")
    check_prices(limit, resolve_model(summarizer) if isinstance(summarizer, str) else None, find_billed_model(embedder))
    return limit


def _check_rooms(rooms: object) -> tuple[str, ...]:
    if not isinstance(rooms, list | tuple):
        raise InvalidValue("other_rooms", f"must be a list of rooms, not {preview(rooms)}")
    return tuple(validate_id("other_rooms", room) for room in rooms)
