"""Exact counts equal those of an independent implementation, on any text."""

import inspect
import json
import random
import textwrap
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from splintr import Tokenizer

from brimful.counting import count_text, count_texts
from brimful.counting.small_texts import NO_TOKEN, SmallTextCounter, load_trie, trie_path
from brimful.counting.vocabularies import VOCABULARIES
from strategies import examples

DATA = Path(__file__).parent / "data"
SEPARATOR = "\n__ggml_vocab_test__\n"

DOCUMENTS = (
    inspect.getsource(json.decoder),
    inspect.getsource(textwrap),
    inspect.getsource(random),
    "水满则溢，月盈则亏。上下文窗口也是如此：装得太多，就会丢失最重要的内容。" * 5,
    "コンテキストの窓を縁まで満たし、決してこぼさない。東京は今日も雨です。" * 5,
    "문맥 창을 가장자리까지 채우되 결코 넘치지 않게 하라." * 5,
    "Наполни окно контекста до краёв, но не пролей ни капли." * 5,
    "املأ نافذة السياق حتى الحافة ولا تسكب." * 5,
    "संदर्भ विंडो को किनारे तक भरें, कभी न छलकाएँ।" * 5,
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇪🇺 e\N{COMBINING ACUTE ACCENT} ﬁ Å \N{ANGSTROM SIGN} ½ ①" * 5,
    '{"a": [1, 2.5e-10, null], "ключ": "значение", "e": "\\u00e9"}\r\n\r\n' * 5,
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nx  =  1\t# two\n```\n" * 5,
)
RUNS = tuple(unit * length for unit in " a\n\t1漢!é👩=-_.\r" for length in (2, 3, 17, 31, 32, 33, 64, 257, 1000))
MIXES = st.lists(
    st.sampled_from(
        [" ", "  ", "\n", "\t", "\r\n", "a", "the", "Word", " x", "1", "2026", "é", "漢字", "!", "()", "'s"]
    )
    | st.characters(exclude_categories=["Cs"]),
    max_size=40,
).map("".join)

# Where words of the pattern of o200k_base begin and end.
BOUNDARIES = st.text(st.sampled_from("ab}/'sS1.<| \n\r\t\x1c\x85\xa0\u3000\u200bé漢"), max_size=40)


@pytest.mark.parametrize("text", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_documents(reference, text):
    tokenizer, encode = reference
    assert count_text(tokenizer, text) == len(encode(text))


def test_runs_of_one_character(reference):
    tokenizer, encode = reference
    assert count_texts(tokenizer, RUNS) == [len(encode(text)) for text in RUNS]


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(MIXES, min_size=1, max_size=8))
def test_any_text(reference, texts):
    tokenizer, encode = reference
    assert count_texts(tokenizer, texts) == [len(encode(text)) for text in texts]


@pytest.mark.parametrize(
    ("tokenizer", "file"),
    [("llama2", "llama-spm"), ("gemma4", "gemma-4"), ("gemma2", "gemma-2"), ("gemma3", "gemma-3")],
)
def test_reference_pairs(tokenizer, file):
    texts = (DATA / f"{file}.inp").read_text(encoding="utf-8").split(SEPARATOR)
    expected = [len(line.split()) for line in (DATA / f"{file}.out").read_text(encoding="utf-8").splitlines()]
    assert len(expected) > 40
    assert count_texts(tokenizer, texts[: len(expected)]) == expected


@settings(max_examples=examples(100), deadline=None)
@given(MIXES)
def test_gemma_3_counts_as_gemma_4_does(text):
    # The merges are the same; only tags, and runs of the sign that spaces become, are plain text in Gemma 4.
    plain = text.replace("<", "").replace("\N{LOWER ONE EIGHTH BLOCK}", "")
    assert count_text("gemma3", plain) == count_text("gemma4", plain)


def test_a_vocabulary_without_a_reference_is_not_called_exact(reference):
    tokenizer, _ = reference
    assert VOCABULARIES[tokenizer].reference
    assert {name for name, vocabulary in VOCABULARIES.items() if not vocabulary.reference} == {
        "glm4",
        "kimi_k2",
    }


# -- small texts -----------------------------------------------------------------------------------------------------


@pytest.fixture
def small(oracle):
    """Count small texts, and return the counts of the reference as well."""
    counter, encode = SmallTextCounter("o200k_base", budget=10**9), oracle("o200k_base")
    return lambda texts: (counter.count(texts), [len(encode(text)) for text in texts])


@pytest.mark.parametrize("text", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_small_documents(small, text):
    counts, expected = small([text])
    assert counts == expected


def test_small_runs_of_one_character(small):
    counts, expected = small(RUNS)
    assert counts == expected


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(MIXES | BOUNDARIES, min_size=1, max_size=4))
def test_any_small_text(small, texts):
    counts, expected = small(texts)
    assert counts == expected


def tokens_in(file):
    """Read all tokens from the file of a trie, whose format `small_texts` describes."""
    data = memoryview(file.read_bytes())
    size = (len(data) - 4) // 9
    first, tokens = data[: 4 * size + 4].cast("I"), data[4 * size + 4 : 8 * size + 4].cast("I")
    words = [b""] * size
    for node in range(size):
        for child in range(first[node], first[node + 1]):
            words[child] = words[node] + data[8 * size + 4 + child : 8 * size + 5 + child]
    return {word: token for word, token in zip(words, tokens, strict=True) if token != NO_TOKEN}


def test_the_trie_has_exactly_the_tokens_of_the_vocabulary():
    vocabulary = Tokenizer.from_pretrained("o200k_base")
    ids = range(min(vocabulary.special_tokens().values()) - 1)
    tokens = {vocabulary.decode_token_bytes(id): id for id in ids}
    assert tokens_in(trie_path("o200k_base")) == tokens
    trie = load_trie("o200k_base")
    assert [word for word, id in islice(tokens.items(), 0, None, 20) if trie.substrings([word])[word] != id] == []


def test_a_vocabulary_is_loaded_as_soon_as_that_is_cheaper():
    counter = SmallTextCounter("o200k_base", budget=10_000)
    assert counter.count(["one", "one two"]) == [1, 2]
    assert counter.count(["a" * 10_000]) is None
    assert [counter.count(["one"]) for _ in range(4)] == [[1], [1], [1], None]
