"""Decode streamed bytes into events: server-sent events and JSON Lines, as data or with the bytes as they came.

httpx2 decodes events itself, but only from its own responses and as text. Here bytes are forwarded untouched and
decoded on the side, so the decoder is fed chunk by chunk.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from brimful.core.validation import decode_json

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_DONE: Final = b"[DONE]"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"  # of UTF-8; may precede the stream


class StreamEvent(msgspec.Struct, frozen=True):
    """An event: its data and its name."""

    data: bytes
    name: str = ""


class EventDecoder(Protocol):
    """Splits a stream into events, whatever its chunks."""

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """Add a chunk, and return the events that are complete now."""

    def end(self) -> list[StreamEvent]:
        """Return the rest at the end of the stream."""


class EventSize:
    r"""Measures the unfinished event at the end of a stream, whatever its chunks.

    >>> size = EventSize()
    >>> size.feed(b"data: 1\n\ndata: 2"), size.feed(b"\n"), size.feed(b"\n")
    (7, 8, 0)
    """

    def __init__(self, ends: tuple[bytes, ...] = (b"\n\n", b"\r\n\r\n", b"\r\r")) -> None:
        self._ends = ends
        self._size = 0
        self._tail = b""

    def feed(self, chunk: bytes) -> int:
        """Add a chunk, and return the bytes since the last end of an event."""
        data = self._tail + chunk
        last = max((index + len(end) for end in self._ends if (index := data.rfind(end)) >= 0), default=None)
        self._size = self._size + len(chunk) if last is None else len(data) - last
        self._tail = data[-3:]  # one byte less than the longest end
        return self._size


class LineDecoder:
    r"""Splits bytes into lines. They end with `\n`, `\r\n` or `\r`, as both formats allow.

    >>> lines = LineDecoder()
    >>> lines.feed(b"a\r"), lines.feed(b"\nb\n\nc"), lines.end()
    ([b'a'], [b'b', b''], [b'c'])
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._after_return = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add a chunk, and return the lines that are complete now. Each byte is scanned once."""
        if not chunk:
            return []
        if self._after_return and chunk[:1] == b"\n":  # the second half of a line end
            chunk = chunk[1:]
            self._after_return = False
            if not chunk:
                return []
        self._after_return = chunk.endswith(b"\r")
        *lines, rest = _LINE_END.split(chunk)
        if lines:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts = []
        if rest:
            self._parts.append(rest)
        return lines

    def end(self) -> list[bytes]:
        """Return the last line, if it is not terminated."""
        rest, self._parts = b"".join(self._parts), []
        return [rest] if rest else []


class JsonLinesDecoder:
    """One JSON value per line, as in Ollama's streams."""

    def __init__(self) -> None:
        self._lines = LineDecoder()

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """Add a chunk, and return the values that are complete now."""
        return [StreamEvent(line) for line in self._lines.feed(chunk) if line.strip()]

    def end(self) -> list[StreamEvent]:
        """Return an unterminated last value."""
        return [StreamEvent(line) for line in self._lines.end() if line.strip()]


class ServerEventDecoder:
    r"""Server-sent events, as in all other streams. Comments, ids and unknown fields are ignored.

    >>> events = ServerEventDecoder()
    >>> events.feed(b": wait\n\nevent: ping\ndata: {}\n\ndata: [DO") + events.feed(b"NE]\n\n")
    [StreamEvent(data=b'{}', name='ping'), StreamEvent(data=b'[DONE]', name='')]
    """

    def __init__(self) -> None:
        self._lines = LineDecoder()
        self._name = ""
        self._data: list[bytes] = []
        self._has_started = False

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        return self._read(self._lines.feed(chunk))

    def end(self) -> list[StreamEvent]:
        """Return the last event, which some servers do not end with an empty line."""
        return self._read([*self._lines.end(), b""])

    def _read(self, lines: list[bytes]) -> list[StreamEvent]:
        events = []
        for line in lines:
            if line:
                self._field(line)
            elif self._data:
                events.append(StreamEvent(b"\n".join(self._data), self._name))
                self._name, self._data = "", []
            else:
                self._name = ""
        return events

    def _field(self, line: bytes) -> None:
        if not self._has_started:
            self._has_started = True
            line = line.removeprefix(_BYTE_ORDER_MARK)
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"data":
                self._data.append(value)
            case b"event":
                self._name = value.decode(errors="replace")
            case b"error":  # older llama.cpp
                self._name = "error"
                self._data.append(value)


class Event(msgspec.Struct, frozen=True):
    """An event with its bytes as they came, and its data if that is a JSON object."""

    raw: bytes
    data: dict[str, Any] | None = None
    is_done: bool = False


class Events:
    """Splits a stream into events, and keeps their bytes."""

    def __init__(self) -> None:
        self.rest = b""  # an event that is not complete

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that are complete now."""
        data, done = self.rest + chunk, 0
        for end in _EVENT_END.finditer(data, max(0, len(self.rest) - 3)):
            yield _read_event(data[done : end.end()])
            done = end.end()
        self.rest = data[done:]

    def end(self) -> Iterator[Event]:
        """Yield an unterminated last event."""
        rest, self.rest = self.rest, b""
        if rest.strip():
            yield _read_event(rest.rstrip() + b"\n\n")


def _read_event(raw: bytes) -> Event:
    events = ServerEventDecoder().feed(raw)
    return _make_event(raw, events[0].data) if events else Event(raw)


def _make_event(raw: bytes, data: bytes) -> Event:
    try:
        value = decode_json(data)
    except ValueError:
        return Event(raw, is_done=data.strip() == _DONE)
    return Event(raw, value if isinstance(value, dict) else None)


class Lines:
    """Splits a stream into lines of JSON."""

    def __init__(self) -> None:
        self._lines = JsonLinesDecoder()

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the lines that are complete now."""
        return (_make_event(event.data + b"\n", event.data) for event in self._lines.feed(chunk))

    def end(self) -> Iterator[Event]:
        """Yield an unterminated last line."""
        return (_make_event(event.data + b"\n", event.data) for event in self._lines.end())
