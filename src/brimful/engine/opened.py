"""An engine's parts, opened and closed together."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from brimful.answers import Progress, Pruned
from brimful.core import check
from brimful.core.model import ModelInfo
from brimful.core.policy import Policy
from brimful.counting import vocabulary_for
from brimful.embedding import embedder_for
from brimful.engine.answer import AnswerStream
from brimful.engine.build import Builder
from brimful.engine.event import Event, EventName, Hook, hooks_of, tell
from brimful.engine.expected import LastRequests
from brimful.engine.indexer import Indexer, Tell
from brimful.engine.lessons import Lessons
from brimful.engine.prefixes import Prefixes
from brimful.engine.retention import Retention
from brimful.engine.routes import Providers
from brimful.engine.settings import Retrieval, settings_of
from brimful.errors import BrimfulError, InvalidValue
from brimful.models import default_registry
from brimful.packagers.package import seconds
from brimful.protocols import Embedder, Provider, Store
from brimful.retrieval.breaker import Breaker
from brimful.retrieval.cache import Cache
from brimful.retrieval.retriever import Retriever
from brimful.retrieval.wanted import Retrieved
from brimful.stores import Database, Keys, connect


class Parts:
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
        cache = Cache[Retrieved](most=settings.cache_results, ttl=settings.cache_seconds)
        self.retriever = Retriever(
            store, embedder, clock=clock, breaker=breaker, cache=cache, time_limit=settings.time_limit
        )
        self.builder = Builder(store, self.retriever, settings)
        self.prefixes = Prefixes(store)
        self.lessons = Lessons(store)
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
        self._providers = Providers(provider, clock)
        self._embedder = embedder_for(embedder)
        self._settings = settings_of(retrieval)
        self._hooks = hooks_of(hooks)
        self._clock = clock
        self._vocabularies: dict[str, None] = {}
        self._breaker = Breaker(now=clock(), failures=self._settings.failures, cooldown=self._settings.cooldown)
        self._streams: WeakSet[AnswerStream] = WeakSet()
        self._open: Parts | None = None
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

    async def _started(self) -> Parts:
        parts = Parts(self._database.tenant(self._tenant), self._embedder, self._breaker, self._settings, self._clock)
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
    def _parts(self) -> Parts:
        if self._open is None:
            raise BrimfulError("the engine is not open: use `async with brimful.Engine(…) as engine`")
        return self._open

    async def _own(self) -> list[Store]:
        return [self.store]

    async def _pruned(self, gone: Pruned) -> None:
        await self._tell("pruned", None, builds=gone.builds, answers=gone.answers, bytes=gone.bytes)

    def _connected(self) -> Database:
        return connect(self._url, keys=self._keys) if isinstance(self._url, str) else self._url

    # -- embedding ---------------------------------------------------------------------------------------------------

    async def settled(self) -> Progress:
        """Wait until all that can be embedded now is embedded, and return how far it came."""
        indexer = self._parts.indexer
        return Progress(done=0, waiting=0) if indexer is None else await indexer.settled()

    async def index(self, told: Tell = lambda _: None) -> Progress:
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
            await tell(self._hooks, Event(name=name, at=self._clock(), tenant=self._tenant, room=room, facts=facts))

    def _moment(self, at: float | datetime | None, field: str = "at") -> float:
        try:
            return self._clock() if at is None else check.moment(field, seconds(at), InvalidValue)
        except InvalidValue as error:
            raise InvalidValue(field, error.reason) from None
