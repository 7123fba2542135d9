"""Index long texts again that were indexed as one document, before there were passages."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from brimful.records.search import DocumentKind, IndexEntry
from brimful.stores.index import documents
from brimful.stores.index.documents import NewDocument
from brimful.stores.session import Session
from brimful.stores.tables import lore_entries, memories, messages, summaries

BATCH: Final = 16  # records per transaction, so that other writers do not wait long
_UNDIVIDED: Final = "SELECT kind, item FROM documents WHERE tenant = :tenant AND part < 0 LIMIT :limit"
_STILL_UNDIVIDED: Final = """
SELECT item FROM documents WHERE tenant = :tenant AND kind = :kind AND item IN :items AND part < 0
"""
_TABLES: Final[dict[DocumentKind, str]] = {
    "message": "messages",
    "memory": "memories",
    "lore": "lore_entries",
    "summary": "summaries",
}


def count_undivided(session: Session) -> int:
    """Return the number of long texts that are not divided into passages yet."""
    row = session.row("SELECT count(*) FROM documents WHERE tenant = :tenant AND part < 0")
    return int(row[0]) if row else 0


def divide_documents(session: Session, make_entry: Callable[[Any], IndexEntry]) -> int:
    """Index some undivided texts again, and return their number. Until then, they are found as they were before."""
    found = session.rows(_UNDIVIDED, limit=BATCH)
    for kind, table in _TABLES.items():
        items = sorted(item for each, item in found if each == kind)
        if items:
            # Lock the records, so that nobody else changes their documents, and look again.
            session.run(f"UPDATE {table} SET hash = hash WHERE tenant = :tenant AND id IN :items", items=items)  # noqa: S608 - our own tables
            ids = [item for (item,) in session.rows(_STILL_UNDIVIDED, kind=kind, items=items)]
            entries = _make_documents(session, kind, ids, make_entry)
            documents.remove_documents(session, kind, ids)
            documents.add_documents(session, entries)
    return len(found)


def _make_documents(
    session: Session, kind: DocumentKind, ids: Sequence[str], make_entry: Callable[[Any], IndexEntry]
) -> list[NewDocument]:
    match kind:
        case "message":
            found = messages.get_messages(session, ids)
            return messages.message_documents((message, make_entry(message)) for message in found)
        case "memory":
            known = memories.list_memories(session, ids=ids, limit=len(ids))
            return [memories.memory_document(memory, make_entry(memory)) for memory in known]
        case "lore":
            lore = lore_entries.list_lore(session, ids=ids)
            return [lore_entries.lore_document(entry, make_entry(entry)) for entry in lore]
        case "summary":
            written = summaries.list_summaries(session, ids=ids)
            return [summaries.summary_document(summary, make_entry(summary)) for summary in written]
