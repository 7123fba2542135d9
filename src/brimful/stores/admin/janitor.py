"""Store operations of the janitor: runs, archived records, and undo."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from brimful.errors import StoreUnavailable
from brimful.packagers.records import RECALLED_SUFFIX
from brimful.records import Memory, Message, Summary
from brimful.records.janitor import JanitorChange, JanitorRun, MakeIndexEntry, MessagePosition
from brimful.stores.encryption.cipher import decrypt, encrypt
from brimful.stores.index import documents
from brimful.stores.session import Row, Session
from brimful.stores.tables import messages as _messages
from brimful.stores.tables.contents import erase_unused
from brimful.stores.tables.memories import READ_MEMORIES as MEMORIES
from brimful.stores.tables.memories import decode_memory
from brimful.stores.tables.memories import memory_document as memory_entry
from brimful.stores.tables.messages import READ_MESSAGES as MESSAGES
from brimful.stores.tables.messages import decode_message
from brimful.stores.tables.summaries import list_summaries, save_summaries
from brimful.stores.tables.writes import release_replaced, remove_row
from brimful.stores.transactions import Transactions

_RUNS = "SELECT number, state, holder, started, ended, facts FROM janitor_runs WHERE tenant = :tenant"
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


def begin_run(session: Session, holder: str, now: float, lease: float) -> JanitorRun:
    """Begin a run, or go on with one that nothing was heard of for as long as the lease."""
    session.dialect.lock(session, "tidy")
    held = _unfinished_run(session, now, lease)
    if held is not None and held.state == "undoing":
        raise StoreUnavailable(
            f"tenant {session.tenant!r}", f"run {held.number} was being undone; undo it to the end first"
        )
    if held is not None:
        return _take_over(session, held, holder, now)
    row = session.row(_BEGIN, holder=holder, now=now, facts=b"{}")
    return JanitorRun(number=row[0] if row else 0, state="running", holder=holder, started=now)


def begin_undo(session: Session, holder: str, now: float, lease: float) -> JanitorRun | None:
    """Take up the last run that was not undone; None if there is none."""
    session.dialect.lock(session, "tidy")
    held = _unfinished_run(session, now, lease)
    row = session.row(f"{_RUNS} AND state IN ('running', 'done', 'undoing') ORDER BY number DESC LIMIT 1")
    if held is None and row is None:
        return None
    last = held or decode_run(row or ())
    session.run(
        "UPDATE janitor_runs SET state = 'undoing' WHERE tenant = :tenant AND number = :number", number=last.number
    )
    return _take_over(session, msgspec.structs.replace(last, state="undoing"), holder, now)


def apply_change(session: Session, run: JanitorRun, change: JanitorChange, indexed: MakeIndexEntry, now: float) -> None:
    """Do something, and keep what it takes the place of. Of what was changed before in this run, the first is kept."""
    heartbeat(session, run, now)
    gone = [*change.remove, *(summary.id for summary in change.write)]
    before = {summary.id: summary for summary in list_summaries(session, ids=gone)} if gone else {}
    rooms = {summary.id: summary.room for summary in (*before.values(), *change.write)}
    session.many(_SAVE_UNDO, (_undo_row(session, run, id, rooms[id], before.get(id)) for id in gone if id in rooms))
    _remove_summaries(session, change.remove)
    if change.write:
        save_summaries(session, [(summary, indexed(summary)) for summary in change.write])
    archive(session, "messages", run.number, change.messages)
    archive(session, "memories", run.number, change.memories)


def archive(session: Session, table: str, run: int, ids: tuple[str, ...]) -> None:
    """Mark records, and take them out of the index."""
    which = "deleted = 0" if table == "messages" else "pinned = 0"
    marked = session.rows(
        f"UPDATE {table} SET archived_by = :run "  # noqa: S608 - our own tables
        f"WHERE tenant = :tenant AND id IN :ids AND archived_by IS NULL AND {which} RETURNING id",
        run=run,
        ids=list(ids),
    )
    documents.remove_documents(session, "message" if table == "messages" else "memory", [id for (id,) in marked])


def restore_summaries(session: Session, run: JanitorRun, indexed: MakeIndexEntry) -> None:
    """Let summaries be what they were before the run."""
    rows = session.rows(
        "SELECT item, room, body FROM janitor_undo WHERE tenant = :tenant AND run = :run", run=run.number
    )
    for item, room, body in rows:
        before = msgspec.json.decode(decrypt(session, body, "janitor_undo", item, room), type=Summary | None)
        if before is None:
            _remove_summaries(session, [item])
        else:
            save_summaries(session, [(before, indexed(before))])
    session.run("DELETE FROM janitor_undo WHERE tenant = :tenant AND run = :run", run=run.number)


def end_run(session: Session, run: JanitorRun, facts: dict[str, int], now: float) -> JanitorRun | None:
    """End a run; one that did nothing leaves no trace."""
    heartbeat(session, run, now)
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


def heartbeat(session: Session, run: JanitorRun, now: float) -> None:
    """Say that somebody is still at it; refuse to go on if another took it over."""
    if not session.run(_HEARTBEAT, number=run.number, holder=run.holder, now=now):
        raise StoreUnavailable(f"tenant {session.tenant!r}", f"run {run.number} was taken over by another janitor")


def list_runs(session: Session, limit: int) -> list[JanitorRun]:
    """Return runs, newest first."""
    return [decode_run(row) for row in session.rows(f"{_RUNS} ORDER BY number DESC LIMIT :limit", limit=limit)]


def decode_run(row: Row) -> JanitorRun:
    """Return the run of a row."""
    number, state, holder, started, ended, facts = row
    return JanitorRun(
        number=number,
        state=state,
        holder=holder,
        started=started,
        ended=ended,
        facts=msgspec.json.decode(facts, type=dict[str, int]),
    )


def _unfinished_run(session: Session, now: float, lease: float) -> JanitorRun | None:
    """Return a run that was broken off; refuse while somebody is at one."""
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
    """Remove summaries; what no context ever saw of them is erased."""
    for id in ids:
        address = remove_row(session, "summaries", "summary", id)
        seen = session.row("SELECT 1 FROM inclusions WHERE tenant = :tenant AND item = :id LIMIT 1", id=id)
        if address is not None and seen is None:
            erase_unused(session, [address])


def _undo_row(session: Session, run: JanitorRun, id: str, room: str, before: Summary | None) -> dict[str, object]:
    body = encrypt(session, msgspec.json.encode(before), "janitor_undo", id, room)
    return {"run": run.number, "item": id, "room": room, "body": body}


BATCH: Final = 500  # records that one transaction sets aside or gives back: others wait no longer than for it

PAGE: Final = 2_000  # messages read at once
PURGED: Final = 2  # what is deleted by hand has 1; a summary goes on to stand for what was purged

_IN_ROOM: Final = "(SELECT number FROM rooms WHERE tenant = :tenant AND id = :room)"
_POSITIONS: Final = f"""
SELECT seq, at, edited, archived_by, deleted FROM messages
WHERE tenant = :tenant AND room = {_IN_ROOM} AND deleted IN (0, {PURGED}) ORDER BY seq
"""  # noqa: S608 - our own
_MESSAGES_AT: Final = f"""
{MESSAGES} WHERE m.tenant = :tenant AND m.room = {_IN_ROOM} AND m.seq IN :seqs AND m.deleted = 0
ORDER BY m.seq
"""
_UNUSED_MESSAGES: Final = f"""
SELECT m.seq, m.id FROM messages m
WHERE m.tenant = :tenant AND m.room = {_IN_ROOM} AND m.deleted = 0 AND m.archived_by IS NULL AND m.at < :before
  AND NOT EXISTS (SELECT 1 FROM inclusions i WHERE i.tenant = m.tenant AND i.item = m.id
    AND i.outcome IN ('kept', 'shrunk'))
  AND NOT EXISTS (SELECT 1 FROM inclusions i WHERE i.tenant = m.tenant AND i.item = m.id || '{RECALLED_SUFFIX}'
    AND i.outcome IN ('kept', 'shrunk'))
