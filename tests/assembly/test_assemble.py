"""The public functions, with real tokenizers."""

import math
from collections import UserDict
from datetime import UTC, datetime
from types import MappingProxyType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import brimful
from brimful import packagers
from brimful.core.content import Media, Text
from brimful.core.notice import Notice

NOW = 1_800_000_000.0
MODELS = (
    "gpt-4o",
    "gpt-4",
    "claude-sonnet-4-5",
    "gemini-2.5-pro",
    "qwen2.5:7b",
    "llama3.1:70b",
    "mistral:7b",
    "google/gemma-3-27b-it",
    "deepseek-chat",
    "grok-4",
    "never-heard-of-it",
)
TEXTS = st.one_of(
    st.text(max_size=200),
    st.lists(
        st.sampled_from(["tea ", "\n\n", "/* code */ ", "日本語", "🍵", "12345", "   ", "<|im_end|>", "</memory>"])
    ).map("".join),
)


def conversation(turns):
    messages = [{"role": "system", "content": "You are Helper."}]
    for n in range(turns):
        messages.append({"role": "user", "name": "Ada", "content": f"Question {n}: why is the tea number {n} cold?"})
        if n % 5 == 0:
            call = {"id": f"call_{n}", "type": "function", "function": {"name": "look", "arguments": '{"n": 1}'}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"call_{n}", "content": "cold " * 30})
        messages.append({"role": "assistant", "content": "Because nobody drank it. " * 3})
    messages.append({"role": "user", "content": "And now?"})
    return messages


@pytest.mark.parametrize("model", MODELS)
def test_a_long_conversation_fits_and_is_full_for_every_family(model):
    packages = brimful.conversation(conversation(400), model=model)
    context = brimful.assemble(packages, model=model, window=6000, completion=500, now=NOW)
    assert 0.97 * context.budget.available <= context.tokens <= 5500
    assert context.decision("msg-000000").outcome == "kept"
    assert context.explain(packages[-1].id).startswith("kept: required")
    assert brimful.replay(context).to_json() == context.to_json()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(MODELS), st.lists(TEXTS, max_size=12), st.lists(TEXTS, max_size=12), st.integers(600, 3000))
def test_never_over_with_real_tokenizers(model, said, known, window):
    counter = brimful.counter(model)
    pile = [packagers.message(text, counter=counter, id=f"m{n}", timestamp=NOW + n) for n, text in enumerate(said)]
    pile += [packagers.memory(text, counter=counter, id=f"k{n}", relevance=0.5) for n, text in enumerate(known)]
    pile.append(packagers.message("And now?", counter=counter, id="now", current=True, timestamp=NOW + 99))
    context = brimful.assemble(pile, model=model, window=window, completion=100, now=NOW)
    assert context.tokens <= window - 100
    assert {decision.id for decision in context.decisions} == {package.id for package in pile}


def test_counted_for_one_model_and_assembled_for_another():
    packages = brimful.conversation(conversation(60), model="gpt-4o")
    context = brimful.assemble(packages, model="qwen2.5:7b", window=3000, completion=300, now=NOW)
    again = brimful.assemble(
        brimful.conversation(conversation(60), model="qwen2.5:7b"),
        model="qwen2.5:7b",
        window=3000,
        completion=300,
        now=NOW,
    )
    assert context.request == again.request
    assert context.verification == again.verification


def test_replay_under_another_model_window_and_policy():
    packages = brimful.conversation(conversation(60), model="gpt-4")
    context = brimful.assemble(packages, model="gpt-4", window=3000, completion=300, now=NOW)
    larger = brimful.replay(context, model="claude-3-opus")
    assert (larger.budget.window, larger.inputs.model.wire) == (200_000, "anthropic")
    assert len(larger.kept) == len(packages)
    assert brimful.replay(context, window=2000).tokens <= 2000
    assert brimful.replay(context, policy="window").budget.policy == "window"
    assert brimful.replay(context, overrides={"pools.recent.max_items": 4}).component("recent").items <= 4
    assert brimful.replay(context, completion=10).budget.completion == 10


def test_the_record_has_the_focus_of_the_call():
    question = brimful.package("message-current", "Hi.", model="gpt-4o", id="now")
    assert brimful.assemble([question], model="gpt-4o", focus="the garden", now=NOW).inputs.focus == "the garden"


