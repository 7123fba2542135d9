"""The OpenAPI description of the HTTP API."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec

import brimful
from brimful.server import schemas
from brimful.server.access import KEY_HEADER
from brimful.server.endpoint import JSON
from brimful.server.errors import ErrorFormat
from brimful.server.inspector.operation import Operation
from brimful.server.inspector.operations import OPERATIONS


def inspector_types() -> Iterator[type]:
    """Yield the forms of all answers and bodies."""
    for operation, _ in OPERATIONS:
        yield from (kind for kind in (operation.answer, operation.body) if kind is not None)


def inspector_operations() -> Iterator[Operation]:
    """Yield all operations."""
    yield from (operation for operation, _ in OPERATIONS)


def operation_parameters(operation: Operation) -> list[dict[str, Any]]:
    """Return what an operation takes in its path, its query and its headers."""
    named = re.findall(r"{(\w+)}", operation.described_path)
    return [
        *({"name": name, "in": "path", "required": True, "schema": _name_schema()} for name in named),
        *_query_parameters(operation.query),
        *(
            {"name": name, "in": "header", "description": what, "schema": {"type": "string", "pattern": "^[!-~]*$"}}
            for name, what in operation.headers.items()
        ),
    ]


def _name_schema() -> dict[str, Any]:
    return {"type": "string", "minLength": 1}


def _query_parameters(kind: type) -> Iterator[dict[str, Any]]:
    schema = msgspec.json.schema(kind)["$defs"][kind.__name__]
    for name, said in schema["properties"].items():
        plain = _without_null(said)
        described = {"description": plain.pop("description")} if "description" in plain else {}
        yield {"name": name, "in": "query", "schema": plain} | described


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without the null that stands for what is not said: a query says nothing, or something."""
    said = {key: value for key, value in schema.items() if not (key == "default" and value is None)}
    choices = [each for each in said.pop("anyOf", []) if each != {"type": "null"}]
    return said | (choices[0] if len(choices) == 1 else {"anyOf": choices} if choices else {})


_OK: Final = 200
_REF: Final = "#/components/schemas/{name}"
_TYPES: Final = (
    schemas.ChatRequest,
    schemas.MessagesRequest,
    schemas.CountRequest,
    schemas.EmbeddingsRequest,
    schemas.OpenAIError,
    schemas.AnthropicError,
    schemas.ServerStatus,
    schemas.TokenCount,
    *inspector_types(),
)
_TEXT: Final = {"text/plain": {"schema": {"type": "string"}}}
_ERRORS: Final = {
    400: "It is no request, or what cannot be left out of it does not fit.",
    401: "The key is missing, not known, or revoked.",
    403: "The key has not the scope that this needs.",
    404: "There is no such thing, or no upstream runs the model.",
    409: "There is one of that id already.",
    413: "The body is too large.",
    415: "The body does not say that it is JSON.",
    429: "Too many requests, at a time or in a minute; `Retry-After` says when to come again.",
    500: "Something broke.",
    502: "The upstream cannot be reached, or broke off.",
    503: "The server is stopping, or its store cannot be used.",
}
_HEADERS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "X-Brimful-Mode": ("What is done with the request: `fit` or `remember`.", {"enum": ["fit", "remember"]}),
    "X-Brimful-Conversation": ("Which conversation it belongs to.", {"minLength": 1, "pattern": "^[!-~]+$"}),
    "X-Brimful-User": ("Who speaks.", {"minLength": 1, "pattern": "^[!-~]+$"}),
}


