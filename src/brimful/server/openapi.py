"""The OpenAPI description of the HTTP API.

The schemas of proxied requests are only documentation: they are not enforced, since upstreams decide what they accept.
"""

import re
from collections.abc import Iterator
from functools import cache
from types import GenericAlias, NoneType
from typing import Annotated, Any, Final, Literal, get_args

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


_KINDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("tools", "tool_calls"), _Blocks),
    **dict.fromkeys(("metadata", "options", "system_instruction", "generation_config"), dict[str, Any]),
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens", "n"), Annotated[int, Meta(ge=1)]),
    "model": _NonEmpty,
    "stream": bool,
    "system": str | _Blocks,
}
"""The types of fields that are not strings."""


def _schema(
    name: str, about: str, fields: str, *, rename: Literal["camel"] | None = None, **kinds: Any
) -> type[msgspec.Struct]:
    """Return a type that is only described. Fields that end with `?` are optional."""
    described: list[Any] = []
    for field in fields.split():
        key, is_optional, _ = field.partition("?")
        kind = (_KINDS | kinds).get(key, str)
        optional = (kind, None) if NoneType in get_args(kind) else (kind | UnsetType, UNSET)
        described.append((key, *(optional if is_optional else (kind,))))
    return msgspec.defstruct(
        name, described, namespace={"__doc__": about}, module=__name__, kw_only=True, rename=rename
    )


def _list_of(kind: Any) -> Any:
    return Annotated[GenericAlias(list, (kind,)), Meta(min_length=1)]


_ChatMessage = _schema(
    "ChatMessage",
    "A message in OpenAI's format.",
    "role content? name? tool_calls? tool_call_id?",
    role=Literal["system", "developer", "user", "assistant", "tool", "function"],
    content=str | _Blocks | None,
)
_ChatRequest = _schema(
    "ChatRequest",
    "A request for a chat completion. All other fields are passed through.",
    "model messages stream? max_tokens? max_completion_tokens? tools? n? user? metadata?",
    messages=_list_of(_ChatMessage),
)
_AnthropicMessage = _schema(
    "AnthropicMessage",
    "A message in Anthropic's format.",
    "role content",
    role=Literal["user", "assistant"],
    content=str | _Blocks,
)
_CountRequest = _schema(
    "CountRequest",
    "A request to count the tokens of a prompt, in Anthropic's format.",
    "model messages system? tools?",
    messages=_list_of(_AnthropicMessage),
)
_MessagesRequest = _schema(
    "MessagesRequest",
    "A request for a message. All other fields are passed through.",
    "model messages system? tools? max_tokens stream? metadata?",
    messages=_list_of(_AnthropicMessage),
)
_ResponsesRequest = _schema(
    "ResponsesRequest",
    "A request for a response. All other fields are passed through.",
    "model input instructions? stream? max_output_tokens? tools? metadata?",
    input=_NonEmpty | _list_of(dict[str, Any]),
)
_ContentsRequest = _schema(
    "ContentsRequest",
    "A request for content, in Gemini's format. All other fields are passed through.",
    "contents system_instruction? generation_config? tools?",
    rename="camel",
    contents=_list_of(dict[str, Any]),
)
_OllamaRequest = _schema(
    "OllamaRequest",
    "A request for a message, in Ollama's format. All other fields are passed through.",
    "model messages stream? options? tools?",
    messages=_list_of(_ChatMessage),
)
_EmbeddingsRequest = _schema("EmbeddingsRequest", "A request for embeddings.", "model input", input=str | list[str])


def _error(provider: str, details: str, fields: str = "error", **kinds: Any) -> type[msgspec.Struct]:
    """Return the type of a provider's errors, with these fields in their details."""
    body = _schema(f"{provider}ErrorBody", "Details of an error.", details, **kinds) if details else str
    about = f"An error in {provider}'s format."
    return _schema(f"{provider}Error", about, fields, type=Literal["error"], error=body)


