"""Index in the background: finish the index of imported and very long texts, and embed texts without a vector.

Both work in batches from a backlog in the store, so that a restart loses nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from math import inf
from typing import Any, Final

from brimful.errors import InvalidValue, SpendingLimitReached, StoreError
from brimful.protocols import Embedder
from brimful.records.search import Document, DocumentKind, IndexProgress
from brimful.retrieval.breaker import Breaker
from brimful.retrieval.documents import Searchable, make_document, passage_text
from brimful.retrieval.retriever import EMBED_SECONDS, Rows, embed_checked
from brimful.stores import Store

STORE_RETRY_SECONDS: Final = 5.0  # until a failed store is tried again
BATCH_DOCUMENTS: Final = 256  # documents per call of the embedder and per transaction

IndexCallback = Callable[[IndexProgress], None]

_log = logging.getLogger("brimful")


class Indexer:
    """Embeds every document. What fails waits for the circuit breaker and is retried.

    A document that the embedder rejects on its own is skipped until the next start, so that it does not block others.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        breaker: Breaker,
        clock: Callable[[], float],
        batch: int = BATCH_DOCUMENTS,
        time_limit: float = EMBED_SECONDS,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._breaker = breaker
        self._clock = clock
        self._batch = batch
        self._time_limit = time_limit
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._skipped: set[int] = set()
        self._undivided: int | None = None  # texts that are not indexed to their end; None: not known yet
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to embed the backlog."""
        await self._store.use_embedder(self._embedder.id)
        if self._task is None:  # start may be called twice at once
            self._task = asyncio.create_task(self._run(), name="brimful-indexer")
        self.wake()

    def wake(self) -> None:
        """Look for new documents."""
        self._idle.clear()
        self._wake.set()

    async def stop(self) -> None:
        """Stop. Remaining documents stay in the backlog."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._idle.set()  # wake those who wait, since the task cannot anymore

    async def wait_idle(self) -> IndexProgress:
        """Wait until nothing more can be embedded now, and return the progress."""
        if self._task is not None:
            self.wake()  # another process may have written
            await self._idle.wait()
        return await self._store.index_progress(self._embedder.id)

    async def drain(self, on_progress: IndexCallback) -> IndexProgress:
        """Divide and embed the whole backlog; raise if the embedder fails. `on_progress` is called after each batch.

        Progress is added up from batch to batch, since counting all documents is slow.
        """
        await self._store.use_embedder(self._embedder.id)
        self._skipped.clear()  # the cause may have been fixed
        self._undivided = await self._store.count_undivided()
        before = await self._store.index_progress(self._embedder.id)

        def report(embedded: int) -> None:
            waiting = max(0, before.waiting - embedded) + (self._undivided or 0)
            on_progress(IndexProgress(done=before.done + embedded, waiting=waiting))

        await self._embed_backlog(report)
        return await self._store.index_progress(self._embedder.id)

    @property
    def skipped(self) -> int:
        """The number of documents that the embedder rejected."""
        return len(self._skipped)

    async def embed_queued(self, on_batch: Callable[[], None], *, limit: int) -> int:
        """Embed `limit` documents of the backlog or a few more, and return how many; raise if the embedder fails.

        Unlike `drain`, this neither changes the embedder in use nor counts documents, which is slow.
        """
        self._undivided = await self._store.count_undivided()
        return await self._embed_backlog(lambda _: on_batch(), limit)

    async def _embed_backlog(self, on_batch: Callable[[int], None], limit: float = inf) -> int:
        done, size = 0, self._batch
        while done < limit and (documents := await self._backlog(size)):
            result = await self._try_embed(documents)
            if isinstance(result, int):
                done, size = done + result, self._batch
                on_batch(done)
            elif await self._is_working(result):
                size = self._shrink_batch(documents, result)
            else:
                raise result
        return done

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                wait = await self._catch_up()
            except StoreError as error:
                _log.warning("indexing waits for the store: %s", error)
                wait = STORE_RETRY_SECONDS
            if not self._wake.is_set():  # unless more came meanwhile
                self._idle.set()
            if wait:  # the embedder fails: retry when the breaker allows it, or on a new write
                await wait_for_first(self._wake.wait(), asyncio.sleep(wait))
                self._wake.set()

    async def _catch_up(self) -> float:
        """Embed until the backlog is empty; return 0, or the seconds until the next retry."""
        if self._undivided is None:
            self._undivided = await self._store.count_undivided()
        size = self._batch
        while documents := await self._backlog(size):
            if not self._breaker.allow(self._clock()):
                return max(1.0, self._breaker.retry_in(self._clock()))
            result = await self._try_embed(documents)
            if isinstance(result, int):
                self._breaker.succeeded(self._clock())
                size = self._batch
            elif isinstance(result, SpendingLimitReached):
                self._breaker.cancelled()
                return max(1.0, result.until - self._clock())
            elif await self._is_working(result):
                self._breaker.succeeded(self._clock())
                size = self._shrink_batch(documents, result)
            else:
                _log.warning("embedding failed and will be retried: %s: %s", type(result).__name__, result)
                self._breaker.failed(self._clock())
        return 0.0

    async def _try_embed(self, documents: Sequence[Document]) -> int | Exception:
        """Embed documents and store their vectors; return how many are done, or the embedder's error."""
        try:
            vectors = await self._embed(documents)
            return await self._store.save_vectors(self._embedder.id, [document.doc for document in documents], vectors)
        except (StoreError, asyncio.CancelledError):
            self._breaker.cancelled()
            raise
        except Exception as error:  # noqa: BLE001 - the breaker's boundary: an embedder may be user code
            return error

    async def _is_working(self, error: Exception) -> bool:
        """Whether the embedder accepts a trivial text. Then it rejected the documents, and is not down.

        If the store rejects vectors of a wrong length, no document would help.
        """
        if isinstance(error, InvalidValue | SpendingLimitReached):
            return False
        try:
            await embed_checked(self._embedder, ["ok"], "passage", time_limit=self._time_limit)
        except Exception:  # noqa: BLE001 - the breaker's boundary
            return False
        return True

    def _shrink_batch(self, documents: Sequence[Document], error: Exception) -> int:
        """Return a smaller batch size after an error, until the rejected document is alone."""
        if len(documents) == 1:
            self._skip(documents[0], error)
        return max(1, len(documents) // 8)

    def _skip(self, document: Document, error: Exception) -> None:
        _log.warning("%s %r cannot be embedded: %s: %s", document.kind, document.item, type(error).__name__, error)
        self._skipped.add(document.doc)

    async def _backlog(self, size: int) -> list[Document]:
        """Return documents to embed. When there are none, long texts are divided, which makes more."""
        while True:
            waiting = await self._store.backlog(self._embedder.id, limit=size + len(self._skipped))
            found = [document for document in waiting if document.doc not in self._skipped][:size]
            if found or not self._undivided:
                return found
            divided = await self._store.divide_documents(make_document)
            self._undivided = max(1, self._undivided - divided) if divided else 0

    async def _embed(self, documents: Sequence[Document]) -> Rows:
        records = await self._records(documents)
        passages = [
            passage_text(records[document.doc], document.start, document.stop) if document.doc in records else ""
            for document in documents
        ]
        return await embed_checked(self._embedder, passages, "passage", time_limit=self._time_limit)

    async def _records(self, documents: Sequence[Document]) -> dict[int, Searchable]:
        """Return the records of documents, except those that were removed meanwhile."""
        found: dict[tuple[DocumentKind, str], Searchable] = {}
        for kind in sorted({document.kind for document in documents}):
            ids = [document.item for document in documents if document.kind == kind]
            found |= {(kind, record.id): record for record in await self._read(kind, ids)}
        return {
            document.doc: found[document.kind, document.item]
            for document in documents
            if (document.kind, document.item) in found
        }

    async def _read(self, kind: DocumentKind, ids: Sequence[str]) -> Sequence[Searchable]:
        match kind:
            case "message":
                return await self._store.messages(ids)
            case "memory":
                return await self._store.memories(ids=ids, limit=len(ids))
            case "lore":
                return await self._store.lore(ids=ids)
            case "summary":
                return await self._store.summaries(ids=ids)


async def divide_long_texts(store: Store) -> None:
    """Finish the index of imported and very long texts, where nothing is embedded."""
    if await store.count_undivided():
        while await store.divide_documents(make_document):
            pass


async def wait_for_first(first: Coroutine[Any, Any, object], second: Coroutine[Any, Any, object]) -> None:
    """Wait until one of two coroutines ends, and cancel the other. An error of the one that ended is raised."""
    tasks = [asyncio.create_task(each) for each in (first, second)]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    for task in ended:
        task.result()
