"""Forward a request to its upstream and return the answer, in one piece or as a stream."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final, Protocol

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from brimful.core.context import Context
from brimful.errors import BrimfulError, ContextOverflow, ProviderError
from brimful.providers import HttpStream
from brimful.records.reply import FinishReason, Reply
from brimful.server.background import BackgroundTasks
from brimful.server.errors import ApiError, ErrorFormat, error_body, to_api_error
from brimful.server.proxy.request import ProxyRequest, ProxyResult
from brimful.server.proxy.stream import StreamListener, UsageFilter, wait_for_first_event
from brimful.server.proxy.upstreams import COMPLETION_PATHS, hide_own_key
from brimful.server.telemetry import Telemetry


class PreparedRequest:
    """A request as it goes out, and its context, which may still be in the making while the upstream works.

    `sent` is called once the request is on its way.
    """

    def __init__(
        self, payload: bytes, context: "asyncio.Future[Context | None]", sent: Callable[[], None] = lambda: None
    ) -> None:
        """Take all of it."""
        self.payload = payload
        self.context = context
        self.sent = sent


class Mode(Protocol):
    """Prepares requests."""

    @property
    def name(self) -> str:
        """What callers call it."""
        ...

    @property
    def waits(self) -> bool:
        """Whether an answer that came at once is handed on only when it is kept; what is no answer is refused then."""
        ...

    async def prepare(self, asked: ProxyRequest) -> PreparedRequest:
        """Return the request that is to be sent."""
        ...

    async def smaller(self, asked: ProxyRequest, context: Context, refused: ContextOverflow) -> PreparedRequest | None:
        """Learn from a refusal, and return a request that the upstream should take; None if there is no smaller one."""
        ...

    def listen(self, asked: ProxyRequest) -> StreamListener:
        """Return what is to be told of the answer as it comes."""
        ...

    async def keep(self, asked: ProxyRequest, answered: ProxyResult) -> None:
        """Keep what came of it."""
        ...


def completed_future(context: Context) -> "asyncio.Future[Context | None]":
    """Return a context that is there already as one that may be waited for."""
    future: asyncio.Future[Context | None] = asyncio.get_running_loop().create_future()
    future.set_result(context)
    return future


CONTEXT_HEADER: Final = "x-brimful-context"
_OWN_HEADERS: Final = ("date", "server")  # told by our own server of itself


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """An exchange: who asked, what was sent, and when."""

    asked: ProxyRequest
    context: Context | None
    mode: Mode
    tasks: BackgroundTasks
    stopping: asyncio.Event
    clock: Callable[[], float]

    def headers(self, answering: HttpStream) -> dict[str, str]:
        """Return the headers of the answer, and the name of its context."""
        named = {} if self.context is None else {CONTEXT_HEADER: self.context.id}
        return {name: value for name, value in answering.headers.items() if name not in _OWN_HEADERS} | named

    def ended(self, tee: StreamListener, *, ended: bool) -> None:
        """Keep what was heard of a stream. One that did not come to its end was broken off."""
        reply = tee.reply()
        self._keep(reply, reply.finish if reply and ended and tee.whole else "broken-off")

    async def said(self, tee: StreamListener) -> None:
        """Keep a stream that is all said, before its end is handed on: who has heard it may go on at once."""
        await self.came(tee.reply())

    async def came(self, reply: Reply | None) -> None:
        """Keep an answer that came at once."""
        kept = self._keep(reply, reply.finish if reply else "other")
        if kept is not None and self.mode.waits:
            await asyncio.shield(kept)

    def _keep(self, reply: Reply | None, finish: FinishReason) -> asyncio.Task[None] | None:
        if self.context is None:
            return None
        seconds = max(0.0, self.clock() - self.asked.at)
        answered = ProxyResult(context=self.context, reply=reply, finish=finish, seconds=seconds)
        return self.tasks.start(self.mode.keep(self.asked, answered), "keeping an answer")


class StreamingAnswer(Response):
    """Hands on what comes, as it comes.

    The upstream's connection is let go however it ends. A caller who leaves ends it, and so does the server when it
    stops and its grace is over; a caller who is still there is told then, as of an upstream that broke off.
    """

    def __init__(
        self, answering: HttpStream, held: AsyncExitStack, relayed: Exchange, tee: StreamListener, tongue: ErrorFormat
    ) -> None:
        """Take an answer that has begun, and what holds its connection."""
        super().__init__(status_code=answering.status, headers=relayed.headers(answering))
        self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"]
        self._answering = answering
        self._held = held
        self._relayed = relayed
        self._tee = tee
        self._tongue = tongue
        self._withheld = UsageFilter() if relayed.asked.withholds else None
        self._kept = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        del scope
        ended = False
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            ended = await self._until_ended(receive, send)
        finally:
            with suppress(BrimfulError):
                await self._held.aclose()
            if not self._kept:
                self._relayed.ended(self._tee, ended=ended)

    async def _until_ended(self, receive: Receive, send: Send) -> bool:
        pump = asyncio.create_task(self._pump(send))
        gone = asyncio.create_task(wait_for_disconnect(receive))
        cut = asyncio.create_task(self._relayed.stopping.wait())
        try:
            await asyncio.wait({pump, gone, cut}, return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                error = pump.exception()
                if isinstance(error, ProviderError):
                    await self._say(send, to_api_error(error, self._tongue))
                elif error is not None:
                    raise error
                else:
                    await self._end(send)
                return error is None
            if cut.done():
                pump.cancel()
                with suppress(asyncio.CancelledError, ProviderError):
                    await pump
                await self._say(send, ApiError("shutting_down", "the server is stopping: the answer is not complete"))
            return False
        finally:
            for task in (pump, gone, cut):
                task.cancel()
            await asyncio.gather(pump, gone, cut, return_exceptions=True)

    async def _pump(self, send: Send) -> None:
        async for chunk in self._answering.chunks:
            self._tee.feed(chunk)
            if self._tee.over and not self._kept:
                self._kept = True
                await self._relayed.said(self._tee)
            shown = chunk if self._withheld is None else self._withheld.feed(chunk)
            if shown:
                await send({"type": "http.response.body", "body": shown, "more_body": True})

    async def _end(self, send: Send) -> None:
        """End a stream; if the upstream ended it before the answer was whole, say so."""
        self._tee.reply()
        if self._tee.cut:
            await self._say(send, ApiError("upstream", "the answer broke off: the stream ended before it was whole"))
        else:
            await send({"type": "http.response.body", "body": self._rest(), "more_body": False})

    async def _say(self, send: Send, refusal: ApiError) -> None:
        """End a stream with an error, in the form that it has within streams."""
        said = error_body(refusal, self._tongue)
        name = b"event: error\n" if self._tongue == "anthropic" else b""
        last = self._rest() + b"\n\n" + name + b"data: " + said + b"\n\n"
        await send({"type": "http.response.body", "body": last, "more_body": False})

    def _rest(self) -> bytes:
        return b"" if self._withheld is None else self._withheld.end()


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the caller has left."""
    message: Any = {}
    while message.get("type") != "http.disconnect":
        message = await receive()


