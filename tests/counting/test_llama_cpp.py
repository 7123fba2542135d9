"""How llama.cpp renders a template; tests/llama compares it with the real server."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.content import Text, ToolCall
from brimful.core.prompt import Message, Prompt
from brimful.counting import counter_for
from brimful.counting.chat_template import ChatTemplate
from brimful.counting.llama_cpp import to_json
from brimful.models import resolve

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def render(source, runtime="llama.cpp", variables=None, **options):
    data = {"chat_template_kwargs": variables or {}}
    return ChatTemplate(source, runtime=runtime, **options).render([], options=data)


def text_message(role, text):
    return Message(role=role, parts=(Text(text=text),))


def count(*messages, model="qwen2.5-7b", **fields):
    info = msgspec.structs.replace(resolve(model), **fields)
    return counter_for(info).prompt(Prompt(model="m", messages=messages))


@given(JSON, st.sampled_from([None, 0, 2, 4]))
def test_json_differs_only_in_fractions(value, indent):
    assert to_json(value, indent=indent) == json.dumps(value, ensure_ascii=False, indent=indent)


@given(st.text())
def test_json_in_ascii(text):
    assert json.loads(to_json({text: text}, ensure_ascii=True)) == {text: text}
    assert to_json([text], ensure_ascii=True).isascii()


@pytest.mark.parametrize(
    ("source", "theirs", "ours"),
    [
        ("{{ 1.0 | tojson }}", "1.0", "1"),
        ("{{ x }}", "1e-07", "0.0"),
        ("{{ x | tojson }}", "1e-07", "1e-07"),
        ("{{ big | tojson }}", "1" + "0" * 30, "1e+30"),
        ("{{ text | trim }}|", "a|", "\u00a0a|"),
        ("{{ text.strip() }}|", "a|", "\u00a0a|"),
        ("{{ x | string }}", "1e-07", "1e-07"),
        ("{{ nothing }}|", "None|", "|"),
        ("{{ items | string }}", "['\\ue000', \"it's\"]", "['\ue000', \"it's\"]"),
        ("{{ [items, map] }}|", "[['\\ue000', \"it's\"], {'b': 1, 'C': 2, 'a': 3}]|", "\ue000it's|"),
        ("{{ map | string }}", "{'b': 1, 'C': 2, 'a': 3}", "{'b': 1, 'C': 2, 'a': 3}"),
        ("{% for key, _ in map | dictsort %}{{ key }}{% endfor %}", "abC", "Cab"),
        ("{{ enable_thinking }}", "", "True"),
    ],
)
def test_runtimes_render_these_templates_differently(source, theirs, ours):
    values = {
        "x": 1e-7,
        "big": 10**30,
        "text": " \u00a0a\n",
        "nothing": None,
        "items": ["\ue000", "it's"],
        "map": {"b": 1, "C": 2, "a": 3},
    }
    assert render(source, "transformers", values) == theirs
    assert render(source, "llama.cpp", values) == ours


@pytest.mark.parametrize("runtime", ["transformers", "llama.cpp"])
def test_thinking_can_be_set(runtime):
    assert render("{{ enable_thinking }}", runtime, thinking=False) == "False"
    assert render("{{ enable_thinking }}", runtime, thinking=True) == "True"


def test_a_model_says_what_serves_it():
    accent = text_message("user", "e\u0301")
    assert count(accent, runtime="llama.cpp").tokens == count(accent).tokens + 1
    assert (
        count(text_message("user", "</s>"), runtime="llama.cpp").tokens
        == count(text_message("user", "</s>")).tokens - 2
    )
    assert count(text_message("user", "hi"), model="gemma-4-31b", runtime="llama.cpp", thinking=False).tokens == (
        count(text_message("user", "hi"), model="gemma-4-31b").tokens
    )


@pytest.mark.parametrize(
    "model", ["mistral-7b", "mistral-nemo", "deepseek-v3", "gpt-oss-20b", "phi-4", "gemma-2-9b", "gemma-3-27b"]
)
def test_tokenizers_never_compared_with_llama_cpp_are_not_exact_there(model):
    exact = count(text_message("user", "Hello there."), model=model)
    counted = count(text_message("user", "Hello there."), model=model, runtime="llama.cpp")
    assert (exact.basis, counted.basis) == ("exact", "calibrated")
    assert counted.margin > 0
    assert counted.tokenizer == f"{exact.tokenizer}+1%"  # so that stored counts are not mixed up


@pytest.mark.parametrize("model", ["qwen2.5-7b", "qwen3-8b", "llama-3.1-8b", "gemma-4-31b"])
def test_tokenizers_compared_with_llama_cpp_are_exact_there(model):
    assert count(text_message("user", "Hello there."), model=model, runtime="llama.cpp").basis == "exact"


def test_counts_of_two_runtimes_have_two_names():
    assert counter_for(msgspec.structs.replace(resolve("qwen3-8b"), runtime="llama.cpp")).tokenizer == "qwen3_gguf"
    assert counter_for(resolve("qwen3-8b")).tokenizer == "qwen3"


def test_a_message_that_is_continued_is_counted_as_a_bound():
    started = (text_message("user", "hi"), text_message("assistant", "  Well, "))
    whole = count(*started, runtime="llama.cpp")
    assert (whole.basis, count(*started).basis) == ("bound", "exact")
    assert whole.tokens >= count(*started).tokens
    assert count(text_message("assistant", "Well,"), model="gemma-2-9b", runtime="llama.cpp").basis != "exact"


@pytest.mark.parametrize("depth", [10, 900, 100_000])
def test_deep_arguments_are_counted(depth):
    call = ToolCall(id="c1", name="f", arguments="[" * depth + "]" * depth)
    counted = count(text_message("user", "hi"), Message(role="assistant", parts=(call,)), runtime="llama.cpp")
    assert counted.tokens > 10
