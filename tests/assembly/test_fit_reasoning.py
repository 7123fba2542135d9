"""The model's reasoning of earlier turns goes first, where the provider does not need it, and nowhere else."""

import pytest

import brimful
from brimful.assembly.compact import compact_now
from brimful.assembly.fit import fit
from brimful.core.context import Context
from brimful.testing import find_violations
from brimful.wires.registry import all_wires

NOW = 1_700_000_000
THOUGHT = "I should look that up in the list of orders, since the user did not say which one it is. " * 5
RESULT = "Order W7000 has been sent."


def request(wire, turns=4, **item):
    """Return a request whose turns have one call each. The last answer is in progress."""
    messages = []
    for turn in range(turns):
        id = f"call_{turn}"
        messages += WRITERS[wire](f"Where is order {turn}?", id, f"Thought {turn}. {THOUGHT}", item)
        if turn < turns - 1:
            messages += ANSWERS[wire](f"Order {turn} has been sent.")
    if wire == "gemini":
        return {"contents": messages, "generationConfig": {"maxOutputTokens": 50}}
    field, limit = ("input", "max_output_tokens") if wire == "responses" else ("messages", "max_tokens")
    return {"model": "claude-sonnet-4-5" if wire == "anthropic" else "gpt-5", limit: 50, field: messages}


def write_anthropic(asked, id, thought, _):
    thinking = {"type": "thinking", "thinking": thought, "signature": "c2ln" * 10}
    use = {"type": "tool_use", "id": id, "name": "get_order", "input": {"order": "W7000"}}
    return [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": [thinking, {"type": "redacted_thinking", "data": "eHh4" * 20}, use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": RESULT}]},
    ]


def write_responses(asked, id, thought, item):
    return [
        {"role": "user", "content": asked},
        {"type": "reasoning", "id": f"rs_{id}", "summary": [], "encrypted_content": thought},
        {"type": "function_call", "call_id": id, "name": "get_order", "arguments": "{}"} | item,
        {"type": "function_call_output", "call_id": id, "output": RESULT},
    ]


def write_gemini(asked, _, thought, __):
    call = {"functionCall": {"name": "get_order", "args": {"order": "W7000"}}, "thoughtSignature": "c2ln" * 60}
    return [
        {"role": "user", "parts": [{"text": asked}]},
        {"role": "model", "parts": [{"text": thought, "thought": True}, call]},
        {"role": "user", "parts": [{"functionResponse": {"name": "get_order", "response": {"result": RESULT}}}]},
    ]


def write_openai(asked, id, thought, _):
    call = {"id": id, "type": "function", "function": {"name": "get_order", "arguments": "{}"}}
    return [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": None, "reasoning_content": thought, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id, "content": RESULT},
    ]


def write_answer(text):
    return [{"role": "assistant", "content": text}]


WRITERS = {
    "anthropic": write_anthropic,
    "responses": write_responses,
    "gemini": write_gemini,
    "openai": write_openai,
}
ANSWERS = {
    "anthropic": lambda text: [{"role": "assistant", "content": [{"type": "text", "text": text}]}],
    "responses": write_answer,
    "gemini": lambda text: [{"role": "model", "parts": [{"text": text}]}],
    "openai": write_answer,
}
FIELDS = {"anthropic": "messages", "responses": "input", "gemini": "contents", "openai": "messages"}


def fitted(body, wire, tokens=None, **options):
    model = "gemini-3-pro-preview" if wire == "gemini" else None
    context = fit(body, wire=wire, model=model, max_prompt_tokens=tokens, now=NOW, **options)
    if wire in ("anthropic", "gemini"):
        assert find_violations(context.request, wire) == []
    assert brimful.replay(Context.from_json(context.to_json())).request == context.request
    return context


def thoughts(context, wire):
    """Return the turns whose reasoning is in the request."""
    text = str(context.request[FIELDS[wire]])
    return [turn for turn in range(10) if f"Thought {turn}." in text]


@pytest.mark.parametrize("wire", ["anthropic", "responses", "gemini"])
def test_reasoning_of_earlier_turns_goes_first(wire):
    body = request(wire)
    whole = fitted(body, wire)
    assert whole.request == body
    context = fitted(body, wire, whole.tokens - 10)
    assert thoughts(context, wire) == [3]  # the turn in progress
    assert str(context.request).count(RESULT) == 4  # no result was shortened
    assert context.ledger == ""
    for turn in range(4):
        assert f"Where is order {turn}?" in str(context.request)
    assert context.request[FIELDS[wire]][-1] == body[FIELDS[wire]][-1]


