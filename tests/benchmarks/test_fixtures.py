"""The fixtures of the benchmarks and their strict counter, without timing."""

import json
import sys
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    """The benchmarks' modules, which are scripts and not a package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    names = ("texts", "conversations", "isolated", "strict", "tables", "peers", "quality")
    yield SimpleNamespace(**{name: import_module(name) for name in names})
    for name in names:
        del sys.modules[name]


def words(text):
    return len(text.split())


def call(id):
    return {"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}}


SYSTEM = {"role": "system", "content": "Be brief."}
QUESTION = {"role": "user", "content": "What is new?"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b")]}
ANSWERS = [{"role": "tool", "tool_call_id": id, "content": "nothing"} for id in "ab"]


def test_equal_seeds_give_equal_texts(bench):
    assert bench.texts.Texts(1).mixed(5_000) == bench.texts.Texts(1).mixed(5_000)
    assert bench.texts.Texts(1).mixed(5_000) != bench.texts.Texts(2).mixed(5_000)


def test_forty_turns_with_tools_are_202_messages_with_every_call_answered(bench):
    messages = bench.conversations.with_tools().messages
    verdict = bench.strict.audit(messages, messages, 10**9, words)
    assert len(messages) == 202
    assert verdict.valid
    assert verdict.over == verdict.altered == 0


def test_an_ending_is_the_same_conversation_some_turns_before(bench):
    messages = bench.conversations.with_tools(turns=4).messages
    assert bench.conversations.ending(messages, 0) == messages
    assert bench.conversations.ending(messages, 1) == [*messages[:-6], messages[-1]]


def test_transcripts_are_read_from_a_folder(bench, tmp_path):
    display = "user: Hi: there\nassistant: None\ntool: 42\nassistant: It is\n42."
    tmp_path.joinpath("MockShopDomain.jsonl").write_text(json.dumps({"messages_display": display}) + "\n")
    (found,) = bench.conversations.transcripts(tmp_path)
    history = found.messages[1:-1]
    assert [message["role"] for message in history] == ["user", "assistant", "tool", "assistant"]
    assert history[3]["content"] == "It is\n42."


def test_the_strict_counter_counts_roles_contents_names_and_calls(bench):
    # 3 a request; 3 + role + content each; a call is the words of '{"name": "look", "arguments": "{}"}'
    assert bench.strict.count_messages([SYSTEM, QUESTION], words) == 3 + (3 + 1 + 2) + (3 + 1 + 3)
    assert bench.strict.count_messages([CALLED], words) == 3 + 3 + 1 + 2 * 4
    assert bench.strict.count_messages([{**QUESTION, "name": "Ada"}], words) == 3 + 3 + 1 + 3 + 1 + 1


def test_the_strict_counter_sees_what_is_wrong(bench):
    whole = [SYSTEM, QUESTION, CALLED, *ANSWERS, QUESTION]
    verdict = bench.strict.audit([*ANSWERS, {"role": "user", "content": "What is"}], whole, 5, words)
    assert (verdict.orphans, verdict.unanswered, verdict.altered) == (2, 0, 1)
    assert not verdict.system_kept
    assert not verdict.question_kept
    assert verdict.over == verdict.tokens - 5
    assert bench.strict.audit([SYSTEM, CALLED, ANSWERS[0], QUESTION], whole, 100, words).unanswered == 1


def test_the_strict_counter_agrees_with_the_cookbook(bench):
    """OpenAI's cookbook gives 124 tokens for this request to gpt-4o."""
    pytest.importorskip("tiktoken")
    if not (find_spec("litellm") or find_spec("llama_index")):
        pytest.skip("no package here bundles a vocabulary for tiktoken")

    examples = [
        ("example_user", "New synergies will help drive top-line growth."),
        ("example_assistant", "Things working well together will increase revenue."),
        (
            "example_user",
            "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage.",
        ),
        ("example_assistant", "Let's talk later when we're less busy about how to do better."),
    ]
    pattern = "You are a helpful, pattern-following assistant that translates corporate jargon into plain English."
    last = "This late pivot means we don't have time to boil the ocean for the client deliverable."
    messages = [
        {"role": "system", "content": pattern},
        *({"role": "system", "name": name, "content": content} for name, content in examples),
        {"role": "user", "content": last},
    ]
    assert bench.strict.count_messages(messages, bench.strict.reference_count) == 124


def test_the_optimum_is_the_best_of_all_subsets(bench):
    instance = bench.quality.Instance([3.0, 1.5, 2.5, 4.0, 0.5], [4, 2, 3, 6, 1], 9)
    sets = [chosen for size in range(6) for chosen in combinations(range(5), size)]
    fitting = [chosen for chosen in sets if sum(instance.weights[at] for at in chosen) <= instance.capacity]
    assert bench.quality.optimum(instance) == max(sum(instance.values[at] for at in chosen) for chosen in fitting)
