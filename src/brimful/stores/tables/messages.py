"""Messages: read by page, by id and by position; posted, edited, hidden and deleted."""

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from brimful.cache import content_bytes, memoize
from brimful.core.content import Role
from brimful.core.validation import MAX_INTEGER
from brimful.packagers.records import ephemeral_id, janitor_session
from brimful.records import Content, Message
from brimful.records.search import CountedMessage, IndexEntry
from brimful.stores.encryption.cipher import decrypt, encrypt
from brimful.stores.index import documents
from brimful.stores.index.documents import NewDocument
from brimful.stores.session import Row, Session, validate_limit
from brimful.stores.tables.contents import CachedContent, ContentCache, add_contents, count_key, decode_content
from brimful.stores.tables.entities import RoomState, lock_rooms, save_room_states
from brimful.stores.tables.removal import remove_contexts
from brimful.stores.tables.room_counts import remove_room_counts
from brimful.stores.tables.summaries import remove_covering_summaries
from brimful.stores.tables.writes import erase_record, release_replaced

MessageFields = tuple[str, str, int, float, float | None, bytes, Content]
"""Room, id, position, time, time of the last edit, detail and content."""


class _Detail(msgspec.Struct, array_like=True):
    """The fields of a message without a column of their own. Defaults at the end are not stored."""

    sender: str = ""
    role: Role = "user"
    metadata: dict[str, Any] = {}
    persona: str | None = None
    hidden: bool = False
    superseded: bool = False


_DEFAULTS: Final[list[Any]] = msgspec.to_builtins(_Detail())
_DETAIL: Final = msgspec.json.Decoder(_Detail)

_ERASED: Final[CachedContent] = ("", None)

_COLUMNS: Final = "r.id, m.id, m.seq, m.at, m.edited, m.detail, m.hash"
_ADDRESS: Final = 6  # the index of the content's address
_MESSAGE_BYTES: Final = 600  # of a cached message besides its content and twice its detail
_TABLES: Final = "FROM messages m JOIN rooms r ON r.tenant = m.tenant AND r.number = m.room"
_CONTENTS: Final = "LEFT JOIN contents c ON c.tenant = m.tenant AND c.hash = m.hash"
READ_MESSAGES: Final = f"SELECT {_COLUMNS}, c.body, m.room {_TABLES} {_CONTENTS}"
HISTORY: Final = f"""
SELECT {_COLUMNS} {_TABLES}
WHERE m.tenant = :tenant AND m.room = (SELECT number FROM rooms WHERE tenant = :tenant AND id = :room)
  AND m.seq < :before AND m.deleted = 0 AND (m.archived_by IS NULL OR :include_archived = 1)
ORDER BY m.seq DESC LIMIT :limit
"""  # noqa: S608 - our own columns
BY_ID: Final = f"SELECT {_COLUMNS}, c.body {_TABLES} {_CONTENTS} WHERE m.tenant = :tenant AND m.id IN :ids"
BY_SEQ: Final = f"""
SELECT {_COLUMNS} {_TABLES}
WHERE m.tenant = :tenant AND m.room = (SELECT number FROM rooms WHERE tenant = :tenant AND id = :room)
  AND m.seq IN :seqs AND m.deleted = 0 AND (m.archived_by IS NULL OR :include_archived = 1)
ORDER BY m.seq
"""  # noqa: S608 - our own columns
_READ_CONTENTS: Final = """
SELECT hash, body, NULL FROM contents WHERE tenant = :tenant AND hash IN :addresses
UNION ALL
SELECT hash, NULL, tokens FROM token_counts WHERE tenant = :tenant AND tokenizer = :tokenizer AND hash IN :keys
"""
_EXISTING: Final = "SELECT id FROM messages WHERE tenant = :tenant AND id IN :ids"
_INSERT: Final = """
INSERT INTO messages (tenant, room, seq, id, hash, at, edited, detail)
VALUES (:tenant, :room, :seq, :id, :hash, :at, :edited, :detail)
"""


