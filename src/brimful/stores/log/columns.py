"""Pack lists of similar values by column, so that what repeats is written once and the rest compresses well.

A column is packed by its values, not by its type, so fields can be added to structs without a new format.
"""

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate, chain, pairwise, repeat
from operator import attrgetter, is_
from typing import Any, Final

import msgspec

from brimful.errors import InvalidRecord

_RAW, _SAME, _CODES, _DELTAS, _FLOATS, _MICROSECONDS, _ROWS, _OPTIONAL, _SPARSE = range(9)
_MAX_CODES: Final = 256
_MILLION: Final = 1_000_000
_MAX_EXACT: Final = 2**53
_NONE: Final = type(None)
_ABSENT: Final = object()

Packed = list[Any]
"""The form of a column, and its data."""


def pack_rows(rows: Sequence[Mapping[str, Any]], without: Collection[str] = ()) -> dict[str, Packed]:
    """Pack rows of fields by field. A field may be absent from some rows: structs omit their defaults."""
    fields = dict.fromkeys(chain.from_iterable(dict.fromkeys(map(tuple, rows))))
    return {field: _pack_sparse([row.get(field, _ABSENT) for row in rows]) for field in fields if field not in without}


def pack_structs(items: Sequence[msgspec.Struct], without: Collection[str] = ()) -> dict[str, Packed]:
    """Pack structs of one type by field, without the values that they omit when they are encoded."""
    kind = type(items[0]) if items else msgspec.Struct
    fields = [field for field in kind.__struct_fields__ if field not in without]
    columns = {field: list(map(attrgetter(field), items)) for field in fields}
    if not kind.__struct_config__.omit_defaults:
        return {field: pack(columns[field]) for field in fields}
    defaults = _defaults(kind)
    shown = {field: _hide_default(columns[field], *defaults[field]) for field in fields}
    return {field: _pack_sparse(values) for field, values in shown.items() if values is not None}


def unpack_rows(packed: Mapping[str, Packed], count: int) -> list[dict[str, Any]]:
    """Return the fields of each row."""
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for field, column in packed.items():
        for row, value in zip(rows, unpack(column, count), strict=True):
            if value is not _ABSENT:
                row[field] = value
    return rows


def pack(values: Sequence[Any]) -> Packed:
    r"""Pack a column.

    >>> pack([7, 7, 7]), pack([1, 2, 3, 4]), pack(["a", "b", "a", "a"])
    ([1, 7], [3, [1, 1, 1, 1]], [2, ['a', 'b'], b'\x00\x01\x00\x00'])
    """
    if not values:
        return [_RAW, []]
    if all(map(is_, values, repeat(values[0]))):  # the usual case
        return [_SAME, values[0]]
    types = set(map(type, values))
    if len(types) > 1 and _NONE in types:
        return [_OPTIONAL, *_pack_present(values, None)]
    (kind,) = types if len(types) == 1 else (object,)
    if issubclass(kind, msgspec.Struct):
        return [_ROWS, pack_structs(values)]
    return _PACKERS.get(kind, _pack_others)(values)


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


def _hide_default(values: list[Any], default: object, factory: object) -> list[Any] | None:
    """Replace values that are omitted; return None if all are. The rules are those of msgspec: identity, or empty."""
    if factory is not msgspec.NODEFAULT:
        omitted = [not value and type(value) is factory for value in values]
    else:
        omitted = list(map(is_, values, repeat(default)))
    if all(omitted):
        return None
    return [_ABSENT if gone else value for gone, value in zip(omitted, values, strict=True)] if any(omitted) else values


def _pack_sparse(values: Sequence[Any]) -> Packed:
    absent = any(map(is_, values, repeat(_ABSENT)))
    return [_SPARSE, *_pack_present(values, _ABSENT)] if absent else pack(values)


def _pack_present(values: Sequence[Any], missing: object) -> tuple[bytes, Packed]:
    bits = int("1" + "".join(["0" if value is missing else "1" for value in values]), 2)
    return bits.to_bytes((bits.bit_length() + 7) // 8, "big"), pack([value for value in values if value is not missing])


def _pack_integers(values: Sequence[int]) -> Packed:
    distinct = len(set(values))
    if distinct == 1:
        return [_SAME, values[0]]
    deltas = _deltas(values)
    return [_DELTAS, deltas] if len(set(deltas)) < distinct else [_RAW, list(values)]


def _pack_floats(values: Sequence[float]) -> Packed:
    distinct = len(set(values))
    if distinct == 1 or 4 * distinct <= len(values):
        return _pack_codes([struct.pack("<d", value) for value in values], values)  # 0.0 is equal to -0.0
    if all(-_MAX_EXACT < value * _MILLION < _MAX_EXACT for value in values):
        numbers = [round(value * _MILLION) for value in values]
        if all(map(_is_exact, numbers, values)):
            return [_MICROSECONDS, _deltas(numbers)]
    data = struct.pack(f"<{len(values)}d", *values)
    return [_FLOATS, b"".join(data[byte::8] for byte in range(8))]  # bytes of like weight together


def _is_exact(number: int, value: float) -> bool:
    return number / _MILLION == value and (number != 0 or str(value) == "0.0")


def _unpack_floats(data: bytes) -> list[float]:
    count = len(data) // 8
    mixed = bytearray(len(data))
    for byte in range(8):
        mixed[byte::8] = data[byte * count : (byte + 1) * count]
    return list(struct.unpack(f"<{count}d", mixed))


def _pack_codes(keys: Sequence[Any], values: Sequence[Any]) -> Packed:
    """Replace values by numbers if few are distinct. Equal values have equal keys."""
    distinct = dict(zip(keys, values, strict=True))
    if len(distinct) == 1:
        return [_SAME, values[0]]
    if 2 * len(distinct) > len(values) or len(distinct) > _MAX_CODES:
        return [_RAW, list(values)]
    codes = {key: code for code, key in enumerate(distinct)}
    return [_CODES, list(distinct.values()), bytes(map(codes.__getitem__, keys))]


def _deltas(values: Sequence[int]) -> list[int]:
    return [values[0], *(after - before for before, after in pairwise(values))]


def _pack_dictionaries(values: Sequence[Mapping[str, Any]]) -> Packed:
    same = all(each.keys() == values[0].keys() for each in values)
    return [_ROWS, pack_rows(values)] if same and values[0] else _pack_others(values)


def _pack_others(values: Sequence[Any]) -> Packed:
    encoded = list(map(msgspec.msgpack.encode, values))
    return _pack_codes(encoded, list(map(msgspec.Raw, encoded)))


def _unpack_present(missing: object, bits: bytes, column: Packed) -> list[Any]:
    mask = f"{int.from_bytes(bits, 'big'):b}"[1:]
    values = iter(unpack(column, mask.count("1")))
    return [next(values) if each == "1" else missing for each in mask]


_PACKERS: Final[dict[type, Callable[[Sequence[Any]], Packed]]] = {
    int: _pack_integers,
    float: _pack_floats,
    str: lambda values: _pack_codes(values, values),
    bool: lambda values: _pack_codes(values, values),
    dict: _pack_dictionaries,
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
