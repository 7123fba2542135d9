r"""A stream of bytes → the pieces of JSON in it, each with its number: lines, or the elements of one array.

A file may be larger than memory, so it is cut before it is parsed, and a damaged piece costs itself alone. Libraries
that parse while they read end at the first damage, and ijson keeps a path for every level: for 100,000 open brackets it
takes all memory there is.

Where there is no piece, a text says why.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

CHUNK: Final = 2**18  # bytes read at once
UNENDED: Final = "the file ends in the middle of its array"
TRAILING: Final = "something follows the end of its JSON"
CROSSED: Final = "is not JSON: a bracket is closed by one of another kind"

Piece = tuple[int, bytes | str]

_DEPTH: Final = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}
_TO_SIGN: Final = re.compile(rb'(?:[^"\[\]{},]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_TO_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_IN_TEXT: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)


def too_long(most: int) -> str:
    """Return what is said of a piece that is longer than `most` bytes."""
    return f"is longer than {most // 2**20:,} MiB"


def lines(stream: BinaryIO, most: int) -> Iterator[Piece]:
    r"""Yield the lines that hold anything, numbered from 1; of those longer than `most` bytes, only that they are.

    >>> import io
    >>> list(lines(io.BytesIO(b"1\n\n22222\n3"), most=3))
    [(1, b'1'), (3, 'is longer than 0 MiB'), (4, b'3')]
    """
    at = 0
    while line := stream.readline(most + 1):
        at += 1
        if len(line) > most and not line.endswith(b"\n"):
            while (rest := stream.readline(CHUNK)) and not rest.endswith(b"\n"):
                pass
            yield at, too_long(most)
        elif line := line.strip():
            yield at, line


def elements(stream: BinaryIO, most: int) -> Iterator[Piece]:
    r"""Yield the elements of an array, numbered from 0; of those longer than `most` bytes, only that they are.

    >>> import io
    >>> list(elements(io.BytesIO(b'[1, {"a": "],"}, "\\"", [2]]'), most=64))
    [(0, b'1'), (1, b'{"a": "],"}'), (2, b'"\\""'), (3, b'[2]')]
    """
    window, number, sign = Window(stream, most), 0, b"]"
    for sign in window.signs():
        if window.depth == 1 and sign == b"[":
            window.take()
        elif window.depth <= 0 or (window.depth == 1 and sign == b","):
            piece = window.take()
            if piece or window.depth:  # nothing at all between the last comma and the end is no element
                yield number, piece
                number += 1
            if window.depth <= 0:
                break
    if window.depth == 1 and (piece := window.rest()):
        yield number, piece
        number += 1
    if window.depth > 0:
        yield number, UNENDED
    elif sign != b"]" or window.goes_on():
        yield number, TRAILING if sign == b"]" else CROSSED


class Window:
    """What is held of a stream: the current element as far as it was read.

    `depth` tells how many brackets are open; commas are signs where that is no more than `level`.
    """

    def __init__(self, stream: BinaryIO, most: int) -> None:
        """Read this stream; a piece may have so many bytes."""
        self.depth = 0
        self.level = 1
        self._stream = stream
        self._most = most
        self._held = bytearray()
        self._at = 0  # how far it was looked through
        self._in_text = False
        self._too_long = False

    def signs(self) -> Iterator[bytes]:
        """Yield brackets and commas outside of texts."""
        while self._read():
            while self._leave_text() and (sign := self._next_sign()):
                if sign == b'"':  # of a text that goes on beyond what is held
                    self._in_text = True
                else:
                    self.depth += _DEPTH.get(sign, 0)
                    yield sign

    def _next_sign(self) -> bytes:
        passed = (_TO_SIGN if self.depth <= self.level else _TO_BRACKET).match(self._held, self._at)
        end = passed.end() if passed else self._at
        sign = bytes(self._held[end : end + 1])
        self._at = end + len(sign)
        return sign

    def take(self) -> bytes | str:
        """Return what stands before the sign that was last found, and let go of it."""
        piece = self._piece(self._at - 1)
        self._drop()
        self._too_long = False
        return piece

    def before(self, most: int) -> bytes:
        """Return what stands before the sign that was last found, or as many bytes of it."""
        return bytes(self._held[: min(self._at - 1, most)])

    def rest(self) -> bytes | str:
        """Return what is held and was ended by no sign."""
        return self._piece(len(self._held))

    def goes_on(self) -> bool:
        """Say whether anything follows what was taken last."""
        return bool(self.rest() or self._stream.read(CHUNK).strip())

    def _piece(self, end: int) -> bytes | str:
        return too_long(self._most) if self._too_long or end > self._most else bytes(self._held[:end].strip())

    def _read(self) -> bool:
        if len(self._held) > self._most:
            self._too_long = True
            self._drop()
        chunk = self._stream.read(CHUNK)
        self._held += chunk
        return bool(chunk)

    def _drop(self) -> None:
        del self._held[: self._at]
        self._at = 0

    def _leave_text(self) -> bool:
        """Go past the text in which we are, if any; False if it goes on beyond what is held."""
        if self._in_text and (inner := _IN_TEXT.match(self._held, self._at)):
            self._at = inner.end()
            if not self._held.startswith(b'"', self._at):  # … or a backslash whose partner was not read yet
                return False
            self._in_text = False
            self._at += 1
        return True
