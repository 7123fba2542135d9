"""Tallies of whole hours and whole days: of all rooms together, and of each room.

They are written in the transaction of what they count, and stay when that is pruned.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from brimful.core.check import LARGEST
from brimful.stores.session import Session
from brimful.stores.tally import Tally

HOUR: Final = 3_600.0  # seconds
DAY: Final = 24  # hours
EVERYWHERE: Final = ""  # in the place of a room: no room is called so
Size = Literal[1, 24]
"""How many hours a tally is of."""

_COLUMNS: Final = ("room", "size", "hour", "persona", "model", "policy")
_KEYS: Final = ", ".join(_COLUMNS)
_HELD: Final = f"""
SELECT body FROM tallies WHERE tenant = :tenant AND {" AND ".join(f"{name} = :{name}" for name in _COLUMNS)}
"""  # noqa: S608 - our own columns
_PUT: Final = f"""
INSERT INTO tallies (tenant, {_KEYS}, body) VALUES (:tenant, :room, :size, :hour, :persona, :model, :policy, :body)
ON CONFLICT (tenant, {_KEYS}) DO UPDATE SET body = excluded.body
"""  # noqa: S608 - our own columns
_READ: Final = """
SELECT hour, persona, model, policy, body FROM tallies
WHERE tenant = :tenant AND room = :room AND size = :size AND hour >= :first AND hour < :last
"""
_DECODER: Final = msgspec.json.Decoder(Tally)


class Sort(msgspec.Struct, frozen=True):
    """What is counted together: by whom it was answered, with which model, by which policy."""

    persona: str
    model: str
    policy: str


class Added(msgspec.Struct, frozen=True):
    """Something that happened, and what it adds."""

    room: str
    at: float
    sort: Sort
    tally: Tally


def hour_of(at: float) -> int:
    """Return the hour of a time, counted from 1970.

    >>> hour_of(3599.9), hour_of(3600.0), hour_of(-1.0), hour_of(1e300) == hour_of(1e299)
    (0, 1, -1, True)
    """
    return int(max(-LARGEST, min(LARGEST, at // HOUR)))


def day_of(at: float) -> int:
    """Return the day of a time, counted from 1970."""
    return hour_of(at) // DAY


def decoded(body: bytes) -> Tally:
    """Return a tally as it was kept."""
    return _DECODER.decode(body)


def add(session: Session, events: Sequence[Added]) -> None:
    """Add events to the tallies that they belong to. Whoever calls this holds the tenant's log."""
    sums = _summed(events, 1) | _summed(events, DAY)
    for key, tally in sums.items():
        held = session.row(_HELD, **_named(key))
        if held is not None:
            tally.add(decoded(held[0]))
    session.many(_PUT, (_named(key) | {"body": msgspec.json.encode(sums[key])} for key in sorted(sums)))


def read(
    session: Session, size: Size, first: int, last: int, *, room: str, persona: str | None
) -> Iterator[tuple[int, Sort, Tally]]:
    """Yield tallies of a size that begin from one hour up to another."""
    whose = "" if persona is None else " AND persona = :persona"
    found = session.rows(f"{_READ}{whose}", room=room, size=size, first=first, last=last, persona=persona)
    for hour, who, model, policy, body in found:
        yield hour, Sort(who, model, policy), decoded(body)


def forget_room(session: Session, room: str) -> None:
    """Drop the tallies of a room that is gone; it stays counted among all rooms."""
    session.run("DELETE FROM tallies WHERE tenant = :tenant AND room = :room", room=room)


_Key = tuple[Any, ...]


def _summed(events: Sequence[Added], size: int) -> dict[_Key, Tally]:
    sums: dict[_Key, Tally] = {}
    for event in events:
        hour = hour_of(event.at) // size * size
        for room in (EVERYWHERE, event.room):
            key = (room, size, hour, event.sort.persona, event.sort.model, event.sort.policy)
            sums.setdefault(key, Tally()).add(event.tally)
    return sums


def _named(key: _Key) -> dict[str, Any]:
    return dict(zip(_COLUMNS, key, strict=True))
