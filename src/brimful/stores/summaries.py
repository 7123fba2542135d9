"""Summaries of what was said in a room."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.answers import Indexed
from brimful.records import Summary
from brimful.stores.contents import open_text
from brimful.stores.documents import Entry
from brimful.stores.rewriting import rewrite, take_out
from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Row, Session


class _Detail(msgspec.Struct, array_like=True):
    """What is kept of a summary beside its columns. Those of older stores have no spans."""

    cluster: str
    first: int
    last: int
    covers: tuple[str, ...]
    metadata: dict[str, Any]
    spans: tuple[tuple[int, int], ...] = ()


_DETAIL: Final = msgspec.json.Decoder(_Detail)

_PUT: Final = """
INSERT INTO summaries (tenant, id, room, hash, at, detail) VALUES (:tenant, :id, :room, :hash, :at, :detail)
ON CONFLICT (tenant, id) DO UPDATE SET room = excluded.room, hash = excluded.hash, at = excluded.at,
  detail = excluded.detail
"""
READ: Final = """
SELECT s.id, s.room, s.at, s.detail, s.hash, c.body
FROM summaries s LEFT JOIN contents c ON c.tenant = s.tenant AND c.hash = s.hash
WHERE s.tenant = :tenant
"""


def summarize(session: Session, given: Sequence[tuple[Summary, Indexed]]) -> None:
    """Write summaries, each in the place of the one with its id."""
    rewrite(session, "summaries", _PUT, given, row=_row, entry=_entry)


def summaries(session: Session, room: str | None, ids: Sequence[str] | None) -> list[Summary]:
    """Return the summaries of a room, or those of these ids, newest first."""
    which = "" if room is None else " AND s.room = :room"
    which += "" if ids is None else " AND s.id IN :ids"
    found = session.rows(f"{READ}{which} ORDER BY s.at DESC, s.id", room=room, ids=list(ids or ()))
    return [summary_of(session, row) for row in found]


def remove_summary(session: Session, id: str) -> bool:
    """Remove a summary."""
    return take_out(session, "summaries", "summary", id) is not None


def summary_of(session: Session, row: Row) -> Summary:
    """Return the summary of a row."""
    id, room, at, detail, hash, body = row
    kept = _DETAIL.decode(unseal(session, detail, "summaries", id, room, hash))
    return Summary(id=id, room=room, content=open_text(session, body, hash), at=at, **msgspec.structs.asdict(kept))


def _row(session: Session, summary: Summary, hash: str) -> dict[str, Any]:
    detail = _Detail(**{field: getattr(summary, field) for field in _Detail.__struct_fields__})
    return {
        "id": summary.id,
        "room": summary.room,
        "hash": hash,
        "at": summary.at,
        "detail": seal(session, msgspec.json.encode(detail), "summaries", summary.id, summary.room, hash),
    }


def _entry(summary: Summary, indexed: Indexed) -> Entry:
    return Entry(kind="summary", item=summary.id, scope=f"room:{summary.room}", indexed=indexed, at=summary.at)
