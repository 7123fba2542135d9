"""Messages: read by page, by id and by position; posted, edited, hidden and deleted."""

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from brimful.cache import content_bytes
from brimful.core.content import Role
from brimful.records import Content, Message
from brimful.records.search import CountedMessage, IndexEntry
from brimful.stores.encryption.cipher import decrypt, encrypt
from brimful.stores.index import documents
from brimful.stores.index.documents import NewDocument
from brimful.stores.session import Row, Session
from brimful.stores.tables.contents import CachedContent, ContentCache, add_contents, decode_content
from brimful.stores.tables.entities import RoomState, lock_rooms, save_room_states
from brimful.stores.tables.summaries import remove_covering_summaries
from brimful.stores.tables.writes import erase_record, release_replaced

Detail = tuple[str, Role, dict[str, Any]]
"""Sender, role, metadata: what no query asks for."""
_DETAIL: Final = msgspec.json.Decoder(Detail)

_ERASED: Final[CachedContent] = ("", None)

_COLUMNS: Final = "r.id, m.id, m.seq, m.at, m.edited, m.detail, m.hash"
_ADDRESS: Final = 6  # which of them is the address of the content
_TABLES: Final = "FROM messages m JOIN rooms r ON r.tenant = m.tenant AND r.number = m.room"
_CONTENTS: Final = "LEFT JOIN contents c ON c.tenant = m.tenant AND c.hash = m.hash"
READ_MESSAGES: Final = f"SELECT {_COLUMNS}, c.body, m.room {_TABLES} {_CONTENTS}"
HISTORY: Final = f"""
SELECT {_COLUMNS} {_TABLES}
WHERE m.tenant = :tenant AND m.room = (SELECT number FROM rooms WHERE tenant = :tenant AND id = :room)
  AND m.seq < :before AND m.deleted = 0 AND (m.archived_by IS NULL OR :aside = 1)
ORDER BY m.seq DESC LIMIT :limit
"""  # noqa: S608 - our own columns
BY_ID: Final = f"SELECT {_COLUMNS}, c.body {_TABLES} {_CONTENTS} WHERE m.tenant = :tenant AND m.id IN :ids"
BY_SEQ: Final = f"""
SELECT {_COLUMNS} {_TABLES}
WHERE m.tenant = :tenant AND m.room = (SELECT number FROM rooms WHERE tenant = :tenant AND id = :room)
  AND m.seq IN :seqs AND m.deleted = 0 AND (m.archived_by IS NULL OR :aside = 1)
ORDER BY m.seq
"""  # noqa: S608 - our own columns
_READ_CONTENTS: Final = """
SELECT c.hash, c.body, n.tokens FROM contents c
LEFT JOIN token_counts n ON n.tenant = c.tenant AND n.tokenizer = :tokenizer AND n.hash = c.hash
WHERE c.tenant = :tenant AND c.hash IN :addresses
"""


def get_history(
    session: Session, known: ContentCache, room: str, before: int, limit: int, tokenizer: str, *, aside: bool = False
) -> list[CountedMessage]:
    """Return messages of a room, newest first, older than `before`, with their stored counts."""
    found = session.rows(HISTORY, room=room, before=before, limit=limit, aside=int(aside))
    return _with_counts(session, known, found, tokenizer)


def get_messages(session: Session, ids: Sequence[str]) -> list[Message]:
    """Return the messages of these ids, in this order, those that are there."""
    found = messages_by_id(session, ids, deleted=False)
    return [found[id] for id in ids if id in found]


def get_messages_at(
    session: Session, known: ContentCache, room: str, seqs: Sequence[int], tokenizer: str, *, aside: bool = False
) -> list[CountedMessage]:
    """Return the messages at these places of a room, in order, with their stored counts."""
    found = session.rows(BY_SEQ, room=room, seqs=list(seqs), aside=int(aside))
    return _with_counts(session, known, found, tokenizer)


