"""The texts that a PNG carries beside its picture (tEXt, zTXt and iTXt chunks), as far as they are asked for.

The picture itself is never decoded. A text that inflates without end is a bomb, and is refused.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final

from brimful.errors import DamagedFile

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
CUT_OFF: Final = "is cut off: a picture ends with a chunk that says so"
MOST_CHUNKS: Final = 100_000  # a picture has a few hundred
_HEAD: Final = struct.Struct(">I4s")
_CRC: Final = struct.Struct(">I")  # after each chunk, of its kind and of what it holds
_TEXTS: Final = (b"tEXt", b"zTXt", b"iTXt")
_STEP: Final = 2**20  # bytes passed over at once


def texts_of(stream: BinaryIO, name: str, wanted: frozenset[str], most: int) -> dict[str, bytes]:
    """Return the wanted texts by their keywords; `name` is the file's, for errors, and `most` the bytes of a text."""
    found: dict[str, bytes] = {}
    for kind, length in _chunks(stream, name):
        if kind not in _TEXTS:
            _pass_over(stream, length)
            _pass_over(stream, _CRC.size)
        elif length > most:
            raise DamagedFile(name, f"has a text of {length:,} bytes in it, and more than {most:,} are not read")
        else:
            keyword, _, rest = _whole(stream, kind, length, name).partition(b"\0")
            key = keyword.decode("latin-1").lower()
            if key in wanted:
                found.setdefault(key, _read(kind, rest, name, most))
    return found


def _whole(stream: BinaryIO, kind: bytes, length: int, name: str) -> bytes:
    """Return what a chunk holds, if it is what was written there."""
    data, crc = stream.read(length), stream.read(_CRC.size)
    if len(crc) < _CRC.size:
        raise DamagedFile(name, CUT_OFF)
    if _CRC.unpack(crc)[0] != zlib.crc32(data, zlib.crc32(kind)):
        raise DamagedFile(name, "has a damaged text in it: it is not what its checksum says")
    return data


def _chunks(stream: BinaryIO, name: str) -> Iterator[tuple[bytes, int]]:
    """Yield the kind and the length of each chunk; whoever asks reads it."""
    stream.read(len(SIGNATURE))
    for _ in range(MOST_CHUNKS):
        head = stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            raise DamagedFile(name, CUT_OFF)
        length, kind = _HEAD.unpack(head)
        if kind == b"IEND":
            return
        yield kind, length
    raise DamagedFile(name, f"has more than {MOST_CHUNKS:,} chunks, as no picture has")


def _pass_over(stream: BinaryIO, length: int) -> None:
    while length > 0 and (gone := len(stream.read(min(length, _STEP)))):
        length -= gone


def _read(kind: bytes, rest: bytes, name: str, most: int) -> bytes:
    """Return the text of a chunk, after its keyword."""
    if kind == b"tEXt":
        return rest
    if kind == b"zTXt":
        return _inflated(rest[1:], name, most)
    packed = rest[:1] == b"\1"
    _, _, said = rest[2:].partition(b"\0")  # after the language …
    _, _, said = said.partition(b"\0")  # … and the keyword in it
    return _inflated(said, name, most) if packed else said


def _inflated(data: bytes, name: str, most: int) -> bytes:
    reader = zlib.decompressobj()
    try:
        text = reader.decompress(data, most)
    except zlib.error as error:
        raise DamagedFile(name, f"has a damaged text in it ({error})") from None
    if reader.unconsumed_tail:
        raise DamagedFile(name, f"has a text in it that inflates beyond {most:,} bytes, as only a bomb does")
    return text
