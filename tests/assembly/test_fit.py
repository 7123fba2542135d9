"""A given request, made to fit: nothing is over, nothing is torn, and what stays is as it was."""

import copy
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brimful
from brimful.assembly.fit import fit
from brimful.core.content import Media
from brimful.core.context import Context
from brimful.errors import BudgetExceeded, InvalidRequest, InvalidValue
from strategies import examples

NOW = 1_700_000_000
MODEL = "gpt-4o"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def says(role, text, **more):
    return {"role": role, "content": text, **more}


def calls(id, *, name="look_up", arguments='{"q": "tea"}'):
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": id, "type": "function", "function": function}]}


def answers(id, text="Green, at 80 degrees."):
    return {"role": "tool", "tool_call_id": id, "content": text}


def chat(turns, *, words=40):
    """A conversation of so many questions and answers; every third answer was looked up."""
    messages = [says("system", "Be brief.")]
    for turn in range(turns):
        messages.append(says("user", f"Question {turn}. " + "word " * words))
        if turn % 3 == 0:
            messages += [calls(f"c{turn}"), answers(f"c{turn}")]
        messages.append(says("assistant", f"Answer {turn}. " + "word " * words))
    return [*messages, says("user", "And now?")]


def body(messages, **more):
    return {"model": MODEL, "messages": messages, "max_tokens": 100, **more}


def fitted(request, window=None, **options):
    return fit(request, window=window, now=NOW, **options)


# -- what is passed on -----------------------------------------------------------------------------------------------


def test_a_request_that_fits_is_passed_on_as_it_is():
    odd = {
        "temperature": 0.25,
        "n": 3,
        "logprobs": True,
        "top_logprobs": 5,
        "x-vendor": {"deep": [1, None, {"\0": [0]}]},
        "tool_choice": "auto",
    }
    messages = [
        says("developer", "Be brief.", cache_control={"type": "ephemeral"}),
        says(
            "user",
            [
                {"type": "text", "text": "Look:", "annotations": []},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
            ],
        ),
        says("assistant", "user", reasoning_content="A picture of tea.", mood="good"),
        calls("c1"),
        answers("c1"),
        says("user", [{"type": "file", "file": {"file_id": "f-1"}}]),
    ]
    request = {"stream": True, **body(messages), **odd}
    before = copy.deepcopy(request)
    context = fitted(request)
    assert json.dumps(context.request) == json.dumps(before)
    assert request == before
    assert all(decision.included for decision in context.decisions)


def test_what_is_too_much_goes_from_the_oldest_on_and_all_else_stays_byte_for_byte():
    request = body(chat(40), seed=7)
    context = fitted(request, window=2000)
    sent = context.request["messages"]
    assert sent[0] == request["messages"][0]
    assert sent[1:] == request["messages"][-len(sent[1:]) :]
    assert 10 < len(sent) < len(request["messages"])
    assert {key: context.request[key] for key in context.request if key != "messages"} == {
        key: request[key] for key in request if key != "messages"
    }
    assert list(context.request) == list(request)
    assert context.tokens <= context.budget.hard_limit == 1900
    assert context.decision("msg-000001").reason in ("older", "pool-full")


def test_fields_of_messages_that_nobody_knows_stay_when_others_go():
    messages = chat(40)
    messages[-2] |= {"reasoning_content": "So it is.", "cache_control": {"type": "ephemeral"}, "audio": {"id": "a1"}}
    context = fitted(body(messages), window=2000)
    assert context.request["messages"][-2] == messages[-2]


def test_what_is_counted_is_what_is_sent():
    context = fitted(body(chat(40)), window=2000)
    again = fitted(context.request, window=2000)
    assert again.request == context.request
    assert again.tokens == context.tokens


# -- what is required ------------------------------------------------------------------------------------------------


def test_system_messages_and_the_last_words_of_the_user_are_never_left_out():
    messages = [*chat(30)[:-1], says("system", "Speak French now."), says("user", "And now?")]
    kept = fitted(body(messages), window=400).request["messages"]
    assert kept[0] == messages[0]
    assert kept[-2:] == messages[-2:]


