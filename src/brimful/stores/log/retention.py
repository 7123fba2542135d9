"""Retention: delete old contexts and responses, and contents that nothing else references.

Whole hours are pruned, so statistics of the remaining hours stay exact; tallies of pruned hours are kept.
"""

from collections.abc import Sequence
from typing import Final

from brimful.records.contexts import PruneReport
from brimful.stores.log import event_log
from brimful.stores.log.candidates import remove_unused_items
from brimful.stores.log.tallies import HOUR, day_of, hour_of
from brimful.stores.session import Session

BATCH: Final = 200  # events per transaction
_OLD: Final = """
SELECT position, kind, item FROM log WHERE tenant = :tenant AND at < :before ORDER BY at LIMIT :limit
"""
_BYTES: Final = "length(digest) + coalesce(length(items), 0) + length(refs) + length(body)"
_SNAPSHOTS: Final = f"""
SELECT count(*), coalesce(sum({_BYTES}), 0)
FROM snapshots WHERE tenant = :tenant AND id IN :ids
"""  # noqa: S608 - our own
_RESPONSES: Final = (
    "SELECT count(*), coalesce(sum(length(body)), 0) FROM responses WHERE tenant = :tenant AND id IN :ids"
)
_UNUSED: Final = """
SELECT hash, length(body) FROM contents WHERE tenant = :tenant AND uses <= 0 AND seen < :day LIMIT :limit
"""
_UNUSED_SIZE: Final = """
SELECT count(*), coalesce(sum(length(body)), 0) FROM contents WHERE tenant = :tenant AND uses <= 0 AND seen < :day
"""
_OLD_BUILDS: Final = f"""
SELECT count(*), coalesce(sum((
  SELECT {_BYTES} FROM snapshots s WHERE s.tenant = l.tenant AND s.id = l.item
)), 0)
FROM log l WHERE tenant = :tenant AND at < :before AND kind = 'build' AND item IS NOT NULL
"""  # noqa: S608 - our own
_OLD_ANSWERS: Final = """
SELECT count(*), coalesce(sum((
  SELECT length(body) FROM responses r WHERE r.tenant = l.tenant AND r.id = l.item
)), 0)
FROM log l WHERE tenant = :tenant AND at < :before AND kind = 'response' AND item IS NOT NULL
"""


def start_of_hour(before: float) -> float:
    """Return the start of the hour of a timestamp, where pruning ends.

    >>> start_of_hour(7300.0)
    7200.0
    """
    return hour_of(before) * HOUR


def count_prunable(session: Session, before: float) -> PruneReport:
    """Return what would be pruned."""
    builds, of_builds = _sizes(session, _OLD_BUILDS, before=before)
    answers, of_answers = _sizes(session, _OLD_ANSWERS, before=before)
    contents, of_contents = _sizes(session, _UNUSED_SIZE, day=day_of(before))
    return PruneReport(
        before=before, builds=builds, answers=answers, contents=contents, bytes=of_builds + of_answers + of_contents
    )


def oldest_event(session: Session) -> float | None:
    """Return the time of the oldest context or response; None if there is none."""
    row = session.row("SELECT min(at) FROM log WHERE tenant = :tenant")
    return None if row is None else row[0]


def prune_events(session: Session, before: float) -> PruneReport | None:
    """Delete the next events; None if there are none left."""
    event_log.lock_log(session)
    event_log.mark_pruned(session, before)
    rows = session.rows(_OLD, before=before, limit=BATCH)
    if not rows:
        return None
    builds, of_builds = _delete_rows(
        session, "snapshots", _SNAPSHOTS, [id for _, kind, id in rows if kind == "build" and id]
    )
    answers, of_answers = _delete_rows(
        session, "responses", _RESPONSES, [id for _, kind, id in rows if kind != "build" and id]
    )
    session.run("DELETE FROM log WHERE tenant = :tenant AND position IN :positions", positions=[row[0] for row in rows])
    return PruneReport(before=before, builds=builds, answers=answers, bytes=of_builds + of_answers)


def prune_contents(session: Session, before: float) -> PruneReport | None:
    """Delete the next unreferenced contents; None if there are none left.

    A content has the day of the last context that refers to it. It is deleted when that day is over.
    """
    rows = session.rows(_UNUSED, day=day_of(before), limit=BATCH)
    if not rows:
        return None
    deleted = session.rows(
        "DELETE FROM contents WHERE tenant = :tenant AND uses <= 0 AND seen < :day AND hash IN :hashes RETURNING hash",
        day=day_of(before),
        hashes=[hash for hash, _ in rows],
    )
    sizes: dict[str, int] = dict(rows)
    return PruneReport(before=before, contents=len(deleted), bytes=sum(sizes[hash] for (hash,) in deleted))


def sum_reports(before: float, parts: Sequence[PruneReport]) -> PruneReport:
    sums = {name: sum(getattr(part, name) for part in parts) for name in ("builds", "answers", "contents", "bytes")}
    return PruneReport(before=before, **sums)


def _delete_rows(session: Session, table: str, sizes: str, ids: list[str]) -> tuple[int, int]:
    if not ids:
        return 0, 0
    count, size = _sizes(session, sizes, ids=ids)
    sql = f"DELETE FROM {table} WHERE tenant = :tenant AND id IN :ids RETURNING room"  # noqa: S608 - our own tables
    rooms = [room for (room,) in session.rows(sql, ids=ids)]
    if table == "snapshots":
        remove_unused_items(session, rooms)
    return count, size


def _sizes(session: Session, sql: str, **values: float | list[str]) -> tuple[int, int]:
    row = session.row(sql, **values)
    return (int(row[0]), int(row[1])) if row else (0, 0)