def test_an_unknown_model_gets_8192_and_a_warning():
    context = brimful.assemble([brimful.package("message-current", "hi", model="x-1")], model="x-1", now=NOW)
    assert context.budget.window == 8192
    assert any("unknown model 'x-1'" in warning.text for warning in context.warnings)


def test_tools_are_part_of_the_request_and_of_the_count():
    tool = brimful.Tool(name="look", description="Look something up.", parameters={"type": "object", "properties": {}})
    packages = brimful.conversation(conversation(3), model="gpt-4o")
    plain = brimful.assemble(packages, model="gpt-4o", now=NOW)
    with_tools = brimful.assemble(packages, model="gpt-4o", now=NOW, tools=[tool])
    assert with_tools.request["tools"][0]["function"]["name"] == "look"
    assert with_tools.tokens > plain.tokens


def test_messages_that_may_be_cut_fill_the_window_to_the_brim():
    long = [{"role": "user", "content": f"Message {n}. " + "It says a lot. " * 150} for n in range(9)]
    for least in (None, 50):
        packages = brimful.conversation([*long, {"role": "user", "content": "So?"}], model="gpt-4o", min_tokens=least)
        context = brimful.assemble(
            packages, model="gpt-4o", window=1800, completion=100, now=NOW, overrides={"forms.kinds": []}
        )
        assert (context.tokens >= 0.97 * context.budget.available) is (least == 50)
    assert context.decision("msg-000006").outcome == "shrunk"
    with pytest.raises(brimful.errors.InvalidPackage, match=r"flex\.min_tokens"):
        brimful.conversation(long, model="gpt-4o", min_tokens=0)


def test_tools_may_be_in_the_form_of_openai():
    function = {"name": "look", "description": "Look it up.", "parameters": {"type": "object", "properties": {}}}
    packages = brimful.conversation(conversation(3), model="gpt-4o")
    theirs = brimful.assemble(packages, model="gpt-4o", now=NOW, tools=[{"type": "function", "function": function}])
    assert theirs.inputs.tools == (brimful.Tool(**function),)
    with pytest.raises(brimful.errors.InvalidRequest, match=r"tools\[0\]\.function\.name"):
        brimful.assemble(packages, model="gpt-4o", now=NOW, tools=[{"type": "function", "function": {}}])


def test_an_unknown_method_is_named():
    with pytest.raises(
        brimful.errors.InvalidValue, match="method: must be one of approximate, exact, calibrated, hybrid"
    ):
        brimful.counter("gpt-4o", method="guess")


def test_a_misspelt_option_is_named():
    with pytest.raises(brimful.errors.InvalidPackage, match="relevence: is not an option of packages"):
        brimful.package("memory-semantic", "tea", model="gpt-4o", relevence=0.9)


def test_the_wire_can_be_another_than_the_models_own():
    packages = brimful.conversation(conversation(3), model="claude-sonnet-4-5")
    context = brimful.assemble(packages, model="claude-sonnet-4-5", wire="openai", now=NOW)
    assert context.request["messages"][0]["role"] == "system"


