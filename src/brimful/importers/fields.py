"""A stream of bytes → the values of one JSON object, by their keys; long arrays among them element by element."""

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from brimful.importers.pieces import CROSSED, TRAILING, Window

UNENDED: Final = "the file ends in the middle of its object"
NAMELESS: Final = "is not JSON: something in its object has no key"
LONGEST_KEY: Final = 256  # bytes before an array that is read element by element

Field = tuple[str, int | None, bytes | str]
"""A key, which element of its array this is (None for a whole value), and the piece, or why there is none."""

_KEY: Final = re.compile(rb'\s*"((?:[^"\\]|\\.)*)"\s*:\s*', re.DOTALL)


def fields(stream: BinaryIO, most: int, streamed: frozenset[str]) -> Iterator[Field]:
    r"""Yield the values of an object; of arrays under the `streamed` keys, each element for itself.

    >>> import io
    >>> list(fields(io.BytesIO(b'{"a": [1, 2], "b": {"c": [3]}}'), 64, frozenset(["a"])))
    [('a', 0, b'1'), ('a', 1, b'2'), ('b', None, b'{"c": [3]}')]
    """
    reading = _Reading(Window(stream, most), streamed)
    for sign in reading.window.signs():
        yield from reading.meet(sign)
        if reading.window.depth <= 0:
            if sign != b"}":
                yield "", None, CROSSED
            elif reading.window.goes_on():
                yield "", None, TRAILING
            return
    yield reading.key, None, UNENDED


class _Reading:
    """An object as it is read, and the key whose elements come one by one, if we are in its array."""

    def __init__(self, window: Window, streamed: frozenset[str]) -> None:
        self.window = window
        self.key = ""
        self._streamed = streamed
        self._number = 0

    def meet(self, sign: bytes) -> Iterator[Field]:
        """Take a bracket or a comma, and yield what it ends."""
        if self.key:
            yield from self._meet_in_array(sign)
        elif self.window.depth == 1 and sign == b"{":
            self.window.take()
        elif self.window.depth == 2 and sign == b"[":  # noqa: PLR2004 - an array that is a value of the object
            self._enter_array()
        elif self.window.depth <= 0 or (self.window.depth == 1 and sign == b","):
            yield from _pair(self.window.take())

    def _enter_array(self) -> None:
        found = _KEY.fullmatch(self.window.before(LONGEST_KEY))
        key = found[1].decode(errors="replace") if found else ""
        if key in self._streamed:
            self.key, self._number = key, 0
            self.window.level = 2
            self.window.take()

    def _meet_in_array(self, sign: bytes) -> Iterator[Field]:
        ended = self.window.depth == 1 and sign == b"]"
        if ended or (self.window.depth == 2 and sign == b","):  # noqa: PLR2004 - between two elements
            piece = self.window.take()
            if piece or not ended:  # nothing at all between the last comma and the end is no element
                yield self.key, self._number, piece
                self._number += 1
        if self.window.depth <= 1:
            if not ended:
                yield self.key, None, CROSSED
            self.key, self.window.level = "", 1


def _pair(piece: bytes | str) -> Iterator[Field]:
    if isinstance(piece, str):
        yield "", None, piece
    elif found := _KEY.match(piece):
        yield found[1].decode(errors="replace"), None, piece[found.end() :]
    elif piece:
        yield "", None, NAMELESS
