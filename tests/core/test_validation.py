"""Values are checked where they come in."""

import pytest

from brimful.core.validation import decode_json, require_calendar_time
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
        ("[" * 100_000, "is not JSON: nested too deeply"),
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
