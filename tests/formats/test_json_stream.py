"""Splitting JSON before parsing: the pieces do not depend on the chunks."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.formats import json_stream
from brimful.formats.json_stream import (
    ARRAY_CUT_OFF,
    MISMATCHED_BRACKET,
    MISSING_KEY,
    TRAILING_DATA,
    iter_elements,
    iter_fields,
    iter_lines,
)
from brimful.formats.json_stream import OBJECT_CUT_OFF as UNENDED_OBJECT

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(['"', "\\", '\\"]', "[{,", "é\n"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


class Dripping(io.BytesIO):
    """A stream that gives a few bytes at a time, as a pipe may."""

    def __init__(self, data, size):
        super().__init__(data)
        self.size = size

    def read(self, size=-1):
        return super().read(min(self.size, size))


@given(st.lists(JSON, max_size=6), st.integers(1, 9), st.sampled_from([None, 2]), st.booleans())
def test_elements_are_those_of_a_parser(values, size, indent, ascii_only):
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_only)
    found = list(iter_elements(Dripping(text.encode(), size), max_bytes=1000))
    assert [number for number, _ in found] == list(range(len(values)))
    assert [json.loads(piece) for _, piece in found] == values


TRICKY = [
    {"a": [{"b": 1}, {"c": "}, {"}]},
    {"d": "},{"},
    [{"e": 2}, {"f": "\\"}],
    "}, {",
    {"g": {"h": []}},
    7,
    {"i": 3},
]


@given(st.lists(st.sampled_from(TRICKY), min_size=1, max_size=9), st.integers(1, 200), st.sampled_from([None, 1]))
def test_elements_are_those_of_a_parser_wherever_objects_seem_to_end(values, chunk, indent):
    text = json.dumps(values, indent=indent)
    found = list(iter_elements(io.BytesIO(text.encode()), max_bytes=1000, chunk_bytes=chunk))
    assert [(number, json.loads(piece)) for number, piece in found] == list(enumerate(values))


def test_damage_among_objects_costs_only_itself():
    data = b'[{"a": 1}, {"b": tru}, {"c": 3}, {"d": ' + b"1" * 40 + b'}, {"e": 5}]'
    found = list(iter_elements(io.BytesIO(data), max_bytes=32))
    assert [piece for _, piece in found] == [
        *(b'{"a": 1}', b'{"b": tru}', b'{"c": 3}', json_stream.too_long_message(32), b'{"e": 5}'),
    ]


@given(st.lists(JSON, min_size=1, max_size=5), st.data())
def test_an_array_that_does_not_end_says_so_after_whole_elements(values, data):
    text = json.dumps(values)
    cut = data.draw(st.integers(1, len(text) - 1))
    *whole, (_, last) = iter_elements(io.BytesIO(text[:cut].encode()), max_bytes=1000)
    assert last == ARRAY_CUT_OFF
    for (_, piece), value in zip(whole[:-1], values, strict=False):
        assert json.loads(piece) == value


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"[]", []),
        (b" [ ] ", []),
        (b"[1,]", [(0, b"1")]),
        (b"[1,,2]", [(0, b"1"), (1, b""), (2, b"2")]),
        (b"[1] [2]", [(0, b"1"), (1, TRAILING_DATA)]),
        (b"[1]]", [(0, b"1"), (1, TRAILING_DATA)]),
        (b'[{"a": ]}, 2]', [(0, b'{"a": ]'), (1, MISMATCHED_BRACKET)]),
        (b"[1}", [(0, b"1"), (1, MISMATCHED_BRACKET)]),
        (b"[1, 2", [(0, b"1"), (1, b"2"), (2, ARRAY_CUT_OFF)]),
        (b'[1, {"a', [(0, b"1"), (1, ARRAY_CUT_OFF)]),
        (b"[", [(0, ARRAY_CUT_OFF)]),
        (b"", []),
    ],
)
def test_arrays_as_they_come(data, expected):
    assert list(iter_elements(io.BytesIO(data), max_bytes=100)) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"{}", []),
        (b'{"a": [1],}', [("a", 0, b"1")]),
        (b'{"a": [1, 2}', [("a", 0, b"1"), ("a", None, MISMATCHED_BRACKET), ("", None, UNENDED_OBJECT)]),
        (b'{"a": [1], "b": 3]', [("a", 0, b"1"), ("b", None, b"3"), ("", None, MISMATCHED_BRACKET)]),
        (b'{"a": 1, 7, "b": 2}', [("a", None, b"1"), ("", None, MISSING_KEY), ("b", None, b"2")]),
        (b'{"a": [1] 7}', [("a", 0, b"1"), ("", None, MISSING_KEY)]),
        (b'{"a": 1} {', [("a", None, b"1"), ("", None, TRAILING_DATA)]),
        (b'{"a": [1', [("a", None, UNENDED_OBJECT)]),
    ],
)
def test_objects_as_they_come(data, expected):
    assert list(iter_fields(io.BytesIO(data), 64, frozenset(["a"]))) == expected


def test_an_element_that_is_too_long_costs_itself_alone():
    data = json.dumps([1, "x" * 100 + '"]\\', {"a": ["y" * 100]}, 2]).encode()
    found = list(iter_elements(io.BytesIO(data), max_bytes=32, chunk_bytes=8))
    assert found == [(0, b"1"), (1, json_stream.too_long_message(32)), (2, json_stream.too_long_message(32)), (3, b"2")]


def test_a_line_that_is_too_long_costs_itself_alone():
    data = b"1\n" + b"x" * 100 + b"\n\r\n2\n" + b"y" * 100
    assert list(iter_lines(io.BytesIO(data), max_bytes=10)) == [
        (1, b"1"),
        (2, json_stream.too_long_message(10)),
        (4, b"2"),
        (5, json_stream.too_long_message(10)),
    ]


def test_deep_nesting_takes_no_more_than_its_bytes():
    assert list(iter_elements(io.BytesIO(b"[" * 200_000), max_bytes=2**20)) == [(0, ARRAY_CUT_OFF)]
