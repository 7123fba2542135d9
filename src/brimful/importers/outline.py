"""The beginning of a file as its format is known by it: JSON whose long texts are empty.

A message of 100 KB would hide all keys that stand behind it, so the outline reaches further than the head, and is no
longer than it.
"""

import re
from collections.abc import Callable
from typing import Final

REACH: Final = 4 * 2**20  # bytes that are looked through at most
SHORT: Final = 128  # bytes of a text that stays

_CHUNK: Final = 2**16  # bytes read first; then as many as were read, so that little is looked through often
_TEXT: Final = re.compile(rb'"((?:[^"\\]++|\\.)*+)("|\\?\Z)', re.DOTALL)
_KEY: Final = re.compile(rb'"((?:[^"\\]++|\\.)*+)"(\s*+:)?', re.DOTALL)


def outline_of(read: Callable[[int], bytes], most: int) -> bytes:
    r"""Return no more than `most` bytes of an outline, read from the beginning of a stream.

    >>> import io
    >>> outline_of(io.BytesIO(b'{"content": "' + b"x" * 500_000 + b'", "role": "user"}').read, 64)
    b'{"content": "", "role": "user"}'
    """
    seen, outline = b"", b""
    while len(outline) < most and len(seen) < REACH and (chunk := read(max(_CHUNK, len(seen)))):
        seen += chunk
        outline = _TEXT.sub(_shortened, seen)
    return outline[:most]


def keys_of(outline: bytes) -> frozenset[str]:
    r"""Return all keys of JSON objects, however deep. What only looks like one within a text is none.

    >>> sorted(keys_of(b'{"a": {"b": "\\"c\\": 1"}}'))
    ['a', 'b']
    """
    return frozenset(key.decode(errors="replace") for key, colon in _KEY.findall(outline) if colon)


def _shortened(found: re.Match[bytes]) -> bytes:
    return found[0] if len(found[1]) <= SHORT else b'""'