def get_history(
    session: Session,
    cache: ContentCache,
    room: str,
    *,
    before: int | None = None,
    limit: int,
    tokenizer: str,
    include_archived: bool = False,
) -> list[CountedMessage]:
    """Return the messages of a room, newest first, with their stored token counts."""
    rows = session.rows(
        HISTORY,
        room=room,
        before=MAX_INTEGER if before is None else min(before, MAX_INTEGER),
        limit=validate_limit(limit),
        include_archived=int(include_archived),
    )
    return _with_counts(session, cache, rows, tokenizer)


def get_messages(session: Session, ids: Sequence[str]) -> list[Message]:
    """Return the messages with these ids, in this order. Missing ones are skipped."""
    found = messages_by_id(session, ids, deleted=False)
    return [found[id] for id in ids if id in found]


def list_deleted(session: Session, ids: Sequence[str], *, room: str | None = None, purged: bool = False) -> list[str]:
    """Return the ids of messages that were deleted, with `purged` also by the janitor, of all rooms or of one."""
    where = "" if room is None else " AND r.id = :room"
    rows = session.rows(
        f"SELECT m.id {_TABLES} WHERE m.tenant = :tenant AND m.deleted IN (1, :purged) AND m.id IN :ids{where}",
        purged=2 if purged else 1,
        ids=list(ids),
        room=room,
    )
    return [id for (id,) in rows]


def get_messages_at(
    session: Session, cache: ContentCache, room: str, seqs: Sequence[int], *, tokenizer: str, include_archived: bool
) -> list[CountedMessage]:
    """Return the messages at these positions of a room, in order, with their stored token counts."""
    rows = session.rows(BY_SEQ, room=room, seqs=list(seqs), include_archived=int(include_archived))
    return _with_counts(session, cache, rows, tokenizer)


def messages_by_id(session: Session, ids: Sequence[str], *, deleted: bool) -> dict[str, Message]:
    """Return messages by id, with `deleted` also deleted ones."""
    sql = BY_ID if deleted else BY_ID + " AND m.deleted = 0"
    return {row[1]: decode_message(session, row) for row in session.rows(sql, ids=list(ids))}


def encode_detail(session: Session, message: Message, hash: str) -> bytes:
    """Return the fields of a message without a column of their own, encrypted."""
    start, end = (message.sender, message.role), (message.persona, message.hidden, message.superseded)
    body = _join_detail(*start, message.metadata, *end) if message.metadata else _plain_detail(start, end)
    return encrypt(session, body, "messages", message.id, message.room, hash)


@lru_cache(maxsize=1_024)
def _plain_detail(start: tuple[Any, ...], end: tuple[Any, ...]) -> bytes:
    """Return the detail of a message without metadata. Cached, because most messages of a room have the same."""
    return _join_detail(*start, {}, *end)


def _join_detail(*fields: Any) -> bytes:
    count = len(fields)
    while count and fields[count - 1] == _DEFAULTS[count - 1]:
        count -= 1
    return msgspec.json.encode(fields[:count])


def decode_message(session: Session, row: Row) -> Message:
    """Return the message of a row that includes its content."""
    content = decode_content(session, row[_ADDRESS + 1], row[_ADDRESS])
    return _decode_message_row(session, row, content, _make_message)


def _with_counts(session: Session, cache: ContentCache, rows: Sequence[Row], tokenizer: str) -> list[CountedMessage]:
    """Add contents and counts to rows. Most of them are cached, because the last context needed them too."""
    addresses = dict.fromkeys(row[_ADDRESS] for row in rows)
    contents = cache.known(tokenizer, addresses)
    missing = [address for address in addresses if address not in contents]
    if missing:
        contents |= _read_contents(session, cache, missing, tokenizer)
    # Only builds ask for counts, and they change nothing. Other callers get messages of their own.
    make = _cached_message if tokenizer else _make_message
    return [
        CountedMessage(message=_decode_message_row(session, row, content, make), tokens=tokens)
        for row in rows
        for content, tokens in (contents.get(row[_ADDRESS], _ERASED),)
    ]


