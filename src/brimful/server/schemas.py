"""The forms of bodies, for the description of the API. They are not enforced: what an upstream takes, goes through."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

_NonEmpty = Annotated[str, Meta(min_length=1)]
_Blocks = list[dict[str, Any]]


class ChatMessage(msgspec.Struct, kw_only=True):
    """A turn, in OpenAI's form."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | _Blocks | None = None
    name: str | UnsetType = UNSET
    tool_calls: _Blocks | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET


class ChatRequest(msgspec.Struct, kw_only=True):
    """A request for a chat completion. Any other field goes through untouched."""

    model: _NonEmpty
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    stream: bool | UnsetType = UNSET
    max_tokens: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    max_completion_tokens: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    tools: _Blocks | UnsetType = UNSET
    n: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    user: str | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


class AnthropicMessage(msgspec.Struct, kw_only=True):
    """A turn, in Anthropic's form."""

    role: Literal["user", "assistant"]
    content: str | _Blocks


class CountRequest(msgspec.Struct, kw_only=True):
    """A request for the count of a prompt, in Anthropic's form."""

    model: _NonEmpty
    messages: Annotated[list[AnthropicMessage], Meta(min_length=1)]
    system: str | _Blocks | UnsetType = UNSET
    tools: _Blocks | UnsetType = UNSET


class MessagesRequest(CountRequest, kw_only=True):
    """A request for a message. Any other field goes through untouched."""

    max_tokens: Annotated[int, Meta(ge=1)]
    stream: bool | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


class EmbeddingsRequest(msgspec.Struct, kw_only=True):
    """A request for vectors."""

    model: _NonEmpty
    input: str | list[str]


class OpenAIErrorBody(msgspec.Struct, kw_only=True):
    """What went wrong."""

    message: str
    type: str | None = None
    param: str | None = None
    code: str | int | None = None


class OpenAIError(msgspec.Struct, kw_only=True):
    """An error in OpenAI's form."""

    error: OpenAIErrorBody


class AnthropicErrorBody(msgspec.Struct, kw_only=True):
    """What went wrong."""

    type: str
    message: str


class AnthropicError(msgspec.Struct, kw_only=True):
    """An error in Anthropic's form."""

    type: Literal["error"]
    error: AnthropicErrorBody


class ServerStatus(msgspec.Struct, kw_only=True):
    """How the server is."""

    status: str


class TokenCount(msgspec.Struct, kw_only=True):
    """A count."""

    input_tokens: int
