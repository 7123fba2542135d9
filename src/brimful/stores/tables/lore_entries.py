"""Lorebook entries."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.records import Lorebook, LoreEntry
from brimful.records.search import IndexEntry
from brimful.stores.encryption.cipher import decrypt, encrypt
from brimful.stores.index.documents import NewDocument
from brimful.stores.session import Row, Session
from brimful.stores.tables import entities
from brimful.stores.tables.contents import decode_text
from brimful.stores.tables.writes import remove_row, upsert

_COLUMNS: Final = ("id", "lorebook", "content", "order")  # stored in columns, the content by its hash
_FIXED_FIELDS: Final = (
    "name",
    "keys",
    "constant",
    "enabled",
    "importance",
    "settings",
)  # at fixed positions of the array
_DEFAULTS: Final = {
    field.name: field.default
    for field in msgspec.structs.fields(LoreEntry)
    if field.name not in (*_COLUMNS, *_FIXED_FIELDS)
}
_PUT: Final = """
INSERT INTO lore_entries (tenant, id, lorebook, hash, position, detail)
VALUES (:tenant, :id, :lorebook, :hash, :position, :detail)
ON CONFLICT (tenant, id) DO UPDATE SET lorebook = excluded.lorebook, hash = excluded.hash, position = excluded.position,
  detail = excluded.detail
"""
READ_LORE: Final = """
SELECT e.id, e.lorebook, e.position, e.detail, e.hash, c.body
FROM lore_entries e LEFT JOIN contents c ON c.tenant = e.tenant AND c.hash = e.hash
WHERE e.tenant = :tenant
"""


class _Detail(msgspec.Struct, array_like=True, frozen=True):
    """The other fields of an entry, as an array: fixed fields, and a dict of fields that differ from the defaults."""

    name: str
    keys: list[str]
    constant: bool
    enabled: bool
    importance: float
    settings: dict[str, Any]
    others: dict[str, Any] = {}


_DETAIL: Final = msgspec.json.Decoder(_Detail)


def save_lore(session: Session, entries: Sequence[tuple[LoreEntry, IndexEntry]]) -> None:
    """Write lorebook entries, replacing those with the same ids. Missing lorebooks are created."""
    last = {entry.id: entry.lorebook for entry, _ in entries}
    for lorebook in sorted(set(last.values())):
        if entities.get_entity(session, Lorebook, lorebook) is None:
            entities.put_entity(session, Lorebook(id=lorebook))
    upsert(session, "lore_entries", _PUT, entries, row=_row, document=lore_document)


def list_lore(
    session: Session, lorebooks: Sequence[str] | None = None, *, ids: Sequence[str] | None = None
) -> list[LoreEntry]:
    """Return the entries of these lorebooks, or those with these ids, in their order."""
    conditions = {"e.lorebook IN :lorebooks": lorebooks, "e.id IN :ids": ids}
    found = session.select(READ_LORE, conditions, "ORDER BY e.lorebook, e.position, e.id")
    return [decode_lore(session, row) for row in found]


def remove_lore(session: Session, id: str) -> bool:
    """Remove a lorebook entry. Returns False if there is none with this id."""
    return remove_row(session, "lore_entries", "lore", id) is not None


def decode_lore(session: Session, row: Row) -> LoreEntry:
    id, lorebook, position, encrypted, hash, body = row
    detail = _DETAIL.decode(decrypt(session, encrypted, "lore_entries", id, lorebook, hash))
    fixed = {field: getattr(detail, field) for field in _FIXED_FIELDS}
    columns = {"id": id, "lorebook": lorebook, "content": decode_text(session, body, hash), "order": position}
    return msgspec.convert({**detail.others, **fixed, **columns}, LoreEntry)


def _row(session: Session, entry: LoreEntry, hash: str) -> dict[str, Any]:
    others = {field: value for field, usual in _DEFAULTS.items() if (value := getattr(entry, field)) != usual}
    detail = (*(getattr(entry, field) for field in _FIXED_FIELDS), *([others] if others else []))
    return {
        "id": entry.id,
        "lorebook": entry.lorebook,
        "hash": hash,
        "position": entry.order,
        "detail": encrypt(session, msgspec.json.encode(detail), "lore_entries", entry.id, entry.lorebook, hash),
    }


def lore_document(lore: LoreEntry, entry: IndexEntry) -> NewDocument:
    return NewDocument(kind="lore", item=lore.id, scope=f"lorebook:{lore.lorebook}", entry=entry)
