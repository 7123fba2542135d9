"""A file that was compressed by gzip, as it is read. One that swells like a bomb is given up where that shows."""

import gzip
import io
from typing import Any, BinaryIO, Final, cast

from brimful.importers.archive import SWELLING
from brimful.importers.pieces import CHUNK

HARMLESS: Final = 8 * 2**20  # bytes that may swell as they like: reading more, line by line, takes long
_MAGIC: Final = b"\x1f\x8b"


def inflated(file: BinaryIO) -> BinaryIO:
    """Return what a file holds: as it is, or inflated if it is compressed."""
    magic = file.read(len(_MAGIC))
    file.seek(0)
    return cast("BinaryIO", io.BufferedReader(_Inflating(file), CHUNK)) if magic == _MAGIC else file


class _Inflating(io.RawIOBase):
    """Measures each block that is inflated."""

    def __init__(self, packed: BinaryIO) -> None:
        self._packed = packed
        self._inflated = gzip.GzipFile(fileobj=packed)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._inflated.seek(offset, whence)

    def tell(self) -> int:
        return self._inflated.tell()

    def readinto(self, buffer: Any) -> int:
        data = self._inflated.read1(len(buffer))  # what stands before damage is given first
        buffer[: len(data)] = data
        if self.tell() > HARMLESS and self.tell() > SWELLING * max(1, self._packed.tell()):
            raise OSError(f"it swells to more than {SWELLING} times its size, as only a bomb does")
        return len(data)
