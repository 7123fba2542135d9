"""The recall tool: when a fitted request offers it, and what it answers."""

import json
from functools import cache

import pytest

import brimful
from brimful.errors import InvalidValue
from brimful.testing import WordCounter

TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
ANTHROPIC_TOOL = {"name": "look_up", "input_schema": {"type": "object"}}
RECALLING = {"recall": "tool"}


def agent_run(steps, words=60):
    """An agent's run: a task, and steps of one tool call with a result, each with a value of its own."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Refund what was damaged."}]
    for at in range(steps):
        call = {"id": f"call_{at}", "type": "function", "function": {"name": "look_up", "arguments": f'{{"n":{at}}}'}}
        filler = " ".join(f"row{at}_{word}" for word in range(words))
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{at}", "content": f"code-{at * 7919} {filler}"},
        ]
    return messages


def fit(messages, *, window=2000, policy=RECALLING, **fields):
    request = {"model": "gpt-4o", "max_tokens": 100, "messages": messages} | fields
    return brimful.fit(request, window=window, overrides=policy, now=0)


@cache
def long_run(words=60):
    """Return a context of 40 steps. It never changes, and takes longer to make than what is done with it."""
    return fit(agent_run(40, words))


def anthropic_fit(messages, **fields):
    request = {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": messages} | fields
    return brimful.fit(request, wire="anthropic", window=2000, overrides=RECALLING, now=0)


def names(ctx):
    return [tool.get("function", tool)["name"] for tool in ctx.request.get("tools", ())]


def test_a_request_that_left_something_out_offers_the_tool_last_and_within_the_budget():
    ctx = fit(agent_run(30), tools=[TOOL])
    assert names(ctx) == ["look_up", "recall"]
    assert ctx.request["tools"][0] == TOOL
    assert ctx.inputs.recall
    assert ctx.tokens <= ctx.budget.available
    assert ctx.request["tools"][1] == brimful.recall_tool(ctx).schema


def test_a_request_that_fits_is_unchanged():
    messages = agent_run(2)
    assert fit(messages, window=8000).request == {"model": "gpt-4o", "max_tokens": 100, "messages": messages}


def test_a_request_that_is_over_only_with_the_margin_offers_it_too():
    ctx = fit(agent_run(12), window=3_250)
    assert sum(package.tokens.tokens for package in ctx.inputs.packages) <= ctx.budget.hard_limit
    assert ctx.is_reduced
    assert names(ctx) == ["recall"]


def test_the_tool_is_off_by_default():
    assert names(fit(agent_run(30), policy=None)) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [TOOL], "tool_choice": "required"},
        {"tools": [TOOL], "tool_choice": "none"},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "look_up"}}},
        {"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
        {"tools": [{"type": "function", "function": {"name": "recall"}}]},
        {"functions": [{"name": "look_up"}]},
        {"function_call": "auto"},
        {"n": 2},
        {"logprobs": True},
        {"tools": "look_up"},
    ],
)
def test_the_tool_is_off_if_the_caller_chose_the_tools_or_wants_several_answers(fields):
    ctx = fit(agent_run(30), **fields)
    assert ctx.is_reduced
    assert {key: ctx.request[key] for key in fields} == fields
    assert not ctx.inputs.recall


@pytest.mark.parametrize("choice", ["auto", None])
def test_a_free_choice_of_tools_allows_it(choice):
    assert names(fit(agent_run(30), tools=[TOOL], tool_choice=choice)) == ["look_up", "recall"]


def test_the_recall_tool_follows_the_last_cache_breakpoint_of_anthropics_tools():
    marked = ANTHROPIC_TOOL | {"cache_control": {"type": "ephemeral"}}
    messages = [
        {"role": role, "content": f"Say more of {n}. " * 20} for n in range(40) for role in ("user", "assistant")
    ]
    ctx = anthropic_fit(
        [*messages, {"role": "user", "content": "Go on."}], tools=[marked], tool_choice={"type": "auto"}
    )
    assert ctx.request["tools"] == [marked, brimful.recall_tool(ctx).schema]
    assert set(ctx.request["tools"][1]) == {"name", "description", "input_schema"}
    forced = anthropic_fit(messages[:-1], tools=[marked], tool_choice={"type": "any"})
    assert forced.request["tools"] == [marked]


@pytest.mark.parametrize(
    ("fields", "is_offered"),
    [
        ({}, True),
        ({"tools": [{"functionDeclarations": [{"name": "look_up"}]}]}, True),
        ({"toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}}, True),
        ({"tools": [{"functionDeclarations": [{"name": "recall"}]}]}, False),
        ({"tools": [{"googleSearch": {}}]}, False),
        ({"tool_config": {"function_calling_config": {"mode": "ANY"}}}, False),
        ({"generationConfig": {"candidateCount": 2}}, False),
    ],
)
def test_geminis_form_is_known(fields, is_offered):
    roles = ["user", "model"] * 40 + ["user"]
    contents = [{"role": role, "parts": [{"text": f"code-{at} " + "word " * 60}]} for at, role in enumerate(roles)]
    options = {"wire": "gemini", "model": "gemini-2.5-flash", "window": 3000, "completion": 100, "now": 0}
    ctx = brimful.fit({"contents": contents} | fields, overrides=RECALLING, **options)
    assert ctx.inputs.recall is is_offered
    last = ctx.request.get("tools", [None])[-1]
    assert (last == brimful.recall_tool(ctx).schema) is is_offered
    assert "code-3 " in brimful.recall_tool(ctx)(query="code-3")


@pytest.mark.parametrize(("choice", "is_offered"), [("auto", True), ("required", False)])
def test_the_form_of_responses_is_known(choice, is_offered):
    own = {"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}, "strict": False}
    items = [{"role": "user", "content": f"code-{at} " + "word " * 60} for at in range(60)]
    request = {"model": "gpt-4o", "max_output_tokens": 100, "input": items, "tools": [own], "tool_choice": choice}
    ctx = brimful.fit(request, wire="responses", window=2000, overrides=RECALLING, now=0)
    assert ctx.request["tools"] == [own, *([brimful.recall_tool(ctx).schema] if is_offered else [])]
    assert "code-3 " in brimful.recall_tool(ctx)(query="code-3")


@pytest.mark.parametrize("size", [790, 860])
@pytest.mark.parametrize("can_shrink", [True, False])
def test_required_content_and_the_margin_do_not_give_way_to_the_recall_tool(size, can_shrink):
    text = "tea " * size
    last = text if can_shrink else [{"type": "text", "text": "Drink"}, {"type": "text", "text": text}]
    messages = [{"role": "user", "content": "hello " * 300}, {"role": "user", "content": last}]
    ctx = fit(messages, window=1000)
    assert ctx.is_reduced
    assert ctx.warnings == ()
    assert names(ctx) == []


def test_later_requests_of_the_conversation_offer_it_at_the_same_place():
    contexts = [None]
    for steps in (60, 61, 62):
        request = {"model": "gpt-4o", "messages": agent_run(steps, words=5), "tools": [TOOL], "max_tokens": 100}
        contexts.append(brimful.fit(request, window=2000, overrides=RECALLING, now=0, previous=contexts[-1]))
    _, first, second, third = [each and each.request for each in contexts]
    assert first["tools"] == second["tools"] == third["tools"]
    assert third["messages"][:-2] == second["messages"]


def test_a_record_replays_to_itself_and_without_the_tool_in_a_larger_window():
    ctx = fit(agent_run(30))
    stored = brimful.Context.from_json(ctx.to_json())
    assert brimful.replay(stored) == ctx
    larger = brimful.replay(stored, window=100_000)
    assert "tools" not in larger.request
    assert not larger.inputs.recall
    own = brimful.replay(fit(agent_run(30), tools=[TOOL]), window=100_000)
    assert own.request["tools"] == [TOOL]


@pytest.mark.parametrize("window", [1200, 2000, 4000])
def test_whatever_was_left_out_comes_back_by_its_handle(window):
    messages = agent_run(40)
    ctx = fit(messages, window=window, tools=[TOOL])
    tool = brimful.recall_tool(ctx)
    visible = json.dumps(ctx.request["messages"])
    hidden = [
        at for at, message in enumerate(messages) if message["role"] == "tool" and message["content"] not in visible
    ]
    assert hidden
    for at in hidden:
        result = tool(json.dumps({"handle": ctx.handle(f"msg-{at:06d}")}))
        assert messages[at]["content"] in result


def test_a_query_finds_a_value_and_its_handle():
    ctx = long_run()
    result = brimful.recall_tool(ctx)({"query": "code-15838", "max_tokens": 300})
    assert "code-15838" in result
    assert 'recall "r7"' in result


def test_a_whole_item_is_not_called_a_part():
    messages = agent_run(40)
    tool = brimful.recall_tool(fit(messages))
    assert tool(handle="msg-000003") == messages[3]["content"]
    assert "a part of" not in tool(handle="msg-000003", query="code-0")
    assert "a part of" in tool(handle="msg-000003", max_tokens=60)


def test_without_similar_handles_none_are_named():
    error = "Error: there is no such handle. Pass a handle as a mark names it, or a query."
    assert brimful.recall_tool(long_run())(handle="?") == error


def test_a_result_has_at_most_the_tokens_of_the_call_and_of_the_tool():
    messages = agent_run(40)
    diary = " ".join(f"On day {day} it rained." for day in range(400))
    messages[3]["content"] = diary.replace("day 200 it rained", "day 200 it snowed")
    ctx = fit(messages)
    tool = brimful.recall_tool(ctx, max_tokens=200)
    for wanted, limit in ((50, 50), (5000, 200), ("60", 60)):
        result = tool(handle="msg-000003", max_tokens=wanted)
        assert brimful.count(result, model="gpt-4o").tokens <= limit
    assert "pass a query or a larger max_tokens" in tool(handle="msg-000003")
    assert "day 200 it snowed" in tool(handle="msg-000003", query="Which day was it when it snowed?")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"handle": "r3x"}, "Similar handles"),
        ({"handle": "?"}, "no such handle"),
        ({}, "pass a handle"),
        ("not json", "pass a handle"),
        ({"handle": ["msg-000003"]}, "pass a handle"),
        ({"query": {"a": 1}}, "query"),
        ({"query": "zebra"}, "Try other words"),
        ({"handle": "msg-000003", "max_tokens": 1}, "larger max_tokens"),
    ],
)
def test_errors_tell_the_model_what_to_do(arguments, text):
    assert text in brimful.recall_tool(long_run(words=300))(arguments)


@pytest.mark.parametrize("tokens", ["many", -5, None, float("inf"), [7]])
def test_an_invalid_number_of_tokens_means_the_default(tokens):
    assert "code-0" in brimful.recall_tool(long_run())(handle=' [… recall "msg-000003"]', max_tokens=tokens)


def test_content_that_was_erased_is_reported_to_the_model():
    ctx = long_run()
    erased = brimful.Context.from_json(ctx.to_json().replace(b"code-0 row0_0", b"").replace(b"row0_", b""))
    assert isinstance(brimful.recall_tool(erased)(handle="msg-000003"), str)


@pytest.mark.parametrize(
    ("wire", "find"),
    [
        ("openai", lambda schema: schema["function"]["parameters"]),
        ("ollama", lambda schema: schema["function"]["parameters"]),
        ("anthropic", lambda schema: schema["input_schema"]),
        ("responses", lambda schema: schema["parameters"]),
        ("gemini", lambda schema: schema["functionDeclarations"][0]["parametersJsonSchema"]),
    ],
)
def test_each_wire_format_has_its_own_form(wire, find):
    tool = brimful.recall_tool(fit(agent_run(3)), wire=wire)
    assert set(find(tool.schema)["properties"]) == {"handle", "query", "max_tokens"}


def test_invalid_arguments_are_refused():
    ctx = fit(agent_run(3))
    with pytest.raises(InvalidValue, match="context: must be a Context"):
        brimful.recall_tool("ctx")
    with pytest.raises(InvalidValue, match="wire: must be one of openai"):
        brimful.recall_tool(ctx, wire="text")
    with pytest.raises(InvalidValue, match="max_tokens: must be a positive"):
        brimful.recall_tool(ctx, max_tokens=0)


def test_the_tool_serves_contexts_of_packages_too():
    packages = [
        brimful.packagers.message("four " * 50, counter=WordCounter(), id="old"),
        brimful.packagers.message("And now?", counter=WordCounter(), id="new", current=True),
    ]
    ctx = brimful.assemble(packages, model="gpt-4o", window=60, completion=10, now=0, overrides=RECALLING)
    assert "tools" not in ctx.request
    assert "four" in brimful.recall_tool(ctx)(handle="old")


HUGE_RESULTS = {
    "log": "\n".join(f"On day {day}, order {day * 7919} was shipped." for day in range(900)),
    "dated log": "\n".join(f"2026-11-16 10:00:{day % 60:02d} INFO order {day * 7919} shipped" for day in range(900)),
    "json": json.dumps([{"id": day * 7919, "user": f"user_{day}", "status": "shipped"} for day in range(900)]),
    "csv": "id,user,status\n" + "\n".join(f"{day * 7919},user_{day},shipped" for day in range(900)),
    "markdown": "| id | user |\n|---|---|\n" + "\n".join(f"| {day * 7919} | user_{day} |" for day in range(900)),
    "prose": " ".join(f"On day {day} the order {day * 7919} was shipped." for day in range(900)),
    "code": "\n".join(f"def order_{day}():\n    return {day * 7919}\n" for day in range(900)),
}


@pytest.mark.parametrize("form", HUGE_RESULTS)
def test_a_value_in_a_huge_result_is_one_call_away(form):
    messages = agent_run(40)
    messages[3]["content"] = HUGE_RESULTS[form]
    ctx = fit(messages)
    result = brimful.recall_tool(ctx)(handle=ctx.handle("msg-000003"), query=f"order {417 * 7919}", max_tokens=400)
    assert str(417 * 7919) in result
    assert brimful.count(result, model="gpt-4o").tokens <= 400
