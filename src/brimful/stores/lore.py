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

_DETAIL: Final = msgspec.json.Decoder(tuple[str, tuple[str, ...], bool, bool, float, dict[str, Any]])

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
    id, lorebook, place, detail, hash, body = row
    name, keys, constant, enabled, importance, settings = _DETAIL.decode(
        unseal(session, detail, "lore_entries", id, lorebook, hash)
    )
    return LoreEntry(
        id=id,
        lorebook=lorebook,
        content=open_text(session, body, hash),
        name=name,
        keys=keys,
        constant=constant,
        enabled=enabled,
        order=place,
        importance=importance,
        settings=settings,
    )


def _row(session: Session, entry: LoreEntry, hash: str) -> dict[str, Any]:
    detail = (entry.name, entry.keys, entry.constant, entry.enabled, entry.importance, entry.settings)
    return {
        "id": entry.id,
        "lorebook": entry.lorebook,
        "hash": hash,
        "place": entry.order,
        "detail": seal(session, msgspec.json.encode(detail), "lore_entries", entry.id, entry.lorebook, hash),
    }


def _entry(entry: LoreEntry, indexed: Indexed) -> Entry:
    return Entry(kind="lore", item=entry.id, scope=f"lorebook:{entry.lorebook}", indexed=indexed)
