"""Server-sent events for new contexts and answers, resumable with `Last-Event-ID`.

The store is polled, since other processes write to it too: once per tenant for all listeners, and only while somebody
listens. Every listener has its own cursor, so no event is missed or sent twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import msgspec
from starlette.responses import Response as HttpResponse
from starlette.types import Receive, Scope, Send

from brimful.cache import LRU
from brimful.errors import StoreError
from brimful.protocols import Store
from brimful.records import Response
from brimful.records.search import Build, LogPage
from brimful.server.access import Authenticator
from brimful.server.background import log_failure
from brimful.server.errors import ApiError
from brimful.server.inspector.operation import EVENT_STREAM, Call
from brimful.server.inspector.views import DisplayNames, Prices, context_row, load_names
from brimful.server.proxy.exchange import wait_for_disconnect
from brimful.server.tenants import Tenants

POLL_SECONDS: Final = 0.5  # seconds between two looks into the store
ERROR_POLL_SECONDS: Final = 5.0  # … after a store could not be read
MAX_BATCHES: Final = 64  # batches at hand, for listeners that are a little behind
BATCH_SIZE: Final = 100  # events read at a time


class Feed:
    """Follows the log of one tenant while somebody listens."""

    def __init__(self, store: Store, *, pause: float = POLL_SECONDS) -> None:
        """Look into this store."""
        self._store = store
        self._pause = pause
        self._cursor = ""
        self._next: LRU[str, LogPage] = LRU(max_entries=MAX_BATCHES)
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

    async def after(self, cursor: str) -> LogPage:
        """Return what comes after a place in the log; wait until it was looked for once more. It may be nothing.

        What others were told a moment ago is at hand. Who comes from further back has it read from the store.
        """
        batch = self._next.get(cursor)
        if batch is not None:
            return batch
        news = self._news
        if cursor != self._cursor:
            found = await self._store.follow(cursor, limit=BATCH_SIZE)
            if found.events:
                return found
            cursor = found.cursor
        await news.wait()
        return self._next.get(cursor) or LogPage(cursor=cursor)

    async def _look(self) -> None:
        while True:
            pause = self._pause
            try:
                found = await self._store.follow(self._cursor, limit=BATCH_SIZE)
            except StoreError as error:
                log_failure("following the log", error)
                pause = ERROR_POLL_SECONDS
            else:
                pause = self._pause if found.cursor == self._cursor else 0.0  # there may be more
                self._keep(found)
            self._wake()
            await asyncio.sleep(pause)

    def _keep(self, found: LogPage) -> None:
        if found.events:
            self._next[self._cursor] = found
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


HEARTBEAT: Final = 15.0  # seconds without an event after which a sign of life is sent
RETRY_MILLISECONDS: Final = 2_000  # milliseconds after which a browser comes back
_MAX_CURSOR: Final = 200  # characters of a cursor
_HEARTBEAT_COMMENT: Final = b": still here\n\n"

EncodeEvents = Callable[[Sequence[Build | Response]], Awaitable[list[tuple[str, bytes]]]]
"""Returns the name and the data of each event."""

CheckAccess = Callable[[], Awaitable[object]]
"""Refuses a caller who may listen no more."""


class Events:
    """Lets callers follow what happens."""

    def __init__(self, tenants: Tenants, costs: Prices, *, access: Authenticator, stopping: asyncio.Event) -> None:
        """Take the stores, who knows callers, and what says that all streams are to end."""
        self._tenants = tenants
        self._costs = costs
        self._access = access
        self._stopping = stopping
        self._feeds = Feeds()

    async def follow(self, inquiry: Call) -> HttpResponse:
        """Tell of contexts and answers from now on, or from where the caller was."""
        store = self._tenants.store(inquiry.tenant)
        feed = self._feeds.of(store)
        since = inquiry.headers.get("last-event-id", "")
        if len(since) > _MAX_CURSOR or not since.isascii():
            raise ApiError("invalid", "Last-Event-ID: is none of ours", param="Last-Event-ID")
        if since:
            await store.follow(since, limit=1)  # refuses what is no cursor
        let = partial(self._access.caller, inquiry.headers)
        return EventStream(feed, since, partial(self._write, store), let, self._stopping)

    async def _write(self, store: Store, events: Sequence[Build | Response]) -> list[tuple[str, bytes]]:
        names = await load_names(store, [event for event in events if isinstance(event, Build)])
        return await asyncio.to_thread(lambda: [self._written(event, names) for event in events])

    def _written(self, event: Build | Response, names: DisplayNames) -> tuple[str, bytes]:
        if isinstance(event, Build):
            return "context", msgspec.json.encode(context_row(event, names))
        return "answer", msgspec.json.encode(self._costs.answered(event))


class EventStream(HttpResponse):
    """Sends what a feed tells until the caller leaves or is let in no more, or the server stops."""

    media_type = EVENT_STREAM

    def __init__(
        self,
        feed: Feed,
        since: str,
        write: EncodeEvents,
        let: CheckAccess,
        stopping: asyncio.Event,
        *,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        """Begin at a place in the log, or at its present end."""
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}  # proxies are not to collect it
        super().__init__(headers=headers)
        self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"]
        self._feed = feed
        self._since = since
        self._write = write
        self._let = let
        self._stopping = stopping
        self._heartbeat = heartbeat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        del scope
        end = await self._feed.join()
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._until_ended(self._since or end, receive, send)
        finally:
            await self._feed.leave()

    async def _until_ended(self, cursor: str, receive: Receive, send: Send) -> None:
        pump = asyncio.create_task(self._pump(cursor, send))
        gone = asyncio.create_task(wait_for_disconnect(receive))
        cut = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({pump, gone, cut}, return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                pump.result()
        except ApiError:
            pass  # its key was revoked, and whoever comes back with it is told
        except StoreError as error:  # whoever follows comes back, and is told again if it lasts
            log_failure("following the log", error)
        finally:
            left = gone.done()
            for task in (pump, gone, cut):
                task.cancel()
            await asyncio.gather(pump, gone, cut, return_exceptions=True)
        if not left:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, cursor: str, send: Send) -> None:
        clock = asyncio.get_running_loop().time
        await _send(send, f"retry: {RETRY_MILLISECONDS}\nid: {cursor}\n\n".encode())
        sent = clock()
        while True:
            found = await self._feed.after(cursor)
            await self._let()
            cursor = found.cursor
            if found.events:
                await _send(send, await self._written(found))
            elif clock() - sent >= self._heartbeat:
                await _send(send, _HEARTBEAT_COMMENT)
            else:
                continue
            sent = clock()

    async def _written(self, found: LogPage) -> bytes:
        """Return events as they are sent. The last one names the place behind all of them: none is skipped."""
        lines = []
        for at, (name, data) in enumerate(await self._write(found.events), start=1):
            place = f"id: {found.cursor}\n" if at == len(found.events) else ""
            lines.append(f"{place}event: {name}\ndata: ".encode() + data + b"\n\n")
        return b"".join(lines)


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
