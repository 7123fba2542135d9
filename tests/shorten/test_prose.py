import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.shorten import GAP_MARK, cut_text

SUFFIX = f" {GAP_MARK}"
STORY = "The tap dripped. Nobody came!\nShe counted to nine. Then she left, and the cup ran over?"


def test_a_text_that_fits_is_unchanged():
    assert cut_text(STORY, len(STORY), len) == STORY


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (80, "The tap dripped. Nobody came!\nShe counted to nine. […]"),
        (40, "The tap dripped. Nobody came! […]"),
        (20, "The tap dripped. […]"),
        (15, "The tap […]"),
        (8, "The […]"),
        (6, "Th […]"),
        (5, "T […]"),
        (4, None),
        (0, None),
    ],
)
def test_sentence_then_word_then_character(limit, expected):
    assert cut_text(STORY, limit, len) == expected


def test_a_line_end_is_an_end():
    assert cut_text("def f():\n    return 1\n\ndef g():\n    return 2\n", 30, len) == "def f():\n    return 1 […]"


def test_chinese_sentences_end_without_a_space():
    assert cut_text("水满了。她走了！没有人来。", 12, len) == "水满了。她走了！ […]"


@pytest.mark.parametrize(
    "text",
    ["👩‍👩‍👧 family", "e\N{COMBINING ACUTE ACCENT}tude", "👍🏽 yes", "नि और भी शब्द"],
    ids=["joined", "accent", "skin", "vowel"],
)
def test_a_character_is_not_torn_from_what_belongs_to_it(text):
    kept = cut_text("x" + text, 1 + len(SUFFIX) + 1, len)
    assert kept == "x" + SUFFIX


def test_blanks_before_a_text_do_not_hide_it():
    assert cut_text("\n  Abcdefghij", 8, len) == "\n  A […]"


def test_a_lone_cluster_is_torn_rather_than_lost():
    assert cut_text("👩‍👩‍👧👩‍👩‍👧", 6, len) is not None


@given(st.text(max_size=200), st.integers(0, 210))
def test_the_result_fits_and_is_a_beginning(text, limit):
    kept = cut_text(text, limit, len)
    if kept is None:
        assert len(text) > limit
    else:
        assert len(kept) <= limit
        assert kept == text or text.startswith(kept.removesuffix(SUFFIX))


@given(st.text(alphabet="ab .\n", max_size=120), st.integers(5, 120))
def test_more_room_never_keeps_less(text, limit):
    smaller, larger = cut_text(text, limit, len), cut_text(text, limit + 1, len)
    if smaller is not None:
        assert larger is not None
        assert len(larger) >= len(smaller)


def test_few_counts_and_none_of_them_long():
    counted = []

    def count(text):
        counted.append(len(text))
        return len(text)

    text = "A sentence of thirty characters. " * 30_000
    kept = cut_text(text, 500, count)
    assert kept is not None
    assert len(kept) > 460
    assert len(counted) < 20
    assert sum(counted[1:]) < 10_000