def test_the_clock_is_read_only_if_no_time_is_given():
    packages = [brimful.package("message-current", "hi", model="gpt-4o")]
    assert brimful.assemble(packages, model="gpt-4o").inputs.now > NOW - 1e8
    moment = datetime(2026, 11, 15, tzinfo=UTC)
    assert brimful.assemble(packages, model="gpt-4o", now=moment).inputs.now == moment.timestamp()


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("window", {"window": -1}),
        ("window", {"window": 10.5}),
        ("completion", {"completion": True}),
        ("completion", {"completion": 0}),
        ("model", {"model": None}),
        ("policy", {"policy": None}),
        ("wire", {"wire": "telex"}),
        ("previous", {"previous": "ctx-1"}),
        ("tools[1]", {"tools": [brimful.Tool(name="f"), "g"]}),
        ("now", {"now": datetime(2026, 1, 1)}),  # noqa: DTZ001 - that is what is refused
        ("now", {"now": math.nan}),
        ("now", {"now": "today"}),
        ("now", {"now": math.inf}),
        ("packages", {"packages": []}),
        ("packages[0]", {"packages": [{"id": "a"}]}),
        ("packages[0]", {"packages": "abc"}),
        ("packages", {"packages": None}),
        ("packages", {"packages": {"id": "a"}}),
        ("tools", {"tools": None}),
        ("tools.description", {"tools": [{"type": "function", "function": {"name": "f", "description": 7}}]}),
        ("tools.name", {"tools": [{"type": "function", "function": {"name": "f\ud800"}}]}),
        ("degraded", {"degraded": None}),
        ("degraded", {"degraded": "the memories are down"}),
        ("degraded[0]", {"degraded": [7]}),
        ("overrides", {"overrides": [("counting", "exact")]}),
        ("overrides: a key", {"overrides": {1: 2}}),
        ("overrides: a key", {"overrides": {"\ud800": 2}}),
        ("model", {"model": "\ud800"}),
        ("window", {"window": 10**400}),
        ("completion", {"completion": 10**5000}),
        ("now", {"now": 10**400}),
        ("now", {"now": True}),
    ],
)
def test_wrong_arguments_are_named(field, changes):
    hello = brimful.package("message-current", "hi", model="gpt-4o")
    arguments = {"packages": [hello], "model": "gpt-4o", "now": NOW} | changes
    with pytest.raises(brimful.errors.InvalidValue) as caught:
        brimful.assemble(arguments.pop("packages"), **arguments)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("context", lambda: brimful.replay(None)),
        ("text", lambda: brimful.count(None, model="gpt-4o")),
        ("messages", lambda: brimful.conversation(None, model="gpt-4o")),
        ("messages", lambda: brimful.conversation({"role": "user"}, model="gpt-4o")),
        ("timestamp", lambda: brimful.conversation([{"role": "user", "content": "x"}], model="gpt-4o", start=10**400)),
        ("window", lambda: brimful.budget(model="gpt-4o", window=10**400)),
    ],
)
def test_other_functions_name_the_wrong_field(field, call):
    with pytest.raises(brimful.errors.InvalidValue) as caught:
        call()
    assert caught.value.field == field


@pytest.mark.parametrize("model", MODELS)
def test_lone_surrogates_are_replaced_in_all_that_the_model_reads(model):
    bad = "\ud800"
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": f'{{"q": "{bad}"}}'}}
    messages = [
        {"role": "system", "content": bad},
        {"role": "user", "name": f"Ada{bad}", "content": [{"type": "text", "text": bad}]},
        {"role": "assistant", "content": bad, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": bad},
        {"role": "user", "content": bad},
    ]
    tools = [
        brimful.Tool(name="f", description=bad, parameters={"properties": {bad: {"enum": (bad, "b")}}}),
        {"type": "function", "function": {"name": "g", "description": bad}},
    ]
    packages = brimful.conversation(messages, model=model)
    context = brimful.assemble(packages, model=model, now=NOW, tools=tools, degraded=[bad])
    assert context.inputs.degraded == (Notice(kind="other", text="\ufffd"),)
    assert brimful.Context.from_json(context.to_json()) == context


@pytest.mark.parametrize("model", MODELS)
def test_a_system_message_within_a_conversation_stays_in_its_place(model):
    messages = conversation(40)
    messages.insert(-21, {"role": "system", "content": "From here on, rhyme."})
    packages = brimful.conversation(messages, model=model)
    for window in (1200, 60_000):
        context = brimful.assemble(packages, model=model, window=window, completion=100, now=NOW)
        assert context.explain(packages[-22].id).startswith("kept: required")
        request = str(context.request)
        assert request.count("From here on, rhyme.") == 1
        assert request.index("You are Helper.") < request.index("From here on, rhyme.") < request.index("And now?")
    assert request.index("Question 1:") < request.index("From here on, rhyme.") < request.index("Question 39:")


def test_messages_may_be_any_mapping_in_any_iterable():
    messages = ({"role": "user", "content": "hi"}, UserDict({"role": "user", "name": "Ada", "content": "ho"}))
    made = brimful.conversation((MappingProxyType(message) for message in messages), model="gpt-4o")
    assert [(entry.content, entry.name) for entry in made] == [("hi", ""), ("ho", "Ada")]


def test_a_record_with_everything_nearly_right_is_read_back_equal():
    tool = brimful.Tool(name="f", parameters={"enum": (1, math.nan)})
    sound = brimful.Media(modality="audio", url="https://example.org/a.mp3", seconds=30)
    packages = [
        brimful.package("message-current", "hi", model="gpt-4o", timestamp=5, importance=1, metadata={"pair": (1, 2)}),
        brimful.package("media-audio", [sound], model="gpt-4o"),
    ]
    context = brimful.assemble(packages, model="gpt-4o", now=10, tools=[tool])
    assert brimful.Context.from_json(context.to_json()) == context


def test_broken_histories_are_mended_or_refused_by_name():
    messages = [
        {"role": "tool", "tool_call_id": "lost", "content": "orphan"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}, "type": "function"}],
        },
        {"role": "user", "name": "Ada Lovelace", "content": [{"type": "text", "text": "and?"}]},
    ]
    context = brimful.assemble(brimful.conversation(messages, model="gpt-4o"), model="gpt-4o", now=NOW)
    assert [context.decision(f"msg-00000{n}").reason for n in (0, 2)] == ["unpaired", "unpaired"]
    assert len(context.request["messages"]) == 2
    with pytest.raises(brimful.errors.InvalidRequest, match=r"messages\[0\]\.role"):
        brimful.conversation([{"role": "wizard", "content": "hi"}], model="gpt-4o")
    with pytest.raises(brimful.errors.InvalidRequest, match=r"messages\[0\]"):
        brimful.conversation(["hi"], model="gpt-4o")
    assert brimful.conversation([], model="gpt-4o") == []