_OpenAIError = _error("OpenAI", "message type? param? code?", type=str | None, param=str | None, code=str | int | None)
_AnthropicError = _error("Anthropic", "type message", "type error")
_GeminiError = _error("Gemini", "code message status", code=int)
_OllamaError = _error("Ollama", "")
_ServerStatus = _schema(
    "ServerStatus",
    "The status of the server, and of each upstream, by name.",
    "status upstreams?",
    upstreams=dict[str, UpstreamState],
)
_TokenCount = _schema("TokenCount", "A token count.", "input_tokens", input_tokens=int)


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


_ROOTS: Final = {"/v1": _OpenAIError, "/v1beta": _GeminiError, "/api": _OllamaError}
_TYPES: Final = (
    _ChatRequest,
    _MessagesRequest,
    _ResponsesRequest,
    _CountRequest,
    _ContentsRequest,
    _OllamaRequest,
    _EmbeddingsRequest,
    _OpenAIError,
    _AnthropicError,
    _GeminiError,
    _OllamaError,
    _ServerStatus,
    _TokenCount,
    *inspector_types(),
)


@cache
def openapi_document() -> bytes:
    """Return the OpenAPI description as JSON."""
    _, components = msgspec.json.schema_components(_TYPES, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {
        "/v1/chat/completions": {"post": _completion_operation("Create a chat completion", _ChatRequest, _OpenAIError)},
        "/v1/messages": {"post": _completion_operation("Create a message", _MessagesRequest, _AnthropicError)},
        "/v1/responses": {"post": _completion_operation("Create a response", _ResponsesRequest, _OpenAIError)},
        "/v1/messages/count_tokens": {
            "post": _operation(
                "Count the tokens of a prompt", _AnthropicError, answer=_json_content(_TokenCount), body=_CountRequest
            )
        },
        "/v1/embeddings": {"post": _operation("Create embeddings", _OpenAIError, body=_EmbeddingsRequest)},
        "/v1/models": {"get": _operation("List models", _OpenAIError)},
        "/v1/models/{model}": {"get": _operation("Show a model", _OpenAIError, parameters=[_path_parameter("model")])},
        **{
            f"/v1beta/models/{{model}}:{method}": {
                "post": _completion_operation(summary, _ContentsRequest, _GeminiError, _path_parameter("model"))
            }
            for method, summary in (("generateContent", "Create content"), ("streamGenerateContent", "Stream content"))
        },
        "/v1beta/models/{model}:countTokens": {
            "post": _operation("Count the tokens of contents", _GeminiError, parameters=[_path_parameter("model")])
        },
        "/v1beta/models": {"get": _operation("List Gemini's models", _GeminiError)},
        "/v1beta/models/{model}": {
            "get": _operation("Show one of Gemini's models", _GeminiError, parameters=[_path_parameter("model")])
        },
        "/api/chat": {"post": _completion_operation("Create a message with Ollama", _OllamaRequest, _OllamaError)},
        "/api/show": {"post": _operation("Show a model of Ollama", _OllamaError)},
        "/api/tags": {"get": _operation("List Ollama's models", _OllamaError)},
        "/api/version": {"get": _operation("Ollama's version", _OllamaError)},
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
        "/metrics": {"get": _operation("Prometheus metrics, if enabled", _OpenAIError, answer=_TEXT)},
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
    stream = "application/x-ndjson" if error is _OllamaError else "text/event-stream"
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
        operation.summary, _OpenAIError, answer=answer, body=operation.body, parameters=operation_parameters(operation)
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
            "default": {"description": "An error of the protocol, or of this server.", "content": message | _TEXT},
        },
    }


def _public_operation(summary: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {"summary": summary, "security": [], "responses": {"200": {"description": "Success.", "content": answer}}}


def _status_operation(summary: str) -> dict[str, Any]:
    answers = {
        "200": {"description": "Yes.", "content": _json_content(_ServerStatus)},
        "503": {"description": "No.", "content": _json_content(_OpenAIError)},
    }
    return {"summary": summary, "security": [], "responses": answers}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _json_content(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(name=kind.__name__)}}}
