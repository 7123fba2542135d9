import datetime as dt
import math

import msgspec
import pytest

from brimful import ContentPackage, Count, Flex, InvalidPackage, Media, Text, ToolCall, ToolResult
from brimful.core.content import KNOWN_KINDS, clean_text, content_hashes

ONE = Count(tokens=1, basis="exact")


def make(**changes):
    return ContentPackage(**{"id": "a", "kind": "message-recent", "content": "hi", "tokens": ONE} | changes)


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("id", {"id": ""}),
        ("kind", {"kind": ""}),
        ("tokens", {"tokens": None}),
        ("tokens", {"tokens": 7}),
        ("importance", {"importance": 1.01}),
        ("importance", {"importance": -0.01}),
        ("importance", {"importance": math.nan}),
        ("importance", {"importance": "high"}),
        ("importance", {"importance": True}),
        ("relevance", {"relevance": math.inf}),
        ("relevance", {"relevance": 2}),
        ("timestamp", {"timestamp": math.nan}),
        ("timestamp", {"timestamp": math.inf}),
        ("timestamp", {"timestamp": "yesterday"}),
        ("content", {"content": "lone \ud800 surrogate"}),
        ("content", {"content": 12}),
        ("content", {"content": None}),
        ("content", {"role": "tool"}),
        ("content", {"kind": "tool-result", "content": (Text(text="x"),)}),
        ("position", {"position": "first"}),
        ("name", {"name": 7}),
        ("group", {"group": 7}),
        ("role", {"role": "wizard"}),
        ("role", {"content": (ToolResult(id="c", content="x"),)}),
        ("role", {"content": (ToolCall(id="c", name="f"),), "role": "user"}),
    ],
)
def test_refuses_out_of_range_values_by_name(field, changes):
    with pytest.raises(InvalidPackage) as caught:
        make(**changes)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


@pytest.mark.parametrize("priority", [0, 11, -1, 5.5, None, True])
def test_refuses_a_priority_outside_one_to_ten(priority):
    with pytest.raises(InvalidPackage, match=r"^flex\.priority"):
        Flex(priority=priority)


@pytest.mark.parametrize("least", [0, -4, 1.5])
def test_refuses_a_minimum_that_is_none(least):
    with pytest.raises(InvalidPackage, match=r"^flex\.min_tokens"):
        Flex(min_tokens=least)


@pytest.mark.parametrize("tokens", [-1, 1.5, None, math.nan, True])
def test_refuses_counts_that_are_none(tokens):
    with pytest.raises(InvalidPackage, match=r"^tokens"):
        Count(tokens=tokens, basis="exact")


def test_refuses_a_negative_margin():
    with pytest.raises(InvalidPackage, match=r"^tokens\.margin"):
        Count(tokens=1, margin=-1, basis="calibrated")


@pytest.mark.parametrize(
    "media", [{}, {"url": "u", "data": "d"}, {"url": "u", "width": 0}, {"url": "u", "seconds": math.nan}]
)
def test_refuses_media_that_are_nowhere_or_have_no_size(media):
    with pytest.raises(InvalidPackage, match=r"^content"):
        Media(modality="image", **media)


def test_metadata_becomes_plain_data_of_its_own():
    given = {"when": dt.date(2026, 11, 1), "pair": (1, 2), "odd": math.nan}
    package = make(metadata=given)
    given["when"] = "changed"
    assert package.metadata == {"when": "2026-11-01", "pair": [1, 2], "odd": None}


def test_refuses_metadata_that_cannot_be_recorded():
    cycle = {}
    cycle["self"] = cycle
    for bad in (cycle, {"f": print}, {"text": "\ud800"}):
        with pytest.raises(InvalidPackage, match=r"^metadata"):
            make(metadata=bad)


def test_any_string_is_a_kind():
    assert make(kind="weather-report").kind == "weather-report"
    assert "code-snippet" in KNOWN_KINDS


def test_values_are_equal_by_content_and_survive_json():
    package = make(content=(Text(text="see"), Media(modality="image", url="u", width=3, height=4)), relevance=0.25)
    again = msgspec.json.decode(msgspec.json.encode(package), type=ContentPackage)
    assert again == package
    assert again.hash == package.hash


def test_text_and_parts_are_two_views_of_one_content():
    assert make().parts == (Text(text="hi"),)
    assert make(content=(Text(text="a"), Media(modality="image", url="u"), Text(text="b"))).text == "a\nb"


def test_normalized_hash_ignores_case_form_and_spacing_only():
    def normalized(text):
        return content_hashes(text)[1]

    assert normalized("The  CAF\u00c9\n") == normalized("the cafe\u0301")
    assert normalized("one") != normalized("two")
    parts = (Text(text="A  b"), Media(modality="image", url="u"))
    assert content_hashes(parts)[1] == content_hashes((Text(text="a b"), parts[1]))[1]
    assert content_hashes(parts)[1] != content_hashes((Text(text="a b"), Media(modality="image", url="v")))[1]


def test_clean_text_replaces_lone_surrogates_and_nothing_else():
    assert clean_text("ok \U0001f600 \udc00!") == "ok \U0001f600 \ufffd!"
    assert clean_text("plain") == "plain"


def test_exactness_is_in_the_count():
    assert Count(tokens=3, basis="provider").exact
    assert not Count(tokens=3, basis="approximate").exact
