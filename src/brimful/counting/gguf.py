"""Read the metadata of a GGUF file: the vocabulary and the chat template. The weights are never read.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, read 2026-11.
"""

import hashlib
import mmap
import struct
from pathlib import Path
from typing import Any, Final

from brimful.errors import CountingError

_HEADER: Final = "<4sIQQ"  # magic, version, number of tensors, number of fields
_NUMBERS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING: Final = 8
_ARRAY: Final = 9


def read_metadata(file: Path) -> tuple[dict[str, Any], bytes]:
    """Return the fields of a GGUF file by name, and a digest of them."""
    try:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            reader = _Reader(data, file)
            return reader.fields(), reader.digest()
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise CountingError(f"cannot read {file}: {error}") from error
    except (struct.error, KeyError, UnicodeDecodeError, RecursionError) as error:
        raise CountingError(f"{file} is not a valid GGUF file") from error


class _Reader:
    """Reads one field after the other."""

    def __init__(self, data: mmap.mmap, file: Path) -> None:
        self._data = data
        self._at = struct.calcsize(_HEADER)
        magic, version, _, self._count = struct.unpack_from(_HEADER, data)
        if magic != b"GGUF":
            raise CountingError(f"{file} is not a GGUF file")
        if version < 2:  # noqa: PLR2004 - the first version had shorter lengths, and nobody uses it
            raise CountingError(f"{file} is a GGUF file of version {version}; version 2 or later is needed")

    def fields(self) -> dict[str, Any]:
        return {self._string(): self._value(self._number("I")) for _ in range(self._count)}

    def digest(self) -> bytes:
        return hashlib.sha256(self._data[: self._at]).digest()

    def _value(self, type: int) -> Any:
        if type == _STRING:
            return self._string()
        if type != _ARRAY:
            return self._number(_NUMBERS[type])
        inner, count = self._number("I"), self._number("Q")
        if inner in (_STRING, _ARRAY):
            return [self._value(inner) for _ in range(count)]
        return list(self._numbers(_NUMBERS[inner], count))

    def _number(self, format: str) -> Any:
        return self._numbers(format, 1)[0]

    def _numbers(self, format: str, count: int) -> tuple[Any, ...]:
        size = struct.calcsize(f"<{format}") * count
        if size > len(self._data) - self._at:
            raise struct.error
        values = struct.unpack_from(f"<{count}{format}", self._data, self._at)
        self._at += size
        return values

    def _string(self) -> str:
        length = self._number("Q")
        if length > len(self._data) - self._at:
            raise struct.error
        self._at += length
        return self._data[self._at - length : self._at].decode()
