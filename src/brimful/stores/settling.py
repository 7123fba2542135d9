"""What an older version of Brimful has logged, brought to what this one keeps: its digest, its links, its figures."""

from typing import Final

import msgspec

from brimful.stores import log
from brimful.stores.builds import bare, digest_of, sealed_digest
from brimful.stores.contents import see_contents
from brimful.stores.log import Entry
from brimful.stores.responses import answer_entry, responses
from brimful.stores.session import Session
from brimful.stores.snapshots import entry_of
from brimful.stores.tallies import day_of

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
    log.hold(session)
    rows = session.rows(_UNSETTLED, limit=BATCH)
    for place, kind, item in rows:
        entry = _of_build(session, item) if kind == "build" else _of_answer(session, item)
        if entry is None:
            session.run("UPDATE log SET item = NULL WHERE tenant = :tenant AND place = :place", place=place)
            continue
        log.settle(session, place, entry)
        log.count(session, [entry])
    return bool(rows)


def _of_build(session: Session, id: str) -> Entry | None:
    snapshot = bare(session, id)
    if snapshot is None:
        return None
    digest = digest_of(snapshot)
    session.run(
        "UPDATE snapshots SET digest = :digest WHERE tenant = :tenant AND id = :id",
        id=id,
        digest=sealed_digest(session, digest),
    )
    row = session.row("SELECT refs FROM snapshots WHERE tenant = :tenant AND id = :id", id=id)
    if row is not None:
        see_contents(session, msgspec.json.decode(row[0], type=list[str]), day=day_of(snapshot.at))
    return entry_of(digest, snapshot.context)


def _of_answer(session: Session, id: str) -> Entry | None:
    found = responses(session, room=None, context=None, message=None, limit=1, ids=[id])
    if not found:
        return None
    session.run(
        "UPDATE responses SET message = :message WHERE tenant = :tenant AND id = :id", id=id, message=found[0].message
    )
    return answer_entry(session, found[0])
