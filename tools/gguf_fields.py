"""Read what a GGUF file says of itself, quickly: the `gguf` package takes half a minute for a large vocabulary."""

import struct
from pathlib import Path
from typing import Any, Final

from gguf import GGUFValueType as Type

_HEADER: Final = "<4sIQQ"  # magic, version, how many tensors, how many fields
_FORMATS: Final = {
    Type.UINT8: "B",
    Type.INT8: "b",
    Type.UINT16: "H",
    Type.INT16: "h",
    Type.UINT32: "I",
    Type.INT32: "i",
    Type.FLOAT32: "f",
    Type.BOOL: "?",
    Type.UINT64: "Q",
    Type.INT64: "q",
    Type.FLOAT64: "d",
}


class Fields(dict[str, tuple[Any, Type, Type | None]]):
    """The fields of a file by name: each its value, its type, and for a list the type of what is in it."""

    def __init__(self, file: Path) -> None:
        """Read them all."""
        super().__init__()
        self._bytes = file.read_bytes()
        self._at = struct.calcsize(_HEADER)
        *_, count = struct.unpack_from(_HEADER, self._bytes)
        for _ in range(count):
            name, type = self._text(), Type(self._number("I"))
            inner = Type(self._number("I")) if type is Type.ARRAY else None
            self[name] = self._value(type, inner), type, inner

    def _value(self, type: Type, inner: Type | None) -> Any:
        if inner is not None:
            return [self._value(inner, None) for _ in range(self._number("Q"))]
        return self._text() if type is Type.STRING else self._number(_FORMATS[type])

    def _number(self, format: str) -> Any:
        (value,) = struct.unpack_from(f"<{format}", self._bytes, self._at)
        self._at += struct.calcsize(f"<{format}")
        return value

    def _text(self) -> str:
        length = self._number("Q")
        self._at += length
        return self._bytes[self._at - length : self._at].decode()
