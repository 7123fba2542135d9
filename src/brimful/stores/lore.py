"""Lorebook entries."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.answers import Indexed
from brimful.records import Lorebook, LoreEntry
from brimful.stores import plain
from brimful.stores.contents import open_text
from brimful.stores.documents import Entry
from brimful.stores.rewriting import rewrite, take_out
from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Row, Session

_APART: Final = ("id", "lorebook", "content", "order")  # in columns of their own, and the content by its hash
_FIRST: Final = ("name", "keys", "constant", "enabled", "importance", "settings")  # at fixed places of a detail
_DEFAULTS: Final = {
    field.name: field.default for field in msgspec.structs.fields(LoreEntry) if field.name not in (*_APART, *_FIRST)
}


class _Detail(msgspec.Struct, array_like=True, frozen=True):
    """What a row says of an entry, as an array: the fields that all have, and of the others those that are set."""

    name: str
    keys: list[str]
    constant: bool
    enabled: bool
    importance: float
    settings: dict[str, Any]
    others: dict[str, Any] = {}


_DETAIL: Final = msgspec.json.Decoder(_Detail)

_PUT: Final = """
INSERT INTO lore_entries (tenant, id, lorebook, hash, place, detail)
VALUES (:tenant, :id, :lorebook, :hash, :place, :detail)
ON CONFLICT (tenant, id) DO UPDATE SET lorebook = excluded.lorebook, hash = excluded.hash, place = excluded.place,
  detail = excluded.detail
"""
READ: Final = """
SELECT e.id, e.lorebook, e.place, e.detail, e.hash, c.body
FROM lore_entries e LEFT JOIN contents c ON c.tenant = e.tenant AND c.hash = e.hash
WHERE e.tenant = :tenant
"""


def write_lore(session: Session, given: Sequence[tuple[LoreEntry, Indexed]]) -> None:
    """Write lorebook entries, each in the place of the one with its id; lorebooks that are not there yet are made."""
    last = {entry.id: entry.lorebook for entry, _ in given}
    for lorebook in sorted(set(last.values())):
        if plain.get(session, Lorebook, lorebook) is None:
            plain.put(session, Lorebook(id=lorebook))
    rewrite(session, "lore_entries", _PUT, given, row=_row, entry=_entry)


def lore(session: Session, lorebooks: Sequence[str] | None, ids: Sequence[str] | None) -> list[LoreEntry]:
    """Return the entries of these lorebooks, or those of these ids, by their order."""
    which = "" if lorebooks is None else " AND e.lorebook IN :lorebooks"
    which += "" if ids is None else " AND e.id IN :ids"
    found = session.rows(
        f"{READ}{which} ORDER BY e.lorebook, e.place, e.id", lorebooks=list(lorebooks or ()), ids=list(ids or ())
    )
    return [entry_of(session, row) for row in found]


def remove_lore(session: Session, id: str) -> bool:
    """Remove an entry."""
    return take_out(session, "lore_entries", "lore", id) is not None


def entry_of(session: Session, row: Row) -> LoreEntry:
    """Return the entry of a row."""
    id, lorebook, place, sealed, hash, body = row
    detail = _DETAIL.decode(unseal(session, sealed, "lore_entries", id, lorebook, hash))
    first = {field: getattr(detail, field) for field in _FIRST}
    apart = {"id": id, "lorebook": lorebook, "content": open_text(session, body, hash), "order": place}
    return msgspec.convert({**detail.others, **first, **apart}, LoreEntry)


def _row(session: Session, entry: LoreEntry, hash: str) -> dict[str, Any]:
    others = {field: value for field, usual in _DEFAULTS.items() if (value := getattr(entry, field)) != usual}
    detail = (*(getattr(entry, field) for field in _FIRST), *([others] if others else []))
    return {
        "id": entry.id,
        "lorebook": entry.lorebook,
        "hash": hash,
        "place": entry.order,
        "detail": seal(session, msgspec.json.encode(detail), "lore_entries", entry.id, entry.lorebook, hash),
    }


def _entry(entry: LoreEntry, indexed: Indexed) -> Entry:
    return Entry(kind="lore", item=entry.id, scope=f"lorebook:{entry.lorebook}", indexed=indexed)
