"""Tool definitions are shortened and left out if there is no room for all of them."""

import json

import pytest

import brimful
from brimful.errors import BudgetExceeded

TOPICS = {
    "get_weather": "Return the weather forecast of a city",
    "send_email": "Send an email to a person",
    "search_flights": "Find flights between two airports",
    "book_hotel": "Reserve a hotel room in a city",
    "convert_currency": "Convert an amount of money from one currency to another",
    "play_music": "Play a song or an album",
    "create_invoice": "Write an invoice for a customer",
    "translate_text": "Translate a text into another language",
    "list_files": "List the files of a folder",
    "run_query": "Run a SQL query on the database",
}
FILLER = " ".join(f"It was tested with case {number} of the manual." for number in range(12))
WEATHER = "What will the weather be like in Oslo tomorrow?"


def schema(name):
    parameters = {
        f"{name}_{key}": {"type": "string", "description": f"The {key} that is used. {FILLER}", "examples": ["one"]}
        for key in ("first", "second")
    }
    return {"type": "object", "properties": parameters, "required": [f"{name}_first"]}


def openai_tool(name):
    description = f"{TOPICS[name]}. {FILLER}"
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": schema(name)},
    }


def write_tools(wire):
    functions = [openai_tool(name)["function"] for name in TOPICS]
    match wire:
        case "anthropic":
            return [
                {"name": each["name"], "description": each["description"], "input_schema": each["parameters"]}
                for each in functions
            ]
        case "responses":
            return [{"type": "function", **each} for each in functions]
        case "gemini":
            return [{"functionDeclarations": functions}]
        case _:
            return [{"type": "function", "function": each} for each in functions]


def read_tools(request, wire):
    """The definitions of a request by name."""
    match wire:
        case "anthropic" | "responses":
            return {tool["name"]: tool for tool in request["tools"]}
        case "gemini":
            return {each["name"]: each for tool in request["tools"] for each in tool["functionDeclarations"]}
        case _:
            return {tool["function"]["name"]: tool["function"] for tool in request["tools"]}


def write_request(wire, text, **fields):
    match wire:
        case "gemini":
            start = {"contents": [{"role": "user", "parts": [{"text": text}]}]}
        case "responses":
            start = {"model": "gpt-4o", "input": text}
        case _:
            start = {"model": "gpt-4o", "messages": [{"role": "user", "content": text}]}
    return start | {"tools": write_tools(wire)} | fields


def fit(request, wire="openai", window=900, **options):
    return brimful.fit(request, wire=wire, model="gpt-4o", window=window, completion=200, now=0, **options)


def call(at, name):
    function = {"name": name, "arguments": "{}"}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{at}", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": f"c{at}", "content": "done"},
    ]


@pytest.mark.parametrize("wire", ["openai", "anthropic", "responses", "gemini", "ollama"])
def test_the_tool_that_the_task_needs_stays_whole(wire):
    request = write_request(wire, WEATHER)
    whole = fit(request, wire, window=100_000)
    assert whole.tokens > 4_000
    ctx = fit(request, wire)
    assert ctx.tokens <= ctx.budget.available
    before, after = read_tools(request, wire), read_tools(ctx.request, wire)
    assert after["get_weather"] == before["get_weather"]
    assert set(after) < set(before)
    assert list(after) == [name for name in before if name in after]
    assert {key: value for key, value in ctx.request.items() if key != "tools"} == {
        key: value for key, value in whole.request.items() if key != "tools"
    }


def test_a_request_that_fits_keeps_its_tools_as_they_are():
    request = write_request("openai", WEATHER)
    ctx = fit(request, window=100_000)
    assert ctx.request["tools"] == request["tools"]
    assert not any(decision.kind == "tool-definition" for decision in ctx.decisions)


def test_a_digest_has_all_parameters_without_long_descriptions_and_examples():
    ctx = fit(write_request("openai", WEATHER), window=2_500)
    shrunk = [decision for decision in ctx.decisions if decision.form == "digest"]
    assert shrunk
    name = shrunk[0].id.removeprefix("tool:")
    function = read_tools(ctx.request, "openai")[name]
    assert function["description"] == f"{TOPICS[name]}."
    properties = function["parameters"]["properties"]
    assert properties == {
        f"{name}_{key}": {"type": "string", "description": f"The {key} that is used."} for key in ("first", "second")
    }
    assert function["parameters"]["required"] == [f"{name}_first"]


