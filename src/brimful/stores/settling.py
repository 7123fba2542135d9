"""What an older version of Brimful has logged, brought to what this one keeps: its digest, its links, its figures."""

from typing import Final

import msgspec

from brimful.stores.log import event_log
from brimful.stores.log.contexts import build_event, encrypt_build, make_build, snapshot_without_contents
from brimful.stores.log.event_log import LogEvent
from brimful.stores.log.responses import list_responses, response_event
from brimful.stores.log.tallies import day_of
from brimful.stores.session import Session
from brimful.stores.tables.contents import mark_seen

BATCH: Final = 50  # events in one transaction: nobody can append until it ends
_UNSETTLED: Final = """
SELECT place, kind, item FROM log
WHERE tenant = :tenant AND body IS NULL AND item IS NOT NULL ORDER BY place LIMIT :limit
"""


def unsettled(session: Session) -> bool:
    """Say whether there is anything to do."""
    return bool(session.rows(_UNSETTLED, limit=1))


def settle_some(session: Session) -> bool:
    """Settle the next events; False if there are none. Whoever joins in helps."""
    event_log.lock_log(session)
    rows = session.rows(_UNSETTLED, limit=BATCH)
    for place, kind, item in rows:
        entry = _of_build(session, item) if kind == "build" else _of_answer(session, item)
        if entry is None:
            session.run("UPDATE log SET item = NULL WHERE tenant = :tenant AND place = :place", place=place)
            continue
        event_log.settle(session, place, entry)
        event_log.count_events(session, [entry])
    return bool(rows)


def _of_build(session: Session, id: str) -> LogEvent | None:
    snapshot = snapshot_without_contents(session, id)
    if snapshot is None:
        return None
    digest = make_build(snapshot)
    session.run(
        "UPDATE snapshots SET digest = :digest WHERE tenant = :tenant AND id = :id",
        id=id,
        digest=encrypt_build(session, digest),
    )
    row = session.row("SELECT refs FROM snapshots WHERE tenant = :tenant AND id = :id", id=id)
    if row is not None:
        mark_seen(session, msgspec.json.decode(row[0], type=list[str]), day=day_of(snapshot.at))
    return build_event(digest, snapshot.context)


def _of_answer(session: Session, id: str) -> LogEvent | None:
    found = list_responses(session, room=None, context=None, message=None, limit=1, ids=[id])
    if not found:
        return None
    session.run(
        "UPDATE responses SET message = :message WHERE tenant = :tenant AND id = :id", id=id, message=found[0].message
    )
    return response_event(session, found[0])
