"""Runs of the janitor: who is at it, what was set aside, and what summaries were before."""

from collections.abc import Sequence

import msgspec

from brimful.errors import StoreUnavailable
from brimful.protocols.housekeeping import Change, Indexing, Run
from brimful.records import Summary
from brimful.stores import documents
from brimful.stores.contents import erase_unused
from brimful.stores.rewriting import take_out
from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Row, Session
from brimful.stores.summaries import summaries, summarize

_RUNS = "SELECT number, state, holder, begun, ended, facts FROM tidyings WHERE tenant = :tenant"
_BEGIN = """
INSERT INTO tidyings (tenant, state, holder, begun, beat, facts)
VALUES (:tenant, 'running', :holder, :now, :now, :facts) RETURNING number
"""
_BEAT = """
UPDATE tidyings SET beat = :now
WHERE tenant = :tenant AND number = :number AND holder = :holder AND state IN ('running', 'undoing')
"""
_KEEP = """
INSERT INTO tidied (tenant, run, item, room, body) VALUES (:tenant, :run, :item, :room, :body) ON CONFLICT DO NOTHING
"""
_TRACES = """
SELECT 1 WHERE EXISTS (SELECT 1 FROM tidied WHERE tenant = :tenant AND run = :run)
  OR EXISTS (SELECT 1 FROM messages WHERE tenant = :tenant AND aside = :run)
  OR EXISTS (SELECT 1 FROM memories WHERE tenant = :tenant AND aside = :run)
"""


def begin(session: Session, holder: str, now: float, lease: float) -> Run:
    """Begin a run, or go on with one that nothing was heard of for as long as the lease."""
    session.dialect.alone(session, "tidy")
    held = _held(session, now, lease)
    if held is not None and held.state == "undoing":
        raise StoreUnavailable(
            f"tenant {session.tenant!r}", f"run {held.number} was being undone; undo it to the end first"
        )
    if held is not None:
        return _taken(session, held, holder, now)
    row = session.row(_BEGIN, holder=holder, now=now, facts=b"{}")
    return Run(number=row[0] if row else 0, state="running", holder=holder, begun=now)


def begin_undo(session: Session, holder: str, now: float, lease: float) -> Run | None:
    """Take up the last run that was not undone; None if there is none."""
    session.dialect.alone(session, "tidy")
    held = _held(session, now, lease)
    row = session.row(f"{_RUNS} AND state IN ('running', 'done', 'undoing') ORDER BY number DESC LIMIT 1")
    if held is None and row is None:
        return None
    last = held or run_of(row or ())
    session.run("UPDATE tidyings SET state = 'undoing' WHERE tenant = :tenant AND number = :number", number=last.number)
    return _taken(session, msgspec.structs.replace(last, state="undoing"), holder, now)


def tidy(session: Session, run: Run, change: Change, indexed: Indexing, now: float) -> None:
    """Do something, and keep what it takes the place of. Of what was changed before in this run, the first is kept."""
    still_held(session, run, now)
    gone = [*change.remove, *(summary.id for summary in change.write)]
    before = {summary.id: summary for summary in summaries(session, None, gone)} if gone else {}
    rooms = {summary.id: summary.room for summary in (*before.values(), *change.write)}
    session.many(_KEEP, (_kept(session, run, id, rooms[id], before.get(id)) for id in gone if id in rooms))
    _remove(session, change.remove)
    if change.write:
        summarize(session, [(summary, indexed(summary)) for summary in change.write])
    set_aside(session, "messages", run.number, change.messages)
    set_aside(session, "memories", run.number, change.memories)


def set_aside(session: Session, table: str, run: int, ids: tuple[str, ...]) -> None:
    """Mark records, and take them out of the index."""
    which = "deleted = 0" if table == "messages" else "pinned = 0"
    marked = session.rows(
        f"UPDATE {table} SET aside = :run "  # noqa: S608 - our own tables
        f"WHERE tenant = :tenant AND id IN :ids AND aside IS NULL AND {which} RETURNING id",
        run=run,
        ids=list(ids),
    )
    documents.remove(session, "message" if table == "messages" else "memory", [id for (id,) in marked])


