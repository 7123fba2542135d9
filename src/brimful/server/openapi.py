"""The OpenAPI description of the HTTP API.

The schemas of proxied requests are only documentation: they are not enforced, since upstreams decide what they accept.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

import brimful
from brimful.policies import policy_names
from brimful.server.access import KEY_HEADER
from brimful.server.endpoint import JSON
from brimful.server.inspector.operation import EVENT_STREAM, Operation
from brimful.server.inspector.operations import LOCAL_OPERATIONS, OPERATIONS
from brimful.server.proxy.upstreams import UpstreamState

_NonEmpty = Annotated[str, Meta(min_length=1)]
_Blocks = list[dict[str, Any]]
_OK: Final = 200
_FORWARDED: Final = ("get", "post", "put", "patch", "delete")
_REF: Final = "#/components/schemas/{name}"
_TEXT: Final = {"text/plain": {"schema": {"type": "string"}}}
_ERRORS: Final = {
    400: "Invalid request, or the required parts alone do not fit.",
    401: "The API key is missing, unknown, revoked or expired.",
    403: "The API key lacks the required scope, or does not allow the model or the policy.",
    404: "Not found, or no upstream serves the model.",
    409: "The id already exists.",
    413: "The body is too large.",
    415: "The body is not declared as JSON.",
    429: "Too many requests; see `Retry-After`.",
    500: "Internal error.",
    502: "The upstream failed or is unreachable.",
    504: "The upstream took too long.",
    503: "The server is shutting down, or its store is not available.",
}
_HEADERS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "X-Brimful-Mode": ("The mode: `fit` or `remember`.", {"enum": ["fit", "remember"]}),
    "X-Brimful-Conversation": ("The conversation.", {"minLength": 1, "pattern": "^[!-~]+$"}),
    "X-Brimful-Max-Prompt-Tokens": (
        "Limit the prompt, even if the window is larger.",
        {"pattern": "^[1-9][0-9]{0,14}$"},
    ),
    "X-Brimful-Pin": ("The indices of messages that must stay, in `fit` mode: `[0]`.", {"pattern": r"^\[.*\]$"}),
    "X-Brimful-Ties": ("Messages that are kept or left out together: `[[3, 4]]`.", {"pattern": r"^\[.*\]$"}),
    "X-Brimful-Policy": ("The policy of `fit` mode.", {"enum": list(policy_names())}),
    "X-Brimful-Recall": ("Whether the model may recall what was left out.", {"enum": ["tool", "off"]}),
    "X-Brimful-User": ("The user.", {"minLength": 1, "pattern": "^[!-~]+$"}),
}


ANSWER_HEADERS: Final = {
    "X-Brimful-Context": "The id of the context.",
    "X-Brimful-Dropped": "What was left out, such as `messages=12 tokens=4811`.",
    "X-Brimful-Notice": "Why the request was forwarded without being counted.",
    "X-Brimful-Request": "The id of the request in the log.",
    "X-Brimful-Upstream": "The name of the upstream that answered.",
}


class ChatMessage(msgspec.Struct, kw_only=True):
    """A message in OpenAI's format."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | _Blocks | None = None
    name: str | UnsetType = UNSET
    tool_calls: _Blocks | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET


class ChatRequest(msgspec.Struct, kw_only=True):
    """A request for a chat completion. All other fields are passed through."""

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
    """A message in Anthropic's format."""

    role: Literal["user", "assistant"]
    content: str | _Blocks


class CountRequest(msgspec.Struct, kw_only=True):
    """A request to count the tokens of a prompt, in Anthropic's format."""

    model: _NonEmpty
    messages: Annotated[list[AnthropicMessage], Meta(min_length=1)]
    system: str | _Blocks | UnsetType = UNSET
    tools: _Blocks | UnsetType = UNSET


class MessagesRequest(CountRequest, kw_only=True):
    """A request for a message. All other fields are passed through."""

    max_tokens: Annotated[int, Meta(ge=1)]
    stream: bool | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


class ResponsesRequest(msgspec.Struct, kw_only=True):
    """A request for a response. All other fields are passed through."""

    model: _NonEmpty
    input: _NonEmpty | Annotated[_Blocks, Meta(min_length=1)]
    instructions: str | UnsetType = UNSET
    stream: bool | UnsetType = UNSET
    max_output_tokens: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    tools: _Blocks | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


class ContentsRequest(msgspec.Struct, kw_only=True, rename="camel"):
    """A request for content, in Gemini's format. All other fields are passed through."""

    contents: Annotated[_Blocks, Meta(min_length=1)]
    system_instruction: dict[str, Any] | UnsetType = UNSET
    generation_config: dict[str, Any] | UnsetType = UNSET
    tools: _Blocks | UnsetType = UNSET


class OllamaRequest(msgspec.Struct, kw_only=True):
    """A request for a message, in Ollama's format. All other fields are passed through."""

    model: _NonEmpty
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    stream: bool | UnsetType = UNSET
    options: dict[str, Any] | UnsetType = UNSET
    tools: _Blocks | UnsetType = UNSET