def test_an_agents_long_run_keeps_its_question_and_its_last_step():
    steps = [message for at in range(60) for message in (calls(f"c{at}"), answers(f"c{at}", "word " * 50))]
    messages = [says("system", "Be brief."), says("user", "Find it."), *steps]
    kept = fitted(body(messages), window=1500).request["messages"]
    assert kept[:2] == messages[:2]
    assert kept[-2:] == messages[-2:]
    assert kept[2]["tool_calls"][0]["id"] == kept[3]["tool_call_id"]


def test_a_message_that_alone_is_too_large_is_refused_with_the_numbers():
    with pytest.raises(BudgetExceeded) as refused:
        fitted(body([says("user", "word " * 3000)]), window=2000)
    assert refused.value.limit == 1900
    assert refused.value.needed > 3000
    assert refused.value.required[0][0] == "msg-000000"


def test_it_may_be_cut_where_that_is_allowed():
    long = says("user", [{"type": "text", "text": "A sentence. " * 1000, "cache_control": {"type": "ephemeral"}}])
    context = fitted(body([says("system", "Be brief."), long]), window=600, min_tokens=50)
    text = context.request["messages"][1]["content"][0]["text"]
    assert text.endswith("[…]")
    assert text.startswith("A sentence. A sentence.")
    assert context.request["messages"][1]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert context.decision("msg-000001").outcome == "shrunk"
    assert 450 < context.tokens <= 500


def test_what_a_tool_answered_in_several_parts_is_not_cut():
    parts = [{"type": "text", "text": "word " * 500}, {"type": "text", "text": "word " * 500}]
    with pytest.raises(BudgetExceeded):
        fitted(body([says("user", "Find it."), calls("c1"), answers("c1", parts)]), window=600, min_tokens=50)


# -- tools -----------------------------------------------------------------------------------------------------------


def is_whole(messages):
    """Whether every call is followed by its results, and no result stands without its call."""
    waiting = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
        else:
            if waiting:
                return False
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
    return not waiting


@pytest.mark.parametrize("window", range(300, 3000, 137))
def test_a_call_and_its_results_are_one(window):
    messages = chat(40)
    kept = fitted(body(messages), window=window).request["messages"]
    assert is_whole(kept)
    assert all(message in messages for message in kept)


def test_parallel_calls_and_ids_that_are_used_again():
    messages = [says("system", "Be brief.")]
    for turn in range(30):
        asked = calls("call_1")
        asked["tool_calls"].append({**asked["tool_calls"][0], "id": "call_2"})
        messages += [says("user", f"{turn} " + "word " * 20), asked, answers("call_2"), answers("call_1")]
    context = fitted(body([*messages, says("user", "And now?")]), window=1500)
    kept = context.request["messages"]
    assert is_whole(kept)
    assert kept[-5:-1] == messages[-4:]


def test_what_was_broken_before_is_passed_on_and_breaks_nothing_else():
    messages = [
        *chat(10)[:-1],
        answers("nobody-called"),
        calls("never-answered"),
        says("user", "Hello? " * 10),
        *[message for at in range(3) for message in (calls(f"d{at}"), answers(f"d{at}"))],
    ]
    assert fitted(body(messages)).request["messages"] == messages
    kept = fitted(body(messages), window=900).request["messages"]
    assert answers("nobody-called") in kept
    assert kept == [messages[0], *messages[-len(kept) + 1 :]]


def test_calls_of_the_older_kind_stay_with_their_results():
    asked = {"role": "assistant", "content": None, "function_call": {"name": "look_up", "arguments": "{}"}}
    answer = {"role": "function", "name": "look_up", "content": "word " * 30}
    messages = [says("user", "Find it."), *([asked, answer] * 30)]
    kept = fitted(body(messages), window=900).request["messages"]
    assert len(kept) % 2 == 1
    assert kept[1:3] == [asked, answer]


def test_tools_on_offer_are_counted_and_sent_as_they_are():
    schema = {"type": "object", "properties": {"q": {"type": "string", "description": "what to look for " * 20}}}
    tools = [
        {"type": "function", "function": {"name": "look_up", "parameters": schema, "strict": True}},
        {"type": "custom", "custom": {"name": "shell"}},
    ]
    plain, offered = fitted(body(chat(5))), fitted(body(chat(5), tools=tools))
    assert offered.tokens > plain.tokens + 60
    assert offered.request["tools"] is tools or offered.request["tools"] == tools