def test_every_tool_has_a_decision_that_explains_it():
    ctx = fit(write_request("openai", WEATHER))
    decisions = {each.id: each for each in ctx.decisions if each.kind == "tool-definition"}
    assert set(decisions) == {f"tool:{name}" for name in TOPICS}
    inside = read_tools(ctx.request, "openai")
    assert {id.removeprefix("tool:") for id, each in decisions.items() if each.included} == set(inside)
    assert ctx.explain("tool:get_weather").startswith("kept: fits in pool 'tools'")
    dropped = next(id for id, each in decisions.items() if each.outcome == "dropped")
    assert ctx.explain(dropped).startswith("dropped: pool 'tools' full")
    assert ctx.component("definitions").items == len(inside)
    assert sum(component.tokens for component in ctx.components) == ctx.tokens
    assert "Tool Definitions" in ctx.report()


def test_a_dropped_definition_can_be_recalled():
    ctx = fit(write_request("openai", WEATHER))
    dropped = next(each.id for each in ctx.decisions if each.outcome == "dropped")
    recalled = ctx.recall(dropped, max_tokens=2_000)
    assert json.loads(recalled.text)["name"] == dropped.removeprefix("tool:")
    assert recalled.whole


def test_a_context_with_trimmed_tools_replays_to_itself():
    ctx = fit(write_request("openai", WEATHER))
    assert brimful.replay(ctx) == ctx
    assert brimful.replay(brimful.Context.from_json(ctx.to_json())).request == ctx.request


def test_there_is_a_window_in_which_a_dropped_tool_gets_in():
    ctx = fit(write_request("openai", WEATHER))
    dropped = next(each.id for each in ctx.decisions if each.outcome == "dropped")
    window = brimful.window_for(ctx, dropped)
    assert window > 900
    wider = brimful.replay(ctx, window=window)
    assert dropped not in {each.id for each in wider.decisions if not each.included}


def test_a_forced_tool_stays_whole():
    choice = {"type": "function", "function": {"name": "play_music"}}
    request = write_request("openai", WEATHER, tool_choice=choice)
    ctx = fit(request)
    assert read_tools(ctx.request, "openai")["play_music"] == openai_tool("play_music")["function"]
    assert ctx.explain("tool:play_music").startswith("kept: required")


def test_tools_of_the_provider_stay():
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
    request = write_request("anthropic", WEATHER)
    ctx = fit(request | {"tools": [*request["tools"], search]}, "anthropic")
    assert ctx.request["tools"][-1] == search
    assert len(ctx.request["tools"]) < len(request["tools"])


def test_a_tool_that_was_used_stays_whole():
    messages = [{"role": "user", "content": WEATHER}, *call(1, "play_music"), {"role": "user", "content": "Thanks."}]
    ctx = fit(write_request("openai", WEATHER) | {"messages": messages})
    assert read_tools(ctx.request, "openai")["play_music"] == openai_tool("play_music")["function"]
    assert ctx.explain("tool:play_music").startswith("kept: called or searched for before")


def test_tools_stay_the_same_while_the_conversation_goes_on():
    request = write_request("openai", WEATHER)
    seen = []
    for steps in range(4):
        messages = [*request["messages"], *(each for at in range(steps) for each in call(at, "get_weather"))]
        messages += [{"role": "user", "content": "And the day after?"}] * (steps > 2)
        seen.append(fit(request | {"messages": messages}, window=2_000).request["tools"])
    assert seen == seen[:1] * 4


def test_a_later_message_brings_in_the_tool_that_it_needs():
    request = write_request("openai", WEATHER)
    before = fit(request)
    missing = next(each.id for each in before.decisions if each.outcome == "dropped").removeprefix("tool:")
    messages = [
        *request["messages"],
        {"role": "assistant", "content": "Sunny."},
        {"role": "user", "content": f"Now please do this: {TOPICS[missing]}"},
    ]
    after = read_tools(fit(request | {"messages": messages}).request, "openai")
    assert after[missing] == openai_tool(missing)["function"]


def test_tools_take_no_more_than_their_share_of_a_full_window():
    words = " ".join(f"word{number}" for number in range(300))
    messages = [{"role": "user", "content": WEATHER}]
    messages += [{"role": role, "content": words} for _ in range(5) for role in ("assistant", "user")]
    ctx = fit(write_request("openai", WEATHER) | {"messages": messages}, window=4_000)
    pool = next(pool for pool in ctx.pools if pool.name == "tools")
    assert pool.used <= pool.limit <= ctx.budget.available // 2
    assert ctx.tokens <= ctx.budget.available


def test_a_request_is_refused_only_if_not_even_one_tool_fits():
    with pytest.raises(BudgetExceeded):
        fit(write_request("openai", WEATHER), window=260)


def test_beside_a_long_pinned_message_one_tool_is_left():
    task = f"{WEATHER} " + "Take the wind into account. " * 90
    context = fit(write_request("openai", task), pin=[0])
    assert len(context.request["tools"]) == 1
    assert context.request["messages"][0]["content"] == task


