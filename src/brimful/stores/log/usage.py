"""Usage reports: stored once, listed by model and route, and aggregated in SQL.

Those of summaries are added to the statistics instead: nothing is learned from them.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from brimful.core import validation
from brimful.records.usage import Accuracy, UsageReport
from brimful.stores.log import event_log
from brimful.stores.log.event_log import LogEvent
from brimful.stores.log.tallies import TallyKey, tally_summary
from brimful.stores.session import Row, Session, validate_limit

USAGE_COLUMNS: Final = (
    *("id", "model", "route", "at", "kind", "context", "room", "counted", "margin", "basis", "tokenizer", "features"),
    *("reported", "cached", "expected_cached", "completion", "reasoning", "reported_window"),
)
_INSERT: Final = (
    f"INSERT INTO usage_reports (tenant, {', '.join(USAGE_COLUMNS)}) "  # noqa: S608 - our own columns
    f"VALUES (:tenant, {', '.join(f':{name}' for name in USAGE_COLUMNS)}) ON CONFLICT DO NOTHING"
)
READ_USAGE: Final = f"SELECT number, {', '.join(USAGE_COLUMNS)} FROM usage_reports WHERE tenant = :tenant"  # noqa: S608 - our own
_NEXT_ROUTE: Final = """
SELECT model, route FROM usage_reports WHERE tenant = :tenant AND model = :model AND route > :route
ORDER BY route LIMIT 1
"""
_NEXT_MODEL: Final = """
SELECT model, route FROM usage_reports WHERE tenant = :tenant AND model > :model ORDER BY model, route LIMIT 1
"""
_ACCURACY: Final = """
SELECT sum(used), avg(off), avg(abs(off)), max(off), min(off), avg(covered), sum(counted), sum(reported),
  sum(expected_cached), sum(cached), sum(overflow), sum(cut), min(at), max(at)
FROM (
  SELECT at,
    CASE WHEN kind = 'usage' THEN 1 ELSE 0 END AS used,
    CASE WHEN kind = 'overflow' THEN 1 ELSE 0 END AS overflow,
    CASE WHEN kind = 'cut' THEN 1 ELSE 0 END AS cut,
    CASE WHEN kind = 'usage' AND reported > 0
      THEN CAST(counted - reported AS DOUBLE PRECISION) / reported END AS off,
    CASE WHEN kind = 'usage' THEN CASE WHEN reported <= counted + margin THEN 1.0 ELSE 0.0 END END AS covered,
    CASE WHEN kind = 'usage' THEN counted ELSE 0 END AS counted,
    CASE WHEN kind = 'usage' THEN reported ELSE 0 END AS reported,
    CASE WHEN kind = 'usage' THEN expected_cached ELSE 0 END AS expected_cached,
    CASE WHEN kind = 'usage' THEN cached ELSE 0 END AS cached
  FROM usage_reports WHERE tenant = :tenant AND model = :model AND route = :route AND at >= :since AND kind <> 'summary'
) seen
"""


def save_usage(session: Session, report: UsageReport) -> None:
    """Save a usage report. If there is one with this id, it stays."""
    event_log.append_events(session, insert_usage(session, report))


def insert_usage(session: Session, report: UsageReport) -> list[LogEvent]:
    """Insert a usage report unless there is one with this id; return its event for the log, if it is of a summary."""
    values = {name: getattr(report, name) for name in USAGE_COLUMNS if name != "reported_window"}
    values["features"] = msgspec.json.encode(report.features)
    is_new = session.run(_INSERT, **values, reported_window=report.window)
    return [_make_event(report)] if is_new and report.kind == "summary" else []


def list_usage(
    session: Session,
    model: str | None = None,
    route: str | None = None,
    *,
    ids: Sequence[str] | None = None,
    before: float | None = None,
    unusual: bool = False,
    summaries: bool = False,
    limit: int = 256,
) -> list[UsageReport]:
    """Return the usage reports that match all filters, newest first.

    `unusual` selects overflows and cuts. Reports of summaries are left out without `summaries`.
    """
    sql = READ_USAGE + (" AND kind <> 'usage'" if unusual else "") + ("" if summaries else " AND kind <> 'summary'")
    conditions = {"model = :model": model, "route = :route": route, "id IN :ids": ids, "at < :before": before}
    order = "ORDER BY at DESC, number DESC LIMIT :limit"
    found = session.select(sql, conditions, order, limit=validate_limit(limit))
    return [decode_usage(session, row) for row in found]


def compute_accuracy(session: Session, *, since: float | None = None, model: str | None = None) -> list[Accuracy]:
    """Return how accurately prompts were counted since a time, by model and route.

    Models and routes are found one by one with index lookups, and the index covers all aggregated columns.
    """
    begin = -validation.MAX_INTEGER if since is None else since
    found = []
    for name, route in _models_and_routes(session, model):
        row = session.row(_ACCURACY, model=name, route=route, since=begin)
        if row is not None and row[-1] is not None:
            found.append(_make_accuracy(name, route, row))
    return found


def clear_room(session: Session, room: str) -> None:
    """Remove references to a deleted room. The reports themselves stay."""
    session.run(
        "UPDATE usage_reports SET room = NULL, context = NULL WHERE tenant = :tenant AND room = :room", room=room
    )


def decode_usage(session: Session, row: Row) -> UsageReport:
    del session  # usage reports have no content, so they are not encrypted
    values = dict(zip(USAGE_COLUMNS, row[1:], strict=True))
    values["features"] = msgspec.json.decode(values["features"], type=dict[str, float])
    return UsageReport(window=values.pop("reported_window"), **values)


def _make_event(report: UsageReport) -> LogEvent:
    return LogEvent(
        kind="summary",
        item=report.id,
        room=report.room or "",
        at=report.at,
        key=TallyKey("", report.model, ""),
        tally=tally_summary(report),
    )


def _models_and_routes(session: Session, model: str | None) -> Iterator[tuple[str, str]]:
    """Yield every model and route with usage reports, or only the routes of one model."""
    found = session.row(_NEXT_MODEL, model="") if model is None else session.row(_NEXT_ROUTE, model=model, route="")
    while found is not None:
        name, route = found
        yield name, route
        found = session.row(_NEXT_ROUTE, model=name, route=route)
        if found is None and model is None:
            found = session.row(_NEXT_MODEL, model=name)


def _make_accuracy(model: str, route: str, row: Row) -> Accuracy:
    requests, mean, absolute, highest, lowest, covered, *sums, first, last = row
    counted, reported, expected, cached, overflows, cuts = map(int, sums)
    worst = max(highest or 0.0, lowest or 0.0, key=abs)
    return Accuracy(
        model=model,
        route=route,
        requests=int(requests),
        mean_error=mean or 0.0,
        mean_absolute_error=absolute or 0.0,
        worst_error=worst,
        covered=1.0 if covered is None else float(covered),
        counted=counted,
        reported=reported,
        expected_cached=expected,
        cached=cached,
        overflows=overflows,
        cuts=cuts,
        first=first,
        last=last,
    )
