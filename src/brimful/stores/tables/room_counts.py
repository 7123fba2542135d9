"""How many messages a room has, and their tokens: sums over spans of positions, for each way to count.

A sum is deleted when one of its messages changes. The caller counts messages that are in none: it has tokenizers.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from brimful.records.search import CountedMessage
from brimful.stores.index.documents import mark_scope_changed
from brimful.stores.session import Session

MAX_SPAN: Final = 1_024  # messages in a sum, and the maximum that is read to count messages in none
_READ: Final = """
SELECT r.last, c.first, c.last, c.messages, c.tokens FROM rooms r
LEFT JOIN room_counts c ON c.tenant = r.tenant AND c.room = r.number AND c.counter = :counter
WHERE r.tenant = :tenant AND r.id = :room ORDER BY c.first
"""
_LOCK: Final = "SELECT number, changes FROM scopes WHERE tenant = :tenant AND scope = :scope"
_SAVE: Final = """
INSERT INTO room_counts (tenant, room, counter, first, last, messages, tokens)
VALUES (:tenant, :room, :counter, :first, :last, :messages, :tokens)
ON CONFLICT (tenant, room, counter, first)
DO UPDATE SET last = excluded.last, messages = excluded.messages, tokens = excluded.tokens
"""
_REMOVE: Final = """
DELETE FROM room_counts WHERE tenant = :tenant AND first <= :seq AND last >= :seq
  AND room = (SELECT number FROM rooms WHERE tenant = :tenant AND id = :room)
"""


class Sum(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The visible messages between two positions, both included, and their tokens."""

    first: int
    last: int
    messages: int
    tokens: int


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Positions that are in no sum, both included, and all messages there, newest first."""

    first: int
    last: int
    messages: tuple[CountedMessage, ...]


class RoomCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of a room, in order; spans that are in none, newest first; and the number of positions in neither."""

    sums: tuple[Sum, ...] = ()
    spans: tuple[Span, ...] = ()
    rest: int = 0


ReadBefore = Callable[[int, int], Sequence[CountedMessage]]
"""Returns messages before a position, newest first, and at most so many."""


def read_room_counts(
    session: Session, room: str, counter: str, *, newest: Sequence[CountedMessage], read: ReadBefore
) -> RoomCounts:
    """Return the sums of a room, and the newest messages that are in none of them: from `newest`, or by `read`."""
    rows = session.rows(_READ, room=room, counter=counter)
    sums = [
        Sum(first=first, last=last, messages=messages, tokens=tokens)
        for _, first, last, messages, tokens in rows
        if first is not None
    ]
    spans: list[Span] = []
    limit, rest = MAX_SPAN, 0
    for first, last in reversed(_find_gaps(sums, rows[0][0] if rows else 0)):
        if not limit:
            rest += last - first + 1
            continue
        found = [each for each in newest if first <= each.message.seq <= last]
        start = first
        if len(found) <= last - first:  # some are deleted, archived, or not among the newest
            page = read(last + 1, min(limit, last - first + 1))
            found = [each for each in page if each.message.seq >= first]
            start = found[-1].message.seq if len(found) == limit else first
        spans.append(Span(first=start, last=last, messages=tuple(found)))
        limit -= min(limit, len(found))
        rest += start - first
    return RoomCounts(sums=tuple(sums), spans=tuple(spans), rest=rest)


def save_room_counts(session: Session, room: str, counter: str, version: str, sums: Sequence[Sum]) -> None:
    """Save sums that were computed when the search scope of the room had this version.

    If a message was written since, they are not saved: it may be in one of them.
    """
    locked = session.lock_rows(_LOCK, scope=f"room:{room}")
    found = session.row("SELECT number FROM rooms WHERE tenant = :tenant AND id = :room", room=room)
    if found is not None and [f"{number}.{changes}" for number, changes in locked] == [version]:
        session.many(_SAVE, ({"room": found[0], "counter": counter, **msgspec.structs.asdict(each)} for each in sums))


def remove_room_counts(session: Session, room: str, seqs: Iterable[int]) -> None:
    """Delete the sums of messages that change. Call it last: it waits for whoever saves sums."""
    mark_scope_changed(session, f"room:{room}")
    session.many(_REMOVE, ({"room": room, "seq": seq} for seq in seqs))


def _find_gaps(sums: Sequence[Sum], last: int) -> list[tuple[int, int]]:
    """Return the positions up to `last` that are in no sum, as first and last ones.

    >>> _find_gaps([Sum(first=3, last=5, messages=3, tokens=9), Sum(first=6, last=7, messages=2, tokens=4)], 9)
    [(1, 2), (8, 9)]
    """
    starts = [1, *(each.last + 1 for each in sums)]
    ends = [*(each.first - 1 for each in sums), last]
    return [(first, end) for first, end in zip(starts, ends, strict=True) if first <= end]