# -- the answer's share ----------------------------------------------------------------------------------------------


def test_the_reserve_is_what_the_request_allows_for_the_answer():
    assert fitted(body(chat(3))).budget.completion == 100
    assert fitted({**body(chat(3)), "max_completion_tokens": 333}).budget.completion == 333
    without = {key: value for key, value in body(chat(3)).items() if key != "max_tokens"}
    assert fitted(without).budget.completion == 4096
    assert fitted(body(chat(3)), completion=50).budget.completion == 50


def test_an_answer_that_could_take_all_of_the_window_leaves_the_policys_share():
    request = {**body([says("user", "word " * 100)]), "max_tokens": 1000}
    context = fitted(request, window=1000)
    assert context.budget.completion == 250
    assert context.request == request
    [notice] = context.warnings
    assert (notice.kind, notice.facts) == ("smaller-reserve", {"reserved": 250, "requested": 1_000})


# -- the prefix ------------------------------------------------------------------------------------------------------


def test_history_is_trimmed_in_rare_large_steps():
    messages, previous, starts = chat(20), None, []
    for turn in range(60):
        messages += [says("assistant", "word " * 40), says("user", f"Go on, {turn}. " + "word " * 40)]
        previous = fitted(body(messages), window=2500, previous=previous)
        starts.append(previous.request["messages"][1]["content"])
    changes = sum(before != after for before, after in pairwise(starts))
    assert changes < 12
    assert starts[-1] != starts[0]


# -- Anthropic -------------------------------------------------------------------------------------------------------


def claude(messages, **more):
    return {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": messages, **more}


def uses(id):
    return says(
        "assistant",
        [
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": id, "name": "look_up", "input": {"q": "tea", "deep": [1.5, None]}},
        ],
    )


def returns(id, *more):
    return says(
        "user", [{"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": "word " * 30}]}, *more]
    )


def test_a_messages_request_that_fits_is_passed_on_as_it_is():
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    messages = [
        says("user", [{"type": "text", "text": "Look:"}, picture]),
        says("assistant", [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, *uses("t1")["content"]]),
        returns("t1", {"type": "text", "text": "And this one?", "cache_control": {"type": "ephemeral"}}, picture),
    ]
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    request = claude(
        messages, system=system, thinking={"type": "enabled", "budget_tokens": 2000}, metadata={"user_id": "u"}
    )
    context = fitted(request, wire="anthropic")
    assert json.dumps(context.request) == json.dumps(request)
    assert any(isinstance(part, Media) for package in context.inputs.packages for part in package.parts)


@pytest.mark.parametrize("window", range(500, 4000, 311))
def test_turns_of_claude_stay_whole_and_begin_with_the_user(window):
    messages = []
    for turn in range(30):
        said = {"type": "text", "text": f"Next, {turn}. " + "word " * 20}
        messages += [returns(f"t{turn - 1}", said) if turn else says("user", [said]), uses(f"t{turn}")]
    messages.append(returns("t29", {"type": "text", "text": "And now?"}))
    sent = fitted(claude(messages, system="Be brief."), wire="anthropic", window=window).request
    kept = sent["messages"]
    assert kept[0]["role"] == "user"
    assert kept[-2:] == messages[-2:]
    used = {
        block["id"]
        for turn in kept
        for block in turn["content"]
        if isinstance(block, dict) and block["type"] == "tool_use"
    }
    answered = {
        block["tool_use_id"]
        for turn in kept
        for block in turn["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    }
    assert used == answered
    assert sent["system"] == "Be brief."


# -- laws ------------------------------------------------------------------------------------------------------------

texts = st.text(max_size=60) | st.sampled_from(["", "user", "tool", " ", "\0", "a\ud800b", "<|im_end|>", "日本語" * 20])
contents = texts | st.none() | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts}), max_size=3)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
spoken = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "developer", "function", "critic"]), "content": contents},
    optional={"name": texts, "refusal": anything, "extra": anything, "reasoning_content": texts},
)
ids = st.sampled_from(["c1", "c2", "c3", ""])
called = ids.map(calls)
answered = st.builds(answers, ids, contents)
conversations = st.lists(spoken | called | answered, min_size=1, max_size=25)


