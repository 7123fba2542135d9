"""Store operations of the janitor: runs, archived records, and undo."""

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Final

import msgspec

from brimful.errors import InvalidValue, StoreUnavailable, UnknownRecord
from brimful.records import Memory, Message, Summary
from brimful.records.memory import MemoryState
from brimful.records.runs import Archival, JanitorChange, JanitorRun, LearningChange, MakeIndexEntry, MessagePosition
from brimful.stores.encryption.cipher import decrypt, encrypt, storage_address
from brimful.stores.index import documents
from brimful.stores.log.candidates import find_included, find_known
from brimful.stores.session import Row, Session
from brimful.stores.tables import messages as _messages
from brimful.stores.tables.contents import erase_unused
from brimful.stores.tables.memories import READ_MEMORIES as MEMORIES
from brimful.stores.tables.memories import decode_memory, list_memories, remove_memory, save_memories
from brimful.stores.tables.memories import memory_document as memory_entry
from brimful.stores.tables.messages import READ_MESSAGES as MESSAGES
from brimful.stores.tables.messages import decode_message
from brimful.stores.tables.room_counts import remove_room_counts
from brimful.stores.tables.summaries import list_summaries, save_summaries
from brimful.stores.tables.writes import release_replaced, remove_row
from brimful.stores.transactions import ReadMethod, Transactions, WriteMethod

_RUN_COLUMNS = ("number", "kind", "state", "holder", "started", "ended")
_RUNS = f"SELECT {', '.join(_RUN_COLUMNS)}, facts FROM janitor_runs WHERE tenant = :tenant"  # noqa: S608 - our own
_LEARN = """
INSERT INTO janitor_runs (tenant, kind, state, holder, started, heartbeat, ended, facts)
VALUES (:tenant, 'learning', 'done', :holder, :now, :now, :now, :facts) RETURNING number
"""
_REVIEW = """
INSERT INTO janitor_runs (tenant, state, holder, started, heartbeat, ended, facts)
VALUES (:tenant, 'done', :holder, :now, :now, :now, :facts) RETURNING number
"""
_SET_STATE = "UPDATE memories SET state = :state WHERE tenant = :tenant AND id IN :ids"
_SAVE_LEARNED = """
INSERT INTO learned_messages (tenant, scope, message, run) VALUES (:tenant, :scope, :message, :run)
ON CONFLICT DO NOTHING
"""
_BEGIN = """
INSERT INTO janitor_runs (tenant, state, holder, started, heartbeat, facts)
VALUES (:tenant, 'running', :holder, :now, :now, :facts) RETURNING number
"""
_HEARTBEAT = """
UPDATE janitor_runs SET heartbeat = :now
WHERE tenant = :tenant AND number = :number AND holder = :holder AND state IN ('running', 'undoing')
"""
_SAVE_UNDO = """
INSERT INTO janitor_undo (tenant, run, item, room, body) VALUES (:tenant, :run, :item, :room, :body)
ON CONFLICT DO NOTHING
"""
_TRACES = """
SELECT 1 WHERE EXISTS (SELECT 1 FROM janitor_undo WHERE tenant = :tenant AND run = :run)
  OR EXISTS (SELECT 1 FROM messages WHERE tenant = :tenant AND archived_by = :run)
  OR EXISTS (SELECT 1 FROM memories WHERE tenant = :tenant AND archived_by = :run)
"""
_ARCHIVALS: Final = """
SELECT m.id, r.number, r.kind, r.started FROM memories m
JOIN janitor_runs r ON r.tenant = m.tenant AND r.number = m.archived_by
WHERE m.tenant = :tenant AND m.id IN :ids
"""
_ADDED: Final = """
SELECT u.run, m.id FROM janitor_undo u JOIN memories m ON m.tenant = u.tenant AND m.id = u.item
WHERE u.tenant = :tenant AND u.run IN :runs ORDER BY u.run, m.id
"""
LEARNED_MEANWHILE: Final = "another process learned from these messages in the meantime; try again"
BATCH: Final = 500  # records per transaction, so that other writers do not wait long
PAGE: Final = 2_000  # messages read at once
PURGED: Final = 2  # in the column `deleted`; 1 means deleted by a user. Summaries still cover purged messages
_IN_ROOM: Final = "(SELECT number FROM rooms WHERE tenant = :tenant AND id = :room)"
_POSITIONS: Final = f"""
SELECT seq, at, edited, archived_by, deleted FROM messages
WHERE tenant = :tenant AND room = {_IN_ROOM} AND deleted IN (0, {PURGED}) ORDER BY seq
"""  # noqa: S608 - our own
_MESSAGES_AT: Final = f"""
{MESSAGES} WHERE m.tenant = :tenant AND m.room = {_IN_ROOM} AND m.seq IN :seqs AND m.deleted = 0
ORDER BY m.seq
"""
_OLD_MESSAGES: Final = f"""
SELECT m.seq, m.id FROM messages m
WHERE m.tenant = :tenant AND m.room = {_IN_ROOM} AND m.deleted = 0 AND m.archived_by IS NULL AND m.at < :before
ORDER BY m.seq
"""  # noqa: S608 - our own
_UNUSED_MEMORIES: Final = f"""
{MEMORIES} AND m.archived_by IS NULL AND m.state = 'active' AND m.pinned = 0 AND m.accesses = 0 AND m.at < :before
  AND m.id > :after
ORDER BY m.id LIMIT :limit
"""
_ARCHIVED_MESSAGES: Final = f"""
{MESSAGES} WHERE m.tenant = :tenant AND m.archived_by = :run AND m.deleted = 0 ORDER BY m.id LIMIT :limit
"""
_ARCHIVED_MEMORIES: Final = f"{MEMORIES} AND m.archived_by = :run ORDER BY m.id LIMIT :limit"
_PURGE: Final = f"""
UPDATE messages SET deleted = {PURGED}, archived_by = NULL WHERE tenant = :tenant AND deleted = 0 AND id IN (
  SELECT id FROM messages WHERE tenant = :tenant AND archived_by < :before LIMIT :limit) RETURNING id, hash, room, seq
"""  # noqa: S608 - our own
_PURGE_MEMORIES: Final = """
DELETE FROM memories WHERE tenant = :tenant AND archived_by > 0 AND archived_by < :before RETURNING id, hash
"""
_COUNT: Final = """
SELECT (SELECT count(*) FROM messages WHERE tenant = :tenant AND archived_by IS NOT NULL),
  (SELECT count(*) FROM memories WHERE tenant = :tenant AND archived_by IS NOT NULL)
"""


