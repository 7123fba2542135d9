"""Request overhead by model family, and the text of tool definitions. The numbers are in `overheads.toml`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from brimful.core.content import ToolCall
from brimful.core.prompt import Tool
from brimful.core.tokens import Basis
from brimful.core.validation import preload_types
from brimful.errors import InvalidModel

_OUTLINED_KEYWORDS: Final = frozenset(
    {"type", "description", "enum", "properties", "items", "required", "additionalProperties"}
)
"""Schema keywords that the outline handles. Others are counted as JSON."""


class ToolCosts(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of tool definitions in addition to their texts.

    `outline` counts the names, types and descriptions of a schema; `json` counts the schema as it is sent.
    """

    style: Literal["outline", "json"]
    function: int
    end: int
    properties: int = 0
    property: int = 0
    enum: int = 0
    enum_item: int = 0


class Overheads(msgspec.Struct, frozen=True, kw_only=True):
    """The constants of a family. `name` is None if the family sends no names."""

    message: int
    counts_role: bool
    request: int
    tool_call: int
    margin: float
    tools: ToolCosts
    basis: Basis
    source: str
    as_of: str
    name: int | None = None
    parallel_call: int = 0
    parallel_calls: int = 0


def get_overheads(family: str) -> Overheads:
    """Return the constants of a family.

    >>> get_overheads("openai").message
    3
    """
    table = _load_overheads()
    if family not in table:
        raise InvalidModel("model", "overhead", f"no family {family!r}; known: {', '.join(table)}, template")
    return table[family]


preload_types(Overheads)


@cache
def _load_overheads() -> dict[str, Overheads]:
    text = Path(__file__).with_name("overheads.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=dict[str, Overheads])


ToolText = tuple[str, int]
"""A text, and the fixed tokens around it."""


def tool_json(tool: Tool) -> str:
    """Return the tool as compact JSON.

    >>> tool_json(Tool(name="now"))
    '{"name":"now","description":"","parameters":{}}'
    """
    return _compact_json({"name": tool.name, "description": tool.description, "parameters": tool.parameters})


def call_json(call: ToolCall) -> str:
    """Return a tool call as JSON, which is how strict counters count it."""
    return json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)


def tool_texts(tools: Sequence[Tool], costs: ToolCosts) -> list[ToolText]:
    """Return the texts of tools, each with the fixed tokens around it.

    >>> tool_texts([Tool(name="now", description="The time.")], ToolCosts(style="outline", function=7, end=12))
    [('now:The time', 7), ('', 12)]
    """
    if not tools:
        return []
    if costs.style == "json":
        return [*((tool_json(tool), costs.function) for tool in tools), ("", costs.end)]
    outlines = [piece for tool in tools for piece in _outline(tool, costs)]
    return [*outlines, ("", costs.end)]


def _outline(tool: Tool, costs: ToolCosts) -> Iterator[ToolText]:
    yield f"{tool.name}:{_without_period(tool.description)}", costs.function
    yield from _outline_object(tool.parameters, costs)


def _outline_object(schema: Mapping[str, Any], costs: ToolCosts) -> Iterator[ToolText]:
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and properties:
        yield "", costs.properties
        for key, value in properties.items():
            yield from _outline_property(str(key), value if isinstance(value, Mapping) else {}, costs)


def _outline_property(key: str, schema: Mapping[str, Any], costs: ToolCosts) -> Iterator[ToolText]:
    yield f"{key}:{_schema_type(schema)}:{_without_period(str(schema.get('description', '')))}", costs.property
    yield from _outline_enum(schema, costs)
    yield from _outline_object(schema, costs)
    if isinstance(items := schema.get("items"), Mapping):
        yield from _outline_property("", items, costs)
    if other := {keyword: value for keyword, value in schema.items() if keyword not in _OUTLINED_KEYWORDS}:
        yield _compact_json(other), 0


def _outline_enum(schema: Mapping[str, Any], costs: ToolCosts) -> Iterator[ToolText]:
    if isinstance(options := schema.get("enum"), Sequence):
        yield "", costs.enum
        for option in options:
            yield option if isinstance(option, str) else _compact_json(option), costs.enum_item


def _schema_type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "")
    return kind if isinstance(kind, str) else "|".join(map(str, kind))


def _without_period(description: str) -> str:
    return description.removesuffix(".")


def _compact_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
