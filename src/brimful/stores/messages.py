"""Reading messages: pages of a room, and messages by their ids."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.answers import Counted
from brimful.core.content import Role
from brimful.records import Content, Message
from brimful.stores.content_cache import ContentCache, Known, weight
from brimful.stores.contents import open_content
from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Row, Session

Detail = tuple[str, Role, dict[str, Any]]
"""Sender, role, metadata: what no query asks for."""
_DETAIL: Final = msgspec.json.Decoder(Detail)

_ERASED: Final[Known] = ("", None)

_COLUMNS: Final = "r.id, m.id, m.seq, m.at, m.edited, m.detail, m.hash"
_ADDRESS: Final = 6  # which of them is the address of the content
_TABLES: Final = "FROM messages m JOIN rooms r ON r.tenant = m.tenant AND r.number = m.room"
_CONTENTS: Final = "LEFT JOIN contents c ON c.tenant = m.tenant AND c.hash = m.hash"
READ: Final = f"SELECT {_COLUMNS}, c.body, m.room {_TABLES} {_CONTENTS}"
HISTORY: Final = f"""
SELECT {_COLUMNS} {_TABLES}
WHERE m.tenant = :tenant AND m.room = (SELECT number FROM rooms WHERE tenant = :tenant AND id = :room)
  AND m.seq < :before AND m.deleted = 0 AND (m.aside IS NULL OR :aside = 1)
ORDER BY m.seq DESC LIMIT :limit
"""  # noqa: S608 - our own columns
BY_ID: Final = f"SELECT {_COLUMNS}, c.body {_TABLES} {_CONTENTS} WHERE m.tenant = :tenant AND m.id IN :ids"
BY_SEQ: Final = f"""
SELECT {_COLUMNS} {_TABLES}
WHERE m.tenant = :tenant AND m.room = (SELECT number FROM rooms WHERE tenant = :tenant AND id = :room)
  AND m.seq IN :seqs AND m.deleted = 0 AND (m.aside IS NULL OR :aside = 1)
ORDER BY m.seq
"""  # noqa: S608 - our own columns
_SAID: Final = """
SELECT c.hash, c.body, n.tokens FROM contents c
LEFT JOIN counts n ON n.tenant = c.tenant AND n.tokenizer = :tokenizer AND n.hash = c.hash
WHERE c.tenant = :tenant AND c.hash IN :addresses
"""


def history(
    session: Session, known: ContentCache, room: str, before: int, limit: int, tokenizer: str, *, aside: bool = False
) -> list[Counted]:
    """Return messages of a room, newest first, older than `before`, with their stored counts."""
    found = session.rows(HISTORY, room=room, before=before, limit=limit, aside=int(aside))
    return _counted(session, known, found, tokenizer)


def messages(session: Session, ids: Sequence[str]) -> list[Message]:
    """Return the messages of these ids, in this order, those that are there."""
    found = standing(session, ids, deleted=False)
    return [found[id] for id in ids if id in found]


def messages_at(
    session: Session, known: ContentCache, room: str, seqs: Sequence[int], tokenizer: str, *, aside: bool = False
) -> list[Counted]:
    """Return the messages at these places of a room, in order, with their stored counts."""
    found = session.rows(BY_SEQ, room=room, seqs=list(seqs), aside=int(aside))
    return _counted(session, known, found, tokenizer)


def standing(session: Session, ids: Sequence[str], *, deleted: bool) -> dict[str, Message]:
    """Return messages by id; with `deleted`, also those that were taken out."""
    sql = BY_ID if deleted else BY_ID + " AND m.deleted = 0"
    return {row[1]: message_of(session, row) for row in session.rows(sql, ids=list(ids))}


def detail_of(session: Session, message: Message, hash: str) -> bytes:
    """Return what is kept of a message beside its columns."""
    detail = msgspec.json.encode((message.sender, message.role, message.metadata))
    return seal(session, detail, "messages", message.id, message.room, hash)


def message_of(session: Session, row: Row) -> Message:
    """Return the message of a row, whose content stands behind its address."""
    return _message(session, row, open_content(session, row[_ADDRESS + 1], row[_ADDRESS]))


def _counted(session: Session, known: ContentCache, rows: Sequence[Row], tokenizer: str) -> list[Counted]:
    """Return the messages of rows without contents: most of a history was read for the last build, too."""
    addresses = dict.fromkeys(row[_ADDRESS] for row in rows)
    said = known.known(tokenizer, addresses)
    missing = [address for address in addresses if address not in said]
    if missing:
        said |= _said(session, known, missing, tokenizer)
    told = [(row, *said.get(row[_ADDRESS], _ERASED)) for row in rows]
    return [Counted(message=_message(session, row, content), tokens=tokens) for row, content, tokens in told]


def _said(session: Session, known: ContentCache, addresses: list[str], tokenizer: str) -> dict[str, Known]:
    """Read contents with their counts, and hold those of which nothing will ever be added."""
    said: dict[str, Known] = {}
    for hash, body, tokens in session.rows(_SAID, addresses=addresses, tokenizer=tokenizer):
        content = open_content(session, body, hash)
        said[hash] = content, tokens
        if tokens is not None or not tokenizer or not isinstance(content, str):
            known.keep(tokenizer, hash, (content, tokens), size=weight(content))
    return said


def _message(session: Session, row: Row, content: Content) -> Message:
    room, id, seq, at, edited, detail, hash, *_ = row
    sender, role, metadata = _DETAIL.decode(unseal(session, detail, "messages", id, room, hash))
    return Message(
        id=id, room=room, content=content, sender=sender, role=role, at=at, seq=seq, edited=edited, metadata=metadata
    )
