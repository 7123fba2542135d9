"""What can be done to a tenant's store between conversations, and how it is undone."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from brimful.packagers.ids import RECALLED
from brimful.protocols.housekeeping import Change, Indexing, Place, Run
from brimful.records import Memory, Message
from brimful.stores import documents, posting, tidying
from brimful.stores.erasing import supersede
from brimful.stores.memories import READ as MEMORIES
from brimful.stores.memories import entry_of as memory_entry
from brimful.stores.memories import memory_of
from brimful.stores.messages import READ as MESSAGES
from brimful.stores.messages import message_of
from brimful.stores.session import Session
from brimful.stores.transactions import Transactions

BATCH: Final = 500  # records that one transaction sets aside or gives back: others wait no longer than for it

PAGE: Final = 2_000  # messages read at once
PURGED: Final = 2  # what is deleted by hand has 1; a summary goes on to stand for what was purged

_IN_ROOM: Final = "(SELECT number FROM rooms WHERE tenant = :tenant AND id = :room)"
_PLACES: Final = f"""
SELECT seq, at, edited, aside, deleted FROM messages
WHERE tenant = :tenant AND room = {_IN_ROOM} AND deleted IN (0, {PURGED}) ORDER BY seq
"""  # noqa: S608 - our own
_SAID: Final = f"""
{MESSAGES} WHERE m.tenant = :tenant AND m.room = {_IN_ROOM} AND m.seq IN :seqs AND m.deleted = 0
ORDER BY m.seq
"""
_UNUSED: Final = f"""
SELECT m.seq, m.id FROM messages m
WHERE m.tenant = :tenant AND m.room = {_IN_ROOM} AND m.deleted = 0 AND m.aside IS NULL AND m.at < :before
  AND NOT EXISTS (SELECT 1 FROM inclusions i WHERE i.tenant = m.tenant AND i.item = m.id
    AND i.outcome IN ('kept', 'shrunk'))
  AND NOT EXISTS (SELECT 1 FROM inclusions i WHERE i.tenant = m.tenant AND i.item = m.id || '{RECALLED}'
    AND i.outcome IN ('kept', 'shrunk'))
ORDER BY m.seq
"""  # noqa: S608 - our own
_UNREAD: Final = f"""
{MEMORIES} AND m.aside IS NULL AND m.pinned = 0 AND m.accesses = 0 AND m.at < :before AND m.id > :after
ORDER BY m.id LIMIT :limit
"""
_ASIDE_MESSAGES: Final = f"""
{MESSAGES} WHERE m.tenant = :tenant AND m.aside = :run AND m.deleted = 0 ORDER BY m.id LIMIT :limit
"""
_ASIDE_MEMORIES: Final = f"{MEMORIES} AND m.aside = :run ORDER BY m.id LIMIT :limit"
_PURGE: Final = f"""
UPDATE messages SET deleted = {PURGED}, aside = NULL WHERE tenant = :tenant AND deleted = 0 AND id IN (
  SELECT id FROM messages WHERE tenant = :tenant AND aside < :before LIMIT :limit) RETURNING id, hash
"""  # noqa: S608 - our own
_PURGE_MEMORIES: Final = "DELETE FROM memories WHERE tenant = :tenant AND aside < :before RETURNING id, hash"
_COUNT: Final = """
SELECT (SELECT count(*) FROM messages WHERE tenant = :tenant AND aside IS NOT NULL),
  (SELECT count(*) FROM memories WHERE tenant = :tenant AND aside IS NOT NULL)