def begin_run(session: Session, *, holder: str, now: float, lease: float) -> JanitorRun:
    """Begin a run, or take over one whose lease has expired."""
    session.dialect.lock(session, "janitor")
    unfinished = _unfinished_run(session, now, lease)
    if unfinished is not None and unfinished.state == "undoing":
        raise StoreUnavailable(
            f"tenant {session.tenant!r}", f"run {unfinished.number} was being undone; undo it to the end first"
        )
    if unfinished is not None:
        return _take_over(session, unfinished, holder, now)
    row = session.row(_BEGIN, holder=holder, now=now, facts=b"{}")
    return JanitorRun(number=row[0] if row else 0, state="running", holder=holder, started=now)


def begin_undo(session: Session, holder: str, now: float, lease: float, number: int | None) -> JanitorRun | None:
    """Begin to undo the last run; None if there is none. With a number, it must be that of the last one."""
    session.dialect.lock(session, "janitor")
    unfinished = _unfinished_run(session, now, lease)
    row = session.row(
        f"{_RUNS} AND kind = 'janitor' AND state IN ('running', 'done', 'undoing') ORDER BY number DESC LIMIT 1"
    )
    if unfinished is None and row is None:
        return None
    last = unfinished or decode_run(row or ())
    if number not in {None, last.number}:
        raise InvalidValue("run", f"must be {last.number}, which is the last run that can be undone, not {number}")
    session.run(
        "UPDATE janitor_runs SET state = 'undoing' WHERE tenant = :tenant AND number = :number", number=last.number
    )
    return _take_over(session, msgspec.structs.replace(last, state="undoing"), holder, now)


def apply_change(
    session: Session, run: JanitorRun, change: JanitorChange, make_entry: MakeIndexEntry, now: float
) -> None:
    """Apply a change, and save the previous summaries for undo, unless this run saved them before."""
    heartbeat(session, run, now=now)
    replaced = [*change.remove, *(summary.id for summary in change.write)]
    before = {summary.id: summary for summary in list_summaries(session, ids=replaced)} if replaced else {}
    rooms = {summary.id: summary.room for summary in (*before.values(), *change.write)}
    session.many(_SAVE_UNDO, (_undo_row(session, run, id, rooms[id], before.get(id)) for id in replaced if id in rooms))
    _remove_summaries(session, change.remove)
    if change.write:
        save_summaries(session, [(summary, make_entry(summary)) for summary in change.write])
    archive(session, "messages", run.number, change.messages)
    archive(session, "memories", run.number, change.memories)