def put_back_summaries(session: Session, run: Run, indexed: Indexing) -> None:
    """Let summaries be what they were before the run."""
    rows = session.rows("SELECT item, room, body FROM tidied WHERE tenant = :tenant AND run = :run", run=run.number)
    for item, room, body in rows:
        before = msgspec.json.decode(unseal(session, body, "tidied", item, room), type=Summary | None)
        if before is None:
            _remove(session, [item])
        else:
            summarize(session, [(before, indexed(before))])
    session.run("DELETE FROM tidied WHERE tenant = :tenant AND run = :run", run=run.number)


def end(session: Session, run: Run, facts: dict[str, int], now: float) -> Run | None:
    """End a run; one that did nothing leaves no trace."""
    still_held(session, run, now)
    if run.state == "running" and session.row(_TRACES, run=run.number) is None:
        session.run("DELETE FROM tidyings WHERE tenant = :tenant AND number = :number", number=run.number)
        return None
    ended = msgspec.structs.replace(run, state="done" if run.state == "running" else "undone", ended=now)
    if ended.state == "done":
        ended = msgspec.structs.replace(ended, facts=facts)
    session.run(
        "UPDATE tidyings SET state = :state, ended = :now, facts = :facts WHERE tenant = :tenant AND number = :number",
        number=run.number,
        state=ended.state,
        now=now,
        facts=msgspec.json.encode(ended.facts),
    )
    return ended


def still_held(session: Session, run: Run, now: float) -> None:
    """Say that somebody is still at it; refuse to go on if another took it over."""
    if not session.run(_BEAT, number=run.number, holder=run.holder, now=now):
        raise StoreUnavailable(f"tenant {session.tenant!r}", f"run {run.number} was taken over by another janitor")


def runs(session: Session, limit: int) -> list[Run]:
    """Return runs, newest first."""
    return [run_of(row) for row in session.rows(f"{_RUNS} ORDER BY number DESC LIMIT :limit", limit=limit)]


def run_of(row: Row) -> Run:
    """Return the run of a row."""
    number, state, holder, begun, ended, facts = row
    return Run(
        number=number,
        state=state,
        holder=holder,
        begun=begun,
        ended=ended,
        facts=msgspec.json.decode(facts, type=dict[str, int]),
    )


def _held(session: Session, now: float, lease: float) -> Run | None:
    """Return a run that was broken off; refuse while somebody is at one."""
    row = session.row(f"{_RUNS} AND state IN ('running', 'undoing') ORDER BY number DESC LIMIT 1")
    if row is None:
        return None
    beat = session.row("SELECT beat FROM tidyings WHERE tenant = :tenant AND number = :number", number=row[0])
    wait = (beat[0] if beat else now) + lease - now
    if 0 < wait <= lease:
        raise StoreUnavailable(
            f"tenant {session.tenant!r}",
            f"the janitor is at work (run {row[0]}); wait until it has ended, or, if it was killed, {wait:.0f} s",
            retriable=True,
        )
    return run_of(row)


def _taken(session: Session, run: Run, holder: str, now: float) -> Run:
    session.run(
        "UPDATE tidyings SET holder = :holder, beat = :now WHERE tenant = :tenant AND number = :number",
        number=run.number,
        holder=holder,
        now=now,
    )
    return msgspec.structs.replace(run, holder=holder)


def _remove(session: Session, ids: Sequence[str]) -> None:
    """Remove summaries; what no context ever saw of them is erased."""
    for id in ids:
        address = take_out(session, "summaries", "summary", id)
        seen = session.row("SELECT 1 FROM inclusions WHERE tenant = :tenant AND item = :id LIMIT 1", id=id)
        if address is not None and seen is None:
            erase_unused(session, [address])


def _kept(session: Session, run: Run, id: str, room: str, before: Summary | None) -> dict[str, object]:
    body = seal(session, msgspec.json.encode(before), "tidied", id, room)
    return {"run": run.number, "item": id, "room": room, "body": body}
