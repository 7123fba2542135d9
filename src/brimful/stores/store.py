"""The store of one tenant: each method is one function, in one transaction, on another thread."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, TypeVar

from brimful.answers import Counted, Document, Indexed, Meaning, Near, Postings, Progress, Words
from brimful.core import check
from brimful.records import (
    Content,
    LoreEntry,
    Memory,
    Message,
    Plain,
    Record,
    Room,
    Summary,
)
from brimful.stores import counts as _counts
from brimful.stores import documents as _documents
from brimful.stores import (
    exporting,
    pending,
    plain,
    posting,
    removal,
    rooms,
)
from brimful.stores import lore as _lore
from brimful.stores import memories as _memories
from brimful.stores import messages as _messages
from brimful.stores import scopes as _scopes
from brimful.stores import summaries as _summaries
from brimful.stores import vectors as _vectors
from brimful.stores.content_cache import ContentCache
from brimful.stores.driver import Driver
from brimful.stores.logbook import Logbook
from brimful.stores.transactions import limited
from brimful.stores.vault import Vault

if TYPE_CHECKING:
    from brimful.protocols import Vectors

R = TypeVar("R", bound=Plain)


class TenantStore(Logbook):
    """All that one tenant has. See `brimful.protocols.Store` for what each method promises."""

    def __init__(self, driver: Driver, tenant: str, vault: Vault) -> None:
        """Bind a database to a tenant."""
        super().__init__(driver, tenant, vault)
        self._contents = ContentCache()

    # -- people and places -------------------------------------------------------------------------------------------

    async def put(self, record: Plain) -> None:
        """Write a user, persona, room or lorebook, in the place of the one with its id."""
        await self._write(lambda session: plain.put(session, record))

    async def get(self, kind: type[R], id: str) -> R | None:
        """Return the record of that id."""
        return await self._read(lambda session: plain.get(session, kind, id))

    async def listed(self, kind: type[R], *, after: str = "", limit: int = 100) -> list[R]:
        """Return records by id, from the first one after `after`."""
        most = limited(limit)
        return await self._read(lambda session: plain.listed(session, kind, after, most))

    async def rooms_of(self, user: str, *, limit: int = 20) -> list[Room]:
        """Return the rooms of a user, those first in which something was said last."""
        most = limited(limit)
        return await self._read(lambda session: rooms.rooms_of(session, user, most))

    async def sizes(self, ids: Sequence[str]) -> dict[str, int]:
        """Return how many messages these rooms hold, those that the janitor set aside among them."""
        return await self._read(lambda session: rooms.sizes(session, ids))

    async def remove(self, kind: type[Plain], id: str) -> bool:
        """Remove a record and all that belongs to it; False if there is none."""
        return await self._write(lambda session: removal.remove(session, kind, id))

    # -- messages ----------------------------------------------------------------------------------------------------

    async def post(self, messages: Sequence[tuple[Message, Indexed]]) -> list[Message]:
        """Append messages to their rooms, and return them as they stand."""
        return await self._write(lambda session: posting.post(session, messages))

    async def history(
        self, room: str, *, before: int | None = None, limit: int = 100, tokenizer: str = "", aside: bool = False
    ) -> list[Counted]:
        """Return messages of a room, newest first, older than the `seq` `before`, with their stored counts.

        With `aside`, those that the janitor set aside are among them.
        """
        most, end = limited(limit), check.LARGEST if before is None else min(before, check.LARGEST)
        return await self._read(
            lambda session: _messages.history(session, self._contents, room, end, most, tokenizer, aside=aside)
        )

    async def messages(self, ids: Sequence[str]) -> list[Message]:
        """Return the messages of these ids, in this order, those that are there."""
        return await self._read(lambda session: _messages.messages(session, ids))

    async def messages_at(
        self, room: str, seqs: Sequence[int], *, tokenizer: str = "", aside: bool = False
    ) -> list[Counted]:
        """Return the messages at these places of a room, in order, those that are there, with their stored counts.

        With `aside`, those that the janitor set aside are among them.
        """
        return await self._read(
            lambda session: _messages.messages_at(session, self._contents, room, seqs, tokenizer, aside=aside)
        )

    async def edit(self, id: str, content: Content, indexed: Indexed, *, at: float) -> Message | None:
        """Give a message another content; None if there is no such message."""
        return await self._write(lambda session: posting.edit(session, id, content, indexed, at))

    async def delete(self, id: str, *, erase: bool = False) -> bool:
        """Take a message out of its room; with `erase`, its content leaves past contexts, too."""
        return await self._write(lambda session: posting.delete(session, id, forever=erase))

    async def hide(self, ids: Sequence[str], *, why: str) -> list[str]:
        """Keep messages from models, and return the ids of those that were not hidden: metadata say so, and `why`."""
        return await self._write(lambda session: posting.hide(session, ids, why))

    # -- memories ----------------------------------------------------------------------------------------------------

    async def remember(self, memories: Sequence[tuple[Memory, Indexed]]) -> None:
        """Write memories, each in the place of the one with its id; accesses are kept."""
        await self._write(lambda session: _memories.remember(session, memories))

    async def memories(
        self,
        *,
        ids: Sequence[str] | None = None,
        scopes: Sequence[str] | None = None,
        types: Sequence[str] = (),
        pinned: bool | None = None,
        before: float | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[Memory]:
        """Return memories, newest first, that meet all that is said."""
        most = limited(limit)
        return await self._read(
            lambda session: _memories.memories(
                session,
                ids=ids,
                scopes=scopes,
                types=types,
                pinned=pinned,
                before=before,
                after=after,
                limit=most,
            )
        )

    async def pin(self, id: str, *, pinned: bool = True) -> bool:
        """Pin a memory, or let it go again; False if there is none of that id."""
        return await self._write(lambda session: _memories.pin(session, id, pinned=pinned))

    async def forget(self, id: str, *, erase: bool = False) -> bool:
        """Remove a memory; with `erase`, its content leaves past contexts, too."""
        return await self._write(lambda session: _memories.forget(session, id, forever=erase))

    async def touch(self, ids: Iterable[str], *, at: float) -> None:
        """Count one access to each of these memories."""
        await self._write(lambda session: _memories.touch(session, ids, at))

    # -- lore and summaries ------------------------------------------------------------------------------------------

    async def write_lore(self, entries: Sequence[tuple[LoreEntry, Indexed]]) -> None:
        """Write lorebook entries, each in the place of the one with its id."""
        await self._write(lambda session: _lore.write_lore(session, entries))

    async def lore(
        self, lorebooks: Sequence[str] | None = None, *, ids: Sequence[str] | None = None
    ) -> list[LoreEntry]:
        """Return the entries of these lorebooks, or those of these ids, by their order."""
        return await self._read(lambda session: _lore.lore(session, lorebooks, ids))

    async def remove_lore(self, id: str) -> bool:
        """Remove an entry."""
        return await self._write(lambda session: _lore.remove_lore(session, id))

    async def summarize(self, summaries: Sequence[tuple[Summary, Indexed]]) -> None:
        """Write summaries, each in the place of the one with its id."""
        await self._write(lambda session: _summaries.summarize(session, summaries))

    async def summaries(self, room: str | None = None, *, ids: Sequence[str] | None = None) -> list[Summary]:
        """Return the summaries of a room, or those of these ids, newest first."""
        return await self._read(lambda session: _summaries.summaries(session, room, ids))

    async def remove_summary(self, id: str) -> bool:
        """Remove a summary."""
        return await self._write(lambda session: _summaries.remove_summary(session, id))

    # -- counts ------------------------------------------------------------------------------------------------------

    async def counts(self, tokenizer: str, hashes: Sequence[str]) -> dict[str, int]:
        """Return the stored counts of texts, by their hash."""
        return await self._read(lambda session: _counts.counts(session, tokenizer, hashes))

    async def keep_counts(self, tokenizer: str, counts: Mapping[str, int]) -> None:
        """Keep counts of texts, by their hash."""
        await self._write(lambda session: _counts.keep_counts(session, tokenizer, counts))

    # -- the index ---------------------------------------------------------------------------------------------------

    async def postings(self, asked: Sequence[Words]) -> list[Postings]:
        """Return where terms occur in scopes, question by question: rare terms are read, common ones counted."""
        from brimful.stores.postings import postings  # noqa: PLC0415 - numpy, only where something is searched

        for words in asked:
            limited(words.most)
        return await self._read(lambda session: postings(session, asked))

    async def documents(self, docs: Sequence[int]) -> list[Document]:
        """Return the entries of these numbers, in this order, those that are there."""
        return await self._read(lambda session: _documents.documents(session, docs))

    async def version(self, scopes: Sequence[str]) -> str:
        """Return a text that changes whenever a document of the scopes is written, by any process."""
        return await self._read(lambda session: _scopes.version(session, scopes))

    async def nearest(self, embedder: str, asked: Sequence[Meaning], *, limit: int) -> list[list[Near]]:
        """Return the documents of scopes whose vectors are nearest to a vector, nearest first, question by question."""
        most = limited(limit)
        return await self._read(lambda session: _vectors.nearest(session, embedder, asked, most))

    async def use_embedder(self, embedder: str) -> None:
        """From now on, every document gets a vector by this embedder."""
        await self._write(lambda session: _vectors.use_embedder(session, embedder))

    async def drop_embedder(self, embedder: str) -> None:
        """Forget all vectors by this embedder, and wait for none."""
        await self._write(lambda session: _vectors.drop_embedder(session, embedder))

    async def embedders(self) -> list[str]:
        """Return the embedders in use, the newest first."""
        return await self._read(pending.embedders)

    async def backlog(self, embedder: str, *, limit: int = 100) -> list[Document]:
        """Return documents that wait for a vector by this embedder, oldest first."""
        most = limited(limit)
        return await self._read(lambda session: _vectors.backlog(session, embedder, most))

    async def keep_vectors(self, embedder: str, docs: Sequence[int], vectors: "Vectors") -> int:
        """Keep the vectors of documents, by the hash of the passage; return how many documents wait no longer."""
        return await self._write(lambda session: _vectors.keep_vectors(session, embedder, docs, vectors))

    async def progress(self, embedder: str) -> Progress:
        """Return how many documents have a vector by this embedder, and how many wait."""
        return await self._read(lambda session: _vectors.progress(session, embedder))

    # -- all at once -------------------------------------------------------------------------------------------------

    def records(self) -> AsyncIterator[Record]:
        """Return all records, what is referred to before what refers to it; deleted messages are not among them."""
        return exporting.exported(self._read)

    async def load(self, records: Iterable[Record], indexed: Callable[[Any], Indexed]) -> int:
        """Write records as they were, `indexed` telling how each is found; return how many."""
        count = 0
        for _, group in groupby(records, key=type):
            while batch := list(islice(group, exporting.PAGE)):
                await self._write(partial(exporting.load, records=batch, indexed=indexed))
                count += len(batch)
        return count
