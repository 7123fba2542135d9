"""Summaries of messages. A summary is removed if a message that it covers is erased or hidden."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.records import Summary
from brimful.records.search import IndexEntry
from brimful.stores.encryption.cipher import decrypt, encrypt
from brimful.stores.index.documents import NewDocument
from brimful.stores.session import Row, Session
from brimful.stores.tables.contents import decode_text
from brimful.stores.tables.writes import erase_record, remove_row, upsert

_PUT: Final = """
INSERT INTO summaries (tenant, id, room, hash, at, detail) VALUES (:tenant, :id, :room, :hash, :at, :detail)
ON CONFLICT (tenant, id) DO UPDATE SET room = excluded.room, hash = excluded.hash, at = excluded.at,
  detail = excluded.detail
"""
READ_SUMMARIES: Final = """
SELECT s.id, s.room, s.at, s.detail, s.hash, c.body
FROM summaries s LEFT JOIN contents c ON c.tenant = s.tenant AND c.hash = s.hash
WHERE s.tenant = :tenant
"""


class _Detail(msgspec.Struct, array_like=True):
    """The fields of a summary without a column of their own."""

    cluster: str
    first: int
    last: int
    covers: tuple[str, ...]
    metadata: dict[str, Any]
    spans: tuple[tuple[int, int], ...]


_DETAIL: Final = msgspec.json.Decoder(_Detail)


def save_summaries(session: Session, summaries: Sequence[tuple[Summary, IndexEntry]]) -> None:
    """Write summaries, replacing those with the same ids."""
    upsert(session, "summaries", _PUT, summaries, row=_row, document=summary_document)


def list_summaries(session: Session, room: str | None = None, *, ids: Sequence[str] | None = None) -> list[Summary]:
    """Return the summaries of a room, or those with these ids, newest first."""
    conditions = {"s.room = :room": room, "s.id IN :ids": ids}
    found = session.select(READ_SUMMARIES, conditions, "ORDER BY s.at DESC, s.id")
    return [decode_summary(session, row) for row in found]


def remove_summary(session: Session, id: str) -> bool:
    """Remove a summary. Returns False if there is none with this id."""
    return remove_row(session, "summaries", "summary", id) is not None


def decode_summary(session: Session, row: Row) -> Summary:
    id, room, at, detail, hash, body = row
    fields = _DETAIL.decode(decrypt(session, detail, "summaries", id, room, hash))
    return Summary(id=id, room=room, content=decode_text(session, body, hash), at=at, **msgspec.structs.asdict(fields))


def _row(session: Session, summary: Summary, hash: str) -> dict[str, Any]:
    detail = _Detail(**{field: getattr(summary, field) for field in _Detail.__struct_fields__})
    return {
        "id": summary.id,
        "room": summary.room,
        "hash": hash,
        "at": summary.at,
        "detail": encrypt(session, msgspec.json.encode(detail), "summaries", summary.id, summary.room, hash),
    }


def summary_document(summary: Summary, entry: IndexEntry) -> NewDocument:
    return NewDocument(kind="summary", item=summary.id, scope=f"room:{summary.room}", entry=entry, at=summary.at)


def remove_covering_summaries(session: Session, room: str, seqs: Sequence[int], *, erase: bool) -> None:
    """Remove the summaries that cover a message, and those the janitor keeps for undo; with `erase`, everywhere."""
    for summary in list_summaries(session, room):
        if _covers(summary, seqs):
            address = remove_row(session, "summaries", "summary", summary.id)
            if address is not None and erase:
                erase_record(session, summary.id, address)
    rows = session.rows(
        "SELECT number, item, body FROM janitor_undo WHERE tenant = :tenant AND room = :room", room=room
    )
    for number, item, body in rows:
        before = msgspec.json.decode(decrypt(session, body, "janitor_undo", item, room), type=Summary | None)
        if before is not None and _covers(before, seqs):
            session.run("DELETE FROM janitor_undo WHERE tenant = :tenant AND number = :number", number=number)


def _covers(summary: Summary, seqs: Sequence[int]) -> bool:
    return any(first <= seq <= last for first, last in summary.spans for seq in seqs)
