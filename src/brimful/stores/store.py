"""The store of one tenant.

Most methods are functions of a session, defined and documented with the table they work on. Each call runs in one
transaction, on a worker thread.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from itertools import groupby, islice
from typing import Any, TypeVar, Unpack

import msgspec

from brimful.core import validation
from brimful.errors import InvalidValue, UnknownRecord
from brimful.records import Entity, Memory, Persona, Record, Room, Summary, User
from brimful.records.contexts import PruneReport
from brimful.records.memory import MemoryFilters
from brimful.records.search import CountedMessage, IndexEntry, Postings, TermQuery
from brimful.stores.admin import export
from brimful.stores.admin import passages as _passages
from brimful.stores.backends.driver import Driver
from brimful.stores.encryption.keyring import Keyring
from brimful.stores.index import documents as _documents
from brimful.stores.log import agent_runs as _agent_runs
from brimful.stores.log import contexts as _contexts
from brimful.stores.log import responses as _responses
from brimful.stores.log import retention as _retention
from brimful.stores.log import statistics as _statistics
from brimful.stores.log import usage as _usage
from brimful.stores.session import Session
from brimful.stores.tables import contents as _contents
from brimful.stores.tables import entities as _entities
from brimful.stores.tables import jobs as _jobs
from brimful.stores.tables import lore_entries as _lore_entries
from brimful.stores.tables import memories as _memories
from brimful.stores.tables import messages as _messages
from brimful.stores.tables import own_calls as _own_calls
from brimful.stores.tables import removal as _removal
from brimful.stores.tables import room_counts as _room_counts
from brimful.stores.tables import summaries as _summaries
from brimful.stores.tables.contents import ContentCache, TokenCounts
from brimful.stores.tables.room_counts import RoomCounts
from brimful.stores.transactions import ReadMethod, ReplicaMethod, Transactions, WriteMethod
from brimful.stores.vectors import embedders as _embedders

R = TypeVar("R", bound=Entity)


class RoomContents(msgspec.Struct, frozen=True, kw_only=True):
    """The summaries of a room, pinned memories and messages, each newest first, and versions of scopes by name.

    `counts` are about all messages of the room, also archived ones. A version changes with every write to its scope, by
    any process. A scope that never had a document has none.
    """

    summaries: list[Summary]
    pinned: list[Memory]
    newest: list[CountedMessage]
    versions: dict[str, str]
    counts: RoomCounts = RoomCounts()


class Store(Transactions):
    """Everything that one tenant has. Records of other tenants can be neither read nor changed through it.

    Writes are idempotent by id: writing a record twice gives one record. Of messages, responses and snapshots the first
    one stays; other records are replaced. A write is durable when the call returns.

    A scope is a set of documents that are searched together: `room:ID`, `lorebook:ID`, or `memory:PERSONA:USER:ROOM`,
    in which an empty name means any. The caller provides terms, passages and token counts.
    """

    def __init__(self, driver: Driver, tenant: str, keyring: Keyring) -> None:
        super().__init__(driver, tenant, keyring)
        self._cache = ContentCache()

    # -- users, personas, rooms and lorebooks ------------------------------------------------------------------------

    put = WriteMethod(_entities.put_entity)
    remove = WriteMethod(_removal.remove_entity)
    rooms_of = ReadMethod(_entities.rooms_of_user)
    count_messages = ReadMethod(_entities.count_messages)

    async def get(self, kind: type[R], id: str) -> R | None:
        """Return the user, persona, room or lorebook with this id, or None."""
        return await self._read(lambda session: _entities.get_entity(session, kind, id))

    async def require(self, kind: type[R], id: str) -> R:
        """Return the user, persona, room or lorebook with this id, or raise `UnknownRecord`."""
        record = await self.get(kind, id)
        if record is None:
            raise UnknownRecord(kind.__name__.lower(), id)
        return record

    async def get_many(self, kind: type[R], ids: Sequence[str]) -> list[R]:
        """Return the records with these ids, in any order. Missing ones are omitted."""
        return await self._read(lambda session: _entities.get_entities(session, kind, ids))

    async def list_records(self, kind: type[R], *, after: str = "", limit: int = 100) -> list[R]:
        """Return the users, personas, rooms or lorebooks whose ids come after `after`, in order of id."""
        return await self._read(lambda session: _entities.list_entities(session, kind, after=after, limit=limit))

    async def participants(
        self, room: str, *, persona: str | None, user: str | None
    ) -> tuple[Room | None, Persona | None, User | None]:
        """Return a room with a persona and a user, by default its own, in one transaction."""

        def read(session: Session) -> tuple[Room | None, Persona | None, User | None]:
            found = _entities.get_entity(session, Room, room)
            persona_id = found.persona if persona is None and found else persona
            user_id = found.user if user is None and found else user
            return (
                found,
                None if persona_id is None else _entities.get_entity(session, Persona, persona_id),
                None if user_id is None else _entities.get_entity(session, User, user_id),
            )

        return await self._read(read)

    async def room_contents(
        self,
        room: str,
        *,
        memories: Sequence[str],
        max_pinned: int,
        limit: int,
        tokenizer: str,
        counter: str,
        scopes: Sequence[str],
    ) -> RoomContents:
        """Return what a build reads of a room, in one transaction.

        These are the room's summaries, the newest pinned memories in the scopes `memories`, the newest messages, the
        numbers of messages and tokens by a `counter`, and the versions of scopes.
        """

        def read(session: Session) -> RoomContents:
            history = partial(_messages.get_history, session, self._cache, room, tokenizer=tokenizer)
            newest = history(limit=limit)
            return RoomContents(
                summaries=_summaries.list_summaries(session, room),
                pinned=_memories.list_memories(session, scopes=memories, pinned=True, limit=max_pinned),
                newest=newest,
                counts=_room_counts.read_room_counts(
                    session,
                    room,
                    counter,
                    newest=newest,
                    read=lambda before, most: history(before=before, limit=most, include_archived=True),
                ),
                versions=_documents.scope_versions(session, scopes),
            )

        return await self._read(read)

    # -- messages ----------------------------------------------------------------------------------------------------

    post = WriteMethod(_messages.post_messages)
    messages = ReadMethod(_messages.get_messages)
    deleted_messages = ReadMethod(_messages.list_deleted)
    edit = WriteMethod(_messages.edit_message)
    delete = WriteMethod(_messages.delete_message)
    hide = WriteMethod(_messages.hide_messages)
    save_room_counts = WriteMethod(_room_counts.save_room_counts)

    async def history(
        self,
        room: str,
        *,
        before: int | None = None,
        limit: int = 100,
        tokenizer: str = "",
        include_archived: bool = False,
    ) -> list[CountedMessage]:
        """Return the messages of a room, newest first, with their stored token counts.

        `before` is the `seq` to start from, exclusive. Messages that the janitor archived are left out by default.
        """
        read = partial(
            _messages.get_history, cache=self._cache, room=room, before=before, limit=limit, tokenizer=tokenizer
        )
        return await self._read(partial(read, include_archived=include_archived))

    async def messages_at(
        self, room: str, seqs: Sequence[int], *, tokenizer: str = "", include_archived: bool = False
    ) -> list[CountedMessage]:
        """Return the messages at these positions of a room, in order, with their stored token counts.

        Positions without a message are skipped. Messages that the janitor archived are left out by default.
        """
        return await self._read(
            lambda session: _messages.get_messages_at(
                session, self._cache, room, seqs, tokenizer=tokenizer, include_archived=include_archived
            )
        )

    # -- memories ----------------------------------------------------------------------------------------------------

    save_memories = WriteMethod(_memories.save_memories)
    memories = ReadMethod(_memories.list_memories)
    count_memories = ReadMethod(_memories.count_memories)
    memory_users = ReadMethod(_memories.memory_users)
    memory_scopes = ReadMethod(_documents.list_scopes)
    update_memory = WriteMethod(_memories.update_memory)
    pin = WriteMethod(_memories.pin_memory)
    remove_memory = WriteMethod(_memories.remove_memory)
    record_access = WriteMethod(_memories.record_access)

    async def remove_memories(self, *, erase: bool = False, **filters: Unpack[MemoryFilters]) -> int:
        """Remove the memories that match all filters (`MemoryFilters`), in any state. Returns their number.

        At least one filter is required. With `erase`, their content is also removed from past contexts.
        """
        selected: MemoryFilters = {"archived": None, "state": None, **filters}
        removed = 0
        while count := await self._write(partial(_memories.remove_memories, erase=erase, **selected)):
            removed += count
        return removed

    # -- lore and summaries ------------------------------------------------------------------------------------------

    save_lore = WriteMethod(_lore_entries.save_lore)
    lore = ReadMethod(_lore_entries.list_lore)
    remove_lore = WriteMethod(_lore_entries.remove_lore)
    save_summaries = WriteMethod(_summaries.save_summaries)
    summaries = ReadMethod(_summaries.list_summaries)
    remove_summary = WriteMethod(_summaries.remove_summary)

    # -- token counts ------------------------------------------------------------------------------------------------

    counts = ReadMethod(_contents.get_counts)
    save_counts = WriteMethod(_contents.save_counts)
    list_contents = ReadMethod(_contents.list_contents)

    # -- background work ---------------------------------------------------------------------------------------------

    add_job = WriteMethod(_jobs.add_job)

    # -- the search index --------------------------------------------------------------------------------------------

    search_vectors = ReadMethod(_embedders.search_vectors)
    scope_version = ReadMethod(_documents.scope_version)
    use_embedder = WriteMethod(_embedders.use_embedder)
    drop_embedder = WriteMethod(_embedders.drop_embedder)
    embedders = ReadMethod(_documents.list_embedders)
    backlog = ReadMethod(_embedders.backlog)
    save_vectors = WriteMethod(_embedders.save_vectors)
    index_progress = ReadMethod(_embedders.index_progress)
    documents = ReadMethod(_documents.get_documents)
    count_undivided = ReadMethod(_passages.count_undivided)
    divide_documents = WriteMethod(_passages.divide_documents)

    async def find_postings(self, queries: Sequence[TermQuery]) -> list[Postings]:
        """Return the occurrences of terms in scopes, one result for each query, at most `limit` rows each.

        Terms are read from the rarest on; of the others only the number of documents is returned. If even the rarest
        term has more than `limit` occurrences, its newest documents are returned.
        """
        from brimful.stores.index.postings import find_postings  # noqa: PLC0415 - loads numpy

        return await self._read(lambda session: find_postings(session, queries))

    # -- contexts and responses --------------------------------------------------------------------------------------

    save_context = WriteMethod(_responses.save_context)
    save_records = WriteMethod(_responses.save_records)
    snapshot = ReadMethod(_contexts.get_snapshot)
    build = ReadMethod(_contexts.get_build)
    builds = ReadMethod(_contexts.list_builds)
    agent_runs = ReadMethod(_agent_runs.read_runs)
    run_contexts = ReadMethod(_agent_runs.list_run_contexts)
    candidate_contents = ReadMethod(_agent_runs.read_candidates)
    inclusions = ReadMethod(_contexts.list_inclusions)
    remove_context = WriteMethod(_contexts.remove_context)
    save_response = WriteMethod(_responses.save_response)
    rate_response = WriteMethod(_responses.rate_response)
    follow = ReadMethod(_responses.follow_log)
    responses = ReadMethod(_responses.list_responses)
    statistics = ReplicaMethod(_statistics.compute_statistics)

    async def contexts_of(self, message: str, *, limit: int = 20) -> list[str]:
        """Return the ids of the contexts that a message answers, then of the contexts built for it, newest first."""
        answers = await self.responses(message=message, limit=limit)
        answers += await self.responses(message=f"{message}/message", limit=limit)  # the answer's own id
        builds = await self.builds(message=message, limit=limit)
        return list(dict.fromkeys([*(answer.context for answer in answers), *(build.id for build in builds)]))

    oldest_event = ReadMethod(_retention.oldest_event)

    async def prune(
        self, *, before: float, dry_run: bool = False, on_progress: Callable[[PruneReport], None] = lambda _: None
    ) -> PruneReport:
        """Delete contexts and responses older than the hour of `before`, and contents that nothing else references.

        Statistics are kept. Returns the number of deleted records, or with `dry_run` how many would be deleted.
        """
        hour = _retention.start_of_hour(validation.require_timestamp("before", before, InvalidValue))
        if dry_run:
            return await self._read(lambda session: _retention.count_prunable(session, hour))
        parts: list[PruneReport] = []
        for step in (_retention.prune_events, _retention.prune_contents):
            while (part := await self._write(partial(step, before=hour))) is not None:
                parts.append(part)
                on_progress(_retention.sum_reports(hour, parts))
        return _retention.sum_reports(hour, parts)

    # -- usage -------------------------------------------------------------------------------------------------------

    save_usage = WriteMethod(_usage.save_usage)
    usage_reports = ReadMethod(_usage.list_usage)
    accuracy = ReplicaMethod(_usage.compute_accuracy)

    reserve_own_call = WriteMethod(_own_calls.reserve_own_call)
    settle_own_call = WriteMethod(_own_calls.settle_own_call)
    own_spending = ReadMethod(_own_calls.own_spending)

    # -- export and import -------------------------------------------------------------------------------------------

    def export_records(self) -> AsyncIterator[Record]:
        """Yield all records, each after those it refers to. Deleted messages are not included."""
        return export.export_records(self.replica._read)  # noqa: SLF001 - of this class

    async def load_records(
        self,
        records: Iterable[Record],
        make_entry: Callable[[Any], IndexEntry],
        *,
        defer: bool = False,
        count: Callable[[], TokenCounts] = dict,
    ) -> int:
        """Write records of any kind unchanged, messages with their `seq`, and return their number.

        `make_entry` returns the index entry of a record. With `defer`, messages are indexed later: `divide_documents`.
        `count` returns token counts by tokenizer and content hash. They are saved in the first transaction, after its
        records.
        """
        written = 0
        for _, group in groupby(records, key=type):
            while batch := list(islice(group, export.WRITE_RECORDS)):
                await self._write(
                    partial(
                        export.load_records,
                        records=batch,
                        make_entry=make_entry,
                        defer=defer,
                        count=dict if written else count,
                    )
                )
                written += len(batch)
        return written
