"""Reading of streamed answers: wait for the first event, listen to a passing stream, and filter out usage events.

Some upstreams report an overlong prompt only in the stream, after a comment or two. So comments are buffered until the
first event arrives, but only for a few seconds, since they keep clients from timing out.

Upstreams report the usage of a stream only if requested. If the client did not ask for it, the server may, and then
removes the extra event, which the client may not expect.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from brimful.errors import ContextOverflow, ProviderError
from brimful.providers import Dialect, HttpStream
from brimful.records.reply import Reply
from brimful.server.config import ModeName
from brimful.server.proxy.request import ProxyRequest
from brimful.server.proxy.upstreams import Upstream, is_outage
from brimful.wires.event_stream import Event, EventDecoder, Events, ServerEventDecoder, StreamEvent
from brimful.wires.replies import Reader
from brimful.wires.wire import UsageOption

COMMENT_SECONDS: Final = 5.0  # after the first comment; then everything is forwarded
MAX_HELD_BYTES: Final = 1_048_576  # before the first event; the preamble of a response repeats instructions and tools
_EDGE_BYTES: Final = 16_384  # of the start and of the end, which contain finish reason and usage
_MAX_LISTENED: Final = 268_435_456  # bytes; answers are far shorter, even with log probabilities
_EVENT_END: Final = re.compile(rb"\r?\n\r?\n")
_LINE_END: Final = re.compile(rb"\n")


async def wait_for_first_event(
    answering: HttpStream, line: Upstream, clock: Callable[[], float], *, raises_outage: bool = False
) -> None:
    """Wait for the first event of a stream; raise `ContextOverflow` if it reports one, and outages if asked to."""
    reader, events = line.dialect.reader(line.route), answering.make_decoder()
    buffered: list[bytes] = []
    first = clock()
    async for chunk in answering.chunks:
        first = first if buffered else clock()
        buffered.append(chunk)
        if (
            _has_event(chunk, reader, events, line.dialect.wire.preamble_events, raises_outage=raises_outage)
            or sum(map(len, buffered)) > MAX_HELD_BYTES
            or clock() - first > COMMENT_SECONDS
        ):
            break
    answering.chunks = _prepend(buffered, answering.chunks)


def _has_event(
    chunk: bytes, reader: Reader, events: EventDecoder, preamble: Sequence[str], *, raises_outage: bool
) -> bool:
    """Return whether anything but comments and the preamble of a response has been received."""
    try:
        reader.feed(chunk)
    except ProviderError as error:
        if isinstance(error, ContextOverflow) or (raises_outage and is_outage(error)):
            raise
        return True  # any other error is for the client
    return any(not _names_event(event, preamble) for event in events.feed(chunk))


def _names_event(event: StreamEvent, names: Sequence[str]) -> bool:
    """Return whether an event has one of these names, which are also in its data."""
    if event.name:
        return event.name in names
    return any(f'"{name}"'.encode() in event.data for name in names)


async def _prepend(buffered: Sequence[bytes], rest: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    for chunk in buffered:
        yield chunk
    async for chunk in rest:
        yield chunk


class StreamListener(Protocol):
    """Receives a copy of an answer's bytes."""

    def feed(self, chunk: bytes) -> None:
        """Receive some bytes. Never fails, so that listening cannot disturb the stream."""
        ...

    def reply(self) -> Reply | None:
        """Return the answer as far as it was received; None if it could not be parsed."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the answer has just ended, if the listener can tell."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the answer is complete. Known after `reply`."""
        ...

    @property
    def interrupted(self) -> bool:
        """Whether it ended early without a reason. Known after `reply`."""
        ...


class EdgeListener:
    """Keeps only the start and the end of a stream, so that long answers cost little."""

    def __init__(self, dialect: Dialect, route: str, limit: int = _EDGE_BYTES) -> None:
        self._dialect = dialect
        self._event_end = _LINE_END if dialect.wire.is_json_lines else _EVENT_END
        self._route = route
        self._limit = limit
        self._head = b""
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._truncated = False
        self.ended = False  # only known at the end
        self.complete = False
        self.interrupted = False

    def __len__(self) -> int:
        return len(self._head) + self._tail_size

    def feed(self, chunk: bytes) -> None:
        """Receive some bytes."""
        room = self._limit - len(self._head)
        if room > 0 and not self._tail:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._tail.append(chunk)
            self._tail_size += len(chunk)
            if self._tail_size > 4 * self._limit:
                self._shorten()

    def reply(self) -> Reply | None:
        """Parse the start and the end."""
        self._shorten()
        tail = b"".join(self._tail)
        if not self._truncated:
            return self._read(self._head + tail)
        head_ends = [found.end() for found in self._event_end.finditer(self._head)]
        begun = self._event_end.search(tail)
        return self._read(self._head[: head_ends[-1] if head_ends else 0] + (tail[begun.end() :] if begun else b""))

    def _shorten(self) -> None:
        tail = b"".join(self._tail)
        self._truncated = self._truncated or len(tail) > self._limit
        self._tail = [tail[-self._limit :]] if tail else []
        self._tail_size = min(len(tail), self._limit)

    def _read(self, data: bytes) -> Reply | None:
        listener = FullListener(self._dialect, self._route)
        listener.feed(data)
        reply = listener.reply()
        self.complete, self.interrupted = listener.complete, listener.interrupted
        return reply


