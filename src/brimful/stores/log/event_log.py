"""The log of a tenant: contexts, responses, and the usage of summaries and other requests, in order of arrival.

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

EventKind = Literal["build", "response", "summary", "request"]

_EXTEND: Final = """
INSERT INTO log_ends (tenant, last, pruned) VALUES (:tenant, :more, :never)
ON CONFLICT (tenant) DO UPDATE SET last = log_ends.last + excluded.last RETURNING last
"""
_INSERT: Final = """
INSERT INTO log (tenant, position, kind, item, room, at, persona, model, policy, user_id, api_key, run, body)
VALUES (:tenant, :position, :kind, :item, :room, :at, :persona, :model, :policy, :user, :key, :run, :body)
"""
_CLEAR_ROOM: Final = "UPDATE log SET item = NULL, room = NULL, run = NULL WHERE tenant = :tenant AND room = :room"
_CLEAR_USER: Final = "UPDATE log SET user_id = '' WHERE tenant = :tenant AND user_id = :user AND user_id <> ''"
_CLEAR_ITEMS: Final = (
    "UPDATE log SET item = NULL, run = NULL WHERE tenant = :tenant AND kind = :kind AND item IN :items"
)
_AFTER: Final = """
SELECT position, kind, item FROM log WHERE tenant = :tenant AND position > :after ORDER BY position LIMIT :limit
"""
_PRUNED: Final = "UPDATE log_ends SET pruned = :hour WHERE tenant = :tenant AND pruned < :hour"
NEVER: Final = -(2**53)  # an hour before all others


class LogEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the log and its tally. `run` is the first context of its run, None if it is in none.

    `item` is the id of the record, None for a request that has none.
    """

    kind: EventKind
    item: str | None
    room: str
    at: float
    key: TallyKey
    tally: Tally
    run: str | None = None

    def row(self, position: int) -> dict[str, Any]:
        """Return the table row of the event at a position."""
        return {
            "position": position,
            "kind": self.kind,
            "item": self.item,
            "room": self.room,
            "at": self.at,
            "persona": self.key.persona,
            "model": self.key.model,
            "policy": self.key.policy,
            "user": self.key.user,
            "key": self.key.api_key,
            "run": self.run,
            "body": msgspec.json.encode(self.tally),
        }


def append_events(session: Session, events: Sequence[LogEvent]) -> None:
    """Append events and add them to the tallies. This locks the log until the transaction ends."""
    if not events:
        return
    first = lock_log(session, len(events)) - len(events) + 1
    session.many(_INSERT, (event.row(position) for position, event in enumerate(events, first)))
    tallies.add_to_tallies(session, [TallyEvent(each.room, each.at, each.key, each.tally) for each in events])


def lock_log(session: Session, more: int = 0) -> int:
    """Lock the log until the transaction ends, extend it by `more` positions, and return its last one."""
    row = session.row(_EXTEND, more=more, never=NEVER)
    return int(row[0]) if row else 0


def log_end(session: Session) -> tuple[int, int]:
    """Return the last position of the log, and the first hour that was not pruned."""
    row = session.row("SELECT last, pruned FROM log_ends WHERE tenant = :tenant")
    return (int(row[0]), int(row[1])) if row else (0, NEVER)


def events_after(session: Session, position: int, limit: int) -> list[tuple[int, EventKind, str | None]]:
    """Return position, kind and item of the events after a position. The item is None if it was removed."""
    return [(number, kind, item) for number, kind, item in session.rows(_AFTER, after=position, limit=limit)]


def clear_room(session: Session, room: str) -> None:
    """Remove references to a deleted room. Its events remain in the statistics of all rooms."""
    session.run(_CLEAR_ROOM, room=room)
    tallies.remove_owner(session, "room", room)


def clear_user(session: Session, user: str) -> None:
    """Remove the name of a user. Their events remain in all other statistics."""
    session.run(_CLEAR_USER, user=user)
    tallies.remove_owner(session, "user", user)


def clear_items(session: Session, kind: EventKind, items: Sequence[str]) -> None:
    """Remove references to deleted contexts or responses. Their events remain in the statistics."""
    if items:
        session.run(_CLEAR_ITEMS, kind=kind, items=list(items))


def mark_pruned(session: Session, before: float) -> None:
    """Record that the events before a whole hour are pruned."""
    session.run(_PRUNED, hour=hour_of(before))


def parse_cursor(cursor: str) -> int:
    """Return the log position of a cursor.

    >>> parse_cursor("17")
    17
    """
    if not isinstance(cursor, str) or not cursor.isascii() or not cursor.isdecimal() or len(cursor) > 18:  # noqa: PLR2004
        raise InvalidValue("cursor", f"must be a cursor returned by `follow`, '0' or '', not {preview(cursor)}")
    return int(cursor)