class EmbeddingsRequest(msgspec.Struct, kw_only=True):
    """A request for embeddings."""

    model: _NonEmpty
    input: str | list[str]


class OpenAIErrorBody(msgspec.Struct, kw_only=True):
    """Details of an error."""

    message: str
    type: str | None = None
    param: str | None = None
    code: str | int | None = None


class OpenAIError(msgspec.Struct, kw_only=True):
    """An error in OpenAI's format."""

    error: OpenAIErrorBody


class AnthropicErrorBody(msgspec.Struct, kw_only=True):
    """Details of an error."""

    type: str
    message: str


class AnthropicError(msgspec.Struct, kw_only=True):
    """An error in Anthropic's format."""

    type: Literal["error"]
    error: AnthropicErrorBody


class GeminiErrorBody(msgspec.Struct, kw_only=True):
    """Details of an error."""

    code: int
    message: str
    status: str


class GeminiError(msgspec.Struct, kw_only=True):
    """An error in Gemini's format."""

    error: GeminiErrorBody


class OllamaError(msgspec.Struct, kw_only=True):
    """An error in Ollama's format."""

    error: str


class ServerStatus(msgspec.Struct, kw_only=True):
    """The status of the server, and of each upstream, by name."""

    status: str
    upstreams: dict[str, UpstreamState] | UnsetType = UNSET


class TokenCount(msgspec.Struct, kw_only=True):
    """A token count."""

    input_tokens: int


def inspector_types() -> Iterator[type]:
    """Yield the schemas of all responses and bodies."""
    for operation in inspector_operations():
        yield from (kind for kind in (operation.answer, operation.body) if kind is not None)


def inspector_operations() -> Iterator[Operation]:
    yield from (operation for operation, _ in (*OPERATIONS, *LOCAL_OPERATIONS))


def operation_parameters(operation: Operation) -> list[dict[str, Any]]:
    """Return the path, query and header parameters of an operation."""
    named = re.findall(r"{(\w+)}", operation.described_path)
    return [
        *map(_path_parameter, named),
        *_query_parameters(operation.query),
        *(
            {"name": name, "in": "header", "description": what, "schema": {"type": "string", "pattern": "^[!-~]*$"}}
            for name, what in operation.headers.items()
        ),
    ]