@cache
def openapi_document() -> bytes:
    """Return the description as JSON."""
    _, components = msgspec.json.schema_components(_TYPES, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {
        "/v1/chat/completions": {
            "post": _completion_operation("Ask for a chat completion", schemas.ChatRequest, "openai")
        },
        "/v1/messages": {"post": _completion_operation("Ask for a message", schemas.MessagesRequest, "anthropic")},
        "/v1/messages/count_tokens": {
            "post": _operation(
                "Count a prompt", "anthropic", answer=_json_content(schemas.TokenCount), body=schemas.CountRequest
            )
        },
        "/v1/embeddings": {"post": _operation("Turn texts into vectors", "openai", body=schemas.EmbeddingsRequest)},
        "/v1/models": {"get": _operation("List models", "openai")},
        "/v1/models/{model}": {"get": _operation("Tell of a model", "openai", parameters=[_path_parameter("model")])},
        "/health": {"get": _status_operation("Whether the process lives")},
        "/ready": {"get": _status_operation("Whether requests are taken")},
        "/openapi.json": {
            "get": _public_operation("This description", {"application/json": {"schema": {"type": "object"}}})
        },
        "/metrics": {"get": _operation("What is measured, where that is wanted", "openai", answer=_TEXT)},
        "/": {"get": _public_operation("The inspector's page", {"text/html": {"schema": {"type": "string"}}})},
    }
    for operation in inspector_operations():
        paths.setdefault(operation.described_path, {})[operation.method.lower()] = _inspector_operation(operation)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Brimful", "version": brimful.__version__, "summary": "No request is too long."},
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
                        "description": "Where the other headers hold a key for the upstream.",
                    },
                },
            },
            "security": [{"bearer": []}, {"key": []}, {"brimful": []}, {}],
        }
    )


def _completion_operation(summary: str, body: type, tongue: ErrorFormat) -> dict[str, Any]:
    answers = {"application/json": {"schema": {"type": "object"}}, "text/event-stream": {}}
    headers = [
        {"name": name, "in": "header", "description": what, "schema": {"type": "string"} | schema}
        for name, (what, schema) in _HEADERS.items()
    ]
    operation = _operation(summary, tongue, answer=answers, body=body, parameters=headers)
    named = {"description": "The id of the context.", "schema": {"type": "string"}}
    operation["responses"]["200"]["headers"] = {"X-Brimful-Context": named}
    return operation


def _operation(
    summary: str,
    tongue: ErrorFormat,
    *,
    answer: dict[str, Any] | None = None,
    body: type | None = None,
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    error = _json_content(schemas.OpenAIError if tongue == "openai" else schemas.AnthropicError)
    responses: dict[str, Any] = {
        "200": {"description": "The answer.", "content": answer or {"application/json": {"schema": {"type": "object"}}}}
    }
    responses |= {str(status): {"description": why, "content": error} for status, why in _ERRORS.items()}
    responses["default"] = {"description": "What the upstream says.", "content": error}
    required = {} if body is None else {"requestBody": {"required": True, "content": _json_content(body)}}
    given = {} if parameters is None else {"parameters": parameters}
    return {"summary": summary, "responses": responses} | required | given


def _inspector_operation(operation: Operation) -> dict[str, Any]:
    answer: dict[str, Any] = {operation.media: {"schema": {"type": "object"}}}
    if operation.answer is not None:
        answer = _json_content(operation.answer)
    elif operation.media != JSON:
        answer = {operation.media: {"schema": {"type": "string"}}}
    described = _operation(
        operation.summary, "openai", answer=answer, body=operation.body, parameters=operation_parameters(operation)
    )
    described["description"] = f"Needs the scope `{operation.scope}`."
    if operation.status != _OK:
        described["responses"][str(operation.status)] = described["responses"].pop(str(_OK))
    return described


def _public_operation(summary: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {"summary": summary, "security": [], "responses": {"200": {"description": "It.", "content": answer}}}


def _status_operation(summary: str) -> dict[str, Any]:
    answers = {
        "200": {"description": "It is so.", "content": _json_content(schemas.ServerStatus)},
        "503": {"description": "It is not.", "content": _json_content(schemas.OpenAIError)},
    }
    return {"summary": summary, "security": [], "responses": answers}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _json_content(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(name=kind.__name__)}}}
