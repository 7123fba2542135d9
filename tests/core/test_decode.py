"""JSON from untrusted sources: a value, or one clear ValueError."""

import pytest

from brimful.core.decode import decode_json


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
