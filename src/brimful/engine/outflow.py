"""A room as records, page by page: what `brimful import` reads again."""

from collections.abc import AsyncIterator
from typing import Final

from brimful.importers import Imported
from brimful.protocols import Store
from brimful.records import Room

PAGE: Final = 500  # records read at once


async def records_of_room(store: Store, room: Room) -> AsyncIterator[Imported]:
    """Yield a room, its messages in the order in which they were said, and its summaries."""
    yield room
    newest = await store.history(room.id, limit=1)
    last = newest[0].message.seq if newest else 0
    for first in range(1, last + 1, PAGE):
        for said in await store.messages_at(room.id, range(first, min(first + PAGE, last + 1))):
            yield said.message
    for summary in reversed(await store.summaries(room.id)):
        yield summary
