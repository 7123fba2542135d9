"""Forward a request to its upstream and return the answer, whole or as a stream.

`brimful.engine.exchange` sends it, and rebuilds it if it is too long; the modes say how.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from typing import Any, Final, Protocol

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from brimful.core.context import Context
from brimful.core.notice import Notice
from brimful.engine.exchange import Exchange, PreparedRequest
from brimful.errors import BrimfulError, ProviderError
from brimful.providers import HttpStream
from brimful.records.reply import FinishReason, Reply
from brimful.records.usage import UsageReport
from brimful.server.background import BackgroundTasks
from brimful.server.endpoint import run_until_disconnect, wait_for_disconnect
from brimful.server.errors import ApiError, error_body, to_api_error
from brimful.server.limits import UNRESERVED, Reservation, released_on_failure
from brimful.server.logs import note_cut
from brimful.server.proxy.recall_rounds import Rebuilds, RecallLimits, RecallSession
from brimful.server.proxy.request import ProxyRequest, ProxyResult, RecordState, record_error
from brimful.server.proxy.stream import StreamListener, UsageFilter, wait_for_first_event
from brimful.server.proxy.upstreams import get_response_headers
from brimful.server.telemetry import Telemetry
from brimful.wires import Wire
from brimful.wires.rounds import JoinedAnswer

CONTEXT_HEADER: Final = "x-brimful-context"
DROPPED_HEADER: Final = "x-brimful-dropped"
RECORD_HEADER: Final = "x-brimful-record"


class Mode(Rebuilds, Protocol):
    """What the proxy does with a request: how it is prepared, rebuilt after an overflow, and recorded."""

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        ...

    @property
    def records_first(self) -> bool:
        """Whether a complete answer is recorded before it is forwarded; one that cannot be read is an error then."""
        ...

    @property
    def requires_records(self) -> bool:
        """Whether an exchange that cannot be recorded is an error."""
        ...

    def room(self, request: ProxyRequest) -> str:
        """Return the room of a request's records."""
        ...

    def record_state(self, request: ProxyRequest, context: Context | None) -> RecordState:
        """Return what is known about the record of a request. Without a context, it could not be built."""
        ...

    async def prepare(self, request: ProxyRequest) -> PreparedRequest[bytes]:
        """Return the request to send."""
        ...

    async def learn(self, request: ProxyRequest, report: UsageReport) -> None:
        """Store a report about a request, and calibrate with it."""
        ...

    def listen(self, request: ProxyRequest) -> StreamListener:
        """Return a listener for the streamed answer."""
        ...

    async def record(self, request: ProxyRequest, result: ProxyResult) -> None:
        """Record the answer."""
        ...


class ForwardedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer on its way to the client, and how to record it. With a `session`, the model may recall."""

    request: ProxyRequest
    context: Context | None
    mode: Mode
    tasks: BackgroundTasks
    stopping: asyncio.Event
    clock: Callable[[], float]
    reservation: Reservation
    session: RecallSession | None = None

    def headers(self, stream: HttpStream) -> dict[str, str]:
        """Return the upstream's headers and name, the id of the context, and what it left out."""
        context = {} if self.context is None else {CONTEXT_HEADER: self.context.id} | describe_dropped(self.context)
        state = self.mode.record_state(self.request, self.context)
        record = {} if state == "stored" else {RECORD_HEADER: state}
        return get_response_headers(stream.headers) | self.request.upstream.header | context | record

    async def settle(self, reply: Reply | None, *, is_complete: bool = True) -> None:
        """Count what an answer used of the client's limits."""
        usage = reply.usage if reply else None
        await asyncio.shield(self.reservation.settle(usage, is_complete=is_complete))

    async def record(self, reply: Reply | None) -> bool:
        """Record a complete answer. Return False if that failed before the answer was forwarded."""
        await self.settle(reply)
        task = self._start_recording(reply, reply.finish if reply else "other")
        if task is None or not self.mode.records_first or await asyncio.shield(task):
            return True
        if self.mode.requires_records:
            raise record_error()
        return False

    def record_stream(self, listener: StreamListener, *, ended: bool) -> None:
        """Record a stream; one that did not end was broken off."""
        reply = listener.reply()
        self._start_recording(reply, reply.finish if reply and ended and listener.complete else "broken-off")

    def record_round(self, reply: Reply | None, recalls: tuple[Notice, ...], *, ended: float) -> None:
        """Record the answer of a round that is not the last. It `ended` before the recalls."""
        if self.session is not None:
            self.session.end_round(reply)
        self._start_recording(reply, reply.finish if reply else "other", recalls, ended=ended)

    def _start_recording(
        self, reply: Reply | None, finish: FinishReason, recalls: tuple[Notice, ...] = (), *, ended: float | None = None
    ) -> asyncio.Task[bool] | None:
        if self.context is None:
            return None
        if self.session is not None and reply is not None and ended is None:
            reply = self.session.join(reply)
        result = ProxyResult(
            context=self.context,
            reply=reply,
            finish=finish,
            seconds=max(0.0, (self.clock() if ended is None else ended) - self.request.at),
            recalls=recalls,
            continues=ended is not None,
        )
        return self.tasks.start(self.mode.record(self.request, result), "recording an answer")


