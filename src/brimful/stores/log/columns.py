"""Pack lists of similar values by column, so that what repeats is written once and the rest compresses well.

A column is packed by its values, not by its type, so fields can be added to structs without a new format.
"""

import struct
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate, islice, repeat
from math import isfinite
from operator import eq, is_, sub, truediv
from typing import Any, Final

import msgspec

from brimful.errors import InvalidRecord

_RAW, _SAME, _CODES, _DELTAS, _FLOATS, _MICROSECONDS, _ROWS, _OPTIONAL, _SPARSE = range(9)
_MAX_DISTINCT: Final = 16  # values that are replaced by numbers
_MILLION: Final = 1_000_000
_MAX_EXACT: Final = 2**53
_OPTIONAL_NUMBERS: Final = ({int, type(None)}, {float, type(None)})
_ABSENT: Final = object()

Packed = list[Any]
"""The form of a column, and its data."""


def pack_structs(
    items: Sequence[msgspec.Struct], without: Collection[str] = (), **instead: Sequence[Any]
) -> dict[str, Packed]:
    """Pack structs of one type by field, without the values that they omit when they are encoded.

    `instead` are other values of some fields.
    """
    if not items:
        return {}
    kind = type(items[0])
    rows = map(msgspec.structs.astuple, items)
    columns: dict[str, Sequence[Any]] = dict(zip(kind.__struct_fields__, zip(*rows, strict=True), strict=True))
    columns |= instead
    if kind.__struct_config__.omit_defaults:
        packed = {
            name: _pack_field(columns[name], *rule) for name, rule in _defaults(kind).items() if name not in without
        }
        return {name: column for name, column in packed.items() if column is not None}
    return {name: pack(values) for name, values in columns.items() if name not in without}


def unpack_rows(packed: Mapping[str, Packed], count: int) -> list[dict[str, Any]]:
    """Return the fields of each row."""
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for field, column in packed.items():
        for row, value in zip(rows, unpack(column, count), strict=True):
            if value is not _ABSENT:
                row[field] = value
    return rows


def pack(values: Sequence[Any]) -> Packed:
    """Pack a column. What only repeats is left to compression.

    >>> pack([7, 7, 7]), pack([1, 2, 3, 4]), pack(["a", "b", "a"])
    ([1, 7], [3, [1, 1, 1, 1]], [0, ['a', 'b', 'a']])
    """
    if not values:
        return [_RAW, []]
    if all(map(is_, values, repeat(values[0]))):  # the usual case
        return [_SAME, values[0]]
    types = set(map(type, values))
    if types in _OPTIONAL_NUMBERS:
        return [_OPTIONAL, _pack_mask(values, None), pack([value for value in values if value is not None])]
    (kind,) = types if len(types) == 1 else (object,)
    if issubclass(kind, msgspec.Struct):
        return pack_few(values, list(map(id, values))) or [_ROWS, pack_structs(values)]
    return _PACKERS[kind](values) if kind in _PACKERS else [_RAW, values]


def pack_few(values: Sequence[Any], keys: Sequence[Hashable]) -> Packed | None:
    r"""Replace values by numbers if few are distinct: None otherwise. Equal values have equal keys.

    >>> pack_few(["a", "b", "a", "a"], ["a", "b", "a", "a"])
    [2, ['a', 'b'], b'\x00\x01\x00\x00']
    """
    distinct = dict(zip(keys, values, strict=True))
    if len(distinct) > _MAX_DISTINCT:
        return None
    codes = {key: code for code, key in enumerate(distinct)}
    return [_CODES, list(distinct.values()), bytes(map(codes.__getitem__, keys))]


