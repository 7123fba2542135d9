"""Finish the index: imported messages, and the rest of very long texts."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from brimful.records.search import DocumentKind, IndexEntry
from brimful.stores.index import documents
from brimful.stores.index.documents import NewDocument
from brimful.stores.session import Session
from brimful.stores.tables import entities, lore_entries, memories, messages, summaries

DEFERRED_BATCH: Final = 512  # messages per transaction that were imported without their terms
_UNDIVIDED: Final = "SELECT kind, item FROM documents WHERE tenant = :tenant AND part < 0 LIMIT 1"
_UNDIVIDED_ITEMS: Final = """
SELECT kind, item FROM documents WHERE tenant = :tenant AND kind IN :kinds AND item IN :items AND part < 0 LIMIT 1
"""
_STILL_UNDIVIDED: Final = """
SELECT part, start, seq FROM documents WHERE tenant = :tenant AND kind = :kind AND item = :item AND part < 0
"""
_COUNT_UNDIVIDED: Final = "SELECT count(*) FROM documents WHERE tenant = :tenant AND part < 0"
_UNINDEXED: Final = """
SELECT m.room, m.seq, m.id FROM rooms r JOIN messages m ON m.tenant = r.tenant AND m.room = r.number
WHERE r.tenant = :tenant AND r.number IN :rooms AND m.seq >= r.unindexed AND m.deleted = 0
ORDER BY m.room, m.seq LIMIT :limit
"""
_COUNT_UNINDEXED: Final = """
SELECT count(*) FROM rooms r JOIN messages m ON m.tenant = r.tenant AND m.room = r.number AND m.seq >= r.unindexed
WHERE r.tenant = :tenant AND r.unindexed IS NOT NULL AND m.deleted = 0
"""
_TABLES: Final[dict[DocumentKind, str]] = {
    "message": "messages",
    "memory": "memories",
    "lore": "lore_entries",
    "summary": "summaries",
}


def count_undivided(session: Session) -> int:
    """Return the number of texts that are not indexed yet, or not to their end."""
    return sum(int(session.rows(sql)[0][0]) for sql in (_COUNT_UNDIVIDED, _COUNT_UNINDEXED))


def divide_documents(session: Session, make_entry: Callable[[Any, int], IndexEntry], items: Sequence[str] = ()) -> int:
    """Index some such texts, or a piece of one of them, and return their number; 0 if nothing is left.

    With `items`, only texts with these ids are indexed.
    """
    if items:
        found = session.row(_UNDIVIDED_ITEMS, kinds=list(_TABLES), items=list(items))
    elif deferred := _index_deferred(session, make_entry):
        return deferred
    else:
        found = session.row(_UNDIVIDED)
    if found is None:
        return 0
    kind, item = found
    # Lock the record, so that nobody else changes its documents, and look again.
    session.run(f"UPDATE {_TABLES[kind]} SET hash = hash WHERE tenant = :tenant AND id = :item", item=item)  # noqa: S608 - our own tables
    rest = session.row(_STILL_UNDIVIDED, kind=kind, item=item)
    if rest is not None:
        part, start, seq = rest
        entries = _make_documents(session, kind, item, start, make_entry)
        next_part = documents.rest_part(part)
        documents.remove_documents(session, kind, [item], before_part=0)
        documents.add_documents(session, [msgspec.structs.replace(each, part=next_part, seq=seq) for each in entries])
    return 1


def _index_deferred(session: Session, make_entry: Callable[[Any, int], IndexEntry]) -> int:
    """Index some messages that were imported without their terms, and return their number."""
    while rooms := entities.lock_unindexed_rooms(session, DEFERRED_BATCH):
        # Lock the messages, so that nobody else changes their documents.
        found = session.lock_rows(_UNINDEXED, rooms=[room.number for room in rooms], limit=DEFERRED_BATCH)
        indexed = documents.indexed_items(session, "message", [id for _, _, id in found])
        known = messages.get_messages(session, [id for _, _, id in found if id not in indexed])
        documents.add_documents(
            session, messages.message_documents((message, make_entry(message, 0)) for message in known)
        )
        last_room, last_seq, _ = found[-1] if len(found) == DEFERRED_BATCH else (rooms[-1].number, rooms[-1].last, "")
        for room in rooms:
            if room.number < last_room:
                room.unindexed = None
            elif room.number == last_room:
                room.unindexed = last_seq + 1 if last_seq < room.last else None
        entities.save_room_states(session, rooms)
        if found:
            return len(found)
    return 0


def _make_documents(
    session: Session, kind: DocumentKind, id: str, start: int, make_entry: Callable[[Any, int], IndexEntry]
) -> list[NewDocument]:
    match kind:
        case "message":
            found = messages.get_messages(session, [id])
            return messages.message_documents((message, make_entry(message, start)) for message in found)
        case "memory":
            known = memories.list_memories(session, ids=[id], limit=1)
            return [memories.memory_document(memory, make_entry(memory, start)) for memory in known]
        case "lore":
            lore = lore_entries.list_lore(session, ids=[id])
            return [lore_entries.lore_document(entry, make_entry(entry, start)) for entry in lore]
        case "summary":
            written = summaries.list_summaries(session, ids=[id])
            return [summaries.summary_document(summary, make_entry(summary, start)) for summary in written]
