"""The texts of a tool's description that a model gets to see, and what stands around them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from brimful.core.prompt import Tool
from brimful.counting.overheads import ToolCosts

_OUTLINED: Final = frozenset({"type", "description", "enum", "properties", "items", "required", "additionalProperties"})
"""The keywords that the outline shows or leaves out on purpose; others are counted as they are written."""

Piece = tuple[str, int]
"""A text, and the tokens around it."""


def tool_json(tool: Tool) -> str:
    """Return the tool as it is sent, in its shortest form.

    >>> tool_json(Tool(name="now"))
    '{"name":"now","description":"","parameters":{}}'
    """
    return _json({"name": tool.name, "description": tool.description, "parameters": tool.parameters})


def pieces(tools: Sequence[Tool], costs: ToolCosts) -> list[Piece]:
    """Return the texts of the tools, each with the tokens around it.

    >>> pieces([Tool(name="now", description="The time.")], ToolCosts(style="outline", function=7, end=12))
    [('now:The time', 7), ('', 12)]
    """
    if not tools:
        return []
    if costs.style == "json":
        return [*((tool_json(tool), costs.function) for tool in tools), ("", costs.end)]
    outlines = [piece for tool in tools for piece in _outline(tool, costs)]
    return [*outlines, ("", costs.end)]


def _outline(tool: Tool, costs: ToolCosts) -> Iterator[Piece]:
    yield f"{tool.name}:{_without_stop(tool.description)}", costs.function
    yield from _object(tool.parameters, costs)


def _object(schema: Mapping[str, Any], costs: ToolCosts) -> Iterator[Piece]:
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and properties:
        yield "", costs.properties
        for key, value in properties.items():
            yield from _property(str(key), value if isinstance(value, Mapping) else {}, costs)


def _property(key: str, schema: Mapping[str, Any], costs: ToolCosts) -> Iterator[Piece]:
    yield f"{key}:{_type(schema)}:{_without_stop(str(schema.get('description', '')))}", costs.property
    yield from _enum(schema, costs)
    yield from _object(schema, costs)
    if isinstance(items := schema.get("items"), Mapping):
        yield from _property("", items, costs)
    if other := {keyword: value for keyword, value in schema.items() if keyword not in _OUTLINED}:
        yield _json(other), 0


def _enum(schema: Mapping[str, Any], costs: ToolCosts) -> Iterator[Piece]:
    if isinstance(options := schema.get("enum"), Sequence):
        yield "", costs.enum
        for option in options:
            yield option if isinstance(option, str) else _json(option), costs.enum_item


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "")
    return kind if isinstance(kind, str) else "|".join(map(str, kind))


def _without_stop(description: str) -> str:
    return description.removesuffix(".")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
