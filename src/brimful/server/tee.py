"""Listening to an answer that goes by: all of it, or no more than its ends, where only its numbers are wanted."""

import re
from typing import Final, Protocol

from brimful.errors import ProviderError
from brimful.providers import Dialect
from brimful.replies import Reply

_ENDS: Final = 16_384  # bytes of a stream's beginning, and of its end; finish and usage stand there
_EVENT_END: Final = re.compile(rb"\r?\n\r?\n")


class Tee(Protocol):
    """Is told an answer's bytes as they pass."""

    def feed(self, chunk: bytes) -> None:
        """Take note of some bytes. Never fails: what goes by is not to suffer from who listens."""
        ...

    def reply(self) -> Reply | None:
        """Return what was said as far as it was heard; None if it could not be understood."""
        ...

    @property
    def over(self) -> bool:
        """Whether the answer has just come to its end, as far as that is listened for."""
        ...

    @property
    def whole(self) -> bool:
        """Whether the answer came to its end. Known after `reply`."""
        ...

    @property
    def cut(self) -> bool:
        """Whether it ended before, and without a word of why. Known after `reply`."""
        ...


class Ends:
    """Keeps the two ends of a stream, so that a long answer costs little to listen to."""

    def __init__(self, dialect: Dialect, route: str, most: int = _ENDS) -> None:
        """Keep so many bytes of each."""
        self._dialect = dialect
        self._route = route
        self._most = most
        self._head = b""
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._left_out = False
        self.over = False  # the ends are read when all is said
        self.whole = False
        self.cut = False

    def __len__(self) -> int:
        """Return how many bytes are held."""
        return len(self._head) + self._tail_size

    def feed(self, chunk: bytes) -> None:
        """Take note of some bytes."""
        room = self._most - len(self._head)
        if room > 0 and not self._tail:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._tail.append(chunk)
            self._tail_size += len(chunk)
            if self._tail_size > 4 * self._most:
                self._shorten()

    def reply(self) -> Reply | None:
        """Read what stands in the ends."""
        self._shorten()
        tail = b"".join(self._tail)
        if not self._left_out:
            return self._read(self._head + tail)
        head_ends = [found.end() for found in _EVENT_END.finditer(self._head)]
        begun = _EVENT_END.search(tail)
        return self._read(self._head[: head_ends[-1] if head_ends else 0] + (tail[begun.end() :] if begun else b""))

    def _shorten(self) -> None:
        tail = b"".join(self._tail)
        self._left_out = self._left_out or len(tail) > self._most
        self._tail = [tail[-self._most :]] if tail else []
        self._tail_size = min(len(tail), self._most)

    def _read(self, data: bytes) -> Reply | None:
        listener = Listener(self._dialect, self._route)
        listener.feed(data)
        reply = listener.reply()
        self.whole, self.cut = listener.whole, listener.cut
        return reply


class Listener:
    """Hears all of an answer."""

    def __init__(self, dialect: Dialect, route: str) -> None:
        """Begin with nothing."""
        self._reader = dialect.reader(route)
        self._understood = True
        self.whole = False
        self.cut = False

    @property
    def over(self) -> bool:
        """Whether the upstream said that this was all."""
        return self._understood and self._reader.over

    def feed(self, chunk: bytes) -> None:
        """Take note of some bytes; after something that is no answer, of nothing more."""
        if self._understood:
            try:
                self._reader.feed(chunk)
            except ProviderError:
                self._understood = False

    def reply(self) -> Reply | None:
        """Return what was heard."""
        try:
            self._reader.last()
        except ProviderError:
            self._understood = False
        if self._understood:
            try:
                reply = self._reader.end()
            except ProviderError:
                self.cut = self._reader.so_far.finish == "broken-off"
                return self._reader.so_far
            self.whole = True
            return reply
        return self._reader.so_far
