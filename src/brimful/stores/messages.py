"""Reading messages: pages of a room, and messages by their ids."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.answers import Counted
from brimful.core.content import Role
from brimful.records import Message
from brimful.stores.contents import open_content
from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Row, Session

Detail = tuple[str, Role, dict[str, Any]]
"""Sender, role, metadata: what no query asks for."""
_DETAIL: Final = msgspec.json.Decoder(Detail)

_COLUMNS: Final = "r.id, m.id, m.seq, m.at, m.edited, m.detail, m.hash, c.body"
_TABLES: Final = """
FROM messages m JOIN rooms r ON r.tenant = m.tenant AND r.number = m.room
LEFT JOIN contents c ON c.tenant = m.tenant AND c.hash = m.hash
"""
_COUNTS: Final = "LEFT JOIN counts n ON n.tenant = m.tenant AND n.tokenizer = :tokenizer AND n.hash = m.hash"
READ: Final = f"SELECT {_COLUMNS}, m.room {_TABLES}"
HISTORY: Final = f"""
SELECT {_COLUMNS}, n.tokens {_TABLES} {_COUNTS}
WHERE m.tenant = :tenant AND m.room = (SELECT number FROM rooms WHERE tenant = :tenant AND id = :room)
  AND m.seq < :before AND m.deleted = 0 AND (m.aside IS NULL OR :aside = 1)
ORDER BY m.seq DESC LIMIT :limit
"""  # noqa: S608 - our own columns
BY_ID: Final = f"SELECT {_COLUMNS} {_TABLES} WHERE m.tenant = :tenant AND m.id IN :ids"
BY_SEQ: Final = f"""
SELECT {_COLUMNS}, n.tokens {_TABLES} {_COUNTS}
WHERE m.tenant = :tenant AND m.room = (SELECT number FROM rooms WHERE tenant = :tenant AND id = :room)
  AND m.seq IN :seqs AND m.deleted = 0 AND (m.aside IS NULL OR :aside = 1)
ORDER BY m.seq
"""  # noqa: S608 - our own columns


def history(
    session: Session, room: str, before: int, limit: int, tokenizer: str, *, aside: bool = False
) -> list[Counted]:
    """Return messages of a room, newest first, older than `before`, with their stored counts."""
    found = session.rows(HISTORY, room=room, before=before, limit=limit, tokenizer=tokenizer, aside=int(aside))
    return [Counted(message=message_of(session, row), tokens=row[-1]) for row in found]


def messages(session: Session, ids: Sequence[str]) -> list[Message]:
    """Return the messages of these ids, in this order, those that are there."""
    found = standing(session, ids, deleted=False)
    return [found[id] for id in ids if id in found]


def messages_at(
    session: Session, room: str, seqs: Sequence[int], tokenizer: str, *, aside: bool = False
) -> list[Counted]:
    """Return the messages at these places of a room, in order, with their stored counts."""
    found = session.rows(BY_SEQ, room=room, seqs=list(seqs), tokenizer=tokenizer, aside=int(aside))
    return [Counted(message=message_of(session, row), tokens=row[-1]) for row in found]


def standing(session: Session, ids: Sequence[str], *, deleted: bool) -> dict[str, Message]:
    """Return messages by id; with `deleted`, also those that were taken out."""
    sql = BY_ID if deleted else BY_ID + " AND m.deleted = 0"
    return {row[1]: message_of(session, row) for row in session.rows(sql, ids=list(ids))}


def detail_of(session: Session, message: Message, hash: str) -> bytes:
    """Return what is kept of a message beside its columns."""
    detail = msgspec.json.encode((message.sender, message.role, message.metadata))
    return seal(session, detail, "messages", message.id, message.room, hash)


def message_of(session: Session, row: Row) -> Message:
    """Return the message of a row."""
    room, id, seq, at, edited, detail, hash, body, *_ = row
    sender, role, metadata = _DETAIL.decode(unseal(session, detail, "messages", id, room, hash))
    return Message(
        id=id,
        room=room,
        content=open_content(session, body, hash),
        sender=sender,
        role=role,
        at=at,
        seq=seq,
        edited=edited,
        metadata=metadata,
    )