def messages_by_id(session: Session, ids: Sequence[str], *, deleted: bool) -> dict[str, Message]:
    """Return messages by id; with `deleted`, also those that were taken out."""
    sql = BY_ID if deleted else BY_ID + " AND m.deleted = 0"
    return {row[1]: decode_message(session, row) for row in session.rows(sql, ids=list(ids))}


def encode_detail(session: Session, message: Message, hash: str) -> bytes:
    """Return what is kept of a message beside its columns."""
    detail = msgspec.json.encode((message.sender, message.role, message.metadata))
    return encrypt(session, detail, "messages", message.id, message.room, hash)


def decode_message(session: Session, row: Row) -> Message:
    """Return the message of a row, whose content stands behind its address."""
    return _decode_message_row(session, row, decode_content(session, row[_ADDRESS + 1], row[_ADDRESS]))


def _with_counts(session: Session, known: ContentCache, rows: Sequence[Row], tokenizer: str) -> list[CountedMessage]:
    """Return the messages of rows without contents: most of a history was read for the last build, too."""
    addresses = dict.fromkeys(row[_ADDRESS] for row in rows)
    said = known.known(tokenizer, addresses)
    missing = [address for address in addresses if address not in said]
    if missing:
        said |= _read_contents(session, known, missing, tokenizer)
    told = [(row, *said.get(row[_ADDRESS], _ERASED)) for row in rows]
    return [
        CountedMessage(message=_decode_message_row(session, row, content), tokens=tokens)
        for row, content, tokens in told
    ]


def _read_contents(
    session: Session, known: ContentCache, addresses: list[str], tokenizer: str
) -> dict[str, CachedContent]:
    """Read contents with their counts, and hold those of which nothing will ever be added."""
    said: dict[str, CachedContent] = {}
    for hash, body, tokens in session.rows(_READ_CONTENTS, addresses=addresses, tokenizer=tokenizer):
        content = decode_content(session, body, hash)
        said[hash] = content, tokens
        if tokens is not None or not tokenizer or not isinstance(content, str):
            known.keep(tokenizer, hash, (content, tokens), size=content_bytes(content))
    return said


def _decode_message_row(session: Session, row: Row, content: Content) -> Message:
    room, id, seq, at, edited, detail, hash, *_ = row
    sender, role, metadata = _DETAIL.decode(decrypt(session, detail, "messages", id, room, hash))
    return Message(
        id=id, room=room, content=content, sender=sender, role=role, at=at, seq=seq, edited=edited, metadata=metadata
    )


_INSERT: Final = """
INSERT INTO messages (tenant, room, seq, id, hash, at, edited, detail)
VALUES (:tenant, :room, :seq, :id, :hash, :at, :edited, :detail)
"""


class _LockedMessage(msgspec.Struct, frozen=True):
    """A message that this transaction may change."""

    hash: str
    deleted: bool


def post_messages(
    session: Session, given: Sequence[tuple[Message, IndexEntry]], *, keep: bool = False
) -> list[Message]:
    """Append messages to their rooms, and return them as they stand: with their `seq`, and the first of each id.

    With `keep`, a message keeps the `seq` that it brings along, if its room has not come as far yet.
    """
    places = lock_rooms(session, (message.room for message, _ in given))
    first = dict(reversed([(message.id, (message, indexed)) for message, indexed in given]))
    known = messages_by_id(session, list(first), deleted=True)
    fresh = [pair for id, pair in reversed(first.items()) if id not in known]
    placed = [(_with_seq(message, places[message.room], keep=keep), indexed) for message, indexed in fresh]
    _insert(session, placed, places)
    stand = known | {message.id: message for message, _ in placed}
    return [stand[message.id] for message, _ in given]