ORDER BY m.seq
"""  # noqa: S608 - our own
_UNUSED_MEMORIES: Final = f"""
{MEMORIES} AND m.archived_by IS NULL AND m.pinned = 0 AND m.accesses = 0 AND m.at < :before AND m.id > :after
ORDER BY m.id LIMIT :limit
"""
_ARCHIVED_MESSAGES: Final = f"""
{MESSAGES} WHERE m.tenant = :tenant AND m.archived_by = :run AND m.deleted = 0 ORDER BY m.id LIMIT :limit
"""
_ARCHIVED_MEMORIES: Final = f"{MEMORIES} AND m.archived_by = :run ORDER BY m.id LIMIT :limit"
_PURGE: Final = f"""
UPDATE messages SET deleted = {PURGED}, archived_by = NULL WHERE tenant = :tenant AND deleted = 0 AND id IN (
  SELECT id FROM messages WHERE tenant = :tenant AND archived_by < :before LIMIT :limit) RETURNING id, hash
"""  # noqa: S608 - our own
_PURGE_MEMORIES: Final = "DELETE FROM memories WHERE tenant = :tenant AND archived_by < :before RETURNING id, hash"
_COUNT: Final = """
SELECT (SELECT count(*) FROM messages WHERE tenant = :tenant AND archived_by IS NOT NULL),
  (SELECT count(*) FROM memories WHERE tenant = :tenant AND archived_by IS NOT NULL)
