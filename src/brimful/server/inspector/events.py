"""Server-sent events for new contexts and answers, resumable with `Last-Event-ID`.

The store is polled, since other processes write to it too: once per tenant for all listeners, and only while somebody
listens. Every listener has its own cursor, so no event is missed or sent twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response as HttpResponse
from starlette.types import Receive, Scope, Send

from brimful.cache import LRU
from brimful.errors import StoreError
from brimful.records import Response
from brimful.records.contexts import Build, LogPage
from brimful.server.access import Authenticator
from brimful.server.background import log_failure
from brimful.server.endpoint import run_until_disconnect, wait_for_disconnect
from brimful.server.errors import ApiError
from brimful.server.inspector.operation import EVENT_STREAM, Call
from brimful.server.inspector.views import AnswerEvent, Costs, load_excerpts, load_rows, load_runs, to_view
from brimful.server.tenants import Tenants
from brimful.stores import Store
from brimful.threads import run_in_thread

POLL_SECONDS: Final = 0.5  # between two polls of the store
ERROR_POLL_SECONDS: Final = 5.0  # after the store failed
MAX_BATCHES: Final = 64  # batches kept for listeners that are slightly behind
BATCH_SIZE: Final = 100  # events
HEARTBEAT: Final = 15.0  # seconds without an event before a comment is sent
RETRY_MILLISECONDS: Final = 2_000  # before a browser reconnects
_MAX_CURSOR: Final = 200  # characters
_HEARTBEAT_COMMENT: Final = b": heartbeat\n\n"


class Feed:
    """Polls the log of one tenant while there are listeners."""

    def __init__(self, store: Store, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._store = store
        self._poll_seconds = poll_seconds
        self._cursor = ""
        self._next: LRU[str, LogPage] = LRU(max_entries=MAX_BATCHES)
        self._news = asyncio.Event()
        self._starting = asyncio.Lock()
        self._listeners = 0
        self._polling: asyncio.Task[None] | None = None

    @property
    def listeners(self) -> int:
        return self._listeners

    async def join(self) -> str:
        """Start listening and return the cursor at the end of the log. Call `leave` afterwards."""
        self._listeners += 1
        try:
            async with self._starting:
                if self._polling is None:
                    self._cursor = (await self._store.follow()).cursor
                    self._next.clear()
                    self._polling = asyncio.create_task(self._poll())
        except BaseException:
            await self.leave()
            raise
        return self._cursor

    async def leave(self) -> None:
        """Stop listening. Polling stops with the last listener."""
        self._listeners -= 1
        if not self._listeners and self._polling is not None:
            polling, self._polling = self._polling, None
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)

    async def after(self, cursor: str) -> LogPage:
        """Return the events after a cursor, which may be none, waiting for the next poll if necessary.

        Recent batches are cached; older ones are read from the store.
        """
        batch = self._next.get(cursor)
        if batch is not None:
            return batch
        news = self._news
        if cursor != self._cursor:
            batch = await self._store.follow(cursor, limit=BATCH_SIZE)
            if batch.events:
                return batch
            cursor = batch.cursor
        await news.wait()
        return self._next.get(cursor) or LogPage(cursor=cursor)

    async def _poll(self) -> None:
        while True:
            pause = self._poll_seconds
            try:
                batch = await self._store.follow(self._cursor, limit=BATCH_SIZE)
            except StoreError as error:
                log_failure("following the log", error)
                pause = ERROR_POLL_SECONDS
            else:
                pause = self._poll_seconds if batch.cursor == self._cursor else 0.0  # there may be more
                self._add(batch)
            self._wake()
            await asyncio.sleep(pause)

    def _add(self, batch: LogPage) -> None:
        if batch.events:
            self._next[self._cursor] = batch
        self._cursor = batch.cursor

    def _wake(self) -> None:
        """Wake all listeners, even without news: some may be behind and must look again."""
        news, self._news = self._news, asyncio.Event()
        news.set()


class Feeds:
    """The feeds of all tenants."""

    def __init__(self) -> None:
        self._feeds: dict[str, Feed] = {}

    def of(self, store: Store) -> Feed:
        """Return the feed of a store's tenant."""
        if store.tenant not in self._feeds:
            self._feeds[store.tenant] = Feed(store)
        return self._feeds[store.tenant]


