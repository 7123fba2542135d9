"""Our WordPiece splits every text like that of `tokenizers`."""

import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

import brimful
from brimful.embedding.wordpiece import WordPiece
from strategies import examples

VOCABULARY = (Path(brimful.__file__).parent / "embedding/data/vocabulary.txt").read_text(encoding="utf-8").splitlines()
TRICKY = (
    *("\u0301", "\u0327", "e\u0301", "Å", "İstanbul", "ΣΊΣΥΦΟΣ", "ß", "ﬁ", "ǅ", "½", "①", "ﷺ"),
    *("[SEP]", "[CLS]", "[UNK]", "##ing", "👩‍👩‍👧‍👦", "🏳️‍🌈", "漢字", "かな", "한국어", "ไทย", "हिन्दी", "עִבְרִית"),
    *("\x00", "\x0b", "\x0c", "\x1c", "\x85", "\xa0", "\xad", "\u200b", "\u2028", "\u3000", "\ufeff", "\ufffd"),
    *("don't", "e-mail", "…", "«»", "“quoted”", "—", "¿", "$5", "a" * 100, "a" * 101, "\U000e0001", "\U00013430"),
)
TEXTS = st.lists(
    st.sampled_from([*TRICKY, " ", "\n", "\t"])
    | st.sampled_from(VOCABULARY)
    | st.characters(exclude_categories=["Cs"])
    | st.text(st.characters(max_codepoint=0x2FF), max_size=6),
    max_size=30,
).map("".join)


@cache
def reference():
    """Return the tokenizer of all-MiniLM-L6-v2, as its `tokenizer.json` describes it."""
    ids = {piece: id for id, piece in enumerate(VOCABULARY)}
    built = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))  # noqa: S106 - no secret
    built.normalizer = normalizers.BertNormalizer()
    built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return built


@cache
def ours():
    return WordPiece(VOCABULARY)


def expected(text):
    return reference().encode(text, add_special_tokens=False).ids


@settings(max_examples=examples(150), deadline=None)
@given(TEXTS)
def test_any_text(text):
    assert ours().ids(text) == expected(text)


@pytest.mark.parametrize(("first", "last"), [(0, 0xD7FF), (0xE000, 0x1FFFF), (0x2F800, 0x2FA1F), (0xE0000, 0xE01FF)])
def test_every_character_within_a_word(first, last):
    for start in range(first, last, 256):
        text = " ".join(f"ab{chr(point)}cd" for point in range(start, min(start + 256, last + 1)))
        assert ours().ids(text) == expected(text), f"one of the 256 characters from U+{start:04X}"


def test_documents():
    for text in (Path(__file__).read_text(encoding="utf-8"), json.dumps(TRICKY), " ".join(TRICKY) * 3):
        assert ours().ids(text) == expected(text)


def test_the_memory_of_words_is_bounded_and_changes_nothing():
    small = WordPiece(VOCABULARY, max_cached_words=3)
    text = "one two three four one five six seven one two three"
    assert small.ids(text) == expected(text)
    assert small.ids(text) == expected(text)
    assert 0 < small.cached_words <= 6  # two generations of three


@pytest.mark.parametrize("text", ["", " \n\t", "\x00\u200b"])
def test_a_text_without_words_has_no_pieces(text):
    assert ours().ids(text) == []


def test_a_lone_surrogate_is_an_unknown_word():
    assert ours().ids("a \ud800 b") == expected("a \U000e0fff b")