def archive(session: Session, table: str, run: int, ids: tuple[str, ...]) -> None:
    """Archive records and remove them from the index."""
    which = "deleted = 0" if table == "messages" else "pinned = 0"
    marked = session.rows(
        f"UPDATE {table} SET archived_by = :run "  # noqa: S608 - our own tables
        f"WHERE tenant = :tenant AND id IN :ids AND archived_by IS NULL AND {which} RETURNING id",
        run=run,
        ids=list(ids),
    )
    documents.remove_documents(session, "message" if table == "messages" else "memory", [id for (id,) in marked])


def find_learned(session: Session, scope: str, messages: Sequence[str]) -> set[str]:
    """Return the hashes of messages from which memories of a scope were learned before."""
    addresses = {storage_address(session, hash): hash for hash in messages}
    rows = session.rows(
        "SELECT message FROM learned_messages WHERE tenant = :tenant AND scope = :scope AND message IN :messages",
        scope=scope,
        messages=list(addresses),
    )
    return {addresses[address] for (address,) in rows}


def apply_learning(
    session: Session,
    change: LearningChange,
    make_entry: MakeIndexEntry,
    *,
    holder: str,
    facts: dict[str, int],
    now: float,
) -> JanitorRun | None:
    """Add and supersede memories as a run that can be undone. Returns None if there is nothing to change.

    Only memories of the same scope are superseded, and no pinned ones. Raises if another process learned from one of
    these messages in the meantime.
    """
    session.dialect.lock(session, "learning")
    if find_learned(session, change.scope, change.messages):
        raise StoreUnavailable(f"tenant {session.tenant!r}", LEARNED_MEANWHILE, retriable=True)
    run = None
    if change.add or change.supersede:
        row = session.row(_LEARN, holder=holder, now=now, facts=msgspec.json.encode(facts))
        number = row[0] if row else 0
        run = JanitorRun(
            number=number, kind="learning", state="done", holder=holder, started=now, ended=now, facts=facts
        )
        known = list_memories(session, ids=change.supersede, scopes=[change.scope], limit=len(change.supersede))
        archive(session, "memories", number, tuple(memory.id for memory in known))
        save_memories(session, [(memory, make_entry(memory)) for memory in change.add])
        session.many(_SAVE_UNDO, (_undo_row(session, run, each.id, each.room or "", None) for each in change.add))
    addresses = [storage_address(session, hash) for hash in change.messages]
    rows = ({"scope": change.scope, "message": address, "run": run.number if run else 0} for address in addresses)
    session.many(_SAVE_LEARNED, rows)
    return run


def undo_learning(session: Session, number: int | None, make_entry: MakeIndexEntry, *, now: float) -> JanitorRun | None:
    """Undo a run that learned memories, or the last one. Returns None if there is nothing to undo."""
    session.dialect.lock(session, "learning")
    which = "" if number is None else " AND number = :number"
    values = {} if number is None else {"number": number}
    row = session.row(f"{_RUNS} AND kind = 'learning' AND state = 'done'{which} ORDER BY number DESC LIMIT 1", **values)
    if row is None:
        return None
    run = decode_run(row)
    added = session.rows("SELECT item FROM janitor_undo WHERE tenant = :tenant AND run = :run", run=run.number)
    for (id,) in added:
        remove_memory(session, id)
    for table in ("janitor_undo", "learned_messages"):
        session.run(f"DELETE FROM {table} WHERE tenant = :tenant AND run = :run", run=run.number)  # noqa: S608 - ours
    while _restore_archived(session, run, make_entry):
        continue
    session.run(
        "UPDATE janitor_runs SET state = 'undone', ended = :now WHERE tenant = :tenant AND number = :number",
        number=run.number,
        now=now,
    )
    return msgspec.structs.replace(run, state="undone", ended=now)