def _read_contents(
    session: Session, cache: ContentCache, addresses: list[str], tokenizer: str
) -> dict[str, CachedContent]:
    """Read contents with their counts, and cache them unless their count is still missing."""
    contents: dict[str, CachedContent] = {}
    keys = list(map(count_key, addresses))
    rows = session.rows(_READ_CONTENTS, addresses=addresses, tokenizer=tokenizer, keys=keys)
    counts = {key: tokens for key, body, tokens in rows if body is None}
    for hash, body in ((hash, body) for hash, body, _ in rows if body is not None):
        content, tokens = decode_content(session, body, hash), counts.get(count_key(hash))
        contents[hash] = content, tokens
        if tokens is not None or not tokenizer or not isinstance(content, str):
            cache.keep(tokenizer, hash, (content, tokens), size=content_bytes(content))
    return contents


def _decode_message_row(
    session: Session, row: Row, content: Content, make: Callable[[*MessageFields], Message]
) -> Message:
    room, id, seq, at, edited, detail, hash, *_ = row
    return make(room, id, seq, at, edited, decrypt(session, detail, "messages", id, room, hash), content)


def _make_message(  # noqa: PLR0917 - a key of the cache
    room: str, id: str, seq: int, at: float, edited: float | None, detail: bytes, content: Content
) -> Message:
    fields = _DETAIL.decode(detail)
    return Message(
        id=id,
        room=room,
        content=content,
        sender=fields.sender,
        role=fields.role,
        at=at,
        seq=seq,
        edited=edited,
        persona=fields.persona,
        hidden=fields.hidden,
        superseded=fields.superseded,
        metadata=fields.metadata,
    )


def _message_bytes(fields: tuple[*MessageFields], _: Message) -> int:
    *_others, detail, content = fields
    return _MESSAGE_BYTES + 2 * len(detail) + content_bytes(content)


_cached_message: Final = memoize(_make_message, name="messages", size=_message_bytes)
"""Cached, because most messages of a context are in the next one, too."""


class _LockedMessage(msgspec.Struct, frozen=True):
    """A message that is locked for writing."""

    hash: str
    deleted: bool


def post_messages(
    session: Session, messages: Sequence[tuple[Message, IndexEntry | None]], *, keep_seq: bool = False
) -> list[Message]:
    """Append messages to their rooms, and return them as stored: with their `seq`, and the first one of each id.

    Missing rooms are created, unless all of their messages are known, perhaps in other rooms.
    With `keep_seq`, a message keeps its own `seq` if that is larger than the room's last. A message without an index
    entry is indexed later.
    """
    first = dict(reversed([(message.id, (message, entry)) for message, entry in messages]))
    taken = {id for (id,) in session.rows(_EXISTING, ids=list(first))}
    rooms = lock_rooms(session, (message.room for id, (message, _) in first.items() if id not in taken))
    known = messages_by_id(session, list(first), deleted=True)
    fresh = [pair for id, pair in reversed(first.items()) if id not in known]
    numbered = [(_with_seq(message, rooms[message.room], keep_seq=keep_seq), entry) for message, entry in fresh]
    for message, entry in numbered:
        room = rooms[message.room]
        if entry is None and room.unindexed is None:
            room.unindexed = message.seq
    _insert(session, numbered, rooms)
    stored = known | {message.id: message for message, _ in numbered}
    return [stored[message.id] for message, _ in messages]


def edit_message(session: Session, id: str, content: Content, entry: IndexEntry, *, at: float) -> Message | None:
    """Replace the content of a message, and return it; None if there is no such message."""
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
    documents.replace_documents(session, message_documents([(changed, entry)]))
    remove_room_counts(session, changed.room, [changed.seq])
    return changed


