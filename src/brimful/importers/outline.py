"""The beginning of a file as its format is known by it: JSON whose long texts are empty.

A message of 100 KB would hide all keys that stand behind it, so the outline reaches further than the head, and is no
longer than it. What is read of a long text is let go at once.
"""

import re
from collections.abc import Callable
from typing import Final

REACH: Final = 4 * 2**20  # bytes in which a key is looked for that may stand anywhere
FURTHEST: Final = 64 * 2**20  # bytes that are looked through at most: no text in one piece is longer
SHORT: Final = 128  # bytes of a text that stays

_CHUNK: Final = 2**16  # bytes read at once
_TEXT: Final = re.compile(rb'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_WHOLE_TEXTS: Final = re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_IN_TEXT: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_KEY: Final = re.compile(rb'"((?:[^"\\]++|\\.)*+)"(\s*+:)?', re.DOTALL)


def outline_of(read: Callable[[int], bytes], most: int) -> bytes:
    r"""Return no more than `most` bytes of an outline, read from the beginning of a stream.

    >>> import io
    >>> outline_of(io.BytesIO(b'{"content": "' + b"x" * 500_000 + b'", "role": "user"}').read, 64)
    b'{"content": "", "role": "user"}'
    """
    outline, held, seen, within = bytearray(), b"", 0, False
    while len(outline) < most and seen < FURTHEST and (chunk := read(_CHUNK)):
        seen += len(chunk)
        held += chunk
        if within:  # a long text
            end = _end(_IN_TEXT, held, 0)
            within = held[end : end + 1] != b'"'
            held = held[end:] if within else b'""' + held[end + 1 :]
        if not within:
            end = _end(_WHOLE_TEXTS, held, 0)
            outline += _TEXT.sub(_shortened, held[:end])
            within = len(held) - end > SHORT
            held = held[_end(_IN_TEXT, held, end + 1) if within else end :]
    return bytes(outline + (b'""' if within else held))[:most]


def _end(pattern: re.Pattern[bytes], data: bytes, start: int) -> int:
    found = pattern.match(data, start)
    return found.end() if found else start


def keys_of(outline: bytes) -> frozenset[str]:
    r"""Return all keys of JSON objects, however deep. What only looks like one within a text is none.

    >>> sorted(keys_of(b'{"a": {"b": "\\"c\\": 1"}}'))
    ['a', 'b']
    """
    return frozenset(key.decode(errors="replace") for key, colon in _KEY.findall(outline) if colon)


def _shortened(found: re.Match[bytes]) -> bytes:
    return found[0] if len(found[1]) <= SHORT else b'""'
