"""Finish the index: imported messages, the rest of very long texts, and texts that an older version indexed."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from brimful.records.search import DocumentKind, IndexEntry
from brimful.stores.index import documents
from brimful.stores.index.documents import NewDocument
from brimful.stores.session import Session
from brimful.stores.tables import entities, lore_entries, memories, messages, summaries

DEFERRED_BATCH: Final = 512  # messages per transaction that were imported without their terms
BATCH: Final = 16  # records per transaction, so that other writers do not wait long
CONVERTED: Final = 500  # documents of an index of an earlier version per transaction
_AGAIN: Final = -1  # the first part of a text that is to be indexed again; smaller numbers are for the rest of a text
_UNDIVIDED: Final = "SELECT kind, item, part FROM documents WHERE tenant = :tenant AND part < 0 LIMIT :limit"
_UNDIVIDED_ITEMS: Final = """
SELECT kind, item, part FROM documents WHERE tenant = :tenant AND kind IN :kinds AND item IN :items AND part < 0
LIMIT :limit
"""
_STILL_UNDIVIDED: Final = """
SELECT item, part, start, seq FROM documents WHERE tenant = :tenant AND kind = :kind AND item IN :items AND part < 0
ORDER BY part DESC
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
_KEEP: Final = """
UPDATE documents SET part = 0 WHERE tenant = :tenant AND kind = :kind AND item = :item AND part = -1
"""
_TABLES: Final[dict[DocumentKind, str]] = {
    "message": "messages",
    "memory": "memories",
    "lore": "lore_entries",
    "summary": "summaries",
}


def count_undivided(session: Session) -> int:
    """Return the number of texts that are not indexed yet, not to their end, or are to be indexed again."""
    counts = [int(session.rows(sql)[0][0]) for sql in (_COUNT_UNDIVIDED, _COUNT_UNINDEXED)]
    return sum(counts) + session.dialect.text_index.count_unconverted(session)


def divide_documents(session: Session, make_entry: Callable[[Any, int], IndexEntry], items: Sequence[str] = ()) -> int:
    """Index some such texts, or a piece of one of them, and return their number; 0 if nothing is left.

    Until then, a text is found by what was indexed before. A text whose terms and passages stay the same keeps its
    documents, and so its vectors. With `items`, only texts with these ids are indexed.
    """
    if not items and (converted := session.dialect.text_index.convert(session, CONVERTED)):
        return converted
    if not items and (deferred := _index_deferred(session, make_entry)):
        return deferred
    if items:
        found = session.rows(_UNDIVIDED_ITEMS, kinds=list(_TABLES), items=list(items), limit=BATCH)
    else:
        found = session.rows(_UNDIVIDED, limit=BATCH)
    found = [row for row in found if row[2] < _AGAIN][:1] or found
    for kind, table in _TABLES.items():
        ids = sorted(item for each, item, _ in found if each == kind)
        if ids:
            # Lock the records, so that nobody else changes their documents, and look again.
            session.run(f"UPDATE {table} SET hash = hash WHERE tenant = :tenant AND id IN :ids", ids=ids)  # noqa: S608 - our own tables
            first = {row[0]: row for row in reversed(session.rows(_STILL_UNDIVIDED, kind=kind, items=ids))}
            for item, part, start, seq in first.values():
                entries = _make_documents(session, kind, item, start if part < _AGAIN else 0, make_entry)
                if part < _AGAIN:
                    next_part = documents.rest_part(part)
                    entries = [msgspec.structs.replace(each, part=next_part, seq=seq) for each in entries]
                    documents.remove_documents(session, kind, [item], before_part=0)
                elif documents.are_unchanged(session, kind, item, entries):
                    session.run(_KEEP, kind=kind, item=item)
                    continue
                else:
                    documents.remove_documents(session, kind, [item])
                documents.add_documents(session, entries)
    return len(found)


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