def edit_message(session: Session, id: str, content: Content, indexed: IndexEntry, at: float) -> Message | None:
    """Give a message another content; None if there is no such message."""
    old = _lock_message(session, id)
    found = messages_by_id(session, [id], deleted=False).get(id)
    if old is None or found is None:
        return None
    changed = msgspec.structs.replace(found, content=content, edited=at)
    (hash,) = add_contents(session, [changed.content])
    session.run(
        "UPDATE messages SET hash = :hash, edited = :edited, detail = :detail, archived_by = NULL "
        "WHERE tenant = :tenant AND id = :id",
        id=id,
        hash=hash,
        edited=changed.edited,
        detail=encode_detail(session, changed, hash),
    )
    release_replaced(session, [(id, old.hash)])
    documents.replace_documents(session, message_documents([(changed, indexed)]))
    return changed


def delete_message(session: Session, id: str, *, forever: bool) -> bool:
    """Take a message out of its room; `forever`, its content leaves past contexts, too."""
    found = _lock_message(session, id)
    if found is None or (found.deleted and not forever):
        return False
    if not found.deleted:
        session.run("UPDATE messages SET deleted = 1 WHERE tenant = :tenant AND id = :id", id=id)
        release_replaced(session, [(id, found.hash)])
        documents.remove_documents(session, "message", [id])
    if forever:
        erase_record(session, id, found.hash)
        gone = messages_by_id(session, [id], deleted=True)[id]
        remove_covering_summaries(session, gone.room, [gone.seq], forever=True)
    return True


def hide_messages(session: Session, ids: Sequence[str], why: str) -> list[str]:
    """Keep messages from models, and return the ids of those that were not hidden: metadata say so, and `why`."""
    held = {
        id: held for id in sorted(set(ids)) if (held := _lock_message(session, id)) is not None and not held.deleted
    }
    shown = [message for message in messages_by_id(session, list(held), deleted=False).values() if not message.hidden]
    for message in shown:
        metadata = {**message.metadata, "hidden": True, why: True}
        hidden = msgspec.structs.replace(message, metadata=metadata)
        session.run(
            "UPDATE messages SET detail = :detail WHERE tenant = :tenant AND id = :id",
            id=message.id,
            detail=encode_detail(session, hidden, held[message.id].hash),
        )
    for room in sorted({message.room for message in shown}):
        remove_covering_summaries(
            session, room, [message.seq for message in shown if message.room == room], forever=False
        )
    documents.remove_documents(session, "message", [message.id for message in shown])
    return [message.id for message in shown]


def _with_seq(message: Message, place: RoomState, *, keep: bool) -> Message:
    place.last = max(place.last + 1, message.seq) if keep else place.last + 1
    place.last_message_at = message.at
    placed = copy.copy(message)
    msgspec.structs.force_setattr(placed, "seq", place.last)
    return placed


def _insert(session: Session, placed: Sequence[tuple[Message, IndexEntry]], places: dict[str, RoomState]) -> None:
    hashes = add_contents(session, [message.content for message, _ in placed])
    session.many(
        _INSERT,
        (_row(session, message, hash, places[message.room]) for (message, _), hash in zip(placed, hashes, strict=True)),
    )
    save_room_states(session, places.values())
    documents.add_documents(session, message_documents(placed))


def _row(session: Session, message: Message, hash: str, place: RoomState) -> dict[str, Any]:
    return {
        "room": place.number,
        "seq": message.seq,
        "id": message.id,
        "hash": hash,
        "at": message.at,
        "edited": message.edited,
        "detail": encode_detail(session, message, hash),
    }


def message_documents(given: Iterable[tuple[Message, IndexEntry]]) -> list[NewDocument]:
    """Return how messages stand in the index; those that are hidden do not."""
    return [
        NewDocument(
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


def _lock_message(session: Session, id: str) -> _LockedMessage | None:
    """Return what there is of a message; nobody else changes it before this transaction ends."""
    found = session.row(
        "UPDATE messages SET deleted = deleted WHERE tenant = :tenant AND id = :id RETURNING hash, deleted", id=id
    )
    return _LockedMessage(hash=found[0], deleted=bool(found[1])) if found else None
