"""Embed documents in the background, in batches from a backlog in the store, so that a restart loses nothing."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from brimful.errors import InvalidValue, StoreError
from brimful.protocols import Embedder
from brimful.records.search import Document, DocumentKind, IndexProgress
from brimful.retrieval.breaker import Breaker
from brimful.retrieval.documents import Searchable, make_document
from brimful.retrieval.retriever import Rows, embed_checked
from brimful.stores import Store

STORE_RETRY_SECONDS: Final = 5.0  # until a store that failed is asked again
BATCH_DOCUMENTS: Final = 256  # documents an embedder gets at once, and a transaction keeps

IndexCallback = Callable[[IndexProgress], None]

_log = logging.getLogger("brimful")


class Indexer:
    """Gives every document its vector. What fails waits: for the breaker, and then for the next round.

    A document that its embedder refuses by itself is left out until the next start, so that it holds up no other.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        breaker: Breaker,
        clock: Callable[[], float],
        batch: int = BATCH_DOCUMENTS,
    ) -> None:
        """Embed what waits in this store."""
        self._store = store
        self._embedder = embedder
        self._breaker = breaker
        self._clock = clock
        self._batch = batch
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._refused: set[int] = set()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to wait for this embedder's vectors, and to make them."""
        await self._store.use_embedder(self._embedder.id)
        if self._task is None:  # two may have asked for it at once
            self._task = asyncio.create_task(self._run(), name="brimful-indexer")
        self.wake()

    def wake(self) -> None:
        """Say that there may be something to do."""
        self._idle.clear()
        self._wake.set()

    async def stop(self) -> None:
        """Stop. What is not done stays in the backlog."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._idle.set()  # nobody is left who would say so to those that wait for it

    async def wait_idle(self) -> IndexProgress:
        """Wait until nothing is left that can be done now, and return how far it came."""
        if self._task is not None:
            self.wake()  # another process may have written
            await self._idle.wait()
        return await self._store.index_progress(self._embedder.id)

    async def drain(self, tell: IndexCallback) -> IndexProgress:
        """Embed all that waits, here and now, telling of each batch. An embedder that is in trouble ends it.

        How far it is, is reckoned on from batch to batch: to count all documents takes as long as to embed some.
        """
        await self._store.use_embedder(self._embedder.id)
        self._refused.clear()  # whoever asks for it may have mended what was amiss
        far, size = await self._store.index_progress(self._embedder.id), self._batch
        while documents := await self._backlog(size):
            settled = await self._tried(documents)
            if isinstance(settled, int):
                far, size = IndexProgress(done=far.done + settled, waiting=max(0, far.waiting - settled)), self._batch
                tell(far)
            elif await self._is_well(settled):
                size = self._fewer(documents, settled)
            else:
                raise settled
        return await self._store.index_progress(self._embedder.id)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                wait = await self._catch_up()
            except StoreError as error:
                _log.warning("embedding waits for the store: %s", error)
                wait = STORE_RETRY_SECONDS
            if not self._wake.is_set():  # or more came while this was done
                self._idle.set()
            if wait:  # the embedder is in trouble: look again when the breaker lets a probe through, or on a new write
                await _wait_for_first(self._wake.wait(), asyncio.sleep(wait))
                self._wake.set()

    async def _catch_up(self) -> float:
        """Embed until nothing waits; return 0, or the seconds after which it is worth trying again."""
        size = self._batch
        while documents := await self._backlog(size):
            if not self._breaker.allow(self._clock()):
                return max(1.0, self._breaker.retry_in(self._clock()))
            settled = await self._tried(documents)
            if isinstance(settled, int):
                self._breaker.succeeded(self._clock())
                size = self._batch
            elif await self._is_well(settled):
                self._breaker.succeeded(self._clock())
                size = self._fewer(documents, settled)
            else:
                _log.warning("embedding failed, and will be tried again: %s: %s", type(settled).__name__, settled)
                self._breaker.failed(self._clock())
        return 0.0

    async def _tried(self, documents: Sequence[Document]) -> int | Exception:
        """Embed documents and keep their vectors; return how many wait no longer, or what the embedder did wrong."""
        try:
            vectors = await self._embed(documents)
            return await self._store.save_vectors(self._embedder.id, [document.doc for document in documents], vectors)
        except (StoreError, asyncio.CancelledError):
            self._breaker.cancelled()
            raise
        except Exception as error:  # noqa: BLE001 - the breaker's boundary: an embedder is anybody's code
            return error

    async def _is_well(self, error: Exception) -> bool:
        """Say whether the embedder takes a text that nobody could refuse: then it was the documents that it refused.

        For vectors that the store does not take, since they are longer or shorter than others, no document can help.
        """
        if isinstance(error, InvalidValue):
            return False
        try:
            await embed_checked(self._embedder, ["ok"], "passage")
        except Exception:  # noqa: BLE001 - the breaker's boundary
            return False
        return True

    def _fewer(self, documents: Sequence[Document], error: Exception) -> int:
        """Return how many documents to try after an error: fewer, until the one that is refused stands alone."""
        if len(documents) == 1:
            self._refuse(documents[0], error)
        return max(1, len(documents) // 8)

    def _refuse(self, document: Document, error: Exception) -> None:
        _log.warning("%s %r is not embedded: %s: %s", document.kind, document.item, type(error).__name__, error)
        self._refused.add(document.doc)

    async def _backlog(self, size: int) -> list[Document]:
        waiting = await self._store.backlog(self._embedder.id, limit=size + len(self._refused))
        return [document for document in waiting if document.doc not in self._refused][:size]

    async def _embed(self, documents: Sequence[Document]) -> Rows:
        records = await self._records(documents)
        passages = [
            make_document(records[document.doc]).passage if document.doc in records else "" for document in documents
        ]
        return await embed_checked(self._embedder, passages, "passage")

    async def _records(self, documents: Sequence[Document]) -> dict[int, Searchable]:
        """Return the record of each document; one that was removed meanwhile has none."""
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


async def _wait_for_first(first: Coroutine[Any, Any, object], second: Coroutine[Any, Any, object]) -> None:
    tasks = [asyncio.create_task(each) for each in (first, second)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
