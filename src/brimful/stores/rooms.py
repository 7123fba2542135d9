"""Rooms as places: their numbers, and the seq of their newest message."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from brimful.records import Room
from brimful.stores.plain import opened
from brimful.stores.sealing import seal
from brimful.stores.session import Session

_LOCK: Final = "UPDATE rooms SET last = last WHERE tenant = :tenant AND id = :id RETURNING number, last, spoken"
_CREATE: Final = """
INSERT INTO rooms (tenant, id, body) VALUES (:tenant, :id, :body) ON CONFLICT DO NOTHING
"""
_SIZES: Final = """
SELECT r.id, (SELECT count(*) FROM messages m WHERE m.tenant = r.tenant AND m.room = r.number AND m.deleted = 0)
FROM rooms r WHERE r.tenant = :tenant AND r.id IN :ids
"""


class Place(msgspec.Struct):
    """A room that this transaction may append to."""

    number: int
    last: int
    spoken: float


def lock_rooms(session: Session, ids: Iterable[str]) -> dict[str, Place]:
    """Return rooms, made where there are none; nobody else appends to them before this transaction ends."""
    return {id: _locked(session, id) for id in sorted(set(ids))}  # sorted: no two writers wait for each other


def keep_last(session: Session, places: Iterable[Place]) -> None:
    """Write down how far the rooms have come."""
    session.many(
        "UPDATE rooms SET last = :last, spoken = :spoken WHERE tenant = :tenant AND number = :number",
        (msgspec.structs.asdict(place) for place in places),
    )


def rooms_of(session: Session, user: str, limit: int) -> list[Room]:
    """Return the rooms of a user, those first in which something was said last."""
    found = session.rows(
        "SELECT id, body FROM rooms WHERE tenant = :tenant AND owner = :user ORDER BY spoken DESC, id LIMIT :limit",
        user=user,
        limit=limit,
    )
    return [opened(session, Room, row) for row in found]


def sizes(session: Session, ids: Sequence[str]) -> dict[str, int]:
    """Return how many messages these rooms hold."""
    return dict(session.rows(_SIZES, ids=list(ids)))


def _locked(session: Session, id: str) -> Place:
    found = session.row(_LOCK, id=id)
    if found is None:
        session.run(_CREATE, id=id, body=seal(session, msgspec.json.encode(Room(id=id)), "rooms", id))
        found = session.row(_LOCK, id=id)
    if found is None:
        raise LookupError(f"room {id!r} was made and is not there")
    return Place(*found)
