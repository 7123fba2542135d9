"""Overflow is recognised in every form, old and new, and nothing else is taken for it.

The files hold what servers say: `overflows.jsonl` with the numbers that are in it, `others.jsonl` what is no overflow.
"""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.providers import Overflow, find_overflow
from brimful.wires.errors import parse_error_body

DATA = Path(__file__).parent / "data"


def load_errors(file):
    entries = [json.loads(line) for line in (DATA / file).read_text(encoding="utf-8").splitlines()]
    return [pytest.param(entry, id=entry["of"]) for entry in entries]


def body_of(says):
    return says.encode() if isinstance(says, str) else json.dumps(says).encode()


def too_long(prompt, window):
    return body_of({"error": {"message": f"prompt is too long: {prompt} tokens > {window} maximum"}})


def without_quote(overflow):
    return msgspec.structs.replace(overflow, quote="")


@pytest.mark.parametrize("entry", load_errors("overflows.jsonl"))
def test_an_overflow_is_recognized_with_its_numbers(entry):
    assert without_quote(find_overflow(entry["status"], body_of(entry["says"]))) == Overflow(**entry["told"])


@pytest.mark.parametrize("entry", load_errors("overflows.jsonl"))
def test_an_overflow_in_a_stream_is_recognized(entry):
    assert without_quote(find_overflow(None, body_of(entry["says"]))) == Overflow(**entry["told"])


@pytest.mark.parametrize("entry", load_errors("others.jsonl"))
def test_other_errors_are_not_overflows(entry):
    assert find_overflow(entry["status"], body_of(entry["says"])) is None


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.sampled_from([",", "_", ".", "'", "\u202f", "\u00a0"]))
def test_numbers_of_any_size_are_parsed(prompt, window, sign):
    written = [f"{number:,}".replace(",", sign) for number in (prompt, window)]
    quote = "too long: {} tokens > {} maximum".format(*written)
    assert find_overflow(400, too_long(*written)) == Overflow(window=window, prompt=prompt, quote=quote)


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode), st.integers(100, 599) | st.none())
def test_any_error_body_can_be_parsed(body, status):
    assert find_overflow(status, body) is None


def test_only_the_beginning_of_a_huge_message_is_searched():
    body = body_of({"error": {"message": "x" * 5_000_000 + " prompt is too long"}})
    assert len(parse_error_body(body).message) == 4_000
    assert find_overflow(400, body) is None