def test_count_says_how_sure_it_is():
    assert brimful.count("hello", model="gpt-4o").basis == "exact"
    assert brimful.count("hello", model="claude-sonnet-4-5").basis == "calibrated"
    assert brimful.count("hello", model="never-heard-of-it").basis == "calibrated"
    assert brimful.count("hello", model="gpt-4o", method="approximate").basis == "approximate"
    with pytest.raises(brimful.errors.TokenizerUnavailable, match="claude"):
        brimful.count("hello", model="claude-sonnet-4-5", method="exact")


def test_a_huge_text_is_counted_and_refused_quickly():
    huge = brimful.package("message-current", "word " * 1_000_000, model="gpt-4o")
    with pytest.raises(brimful.errors.BudgetExceeded):
        brimful.assemble([huge], model="gpt-4o", now=NOW, overrides={"forms.kinds": []})
    smaller = brimful.package("message-current", "A word. " * 300_000, model="gpt-4o", min_tokens=100)
    context = brimful.assemble([smaller], model="gpt-4o", now=NOW)
    assert 0.97 * context.budget.hard_limit <= context.tokens <= context.budget.hard_limit


@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5"])
def test_further_fields_are_added_to_ours_and_override_them(model):
    packages = [brimful.package("message-current", "Hi", model=model)]
    tools = [brimful.Tool(name="look")]
    plain = brimful.assemble(packages, model=model, tools=tools, completion=50, now=NOW)
    warm = brimful.assemble(packages, model=model, tools=tools, completion=50, fields={"temperature": 1}, now=NOW)
    assert warm.request == plain.request | {"temperature": 1}
    assert warm.tokens == plain.tokens
    brief = brimful.assemble(packages, model=model, fields={"max_tokens": 9}, now=NOW)
    assert brief.request == {"model": model, "max_tokens": 9, "messages": plain.request["messages"]}


def test_a_whole_request_of_a_client_gets_no_field_of_ours():
    packages = [brimful.package("message-current", "Hi", model="gpt-4o")]
    context = brimful.assemble(packages, model="gpt-4o", fields={"model": "mine", "seed": 1}, now=NOW)
    assert context.request == {"model": "mine", "seed": 1, "messages": [{"role": "user", "content": "Hi"}]}


def test_pictures_for_a_model_without_a_rule_are_noted():
    picture = Media(modality="image", url="https://example.org/cat.png", width=1024, height=1024)
    question = brimful.package("message-current", (Text(text="What is this?"), picture), model="my-model", id="now")
    context = brimful.assemble([question], model="my-model", window=20_000, now=0)
    [notice] = [each for each in context.warnings if each.kind == "unknown-image-rule"]
    assert notice.facts == {"model": "my-model", "ids": ["now/image-1"]}
    assert 4_096 < context.tokens < 4_200  # half of the window that is assumed
    known = brimful.assemble([question], model="gpt-4o", now=0)
    assert [each.kind for each in known.warnings] == []
