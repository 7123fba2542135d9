"""Everything that a tenant has, as records, page by page: what `brimful import` reads again."""

from collections.abc import AsyncIterator
from typing import Final

from brimful.importers import Imported
from brimful.protocols import R, Store
from brimful.records import Lorebook, Memory, Persona, Room, User

PAGE: Final = 500  # records read at once


async def records_of_room(store: Store, room: Room) -> AsyncIterator[Imported]:
    """Yield a room, its messages in the order in which they were said, and its summaries."""
    yield room
    newest = await store.history(room.id, limit=1)
    last = newest[0].message.seq if newest else 0
    for first in range(1, last + 1, PAGE):
        for message in await store.messages_at(room.id, range(first, min(first + PAGE, last + 1))):
            yield message
    for summary in reversed(await store.summaries(room.id)):
        yield summary


async def records_of_tenant(store: Store) -> AsyncIterator[Imported]:
    """Yield all people and books, all rooms with what was said in them, and all memories."""
    async for user in _listed(store, User):
        yield user
    async for persona in _listed(store, Persona):
        yield persona
    async for book in _listed(store, Lorebook):
        yield book
        for entry in await store.lore([book.id]):
            yield entry
    async for room in _listed(store, Room):
        async for record in records_of_room(store, room):
            yield record
    async for memory in _memories(store):
        yield memory


async def _listed(store: Store, kind: type[R]) -> AsyncIterator[R]:
    after = ""
    while page := await store.listed(kind, after=after, limit=PAGE):
        for record in page:
            yield record
        after = page[-1].id


async def _memories(store: Store) -> AsyncIterator[Memory]:
    """Yield memories, newest first. Pages go by time, so the last moment of a page is left to the next one."""
    before: float | None = None
    limit = PAGE
    while page := await store.memories(before=before, limit=limit):
        whole = page if len(page) < limit else [memory for memory in page if memory.at > page[-1].at]
        if not whole:  # more memories of one moment than a page holds
            limit *= 2
            continue
        for memory in whole:
            yield memory
        before = whole[-1].at
