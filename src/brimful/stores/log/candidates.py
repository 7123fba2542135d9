"""Which contexts had an item as a candidate.

An item is looked up in two steps: the rooms whose contexts had it, and then the contexts of those rooms. For the first
step, each item has one row per room; messages of the same room need none. For the second, every context has short
hashes of its candidates, and those that match are decoded.
"""

import zlib
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import merge
from typing import Final

import msgspec

from brimful.core.context import RECALLED_SUFFIX
from brimful.packagers.records import record_id
from brimful.stores.encryption.cipher import decrypt
from brimful.stores.log.context_codec import NO_ADDRESSES, Name, read_decisions, read_names
from brimful.stores.session import Session

_PAGE: Final = 100  # contexts read at once
_HASH_BITS: Final = 0xFFFF
_SAVE: Final = """
INSERT INTO context_items (tenant, item, room) VALUES (:tenant, :item, :room) ON CONFLICT DO NOTHING
"""
_ROOMS: Final = "SELECT DISTINCT room FROM context_items WHERE tenant = :tenant AND item IN :items"
_MESSAGE_ROOMS: Final = """
SELECT DISTINCT r.id FROM messages m JOIN rooms r ON r.tenant = m.tenant AND r.number = m.room
WHERE m.tenant = :tenant AND m.id IN :ids
"""
_IN_ROOM: Final = "tenant = :tenant AND room = (SELECT number FROM rooms WHERE tenant = :tenant AND id = :room)"
_SEQS: Final = f"SELECT id, seq FROM messages WHERE {_IN_ROOM} AND id IN :ids"  # noqa: S608 - our own
_IDS: Final = f"SELECT seq, id FROM messages WHERE {_IN_ROOM} AND seq IN :seqs"  # noqa: S608 - our own
_NEWEST: Final = """
SELECT number, at, items FROM snapshots WHERE tenant = :tenant AND room = :room
ORDER BY at DESC, number DESC LIMIT :limit
"""
_OLDER: Final = """
SELECT number, at, items FROM snapshots WHERE tenant = :tenant AND room = :room AND (at, number) < (:at, :number)
ORDER BY at DESC, number DESC LIMIT :limit
"""
_CONTEXTS: Final = (
    "SELECT number, id, room, at, refs, body FROM snapshots WHERE tenant = :tenant AND number IN :numbers"
)
_REMOVE_UNUSED: Final = """
DELETE FROM context_items WHERE tenant = :tenant AND room IN :rooms AND NOT EXISTS (
  SELECT 1 FROM snapshots s WHERE s.tenant = :tenant AND s.room = context_items.room)
"""


class ContextMatch(msgspec.Struct, frozen=True):
    """A stored context, decrypted, and the items that were looked for in it, by the position of the candidate.

    One that was not recorded has no decisions, and its items are known by their hashes alone.
    """

    number: int
    id: str
    room: str
    at: float
    refs: bytes
    body: bytes
    items: dict[int, str]


def message_seqs(session: Session, room: str, names: Iterable[str]) -> dict[str, int]:
    """Return the numbers of the messages of a room that are among these candidates, by id."""
    ids = sorted({record_id(name) for name in map(clean_name, names)})
    return dict(session.rows(_SEQS, room=room, ids=ids)) if ids else {}


