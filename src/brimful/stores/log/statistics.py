"""Statistics of a time span: whole days and hours from tallies, the rest from single events."""

import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final, assert_never, get_args

import msgspec

from brimful.core.validation import preview
from brimful.errors import InvalidValue
from brimful.records.statistics import Grouping, Statistics
from brimful.stores.log import event_log, tallies
from brimful.stores.log.tallies import DAY, HOUR, Scope, Size, Tally, TallyKey, hour_of, make_statistics
from brimful.stores.session import Session, validate_optional_time

_EVENTS: Final = """
SELECT at, persona, model, policy, user_id, api_key, body FROM log
WHERE tenant = :tenant AND at >= :since AND at < :until
"""
_OWNERS: Final = {"room": "coalesce(room, '')", "user": "user_id", "key": "api_key"}
"""Columns of the log. They are filtered after the time index, because a room may be as old as the store."""
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - days and hours are in UTC
_LAST_HOUR: Final = 17_000_000  # about the year 3909; later hours have no date
_UNBOUNDED: Final = 2**53

HourTally = tuple[int, TallyKey, Tally]
"""The first hour, the key, and the tally of an hour or a day."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A time span: whole hours from `first` up to `last`, and edges whose events are read one by one."""

    first: int
    last: int
    edges: tuple[tuple[float, float], ...] = ()


def compute_statistics(
    session: Session,
    *,
    since: float | None = None,
    until: float | None = None,
    persona: str | None = None,
    room: str | None = None,
    user: str | None = None,
    key: str | None = None,
    by: Grouping = "",
) -> list[Statistics]:
    """Return statistics of a time span, grouped by `by`; without it, exactly one.

    They are exact, except that a pruned hour counts as a whole, by its start. At most one of `room`, `user` and `key`
    (the id of an API key) may be given. By user or by key, contexts without one are left out.
    """
    if by not in get_args(Grouping):
        raise InvalidValue("by", f"must be one of {', '.join(filter(None, get_args(Grouping)))}, not {preview(by)}")
    since, until = validate_optional_time("since", since), validate_optional_time("until", until)
    _, pruned = event_log.log_end(session)
    scope, owner = _choose_scope({"room": room, "user": user, "key": key}, by)
    span = split_span(since, until, pruned)
    found = _read_span(session, span, scope=scope, owner=owner, persona=persona, by=by)
    groups: dict[tuple[int, str], dict[str, Tally]] = {} if by else {(0, ""): {}}
    for hour, sort, tally in found:
        group = groups.setdefault(_group(by, hour, sort), {})
        group.setdefault(sort.model, Tally()).add(tally)
    return [_make_group(by, group, groups[group]) for group in sorted(groups)]


def _choose_scope(owners: Mapping[Scope, str | None], by: Grouping) -> tuple[Scope, str | None]:
    """Return which tallies to read, and whose: None is everybody's."""
    named = [scope for scope, owner in owners.items() if owner is not None]
    if len(named) > 1:
        raise InvalidValue(named[1], f"cannot be combined with `{named[0]}`")
    if by in ("user", "key"):
        if named and named[0] != by:
            raise InvalidValue("by", f"cannot be {by!r} for one {named[0]}")
        return by, owners[by]
    return (named[0], owners[named[0]]) if named else ("all", "")


def split_span(since: float | None, until: float | None, pruned: int) -> Span:
    """Split a time span into whole hours and edges. Hours before `pruned` count as a whole, by their start.

    >>> split_span(1800.0, 9000.0, 0)
    Span(first=1, last=2, edges=((1800.0, 3600.0), (7200.0, 9000.0)))
    >>> split_span(1800.0, 9000.0, 5)
    Span(first=1, last=3, edges=())
    """
    first = -_UNBOUNDED if since is None else hour_of(since) + (since > hour_of(since) * HOUR)
    last = _UNBOUNDED if until is None else hour_of(until)
    edges = []
    if since is not None and until is not None and first > last:
        edges = [(since, until)] if since < until else []
        return Span(first=first, last=first, edges=tuple(each for each in edges if last >= pruned))
    if since is not None and since < first * HOUR and first > pruned:
        edges.append((since, first * HOUR))
    if until is not None and until > last * HOUR:
        if last >= pruned:
            edges.append((last * HOUR, until))
        else:
            last += 1
    return Span(first=first, last=last, edges=tuple(edges))


def _read_span(
    session: Session, span: Span, *, scope: Scope, owner: str | None, persona: str | None, by: Grouping
) -> Iterator[HourTally]:
    for size, first, last in _parts(span, by):
        yield from tallies.read_tallies(session, size, first, last, scope=scope, owner=owner, persona=persona)
    which = "" if persona is None else " AND persona = :persona"
    if scope != "all":
        which += f" AND {_OWNERS[scope]} {'<>' if owner is None else '='} :owner"
    for since, until in span.edges:
        rows = session.rows(f"{_EVENTS}{which}", since=since, until=until, persona=persona, owner=owner or "")
        for at, who, model, policy, user, key, body in rows:
            yield hour_of(at), TallyKey(who, model, policy, user, key), tallies.decode_tally(body)


def _parts(span: Span, by: Grouping) -> Iterator[tuple[Size, int, int]]:
    """Yield the tallies that cover whole hours: whole days, and the hours around them."""
    first, last = math.ceil(span.first / DAY) * DAY, span.last // DAY * DAY
    if by == "hour" or first >= last:
        yield 1, span.first, span.last
        return
    yield 1, span.first, first
    yield 24, first, last
    yield 1, last, span.last


def _group(by: Grouping, hour: int, sort: TallyKey) -> tuple[int, str]:
    """Return the group of a tally: a time by its first hour, anything else by name."""
    match by:
        case "":
            return 0, ""
        case "hour":
            return hour, ""
        case "day":
            return hour // DAY * DAY, ""
        case "key":
            return 0, sort.api_key
        case "model" | "policy" | "persona" | "user":
            name: str = getattr(sort, by)
            return 0, name
    assert_never(by)


def _make_group(by: Grouping, group: tuple[int, str], models: dict[str, Tally]) -> Statistics:
    hour, name = group
    if by not in ("hour", "day"):
        return make_statistics(name, None, models)
    return make_statistics(_format_date(hour, by), hour * HOUR, models)


def _format_date(hour: int, by: Grouping) -> str:
    """Format a day or an hour in UTC.

    >>> _format_date(472222, "hour"), _format_date(472222, "day"), _format_date(10**15, "day")
    ('2023-11-14T22:00Z', '2023-11-14', '')
    """
    if not abs(hour) < _LAST_HOUR:
        return ""
    moment = _EPOCH + timedelta(hours=hour)
    return f"{moment:%Y-%m-%d}" if by == "day" else f"{moment:%Y-%m-%dT%H:00Z}"
