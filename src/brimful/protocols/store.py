"""The seam of a store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from brimful.protocols.log import Log
from brimful.records import Content, Entity, LoreEntry, Memory, Message, Record, Room, Summary
from brimful.records.search import (
    CountedMessage,
    Document,
    IndexEntry,
    IndexProgress,
    Postings,
    TermQuery,
    VectorHit,
    VectorQuery,
)

if TYPE_CHECKING:
    from brimful.protocols.embedder import Vectors

R = TypeVar("R", bound=Entity)


class Store(Log, Protocol):
    """All that one tenant has. No record of another tenant can be named, found or changed through it.

    Writing is idempotent by id: a record written twice is one record, and the first one stands where records are facts
    (messages, responses, snapshots). What is written is durable when the call returns.

    A scope is a set of documents that are searched together: `room:ID`, `lorebook:ID`, or `memory:PERSONA:USER:ROOM`,
    in which an empty name stands for any. Terms, passages and counts are given by the caller, who knows how to read.
    """

    @property
    def tenant(self) -> str:
        """Whose store it is."""
        ...

    # -- people and places -------------------------------------------------------------------------------------------

    async def put(self, record: Entity) -> None:
        """Write a user, persona, room or lorebook, in the place of the one with its id."""
        ...

    async def get(self, kind: type[R], id: str) -> R | None:
        """Return the record of that id."""
        ...

    async def listed(self, kind: type[R], *, after: str = "", limit: int = 100) -> list[R]:
        """Return records by id, from the first one after `after`."""
        ...

    async def rooms_of(self, user: str, *, limit: int = 20) -> list[Room]:
        """Return the rooms of a user, those first in which something was said last."""
        ...

    async def sizes(self, ids: Sequence[str]) -> dict[str, int]:
        """Return how many messages these rooms hold, those that the janitor set aside among them."""
        ...

    async def remove(self, kind: type[Entity], id: str) -> bool:
        """Remove a record and all that belongs to it; False if there is none."""
        ...

    # -- messages ----------------------------------------------------------------------------------------------------

    async def post(self, messages: Sequence[tuple[Message, IndexEntry]]) -> list[Message]:
        """Append messages to their rooms, and return them as they stand: with their `seq`, and the first of each id.

        Rooms that are not there yet are made.
        """
        ...

    async def history(
        self, room: str, *, before: int | None = None, limit: int = 100, tokenizer: str = "", aside: bool = False
    ) -> list[CountedMessage]:
        """Return messages of a room, newest first, older than the `seq` `before`, with their stored counts.

        With `aside`, those that the janitor set aside are among them.
        """
        ...

    async def messages(self, ids: Sequence[str]) -> list[Message]:
        """Return the messages of these ids, in this order, those that are there."""
        ...

    async def messages_at(
        self, room: str, seqs: Sequence[int], *, tokenizer: str = "", aside: bool = False
    ) -> list[CountedMessage]:
        """Return the messages at these places of a room, in order, those that are there, with their stored counts.

        With `aside`, those that the janitor set aside are among them.
        """
        ...

    async def edit(self, id: str, content: Content, indexed: IndexEntry, *, at: float) -> Message | None:
        """Give a message another content; None if there is no such message."""
        ...

    async def delete(self, id: str, *, erase: bool = False) -> bool:
        """Take a message out of its room; with `erase`, its content leaves past contexts, too."""
        ...

    async def hide(self, ids: Sequence[str], *, why: str) -> list[str]:
        """Keep messages from models, and return the ids of those that were not hidden: metadata say so, and `why`.

        They stay, and are exported. No search finds them, and summaries that may tell of them are removed.
        """
        ...

    # -- memories ----------------------------------------------------------------------------------------------------

    async def remember(self, memories: Sequence[tuple[Memory, IndexEntry]]) -> None:
        """Write memories, each in the place of the one with its id; accesses are kept."""
        ...

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
        """Return memories, newest first, that meet all that is said.

        `before` is a time; with `after`, those of that very time whose ids come behind it are among them.
        """
        ...

    async def pin(self, id: str, *, pinned: bool = True) -> bool:
        """Pin a memory, or let it go again; False if there is none of that id."""
        ...

    async def forget(self, id: str, *, erase: bool = False) -> bool:
        """Remove a memory; with `erase`, its content leaves past contexts, too."""
        ...

    async def touch(self, ids: Iterable[str], *, at: float) -> None:
        """Count one access to each of these memories."""
        ...

    # -- lore and summaries ------------------------------------------------------------------------------------------

    async def write_lore(self, entries: Sequence[tuple[LoreEntry, IndexEntry]]) -> None:
        """Write lorebook entries, each in the place of the one with its id."""
        ...

    async def lore(
        self, lorebooks: Sequence[str] | None = None, *, ids: Sequence[str] | None = None
    ) -> list[LoreEntry]:
        """Return the entries of these lorebooks, or those of these ids, by their order."""
        ...

    async def remove_lore(self, id: str) -> bool:
        """Remove an entry."""
        ...

    async def summarize(self, summaries: Sequence[tuple[Summary, IndexEntry]]) -> None:
        """Write summaries, each in the place of the one with its id."""
        ...

    async def summaries(self, room: str | None = None, *, ids: Sequence[str] | None = None) -> list[Summary]:
        """Return the summaries of a room, or those of these ids, newest first."""
        ...

    async def remove_summary(self, id: str) -> bool:
        """Remove a summary."""
        ...

    # -- all of it --------------------------------------------------------------------------------------------------

    def records(self) -> AsyncIterator[Record]:
        """Return all records, what is referred to before what refers to it; deleted messages are not among them."""
        ...

    async def load(self, records: Iterable[Record], indexed: Callable[[Any], IndexEntry]) -> int:
        """Write records of any kind as they were, messages with their `seq`; `indexed` tells how each is found."""
        ...

    # -- counts ------------------------------------------------------------------------------------------------------

    async def counts(self, tokenizer: str, hashes: Sequence[str]) -> dict[str, int]:
        """Return the stored counts of texts, by their hash."""
        ...

    async def keep_counts(self, tokenizer: str, counts: Mapping[str, int]) -> None:
        """Keep counts of texts, by their hash."""
        ...

    # -- the index ---------------------------------------------------------------------------------------------------

    async def postings(self, asked: Sequence[TermQuery]) -> list[Postings]:
        """Return where terms occur in scopes, question by question, in at most `most` rows of each.

        Terms are read from the rarest on; of the others it is only told how often they occur. If even the rarest occurs
        more often, its newest documents are given.
        """
        ...

    async def nearest(self, embedder: str, asked: Sequence[VectorQuery], *, limit: int) -> list[list[VectorHit]]:
        """Return the documents of scopes whose vectors are nearest to a vector, nearest first, question by question."""
        ...

    async def documents(self, docs: Sequence[int]) -> list[Document]:
        """Return the entries of these numbers, in this order, those that are there."""
        ...

    async def version(self, scopes: Sequence[str]) -> str:
        """Return a text that changes whenever a document of the scopes is written, by any process."""
        ...

    async def use_embedder(self, embedder: str) -> None:
        """From now on, every document gets a vector by this embedder: those that have none yet begin to wait for it."""
        ...

    async def drop_embedder(self, embedder: str) -> None:
        """Forget all vectors by this embedder, and wait for none."""
        ...

    async def embedders(self) -> list[str]:
        """Return the embedders in use, the newest first."""
        ...

    async def backlog(self, embedder: str, *, limit: int = 100) -> list[Document]:
        """Return documents that wait for a vector by this embedder, oldest first."""
        ...

    async def keep_vectors(self, embedder: str, docs: Sequence[int], vectors: Vectors) -> int:
        """Keep the vectors of documents, and return how many wait no longer.

        They are kept by the hash of the passage: documents with an equal one are among them.
        """
        ...

    async def progress(self, embedder: str) -> IndexProgress:
        """Return how many documents have a vector by this embedder, and how many wait."""
        ...