def message_ids(session: Session, room: str, names: Iterable[Name]) -> dict[int, str]:
    """Return the ids of the messages of a room that numbers among these names stand for."""
    seqs = sorted({name // 2 for name in names if isinstance(name, int)})
    return dict(session.rows(_IDS, room=room, seqs=seqs)) if seqs else {}


def save_items(session: Session, room: str, names: Iterable[str], seqs: Collection[str]) -> None:
    """Save that a context of a room had these candidates. Its own messages are found without that."""
    others = sorted({clean_name(name) for name in names if record_id(name) not in seqs})
    session.many(_SAVE, ({"item": item, "room": room} for item in others))


def hash_items(names: Iterable[str]) -> bytes:
    """Return short hashes of candidates. Two of 65,000 candidates have the same one."""
    return array("H", sorted({_hash(name) for name in names})).tobytes()


def find_contexts(session: Session, items: Sequence[str]) -> Iterator[ContextMatch]:
    """Yield the recorded contexts that had one of these items as a candidate, newest first."""
    found = [filter(_is_recorded, _find_in_room(session, room, items)) for room in _rooms_of(session, items)]
    return merge(*found, key=lambda each: (each.at, each.number), reverse=True)


def find_known(session: Session, items: Sequence[str]) -> set[str]:
    """Return the items that were candidates in a recorded context."""
    known: set[str] = set()
    for room in _rooms_of(session, items) if items else ():
        missing = set(items) - known
        for context in filter(_is_recorded, _find_in_room(session, room, missing)):
            known.update(context.items.values())
            if known >= missing:
                break
    return known


def find_included(session: Session, room: str, messages: Iterable[str]) -> set[str]:
    """Return the messages of a room that are in a context, in full or shortened.

    Of a context that was not recorded, there are only short hashes, so a few others may count as included.
    """
    names = [name for id in messages for name in (id, id + RECALLED_SUFFIX)]
    others = [where for (where,) in session.rows(_ROOMS, items=names)] if names else []
    included: set[str] = set()
    for where in dict.fromkeys((room, *others)):
        for context in _find_in_room(session, where, names):
            if not _is_recorded(context):
                included.update(map(record_id, context.items.values()))
                continue
            seen = {each["id"] for each in read_decisions(context.body) if each["outcome"] in ("kept", "shrunk")}
            included.update(record_id(item) for i, item in context.items.items() if i in seen)
    return included


def remove_room_items(session: Session, room: str) -> None:
    """Forget which candidates the contexts of a room had."""
    session.run("DELETE FROM context_items WHERE tenant = :tenant AND room = :room", room=room)


def remove_unused_items(session: Session, rooms: Iterable[str]) -> None:
    """Delete the candidate rows of rooms whose contexts are all gone."""
    session.run(_REMOVE_UNUSED, rooms=sorted(set(rooms)))


def clean_name(text: str) -> str:
    """Replace null characters, which databases reject. Ids of packages, kinds and models may contain them."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in text else text


def _rooms_of(session: Session, items: Sequence[str]) -> list[str]:
    names = sorted({clean_name(item) for item in items})
    found = session.rows(_ROOMS, items=names)
    own = session.rows(_MESSAGE_ROOMS, ids=sorted({record_id(name) for name in names}))
    return sorted({room for (room,) in [*found, *own]})


def _find_in_room(session: Session, room: str, items: Collection[str]) -> Iterator[ContextMatch]:
    """Yield the contexts of a room that had one of these items, newest first."""
    wanted: dict[Name, str] = {clean_name(item): item for item in items}
    hashes: dict[int, list[str]] = {}
    for item in items:
        hashes.setdefault(_hash(item), []).append(item)
    for id, seq in message_seqs(session, room, items).items():
        wanted |= {2 * seq: id} if id in wanted else {}
        wanted |= {2 * seq + 1: id + RECALLED_SUFFIX} if id + RECALLED_SUFFIX in wanted else {}
    page = session.rows(_NEWEST, room=room, limit=_PAGE)
    while page:
        likely = {number: shared for number, _, stored in page if (shared := hashes.keys() & array("H", stored))}
        rows = {row[0]: row for row in session.rows(_CONTEXTS, numbers=list(likely))} if likely else {}
        for number, common in likely.items():
            _, id, _, at, refs, stored = rows[number]
            body = decrypt(session, stored, "snapshots", id, room, refs)
            if refs == NO_ADDRESSES:
                likely_items = dict(enumerate(item for each in common for item in hashes[each]))
                yield ContextMatch(number, id, room, at, refs, body, likely_items)
                continue
            names = (
                (i, name if isinstance(name, int) else clean_name(name)) for i, name in enumerate(read_names(body))
            )
            if found := {i: wanted[name] for i, name in names if name in wanted}:
                yield ContextMatch(number, id, room, at, refs, body, found)
        last, at, _ = page[-1]
        page = session.rows(_OLDER, room=room, at=at, number=last, limit=_PAGE) if len(page) == _PAGE else []


def _is_recorded(context: ContextMatch) -> bool:
    return context.refs != NO_ADDRESSES


def _hash(name: str) -> int:
    return zlib.crc32(clean_name(name).encode()) & _HASH_BITS