def _query_parameters(kind: type) -> Iterator[dict[str, Any]]:
    properties = msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"]
    for name, schema in properties.items():
        plain = _without_null(schema)
        described = {"description": plain.pop("description")} if "description" in plain else {}
        yield {"name": name, "in": "query", "schema": plain} | described


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without null: a query parameter is either absent or has a value."""
    schema = {key: value for key, value in schema.items() if not (key == "default" and value is None)}
    choices = [each for each in schema.pop("anyOf", []) if each != {"type": "null"}]
    return schema | (choices[0] if len(choices) == 1 else {"anyOf": choices} if choices else {})


_ROOTS: Final = {"/v1": OpenAIError, "/v1beta": GeminiError, "/api": OllamaError}
_TYPES: Final = (
    ChatRequest,
    MessagesRequest,
    ResponsesRequest,
    CountRequest,
    ContentsRequest,
    OllamaRequest,
    EmbeddingsRequest,
    OpenAIError,
    AnthropicError,
    GeminiError,
    OllamaError,
    ServerStatus,
    TokenCount,
    *inspector_types(),
)


@cache
def openapi_document() -> bytes:
    """Return the OpenAPI description as JSON."""
    _, components = msgspec.json.schema_components(_TYPES, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {
        "/v1/chat/completions": {"post": _completion_operation("Create a chat completion", ChatRequest, OpenAIError)},
        "/v1/messages": {"post": _completion_operation("Create a message", MessagesRequest, AnthropicError)},
        "/v1/responses": {"post": _completion_operation("Create a response", ResponsesRequest, OpenAIError)},
        "/v1/messages/count_tokens": {
            "post": _operation(
                "Count the tokens of a prompt", AnthropicError, answer=_json_content(TokenCount), body=CountRequest
            )
        },
        "/v1/embeddings": {"post": _operation("Create embeddings", OpenAIError, body=EmbeddingsRequest)},
        "/v1/models": {"get": _operation("List models", OpenAIError)},
        "/v1/models/{model}": {"get": _operation("Show a model", OpenAIError, parameters=[_path_parameter("model")])},
        **{
            f"/v1beta/models/{{model}}:{method}": {
                "post": _completion_operation(summary, ContentsRequest, GeminiError, _path_parameter("model"))
            }
            for method, summary in (("generateContent", "Create content"), ("streamGenerateContent", "Stream content"))
        },
        "/v1beta/models/{model}:countTokens": {
            "post": _operation("Count the tokens of contents", GeminiError, parameters=[_path_parameter("model")])
        },
        "/v1beta/models": {"get": _operation("List Gemini's models", GeminiError)},
        "/v1beta/models/{model}": {
            "get": _operation("Show one of Gemini's models", GeminiError, parameters=[_path_parameter("model")])
        },
        "/api/chat": {"post": _completion_operation("Create a message with Ollama", OllamaRequest, OllamaError)},
        "/api/show": {"post": _operation("Show a model of Ollama", OllamaError)},
        "/api/tags": {"get": _operation("List Ollama's models", OllamaError)},
        "/api/version": {"get": _operation("Ollama's version", OllamaError)},
        **{
            f"{root}/{{path}}": {method: _forward_operation(error) for method in _FORWARDED}
            for root, error in _ROOTS.items()
        },
        "/mcp": {"post": _mcp_operation()},
        "/health": {"get": _status_operation("Liveness")},
        "/ready": {"get": _status_operation("Readiness")},
        "/openapi.json": {
            "get": _public_operation("This description", {"application/json": {"schema": {"type": "object"}}})
        },
        "/metrics": {"get": _operation("Prometheus metrics, if enabled", OpenAIError, answer=_TEXT)},
        "/": {"get": _public_operation("The inspector page", {"text/html": {"schema": {"type": "string"}}})},
    }
    for operation in inspector_operations():
        paths.setdefault(operation.described_path, {})[operation.method.lower()] = _inspector_operation(operation)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Brimful",
                "version": brimful.__version__,
                "summary": "A proxy that trims requests to fit the context window.",
            },
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {
                    "bearer": {"type": "http", "scheme": "bearer"},
                    "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                    "brimful": {
                        "type": "apiKey",
                        "in": "header",
                        "name": KEY_HEADER,
                        "description": "For use if the other headers carry a key for the upstream.",
                    },
                },
            },
            "security": [{"bearer": []}, {"key": []}, {"brimful": []}, {}],
        }
    )


def _forward_operation(error: type) -> dict[str, Any]:
    upstream = {"name": "X-Brimful-Upstream", "in": "header", "description": "The upstream's name."}
    parameters = [_path_parameter("path"), upstream | {"schema": {"type": "string", "minLength": 1}}]
    return _operation("Forward a request for any other path to an upstream", error, parameters=parameters)


def _completion_operation(summary: str, body: type, error: type, *parameters: dict[str, Any]) -> dict[str, Any]:
    stream = "application/x-ndjson" if error is OllamaError else "text/event-stream"
    answers = {"application/json": {"schema": {"type": "object"}}, stream: {}}
    headers = [
        {"name": name, "in": "header", "description": what, "schema": {"type": "string"} | schema}
        for name, (what, schema) in _HEADERS.items()
    ]
    operation = _operation(summary, error, answer=answers, body=body, parameters=[*parameters, *headers])
    operation["responses"]["200"]["headers"] = {
        name: {"description": what, "schema": {"type": "string"}} for name, what in ANSWER_HEADERS.items()
    }
    return operation


def _operation(
    summary: str,
    error: type,
    *,
    answer: dict[str, Any] | None = None,
    body: type | None = None,
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    failure = _json_content(error)
    responses: dict[str, Any] = {
        "200": {"description": "Success.", "content": answer or {"application/json": {"schema": {"type": "object"}}}}
    }
    responses |= {str(status): {"description": why, "content": failure} for status, why in _ERRORS.items()}
    responses["default"] = {"description": "An error of the upstream.", "content": failure}
    required = {} if body is None else {"requestBody": {"required": True, "content": _json_content(body)}}
    extra = {} if parameters is None else {"parameters": parameters}
    return {"summary": summary, "responses": responses} | required | extra


def _inspector_operation(operation: Operation) -> dict[str, Any]:
    answer: dict[str, Any] = {operation.media: {"schema": {"type": "object"}}}
    if operation.answer is not None:
        answer = _json_content(operation.answer)
    elif operation.media != JSON:
        answer = {operation.media: {"schema": {"type": "string"}}}
    if operation.streams:
        answer |= {EVENT_STREAM: {"schema": {"type": "string"}}}
    described = _operation(
        operation.summary, OpenAIError, answer=answer, body=operation.body, parameters=operation_parameters(operation)
    )
    described["description"] = f"Requires the scope `{operation.scope}`."
    if operation.status != _OK:
        described["responses"][str(operation.status)] = described["responses"].pop(str(_OK))
    return described


def _mcp_operation() -> dict[str, Any]:
    message = {"application/json": {"schema": {"type": "object"}}}
    return {
        "summary": "Model Context Protocol",
        "description": "Requires the scope `read`, and `write` for tools that change something.",
        "requestBody": {"required": True, "content": message},
        "responses": {
            "200": {"description": "The answer to a request.", "content": message},
            "202": {"description": "A notification was received."},
            "default": {
                "description": "An error of the protocol, or of this server.",
                "content": message | _TEXT,
            },
        },
    }


def _public_operation(summary: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {"summary": summary, "security": [], "responses": {"200": {"description": "Success.", "content": answer}}}


def _status_operation(summary: str) -> dict[str, Any]:
    answers = {
        "200": {"description": "Yes.", "content": _json_content(ServerStatus)},
        "503": {"description": "No.", "content": _json_content(OpenAIError)},
    }
    return {"summary": summary, "security": [], "responses": answers}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _json_content(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(name=kind.__name__)}}}