"""


class TenantHousekeeping(Transactions):
    """What the janitor may do in a tenant's store. See `brimful.protocols.Housekeeping` for what each promises."""

    async def places(self, room: str) -> list[Place]:
        """Return where messages stand in a room, in order, those set aside included."""
        rows = await self._read(lambda session: session.rows(_PLACES, room=room))
        return [
            Place(seq=seq, at=at, edited=edited, aside=aside is not None, gone=deleted != 0)
            for seq, at, edited, aside, deleted in rows
        ]

    async def said(self, room: str, places: Sequence[int]) -> list[Message]:
        """Return the messages at these places of a room, in order, those set aside included."""

        def read(session: Session, seqs: list[int]) -> list[Message]:
            return [message_of(session, row) for row in session.rows(_SAID, room=room, seqs=seqs)]

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
        rows = await self._read(lambda session: session.rows(_UNUSED, room=room, before=before))
        return [(seq, id) for seq, id in rows]

    async def unread(self, *, before: float, after: str = "", limit: int = 1000) -> list[Memory]:
        """Return memories from before a time that nothing ever used and nobody pinned, by id."""

        def read(session: Session) -> list[Memory]:
            rows = session.rows(_UNREAD, before=before, after=after, limit=limit)
            return [memory_of(session, row) for row in rows]

        return await self._read(read)

    async def begin(self, *, holder: str, now: float, lease: float) -> Run:
        """Begin a run, or go on with one that nothing was heard of for as long as the lease."""
        return await self._write(lambda session: tidying.begin(session, holder, now, lease))

    async def beat(self, run: Run, *, now: float) -> None:
        """Say that a run is still under way."""
        await self._write(lambda session: tidying.still_held(session, run, now))

    async def tidy(self, run: Run, change: Change, indexed: Indexing, *, now: float) -> None:
        """Do something, so that it can be undone: summaries first, then what they stand for, part after part."""
        first = msgspec.structs.replace(change, messages=(), memories=())
        parts = [
            first,
            *(Change(messages=ids) for ids in _batches(change.messages)),
            *(Change(memories=ids) for ids in _batches(change.memories)),
        ]
        for part in parts:
            await self._write(partial(tidying.tidy, run=run, change=part, indexed=indexed, now=now))

    async def end(self, run: Run, facts: dict[str, int], *, now: float) -> Run | None:
        """End a run; None if it did nothing, and leaves no trace."""
        return await self._write(lambda session: tidying.end(session, run, facts, now))

    async def undo(self, indexed: Indexing, *, holder: str, now: float, lease: float) -> Run | None:
        """Give back what the last run took, exactly as it was; one that was broken off is undone to its end."""
        run = await self._write(lambda session: tidying.begin_undo(session, holder, now, lease))
        if run is None:
            return None
        await self._write(partial(tidying.put_back_summaries, run=run, indexed=indexed))
        while await self._write(partial(_give_back, run=run, indexed=indexed, now=now)):
            continue
        return await self._write(lambda session: tidying.end(session, run, run.facts, now))

    async def purge(self, *, before: int) -> int:
        """Let go for good of what runs before this number set aside, and return how much it was."""
        gone = 0
        while batch := await self._write(partial(_let_go, before=before)):
            gone += batch
        return gone + await self._write(partial(_let_go_of_memories, before=before))

    async def runs(self, *, limit: int = 20) -> list[Run]:
        """Return runs, newest first."""
        return await self._read(lambda session: tidying.runs(session, limit))

    async def aside(self) -> dict[str, int]:
        """Return how many messages and memories are set aside."""
        row = await self._read(lambda session: session.row(_COUNT))
        messages, memories = row or (0, 0)
        return {"messages": messages, "memories": memories}


def _batches(ids: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [ids[at : at + BATCH] for at in range(0, len(ids), BATCH)]


def _give_back(session: Session, *, run: Run, indexed: Indexing, now: float) -> bool:
    """Give back some of what a run set aside; say whether there may be more."""
    tidying.still_held(session, run, now)
    rows = session.rows(_ASIDE_MESSAGES, run=run.number, limit=BATCH)
    said = [message_of(session, row) for row in rows]
    known = [memory_of(session, row) for row in session.rows(_ASIDE_MEMORIES, run=run.number, limit=BATCH)]
    _unmark(session, "messages", [message.id for message in said])
    _unmark(session, "memories", [memory.id for memory in known])
    documents.add(session, posting.entries_of((message, indexed(message)) for message in said))
    documents.add(session, [memory_entry(memory, indexed(memory)) for memory in known])
    return bool(said or known)


def _unmark(session: Session, table: str, ids: Sequence[str]) -> None:
    session.run(
        f"UPDATE {table} SET aside = NULL WHERE tenant = :tenant AND id IN :ids",  # noqa: S608 - our own tables
        ids=list(ids),
    )


def _let_go(session: Session, *, before: int) -> int:
    session.run(
        "UPDATE tidyings SET state = 'purged' WHERE tenant = :tenant AND number < :before AND state = 'done'",
        before=before,
    )
    session.run("DELETE FROM tidied WHERE tenant = :tenant AND run < :before", before=before)
    gone = [(id, hash) for id, hash in session.rows(_PURGE, before=before, limit=BATCH)]
    supersede(session, gone)
    return len(gone)


def _let_go_of_memories(session: Session, *, before: int) -> int:
    gone = [(id, hash) for id, hash in session.rows(_PURGE_MEMORIES, before=before)]
    supersede(session, gone)
    return len(gone)
