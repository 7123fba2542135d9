"""The store of one tenant. Each method runs in one transaction, on a worker thread."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from brimful.core import validation
from brimful.errors import InvalidValue
from brimful.records import (
    Content,
    Entity,
    Inclusion,
    LoreEntry,
    Memory,
    Message,
    Record,
    Response,
    Room,
    Snapshot,
    Summary,
)
from brimful.records.search import (
    Accuracy,
    Build,
    CountedMessage,
    Document,
    IndexEntry,
    IndexProgress,
    LogPage,
    Postings,
    PruneReport,
    TermQuery,
    VectorHit,
    VectorQuery,
)
from brimful.records.statistics import Grouping, Statistics
from brimful.records.usage import UsageReport
from brimful.stores.admin import export
from brimful.stores.backends.driver import Driver
from brimful.stores.encryption.keyring import Keyring
from brimful.stores.index import documents as _documents
from brimful.stores.log import contexts as _contexts
from brimful.stores.log import responses as _responses
from brimful.stores.log import retention
from brimful.stores.log import statistics as _statistics
from brimful.stores.log import usage as _usage
from brimful.stores.tables import contents as _contents
from brimful.stores.tables import entities, removal
from brimful.stores.tables import lore_entries as _lore_entries
from brimful.stores.tables import memories as _memories
from brimful.stores.tables import messages as _messages
from brimful.stores.tables import summaries as _summaries
from brimful.stores.tables.contents import ContentCache
from brimful.stores.transactions import Transactions, validate_limit
from brimful.stores.vectors import embedders as _embedders

if TYPE_CHECKING:
    from brimful.protocols import Vectors


class Logbook(Transactions):
    """Keeps what was built and answered. See `brimful.protocols.Log` for what each method promises."""

    # -- contexts ----------------------------------------------------------------------------------------------------

    async def save(self, snapshot: Snapshot, response: Response | None = None) -> None:
        """Keep a build with every decision, and its answer if that is known."""
        if response is None:
            await self._write(lambda session: _contexts.save_snapshots(session, [snapshot]))
        else:
            await self._write(lambda session: _responses.save_with_response(session, snapshot, response))

    async def snapshot(self, id: str) -> Snapshot | None:
        """Return a build as it was; content that was erased since then is empty."""
        return await self._read(lambda session: _contexts.get_snapshot(session, id))

    async def build(self, id: str) -> Build | None:
        """Return a build in one line."""
        return await self._read(lambda session: _contexts.get_build(session, id))

    async def builds(
        self,
        *,
        room: str | None = None,
        persona: str | None = None,
        model: str | None = None,
        message: str | None = None,
        since: float | None = None,
        until: float | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Build]:
        """Return builds that meet all that is said, newest first; `message` is what they answer, `before` a number."""
        most, begin, end = validate_limit(limit), _validate_time("since", since), _validate_time("until", until)
        if before is not None and not validation.is_whole_number(before, 0):
            raise InvalidValue("before", f"must be the number of a build, not {validation.preview(before)}")
        return await self._read(
            lambda session: _contexts.list_builds(
                session,
                room=room,
                persona=persona,
                model=model,
                message=message,
                since=begin,
                until=end,
                before=before,
                limit=most,
            )
        )

    async def inclusions(
        self, *, item: str | None = None, snapshot: str | None = None, limit: int = 1000
    ) -> list[Inclusion]:
        """Return what became of an item in each build, or of all items in one, newest first."""
        most = validate_limit(limit)
        return await self._read(lambda session: _contexts.list_inclusions(session, item, snapshot, most))

    async def respond(self, response: Response) -> None:
        """Keep an answer, linked to its context."""
        await self._write(lambda session: _responses.save_responses(session, [response]))

    async def responses(
        self, *, room: str | None = None, context: str | None = None, message: str | None = None, limit: int = 100
    ) -> list[Response]:
        """Return answers of a room, to a context, or the one that is a message, newest first."""
        most = validate_limit(limit)
        return await self._read(
            lambda session: _responses.list_responses(session, room=room, context=context, message=message, limit=most)
        )

    # -- the log -----------------------------------------------------------------------------------------------------

    async def follow(self, cursor: str = "", *, limit: int = 100) -> LogPage:
        """Return builds and answers that came after a place in the log, in the order of arrival."""
        most = validate_limit(limit)
        return await self._read(lambda session: _responses.follow_log(session, cursor, most))

    async def statistics(
        self,
        *,
        since: float | None = None,
        until: float | None = None,
        persona: str | None = None,
        room: str | None = None,
        by: Grouping = "",
    ) -> list[Statistics]:
        """Return the figures of a time, told apart by what is said."""
        if by not in get_args(Grouping):
            known = ", ".join(filter(None, get_args(Grouping)))
            raise InvalidValue("by", f"must be one of {known}, not {validation.preview(by)}")
        begin, end = _validate_time("since", since), _validate_time("until", until)
        return await self._read(
            lambda session: _statistics.compute_statistics(
                session, since=begin, until=end, persona=persona, room=room, by=by
            )
        )

    async def prune(
        self, *, before: float, dry_run: bool = False, told: Callable[[PruneReport], None] = lambda _: None
    ) -> PruneReport:
        """Remove what was built and answered before the whole hour of a time; return what went, or would go."""
        hour = retention.start_of_hour(validation.require_timestamp("before", before, InvalidValue))
        if dry_run:
            return await self._read(lambda session: retention.count_prunable(session, hour))
        parts: list[PruneReport] = []
        for step in (retention.prune_events, retention.prune_contents):
            while (part := await self._write(partial(step, before=hour))) is not None:
                parts.append(part)
                told(retention.sum_reports(hour, parts))
        return retention.sum_reports(hour, parts)

    # -- what requests came to ---------------------------------------------------------------------------------------

    async def observe(self, observation: UsageReport) -> None:
        """Keep what became of a request; the first of an id stands."""
        await self._write(lambda session: _usage.save_usage(session, observation))

    async def observations(
        self,
        model: str | None = None,
        route: str | None = None,
        *,
        ids: Sequence[str] | None = None,
        before: float | None = None,
        unusual: bool = False,
        limit: int = 256,
    ) -> list[UsageReport]:
        """Return what was observed (of a model, on a route), newest first; `unusual` are overflows and cuts alone."""
        most = validate_limit(limit)
        return await self._read(
            lambda session: _usage.list_usage(
                session, model=model, route=route, ids=ids, before=before, unusual=unusual, limit=most
            )
        )

    async def accuracy(self, *, since: float | None = None, model: str | None = None) -> list[Accuracy]:
        """Return how well prompts were counted since a time, by model and route."""
        return await self._read(lambda session: _usage.compute_accuracy(session, since, model))


def _validate_time(field: str, value: float | None) -> float | None:
    return None if value is None else validation.require_timestamp(field, value, InvalidValue)


R = TypeVar("R", bound=Entity)


class TenantStore(Logbook):
    """All that one tenant has. See `brimful.protocols.Store` for what each method promises."""

    def __init__(self, driver: Driver, tenant: str, vault: Keyring) -> None:
        """Bind a database to a tenant."""
        super().__init__(driver, tenant, vault)
        self._contents = ContentCache()

    # -- people and places -------------------------------------------------------------------------------------------

    async def put(self, record: Entity) -> None:
        """Write a user, persona, room or lorebook, in the place of the one with its id."""
        await self._write(lambda session: entities.put_entity(session, record))

    async def get(self, kind: type[R], id: str) -> R | None:
        """Return the record of that id."""
        return await self._read(lambda session: entities.get_entity(session, kind, id))

    async def listed(self, kind: type[R], *, after: str = "", limit: int = 100) -> list[R]:
        """Return records by id, from the first one after `after`."""
        most = validate_limit(limit)
        return await self._read(lambda session: entities.list_entities(session, kind, after, most))

    async def rooms_of(self, user: str, *, limit: int = 20) -> list[Room]:
        """Return the rooms of a user, those first in which something was said last."""
        most = validate_limit(limit)
        return await self._read(lambda session: entities.rooms_of_user(session, user, most))

    async def sizes(self, ids: Sequence[str]) -> dict[str, int]:
        """Return how many messages these rooms hold, those that the janitor set aside among them."""
        return await self._read(lambda session: entities.count_messages(session, ids))

    async def remove(self, kind: type[Entity], id: str) -> bool:
        """Remove a record and all that belongs to it; False if there is none."""
        return await self._write(lambda session: removal.remove_entity(session, kind, id))

    # -- messages ----------------------------------------------------------------------------------------------------

    async def post(self, messages: Sequence[tuple[Message, IndexEntry]]) -> list[Message]:
        """Append messages to their rooms, and return them as they stand."""
        return await self._write(lambda session: _messages.post_messages(session, messages))

    async def history(
        self, room: str, *, before: int | None = None, limit: int = 100, tokenizer: str = "", aside: bool = False
    ) -> list[CountedMessage]:
        """Return messages of a room, newest first, older than the `seq` `before`, with their stored counts.

        With `aside`, those that the janitor set aside are among them.
        """
        most, end = (
            validate_limit(limit),
            validation.MAX_INTEGER if before is None else min(before, validation.MAX_INTEGER),
        )
        return await self._read(
            lambda session: _messages.get_history(session, self._contents, room, end, most, tokenizer, aside=aside)
        )

    async def messages(self, ids: Sequence[str]) -> list[Message]:
        """Return the messages of these ids, in this order, those that are there."""
        return await self._read(lambda session: _messages.get_messages(session, ids))

    async def messages_at(
        self, room: str, seqs: Sequence[int], *, tokenizer: str = "", aside: bool = False
    ) -> list[CountedMessage]:
        """Return the messages at these places of a room, in order, those that are there, with their stored counts.

        With `aside`, those that the janitor set aside are among them.
        """
        return await self._read(
            lambda session: _messages.get_messages_at(session, self._contents, room, seqs, tokenizer, aside=aside)
        )

    async def edit(self, id: str, content: Content, indexed: IndexEntry, *, at: float) -> Message | None:
        """Give a message another content; None if there is no such message."""
        return await self._write(lambda session: _messages.edit_message(session, id, content, indexed, at))

    async def delete(self, id: str, *, erase: bool = False) -> bool:
        """Take a message out of its room; with `erase`, its content leaves past contexts, too."""
        return await self._write(lambda session: _messages.delete_message(session, id, forever=erase))

    async def hide(self, ids: Sequence[str], *, why: str) -> list[str]:
        """Keep messages from models, and return the ids of those that were not hidden: metadata say so, and `why`."""
        return await self._write(lambda session: _messages.hide_messages(session, ids, why))

    # -- memories ----------------------------------------------------------------------------------------------------

    async def remember(self, memories: Sequence[tuple[Memory, IndexEntry]]) -> None:
        """Write memories, each in the place of the one with its id; accesses are kept."""
        await self._write(lambda session: _memories.save_memories(session, memories))

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
        most = validate_limit(limit)
        return await self._read(
            lambda session: _memories.list_memories(
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
        return await self._write(lambda session: _memories.pin_memory(session, id, pinned=pinned))

    async def forget(self, id: str, *, erase: bool = False) -> bool:
        """Remove a memory; with `erase`, its content leaves past contexts, too."""
        return await self._write(lambda session: _memories.remove_memory(session, id, forever=erase))

    async def touch(self, ids: Iterable[str], *, at: float) -> None:
        """Count one access to each of these memories."""
        await self._write(lambda session: _memories.record_access(session, ids, at))

    # -- lore and summaries ------------------------------------------------------------------------------------------

    async def write_lore(self, entries: Sequence[tuple[LoreEntry, IndexEntry]]) -> None:
        """Write lorebook entries, each in the place of the one with its id."""
        await self._write(lambda session: _lore_entries.save_lore(session, entries))

    async def lore(
        self, lorebooks: Sequence[str] | None = None, *, ids: Sequence[str] | None = None
    ) -> list[LoreEntry]:
        """Return the entries of these lorebooks, or those of these ids, by their order."""
        return await self._read(lambda session: _lore_entries.list_lore(session, lorebooks, ids))

    async def remove_lore(self, id: str) -> bool:
        """Remove an entry."""
        return await self._write(lambda session: _lore_entries.remove_lore(session, id))

    async def summarize(self, summaries: Sequence[tuple[Summary, IndexEntry]]) -> None:
        """Write summaries, each in the place of the one with its id."""
        await self._write(lambda session: _summaries.save_summaries(session, summaries))

    async def summaries(self, room: str | None = None, *, ids: Sequence[str] | None = None) -> list[Summary]:
        """Return the summaries of a room, or those of these ids, newest first."""
        return await self._read(lambda session: _summaries.list_summaries(session, room, ids))

    async def remove_summary(self, id: str) -> bool:
        """Remove a summary."""
        return await self._write(lambda session: _summaries.remove_summary(session, id))

    # -- counts ------------------------------------------------------------------------------------------------------

    async def counts(self, tokenizer: str, hashes: Sequence[str]) -> dict[str, int]:
        """Return the stored counts of texts, by their hash."""
        return await self._read(lambda session: _contents.get_counts(session, tokenizer, hashes))

    async def keep_counts(self, tokenizer: str, counts: Mapping[str, int]) -> None:
        """Keep counts of texts, by their hash."""
        await self._write(lambda session: _contents.save_counts(session, tokenizer, counts))

    # -- the index ---------------------------------------------------------------------------------------------------

    async def postings(self, asked: Sequence[TermQuery]) -> list[Postings]:
        """Return where terms occur in scopes, question by question: rare terms are read, common ones counted."""
        from brimful.stores.index.postings import find_postings  # noqa: PLC0415 - numpy, only where something is searched

        for words in asked:
            validate_limit(words.most)
        return await self._read(lambda session: find_postings(session, asked))

    async def documents(self, docs: Sequence[int]) -> list[Document]:
        """Return the entries of these numbers, in this order, those that are there."""
        return await self._read(lambda session: _documents.get_documents(session, docs))

    async def version(self, scopes: Sequence[str]) -> str:
        """Return a text that changes whenever a document of the scopes is written, by any process."""
        return await self._read(lambda session: _documents.scope_version(session, scopes))

    async def nearest(self, embedder: str, asked: Sequence[VectorQuery], *, limit: int) -> list[list[VectorHit]]:
        """Return the documents of scopes whose vectors are nearest to a vector, nearest first, question by question."""
        most = validate_limit(limit)
        return await self._read(lambda session: _embedders.find_nearest(session, embedder, asked, most))

    async def use_embedder(self, embedder: str) -> None:
        """From now on, every document gets a vector by this embedder."""
        await self._write(lambda session: _embedders.use_embedder(session, embedder))

    async def drop_embedder(self, embedder: str) -> None:
        """Forget all vectors by this embedder, and wait for none."""
        await self._write(lambda session: _embedders.drop_embedder(session, embedder))

    async def embedders(self) -> list[str]:
        """Return the embedders in use, the newest first."""
        return await self._read(_documents.list_embedders)

    async def backlog(self, embedder: str, *, limit: int = 100) -> list[Document]:
        """Return documents that wait for a vector by this embedder, oldest first."""
        most = validate_limit(limit)
        return await self._read(lambda session: _embedders.backlog(session, embedder, most))

    async def keep_vectors(self, embedder: str, docs: Sequence[int], vectors: "Vectors") -> int:
        """Keep the vectors of documents, by the hash of the passage; return how many documents wait no longer."""
        return await self._write(lambda session: _embedders.save_vectors(session, embedder, docs, vectors))

    async def progress(self, embedder: str) -> IndexProgress:
        """Return how many documents have a vector by this embedder, and how many wait."""
        return await self._read(lambda session: _embedders.index_progress(session, embedder))

    # -- all at once -------------------------------------------------------------------------------------------------

    def records(self) -> AsyncIterator[Record]:
        """Return all records, what is referred to before what refers to it; deleted messages are not among them."""
        return export.export_records(self._read)

    async def load(self, records: Iterable[Record], indexed: Callable[[Any], IndexEntry]) -> int:
        """Write records as they were, `indexed` telling how each is found; return how many."""
        count = 0
        for _, group in groupby(records, key=type):
            while batch := list(islice(group, export.PAGE_RECORDS)):
                await self._write(partial(export.load_records, records=batch, indexed=indexed))
                count += len(batch)
        return count