class FullListener:
    """Parses the whole answer, up to `limit` bytes."""

    def __init__(self, dialect: Dialect, route: str, limit: int = _MAX_LISTENED) -> None:
        self._reader = dialect.reader(route)
        self._left = limit
        self._valid = True
        self.complete = False
        self.interrupted = False

    @property
    def ended(self) -> bool:
        """Whether the upstream sent the end of the answer."""
        return self._valid and self._reader.is_done

    def feed(self, chunk: bytes) -> None:
        """Receive some bytes; ignore the rest after something that cannot be parsed, or beyond the limit."""
        self._left -= len(chunk)
        self._valid = self._valid and self._left >= 0
        if self._valid:
            try:
                self._reader.feed(chunk)
            except ProviderError:
                self._valid = False

    def reply(self) -> Reply | None:
        """Return the answer as far as it was received."""
        try:
            self._reader.flush()
        except ProviderError:
            self._valid = False
        if self._valid:
            try:
                reply = self._reader.end()
            except ProviderError:
                self.interrupted = self._reader.partial_reply.finish == "broken-off"
                return self._reader.partial_reply
            self.complete = True
            return reply
        return self._reader.partial_reply


class WholeEventListener(FullListener):
    """Parses only the events that end a response, since they repeat all of it."""

    def __init__(self, dialect: Dialect, route: str) -> None:
        super().__init__(dialect, route)
        self._events = ServerEventDecoder()
        self._whole = dialect.wire.whole_events

    def feed(self, chunk: bytes) -> None:
        """Receive some bytes."""
        self._pass_on(self._events.feed(chunk))

    def reply(self) -> Reply | None:
        """Return the answer, if its end was received."""
        self._pass_on(self._events.end())
        return super().reply()

    def _pass_on(self, events: Sequence[StreamEvent]) -> None:
        for event in events:
            if _names_event(event, self._whole):
                data = event.data.replace(b"\n", b"\ndata: ")
                super().feed(b"event: " + event.name.encode() + b"\ndata: " + data + b"\n\n")


def with_usage_requested(request: ProxyRequest, mode: ModeName) -> ProxyRequest:
    """Return a request that asks for the usage of the stream, if its upstream supports that.

    One field is appended; everything else stays exactly as the client wrote it.
    """
    usage = request.wire.usage_option
    is_limited = request.admission.counts_tokens
    if usage is None or not request.streams or not request.upstream.requests_usage(mode, is_limited=is_limited):
        return request
    options = request.body.get(usage.field)
    if options is not None and (not isinstance(options, dict) or usage.option in options):
        return request  # the client set it itself, or something invalid that the upstream has to reject
    added = {usage.field: (options or {}) | {usage.option: True}}
    body = request.body | added
    raw = _append_field(request.raw, added) if usage.field not in request.body else msgspec.json.encode(body)
    return msgspec.structs.replace(request, body=body, raw=raw, hides_usage=True)


def _append_field(raw: bytes, field: Mapping[str, object]) -> bytes:
    """Append a field to a JSON object."""
    return raw[: raw.rindex(b"}")].rstrip() + b"," + msgspec.json.encode(field)[1:]


class UsageFilter:
    r"""Removes the event that contains nothing but usage from a stream.

    >>> from brimful.wires import find_wire
    >>> usage_filter = UsageFilter(find_wire("openai").usage_option)
    >>> usage_filter.feed(b'data: {"choices":[{}],"usage":null}\n\ndata: {"choices":[],"usage":{"prompt_tokens":9}}')
    b'data: {"choices":[{}],"usage":null}\n\n'
    >>> usage_filter.feed(b'\n\ndata: [DONE]\n\n') + usage_filter.end()
    b'data: [DONE]\n\n'
    """

    def __init__(self, usage: UsageOption) -> None:
        self._usage = usage
        self._events = Events()

    def feed(self, chunk: bytes) -> bytes:
        """Return all complete events except that one."""
        return b"".join([event.raw for event in self._events.feed(chunk) if not self._is_extra(event)])

    def end(self) -> bytes:
        """Return what came after the last complete event."""
        rest = self._events.rest
        return b"" if any(map(self._is_extra, self._events.end())) else rest

    def _is_extra(self, event: Event) -> bool:
        return event.data is not None and self._usage.is_extra(event.data)
