"""Memories."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from brimful.core.validation import preview
from brimful.errors import InvalidValue
from brimful.records import Memory
from brimful.records.search import IndexEntry
from brimful.stores.encryption.cipher import decrypt, encrypt
from brimful.stores.index.documents import NewDocument, mark_scope_changed
from brimful.stores.session import Row, Session, validate_limit
from brimful.stores.tables.contents import decode_text
from brimful.stores.tables.writes import erase_record, remove_row, upsert


class _Detail(msgspec.Struct, array_like=True):
    """The fields of a memory without a column of their own. New ones are added at the end, with a default."""

    importance: float
    source: str
    metadata: dict[str, Any]
    cluster: str | None = None
    source_message: str | None = None


_DETAIL: Final = msgspec.json.Decoder(_Detail)

_PUT: Final = """
INSERT INTO memories (
  tenant, id, scope, type, persona, user_id, room, hash, at, pinned, summary, accesses, accessed, detail)
VALUES (
  :tenant, :id, :scope, :type, :persona, :user_id, :room, :hash, :at, :pinned, :summary, :accesses, :accessed, :detail)
ON CONFLICT (tenant, id) DO UPDATE SET scope = excluded.scope, type = excluded.type, persona = excluded.persona,
  user_id = excluded.user_id, room = excluded.room, hash = excluded.hash, at = excluded.at, pinned = excluded.pinned,
  summary = excluded.summary, detail = excluded.detail, archived_by = NULL
"""
READ_MEMORIES: Final = """
SELECT m.id, m.type, m.persona, m.user_id, m.room, m.at, m.pinned, m.summary, m.accesses, m.accessed, m.detail, m.scope,
  m.hash, c.body
FROM memories m LEFT JOIN contents c ON c.tenant = m.tenant AND c.hash = m.hash
WHERE m.tenant = :tenant
"""
NEWEST: Final = " ORDER BY m.at DESC, m.id LIMIT :limit"


def save_memories(session: Session, memories: Sequence[tuple[Memory, IndexEntry]]) -> None:
    """Write memories, replacing those with the same ids. Access counts are kept."""
    upsert(session, "memories", _PUT, memories, row=_row, document=memory_document)


def list_memories(  # noqa: PLR0913 - the filters
    session: Session,
    *,
    ids: Sequence[str] | None = None,
    scopes: Sequence[str] | None = None,
    types: Sequence[str] = (),
    pinned: bool | None = None,
    summary: bool | None = None,
    before: float | None = None,
    after: str = "",
    limit: int = 100,
) -> list[Memory]:
    """Return the memories that match all filters, newest first.

    `before` is a time. With `after`, memories of exactly that time are included if their ids come after it.
    """
    filters: dict[str, tuple[str, Any]] = {
        "ids": ("m.id IN :ids", None if ids is None else list(ids)),
        "scopes": ("m.scope IN :scopes", None if scopes is None else list(scopes)),
        "types": ("m.type IN :types", list(types) or None),
        "pinned": ("m.pinned = 1" if pinned else "m.pinned = 0", pinned),
        "summary": ("m.summary = 1" if summary else "m.summary = 0", summary),
        "before": ("(m.at < :before OR (m.at = :before AND m.id > :after))" if after else "m.at < :before", before),
    }
    values = {name: value for name, (_, value) in filters.items() if value is not None}
    active = " AND m.archived_by IS NULL" if ids is None else ""  # archived memories can be read by id
    sql = READ_MEMORIES + active + "".join(f" AND {filters[name][0]}" for name in values) + NEWEST
    for flag in ("pinned", "summary"):
        values.pop(flag, None)
    return [
        decode_memory(session, row) for row in session.rows(sql, limit=validate_limit(limit), after=after, **values)
    ]


def pin_memory(session: Session, id: str, *, pinned: bool = True) -> bool:
    """Pin or unpin a memory. Returns False if there is none with this id."""
    if type(pinned) is not bool:
        raise InvalidValue("pinned", f"must be true or false, not {preview(pinned)}")
    sql = (
        "UPDATE memories SET pinned = :pinned WHERE tenant = :tenant AND id = :id AND archived_by IS NULL "
        "RETURNING scope"
    )
    found = session.row(sql, id=id, pinned=int(pinned))
    if found is not None:  # cached search results are out of date
        mark_scope_changed(session, found[0])
    return found is not None


def remove_memory(session: Session, id: str, *, erase: bool = False) -> bool:
    """Remove a memory; with `erase`, also its content in past contexts. Returns False if there is none."""
    address = remove_row(session, "memories", "memory", id)
    if address is not None and erase:
        erase_record(session, id, address)
    return address is not None


def record_access(session: Session, ids: Iterable[str], *, at: float) -> None:
    """Count one access to each of these memories."""
    session.many(
        "UPDATE memories SET accesses = accesses + 1, accessed = :at WHERE tenant = :tenant AND id = :id",
        ({"id": id, "at": at} for id in sorted(set(ids))),
    )


def decode_memory(session: Session, row: Row) -> Memory:
    """Return the memory of a row."""
    id, type, persona, user, room, at, pinned, summary, accesses, accessed, detail, scope, hash, body = row
    fields = _DETAIL.decode(decrypt(session, detail, "memories", id, scope, hash))
    return Memory(
        id=id,
        content=decode_text(session, body, hash),
        type=type,
        persona=persona,
        user=user,
        room=room,
        at=at,
        pinned=bool(pinned),
        summary=bool(summary),
        accesses=accesses,
        accessed=accessed,
        **msgspec.structs.asdict(fields),
    )


def _row(session: Session, memory: Memory, hash: str) -> dict[str, Any]:
    detail = msgspec.json.encode(_Detail(**{field: getattr(memory, field) for field in _Detail.__struct_fields__}))
    return {
        "id": memory.id,
        "scope": memory.scope,
        "type": memory.type,
        "persona": memory.persona,
        "user_id": memory.user,
        "room": memory.room,
        "hash": hash,
        "at": memory.at,
        "pinned": int(memory.pinned),
        "summary": int(memory.summary),
        "accesses": memory.accesses,
        "accessed": memory.accessed,
        "detail": encrypt(session, detail, "memories", memory.id, memory.scope, hash),
    }


def memory_document(memory: Memory, entry: IndexEntry) -> NewDocument:
    """Return the index document of a memory."""
    return NewDocument(kind="memory", item=memory.id, scope=memory.scope, entry=entry, at=memory.at)