def review_memories(
    session: Session, ids: Sequence[str], state: MemoryState, make_entry: MakeIndexEntry, *, holder: str, now: float
) -> JanitorRun:
    """Confirm or reject proposed memories, as a run that can be undone. Raises if one of them is not proposed.

    What a confirmed memory supersedes is archived, if it has the same owners and is not pinned.
    """
    session.dialect.lock(session, "memories")
    known = {memory.id: memory for memory in list_memories(session, ids=ids, limit=len(ids), state="proposed")}
    for id in ids:
        if id not in known:
            raise UnknownRecord("proposed memory", id)
    facts = {"confirmed" if state == "active" else "rejected": len(known)}
    row = session.row(_REVIEW, holder=holder, now=now, facts=msgspec.json.encode(facts))
    number = row[0] if row else 0
    run = JanitorRun(number=number, state="done", holder=holder, started=now, ended=now, facts=facts)
    session.run(_SET_STATE, state=state, ids=list(known))
    session.many(
        _SAVE_UNDO, (_undo_row(session, run, id, memory.room or "", "proposed") for id, memory in known.items())
    )
    if state == "active":
        documents.add_documents(session, [memory_entry(memory, make_entry(memory)) for memory in known.values()])
        for memory in known.values():
            if memory.supersedes is None:
                continue
            superseded = list_memories(session, ids=[memory.supersedes], scopes=[memory.scope], archived=False)
            archive(session, "memories", number, tuple(each.id for each in superseded))
    return run


def restore_summaries(session: Session, run: JanitorRun, make_entry: MakeIndexEntry) -> None:
    """Restore the summaries from before the run, and propose memories again that it confirmed or rejected."""
    rows = session.rows(
        "SELECT item, room, body FROM janitor_undo WHERE tenant = :tenant AND run = :run", run=run.number
    )
    for item, room, body in rows:
        before = msgspec.json.decode(
            decrypt(session, body, "janitor_undo", item, room), type=Summary | MemoryState | None
        )
        if isinstance(before, str):
            session.run(_SET_STATE, state=before, ids=[item])
            documents.remove_documents(session, "memory", [item])
        elif before is None:
            _remove_summaries(session, [item])
        else:
            save_summaries(session, [(before, make_entry(before))])
    session.run("DELETE FROM janitor_undo WHERE tenant = :tenant AND run = :run", run=run.number)


def end_run(session: Session, run: JanitorRun, facts: dict[str, int], *, now: float) -> JanitorRun | None:
    """End a run. One that changed nothing is deleted, and None is returned."""
    heartbeat(session, run, now=now)
    if run.state == "running" and session.row(_TRACES, run=run.number) is None:
        session.run("DELETE FROM janitor_runs WHERE tenant = :tenant AND number = :number", number=run.number)
        return None
    ended = msgspec.structs.replace(run, state="done" if run.state == "running" else "undone", ended=now)
    if ended.state == "done":
        ended = msgspec.structs.replace(ended, facts=facts)
    session.run(
        "UPDATE janitor_runs SET state = :state, ended = :now, facts = :facts "
        "WHERE tenant = :tenant AND number = :number",
        number=run.number,
        state=ended.state,
        now=now,
        facts=msgspec.json.encode(ended.facts),
    )
    return ended


def heartbeat(session: Session, run: JanitorRun, *, now: float) -> None:
    """Renew the lease of a run. Raises if another process took it over."""
    if not session.run(_HEARTBEAT, number=run.number, holder=run.holder, now=now):
        raise StoreUnavailable(f"tenant {session.tenant!r}", f"run {run.number} was taken over by another janitor")


def list_runs(session: Session, *, limit: int = 20) -> list[JanitorRun]:
    """Return runs, newest first."""
    return [decode_run(row) for row in session.rows(f"{_RUNS} ORDER BY number DESC LIMIT :limit", limit=limit)]


def decode_run(row: Row) -> JanitorRun:
    *fields, facts = row
    values = dict(zip(_RUN_COLUMNS, fields, strict=True))
    return JanitorRun(**values, facts=msgspec.json.decode(facts, type=dict[str, int]))


def _unfinished_run(session: Session, now: float, lease: float) -> JanitorRun | None:
    """Return an interrupted run. Raises while another process is running."""
    row = session.row(f"{_RUNS} AND state IN ('running', 'undoing') ORDER BY number DESC LIMIT 1")
    if row is None:
        return None
    beat = session.row("SELECT heartbeat FROM janitor_runs WHERE tenant = :tenant AND number = :number", number=row[0])
    wait = (beat[0] if beat else now) + lease - now
    if 0 < wait <= lease:
        raise StoreUnavailable(
            f"tenant {session.tenant!r}",
            f"the janitor is at work (run {row[0]}); wait until it has ended, or, if it was killed, {wait:.0f} s",
            retriable=True,
        )
    return decode_run(row)