def unpack(packed: Packed, count: int) -> list[Any]:
    r"""Return the values of a column.

    >>> unpack([3, [1, 1, 1, 1]], 4), unpack([2, ["a", "b"], b"\x00\x01\x00\x00"], 4)
    ([1, 2, 3, 4], ['a', 'b', 'a', 'a'])
    """
    form, *data = packed
    try:
        values: list[Any] = _UNPACKERS[form](*data) if form in _UNPACKERS else _UNPACKERS_BY_COUNT[form](*data, count)
    except (KeyError, IndexError, TypeError, ValueError, struct.error) as error:
        raise InvalidRecord("context", f"its record is damaged: {error!r} in a column") from None
    if len(values) != count:
        raise InvalidRecord("context", f"its record is damaged: a column has {len(values)} values, not {count}")
    return values


@cache
def _defaults(kind: type[msgspec.Struct]) -> dict[str, tuple[object, object]]:
    """Return the default of each field, and what makes it if it is empty and mutable."""
    return {field.name: (field.default, field.default_factory) for field in msgspec.structs.fields(kind)}


def _pack_field(values: Sequence[Any], default: object, factory: object) -> Packed | None:
    """Pack a field without the values that are omitted: None if all are. The rules of msgspec: identity, or empty."""
    if factory is not msgspec.NODEFAULT:
        values = [value if value or type(value) is not factory else default for value in values]
    present = [value for value in values if value is not default]
    if len(present) == len(values):
        return pack(values)
    return [_SPARSE, _pack_mask(values, default), pack(present)] if present else None


def _pack_mask(values: Sequence[Any], missing: object) -> bytes:
    bits = int("1" + "".join(["0" if value is missing else "1" for value in values]), 2)
    return bits.to_bytes((bits.bit_length() + 7) // 8, "big")


def _pack_integers(values: Sequence[int]) -> Packed:
    distinct = len(set(values))
    deltas = _deltas(values)
    return [_DELTAS, deltas] if len(set(deltas)) < distinct else [_RAW, values]


def _pack_floats(values: Sequence[float]) -> Packed:
    if len(set(values)) * 4 <= len(values):
        return [_RAW, values]
    if isfinite(sum(values)) and min(values) * _MILLION > -_MAX_EXACT and max(values) * _MILLION < _MAX_EXACT:
        numbers = [round(value * _MILLION) for value in values]
        is_exact = all(map(eq, values, map(truediv, numbers, repeat(_MILLION))))
        if is_exact and not (0 in numbers and "-0.0" in map(str, values)):
            return [_MICROSECONDS, _deltas(numbers)]
    data = struct.pack(f"<{len(values)}d", *values)
    return [_FLOATS, b"".join(data[byte::8] for byte in range(8))]  # bytes of like weight together


def _unpack_floats(data: bytes) -> list[float]:
    count = len(data) // 8
    mixed = bytearray(len(data))
    for byte in range(8):
        mixed[byte::8] = data[byte * count : (byte + 1) * count]
    return list(struct.unpack(f"<{count}d", mixed))


def _deltas(values: Sequence[int]) -> list[int]:
    return [values[0], *map(sub, islice(values, 1, None), values)]


def _unpack_present(missing: object, bits: bytes, column: Packed) -> list[Any]:
    mask = f"{int.from_bytes(bits, 'big'):b}"[1:]
    values = iter(unpack(column, mask.count("1")))
    return [next(values) if each == "1" else missing for each in mask]


_PACKERS: Final[dict[type, Callable[[Sequence[Any]], Packed]]] = {
    int: _pack_integers,
    float: _pack_floats,
}
_UNPACKERS: Final[dict[int, Callable[..., list[Any]]]] = {
    _RAW: list,
    _CODES: lambda values, codes: [values[code] for code in codes],
    _DELTAS: lambda deltas: list(accumulate(deltas)),
    _FLOATS: _unpack_floats,
    _OPTIONAL: partial(_unpack_present, None),
    _SPARSE: partial(_unpack_present, _ABSENT),
    _MICROSECONDS: lambda deltas: [number / _MILLION for number in accumulate(deltas)],
}
_UNPACKERS_BY_COUNT: Final[dict[int, Callable[..., list[Any]]]] = {
    _SAME: lambda value, count: [value] * count,
    _ROWS: unpack_rows,
}
