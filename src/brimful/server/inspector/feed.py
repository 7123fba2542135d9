"""What happens in a tenant's store, for any number of listeners, read from it once.

Builds and answers of other processes come through the store, so it is asked again and again; but once for all who
listen, and not at all while nobody does. Every listener has a place in the log of its own, so nothing is missed and
nothing told twice, however late it comes and however slow it is.
"""

import asyncio
from collections import OrderedDict
from typing import Final

from brimful.answers import Followed
from brimful.errors import StoreError
from brimful.protocols import Store
from brimful.server.tasks import log_failure

PAUSE: Final = 0.5  # seconds between two looks into the store
WORSE: Final = 5.0  # … after a store could not be read
KEPT: Final = 64  # batches at hand, for listeners that are a little behind
BATCH: Final = 100  # events read at a time


class Feed:
    """Follows the log of one tenant while somebody listens."""

    def __init__(self, store: Store, *, pause: float = PAUSE) -> None:
        """Look into this store."""
        self._store = store
        self._pause = pause
        self._cursor = ""
        self._next: OrderedDict[str, Followed] = OrderedDict()
        self._news = asyncio.Event()
        self._beginning = asyncio.Lock()
        self._listeners = 0
        self._looking: asyncio.Task[None] | None = None

    @property
    def listeners(self) -> int:
        """How many listen."""
        return self._listeners

    async def join(self) -> str:
        """Begin to listen; return the present end of the log. Every `join` is ended by a `leave`."""
        self._listeners += 1
        try:
            async with self._beginning:
                if self._looking is None:
                    self._cursor = (await self._store.follow()).cursor
                    self._next.clear()
                    self._looking = asyncio.create_task(self._look())
        except BaseException:
            await self.leave()
            raise
        return self._cursor

    async def leave(self) -> None:
        """Listen no longer. The last one to leave turns off the light."""
        self._listeners -= 1
        if not self._listeners and self._looking is not None:
            looking, self._looking = self._looking, None
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def after(self, cursor: str) -> Followed:
        """Return what comes after a place in the log; wait until it was looked for once more. It may be nothing.

        What others were told a moment ago is at hand. Who comes from further back has it read from the store.
        """
        batch = self._next.get(cursor)
        if batch is not None:
            return batch
        news = self._news
        if cursor != self._cursor:
            found = await self._store.follow(cursor, limit=BATCH)
            if found.events:
                return found
            cursor = found.cursor
        await news.wait()
        return self._next.get(cursor) or Followed(cursor=cursor)

    async def _look(self) -> None:
        while True:
            pause = self._pause
            try:
                found = await self._store.follow(self._cursor, limit=BATCH)
            except StoreError as error:
                log_failure("following the log", error)
                pause = WORSE
            else:
                pause = self._pause if found.cursor == self._cursor else 0.0  # there may be more
                self._keep(found)
            self._wake()
            await asyncio.sleep(pause)

    def _keep(self, found: Followed) -> None:
        if found.events:
            self._next[self._cursor] = found
            if len(self._next) > KEPT:
                self._next.popitem(last=False)
        self._cursor = found.cursor

    def _wake(self) -> None:
        """Wake all who wait, also if there is nothing new: who is elsewhere looks again."""
        news, self._news = self._news, asyncio.Event()
        news.set()


class Feeds:
    """The feeds of all tenants."""

    def __init__(self) -> None:
        """Begin with none."""
        self._feeds: dict[str, Feed] = {}

    def of(self, store: Store) -> Feed:
        """Return the feed of a store's tenant."""
        if store.tenant not in self._feeds:
            self._feeds[store.tenant] = Feed(store)
        return self._feeds[store.tenant]
