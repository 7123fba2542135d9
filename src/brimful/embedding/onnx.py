"""Just enough of the ONNX format (protocol buffers, see onnx.proto) to write a graph.

The `onnx` package can do this, but a dependency of 30 MB is too much for one graph that is written once.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    import numpy.typing as npt

IR_VERSION: Final = 9  # of the file
OPSET: Final = 20  # of the operators: the first one with Gelu

_VARINT, _BYTES, _FIXED32 = 0, 2, 5
_FLOAT, _INT8, _INT32, _INT64 = 1, 3, 6, 7  # TensorProto.DataType
_TYPES: Final = {"float32": _FLOAT, "int8": _INT8, "int32": _INT32, "int64": _INT64}
_A_FLOAT, _AN_INT, _INTS = 1, 2, 7  # AttributeProto.AttributeType


class Node(msgspec.Struct, frozen=True):
    """One operation: its operator, the names of its inputs and outputs, and its attributes."""

    operator: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    attributes: Mapping[str, float | Sequence[int]] = {}


def model(
    nodes: Iterable[Node], constants: Mapping[str, "npt.NDArray[Any]"], inputs: Mapping[str, Sequence[str | int]]
) -> bytes:
    """Serialize a model: its operations in order, its constants, and the shapes of its integer inputs.

    The first output of the last operation is the model's output, a float tensor.
    """
    operations = list(nodes)
    graph = b"".join(
        (
            *(_message(1, _node(node)) for node in operations),
            _text(2, "brimful"),
            *(_message(5, _tensor(name, array)) for name, array in constants.items()),
            *(_message(11, _value(name, _INT64, shape)) for name, shape in inputs.items()),
            _message(12, _value(operations[-1].outputs[0], _FLOAT, ("rows", "dims"))),
        )
    )
    return _number(1, IR_VERSION) + _text(2, "brimful") + _message(7, graph) + _message(8, _number(2, OPSET))


def _node(node: Node) -> bytes:
    names = [_text(1, name) for name in node.inputs] + [_text(2, name) for name in node.outputs]
    attributes = [_message(5, _attribute(name, value)) for name, value in node.attributes.items()]
    return b"".join((*names, _text(4, node.operator), *attributes))


def _attribute(name: str, value: float | Sequence[int]) -> bytes:
    if isinstance(value, float):
        return _text(1, name) + _tag(2, _FIXED32) + struct.pack("<f", value) + _number(20, _A_FLOAT)
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, _AN_INT)
    return _text(1, name) + b"".join(_number(8, item) for item in value) + _number(20, _INTS)


def _tensor(name: str, array: "npt.NDArray[Any]") -> bytes:
    sizes = b"".join(_number(1, size) for size in array.shape)
    data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return sizes + _number(2, _TYPES[array.dtype.name]) + _text(8, name) + _message(9, data)


def _value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    sizes = b"".join(_message(1, _text(2, size) if isinstance(size, str) else _number(1, size)) for size in shape)
    return _text(1, name) + _message(2, _message(1, _number(1, kind) + _message(2, sizes)))


def _message(field: int, content: bytes) -> bytes:
    return _tag(field, _BYTES) + _varint(len(content)) + content


def _text(field: int, content: str) -> bytes:
    return _message(field, content.encode())


def _number(field: int, value: int) -> bytes:
    return _tag(field, _VARINT) + _varint(value)


def _tag(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(value: int) -> bytes:
    r"""Encode an integer as a varint.

    >>> _varint(300)
    b'\xac\x02'
    """
    value &= (1 << 64) - 1
    written = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - the seven bits
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*written, value))
