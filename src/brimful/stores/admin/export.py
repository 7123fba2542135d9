"""Export all records of a tenant page by page, and load them again.

Records come after the records they refer to. Token counts, terms and vectors are not exported: they are computed
again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from brimful.records import (
    Lorebook,
    LoreEntry,
    Memory,
    Message,
    Persona,
    Record,
    Response,
    Room,
    Snapshot,
    Summary,
    User,
)
from brimful.records.search import IndexEntry
from brimful.records.usage import UsageReport
from brimful.stores.log import contexts, responses, usage
from brimful.stores.log.context_codec import NO_ADDRESSES
from brimful.stores.session import Session
from brimful.stores.tables import entities, lore_entries, memories, messages, summaries
from brimful.stores.tables.contents import TokenCounts, save_counts

PAGE_RECORDS: Final = 500  # per page
WRITE_RECORDS: Final = 5_000  # per transaction; other writers wait about 0.3 s
Page = tuple[list[Record], Any]
"""Records, and the key of the next page."""
Pages = Callable[..., Page]

MESSAGES: Final = f"""
{messages.READ_MESSAGES}
WHERE m.tenant = :tenant AND m.room = (SELECT number FROM rooms WHERE tenant = :tenant AND id = :room)
  AND m.seq > :seq AND m.deleted = 0
ORDER BY m.seq LIMIT :page
"""  # noqa: S608 - our own columns
_NEXT_ROOM: Final = "SELECT id FROM rooms WHERE tenant = :tenant AND id > :room ORDER BY id LIMIT 1"
MEMORIES: Final = f"{memories.READ_MEMORIES} AND m.id > :after ORDER BY m.id LIMIT :page"
LORE: Final = f"{lore_entries.READ_LORE} AND e.id > :after ORDER BY e.id LIMIT :page"
SUMMARIES: Final = f"{summaries.READ_SUMMARIES} AND s.id > :after ORDER BY s.id LIMIT :page"
RESPONSES: Final = f"{responses.READ_RESPONSES} AND id > :after ORDER BY id LIMIT :page"
OBSERVATIONS: Final = f"{usage.READ_USAGE} AND number > :after ORDER BY number LIMIT :page"
_SNAPSHOTS: Final = (
    "SELECT number, id, refs FROM snapshots WHERE tenant = :tenant AND number > :after ORDER BY number LIMIT 20"
)
_INDEXED_WRITERS: Final[dict[type[Record], Callable[[Session, Any], object]]] = {
    Message: partial(messages.post_messages, keep_seq=True),
    Memory: memories.save_memories,
    LoreEntry: lore_entries.save_lore,
    Summary: summaries.save_summaries,
}
"""Writers of records with an index entry."""
_WRITERS: Final[dict[type[Record], Callable[[Session, Any], None]]] = {
    **dict.fromkeys((User, Persona, Lorebook, Room), entities.put_entities),
    Snapshot: contexts.save_snapshots,
    Response: responses.save_responses,
}


async def export_records(read: Callable[[Callable[[Session], Page]], Awaitable[Page]]) -> AsyncIterator[Record]:
    """Yield all records of a tenant. Pages are separate transactions, so concurrent writes may be included."""
    for pages, start in _PAGES:
        after = start
        while after is not None:
            records, after = await read(partial(pages, after=after))
            for record in records:
                yield record


def load_records(
    session: Session,
    *,
    records: Sequence[Record],
    make_entry: Callable[[Any], IndexEntry],
    defer: bool,
    count: Callable[[], TokenCounts],
) -> None:
    """Write records of one kind, and token counts. With `defer`, the terms of messages are added later."""
    kind = type(records[0])
    if kind is Message and defer:
        deferred = [(record, None) for record in records if isinstance(record, Message)]
        messages.post_messages(session, deferred, keep_seq=True)
    elif kind in _INDEXED_WRITERS:
        _INDEXED_WRITERS[kind](session, [(record, make_entry(record)) for record in records])
    elif kind in _WRITERS:
        _WRITERS[kind](session, records)
    for record in records:
        if isinstance(record, UsageReport):
            usage.save_usage(session, record)
    counts = count()
    for tokenizer in sorted(counts):
        save_counts(session, tokenizer, counts[tokenizer])


def _entity_pages(kind: type[Any]) -> Pages:
    def pages(session: Session, after: str) -> Page:
        found = entities.list_entities(session, kind, after=after, limit=PAGE_RECORDS)
        return list(found), found[-1].id if len(found) == PAGE_RECORDS else None

    return pages


def _message_pages(session: Session, after: tuple[str, int]) -> Page:
    """Read room by room, in order of id, which is the same in every store."""
    records: list[Record] = []
    room, seq = after
    while len(records) < PAGE_RECORDS:
        rows = session.rows(MESSAGES, room=room, seq=seq, page=PAGE_RECORDS)
        records += [messages.decode_message(session, row) for row in rows]
        if len(rows) == PAGE_RECORDS:
            return records, (room, rows[-1][2])
        following = session.row(_NEXT_ROOM, room=room)
        if following is None:
            return records, None
        room, seq = following[0], 0
    return records, (room, seq)


def _row_pages(sql: str, record_of: Callable[[Session, Any], Record]) -> Pages:
    def pages(session: Session, after: str | int) -> Page:
        rows = session.rows(sql, after=after, page=PAGE_RECORDS)
        return [record_of(session, row) for row in rows], rows[-1][0] if len(rows) == PAGE_RECORDS else None

    return pages


def _snapshot_pages(session: Session, after: int) -> Page:
    rows = session.rows(_SNAPSHOTS, after=after)
    found = [contexts.get_snapshot(session, id) for _, id, refs in rows if refs != NO_ADDRESSES]
    return [snapshot for snapshot in found if snapshot is not None], rows[-1][0] if rows else None


# Memories come last: loading a context counts accesses, which the memories already include.
_PAGES: Final[tuple[tuple[Pages, Any], ...]] = (
    *((_entity_pages(kind), "") for kind in (User, Persona, Lorebook, Room)),
    (_row_pages(LORE, lore_entries.decode_lore), ""),
    (_message_pages, ("", 0)),
    (_row_pages(SUMMARIES, summaries.decode_summary), ""),
    (_snapshot_pages, 0),
    (_row_pages(RESPONSES, responses.decode_response), ""),
    (_row_pages(OBSERVATIONS, usage.decode_usage), 0),
    (_row_pages(MEMORIES, memories.decode_memory), ""),
)
