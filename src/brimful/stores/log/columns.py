"""Write rows by column, so that similar values stand together and compress well.

A column is packed by its values, not by its type, so fields can be added to structs without a new format.
"""

import struct
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from operator import attrgetter, sub
from typing import Any, Final, Literal

import msgspec

from brimful.core.content import Flex
from brimful.core.tokens import Count
from brimful.errors import InvalidRecord

_FLOAT_BYTES: Final = 8
_STRUCTS: Final[tuple[set[type], ...]] = ({Count}, {Flex})  # types of values that are packed by field, like rows

Form = Literal["raw", "deltas", "floats", "rows", "mixed"]
Column = tuple[Form, Any, bytes]
"""The form of a column, its values without None, and for each row whether it has one (empty if all have)."""


def pack_fields(
    values: Sequence[msgspec.Struct], defaults: Mapping[str, object], **replaced: Sequence[Any]
) -> dict[str, Column]:
    """Pack structs by field. Defaults are left out, as they are in JSON. Some columns are replaced by other values.

    Whole columns are read, because a context has hundreds of values.
    """
    columns = dict(replaced)
    for field, default in defaults.items():
        if field not in columns:
            column = [None if value is default else value for value in map(attrgetter(field), values)]
            if column.count(None) < len(column):
                columns[field] = column
    return {field: pack(column) for field, column in columns.items()}


def unpack_rows(columns: Mapping[str, Column], count: int) -> list[dict[str, Any]]:
    """Return the rows, without fields that are None."""
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for field, column in columns.items():
        values = unpack(column)
        if len(values) != count:
            raise InvalidRecord("context", f"its record is damaged: a column has {len(values)} values, not {count}")
        for row, value in zip(rows, values, strict=True):
            if value is not None:
                row[field] = value
    return rows


def pack(values: Sequence[Any]) -> Column:
    r"""Pack a column.

    >>> pack([1, 2, 3, 4]), pack(["a", None, "b"])
    (('deltas', [1, 1, 1, 1], b''), ('raw', ['a', 'b'], b'\x01\x00\x01'))
    """
    if None not in values:  # as in most columns
        return *_pack_present(values), b""
    present = [value for value in values if value is not None]
    return *_pack_present(present), bytes([value is not None for value in values])


def unpack(column: Column) -> list[Any]:
    r"""Return the values of a column.

    >>> unpack(("deltas", [1, 1, 1, 1], b"")), unpack(("raw", ["a", "b"], b"\x01\x00\x01"))
    ([1, 2, 3, 4], ['a', None, 'b'])
    """
    form, data, mask = column
    try:
        values = _unpack_present(form, data)
        following = iter(values)
        return [next(following) if each else None for each in mask] if mask else values
    except (AttributeError, StopIteration, TypeError, ValueError, struct.error) as error:
        raise InvalidRecord("context", f"its record is damaged: {error!r} in a column") from None


def _pack_present(values: Sequence[Any]) -> tuple[Form, Any]:
    types = set(map(type, values))
    if types == {int}:
        deltas = [values[0], *map(sub, values[1:], values)]
        return ("deltas", deltas) if len(set(deltas)) < len(set(values)) else ("raw", values)
    if types == {float}:
        data = struct.pack(f"<{len(values)}d", *values)
        return "floats", b"".join(data[byte::_FLOAT_BYTES] for byte in range(_FLOAT_BYTES))  # like bytes together
    if types in _STRUCTS:
        return "rows", {field: pack(list(map(attrgetter(field), values))) for field in values[0].__struct_fields__}
    if types == {dict} and values[0] and len(set(map(tuple, values))) == 1:
        return "rows", {field: pack([value[field] for value in values]) for field in values[0]}
    if int in types:
        numbers = [value if type(value) is int else None for value in values]
        return "mixed", (pack(numbers), pack([value if type(value) is not int else None for value in values]))
    return "raw", values


def _unpack_present(form: Form, data: Any) -> list[Any]:
    match form:
        case "deltas":
            return list(accumulate(data))
        case "floats":
            count = len(data) // _FLOAT_BYTES
            rows = zip(*(data[byte * count : (byte + 1) * count] for byte in range(_FLOAT_BYTES)), strict=True)
            return list(struct.unpack(f"<{count}d", bytes(chain.from_iterable(rows))))
        case "rows":
            columns = zip(*map(unpack, data.values()), strict=True)
            return [dict(zip(data, values, strict=True)) for values in columns]
        case "mixed":
            numbers, others = map(unpack, data)
            return [other if number is None else number for number, other in zip(numbers, others, strict=True)]
        case _:
            return list(data)