def _take_over(session: Session, run: JanitorRun, holder: str, now: float) -> JanitorRun:
    session.run(
        "UPDATE janitor_runs SET holder = :holder, heartbeat = :now WHERE tenant = :tenant AND number = :number",
        number=run.number,
        holder=holder,
        now=now,
    )
    return msgspec.structs.replace(run, holder=holder)


def _remove_summaries(session: Session, ids: Sequence[str]) -> None:
    """Remove summaries. Contents that are in no context are erased."""
    for id in ids:
        address = remove_row(session, "summaries", "summary", id)
        if address is not None and not find_known(session, [id]):
            erase_unused(session, [address])


def _undo_row(
    session: Session, run: JanitorRun, id: str, room: str, before: Summary | MemoryState | None
) -> dict[str, object]:
    body = encrypt(session, msgspec.json.encode(before), "janitor_undo", id, room)
    return {"run": run.number, "item": id, "room": room, "body": body}


def list_positions(session: Session, room: str) -> list[MessagePosition]:
    """Return the positions of a room's messages, in order, including archived ones."""
    return [
        MessagePosition(seq=seq, at=at, edited=edited, archived=archived is not None, purged=deleted != 0)
        for seq, at, edited, archived, deleted in session.rows(_POSITIONS, room=room)
    ]


def count_builds(session: Session, room: str) -> int:
    """Return the number of stored contexts of a room."""
    row = session.row("SELECT count(*) FROM snapshots WHERE tenant = :tenant AND room = :room", room=room)
    return int(row[0]) if row else 0


def find_unused_messages(session: Session, room: str, *, before: float) -> list[tuple[int, str]]:
    """Return position and id of messages before a time that are in no stored context."""
    old = session.rows(_OLD_MESSAGES, room=room, before=before)
    included = find_included(session, room, [id for _, id in old])
    return [(seq, id) for seq, id in old if id not in included]


def find_unused_memories(session: Session, *, before: float, after: str = "", limit: int = 1000) -> list[Memory]:
    """Return memories before a time that were never used and are not pinned, in order of id."""
    rows = session.rows(_UNUSED_MEMORIES, before=before, after=after, limit=limit)
    return [decode_memory(session, row) for row in rows]


def find_archivals(session: Session, ids: Sequence[str]) -> dict[str, Archival]:
    """Return by id how these memories were archived, except for those that are not."""
    rows = session.rows(_ARCHIVALS, ids=list(ids))
    added: dict[int, list[str]] = {}
    for run, memory in session.rows(_ADDED, runs=list({run for _, run, _, _ in rows})) if rows else ():
        added.setdefault(run, []).append(memory)
    return {
        id: Archival(run=run, kind=kind, at=started, added=tuple(added.get(run, ()))) for id, run, kind, started in rows
    }


def count_archived(session: Session) -> dict[str, int]:
    """Return the number of archived messages and memories."""
    messages, memories = session.row(_COUNT) or (0, 0)
    return {"messages": messages, "memories": memories}


