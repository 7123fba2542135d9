"""Request overhead by model family, and the text of tool definitions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from brimful.core.content import ToolCall
from brimful.core.prompt import Tool
from brimful.core.tokens import Basis
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
    """The constants of a family, in tokens.

    - `message`: around each message.
    - `counts_role`: whether the role is counted as text in addition.
    - `name`: around a name, in addition to its text; None if the family sends no names.
    - `request`: of a request besides its messages (the start of the answer).
    - `tool_call`: around a tool call, in addition to its name and arguments.
    - `parallel_call`: added to each call if a message has several.
    - `parallel_calls`: added to a message with several calls.
    - `margin`: the margin of the counts of tools and tool calls, as a share.
    - `basis`: `exact` if the source shows that these are the billed tokens.
    """

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


_OPENAI: Final = Overheads(
    message=3,
    counts_role=True,
    name=1,
    request=3,
    tool_call=4,
    parallel_call=5,
    parallel_calls=19,
    tools=ToolCosts(style="outline", function=7, properties=3, property=3, enum=-3, enum_item=3, end=12),
    margin=0.1,
    basis="exact",
    source="OpenAI Cookbook, How to count tokens with tiktoken; tool calls: OpenAI developer forum, topic 538914",
    as_of="2026-11",
)
_OVERHEADS: Final = {
    "openai": _OPENAI,
    "openai-cl100k": replace(_OPENAI, tools=replace(_OPENAI.tools, function=10)),
    "anthropic": Overheads(
        message=4,
        counts_role=False,
        request=3,
        tool_call=12,
        tools=ToolCosts(style="json", function=8, end=0),
        margin=0.1,
        basis="calibrated",
        source="Anthropic, Token counting: the documented examples (14 for a system prompt and a greeting, "
        "403 with a tool)",
        as_of="2026-11",
    ),
    "gemini": Overheads(
        message=1,
        counts_role=False,
        request=1,
        tool_call=4,
        tools=ToolCosts(style="json", function=4, end=0),
        margin=0.1,
        basis="calibrated",
        source="Google, Gemini API: understand and count tokens (10 for a chat of two turns with 8 tokens of text)",
        as_of="2026-11",
    ),
}


def get_overheads(family: str) -> Overheads:
    """Return the constants of a family.

    >>> get_overheads("openai").message
    3
    """
    if family not in _OVERHEADS:
        raise InvalidModel("model", "overhead", f"no family {family!r}; known: {', '.join(_OVERHEADS)}, template")
    return _OVERHEADS[family]


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
