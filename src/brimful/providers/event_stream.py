"""Decode streamed bytes into events: server-sent events and JSON Lines.

httpx2 decodes events itself, but only from its own responses and as text. Here bytes are forwarded untouched and
decoded on the side, so the decoder is fed chunk by chunk.
"""

import re
from typing import Final, Protocol

import msgspec

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"  # of UTF-8, which may stand before all else


class StreamEvent(msgspec.Struct, frozen=True):
    """What a server sent at a time: its data, and the name it gave to it."""

    data: bytes
    name: str = ""


class EventDecoder(Protocol):
    """Cuts a stream into events, wherever its chunks end."""

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """Return the events that are whole now."""
        ...

    def end(self) -> list[StreamEvent]:
        """Return what is left when nothing more comes."""
        ...


class LineDecoder:
    r"""Cuts bytes into lines. They end with `\n`, `\r\n` or `\r`, as both formats of streams allow.

    >>> lines = LineDecoder()
    >>> lines.feed(b"a\r"), lines.feed(b"\nb\n\nc"), lines.end()
    ([b'a'], [b'b', b''], [b'c'])
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._parts: list[bytes] = []
        self._after_return = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are whole now. Each byte is looked at once, however long a line is."""
        if not chunk:
            return []
        if self._after_return and chunk[:1] == b"\n":  # the second half of a line's end
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
        """Return the last line, if nothing ended it."""
        rest, self._parts = b"".join(self._parts), []
        return [rest] if rest else []


class JsonLinesDecoder:
    """One JSON value a line: Ollama's streams."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._lines = LineDecoder()

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """Return the values that are whole now."""
        return [StreamEvent(line) for line in self._lines.feed(chunk) if line.strip()]

    def end(self) -> list[StreamEvent]:
        """Return a last value without a line's end."""
        return [StreamEvent(line) for line in self._lines.end() if line.strip()]


class ServerEventDecoder:
    r"""Server-sent events: all other streams. Comments, ids and unknown fields are passed over.

    >>> events = ServerEventDecoder()
    >>> events.feed(b": wait\n\nevent: ping\ndata: {}\n\ndata: [DO") + events.feed(b"NE]\n\n")
    [Event(data=b'{}', name='ping'), Event(data=b'[DONE]', name='')]
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._lines = LineDecoder()
        self._name = ""
        self._data: list[bytes] = []
        self._begun = False

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """Return the events that are whole now."""
        return self._read(self._lines.feed(chunk))

    def end(self) -> list[StreamEvent]:
        """Return a last event, for not every server ends it with an empty line."""
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
        if not self._begun:
            self._begun = True
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
