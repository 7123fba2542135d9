"""Split a stream of JSON into pieces without parsing it: lines, array elements, or the fields of one object.

A file may be larger than memory, so it is split before it is parsed, and a damaged piece costs only itself. Where
there is no valid piece, a string says why.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

CHUNK_BYTES: Final = 2**18  # bytes read at once
ARRAY_CUT_OFF: Final = "the file ends in the middle of its array"
TRAILING_DATA: Final = "something follows the end of its JSON"
MISMATCHED_BRACKET: Final = "is not JSON: a bracket is closed by one of another kind"

Piece = tuple[int, bytes | str]

_DEPTH: Final = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}
_TO_DELIMITER: Final = re.compile(rb'(?:[^"\[\]{},]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_TO_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_IN_STRING: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)


def too_long_message(most: int) -> str:
    """Return what is said of a piece that is longer than `most` bytes."""
    return f"is longer than {most // 2**20:,} MiB"


def iter_lines(stream: BinaryIO, most: int) -> Iterator[Piece]:
    r"""Yield the lines that hold anything, numbered from 1; of those longer than `most` bytes, only that they are.

    >>> import io
    >>> list(iter_lines(io.BytesIO(b"1\n\n22222\n3"), most=3))
    [(1, b'1'), (3, 'is longer than 0 MiB'), (4, b'3')]
    """
    at = 0
    while line := stream.readline(most + 1):
        at += 1
        if len(line) > most and not line.endswith(b"\n"):
            while (rest := stream.readline(CHUNK_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield at, too_long_message(most)
        elif line := line.strip():
            yield at, line


def iter_elements(stream: BinaryIO, most: int) -> Iterator[Piece]:
    r"""Yield the elements of an array, numbered from 0; of those longer than `most` bytes, only that they are.

    >>> import io
    >>> list(iter_elements(io.BytesIO(b'[1, {"a": "],"}, "\\"", [2]]'), most=64))
    [(0, b'1'), (1, b'{"a": "],"}'), (2, b'"\\""'), (3, b'[2]')]
    """
    window, number, sign = JsonScanner(stream, most), 0, b"]"
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
        yield number, ARRAY_CUT_OFF
    elif sign != b"]" or window.goes_on():
        yield number, TRAILING_DATA if sign == b"]" else MISMATCHED_BRACKET


class JsonScanner:
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
        passed = (_TO_DELIMITER if self.depth <= self.level else _TO_BRACKET).match(self._held, self._at)
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
        return bool(self.rest() or self._stream.read(CHUNK_BYTES).strip())

    def _piece(self, end: int) -> bytes | str:
        return too_long_message(self._most) if self._too_long or end > self._most else bytes(self._held[:end].strip())

    def _read(self) -> bool:
        if len(self._held) > self._most:
            self._too_long = True
            self._drop()
        chunk = self._stream.read(CHUNK_BYTES)
        self._held += chunk
        return bool(chunk)

    def _drop(self) -> None:
        del self._held[: self._at]
        self._at = 0

    def _leave_text(self) -> bool:
        """Go past the text in which we are, if any; False if it goes on beyond what is held."""
        if self._in_text and (inner := _IN_STRING.match(self._held, self._at)):
            self._at = inner.end()
            if not self._held.startswith(b'"', self._at):  # … or a backslash whose partner was not read yet
                return False
            self._in_text = False
            self._at += 1
        return True


OBJECT_CUT_OFF: Final = "the file ends in the middle of its object"
MISSING_KEY: Final = "is not JSON: something in its object has no key"
MAX_KEY_BYTES: Final = 256  # bytes before an array that is read element by element

FieldPiece = tuple[str, int | None, bytes | str]
"""A key, which element of its array this is (None for a whole value), and the piece, or why there is none."""

_KEY: Final = re.compile(rb'\s*"((?:[^"\\]|\\.)*)"\s*:\s*', re.DOTALL)


def iter_fields(stream: BinaryIO, most: int, streamed: frozenset[str]) -> Iterator[FieldPiece]:
    r"""Yield the values of an object; of arrays under the `streamed` keys, each element for itself.

    >>> import io
    >>> list(iter_fields(io.BytesIO(b'{"a": [1, 2], "b": {"c": [3]}}'), 64, frozenset(["a"])))
    [('a', 0, b'1'), ('a', 1, b'2'), ('b', None, b'{"c": [3]}')]
    """
    reading = _ObjectReader(JsonScanner(stream, most), streamed)
    for sign in reading.window.signs():
        yield from reading.meet(sign)
        if reading.window.depth <= 0:
            if sign != b"}":
                yield "", None, MISMATCHED_BRACKET
            elif reading.window.goes_on():
                yield "", None, TRAILING_DATA
            return
    yield reading.key, None, OBJECT_CUT_OFF


class _ObjectReader:
    """An object as it is read, and the key whose elements come one by one, if we are in its array."""

    def __init__(self, window: JsonScanner, streamed: frozenset[str]) -> None:
        self.window = window
        self.key = ""
        self._streamed = streamed
        self._number = 0

    def meet(self, sign: bytes) -> Iterator[FieldPiece]:
        """Take a bracket or a comma, and yield what it ends."""
        if self.key:
            yield from self._meet_in_array(sign)
        elif self.window.depth == 1 and sign == b"{":
            self.window.take()
        elif self.window.depth == 2 and sign == b"[":  # noqa: PLR2004 - an array that is a value of the object
            self._enter_array()
        elif self.window.depth <= 0 or (self.window.depth == 1 and sign == b","):
            yield from _split_field(self.window.take())

    def _enter_array(self) -> None:
        found = _KEY.fullmatch(self.window.before(MAX_KEY_BYTES))
        key = found[1].decode(errors="replace") if found else ""
        if key in self._streamed:
            self.key, self._number = key, 0
            self.window.level = 2
            self.window.take()

    def _meet_in_array(self, sign: bytes) -> Iterator[FieldPiece]:
        ended = self.window.depth == 1 and sign == b"]"
        if ended or (self.window.depth == 2 and sign == b","):  # noqa: PLR2004 - between two elements
            piece = self.window.take()
            if piece or not ended:  # nothing at all between the last comma and the end is no element
                yield self.key, self._number, piece
                self._number += 1
        if self.window.depth <= 1:
            if not ended:
                yield self.key, None, MISMATCHED_BRACKET
            self.key, self.window.level = "", 1


def _split_field(piece: bytes | str) -> Iterator[FieldPiece]:
    if isinstance(piece, str):
        yield "", None, piece
    elif found := _KEY.match(piece):
        yield found[1].decode(errors="replace"), None, piece[found.end() :]
    elif piece:
        yield "", None, MISSING_KEY