class Relay:
    """Sends requests on. `stopping` ends the streams that are still under way when it is set."""

    def __init__(
        self, *, tasks: BackgroundTasks, stopping: asyncio.Event, watch: Telemetry, clock: Callable[[], float]
    ) -> None:
        """Take who keeps what came of them, and what tells the time, and the end of it."""
        self._tasks = tasks
        self._watch = watch
        self._stopping = stopping
        self._clock = clock

    async def answer(self, asked: ProxyRequest, mode: Mode) -> Response:
        """Return the upstream's answer. A prompt that it finds too long is made smaller, and sent once more."""
        prepared = await mode.prepare(asked)
        seconds = max(0.0, self._clock() - asked.at)
        await self._watch.tell("sent", asked.caller.tenant, mode=mode.name, route=asked.line.route, seconds=seconds)
        try:
            return await self._sent(asked, mode, prepared)
        except ContextOverflow as refused:
            context = await prepared.context
            smaller = None if context is None else await mode.smaller(asked, context, refused)
            if smaller is None:
                raise
            return await self._sent(asked, mode, smaller)
        finally:
            if not prepared.context.done():
                prepared.context.cancel()

    async def _sent(self, asked: ProxyRequest, mode: Mode, prepared: PreparedRequest) -> Response:
        async with AsyncExitStack() as held:
            answering = await held.enter_async_context(_open_upstream(asked, prepared))
            in_events = _is_event_stream(answering)
            if in_events:
                await wait_for_first_event(answering, asked.line, self._clock)
            relayed = Exchange(
                asked=asked,
                context=await prepared.context,
                mode=mode,
                tasks=self._tasks,
                stopping=self._stopping,
                clock=self._clock,
            )
            if in_events:
                return StreamingAnswer(answering, held.pop_all(), relayed, mode.listen(asked), asked.wire)
            return await _full_response(await answering.read(), answering, relayed)


@asynccontextmanager
async def _open_upstream(asked: ProxyRequest, prepared: PreparedRequest) -> AsyncGenerator[HttpStream, None]:
    line, path = asked.line, COMPLETION_PATHS[asked.wire] + (f"?{asked.query}" if asked.query else "")
    headers = line.headers(asked.headers)
    with hide_own_key(line):
        async with line.connection.stream(path, prepared.payload, headers=headers, sent=prepared.sent) as answering:
            yield answering


def _is_event_stream(answering: HttpStream) -> bool:
    return answering.headers.get("content-type", "").startswith("text/event-stream")


async def _full_response(body: bytes, answering: HttpStream, relayed: Exchange) -> Response:
    line = relayed.asked.line
    try:
        reply = line.dialect.read(body, line.route)
    except ProviderError:
        await relayed.came(None)
        if relayed.mode.waits:
            raise
        return Response(body, status_code=answering.status, headers=relayed.headers(answering))
    await relayed.came(reply)
    return Response(body, status_code=answering.status, headers=relayed.headers(answering))