class JanitorStore(Transactions):
    """The janitor's operations on the store of a tenant, and their undo.

    There is one run at a time. It holds the store until it ends, or until its lease expires. Everything that a run
    changes is saved first; the last run that was not undone can be undone.
    """

    positions = ReadMethod(list_positions)
    count_builds = ReadMethod(count_builds)
    unused_messages = ReadMethod(find_unused_messages)
    unused_memories = ReadMethod(find_unused_memories)
    archivals = ReadMethod(find_archivals)
    begin = WriteMethod(begin_run)
    heartbeat = WriteMethod(heartbeat)
    end = WriteMethod(end_run)
    learn = WriteMethod(apply_learning)
    undo_learning = WriteMethod(undo_learning)
    review = WriteMethod(review_memories)
    runs = ReadMethod(list_runs)
    count_archived = ReadMethod(count_archived)

    async def messages(self, room: str, seqs: Sequence[int]) -> list[Message]:
        """Return the messages at these positions of a room, in order, including archived ones."""

        def read(session: Session, page: list[int]) -> list[Message]:
            return [decode_message(session, row) for row in session.rows(_MESSAGES_AT, room=room, seqs=page)]

        found: list[Message] = []
        for index in range(0, len(seqs), PAGE):
            found += await self._read(partial(read, page=list(seqs[index : index + PAGE])))
        return found

    async def apply(self, run: JanitorRun, change: JanitorChange, make_entry: MakeIndexEntry, *, now: float) -> None:
        """Apply a change that can be undone: summaries first, then the records they cover, in batches."""
        first = msgspec.structs.replace(change, messages=(), memories=())
        parts = [
            first,
            *(JanitorChange(messages=ids) for ids in _batches(change.messages)),
            *(JanitorChange(memories=ids) for ids in _batches(change.memories)),
        ]
        for part in parts:
            await self._write(partial(apply_change, run=run, change=part, make_entry=make_entry, now=now))

    async def undo(
        self, make_entry: MakeIndexEntry, *, holder: str, now: float, lease: float, number: int | None = None
    ) -> JanitorRun | None:
        """Undo the last run exactly, or continue an interrupted undo. Returns None if there is nothing to undo.

        With the number of a run, only that one is undone; raises if it is not the last one.
        """
        run = await self._write(lambda session: begin_undo(session, holder, now, lease, number))
        if run is None:
            return None
        await self._write(partial(restore_summaries, run=run, make_entry=make_entry))
        while await self._write(partial(_restore_batch, run=run, make_entry=make_entry, now=now)):
            continue
        return await self.end(run, run.facts, now=now)

    async def learned(self, scope: str, messages: Sequence[str]) -> set[str]:
        """Return the hashes of messages from which memories of a scope were learned before."""
        found: set[str] = set()
        for index in range(0, len(messages), PAGE):
            found |= await self._read(partial(find_learned, scope=scope, messages=messages[index : index + PAGE]))
        return found

    async def purge(self, *, before: int) -> int:
        """Delete what runs before this number archived, and return the number of records."""
        purged = 0
        while batch := await self._write(partial(_purge_messages, before=before)):
            purged += batch
        return purged + await self._write(partial(_purge_memories, before=before))


def _batches(ids: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [ids[i : i + BATCH] for i in range(0, len(ids), BATCH)]


def _restore_batch(session: Session, *, run: JanitorRun, make_entry: MakeIndexEntry, now: float) -> bool:
    """Restore a batch of archived records. Returns whether there may be more."""
    heartbeat(session, run, now=now)
    return _restore_archived(session, run, make_entry)


def _restore_archived(session: Session, run: JanitorRun, make_entry: MakeIndexEntry) -> bool:
    rows = session.rows(_ARCHIVED_MESSAGES, run=run.number, limit=BATCH)
    messages = [decode_message(session, row) for row in rows]
    known = [decode_memory(session, row) for row in session.rows(_ARCHIVED_MEMORIES, run=run.number, limit=BATCH)]
    _unarchive(session, "messages", [message.id for message in messages])
    _unarchive(session, "memories", [memory.id for memory in known])
    documents.add_documents(
        session, _messages.message_documents((message, make_entry(message)) for message in messages)
    )
    documents.add_documents(session, [memory_entry(memory, make_entry(memory)) for memory in known])
    return bool(messages or known)


def _unarchive(session: Session, table: str, ids: Sequence[str]) -> None:
    session.run(
        f"UPDATE {table} SET archived_by = NULL WHERE tenant = :tenant AND id IN :ids",  # noqa: S608 - our own tables
        ids=list(ids),
    )


def _purge_messages(session: Session, *, before: int) -> int:
    session.run(
        "UPDATE janitor_runs SET state = 'purged' WHERE tenant = :tenant AND number < :before AND state = 'done'",
        before=before,
    )
    session.run("DELETE FROM janitor_undo WHERE tenant = :tenant AND run < :before", before=before)
    purged = session.rows(_PURGE, before=before, limit=BATCH)
    release_replaced(session, [(id, hash) for id, hash, _, _ in purged])
    numbers = sorted({room for _, _, room, _ in purged})
    rooms = session.rows("SELECT number, id FROM rooms WHERE tenant = :tenant AND number IN :numbers", numbers=numbers)
    for number, room in sorted(rooms, key=itemgetter(1)):
        remove_room_counts(session, room, [seq for _, _, own, seq in purged if own == number])
    return len(purged)


def _purge_memories(session: Session, *, before: int) -> int:
    purged = [(id, hash) for id, hash in session.rows(_PURGE_MEMORIES, before=before)]
    release_replaced(session, purged)
    return len(purged)
