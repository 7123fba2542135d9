"""Which keywords appear in a text."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.lore.keys import MAX_TIMEOUTS, REGEX_TIMEOUT, PlainKeyword, PlainMatcher
from brimful.records import Lorebook
from worlds import activated, entry, run


@pytest.mark.parametrize(
    ("key", "text", "whole", "anywhere"),
    [
        ("dragon", "A Dragon!", True, True),
        ("dragon", "dragons", False, True),
        ("dragon", "snapdragon", False, True),
        ("the woods", "in the woodsman's hut", True, True),  # of several words: a phrase, found wherever it stands
        ("c++", "I like C++.", True, True),
        ("c++", "abc++", False, True),
        ("o'brien", "Ask O'Brien.", True, True),
        ("魔法", "这个世界的魔法很强", True, True),
        ("cat", "我有cat吗", True, True),
        ("café", "A CAFE\u0301 there", True, True),
        ("эльф", "Эльфы пришли", False, True),
        ("STRASSE", "Die Straße", True, True),
        ("", "anything", False, False),
        ("  dragon ", "the dragon", True, True),
        ("x" * 40, "y" + "x" * 40, False, True),
        ("x" * 40 + "z", "y" + "x" * 40, False, False),
    ],
)
def test_a_key_is_found_as_a_word_or_anywhere(key, text, whole, anywhere):
    assert bool(activated([entry("e", key)], text, book=Lorebook(id="w", whole_words=True))) is whole
    assert bool(activated([entry("e", key)], text, book=Lorebook(id="w", whole_words=False))) is anywhere


def test_an_entry_says_itself_whether_case_and_words_count():
    entries = [entry("case", "Elf", case_sensitive=True), entry("part", "elf", whole_words=False), entry("book", "elf")]
    assert activated(entries, "an elf") == ["book", "part"]
    assert activated(entries, "Elf") == ["book", "case", "part"]
    assert activated(entries, "elfin") == ["part"]


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        (r"/dragons?\b/i", "DRAGONS", True),
        (r"/dragons?\b/", "DRAGONS", False),
        (r"/(?<=old )king/", "the old king", True),
        (r"/^\x01Ada: hi/", "hi there", True),
        (r"/and\/or/", "this and/or that", True),
        (r"/\u{1F409}/u", "a 🐉", True),
        (r"/[^]x/", "\nx", True),
        (r"/(unclosed/", "say /(unclosed/ aloud", True),  # no pattern: a text, as in SillyTavern
        ("and/or", "this and/or that", True),
    ],
)
def test_a_key_between_slashes_is_a_pattern(key, text, expected):
    book = Lorebook(id="w", names=True, whole_words=False)
    assert bool(activated([entry("e", key)], text, book=book)) is expected


def test_with_regex_every_key_is_a_pattern_and_a_broken_one_is_never_found():
    assert activated([entry("e", "dra.on", regex=True)], "a DRAGON") == ["e"]
    assert activated([entry("e", "dra.on", regex=True, case_sensitive=True)], "a DRAGON") == []
    assert activated([entry("e", "(unclosed", regex=True)], "(unclosed") == []


def test_a_hostile_pattern_costs_its_time_limit_once_and_is_on_the_record():
    evil = [entry(f"e{at}", f"/(a|aa|b{at})+$/") for at in range(MAX_TIMEOUTS + 20)]
    text = "a" * 60 + "!"
    began = time.process_time()
    activation = run([*evil, entry("good", "aaa", whole_words=False)], text)
    assert time.process_time() - began < 4 * REGEX_TIMEOUT * MAX_TIMEOUTS
    assert [each.entry.id for each in activation.activated] == ["good"]
    assert {each.reason for each in activation.excluded} == {"pattern"}
    assert len(activation.excluded) == MAX_TIMEOUTS
    assert any(note.kind == "lore-timeout" for note in activation.notices)


# -- laws ------------------------------------------------------------------------------------------------------------

letters = st.text("abcé界 -", min_size=1, max_size=6)


@given(st.lists(letters, max_size=12), st.text("abcé界 -", max_size=60))
def test_keys_are_found_exactly_where_they_stand(keys, text):
    words = PlainMatcher(PlainKeyword(at, key, whole=False) for at, key in enumerate(keys))
    assert set(words.find(text)) == {at for at, key in enumerate(keys) if key in text}


@given(st.lists(st.text("ab", min_size=30, max_size=80), max_size=6), st.text("ab", max_size=300))
def test_long_keys_are_found_exactly_where_they_stand(keys, text):
    text = text + "".join(keys[:2])
    words = PlainMatcher(PlainKeyword(at, key, whole=False) for at, key in enumerate(keys))
    assert set(words.find(text)) == {at for at, key in enumerate(keys) if key in text}
