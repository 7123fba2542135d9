"""Tool definitions and arguments as JSON, in the forms that providers share."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from brimful.core.prompt import Request, Tool
from brimful.core.validation import is_too_deep
from brimful.errors import InvalidRequest
from brimful.wires.parts import read_tool_definition
from brimful.wires.rules import Object, Report

RAW_ARGUMENTS: Final = "arguments"
"""The key for arguments that are not a JSON object, if the provider accepts only objects."""
_SCHEMA_KEYS: Final = ("input_schema", "parametersJsonSchema", "parameters_json_schema", "parameters")
_CHOICE_FIELDS: Final = ("tool_choice", "function_call")
_CACHE_MARK: Final = "cache_control"

ChangeFunction = Callable[[dict[str, Any]], dict[str, Any] | None]
"""Returns the definition of a function as it should be, or None to leave it out."""
MapFunctions = Callable[[Request, ChangeFunction], Request]
"""Changes the definitions of the caller's own functions in a request, wherever they stand."""


def request_bytes(request: Request) -> bytes:
    r"""Return the request as JSON: UTF-8, without spaces, keys in insertion order.

    >>> request_bytes({"b": "é", "a": [1, None]})
    b'{"b":"\xc3\xa9","a":[1,null]}'
    """
    return msgspec.json.encode(request)


def json_text(value: object) -> str:
    """Return a value as compact JSON.

    >>> json_text({"q": "tea", "n": 2})
    '{"q":"tea","n":2}'
    """
    return msgspec.json.encode(value).decode()


