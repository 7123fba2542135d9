"""Memories."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Unpack

import msgspec

from brimful.core.validation import preview
from brimful.errors import InvalidValue
from brimful.records import Memory
from brimful.records.memory import MEMORY_STATES, MemoryFilters
from brimful.records.search import IndexEntry
from brimful.stores.encryption.cipher import decrypt, encrypt
from brimful.stores.index.documents import NewDocument, mark_scope_changed, remove_documents
from brimful.stores.session import Row, Session, prefix_end, validate_limit
from brimful.stores.tables.contents import decode_text
from brimful.stores.tables.writes import erase_record, remove_row, upsert


class _Detail(msgspec.Struct, array_like=True):
    """The fields of a memory without a column of their own. New ones are added at the end, with a default."""

    importance: float
    source: str
    metadata: dict[str, Any]
    cluster: str | None = None
    source_message: str | None = None
    edited: float | None = None
    ended: float | None = None


_DETAIL: Final = msgspec.json.Decoder(_Detail)

_PUT: Final = """
INSERT INTO memories (
  tenant, id, scope, type, persona, user_id, room, hash, at, pinned, summary, accesses, accessed, archived_by, state,
  detail)
VALUES (
  :tenant, :id, :scope, :type, :persona, :user_id, :room, :hash, :at, :pinned, :summary, :accesses, :accessed,
  :archived_by, :state, :detail)
ON CONFLICT (tenant, id) DO UPDATE SET scope = excluded.scope, type = excluded.type, persona = excluded.persona,
  user_id = excluded.user_id, room = excluded.room, hash = excluded.hash, at = excluded.at, pinned = excluded.pinned,
  summary = excluded.summary, state = excluded.state, detail = excluded.detail,
  archived_by = CASE WHEN excluded.archived_by IS NULL THEN NULL
    ELSE coalesce(memories.archived_by, excluded.archived_by) END
"""
READ_MEMORIES: Final = """
SELECT m.id, m.type, m.persona, m.user_id, m.room, m.at, m.pinned, m.summary, m.accesses, m.accessed, m.detail, m.scope,
  m.hash, m.state, c.body, m.archived_by
