"""Read an image's size from the first bytes of its base64 data: PNG, GIF, JPEG, WebP."""

import base64
import binascii
import struct
from typing import Final

_HEADER_BYTES: Final = 65_536  # a JPEG's size may stand behind an embedded thumbnail
_START_OF_FRAME: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # JPEG markers that carry the size
_NO_LENGTH: Final = frozenset({0x01, *range(0xD0, 0xDA)})  # JPEG markers without a length

Size = tuple[int, int]


def read_dimensions(data: str) -> Size | None:
    """Return width and height in pixels, or None if the data does not say.

    >>> read_dimensions("R0lGODlhQAEgAQ==")
    (320, 288)
    """
    header = _decode(data)
    size = _png(header) or _gif(header) or _webp(header) or _jpeg(header)
    return size if size and all(size) else None


def _decode(data: str) -> bytes:
    encoded = data[: _HEADER_BYTES * 4 // 3 // 4 * 4]
    try:
        return base64.b64decode(encoded)
    except (binascii.Error, ValueError):
        return b""


def _png(header: bytes) -> Size | None:
    if not header.startswith(b"\x89PNG\r\n\x1a\n") or len(header) < 24:  # noqa: PLR2004 - where IHDR's size ends
        return None
    width, height = struct.unpack(">II", header[16:24])
    return width, height


def _gif(header: bytes) -> Size | None:
    if not header.startswith((b"GIF87a", b"GIF89a")) or len(header) < 10:  # noqa: PLR2004 - where the size ends
        return None
    width, height = struct.unpack("<HH", header[6:10])
    return width, height


def _webp(header: bytes) -> Size | None:
    if header[:4] != b"RIFF" or header[8:12] != b"WEBP" or len(header) < 30:  # noqa: PLR2004 - the longest form
        return None
    match header[12:16]:
        case b"VP8X":
            return int.from_bytes(header[24:27], "little") + 1, int.from_bytes(header[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(header[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack("<HH", header[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return None


def _jpeg(header: bytes) -> Size | None:
    if not header.startswith(b"\xff\xd8"):
        return None
    at = 2
    while at + 9 <= len(header) and header[at] == 0xFF:  # noqa: PLR2004 - every marker begins with FF
        marker = header[at + 1]
        if marker in _START_OF_FRAME:
            height, width = struct.unpack(">HH", header[at + 5 : at + 9])
            return width, height
        at += 2 if marker in _NO_LENGTH else 2 + int.from_bytes(header[at + 2 : at + 4])
    return None