def object_schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's JSON schema as an object schema with sorted keys at every depth.

    A different key order, for example from another process, must not invalidate the provider's prompt cache.

    >>> object_schema({"required": ["q"], "properties": {"q": {"type": "string", "maxLength": 9}}})
    {'properties': {'q': {'maxLength': 9, 'type': 'string'}}, 'required': ['q'], 'type': 'object'}
    >>> object_schema({})
    {'properties': {}, 'type': 'object'}
    """
    whole = {"type": "object", "properties": {}, **parameters}
    schema: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(whole, order="sorted"))
    return schema


def arguments_text(arguments: str) -> str:
    r"""Return a call's arguments as a JSON object: unchanged if they are one, otherwise converted.

    OpenAI accepts any string, but servers with chat templates refuse the whole request if it is not JSON.

    >>> arguments_text('{"q":  "tea"}'), arguments_text("[1]")
    ('{"q":  "tea"}', '{"arguments":"[1]"}')
    """
    return arguments if _parse_object(arguments) is not None else json_text(arguments_object(arguments))


def arguments_object(arguments: str) -> dict[str, Any]:
    """Return a call's arguments as an object, as most providers expect.

    A model can write arguments that are not a JSON object. They are kept under one key: a past mistake must not make
    the whole conversation invalid.

    >>> arguments_object('{"q": "tea"}')
    {'q': 'tea'}
    >>> arguments_object('{"q": "te'), arguments_object(" ")
    ({'arguments': '{"q": "te'}, {})
    """
    if not arguments.strip():
        return {}
    value = _parse_object(arguments)
    return {RAW_ARGUMENTS: arguments} if value is None else value


def _parse_object(arguments: str) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) and not is_too_deep(value) else None


def function_tool(tool: Tool) -> dict[str, Any]:
    """Write a tool in OpenAI's format.

    >>> function_tool(Tool(name="now"))
    {'type': 'function', 'function': {'name': 'now', 'parameters': {'properties': {}, 'type': 'object'}}}
    """
    described = {"description": tool.description} if tool.description else {}
    function = {"name": tool.name, **described, "parameters": object_schema(tool.parameters)}
    return {"type": "function", "function": function}


def read_function(function: dict[str, Any]) -> Tool:
    """Read a tool from its function.

    >>> read_function({"name": "now"})
    Tool(name='now', description='', parameters={})
    """
    return Tool(
        name=function["name"],
        description=function.get("description") or "",
        parameters=function.get("parameters") or {},
    )


def read_tool(tool: dict[str, Any], path: str) -> Tool:
    """Read a tool in OpenAI's format.

    >>> read_tool({"type": "function", "function": {"name": "now"}}, "tools[0]").name
    'now'
    >>> read_tool({"type": "function", "function": {"name": 7}}, "t[0]")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidRequest: openai would refuse this request: t[0].function.name: must be a string, not a number
    """
    report = Report()
    for _, function in check_functions(report, [tool]):
        report.require_nonblank("tools[0].function.name", function.get("name"))
    if report.violations:
        raise InvalidRequest("openai", [finding.replace("tools[0]", path, 1) for finding in report.violations])
    return read_function(tool["function"])


def check_functions(report: Report, tools: object) -> Iterator[tuple[str, Object]]:
    """Yield the functions of a list of tools, and check their schemas."""
    for path, tool in report.require_objects("tools", tools):
        report.require_one_of(f"{path}.type", tool.get("type"), ("function",))
        function = report.require_object(f"{path}.function", tool.get("function"))
        if function is not None:
            if function.get("parameters") is not None:
                report.require_object(f"{path}.function.parameters", function["parameters"])
            yield f"{path}.function", function


def read_functions(offered: dict[str, Any]) -> Iterator[Tool]:
    """Read the tools, including the older `functions`. Unknown kinds of tools are counted as JSON."""
    for tools in offered.values():
        yield from (read_tool_definition(tool, "parameters") for tool in _list_functions(tools))


def _list_functions(tools: object) -> Iterator[dict[str, Any]]:
    for tool in tools if isinstance(tools, list) else ():
        match tool:
            case {"function": dict(function)} | dict(function):
                yield function


def has_fixed_tools(fields: Request) -> bool:
    """Whether the caller decided which tools may be called, or wants what several rounds cannot give."""
    choice, tools = fields.get("tool_choice"), fields.get("tools")
    is_auto = choice is None or choice == "auto" or (isinstance(choice, dict) and choice.get("type") == "auto")
    has_older_form = bool(fields.get("functions")) or fields.get("function_call") is not None
    several = fields.get("n") not in (None, 1) or bool(fields.get("logprobs"))
    return not is_auto or has_older_form or several or not isinstance(tools, list | None)


# -- definitions in a caller's request ---------------------------------------------------------------------------------


def map_functions(fields: Request, change: ChangeFunction) -> Request:
    """Change the functions of a request in OpenAI's format, including the older `functions`.

    >>> tools = [{"type": "function", "function": {"name": "now"}}, {"type": "custom", "custom": {"name": "shell"}}]
    >>> map_functions({"tools": tools, "n": 1}, lambda function: None)
    {'tools': [{'type': 'custom', 'custom': {'name': 'shell'}}], 'n': 1}
    """

    def change_tool(tool: dict[str, Any]) -> dict[str, Any] | None:
        function = tool.get("function")
        if tool.get("type", "function") != "function" or not isinstance(function, dict):
            return tool
        changed = change(function)
        return None if changed is None else {**tool, "function": changed}

    return map_field(map_field(fields, "tools", change_tool), "functions", change)


def map_flat_functions(fields: Request, change: ChangeFunction, types: tuple[str | None, ...]) -> Request:
    """Change the tools of these types, which are functions without another object around them.

    Tools that the provider loads itself when it needs them (`defer_loading`) stay as they are.
    """
    return map_field(
        fields,
        "tools",
        lambda tool: change(tool) if tool.get("type") in types and not tool.get("defer_loading") else tool,
    )


def map_field(fields: Request, field: str, change: ChangeFunction) -> Request:
    """Change each object in the list of a field. The cache mark of one that is left out goes to the one before it."""
    items = fields.get(field)
    if not isinstance(items, list):
        return fields
    changed: list[Any] = []
    for item in items:
        new = change(item) if isinstance(item, dict) else item
        if new is not None:
            changed.append(new)
        elif _CACHE_MARK in item and changed and isinstance(changed[-1], dict):
            changed[-1] = {_CACHE_MARK: item[_CACHE_MARK]} | changed[-1]
    return {key: changed if key == field else value for key, value in fields.items() if key != field or changed}


def find_forced(fields: Request) -> frozenset[str]:
    """Return the names of the tools that a request forces or allows by name.

    >>> sorted(find_forced({"tool_choice": {"type": "function", "function": {"name": "look_up"}}}))
    ['look_up']
    """
    return frozenset(name for field in _CHOICE_FIELDS for name in _find_names(fields.get(field)))


def _find_names(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("name"), str):
            yield value["name"]
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from _find_names(item)


def find_functions(fields: Request, map_all: MapFunctions) -> frozenset[str]:
    """Return the names of the caller's own functions, each of which is defined once."""
    names: Counter[str] = Counter()

    def note(function: dict[str, Any]) -> dict[str, Any]:
        name = function.get("name")
        names.update([name] if isinstance(name, str) else ())
        return function

    map_all(fields, note)
    return frozenset(name for name, times in names.items() if times == 1)


def replace_functions(fields: Request, map_all: MapFunctions, changes: Mapping[str, Tool | None]) -> Request:
    """Return a request in which some functions, by name, are described as these tools, or are left out.

    Everything else in their definitions, and their order, stays.
    """

    def change(function: dict[str, Any]) -> dict[str, Any] | None:
        name = function.get("name")
        if not isinstance(name, str) or name not in changes:
            return function
        tool = changes[name]
        if tool is None:
            return None
        schema = next((key for key in _SCHEMA_KEYS if function.get(key)), None)
        described = {"description": tool.description} if "description" in function else {}
        return function | described | ({} if schema is None else {schema: tool.parameters})

    return map_all(fields, change)
