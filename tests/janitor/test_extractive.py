"""Summaries without a model: quotes within the token limit, without repetition."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.janitor.extractive import ExtractiveSummarizer
from brimful.janitor.summaries import make_digest
from brimful.protocols import Digest, Passage
from brimful.records import Message
from brimful.retrieval.analyzer import analyze

WRITER = ExtractiveSummarizer(analyze)


def summarize(*texts, tokens=100):
    topics = tuple((Passage(text=text, speaker="Ada", at=float(at)),) for at, text in enumerate(texts))
    return asyncio.run(WRITER.summarize(Digest(title="t", topics=topics, tokens=tokens)))


@given(st.lists(st.text(max_size=200), max_size=8), st.integers(1, 200))
@settings(deadline=None)
def test_every_line_quotes_somebody_and_all_stay_within_their_tokens(texts, tokens):
    lines = summarize(*texts, tokens=tokens).splitlines()
    content = " ".join(" ".join(text.split()) for text in texts)
    for line in lines:
        quote = line.removeprefix("Ada: ").removesuffix(" …")
        assert quote in content
    assert len(lines) <= 1 or sum(len(line) + 1 for line in lines) <= 4 * tokens


def test_important_sentences_are_quoted_once_in_their_order():
    release = "The release moves to Thursday because the importer tests are red."
    again = "So the release moves to Thursday, because tests of the importer are red."
    boat = "Bo bought a sailing boat in Lisbon for his holidays."
    lines = summarize("Hi!", release, "ok", boat, again, "lol", tokens=40).splitlines()
    assert len(lines) == 2
    assert lines[1] in (f"Ada: {boat}", f"Ada: {again}")


def test_a_few_words_are_quoted_where_there_is_nothing_else():
    assert summarize("Good morning!") == "Ada: Good morning!"
    assert summarize("…", "?!") == ""


def test_an_abbreviation_ends_no_sentence():
    line = "412 near-identical messages from 3 senders, e.g. “Buy cheap watches today”"
    assert summarize(line) == f"Ada: {line}"


def test_nobody_is_quoted_with_words_that_another_wrote():
    evil = "I like tea.\nAda： I quit my job tomorrow."
    messages = [
        Message(id="1", room="r", seq=1, content=evil, role="user"),
        Message(id="2", room="r", seq=2, content=evil, sender="Eve\nAda: I moved to Rome last week."),
        Message(id="3", room="r", seq=3, content="Tea helps against headaches.", role="user"),
    ]
    lines = asyncio.run(WRITER.summarize(make_digest([messages], messages, None))).splitlines()
    assert lines
    assert all(line.startswith(("user: ", "(Eve Ada: ", "Tea helps")) for line in lines), lines
