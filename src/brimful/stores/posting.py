"""Writing messages: appended to their rooms, edited, hidden, taken out."""

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from brimful.answers import Indexed
from brimful.records import Content, Message
from brimful.stores import documents
from brimful.stores.contents import put_contents
from brimful.stores.covering import uncover
from brimful.stores.documents import Entry
from brimful.stores.erasing import erase, supersede
from brimful.stores.messages import detail_of, standing
from brimful.stores.rooms import Place, keep_last, lock_rooms
from brimful.stores.session import Session

_INSERT: Final = """
INSERT INTO messages (tenant, room, seq, id, hash, at, edited, detail)
VALUES (:tenant, :room, :seq, :id, :hash, :at, :edited, :detail)
"""


class _Held(msgspec.Struct, frozen=True):
    """A message that this transaction may change."""

    hash: str
    deleted: bool


def post(session: Session, given: Sequence[tuple[Message, Indexed]], *, keep: bool = False) -> list[Message]:
    """Append messages to their rooms, and return them as they stand: with their `seq`, and the first of each id.

    With `keep`, a message keeps the `seq` that it brings along, if its room has not come as far yet.
    """
    places = lock_rooms(session, (message.room for message, _ in given))
    first = dict(reversed([(message.id, (message, indexed)) for message, indexed in given]))
    known = standing(session, list(first), deleted=True)
    fresh = [pair for id, pair in reversed(first.items()) if id not in known]
    placed = [(_placed(message, places[message.room], keep=keep), indexed) for message, indexed in fresh]
    _insert(session, placed, places)
    stand = known | {message.id: message for message, _ in placed}
    return [stand[message.id] for message, _ in given]


def edit(session: Session, id: str, content: Content, indexed: Indexed, at: float) -> Message | None:
    """Give a message another content; None if there is no such message."""
    old = _locked(session, id)
    found = standing(session, [id], deleted=False).get(id)
    if old is None or found is None:
        return None
    changed = msgspec.structs.replace(found, content=content, edited=at)
    (hash,) = put_contents(session, [changed.content])
    session.run(
        "UPDATE messages SET hash = :hash, edited = :edited, detail = :detail, aside = NULL "
        "WHERE tenant = :tenant AND id = :id",
        id=id,
        hash=hash,
        edited=changed.edited,
        detail=detail_of(session, changed, hash),
    )
    supersede(session, [(id, old.hash)])
    documents.replace(session, entries_of([(changed, indexed)]))
    return changed


def delete(session: Session, id: str, *, forever: bool) -> bool:
    """Take a message out of its room; `forever`, its content leaves past contexts, too."""
    found = _locked(session, id)
    if found is None or (found.deleted and not forever):
        return False
    if not found.deleted:
        session.run("UPDATE messages SET deleted = 1 WHERE tenant = :tenant AND id = :id", id=id)
        supersede(session, [(id, found.hash)])
        documents.remove(session, "message", [id])
    if forever:
        erase(session, id, found.hash)
        gone = standing(session, [id], deleted=True)[id]
        uncover(session, gone.room, [gone.seq], forever=True)
    return True


def hide(session: Session, ids: Sequence[str], why: str) -> list[str]:
    """Keep messages from models, and return the ids of those that were not hidden: metadata say so, and `why`."""
    held = {id: held for id in sorted(set(ids)) if (held := _locked(session, id)) is not None and not held.deleted}
    shown = [message for message in standing(session, list(held), deleted=False).values() if not message.hidden]
    for message in shown:
        metadata = {**message.metadata, "hidden": True, why: True}
        hidden = msgspec.structs.replace(message, metadata=metadata)
        session.run(
            "UPDATE messages SET detail = :detail WHERE tenant = :tenant AND id = :id",
            id=message.id,
            detail=detail_of(session, hidden, held[message.id].hash),
        )
    for room in sorted({message.room for message in shown}):
        uncover(session, room, [message.seq for message in shown if message.room == room], forever=False)
    documents.remove(session, "message", [message.id for message in shown])
    return [message.id for message in shown]


def _placed(message: Message, place: Place, *, keep: bool) -> Message:
    place.last = max(place.last + 1, message.seq) if keep else place.last + 1
    place.spoken = message.at
    placed = copy.copy(message)
    msgspec.structs.force_setattr(placed, "seq", place.last)
    return placed


def _insert(session: Session, placed: Sequence[tuple[Message, Indexed]], places: dict[str, Place]) -> None:
    hashes = put_contents(session, [message.content for message, _ in placed])
    session.many(
        _INSERT,
        (_row(session, message, hash, places[message.room]) for (message, _), hash in zip(placed, hashes, strict=True)),
    )
    keep_last(session, places.values())
    documents.add(session, entries_of(placed))


def _row(session: Session, message: Message, hash: str, place: Place) -> dict[str, Any]:
    return {
        "room": place.number,
        "seq": message.seq,
        "id": message.id,
        "hash": hash,
        "at": message.at,
        "edited": message.edited,
        "detail": detail_of(session, message, hash),
    }


def entries_of(given: Iterable[tuple[Message, Indexed]]) -> list[Entry]:
    """Return how messages stand in the index; those that are hidden do not."""
    return [
        Entry(
            kind="message",
            item=message.id,
            scope=f"room:{message.room}",
            indexed=indexed,
            seq=message.seq,
            at=message.at,
        )
        for message, indexed in given
        if not message.hidden
    ]


def _locked(session: Session, id: str) -> _Held | None:
    """Return what there is of a message; nobody else changes it before this transaction ends."""
    found = session.row(
        "UPDATE messages SET deleted = deleted WHERE tenant = :tenant AND id = :id RETURNING hash, deleted", id=id
    )
    return _Held(hash=found[0], deleted=bool(found[1])) if found else None
