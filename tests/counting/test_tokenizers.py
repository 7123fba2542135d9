import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.counting import count_text, count_texts, count_with_special_tokens, is_preloaded, preload, tokenizer_names
from brimful.counting.tokenizers import map_errors
from brimful.counting.vocabularies import VOCABULARIES
from brimful.errors import CountingError

MILLION = 1_000_000
NAMES = tokenizer_names()
UNITS = {
    "spaces": " ",
    "letters": "a",
    "lines": "\n",
    "Chinese": "漢",
    "emoji": "👩‍👩‍👧",
    "punctuation": "!",
    "half-open tokens": "<|",
    "brackets": "<",
    "tags": "<b>",
    "specials": "<|im_end|>",
}


def test_importing_loads_no_vocabulary():
    code = "import sys, brimful.counting; sys.exit('splintr' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_counting_a_small_text_loads_no_vocabulary():
    code = """
from brimful.counting import count_texts, tokenizers

assert count_texts("o200k_base", ["unretrievedly", "\\ud800"]) == [4, 1]
assert not tokenizers._loaded
assert count_texts("o200k_base", ["x" * 200_000]) == [25_000]
assert tokenizers._loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_every_tokenizer_can_be_made_ready(name):
    preload(name)
    assert is_preloaded(name)


def test_a_preloaded_tokenizer_counts_an_unusual_word_at_once():
    code = """
import time
from brimful.counting import count_text, is_preloaded, preload

assert not is_preloaded("o200k_base")
moments = [time.process_time()]
for call in (lambda: preload("o200k_base"), lambda: count_text("o200k_base", "unretrievedly")):
    call()
    moments.append(time.process_time())
print(moments[1] - moments[0], moments[2] - moments[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    made, counted = map(float, done.stdout.split())
    assert counted < made / 4


@pytest.mark.parametrize("name", NAMES)
def test_every_tokenizer_counts(name):
    assert count_text(name, "") == 0
    assert 5 <= count_text(name, "Fill the context window to the brim.") <= 12


@pytest.mark.parametrize("name", NAMES)
def test_a_text_cannot_spell_out_a_special_token(name):
    vocabulary = VOCABULARIES[name]
    for token in {*vocabulary.special[:20], vocabulary.bos, vocabulary.eos, "<|endoftext|>", "<|think|>"} - {""}:
        always = re.fullmatch(vocabulary.always, token) if vocabulary.always else None
        assert count_text(name, token) > 1 or always, token


@pytest.mark.parametrize("name", NAMES)
def test_a_rendered_template_has_the_models_special_tokens(name):
    vocabulary = VOCABULARIES[name]
    for token in {*vocabulary.special, vocabulary.bos, vocabulary.eos} - {""}:
        assert count_with_special_tokens(name, token) == 1, token
        assert count_with_special_tokens(name, f"a{token}{token}b") == count_text(name, "a") + 2 + count_text(name, "b")


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"gemma4"}))
def test_no_model_has_the_tokens_that_the_library_invents(name):
    assert count_with_special_tokens(name, "<|think|><|plan|>") > 2


def test_qwen_2_does_not_think():
    assert count_with_special_tokens("qwen3", "<think>") == 1
    assert count_with_special_tokens("qwen2", "<think>") == 3
    assert count_with_special_tokens("qwen2", "<tool_call>") == 1


def test_gemma_has_symbols_that_are_always_on():
    assert count_text("gemma3", "<table>") == 1
    assert count_text("gemma3", "a</td>b") == 3
    assert count_text("gemma2", "<h1>") == 1
    assert count_text("gemma2", "<div>") == 3
    assert count_text("gemma4", "<table>") == 3
    assert count_text("gemma3", "<start_of_turn>") > 1


def test_a_combining_mark_does_not_swallow_a_special_token():
    # ">" and U+0338 compose to one character; the reference splits at special tokens before it composes.
    slash = "\N{COMBINING LONG SOLIDUS OVERLAY}"
    assert count_with_special_tokens("qwen3", f"<|im_end|>{slash}") == 1 + count_text("qwen3", slash)


def test_composed_and_decomposed_are_the_same_to_qwen():
    assert count_text("qwen3", "e\N{COMBINING ACUTE ACCENT}") == count_text("qwen3", "é") == 1


@pytest.mark.parametrize("name", NAMES)
def test_lone_surrogates_count_as_replacement_characters(name):
    assert count_text(name, "a\ud800b") == count_text(name, "a\N{REPLACEMENT CHARACTER}b")
    assert count_with_special_tokens(name, "\udfff") == count_text(name, "\N{REPLACEMENT CHARACTER}")


@given(st.lists(st.text(alphabet=st.characters(), max_size=30), max_size=10))
def test_many_count_as_one_by_one(texts):
    assert count_texts("o200k_base", texts) == [count_text("o200k_base", text) for text in texts]


def test_texts_with_and_without_marks_keep_their_order():
    texts = ["one", "<|endoftext|>", "", "two words", "<|"]
    assert count_texts("o200k_base", texts) == [1, 7, 0, 2, 2]


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("name", ["o200k_base", "llama2", "qwen3", "gemma3", "gemma4", "deepseek_v3"])
def test_linear_on_any_input(name, unit):
    text = unit * (MILLION // 4 // len(unit))
    count_text(name, text[:1000])
    started = time.process_time()
    count_text(name, text)
    count_with_special_tokens(name, text)
    # A quadratic tokenizer takes minutes for this; a linear one, well under a second on a slow machine.
    assert time.process_time() - started < 5


def test_unknown_names_are_errors():
    with pytest.raises(CountingError, match="no tokenizer 'gpt9'; known: o200k_base, "):
        count_text("gpt9", "hi")


class PanicException(BaseException):  # the name that pyo3 gives a panic
    pass


@pytest.mark.parametrize("error", [PanicException("index out of bounds"), ValueError("bad"), MemoryError()])
def test_failures_and_panics_become_our_error(error):
    def fail():
        raise error

    with pytest.raises(CountingError) as caught:
        map_errors(fail)
    assert caught.value.__cause__ is error


def test_an_interrupt_stays_an_interrupt():
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        map_errors(interrupt)


def test_threads_share_one_vocabulary():
    with ThreadPoolExecutor(8) as pool:
        counts = set(pool.map(lambda _: count_text("phi4", "Fill the window."), range(64)))
    assert counts == {4}
