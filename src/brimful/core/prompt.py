"""A prompt that belongs to no provider yet: messages, tools, and how much may be answered."""

from typing import Any

import msgspec

from brimful.core.content import Media, Part, Role, Text, ToolCall, ToolResult

__all__ = ["Media", "Message", "Part", "Prompt", "Request", "Role", "Text", "Tool", "ToolCall", "ToolResult"]

Request = dict[str, Any]
"""A finished request body, as the provider's HTTP API takes it."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the model may call; `parameters` is a JSON schema."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One turn. `sources` are the ids of the packages in it; `cache` says that a stable prefix ends here."""

    role: Role
    parts: tuple[Part, ...]
    name: str = ""
    sources: tuple[str, ...] = ()
    cache: bool = False


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What the model shall see, in order, and how many tokens it may answer with."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    max_output: int | None = None