@settings(max_examples=examples(60))
@given(
    conversations,
    st.integers(150, 900),
    st.dictionaries(
        texts.filter(
            lambda key: key not in ("model", "messages", "max_tokens", "max_completion_tokens", "tools", "functions")
        ),
        anything,
        max_size=3,
    ),
)
def test_any_list_of_messages_is_fitted_or_refused_with_its_numbers(messages, window, more):
    request = {**more, **body(messages, max_tokens=20)}
    try:
        context = fitted(request, window=window)
    except BudgetExceeded:
        return
    assert context.tokens <= context.budget.hard_limit
    sent = context.request["messages"]
    clean = [fitted(body([message]), window=10**6).request["messages"][0] for message in messages]
    at = 0
    for message in sent:
        at = clean.index(message, at) + 1
    assert len(context.decisions) == len(messages)
    assert sum(decision.included for decision in context.decisions) == len(sent)
    assert fitted(request, window=window).to_json() == context.to_json()
    assert brimful.replay(Context.from_json(context.to_json())).to_json() == context.to_json()


# -- what is no request ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ([], "must be an object"),
        ({"model": MODEL}, "messages: must be a list"),
        ({"model": MODEL, "messages": []}, "messages: must not be empty"),
        ({"model": MODEL, "messages": ["Hi"]}, "messages[0]: must be an object"),
        ({"model": MODEL, "messages": [{"content": "Hi"}]}, "messages[0].role: must be a string"),
        ({"model": MODEL, "messages": [says("user", object())]}, "messages[0]: must be plain JSON data"),
    ],
)
def test_what_is_no_request_is_refused_by_name(request_, complaint):
    with pytest.raises(InvalidRequest, match=complaint.replace("[", r"\[").replace("]", r"\]")):
        fit(request_)


def test_other_wires_are_refused():
    with pytest.raises(InvalidValue, match="must be one of openai, anthropic"):
        fit(body(chat(1)), wire="gemini")


# -- what tools showed -----------------------------------------------------------------------------------------------


SCREEN = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "high"}}


def test_a_picture_in_a_tools_answer_is_counted():
    asked = [says("user", "Look."), calls("c1")]
    words = fitted(body([*asked, answers("c1", [{"type": "text", "text": "Here."}])]))
    shown = fitted(body([*asked, answers("c1", [{"type": "text", "text": "Here."}, SCREEN])]))
    assert shown.tokens >= words.tokens + 255
    assert shown.request["messages"][-1]["content"][1] == SCREEN
    assert brimful.replay(shown).request == shown.request


def test_what_a_tool_showed_is_not_what_the_user_said_last():
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    question = says("user", "Which of these screens is broken?")
    messages = [question]
    for step in range(12):
        use = {"type": "tool_use", "id": f"c{step}", "name": "look", "input": {}}
        shown = [{"type": "text", "text": "word " * 60}, {"type": "image", "source": source}]
        answer = {"type": "tool_result", "tool_use_id": f"c{step}", "content": shown}
        messages += [says("assistant", [use]), says("user", [answer])]
    request = {"model": "claude-sonnet-4-5", "max_tokens": 50, "messages": messages}
    sent = fitted(request, wire="anthropic", window=900)
    assert len(sent.request["messages"]) < len(messages)
    assert question in sent.request["messages"]
    assert brimful.replay(sent).request == sent.request


@pytest.mark.parametrize("depth", [200, 700, 5_000])
@pytest.mark.parametrize("field", ["tools", "messages", "metadata"])
def test_deep_nesting_is_an_error(field, depth):
    nested = []
    for _ in range(depth):
        nested = [nested]
    request = {"messages": [{"role": "user", "content": "Hi"}]}
    request |= {"messages": [{"role": "user", "content": nested}]} if field == "messages" else {field: nested}
    with pytest.raises(InvalidRequest, match="is nested more than 128 levels deep"):
        fit(request, model="gpt-4o")
