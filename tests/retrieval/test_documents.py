"""Index entries: short texts are one passage, long ones several, which follow each other without gaps."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.errors import InvalidValue
from brimful.records import LoreEntry, Memory, Message, Summary
from brimful.retrieval.documents import (
    MAX_INDEXED_CHARS,
    PASSAGE_CHARS,
    PIECE_CHARS,
    WHOLE_CHARS,
    make_document,
    passage_text,
    split_passages,
)

STORY = "".join(f"On day {n} it rained in the valley.{' ' if n % 7 else chr(10) * 2}" for n in range(300))


@given(st.text(max_size=300), st.integers(1, 40))
def test_passages_follow_each_other_without_gaps(text, times):
    long = text * times
    spans = split_passages(long)
    assert (spans[0][0], spans[-1][1]) == (0, len(long))
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert all(start < stop for start, stop in spans) or spans == [(0, 0)]
    assert max(stop - start for start, stop in spans) <= max(WHOLE_CHARS, 1.6 * PASSAGE_CHARS)


def test_passages_end_at_paragraphs_or_sentences():
    spans = split_passages(STORY)
    assert len(spans) > 5
    for start, stop in spans:
        assert STORY[start:stop].startswith("On day")
        assert STORY[start:stop].rstrip().endswith(".")
        assert 0.6 * PASSAGE_CHARS < stop - start < 1.4 * PASSAGE_CHARS


def test_scripts_without_spaces_have_shorter_passages():
    spans = split_passages("今日は天気がとてもいいですね。" * 100)
    assert max(stop - start for start, stop in spans) <= 0.6 * PASSAGE_CHARS


@pytest.mark.parametrize("text", ["x" * 200_000, "\n" * 200_000, "a. " * 60_000, "「" * 90_000])
def test_hostile_texts_take_linear_time(text):
    assert split_passages(text)[-1][1] == len(text)


def test_the_rest_of_a_huge_text_is_not_indexed():
    assert split_passages("It rains. " * 200_000)[-1][1] == MAX_INDEXED_CHARS


@pytest.mark.parametrize("text", [STORY * 25, "x" * 250_000, STORY * 120])
def test_a_very_long_text_is_indexed_in_pieces_that_follow_each_other(text):
    record = Memory(id="k", content=text)
    pieces, start = [make_document(record)], 0
    while start := pieces[-1].rest:
        pieces.append(make_document(record, start))
    spans = [(each.start, each.stop) for piece in pieces for each in (piece, *piece.further)]
    assert len(pieces) >= min(len(text), MAX_INDEXED_CHARS) / PIECE_CHARS
    assert (spans[0][0], spans[-1][1]) == (0, min(len(text), MAX_INDEXED_CHARS))
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert all(sum(len(each.passage) for each in (piece, *piece.further)) <= PIECE_CHARS for piece in pieces)


def test_each_passage_has_its_own_terms_and_the_speaker_and_date_of_its_message():
    entry = make_document(Message(id="m", room="r", sender="Ada", content=STORY, at=1_700_000_000))
    passages = [entry, *entry.further]
    assert [(each.start, each.stop) for each in passages] == split_passages(STORY)
    assert all(STORY[each.start : each.stop] == each.passage for each in passages)
    assert all(each.terms[-4:] == ("ada", "2023", "novemb", "14") for each in passages)
    assert "299" not in entry.terms
    assert "299" in passages[-1].terms


@pytest.mark.parametrize(
    "record",
    [
        Message(id="m", room="r", content="Tea at four."),
        Memory(id="k", content="Tea at four."),
        Summary(id="s", room="r", cluster="c", content="Tea at four."),
    ],
)
def test_a_short_text_is_one_passage(record):
    entry = make_document(record)
    assert (entry.passage, entry.start, entry.stop, entry.further) == ("Tea at four.", 0, 0, ())


def test_the_passages_of_a_lore_entry_have_its_name_and_keywords():
    entry = make_document(LoreEntry(id="e", lorebook="b", name="Valley", keys=("rain", "flood"), content=STORY))
    for each in (entry, *entry.further):
        assert each.passage.startswith("Valley\nrain flood\nOn day")
        assert each.passage.endswith(STORY[each.start : each.stop].strip())
    short = LoreEntry(id="e", lorebook="b", name="Valley", keys=("rain",), content="It is green.")
    assert make_document(short).passage == passage_text(short) == "Valley\nrain\nIt is green."


def test_anything_else_cannot_be_indexed():
    with pytest.raises(InvalidValue, match="must be a Message, Memory, LoreEntry or Summary"):
        make_document("text")
