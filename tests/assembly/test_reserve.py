"""The reserve for the answer: what a request allows gives way before the newest step is shortened."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brimful
from brimful.errors import BudgetExceeded
from strategies import examples

RESULT = "\n".join(f"line {number}: value_{number} = compute(item_{number % 7})" for number in range(150))[:6_018]
RULES = "You are a coding agent. Follow the rules of the house. " * 2_000
SIZES = (53_500, 54_900, 57_000, 65_400)


def run(system, *, steps=3, result=RESULT):
    messages = [{"role": "system", "content": RULES[:system]}, {"role": "user", "content": "Why is value_77 wrong?"}]
    for number in range(steps):
        function = {"name": "read_file", "arguments": json.dumps({"path": f"src/{number}.py"})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    return messages


def fitted(messages, *, window=24_000, max_tokens=8_000, **options):
    request = {"model": "gpt-4o", "max_tokens": max_tokens, "messages": messages}
    return brimful.fit(request, window=window, now=0, **options)


def newest(context):
    return context.request["messages"][-1]["content"]


def notices(context):
    return {notice.kind: notice.facts for notice in context.warnings}


@pytest.mark.parametrize("system", SIZES)
def test_the_reserve_gives_way_before_the_newest_result_is_shortened(system):
    context = fitted(run(system, steps=2))
    reserved = context.budget.completion
    assert newest(context) == RESULT
    assert 4_096 <= reserved <= 8_000
    assert reserved < 8_000 or system < 57_000  # with a shorter prompt, a line for the step before is enough
    assert context.request["max_tokens"] == reserved
    assert context.tokens + reserved <= 24_000
    lowered = {"smaller-reserve": {"reserved": reserved, "requested": 8_000}}
    assert notices(context) == (lowered if reserved < 8_000 else {})


def test_the_reserve_gives_way_no_further_than_is_needed():
    reserves = [fitted(run(system)).budget.completion for system in (30_000, *SIZES)]
    assert reserves[0] == 8_000
    assert reserves == sorted(reserves, reverse=True)
    assert len(set(reserves)) == len(reserves)


def test_a_result_that_does_not_fit_beside_the_policys_reserve_is_shortened():
    context = fitted(run(78_000))
    assert context.budget.completion == context.request["max_tokens"] == 4_096
    assert notices(context).keys() == {"smaller-reserve", "required-shrunk"}
    assert 0 < len(newest(context)) < len(RESULT)


@settings(max_examples=examples(20), deadline=None)
@given(
    st.lists(st.integers(0, 85_000), min_size=2, max_size=4).map(sorted),
    st.integers(1, 5),
    st.sampled_from([500, 4_096, 8_000, 16_000, 30_000]),
)
def test_a_longer_system_prompt_never_lengthens_the_newest_result(systems, steps, max_tokens):
    sizes = [len(newest(fitted(run(system, steps=steps), max_tokens=max_tokens))) for system in systems]
    assert sizes == sorted(sizes, reverse=True)


def test_a_reserve_of_the_caller_never_gives_way():
    context = fitted(run(57_000), completion=8_000)
    assert context.budget.completion == context.request["max_tokens"] == 8_000
    assert notices(context).keys() == {"required-shrunk"}
    with pytest.raises(BudgetExceeded):
        fitted(run(70_000), completion=8_000)


def test_a_policy_can_cut_the_newest_result_first():
    overrides = {"completion.gives_way": False}
    context = fitted(run(57_000), overrides=overrides)
    assert context.request["max_tokens"] == 8_000
    assert notices(context).keys() == {"required-shrunk"}
    assert fitted(run(70_000), overrides=overrides).budget.completion == 4_096


def test_a_reserve_of_more_than_half_of_the_window_gives_way_to_any_content():
    history = [{"role": role, "content": f"word {'word ' * 40}"} for role in ("user", "assistant") * 9]
    messages = [*history, {"role": "user", "content": "So?"}]
    everything = fitted(messages, window=1_800, max_tokens=1_000)
    assert (everything.is_reduced, 900 < everything.budget.completion < 1_000) == (False, True)
    for max_tokens in (1_000, 1_600, 20_000):
        some = fitted(messages, window=1_200, max_tokens=max_tokens)
        assert some.budget.completion == some.request["max_tokens"] == 600
        assert 500 < some.tokens <= 600


def test_the_reserve_does_not_give_way_where_that_does_not_help():
    context = fitted(run(0, result=RESULT * 5), max_tokens=20_000, max_prompt_tokens=2_000)
    assert context.budget.completion == 20_000
    assert notices(context).keys() == {"required-shrunk"}


def test_an_answer_that_may_be_no_longer_than_the_policys_reserve_is_not_lowered():
    context = fitted(run(78_000), max_tokens=4_096)
    assert context.budget.completion == 4_096
    assert "smaller-reserve" not in notices(context)


def test_a_replay_reserves_the_same_and_a_what_if_what_it_is_given():
    context = fitted(run(57_000))
    assert brimful.replay(context).to_json() == context.to_json()
    assert brimful.replay(context, completion=8_000).budget.completion == 8_000
    assert brimful.replay(context, window=32_000).budget.completion == 8_000


def test_a_result_that_was_shortened_before_is_whole_again_if_the_policys_reserve_leaves_room():
    before = fitted(run(78_000))
    again = fitted(run(57_000), previous=before)
    assert len(newest(before)) < len(newest(again)) == len(RESULT)
    assert again.budget.completion == before.budget.completion == 4_096


def test_the_report_says_what_is_reserved():
    context = fitted(run(57_000))
    assert f"Answer:{context.budget.completion:>20,}".replace(" ", "") in context.report().replace(" ", "")


# -- formats ---------------------------------------------------------------------------------------------------------

QUESTION = "word " * 700
TEXT = [{"role": "user", "content": QUESTION}]
CONTENTS = [{"role": "user", "parts": [{"text": QUESTION}]}]


@pytest.mark.parametrize(
    ("wire", "fields", "lowered"),
    [
        ("openai", {"messages": TEXT, "max_completion_tokens": 500}, {"max_completion_tokens": 276}),
        ("openai", {"messages": TEXT, "max_tokens": 500, "n": 1}, {"max_tokens": 276, "n": 1}),
        ("responses", {"input": TEXT, "max_output_tokens": 500}, {"max_output_tokens": 276}),
        ("anthropic", {"messages": TEXT, "max_tokens": 500}, {"max_tokens": 276}),
        (
            "anthropic",
            {"messages": TEXT, "max_tokens": 500, "thinking": {"type": "enabled", "budget_tokens": 400}},
            {"max_tokens": 401, "thinking": {"type": "enabled", "budget_tokens": 400}},
        ),
        ("ollama", {"messages": TEXT, "options": {"num_predict": 500}}, {"options": {"num_predict": 276}}),
        (  # input and output have limits of their own
            "gemini",
            {
                "contents": [{"role": "user", "parts": [{"text": QUESTION}]}],
                "generationConfig": {"maxOutputTokens": 500},
            },
            {"generationConfig": {"maxOutputTokens": 500}},
        ),
    ],
)
def test_the_output_limit_of_the_request_is_lowered_with_the_reserve(wire, fields, lowered):
    context = brimful.fit(fields, wire=wire, model="gpt-4o", window=1_000, now=0)
    own = {"messages", "input", "contents"}
    assert context.budget.completion == 276
    assert {key: value for key, value in context.request.items() if key not in own} == lowered


# -- one huge result -------------------------------------------------------------------------------------------------


def test_a_huge_newest_result_uses_what_is_free():
    did = ("handled a request", "opened a stream", "tried again after an error")
    lines = [f"2024-05-01 10:{at // 60 % 60:02}:{at % 60:02} INFO {did[at * at % 3]} {at}" for at in range(20_000)]
    lines[11_000] = "2024-05-01 11:07:01 FATAL worker-7 the pool is closed, order W-3391 was lost"
    context = fitted(run(100, steps=1, result="\n".join(lines)), window=8_000, max_tokens=500)
    assert "order W-3391 was lost" in newest(context)
    assert 0.7 * 8_000 < context.tokens <= 7_500


def test_a_huge_newest_result_leaves_room_for_what_comes_next():
    messages = run(100, steps=4, result="\n".join(f"{at}: " + "a b c " * (at % 9) for at in range(9_000)))
    before = fitted(messages[:-2], window=8_000, max_tokens=500)
    extended = [*messages[:-2], *run(0, steps=1, result="Done.")[2:]]
    after = fitted(extended, window=8_000, max_tokens=500, previous=before)
    assert after.request["messages"][: len(before.request["messages"])] == before.request["messages"]


@pytest.mark.parametrize("limit", [None, 32_000])
def test_nothing_is_shortened_if_a_shorter_answer_leaves_room_for_everything(limit):
    messages = run(40_000)
    context = fitted(messages, window=65_536, max_tokens=65_536, max_prompt_tokens=limit)
    assert context.request["messages"] == messages
    assert context.request["max_tokens"] == context.budget.completion < 65_536
