"""Values are validated when they enter."""

import pytest

from brimful.core.validation import decode_json, find_duplicate_key, require_calendar_time, require_json_object
from brimful.errors import InvalidPackage, InvalidValue


def test_a_time_of_the_calendar_is_a_float():
    assert require_calendar_time("at", 1_700_000_000) == 1_700_000_000.0


def test_milliseconds_are_refused_with_advice():
    with pytest.raises(InvalidPackage, match=r"at: .* must be in seconds since 1970, not in milliseconds"):
        require_calendar_time("at", 1_700_000_000_000)


def test_the_error_is_the_caller_s():
    with pytest.raises(InvalidValue, match="must be a finite number of seconds"):
        require_calendar_time("at", float("nan"), InvalidValue)


def test_json_is_decoded_from_text_and_bytes():
    assert decode_json('{"a": [1, null]}') == decode_json(b'{"a": [1, null]}') == {"a": [1, None]}


@pytest.mark.parametrize("data", ['"a\\ud800b"', b'"a\\ud800b"'])
def test_lone_surrogates_are_replaced(data):
    assert decode_json(data) == "a\ufffdb"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'"\xff"', "is not UTF-8 text: invalid start byte"),
        (b'"\\ud800\xff"', "is not JSON: "),
        ("[" * 100_000, "is nested more than 128 levels deep"),
        ("[" * 129 + "]" * 129, "is nested more than 128 levels deep"),
        ('["\\ud800", ' + "[" * 100_000, "is not JSON: "),
        ('{"a": NaN}', "is not JSON: "),
        ('["\\ud800", NaN]', "is not JSON: "),
        ('["\\ud800", ', "is not JSON: "),
        ("", "is not JSON: "),
    ],
)
def test_anything_else_is_an_error_that_says_why(data, reason):
    with pytest.raises(ValueError, match=reason):
        decode_json(data)


def test_nesting_up_to_the_limit_is_decoded():
    assert decode_json("[" * 128 + "]" * 128)


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (b'{"a": 1, "b": {"a": 2}}', None),
        (b'{"a": ":::", "b:": "{\\"a\\":1,\\"a\\":2}"}', None),
        (b'{"a": "\\u003a"}', None),
        (b'{"a": 123456789012345678901234567890}', None),
        (b'{"a": "\\ud800", "b": 1}', None),
        (b'{"a": 1, "a": 1}', "a"),
        (b'[{"b": {"c": [], "c": {}}}]', "c"),
        (b'{"a": 1, "\\u0061": 2}', "a"),
        (b'{"a": "\\u003a", "b": 1, "b": 2}', "b"),
        (b'{"a": "\\\\u003a", "b": 1, "b": 2}', "b"),
        (b'{"a": 123456789012345678901234567890, "a": 1}', "a"),
        (b'{"a": "\\ud800", "a": 1}', "a"),
    ],
)
def test_duplicate_keys_are_found(data, key):
    assert find_duplicate_key(data, decode_json(data)) == key


def test_an_object_that_is_nested_too_deeply_is_refused():
    nested = {"a": 1}
    for _ in range(150):
        nested = {"a": nested}
    with pytest.raises(InvalidPackage, match="nested more than 128 levels deep"):
        require_json_object("metadata", nested)
