"""Prompts that a server truncated silently."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful import Count
from brimful.counting.usage import Truncation, find_truncation
from brimful.records import Usage


def exact(tokens):
    return Count(tokens=tokens, basis="exact")


def reported(tokens, **more):
    return Usage(prompt=tokens, **more)


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (12_000, 2_050),  # as measured on Ollama 0.34 with a window of 4,096
        (120_000, 32_770),  # … of 65,536
        (5_000, 4_096),
        (2_500, 2_048),
        (300, 100),
    ],
)
def test_a_smaller_report_is_a_cut(sent, read):
    found = find_truncation(exact(sent), reported(read))
    assert (found.sent, found.read) == (sent, read)
    assert 0 < found.missing <= sent - read


@pytest.mark.parametrize(
    ("sent", "read"),
    [(12_000, 12_000), (12_000, 11_900), (12_000, 12_500), (100, 70), (20, 1), (4_096, 4_000)],
)
def test_a_template_that_differs_a_little_is_none(sent, read):
    assert find_truncation(exact(sent), reported(read)) is None


@pytest.mark.parametrize("usage", [None, Usage(), Usage(completion=9)])
def test_without_a_report_there_is_no_truncation(usage):
    assert find_truncation(exact(12_000), usage) is None


def test_an_estimate_must_be_missed_by_far():
    guessed = Count(tokens=10_000, basis="calibrated", margin=2_000)
    assert find_truncation(guessed, reported(7_000)) is None
    assert find_truncation(guessed, reported(2_050)) == Truncation(sent=10_000, read=2_050, missing=3_618)
    learned = Count(tokens=10_000, basis="calibrated", margin=100)
    assert find_truncation(learned, reported(7_000)) is not None


def test_a_rule_of_thumb_and_a_bound_say_little():
    assert find_truncation(Count(tokens=10_000, basis="approximate"), reported(5_000)) is None
    assert find_truncation(Count(tokens=10_000, basis="approximate"), reported(2_050)) is not None
    assert find_truncation(Count(tokens=10_000, basis="bound"), reported(1)) is None


def test_a_report_of_what_was_new_is_no_cut():
    assert find_truncation(exact(12_000), reported(400), shared=11_600) is None
    assert find_truncation(exact(12_000), reported(600), shared=11_600) is None
    assert find_truncation(exact(12_000), reported(2_050), shared=11_600) is not None
    assert find_truncation(exact(12_000), reported(400), shared=3_000) is not None


def test_cached_tokens_are_part_of_the_report():
    assert find_truncation(exact(12_000), reported(12_000, cached=11_600), shared=11_600) is None


def test_images_may_be_counted_otherwise():
    assert find_truncation(exact(3_000), reported(1_000)) is not None
    assert find_truncation(exact(3_000), reported(1_000), unsure=2_000) is None


@given(st.integers(1, 10**7), st.integers(0, 10**6), st.sampled_from(["exact", "provider", "calibrated", "bound"]))
def test_a_whole_prompt_is_never_a_cut(tokens, margin, basis):
    count = Count(tokens=tokens, basis=basis, margin=margin)
    assert find_truncation(count, reported(tokens)) is None
    assert find_truncation(count, reported(count.upper)) is None