"""


class JanitorStore(Transactions):
    """What the janitor may do in a tenant's store. See `brimful.protocols.JanitorStore` for what each promises."""

    async def places(self, room: str) -> list[MessagePosition]:
        """Return where messages stand in a room, in order, those set aside included."""
        rows = await self._read(lambda session: session.rows(_POSITIONS, room=room))
        return [
            MessagePosition(seq=seq, at=at, edited=edited, archived=archived is not None, purged=deleted != 0)
            for seq, at, edited, archived, deleted in rows
        ]

    async def said(self, room: str, places: Sequence[int]) -> list[Message]:
        """Return the messages at these places of a room, in order, those set aside included."""

        def read(session: Session, seqs: list[int]) -> list[Message]:
            return [decode_message(session, row) for row in session.rows(_MESSAGES_AT, room=room, seqs=seqs)]

        found: list[Message] = []
        for at in range(0, len(places), PAGE):
            found += await self._read(partial(read, seqs=list(places[at : at + PAGE])))
        return found

    async def builds(self, room: str) -> int:
        """Return how many builds of a room are on record."""
        sql = "SELECT count(*) FROM snapshots WHERE tenant = :tenant AND room = :room"
        row = await self._read(lambda session: session.row(sql, room=room))
        return int(row[0]) if row else 0

    async def unused(self, room: str, *, before: float) -> list[tuple[int, str]]:
        """Return place and id of messages from before a time that stood in no context on record."""
        rows = await self._read(lambda session: session.rows(_UNUSED_MESSAGES, room=room, before=before))
        return [(seq, id) for seq, id in rows]

    async def unread(self, *, before: float, after: str = "", limit: int = 1000) -> list[Memory]:
        """Return memories from before a time that nothing ever used and nobody pinned, by id."""

        def read(session: Session) -> list[Memory]:
            rows = session.rows(_UNUSED_MEMORIES, before=before, after=after, limit=limit)
            return [decode_memory(session, row) for row in rows]

        return await self._read(read)

    async def begin(self, *, holder: str, now: float, lease: float) -> JanitorRun:
        """Begin a run, or go on with one that nothing was heard of for as long as the lease."""
        return await self._write(lambda session: begin_run(session, holder, now, lease))

    async def beat(self, run: JanitorRun, *, now: float) -> None:
        """Say that a run is still under way."""
        await self._write(lambda session: heartbeat(session, run, now))

    async def tidy(self, run: JanitorRun, change: JanitorChange, indexed: MakeIndexEntry, *, now: float) -> None:
        """Do something, so that it can be undone: summaries first, then what they stand for, part after part."""
        first = msgspec.structs.replace(change, messages=(), memories=())
        parts = [
            first,
            *(JanitorChange(messages=ids) for ids in _batches(change.messages)),
            *(JanitorChange(memories=ids) for ids in _batches(change.memories)),
        ]
        for part in parts:
            await self._write(partial(apply_change, run=run, change=part, indexed=indexed, now=now))

    async def end(self, run: JanitorRun, facts: dict[str, int], *, now: float) -> JanitorRun | None:
        """End a run; None if it did nothing, and leaves no trace."""
        return await self._write(lambda session: end_run(session, run, facts, now))

    async def undo(self, indexed: MakeIndexEntry, *, holder: str, now: float, lease: float) -> JanitorRun | None:
        """Give back what the last run took, exactly as it was; one that was broken off is undone to its end."""
        run = await self._write(lambda session: begin_undo(session, holder, now, lease))
        if run is None:
            return None
        await self._write(partial(restore_summaries, run=run, indexed=indexed))
        while await self._write(partial(_restore_batch, run=run, indexed=indexed, now=now)):
            continue
        return await self._write(lambda session: end_run(session, run, run.facts, now))

    async def purge(self, *, before: int) -> int:
        """Let go for good of what runs before this number set aside, and return how much it was."""
        gone = 0
        while batch := await self._write(partial(_purge_messages, before=before)):
            gone += batch
        return gone + await self._write(partial(_purge_memories, before=before))

    async def runs(self, *, limit: int = 20) -> list[JanitorRun]:
        """Return runs, newest first."""
        return await self._read(lambda session: list_runs(session, limit))

    async def aside(self) -> dict[str, int]:
        """Return how many messages and memories are set aside."""
        row = await self._read(lambda session: session.row(_COUNT))
        messages, memories = row or (0, 0)
        return {"messages": messages, "memories": memories}


def _batches(ids: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [ids[at : at + BATCH] for at in range(0, len(ids), BATCH)]


def _restore_batch(session: Session, *, run: JanitorRun, indexed: MakeIndexEntry, now: float) -> bool:
    """Give back some of what a run set aside; say whether there may be more."""
    heartbeat(session, run, now)
    rows = session.rows(_ARCHIVED_MESSAGES, run=run.number, limit=BATCH)
    said = [decode_message(session, row) for row in rows]
    known = [decode_memory(session, row) for row in session.rows(_ARCHIVED_MEMORIES, run=run.number, limit=BATCH)]
    _unarchive(session, "messages", [message.id for message in said])
    _unarchive(session, "memories", [memory.id for memory in known])
    documents.add_documents(session, _messages.message_documents((message, indexed(message)) for message in said))
    documents.add_documents(session, [memory_entry(memory, indexed(memory)) for memory in known])
    return bool(said or known)


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
    gone = [(id, hash) for id, hash in session.rows(_PURGE, before=before, limit=BATCH)]
    release_replaced(session, gone)
    return len(gone)


def _purge_memories(session: Session, *, before: int) -> int:
    gone = [(id, hash) for id, hash in session.rows(_PURGE_MEMORIES, before=before)]
    release_replaced(session, gone)
    return len(gone)