def test_alternatives_and_choices_of_a_parameter_are_read_and_stay_in_a_digest():
    unit = {"anyOf": [{"enum": ["celsius", "kelvin"], "description": FILLER}, {"type": "integer"}]}
    tool = {"name": "measure", "description": FILLER, "parameters": {"type": "object", "properties": {"unit": unit}}}
    tools = [*write_tools("openai"), {"type": "function", "function": tool}]
    context = brimful.fit(write_request("openai", "How many kelvin is that?", tools=tools), window=700, now=0)
    digest = read_tools(context.request, "openai")["measure"]["parameters"]["properties"]["unit"]
    assert digest["anyOf"][0]["enum"] == ["celsius", "kelvin"]
    assert len(json.dumps(digest)) < len(json.dumps(unit))


def test_a_policy_can_keep_all_tools():
    with pytest.raises(BudgetExceeded):
        fit(write_request("openai", WEATHER), overrides={"tools.trim": False})


def test_the_order_of_tools_does_not_change_the_choice():
    request = write_request("openai", WEATHER)
    turned = fit(request | {"tools": request["tools"][::-1]})
    assert read_tools(turned.request, "openai") == read_tools(fit(request).request, "openai")


def test_tools_of_packages_of_ones_own_are_trimmed_too():
    packages = brimful.conversation([{"role": "user", "content": WEATHER}], model="gpt-4o")
    ctx = brimful.assemble(packages, model="gpt-4o", tools=write_tools("openai"), window=1_500, completion=200, now=0)
    assert "get_weather" in read_tools(ctx.request, "openai")
    assert ctx.decision("tool:get_weather").outcome == "kept"
    assert ctx.tokens <= ctx.budget.available


# -- the search for tools ----------------------------------------------------------------------------------------------

SEARCHING = {"recall": "tool"}


def test_a_search_is_offered_last_and_names_tools_that_are_left_out():
    request = write_request("openai", WEATHER)
    ctx = fit(request, overrides=SEARCHING)
    search = ctx.request["tools"][-1]["function"]
    assert search["name"] == "tool_search"
    stubs = [each.id.removeprefix("tool:") for each in ctx.decisions if each.form == "stub"]
    assert stubs
    assert all(f"\n- {name}: {TOPICS[name]}" in search["description"] for name in stubs)
    assert ctx.added_tools == {"tool_search"}
    assert ctx.tokens <= ctx.budget.available
    assert "recall" not in read_tools(ctx.request, "openai")


@pytest.mark.parametrize("wire", ["openai", "anthropic", "responses", "gemini", "ollama"])
def test_every_wire_offers_the_search(wire):
    ctx = fit(write_request(wire, WEATHER), wire, overrides=SEARCHING)
    assert [*read_tools(ctx.request, wire)][-1] == "tool_search"
    assert ctx.tokens <= ctx.budget.available


def test_no_search_is_offered_without_need_or_if_the_caller_chose_the_tools():
    request = write_request("openai", WEATHER)
    assert not fit(request, window=100_000, overrides=SEARCHING).added_tools
    assert not fit(request).added_tools
    assert not fit(request | {"tool_choice": "required"}, overrides=SEARCHING).added_tools
    own = {"type": "function", "function": {"name": "tool_search", "parameters": {"type": "object"}}}
    assert not fit(request | {"tools": [own, *request["tools"]]}, overrides=SEARCHING).added_tools


def test_a_search_returns_whole_definitions_and_the_tools_are_there_on_the_next_turn():
    request = write_request("openai", WEATHER)
    ctx = fit(request, window=1_500, overrides=SEARCHING)
    search = brimful.tool_search(ctx)
    found = search('{"query": "write an invoice"}')
    first = json.loads(found.splitlines()[0])
    assert first == openai_tool("create_invoice")["function"]
    call = {"id": "s1", "type": "function", "function": {"name": "tool_search", "arguments": '{"query": "invoice"}'}}
    messages = [
        *request["messages"],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "s1", "content": found.splitlines()[0]},
    ]
    after = fit(request | {"messages": messages}, window=1_800, overrides=SEARCHING)
    assert read_tools(after.request, "openai")["create_invoice"] == openai_tool("create_invoice")["function"]
    assert after.explain("tool:create_invoice").startswith("kept: called or searched for before")


def test_the_answers_to_bad_calls_tell_the_model_what_to_do():
    search = brimful.tool_search(fit(write_request("openai", WEATHER), overrides=SEARCHING), max_tokens=5)
    assert search({}).startswith("Error: pass a query")
    assert search(query="play music").startswith("No other tool matches")
    assert search.schema["function"]["name"] == search.name == "tool_search"
