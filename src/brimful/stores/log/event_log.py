"""The log of a tenant: contexts and responses in order of arrival.

A writer locks the end of the log until its transaction ends, so positions become visible in order: a reader who has
seen one position has seen all before it.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from brimful.core.validation import preview
from brimful.errors import InvalidValue
from brimful.stores.log import tallies
from brimful.stores.log.tallies import Tally, TallyEvent, TallyKey, hour_of
from brimful.stores.session import Session

EventKind = Literal["build", "answer"]

_EXTEND: Final = """
INSERT INTO log_ends (tenant, last, pruned) VALUES (:tenant, :more, :never)
ON CONFLICT (tenant) DO UPDATE SET last = log_ends.last + excluded.last RETURNING last
"""
_INSERT: Final = """
INSERT INTO log (tenant, place, kind, item, room, at, persona, model, policy, body)
VALUES (:tenant, :place, :kind, :item, :room, :at, :persona, :model, :policy, :body)
"""
_SETTLED: Final = """
UPDATE log SET persona = :persona, model = :model, policy = :policy, body = :body
WHERE tenant = :tenant AND place = :place
"""
_CLEAR_ROOM: Final = "UPDATE log SET item = NULL, room = NULL WHERE tenant = :tenant AND room = :room"
_AFTER: Final = """
SELECT place, kind, item FROM log WHERE tenant = :tenant AND place > :after ORDER BY place LIMIT :limit
"""
_PRUNED: Final = "UPDATE log_ends SET pruned = :hour WHERE tenant = :tenant AND pruned < :hour"
NEVER: Final = -(2**53)  # an hour before all others


class LogEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the log, and what it adds to the figures."""

    kind: EventKind
    item: str
    room: str
    at: float
    sort: TallyKey
    tally: Tally

    def row(self, place: int) -> dict[str, Any]:
        """Return it as it stands at its place."""
        return {
            "place": place,
            "kind": self.kind,
            "item": self.item,
            "room": self.room,
            "at": self.at,
            "persona": self.sort.persona,
            "model": self.sort.model,
            "policy": self.sort.policy,
            "body": msgspec.json.encode(self.tally),
        }


def append_events(session: Session, entries: Sequence[LogEvent]) -> None:
    """Append events, and count them. The transaction had better end soon: until then, nobody else can append."""
    if not entries:
        return
    first = lock_log(session, len(entries)) - len(entries) + 1
    session.many(_INSERT, (entry.row(place) for place, entry in enumerate(entries, first)))
    count_events(session, entries)


def settle(session: Session, place: int, entry: LogEvent) -> None:
    """Write down what an event adds that an older version of Brimful has logged."""
    row = entry.row(place)
    session.run(_SETTLED, **{name: row[name] for name in ("place", "persona", "model", "policy", "body")})


def count_events(session: Session, entries: Sequence[LogEvent]) -> None:
    """Add events to the tallies."""
    tallies.add_to_tallies(session, [TallyEvent(each.room, each.at, each.sort, each.tally) for each in entries])


def lock_log(session: Session, more: int = 0) -> int:
    """Keep others from appending until the transaction ends; move the end of the log, and return where it is."""
    row = session.row(_EXTEND, more=more, never=NEVER)
    return int(row[0]) if row else 0


def log_end(session: Session) -> tuple[int, int]:
    """Return the last place of the log, and the first hour of which nothing was pruned."""
    row = session.row("SELECT last, pruned FROM log_ends WHERE tenant = :tenant")
    return (int(row[0]), int(row[1])) if row else (0, NEVER)


def events_after(session: Session, place: int, limit: int) -> list[tuple[int, EventKind, str | None]]:
    """Return what stands after a place; what is gone by now has no name any more."""
    return [(at, kind, item) for at, kind, item in session.rows(_AFTER, after=place, limit=limit)]


def clear_room(session: Session, room: str) -> None:
    """Let nothing lead from the log to a room that is gone; its events stay counted."""
    session.run(_CLEAR_ROOM, room=room)
    tallies.remove_room(session, room)


def mark_pruned(session: Session, before: float) -> None:
    """Note that nothing before a whole hour can be read one by one any more."""
    session.run(_PRUNED, hour=hour_of(before))


def parse_cursor(cursor: str) -> int:
    """Return the place that a cursor stands for.

    >>> parse_cursor("17")
    17
    """
    if not isinstance(cursor, str) or not cursor.isascii() or not cursor.isdecimal() or len(cursor) > 18:  # noqa: PLR2004
        raise InvalidValue("cursor", f"must be one that `follow` gave, '0' or '', not {preview(cursor)}")
    return int(cursor)
