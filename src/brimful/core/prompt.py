"""Provider-independent prompts: messages, tools and the output limit."""

from collections.abc import Mapping
from typing import Any

import msgspec

from brimful.core import validation
from brimful.core.content import Media, Part, Role, Text, ToolCall, ToolResult, clean_text
from brimful.errors import InvalidValue

__all__ = ["Media", "Message", "Part", "Prompt", "Request", "Role", "Text", "Tool", "ToolCall", "ToolResult"]

Request = dict[str, Any]
"""A finished request body for the provider's HTTP API."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the model may call; `parameters` is a JSON schema.

    The schema is copied into plain JSON data, and lone surrogates in what the model reads are replaced.

    >>> Tool(name="look", parameters={"enum": ("a", "b")}).parameters
    {'enum': ['a', 'b']}
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}

    def __post_init__(self) -> None:
        """Validate and copy all fields."""
        name = validation.require_unicode("tools.name", self.name, InvalidValue)
        description = clean_text(validation.require_text("tools.description", self.description, InvalidValue))
        for field, value in (("name", name), ("description", description), ("parameters", _schema(self.parameters))):
            msgspec.structs.force_setattr(self, field, value)


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One message. `sources` are the ids of the packages in it; `cache` marks the end of a stable prefix."""

    role: Role
    parts: tuple[Part, ...]
    name: str = ""
    sources: tuple[str, ...] = ()
    cache: bool = False


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What the model will see, in order, and how many tokens it may answer with.

    `system_turns` means that the model accepts system messages between turns, unlike others with its wire format.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    max_output: int | None = None
    system_turns: bool = False


def _schema(parameters: object) -> dict[str, Any]:
    try:
        whole = clean_data(parameters)
    except (TypeError, RecursionError) as error:
        raise InvalidValue("tools.parameters", f"must be plain JSON data ({error})") from None
    return validation.require_json_object("tools.parameters", whole, InvalidValue)


def clean_data(value: object) -> object:
    r"""Replace lone surrogates everywhere in JSON data.

    >>> clean_data({"a": ["x\ud800"]}) == {"a": ["x\ufffd"]}
    True
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("keys must be strings")
        return {clean_text(key): clean_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_data(item) for item in value]
    return value
