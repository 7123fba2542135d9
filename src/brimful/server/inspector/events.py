"""Events as they happen, as a stream that a browser can follow, and take up again where it broke off."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import msgspec
from starlette.responses import Response as HttpResponse
from starlette.types import Receive, Scope, Send

from brimful.answers import Build, Followed
from brimful.errors import StoreError
from brimful.protocols import Store
from brimful.records import Response
from brimful.server.access import Access
from brimful.server.errors import Refusal
from brimful.server.inspector.costs import Costs
from brimful.server.inspector.feed import Feed, Feeds
from brimful.server.inspector.inquiry import Inquiry
from brimful.server.inspector.names import Names, names_in
from brimful.server.inspector.operation import EVENT_STREAM
from brimful.server.inspector.showing import row_of
from brimful.server.streaming import until_gone
from brimful.server.tasks import log_failure
from brimful.server.tenants import Tenants

HEARTBEAT: Final = 15.0  # seconds without an event after which a sign of life is sent
RETRY: Final = 2_000  # milliseconds after which a browser comes back
_LONGEST: Final = 200  # characters of a cursor
_BEAT: Final = b": still here\n\n"

Write = Callable[[Sequence[Build | Response]], Awaitable[list[tuple[str, bytes]]]]
"""Returns the name and the data of each event."""

Let = Callable[[], Awaitable[object]]
"""Refuses a caller who may listen no more."""


class Events:
    """Lets callers follow what happens."""

    def __init__(self, tenants: Tenants, costs: Costs, *, access: Access, stopping: asyncio.Event) -> None:
        """Take the stores, who knows callers, and what says that all streams are to end."""
        self._tenants = tenants
        self._costs = costs
        self._access = access
        self._stopping = stopping
        self._feeds = Feeds()

    async def follow(self, inquiry: Inquiry) -> HttpResponse:
        """Tell of contexts and answers from now on, or from where the caller was."""
        store = self._tenants.store(inquiry.tenant)
        feed = self._feeds.of(store)
        since = inquiry.headers.get("last-event-id", "")
        if len(since) > _LONGEST or not since.isascii():
            raise Refusal("invalid", "Last-Event-ID: is none of ours", param="Last-Event-ID")
        if since:
            await store.follow(since, limit=1)  # refuses what is no cursor
        let = partial(self._access.caller, inquiry.headers)
        return Stream(feed, since, partial(self._write, store), let, self._stopping)

    async def _write(self, store: Store, events: Sequence[Build | Response]) -> list[tuple[str, bytes]]:
        names = await names_in(store, [event for event in events if isinstance(event, Build)])
        return await asyncio.to_thread(lambda: [self._written(event, names) for event in events])

    def _written(self, event: Build | Response, names: Names) -> tuple[str, bytes]:
        if isinstance(event, Build):
            return "context", msgspec.json.encode(row_of(event, names))
        return "answer", msgspec.json.encode(self._costs.answered(event))


class Stream(HttpResponse):
    """Sends what a feed tells until the caller leaves or is let in no more, or the server stops."""

    media_type = EVENT_STREAM

    def __init__(
        self, feed: Feed, since: str, write: Write, let: Let, stopping: asyncio.Event, *, heartbeat: float = HEARTBEAT
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
        gone = asyncio.create_task(until_gone(receive))
        cut = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({pump, gone, cut}, return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                pump.result()
        except Refusal:
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
        await _send(send, f"retry: {RETRY}\nid: {cursor}\n\n".encode())
        sent = clock()
        while True:
            found = await self._feed.after(cursor)
            await self._let()
            cursor = found.cursor
            if found.events:
                await _send(send, await self._written(found))
            elif clock() - sent >= self._heartbeat:
                await _send(send, _BEAT)
            else:
                continue
            sent = clock()

    async def _written(self, found: Followed) -> bytes:
        """Return events as they are sent. The last one names the place behind all of them: none is skipped."""
        lines = []
        for at, (name, data) in enumerate(await self._write(found.events), start=1):
            place = f"id: {found.cursor}\n" if at == len(found.events) else ""
            lines.append(f"{place}event: {name}\ndata: ".encode() + data + b"\n\n")
        return b"".join(lines)


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