def describe_dropped(context: Context) -> dict[str, str]:
    """Return the header that says how many messages and tokens were left out; none if nothing was."""
    changed = (each for each in context.decisions if each.outcome != "kept")
    turns = [each for each in changed if each.kind.startswith(("message-", "tool-", "media-"))]
    messages = sum(not each.included and not each.kind.startswith("media-") for each in turns)
    tokens = sum(each.saved for each in turns)
    return {DROPPED_HEADER: f"messages={messages} tokens={tokens}"} if messages or tokens else {}


def make_error_event(error: ApiError | ProviderError, wire: Wire) -> bytes:
    """Return the event that ends a stream with an error."""
    api_error = to_api_error(error, wire) if isinstance(error, ProviderError) else error
    before, after = wire.error_frame
    return before + error_body(api_error, wire) + after


class StreamingAnswer(Response):
    """Forwards a stream as it comes.

    It ends when the upstream's stream ends, when the client disconnects, or when the server stops and its grace period
    is over; a client that is still connected then gets an error. The connection to the upstream is closed in any case.

    If the model calls the recall tool, the stream of the next round continues this one.
    """

    def __init__(
        self, stream: HttpStream, connection: AsyncExitStack, answer: ForwardedAnswer, listener: StreamListener
    ) -> None:
        super().__init__(status_code=stream.status, headers=answer.headers(stream))
        self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"]
        self._stream = stream
        self._connection = connection
        self._answer = answer
        self._listener = listener
        self._session = answer.session
        option = answer.request.wire.usage_option
        self._usage_filter = UsageFilter(option) if option and answer.request.hides_usage else None
        self._recorded = False
        self._log_fields: dict[str, Any] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._log_fields = scope["brimful"]
        ended = False
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            ended = await self._forward(receive, send)
        finally:
            with suppress(BrimfulError):
                await self._connection.aclose()
            if not self._recorded:
                reply = self._listener.reply()
                await self._answer.settle(reply, is_complete=ended and self._listener.complete)
                self._answer.record_stream(self._listener, ended=ended)

    async def _forward(self, receive: Receive, send: Send) -> bool:
        try:
            await run_until_disconnect(wait_for_disconnect(receive), self._answer.stopping, self._pump(send))
        except ClientDisconnect:
            self._log_fields["cut_by"] = "client"
            return False
        except (ApiError, ProviderError) as error:
            await self._end_with_error(send, error)
            return False
        await self._end(send)
        return True

    async def _pump(self, send: Send) -> None:
        await self._pump_round(send)
        while self._session is not None and self._wants_recall and not self._is_interrupted():
            await self._follow(self._session)
            await self._pump_round(send)

    async def _pump_round(self, send: Send) -> None:
        async for chunk in self._stream.chunks:
            self._listener.feed(chunk)
            visible = chunk if self._session is None else self._session.joined.feed(chunk)
            if self._listener.ended and not self._recorded and not self._wants_recall:
                # Record before the end is forwarded: the client may send its next request at once.
                self._recorded = True
                await self._answer.record(self._listener.reply())
            await self._send_visible(send, visible)
        if self._session is not None:
            await self._send_visible(send, self._session.joined.end())

    async def _send_visible(self, send: Send, chunk: bytes) -> None:
        visible = chunk if self._usage_filter is None else self._usage_filter.feed(chunk)
        if visible:
            await send({"type": "http.response.body", "body": visible, "more_body": True})

    async def _follow(self, session: RecallSession) -> None:
        """Continue with the stream of the next round."""
        with suppress(BrimfulError):
            await self._connection.aclose()
        ended = self._answer.clock()
        following = await session.next_round()
        self._recorded = True
        await self._answer.settle(self._listener.reply())
        self._answer.record_round(self._listener.reply(), following.recalls, ended=ended)
        answer = await session.send(following)
        if not isinstance(answer, StreamingAnswer):
            raise ProviderError(self._answer.request.upstream.route, "it does not stream the rest of its answer")
        self._recorded = False
        self._stream, self._connection = answer._stream, answer._connection  # noqa: SLF001 - of the same class
        self._answer, self._listener = answer._answer, answer._listener  # noqa: SLF001

    @property
    def _wants_recall(self) -> bool:
        return self._session is not None and self._session.joined.wants_recall

    def _is_interrupted(self) -> bool:
        self._listener.reply()
        return self._listener.interrupted

    async def _end(self, send: Send) -> None:
        """End the stream, with an error if the upstream ended it before the answer was complete."""
        if self._is_interrupted():
            error = ApiError("upstream", "the answer broke off: the stream ended before it was complete")
            await self._end_with_error(send, error)
        else:
            await send({"type": "http.response.body", "body": self._rest(), "more_body": False})

    async def _end_with_error(self, send: Send, error: ApiError | ProviderError) -> None:
        note_cut(self._log_fields, error)
        last = self._rest() + make_error_event(error, self._answer.request.wire)
        await send({"type": "http.response.body", "body": last, "more_body": False})

    def _rest(self) -> bytes:
        return b"" if self._usage_filter is None else self._usage_filter.end()


