"""Every wire can find the caller's own functions in a request, shorten them and leave them out."""

import pytest

from brimful.core.prompt import Tool
from brimful.wires.registry import find_incoming_wire
from brimful.wires.tools import find_functions, replace_functions

SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "description": "A city, or its code"}}}
SHORT = {"type": "object", "properties": {"city": {"type": "string"}}}
WEB = {"type": "web_search_20250305", "name": "web_search"}

REQUESTS = {
    "openai": {
        "tools": [
            {"type": "function", "function": {"name": "now", "description": "The time"}},
            {"type": "function", "function": {"name": "weather", "description": "Long", "parameters": SCHEMA}},
            {"type": "custom", "custom": {"name": "shell"}},
        ],
        "tool_choice": {"type": "function", "function": {"name": "now"}},
    },
    "anthropic": {
        "tools": [
            {"name": "now", "description": "The time", "input_schema": {"type": "object"}},
            {"name": "weather", "description": "Long", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}},
            WEB,
        ],
        "tool_choice": {"type": "tool", "name": "now"},
    },
    "responses": {
        "tools": [
            {"type": "function", "name": "now", "description": "The time", "parameters": {"type": "object"}},
            {"type": "function", "name": "weather", "description": "Long", "parameters": SCHEMA, "strict": False},
            {"type": "web_search"},
        ],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "now"}]},
    },
    "gemini": {
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "now", "description": "The time"},
                    {"name": "weather", "description": "Long", "parametersJsonSchema": SCHEMA},
                ]
            },
            {"googleSearch": {}},
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["now"]}},
    },
    "ollama": {
        "tools": [
            {"type": "function", "function": {"name": "now", "description": "The time"}},
            {"type": "function", "function": {"name": "weather", "description": "Long", "parameters": SCHEMA}},
        ],
    },
}


@pytest.mark.parametrize("name", REQUESTS)
def test_functions_are_those_of_the_caller(name):
    assert find_functions(REQUESTS[name], find_incoming_wire(name).map_functions) == {"now", "weather"}


@pytest.mark.parametrize("name", [name for name in REQUESTS if name != "ollama"])
def test_forced_tools_are_known(name):
    assert find_incoming_wire(name).find_forced(REQUESTS[name]) == {"now"}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_shortened_function_keeps_everything_else(name):
    wire = find_incoming_wire(name)
    tool = Tool(name="weather", description="Short", parameters=SHORT)
    changed = replace_functions(REQUESTS[name], wire.map_functions, {"weather": tool})
    before, after = list(wire.read_tools(REQUESTS[name])), list(wire.read_tools(changed))
    assert after[1] == tool
    assert [*after[:1], *after[2:]] == [*before[:1], *before[2:]]
    assert {key: value for key, value in changed.items() if key != "tools"} == {
        key: value for key, value in REQUESTS[name].items() if key != "tools"
    }
    assert list(changed) == list(REQUESTS[name])


@pytest.mark.parametrize("name", REQUESTS)
def test_functions_can_be_left_out(name):
    wire = find_incoming_wire(name)
    changed = replace_functions(REQUESTS[name], wire.map_functions, {"weather": None})
    before = list(wire.read_tools(REQUESTS[name]))
    assert list(wire.read_tools(changed)) == [*before[:1], *before[2:]]


def test_a_cache_mark_stays_where_a_tool_is_left_out():
    wire = find_incoming_wire("anthropic")
    changed = replace_functions(REQUESTS["anthropic"], wire.map_functions, {"weather": None})
    assert [tool.get("cache_control") for tool in changed["tools"]] == [{"type": "ephemeral"}, None]


def test_tools_that_the_provider_loads_stay():
    wire = find_incoming_wire("anthropic")
    tools = [{"name": "now", "input_schema": {"type": "object"}, "defer_loading": True}]
    assert find_functions({"tools": tools}, wire.map_functions) == frozenset()


def test_a_name_that_is_defined_twice_is_no_function_to_change():
    wire = find_incoming_wire("openai")
    tools = [{"type": "function", "function": {"name": "now"}}] * 2
    assert find_functions({"tools": tools}, wire.map_functions) == frozenset()


def test_functions_in_the_config_of_an_sdk():
    wire = find_incoming_wire("gemini")
    fields = {"config": {"tools": [{"function_declarations": [{"name": "now"}, {"name": "weather"}]}]}}
    assert find_functions(fields, wire.map_functions) == {"now", "weather"}
    changed = replace_functions(fields, wire.map_functions, {"now": None})
    assert changed == {"config": {"tools": [{"function_declarations": [{"name": "weather"}]}]}}


def test_no_empty_list_of_tools_is_left():
    wire = find_incoming_wire("openai")
    fields = {"functions": [{"name": "now"}], "n": 1}
    assert replace_functions(fields, wire.map_functions, {"now": None}) == {"n": 1}
