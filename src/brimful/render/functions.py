"""Tools in the form that OpenAI introduced and Ollama took over."""

from collections.abc import Iterator
from typing import Any

from brimful.core.prompt import Tool
from brimful.errors import InvalidRequest
from brimful.render.canonical import object_schema
from brimful.render.rules import Object, Report


def function_tool(tool: Tool) -> dict[str, Any]:
    """Write a tool.

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


def read_tool(tool: dict[str, Any], place: str) -> Tool:
    """Read a tool that a caller gives in OpenAI's form.

    >>> read_tool({"type": "function", "function": {"name": "now"}}, "tools[0]").name
    'now'
    >>> read_tool({"type": "function", "function": {"name": 7}}, "t[0]")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidRequest: openai would refuse this request: t[0].function.name: must be a text, not a number
    """
    report = Report()
    for _, function in want_functions(report, [tool]):
        report.want_filled("tools[0].function.name", function.get("name"))
    if report.violations:
        raise InvalidRequest("openai", [finding.replace("tools[0]", place, 1) for finding in report.violations])
    return read_function(tool["function"])


def want_functions(report: Report, tools: object) -> Iterator[tuple[str, Object]]:
    """Go through the functions of a list of tools, and check their schemas."""
    for place, tool in report.want_objects("tools", tools):
        report.want_one_of(f"{place}.type", tool.get("type"), ("function",))
        function = report.want_object(f"{place}.function", tool.get("function"))
        if function is not None:
            if function.get("parameters") is not None:
                report.want_object(f"{place}.function.parameters", function["parameters"])
            yield f"{place}.function", function