def delete_message(session: Session, id: str, *, erase: bool = False) -> bool:
    """Delete a message; with `erase`, also its content in past contexts. Returns False if there is none."""
    found = _lock_message(session, id)
    if found is None or (found.deleted and not erase):
        return False
    if not found.deleted:
        session.run("UPDATE messages SET deleted = 1 WHERE tenant = :tenant AND id = :id", id=id)
        release_replaced(session, [(id, found.hash)])
        documents.remove_documents(session, "message", [id])
    deleted = messages_by_id(session, [id], deleted=True)[id]
    if erase:
        erase_record(session, id, found.hash)
        remove_covering_summaries(session, deleted.room, [deleted.seq], erase=True)
        erase_record(session, ephemeral_id(deleted.room), None)  # past contexts may contain one that quotes it
        remove_contexts(session, janitor_session(deleted.room))  # and what the janitor read
    remove_room_counts(session, deleted.room, [deleted.seq])
    return True


def hide_messages(session: Session, ids: Sequence[str], *, superseded: bool = False) -> list[str]:
    """Exclude messages from contexts and search, and return the ids of newly hidden ones.

    They are kept and exported. Summaries that cover them are removed.
    """
    locks = ((id, _lock_message(session, id)) for id in sorted(set(ids)))
    locked = {id: lock for id, lock in locks if lock is not None and not lock.deleted}
    found = messages_by_id(session, list(locked), deleted=False)
    visible = [message for message in found.values() if not message.hidden]
    for message in visible:
        hidden = msgspec.structs.replace(message, hidden=True, superseded=superseded)
        session.run(
            "UPDATE messages SET detail = :detail WHERE tenant = :tenant AND id = :id",
            id=message.id,
            detail=encode_detail(session, hidden, locked[message.id].hash),
        )
    rooms = sorted({message.room for message in visible})
    for room in rooms:
        seqs = [message.seq for message in visible if message.room == room]
        remove_covering_summaries(session, room, seqs, erase=False)
    documents.remove_documents(session, "message", [message.id for message in visible])
    for room in rooms:
        remove_room_counts(session, room, [message.seq for message in visible if message.room == room])
    return [message.id for message in visible]


def _with_seq(message: Message, room: RoomState, *, keep_seq: bool) -> Message:
    room.last = max(room.last + 1, message.seq) if keep_seq else room.last + 1
    room.last_message_at = message.at
    numbered = copy.copy(message)
    msgspec.structs.force_setattr(numbered, "seq", room.last)
    return numbered


def _insert(
    session: Session, messages: Sequence[tuple[Message, IndexEntry | None]], rooms: dict[str, RoomState]
) -> None:
    hashes = add_contents(session, [message.content for message, _ in messages])
    session.insert(
        _INSERT,
        (
            _row(session, message, hash, rooms[message.room])
            for (message, _), hash in zip(messages, hashes, strict=True)
        ),
    )
    save_room_states(session, rooms.values())
    indexed = [(message, entry) for message, entry in messages if entry is not None]
    documents.add_documents(session, message_documents(indexed))
    if len(indexed) < len(messages):
        documents.request_indexing(session)


def _row(session: Session, message: Message, hash: str, room: RoomState) -> dict[str, Any]:
    return {
        "room": room.number,
        "seq": message.seq,
        "id": message.id,
        "hash": hash,
        "at": message.at,
        "edited": message.edited,
        "detail": encode_detail(session, message, hash),
    }


def message_documents(messages: Iterable[tuple[Message, IndexEntry]]) -> list[NewDocument]:
    """Return the index documents of messages. Hidden messages have none."""
    return [
        NewDocument(
            kind="message", item=message.id, scope=f"room:{message.room}", entry=entry, seq=message.seq, at=message.at
        )
        for message, entry in messages
        if not message.hidden
    ]


def _lock_message(session: Session, id: str) -> _LockedMessage | None:
    """Lock a message until the transaction ends; None if there is no such message."""
    found = session.row(
        "UPDATE messages SET deleted = deleted WHERE tenant = :tenant AND id = :id RETURNING hash, deleted", id=id
    )
    return _LockedMessage(hash=found[0], deleted=bool(found[1])) if found else None