FROM memories m LEFT JOIN contents c ON c.tenant = m.tenant AND c.hash = m.hash
WHERE m.tenant = :tenant
"""
NEWEST: Final = " ORDER BY m.at DESC, m.id LIMIT :limit"
_COUNT: Final = "SELECT count(*) FROM memories m WHERE m.tenant = :tenant"
_USERS: Final = """
SELECT DISTINCT m.user_id FROM memories m WHERE m.tenant = :tenant AND m.archived_by IS NULL AND m.state = 'active'
"""
_CONDITIONS: Final = {
    "ids": "m.id IN :ids",
    "scopes": "m.scope IN :scopes",
    "types": "m.type IN :types",
    "persona": "m.persona = :persona",
    "user": "m.user_id = :user",
    "room": "m.room = :room",
    "prefix": "m.id >= :prefix",
    "prefix_end": "m.id < :prefix_end",
    "user_prefix": "m.user_id >= :user_prefix",
    "user_prefix_end": "m.user_id < :user_prefix_end",
}
NO_RUN: Final = 0  # in `archived_by`: the memory was written as an archived one
_PAGE_ROWS: Final = 500  # read at once, to compare their metadata


def save_memories(session: Session, memories: Sequence[tuple[Memory, IndexEntry]]) -> None:
    """Write memories, replacing those with the same ids. Access counts are kept. Search finds only active ones."""
    upsert(session, "memories", _PUT, memories, row=_row, document=memory_document)
    last = {memory.id: memory for memory, _ in memories}
    remove_documents(session, "memory", [id for id, each in last.items() if each.archived or each.state != "active"])


def update_memory(
    session: Session, id: str, changes: Mapping[str, Any], make_entry: Callable[[Memory], IndexEntry]
) -> Memory | None:
    """Change fields of a memory, and return it; None if there is no such memory."""
    session.dialect.lock(session, "memories")
    known = list_memories(session, ids=[id], limit=1)
    if not known:
        return None
    changed = msgspec.structs.replace(known[0], **changes)
    save_memories(session, [(changed, make_entry(changed))])
    return changed


def list_memories(
    session: Session,
    *,
    before: float | None = None,
    after: str = "",
    limit: int = 100,
    **filters: Unpack[MemoryFilters],
) -> list[Memory]:
    """Return the memories that match all filters (`MemoryFilters`), newest first.

    `before` is a time. With `after`, memories of exactly that time are included if their ids come after it.
    """
    rows = _find_rows(session, before, after, validate_limit(limit), filters)
    return [decode_memory(session, row) for row in rows]


def count_memories(session: Session, **filters: Unpack[MemoryFilters]) -> int:
    """Return the number of memories that match all filters (`MemoryFilters`)."""
    if _metadata_filter(filters):
        return sum(1 for _ in _matching_rows(session, None, "", filters))
    where, values = _where(**filters)
    row = session.row(_COUNT + where, **values)
    return int(row[0]) if row else 0


def remove_memories(
    session: Session, *, erase: bool = False, limit: int = 500, **filters: Unpack[MemoryFilters]
) -> int:
    """Remove at most `limit` memories that match all filters, and return their number."""
    if not any(_is_filter(name, value) for name, value in filters.items()):
        raise InvalidValue("filters", "are missing: without one, every memory would be removed")
    ids = [row[0] for row in _find_rows(session, None, "", validate_limit(limit), filters)]
    return sum(remove_memory(session, id, erase=erase) for id in ids)


def _is_filter(name: str, value: object) -> bool:
    """Whether a filter limits the results. Empty ids and scopes match nothing, other empty values everything."""
    return value is False or bool(value) or (name in ("ids", "scopes") and value is not None)


def memory_users(session: Session, *, prefix: str = "", after: str = "", limit: int = 100) -> list[str]:
    """Return the users that memories belong to, in order of id: those that start with `prefix`, and after `after`."""
    where, values = _where(user_prefix=prefix)
    sql = f"{_USERS} AND m.user_id > :after{where} ORDER BY m.user_id LIMIT :limit"
    return [user for (user,) in session.rows(sql, after=after, limit=validate_limit(limit), **values)]


def _find_rows(session: Session, before: float | None, after: str, limit: int, filters: MemoryFilters) -> list[Row]:
    if _metadata_filter(filters):
        rows = _matching_rows(session, before, after, filters)
        return [row for row, _ in zip(rows, range(limit), strict=False)]
    return _read_page(session, before, after, limit, filters)


def _matching_rows(session: Session, before: float | None, after: str, filters: MemoryFilters) -> Iterator[Row]:
    """Yield the rows whose metadata match. It may be encrypted, so no database can compare it."""
    expected = _metadata_filter(filters)
    while rows := _read_page(session, before, after, _PAGE_ROWS, filters):
        yield from (row for row in rows if _has_metadata(session, row, expected))
        after, before = rows[-1][0], rows[-1][5]


def _has_metadata(session: Session, row: Row, expected: Mapping[str, Any]) -> bool:
    metadata = _decode_detail(session, row).metadata
    return all(key in metadata and _equal(metadata[key], value) for key, value in expected.items())


def _equal(stored: object, expected: object) -> bool:
    """Compare two values as JSON does: 1 is 1.0, but not true."""
    return stored == expected and isinstance(stored, bool) == isinstance(expected, bool)


def _metadata_filter(filters: MemoryFilters) -> Mapping[str, Any]:
    metadata = filters.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InvalidValue("metadata", f"must be a dict of the values to match, not {preview(metadata)}")
    return metadata or {}


def _read_page(session: Session, before: float | None, after: str, limit: int, filters: MemoryFilters) -> list[Row]:
    where, values = _where(**filters)
    if before is not None:  # the first comparison lets the database start reading there
        where += " AND m.at <= :before AND (m.at < :before OR m.id > :after)" if after else " AND m.at < :before"
        values |= {"before": before, "after": after} if after else {"before": before}
    return session.rows(READ_MEMORIES + where + NEWEST, limit=limit, **values)


def _where(**filters: Unpack[MemoryFilters]) -> tuple[str, dict[str, Any]]:
    """Return the SQL condition of the filters, and its values."""
    given: Mapping[str, object] = filters
    for name in given.keys() - MemoryFilters.__annotations__.keys():
        raise InvalidValue(name, f"is not a filter; there are {', '.join(MemoryFilters.__annotations__)}")
    values: dict[str, Any] = {
        **{field: _list(field, given.get(field)) for field in ("ids", "scopes")},
        "types": _list("types", given.get("types")) or None,
        **{field: _string(field, given.get(field)) for field in ("persona", "user", "room")},
    }
    for field in ("prefix", "user_prefix"):
        start = _string(field, given.get(field)) or None
        values |= {field: start, f"{field}_end": start and prefix_end(start)}
    values = {field: value for field, value in values.items() if value is not None}
    flags = {field: _flag(field, given.get(field)) for field in ("pinned", "summary")}
    archived = _flag("archived", given.get("archived"))
    if "archived" not in given and given.get("ids") is None:
        archived = False
    state = _state(given.get("state", "active"))
    conditions = [
        *(_CONDITIONS[field] for field in values),
        *(f"m.{field} = {int(flag)}" for field, flag in flags.items() if flag is not None),
        *([] if archived is None else [f"m.archived_by IS {'NOT NULL' if archived else 'NULL'}"]),
        *([] if state is None else [f"m.state = '{state}'"]),
    ]
    return "".join(f" AND {condition}" for condition in conditions), values


def _list(field: str, value: object) -> list[str] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidValue(field, f"must be a list of strings, not {preview(value)}")
    return [_string(field, each) or "" for each in value]


def _string(field: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidValue(field, f"must be a string, not {preview(value)}")
    return value


def _state(value: object) -> str | None:
    if value is None:
        return None
    for state in MEMORY_STATES:
        if value == state:
            return state
    raise InvalidValue("state", f"must be one of {', '.join(MEMORY_STATES)}, not {preview(value)}")


def _flag(field: str, value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise InvalidValue(field, f"must be true or false, not {preview(value)}")
    return value


def pin_memory(session: Session, id: str, *, pinned: bool = True) -> bool:
    """Pin or unpin a memory. Returns False if there is none with this id."""
    if type(pinned) is not bool:
        raise InvalidValue("pinned", f"must be true or false, not {preview(pinned)}")
    sql = (
        "UPDATE memories SET pinned = :pinned WHERE tenant = :tenant AND id = :id AND archived_by IS NULL "
        "AND state = 'active' RETURNING scope"
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
    id, type, persona, user, room, at, pinned, summary, accesses, accessed, _, _, hash, state, body, archived_by = row
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
        state=state,
        archived=archived_by is not None,
        **msgspec.structs.asdict(_decode_detail(session, row)),
    )


def _decode_detail(session: Session, row: Row) -> _Detail:
    return _DETAIL.decode(decrypt(session, row[10], "memories", row[0], row[11], row[12]))


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
        "state": memory.state,
        "archived_by": NO_RUN if memory.archived else None,
        "detail": encrypt(session, detail, "memories", memory.id, memory.scope, hash),
    }


def memory_document(memory: Memory, entry: IndexEntry) -> NewDocument:
    return NewDocument(kind="memory", item=memory.id, scope=memory.scope, entry=entry, at=memory.at)
