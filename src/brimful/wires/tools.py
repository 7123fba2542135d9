"""Tool definitions and arguments as JSON, in the forms that providers share."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from brimful.core.prompt import Request, Tool
from brimful.core.validation import is_too_deep
from brimful.errors import InvalidRequest
from brimful.wires.parts import read_tool_definition
from brimful.wires.rules import Object, Report

RAW_ARGUMENTS: Final = "arguments"
"""The key for arguments that are not a JSON object, if the provider accepts only objects."""


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