class Relay:
    """Forwards requests to upstreams. When `stopping` is set, streams that are still open end."""

    def __init__(
        self,
        *,
        tasks: BackgroundTasks,
        stopping: asyncio.Event,
        telemetry: Telemetry,
        recall: RecallLimits,
        clock: Callable[[], float],
    ) -> None:
        self._tasks = tasks
        self._telemetry = telemetry
        self._stopping = stopping
        self._recall = recall
        self._clock = clock

    async def answer(self, request: ProxyRequest, mode: Mode) -> Response:
        """Return the upstream's answer. A request that it finds too long is rebuilt and sent once more."""
        prepared = await mode.prepare(request)
        seconds = max(0.0, self._clock() - request.at)
        events = self._telemetry.emitter(request.client.tenant)
        await events.emit("sent", mode=mode.name, route=request.upstream.route, seconds=seconds)
        try:
            return await self._send(request, mode, prepared)
        except ProviderError as error:
            await events.emit(
                "failed",
                mode.room(request),
                model=request.model,
                provider=request.wire.provider,
                route=error.route,
                error=type(error).__name__,
                status=error.status,
                seconds=max(0.0, self._clock() - request.at),
            )
            raise

    async def _send(
        self, request: ProxyRequest, mode: Mode, prepared: PreparedRequest[bytes], session: RecallSession | None = None
    ) -> Response:
        reservation = await _reserve(request, prepared)
        exchange = Exchange(
            route=request.upstream.route,
            room=mode.room(request),
            rebuild=partial(mode.rebuild, request),
            learn=partial(mode.learn, request),
            emit=self._telemetry.emitter(request.client.tenant).emit,
            clock=self._clock,
            count=partial(_count_at_upstream, request),
        )
        async with released_on_failure(reservation):
            return await exchange.send(prepared, partial(self._deliver, request, mode, session, reservation))

    async def _deliver(
        self,
        request: ProxyRequest,
        mode: Mode,
        session: RecallSession | None,
        reservation: Reservation,
        prepared: PreparedRequest[bytes],
    ) -> Response:
        tenant, name = request.client.tenant, request.upstream.config.name
        async with AsyncExitStack() as connection:
            await connection.enter_async_context(self._telemetry.timing(tenant, name, request.model))
            trace_headers = self._telemetry.trace_headers()
            stream = await connection.enter_async_context(_open_upstream(request, prepared, trace_headers))
            if stream.is_event_stream:
                await wait_for_first_event(
                    stream, request.upstream, self._clock, raises_outage=not request.is_last_attempt
                )
                request.upstream.health.note_answer()  # the rest may take minutes
                if session is None:  # which answers a recall, after the first token
                    seconds = max(0.0, self._clock() - request.at)
                    events = self._telemetry.emitter(tenant)
                    await events.emit("first_token", upstream=name, model=request.model, seconds=seconds)
            context = await prepared.get_context()
            join = request.wire.join_rounds
            if session is None and context is not None and context.added_tools and join is not None:
                session = self._start_session(request, mode, context, join())
            if session is not None and context is not None:
                session.proceed(context)
            answer = ForwardedAnswer(
                request=request,
                context=context,
                mode=mode,
                tasks=self._tasks,
                stopping=self._stopping,
                clock=self._clock,
                reservation=reservation,
                session=session,
            )
            if stream.is_event_stream:
                return StreamingAnswer(stream, connection.pop_all(), answer, mode.listen(request))
            body = await stream.read()
        return await _make_response(body, stream, answer)

    def _start_session(
        self, request: ProxyRequest, mode: Mode, context: Context, joined: JoinedAnswer
    ) -> RecallSession:
        """Return the session in which the recalls of a request are answered."""
        session = RecallSession(
            request,
            context,
            joined,
            self._recall,
            mode=mode,
            emit=self._telemetry.emitter(request.client.tenant).emit,
            send=lambda following: self._send(following.request, mode, following.prepared, session),
            clock=self._clock,
        )
        return session