@pytest.mark.parametrize("wire", ["anthropic", "gemini"])
def test_the_record_says_what_was_left_out(wire):
    body = request(wire)
    context = fitted(body, wire, fitted(body, wire).tokens - 10)
    decision = context.decisions_by_id["msg-000001"]
    assert (decision.outcome, decision.form) == ("shrunk", "bare")
    assert "without its reasoning" in context.explain("msg-000001")
    assert 1 in context.positions
    assert 1 in context.shortened
    assert "Thought 0." in context.recall("msg-000001").text


def test_a_reasoning_item_is_dropped():
    body = request("responses")
    context = fitted(body, "responses", fitted(body, "responses").tokens - 10)
    decision = context.decisions_by_id["msg-000001"]
    assert (decision.outcome, decision.reason) == ("dropped", "reasoning")
    assert context.explain("msg-000001") == "dropped: the model's reasoning of an earlier turn, which goes first"
    assert 1 not in context.positions


def test_a_request_repeats_the_previous_one_without_the_same_reasoning():
    body, longer = request("anthropic"), request("anthropic", 5)
    tokens = fitted(body, "anthropic").tokens + 40
    first = fitted(body, "anthropic", tokens - 50)
    after = fitted(longer, "anthropic", tokens - 50, previous=first)
    assert thoughts(after, "anthropic") == [3, 4]  # that of the fourth turn stayed where it was
    assert after.request["messages"][: len(body["messages"])] == first.request["messages"]


def test_older_steps_become_lines_if_that_is_not_enough():
    body = request("anthropic", 9)
    context = fitted(body, "anthropic", 700)
    assert thoughts(context, "anthropic") == [8]
    assert "get_order" in context.ledger


@pytest.mark.parametrize(
    ("wire", "item"),
    [
        ("responses", {"id": "fc_1"}),  # OpenAI knows what belongs to it
        ("openai", {}),
    ],
)
def test_reasoning_that_the_provider_wants_back_stays_with_its_step(wire, item):
    body = request(wire, 9, **item)
    context = fitted(body, wire, fitted(body, wire).tokens // 2)
    sent = context.request[FIELDS[wire]]
    assert len(sent) < len(body[FIELDS[wire]])
    kept = [each for each in sent if each in body[FIELDS[wire]]]
    for at, each in enumerate(kept):
        if each.get("type") == "function_call":
            assert kept[at - 1]["type"] == "reasoning"
        if each.get("tool_calls"):
            assert each["reasoning_content"]


def test_reasoning_stays_until_the_user_speaks_after_the_next_answer():
    body = request("anthropic", 3)
    body["messages"] = [*body["messages"], *ANSWERS["anthropic"]("Sent."), {"role": "user", "content": "And W7009?"}]
    context = fitted(body, "anthropic", fitted(body, "anthropic").tokens - 10)
    assert thoughts(context, "anthropic") == [2]


def test_results_with_words_of_the_user_do_not_end_a_turn():
    body = request("anthropic", 3)
    body["messages"][-1]["content"].append({"type": "text", "text": "Be quick."})
    body["messages"] += write_anthropic("unused", "call_9", f"Thought 9. {THOUGHT}", {})[1:]
    context = fitted(body, "anthropic", fitted(body, "anthropic").tokens - 10)
    assert thoughts(context, "anthropic") == [2, 9]


def test_a_message_of_nothing_but_reasoning_stays():
    body = request("anthropic", 3)
    body["messages"][1]["content"] = body["messages"][1]["content"][:1]
    del body["messages"][2]
    context = fitted(body, "anthropic", fitted(body, "anthropic").tokens - 10)
    assert thoughts(context, "anthropic") == [0, 2]


def test_pinned_messages_and_other_policies_stay_unchanged():
    body = request("anthropic")
    limit = fitted(body, "anthropic").tokens - 10
    assert thoughts(fitted(body, "anthropic", limit, pin=[1]), "anthropic") == [0, 3]
    plain = fitted(body, "anthropic", limit, policy="fit")
    assert all(message in body["messages"] for message in plain.request["messages"][1:])


def test_a_step_is_shortened_further_after_its_reasoning():
    body = request("anthropic", 3)
    body["messages"][2]["content"][0]["content"] = "Long result. " * 400
    context = fitted(body, "anthropic", 500, ties=[(0, 1, 2, 3, 4)], pin=[])
    assert thoughts(context, "anthropic") == [2]


def test_no_summary_stands_for_reasoning():
    body = request("responses")
    context = fitted(body, "responses", fitted(body, "responses").tokens - 10)
    assert compact_now(context) is None


def test_every_rule_has_a_source():
    rules = [wire.reasoning for wire in all_wires() if wire.read_turn is not None]
    assert len(rules) == 5
    for rule in rules:
        assert rule.why
        assert rule.source.startswith("https://")
