"""The features that calibration learns from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful import Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Tool
from brimful.counting.features import (
    CHARACTER_CLASSES,
    FEATURES,
    REQUEST_FEATURES,
    count_characters,
    request_features,
    sum_characters,
    weighted_sum,
)
from brimful.counting.regression import PRIOR_WIDTHS


def signs(text):
    return {name: count for name, count in zip(CHARACTER_CLASSES, count_characters([text])[0], strict=True) if count}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("plain words", {}),
        ("Tea at 17:30!", {"capitals": 1, "digits": 4, "punctuation": 2}),
        ("a\n\tb\r\n    c", {"newlines": 3, "indents": 2}),
        ("Größe, café", {"capitals": 1, "accents": 3, "punctuation": 1}),
        ("Привет", {"letters": 6}),
        ("नमस्ते", {"indic": 6}),
        ("— “x” …", {"symbols": 4}),
        ("ひらがな、", {"kana": 5}),
        ("水满则溢，", {"han": 4, "kana": 1}),
        ("안녕", {"hangul": 2}),
        ("🚀🎉", {"emoji": 2}),
        ("\ud800", {"punctuation": 1}),
    ],
)
def test_characters_are_classified_by_script(text, found):
    assert signs(text) == found


@given(st.lists(st.text()))
def test_sums_over_texts_are_sums_of_their_signs(texts):
    assert list(sum_characters(texts)) == [sum(column) for column in zip(*count_characters([*texts, ""]), strict=True)]


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_counts_of_joined_texts_add_up_except_for_pairs_of_spaces(one, other):
    apart, joined = sum_characters([one, other]), count_characters([one + other])[0]
    assert apart[:-1] == joined[:-1]


def test_a_text_is_counted_in_time_that_grows_with_its_length_alone():
    assert signs("日a" * 500_000) == {"han": 500_000}


def test_things_in_a_request():
    call, result = ToolCall(id="c1", name="now"), ToolResult(id="c1", content="five")
    prompt = Prompt(
        model="m",
        messages=(
            Message(role="user", parts=(Text(text="What time?"),)),
            Message(role="assistant", parts=(call, call)),
            Message(role="tool", parts=(result, result)),
        ),
        tools=(Tool(name="now"), Tool(name="then")),
    )
    assert request_features(prompt) == {"messages": 4.0, "calls": 2.0, "tools": 2.0, "toolset": 1.0, "request": 1.0}


def test_weights_of_other_names_weigh_nothing():
    assert weighted_sum({"han": 2.0, "tokens": 9.0}, REQUEST_FEATURES, {"han": 1.0, "tokens": 1.0}) == 0.0


def test_every_feature_has_a_width_so_that_it_can_be_learned():
    assert set(PRIOR_WIDTHS) == set(FEATURES)