async def _reserve(request: ProxyRequest, prepared: PreparedRequest[bytes]) -> Reservation:
    """Reserve what a request may use of the client's limits. It is counted now, if it is not yet."""
    if not request.admission.counts_tokens:
        return UNRESERVED
    prepared.on_sent()  # what waits for that counts the request
    context = await prepared.get_context()
    if context is None:
        raise ApiError("invalid", "the tokens of this request cannot be counted, and your use of tokens is limited")
    return await request.reserve(context)


async def _count_at_upstream(request: ProxyRequest, payload: bytes) -> int | None:
    body = {"model": request.model} | msgspec.json.decode(payload)
    return await request.upstream.counter.count(body, request.forwarded)


def _open_upstream(
    request: ProxyRequest, prepared: PreparedRequest[bytes], trace_headers: dict[str, str]
) -> AbstractAsyncContextManager[HttpStream]:
    path = request.path + (f"?{request.query}" if request.query else "")
    headers = request.forwarded | trace_headers
    return request.upstream.stream(path, prepared.payload, headers=headers, on_sent=prepared.on_sent)


async def _make_response(body: bytes, stream: HttpStream, answer: ForwardedAnswer) -> Response:
    """Return the answer, or that of further rounds if the model calls the recall tool."""
    upstream, session, shown = answer.request.upstream, answer.session, answer
    try:
        reply: Reply | None = upstream.dialect.read(body, upstream.route)
    except ProviderError:
        recorded = await answer.record(None)
        if answer.mode.records_first:
            raise
    else:
        if session is not None:
            whole = msgspec.json.decode(body)
            session.joined.add(whole)
            if session.joined.wants_recall:
                ended = answer.clock()
                following = await session.next_round()
                await answer.settle(reply)
                answer.record_round(reply, following.recalls, ended=ended)
                return await session.send(following)
            joined = session.joined.whole(whole)
            body = body if joined is whole else msgspec.json.encode(joined)
            shown = msgspec.structs.replace(answer, context=session.first)
        recorded = await answer.record(reply)
    headers = shown.headers(stream) | ({} if recorded else {RECORD_HEADER: "failed"})
    return Response(body, status_code=stream.status, headers=headers)
