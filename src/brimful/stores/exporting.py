"""All records of a tenant, page by page, and back: what is referred to comes before what refers to it.

Counts, terms and vectors are not records: they are made again from what is read.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from brimful.answers import Indexed
from brimful.observation import Observation
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
from brimful.stores import lore, memories, messages, observations, plain, posting, responses, snapshots, summaries
from brimful.stores.session import Session

PAGE: Final = 500  # records read or written at once
Page = tuple[list[Record], Any]
"""Records, and where the next page begins."""
Pages = Callable[..., Page]

MESSAGES: Final = f"""
{messages.READ}
WHERE m.tenant = :tenant AND m.room = (SELECT number FROM rooms WHERE tenant = :tenant AND id = :room)
  AND m.seq > :seq AND m.deleted = 0
ORDER BY m.seq LIMIT :page
"""  # noqa: S608 - our own columns
_NEXT_ROOM: Final = "SELECT id FROM rooms WHERE tenant = :tenant AND id > :room ORDER BY id LIMIT 1"
MEMORIES: Final = f"{memories.READ} AND m.id > :after ORDER BY m.id LIMIT :page"
LORE: Final = f"{lore.READ} AND e.id > :after ORDER BY e.id LIMIT :page"
SUMMARIES: Final = f"{summaries.READ} AND s.id > :after ORDER BY s.id LIMIT :page"
RESPONSES: Final = f"{responses.READ} AND id > :after ORDER BY id LIMIT :page"
OBSERVATIONS: Final = f"{observations.READ} AND number > :after ORDER BY number LIMIT :page"
_SNAPSHOTS: Final = (
    "SELECT number, id FROM snapshots WHERE tenant = :tenant AND number > :after ORDER BY number LIMIT 20"
)


async def exported(read: Callable[[Callable[[Session], Page]], Awaitable[Page]]) -> AsyncIterator[Record]:
    """Yield every record of a tenant; each page is read by itself, so what is written meanwhile may be among them."""
    for pages, start in _PAGES:
        after = start
        while after is not None:
            records, after = await read(partial(pages, after=after))
            for record in records:
                yield record


def load(session: Session, *, records: Sequence[Record], indexed: Callable[[Any], Indexed]) -> None:
    """Write records of one kind."""
    kind = type(records[0])
    if kind in _FOUND:
        _FOUND[kind](session, [(record, indexed(record)) for record in records])
    if kind in _LOGGED:
        _LOGGED[kind](session, records)
    for record in records if kind in _SINGLE else ():
        _SINGLE[kind](session, record)


_FOUND: Final[dict[type[Record], Callable[[Session, Any], object]]] = {
    Message: partial(posting.post, keep=True),
    Memory: memories.remember,
    LoreEntry: lore.write_lore,
    Summary: summaries.summarize,
}
"""How records are written that can be found."""
_SINGLE: Final[dict[type[Record], Callable[[Session, Any], object]]] = {
    **dict.fromkeys((User, Persona, Lorebook, Room), plain.put),
    Observation: observations.observe,
}
_LOGGED: Final[dict[type[Record], Callable[[Session, Any], None]]] = {
    Snapshot: snapshots.save,
    Response: responses.respond,
}


def _plain(kind: type[Any]) -> Pages:
    def pages(session: Session, after: str) -> Page:
        found = plain.listed(session, kind, after, PAGE)
        return list(found), found[-1].id if len(found) == PAGE else None

    return pages


def _said(session: Session, after: tuple[str, int]) -> Page:
    """Read room by room in the order of their ids: it is the same in every store that holds them."""
    said: list[Record] = []
    room, seq = after
    while len(said) < PAGE:
        rows = session.rows(MESSAGES, room=room, seq=seq, page=PAGE)
        said += [messages.message_of(session, row) for row in rows]
        if len(rows) == PAGE:
            return said, (room, rows[-1][2])
        following = session.row(_NEXT_ROOM, room=room)
        if following is None:
            return said, None
        room, seq = following[0], 0
    return said, (room, seq)


def _kept(sql: str, record_of: Callable[[Session, Any], Record]) -> Pages:
    def pages(session: Session, after: str | int) -> Page:
        rows = session.rows(sql, after=after, page=PAGE)
        return [record_of(session, row) for row in rows], rows[-1][0] if len(rows) == PAGE else None

    return pages


def _built(session: Session, after: int) -> Page:
    rows = session.rows(_SNAPSHOTS, after=after)
    found = [snapshots.snapshot(session, id) for _, id in rows]
    return [snapshot for snapshot in found if snapshot is not None], rows[-1][0] if rows else None


# Memories come last: a build counts an access of each memory in it, and those accesses are told already.
_PAGES: Final[tuple[tuple[Pages, Any], ...]] = (
    *((_plain(kind), "") for kind in (User, Persona, Lorebook, Room)),
    (_kept(LORE, lore.entry_of), ""),
    (_said, ("", 0)),
    (_kept(SUMMARIES, summaries.summary_of), ""),
    (_built, 0),
    (_kept(RESPONSES, responses.response_of), ""),
    (_kept(OBSERVATIONS, observations.observation_of), 0),
    (_kept(MEMORIES, memories.memory_of), ""),
)
