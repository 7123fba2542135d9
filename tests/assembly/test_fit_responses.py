"""Fitting requests of OpenAI's Responses API: items stay whole, belong together, and are never changed."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseFunctionToolCall, ResponseReasoningItem

import brimful
from brimful.assembly.fit import fit
from brimful.errors import BudgetExceeded, InvalidRequest, InvalidValue
from brimful.testing import FakeResponses
from strategies import examples

NOW = 1_700_000_000
SECRET = "gAAAA" + "Qm9uam91cg" * 200  # 2,005 characters of encrypted content
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "high"}
TOOL = {"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {"q": {}}}}


def user(text):
    return {"role": "user", "content": text}


def message(text, id):
    block = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": [block]}


def reasoning(id, **more):
    return {"type": "reasoning", "id": id, "summary": [], "encrypted_content": SECRET} | more


def call(id, **more):
    return {"type": "function_call", "call_id": id, "name": "look_up", "arguments": '{"q": "tea"}'} | more


def output(id, text="leaf " * 60, **more):
    return {"type": "function_call_output", "call_id": id, "output": text} | more


def step(number):
    at = str(number)
    return [reasoning(f"rs_{at}"), call(at), call(f"{at}b"), output(f"{at}b"), output(at)]


def body(items, **more):
    return {"model": "gpt-4o", "max_output_tokens": 100, "input": items} | more


def fitted(request, window=None, **options):
    return fit(request, wire="responses", window=window, now=NOW, **{"policy": "fit"} | options)


EVERYTHING = [
    {"role": "developer", "content": "Be brief."},
    user([{"type": "input_text", "text": "Look:"}, IMAGE, {"type": "input_file", "file_id": "file-1"}]),
    {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "x", "tools": [{"name": "t", "input_schema": {}}]},
    reasoning("rs_1", summary=[{"type": "summary_text", "text": "Tea?"}]),
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "open_page", "url": "https://a"},
    },
    {"type": "file_search_call", "id": "fs_1", "queries": ["tea"], "results": [{"file_id": "f", "text": "Green."}]},
    {"type": "code_interpreter_call", "id": "ci_1", "code": "1+1", "container_id": "c", "outputs": None},
    {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG * 4},
    message("Green.", "msg_1"),
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": SECRET},
    {"id": "rs_stored", "type": "reasoning", "summary": []},
    {"type": "custom_tool_call", "call_id": "x1", "name": "shout", "input": "TEA"},
    {"type": "custom_tool_call_output", "call_id": "x1", "output": [IMAGE]},
    {"type": "computer_call", "id": "cu_1", "call_id": "x2", "action": {"type": "click", "x": 1, "y": 2}},
    {
        "type": "computer_call_output",
        "call_id": "x2",
        "output": {"type": "computer_screenshot", "image_url": "https://s"},
    },
    {"type": "local_shell_call", "id": "ls_1", "call_id": "x3", "action": {"type": "exec", "command": ["ls"]}},
    {"type": "local_shell_call_output", "id": "x3", "output": "README"},
    {"type": "mcp_approval_request", "id": "mcpr_1", "name": "t", "arguments": "{}", "server_label": "x"},
    {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    {
        "type": "mcp_call",
        "id": "mcp_1",
        "approval_request_id": "mcpr_1",
        "name": "t",
        "arguments": "{}",
        "output": "Ok.",
    },
    {"type": "item_reference", "id": "msg_9"},
    {"id": "msg_8"},
    {"type": "hologram", "id": "h_1", "rays": [1, None, {"\0": [0]}], "caption": "Tea."},
    {"type": "configuration_update", "reasoning": {"effort": "low"}},
    user("And now?"),
]


def test_a_request_that_fits_is_passed_on_as_it_is():
    fields = {
        "instructions": "Be kind.",
        "tools": [TOOL, {"type": "web_search"}, {"type": "custom", "name": "shout"}],
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {}}},
        "reasoning": {"effort": "low"},
        "include": ["reasoning.encrypted_content"],
        "truncation": "auto",
        "store": False,
    }
    request = body(EVERYTHING, **fields)
    context = fitted(request)
    assert json.dumps(context.request) == json.dumps(request)
    assert context.positions == tuple(range(len(EVERYTHING)))
    assert brimful.replay(context).request == request


@pytest.mark.parametrize("text", ["Hi", "word " * 50])
def test_an_input_may_be_a_string(text):
    context = fitted(body(text, instructions="Be brief."))
    assert context.request == body(text, instructions="Be brief.")
    assert brimful.replay(context).request == context.request
    assert context.tokens == fitted(body([user(text)], instructions="Be brief.")).tokens


def test_instructions_tools_and_the_limit_of_the_answer_count():
    plain = fitted(body([user("Hi")]))
    assert fitted(body([user("Hi")], instructions="Be brief.")).tokens == plain.tokens + 7
    assert fitted(body([user("Hi")], tools=[TOOL])).tokens > plain.tokens + 10
    assert plain.budget.completion == 100
    assert fitted({"model": "gpt-4o", "input": "Hi"}, completion=50).request["max_output_tokens"] == 50


def test_a_function_counts_as_in_chat_completions():
    function = {key: value for key, value in TOOL.items() if key != "type"}
    chat = {"model": "gpt-4o", "max_tokens": 100, "messages": [user("Hi")]}
    tokens = fit(chat | {"tools": [{"type": "function", "function": function}]}, now=NOW).tokens
    assert fitted(body([user("Hi")], tools=[TOOL])).tokens == tokens


def test_steps_go_whole_from_the_oldest_on():
    items = [user("Find the tea."), *(item for number in range(30) for item in step(number))]
    context = fitted(body(items, tools=[TOOL]), window=3_000)
    sent = context.request["input"]
    assert sent[0] == items[0]
    assert sent[1:] == items[-len(sent) + 1 :]
    assert len(sent) % 5 == 1
    assert 10 < len(sent) < 60
    assert FakeResponses().find_broken_item(sent) is None


def test_ids_that_are_used_again_tie_only_their_own_call():
    items = [user("Find the tea."), *(item for _ in range(20) for item in (call("c1"), output("c1")))]
    sent = fitted(body(items), window=1_000).request["input"]
    assert 3 < len(sent) < 30
    assert len(sent) % 2 == 1


def test_an_agents_steps_that_go_leave_a_line_in_a_message_of_the_user():
    items = [user("Find the tea."), *(item for number in range(30) for item in step(number))]
    context = fitted(body(items, tools=[TOOL]), window=3_000, policy=None)
    task, ledger, *steps = context.request["input"]
    assert context.inputs.policy.name == "agent"
    assert task == items[0]
    assert (ledger.keys(), ledger["role"]) == ({"role", "content"}, "user")
    assert "look_up(q=tea)" in ledger["content"]
    assert FakeResponses().find_broken_item(steps) is None
    assert brimful.replay(context).request == context.request


def test_encrypted_content_is_counted_by_its_size_with_a_notice():
    small, large = (
        fitted(body([user("Hi"), reasoning("rs", encrypted_content="A" * size), call("c"), output("c")]))
        for size in (400, 4_000)
    )
    assert large.tokens - small.tokens == 900
    assert [notice.kind for notice in large.warnings] == ["unknown-size"]


def test_items_that_only_the_provider_has_are_assumed():
    stored = [{"type": "reasoning", "id": "rs_1", "summary": []}, message("Tea.", "msg_1")]
    plain = fitted(body([user("Hi"), message("Tea.", "msg_1"), user("Hm")]))
    assert fitted(body([user("Hi"), *stored, user("Hm")])).tokens >= plain.tokens + 1_000
    assert fitted(body([user("Hi"), {"type": "item_reference", "id": "msg_1"}, user("Hm")])).tokens > 1_000


def test_the_newest_compaction_stays_and_what_it_stands_for_goes():
    compactions = [{"type": "compaction", "id": f"cmp_{at}", "encrypted_content": SECRET} for at in range(2)]
    filler = [item for at in range(12) for item in (user("word " * 60), message("word " * 60, f"msg_{at}"))]
    items = [*filler, compactions[0], *filler, compactions[1], *filler, user("And now?")]
    sent = fitted(body(items), window=1_500).request["input"]
    assert compactions[1] in sent
    assert compactions[0] not in sent
    assert sent[-1] == user("And now?")


def test_a_picture_becomes_a_line_in_the_form_of_the_api():
    items = [user([{"type": "input_text", "text": "Look:"}, IMAGE]), message("Tea.", "msg_1"), user("Thanks!")]
    sent = fitted(body(items), window=200).request["input"]
    assert sent[0]["content"][0] == items[0]["content"][0]
    line = sent[0]["content"][1]
    assert line["type"] == "input_text"
    assert line["text"].startswith("[image")
    low = fitted(body([user([IMAGE | {"image_url": "https://a/b.png"}])]), window=500).request["input"][0]["content"][0]
    assert low == {"type": "input_image", "image_url": "https://a/b.png", "detail": "low"}


def test_opaque_items_are_never_shortened():
    summary = [{"type": "summary_text", "text": "word " * 500}]
    items = [user("Hi"), reasoning("rs_1", encrypted_content=None, summary=summary), call("c1"), output("c1", "Green.")]
    with pytest.raises(BudgetExceeded):
        fitted(body(items), window=400, min_tokens=10)
    sent = fitted(body([*items, message("Tea. " * 100, "msg_1"), user("And now?")]), window=400).request["input"]
    assert all(item in [*items, user("And now?")] or item["type"] == "message" for item in sent)
    shortened = fitted(body([user("Hi"), call("c1"), output("c1")]), window=200, min_tokens=10).request["input"]
    assert shortened[:2] == [user("Hi"), call("c1")]


def test_objects_of_the_sdk_are_taken_as_they_are():
    items = [
        user("Hi"),
        ResponseReasoningItem(id="rs_1", summary=[], type="reasoning", encrypted_content=SECRET),
        ResponseFunctionToolCall(arguments="{}", call_id="c1", name="look_up", type="function_call", id="fc_1"),
        output("c1"),
    ]
    sent = fitted(body(items)).request["input"]
    assert sent[1] == {"id": "rs_1", "summary": [], "type": "reasoning", "encrypted_content": SECRET}
    assert sent[2] == {"arguments": "{}", "call_id": "c1", "name": "look_up", "type": "function_call", "id": "fc_1"}


@pytest.mark.parametrize("field", ["previous_response_id", "conversation", "prompt"])
def test_items_stored_by_the_provider_are_a_clear_error(field):
    with pytest.raises(InvalidValue, match=rf"request\.{field}: refers to content that only the provider has"):
        fitted({"model": "gpt-4o", field: "resp_1"})  # which needs no input
    assert fitted(body("Hi", **{field: None})).request[field] is None


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (None, "input: must be a string or a list of items"),
        ([], "input: must not be empty"),
        (["Hi"], r"input\[0\]: must be an object"),
        ([user(object())], r"input\[0\]: must be plain JSON data"),
    ],
)
def test_invalid_input_is_refused_by_name(wrong, complaint):
    with pytest.raises(InvalidRequest, match=f"openai would refuse this request: {complaint}"):
        fitted(body(wrong))


def test_an_output_of_a_call_by_reference_stays_with_it():
    items = [
        user("word " * 300),
        {"type": "item_reference", "id": "fc_1"},
        output("c1"),
        user("word " * 100),
        user("Hm"),
    ]
    sent = fitted(body(items), window=1_900).request["input"]
    assert (items[1] in sent) == (items[2] in sent)


def test_a_template_model_counts_items():
    items = [user("Hi"), *step(1), message("Tea.", "msg_1"), user("And now?")]
    context = fit(body(items, model="qwen3-8b", tools=[TOOL]), wire="responses", now=NOW)
    assert context.request["input"] == items
    assert context.tokens > 100


ITEMS = st.lists(
    st.sampled_from(
        [
            lambda at: [user(f"{at} " + "word " * 30)],
            lambda at: [{"role": "developer", "content": f"Be brief {at}."}],
            lambda at: [message("word " * 30, f"msg_{at}")],
            lambda at: [call(f"c{at}"), output(f"c{at}")],
            lambda at: [reasoning(f"rs_{at}"), call(f"c{at}"), call(f"d{at}"), output(f"d{at}"), output(f"c{at}")],
            lambda at: [reasoning(f"rs_{at}"), message("word " * 30, f"msg_{at}")],
            lambda at: [
                reasoning(f"rs_{at}", encrypted_content="A" * 300),
                {"type": "web_search_call", "id": f"ws_{at}", "action": {"query": "tea"}},
                reasoning(f"rt_{at}"),
                message("word " * 9, f"msg_{at}"),
            ],
            lambda at: [{"type": "compaction", "id": f"cmp_{at}", "encrypted_content": "A" * 400}],
            lambda at: [
                {"type": "shell_call", "call_id": f"s{at}"},
                {"type": "shell_call_output", "call_id": f"s{at}"},
            ],
            lambda at: [{"type": "hologram", "id": f"h_{at}", "text": "word " * 20}],
            lambda at: [{"type": "item_reference", "id": f"fc_{at}"}, output(f"u{at}")],
        ]
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=examples(60))
@given(ITEMS, st.integers(300, 4_000), st.booleans(), st.sampled_from(["fit", "agent", None]))
def test_any_items_are_fitted_or_refused_with_numbers(parts, window, system, policy):
    items = [item for at, part in enumerate(parts) for item in part(at)]
    request = body(items, **({"instructions": "Be kind."} if system else {}))
    try:
        context = fitted(request, window, policy=policy)
    except BudgetExceeded:
        return
    sent = context.request["input"]
    assert context.tokens <= window - 100
    assert context.request | {"input": []} == request | {"input": []}
    ours = [item for item in sent if "<history" in str(item.get("content"))]
    theirs = [item for item in sent if item not in ours]
    assert len(ours) <= 1
    assert len(theirs) == len(context.positions)
    for item, at in zip(theirs, context.positions, strict=True):
        assert item == items[at] or at in context.shortened
        assert item.keys() == items[at].keys()
        assert item.get("type") in (None, "message", "function_call_output") or item == items[at]
    assert FakeResponses().find_broken_item(sent) == FakeResponses().find_broken_item(theirs)
    assert fitted(request, window, policy=policy).request == context.request
    assert brimful.replay(context).request == context.request
    assert_ties_hold(items, set(context.positions))
    kept = [at for at, item in enumerate(items) if item.get("type") == "compaction"][-1:]
    assert set(kept) <= set(context.positions)
    whole = fitted(request, 200_000, policy=policy)
    assert whole.request == request


def assert_ties_hold(items, kept):
    """Check each rule by itself: pairs by `call_id`, and reasoning with all that follows it in the same answer."""
    by_call = {}
    for at, item in enumerate(items):
        if item.get("call_id"):
            by_call.setdefault(item["call_id"], set()).add(at)
    for pair in by_call.values():
        assert not pair & kept or pair <= kept
    for at, item in enumerate(items):
        if item.get("type") == "reasoning":
            assert (at in kept) == (at + 1 in kept)
        if item.get("type") == "item_reference":
            assert (at in kept) == (at + 1 in kept)


odd = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8) | st.just(SECRET) | st.just("reasoning"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "id", "\0"]), inner),
    max_leaves=6,
)
types = ("message", "reasoning", "function_call", "function_call_output", "computer_call", "compaction", "x_output")
odd_items = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(types) | odd,
        "role": st.sampled_from(["user", "assistant"]) | odd,
        **dict.fromkeys(("content", "output", "call_id", "id", "arguments", "name", "summary", "tools"), odd),
    },
)


@given(st.lists(odd_items, min_size=1, max_size=6))
def test_odd_items_are_passed_on(items):
    context = fitted(body(items), window=100_000)
    assert context.request["input"] == items
    assert brimful.replay(context).request == context.request