EncodeEvents = Callable[[Sequence[Build | Response]], Awaitable[list[tuple[str, bytes]]]]
"""Returns name and data of each event."""

CheckAccess = Callable[[], Awaitable[object]]
"""Raises an API error if the client has lost access."""


class Events:
    """The endpoint for event streams."""

    def __init__(self, tenants: Tenants, costs: Costs, *, access: Authenticator, stopping: asyncio.Event) -> None:
        self._tenants = tenants
        self._costs = costs
        self._access = access
        self._stopping = stopping
        self._feeds = Feeds()

    async def follow(self, call: Call) -> HttpResponse:
        """Stream contexts and answers from now on, or from `Last-Event-ID`."""
        store = self._tenants.store(call.tenant)
        feed = self._feeds.of(store)
        since = call.headers.get("last-event-id", "")
        if len(since) > _MAX_CURSOR or not since.isascii():
            raise ApiError("invalid", "Last-Event-ID: invalid", param="Last-Event-ID")
        if since:
            await store.follow(since, limit=1)  # rejects an invalid cursor
        check_access = partial(self._access.identify, call.headers)
        return EventStream(feed, since, partial(self._encode, store), check_access, self._stopping)

    async def _encode(self, store: Store, events: Sequence[Build | Response]) -> list[tuple[str, bytes]]:
        rows = await load_rows(store, [event for event in events if isinstance(event, Build)], self._costs)
        responses = [event for event in events if isinstance(event, Response)]
        texts = await load_excerpts(store, [response.message for response in responses])
        answered = {each.context: build for each in responses if (build := await store.build(each.context)) is not None}
        runs = await load_runs(store, {build.run for build in answered.values()}, self._costs)
        by_id = {row.id: row for row in rows}

        def encode(event: Build | Response) -> tuple[str, bytes]:
            if isinstance(event, Build):
                return "context", msgspec.json.encode(by_id[event.id])
            view = self._costs.answer_view(event, texts.get(event.message or "", ""))
            build = answered.get(event.context)
            return "answer", msgspec.json.encode(to_view(AnswerEvent, view, run=runs.get(build.run) if build else None))

        return await run_in_thread(lambda: list(map(encode, events)))


class EventStream(HttpResponse):
    """Sends the events of a feed until the client leaves or loses access, or the server stops."""

    media_type = EVENT_STREAM

    def __init__(
        self,
        feed: Feed,
        since: str,
        encode: EncodeEvents,
        check_access: CheckAccess,
        stopping: asyncio.Event,
        *,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}  # keep proxies from buffering it
        super().__init__(headers=headers)
        self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"]
        self._feed = feed
        self._since = since
        self._encode_events = encode
        self._check_access = check_access
        self._stopping = stopping
        self._heartbeat = heartbeat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        end = await self._feed.join()
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._until_ended(self._since or end, receive, send)
        finally:
            await self._feed.leave()

    async def _until_ended(self, cursor: str, receive: Receive, send: Send) -> None:
        try:
            await run_until_disconnect(wait_for_disconnect(receive), self._stopping, self._pump(cursor, send))
        except ClientDisconnect:
            return
        except ApiError:
            pass  # the key was revoked, or the server stops; reconnecting fails with an error
        except StoreError as error:  # the client reconnects
            log_failure("following the log", error)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, cursor: str, send: Send) -> None:
        clock = asyncio.get_running_loop().time
        await _send(send, f"retry: {RETRY_MILLISECONDS}\nid: {cursor}\n\n".encode())
        sent = clock()
        while True:
            batch = await self._feed.after(cursor)
            await self._check_access()
            cursor = batch.cursor
            if batch.events:
                await _send(send, await self._encode(batch))
            elif clock() - sent >= self._heartbeat:
                await _send(send, _HEARTBEAT_COMMENT)
            else:
                continue
            sent = clock()

    async def _encode(self, batch: LogPage) -> bytes:
        """Return encoded events. Only the last one carries the cursor, which is behind all of them."""
        lines = []
        for index, (name, data) in enumerate(await self._encode_events(batch.events), start=1):
            cursor = f"id: {batch.cursor}\n" if index == len(batch.events) else ""
            lines.append(f"{cursor}event: {name}\ndata: ".encode() + data + b"\n\n")
        return b"".join(lines)


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
