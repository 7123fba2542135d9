"""Error responses: always JSON, in the format of the endpoint."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, assert_never

import msgspec

from brimful.core.validation import preview
from brimful.errors import (
    BrimfulError,
    BudgetExceeded,
    ContentErased,
    ContextOverflow,
    InvalidPolicy,
    InvalidRequest,
    InvalidValue,
    NotRecorded,
    ProviderError,
    ProviderTimeout,
    StoreError,
    UnknownPolicy,
    UnknownRecord,
)

ErrorKind = Literal[
    "invalid",
    "overflow",
    "invalid_key",
    "forbidden",
    "not_found",
    "too_large",
    "rate_limited",
    "too_many_failed_keys",
    "upstream",
    "timeout",
    "shutting_down",
    "internal",
]
ErrorFormat = Literal["openai", "anthropic", "gemini", "ollama"]
"""The format of error bodies."""

GEMINI_ROOT: Final = "/v1beta/"
OLLAMA_ROOT: Final = "/api/"
STATUS_CODES: Final[dict[ErrorKind, int]] = {
    "invalid": 400,
    "overflow": 400,
    "invalid_key": 401,
    "forbidden": 403,
    "not_found": 404,
    "too_large": 413,
    "rate_limited": 429,
    "too_many_failed_keys": 429,
    "upstream": 502,
    "timeout": 504,
    "shutting_down": 503,
    "internal": 500,
}
_OPENAI_TYPES: Final[dict[ErrorKind, str]] = {
    "invalid": "invalid_request_error",
    "overflow": "invalid_request_error",
    "invalid_key": "invalid_request_error",
    "forbidden": "permission_error",
    "not_found": "invalid_request_error",
    "too_large": "invalid_request_error",
    "rate_limited": "rate_limit_error",
    "too_many_failed_keys": "rate_limit_error",
    "upstream": "server_error",
    "timeout": "server_error",
    "shutting_down": "server_error",
    "internal": "server_error",
}
_ANTHROPIC_TYPES: Final[dict[ErrorKind, str]] = {
    "invalid": "invalid_request_error",
    "overflow": "invalid_request_error",
    "invalid_key": "authentication_error",
    "forbidden": "permission_error",
    "not_found": "not_found_error",
    "too_large": "request_too_large",
    "rate_limited": "rate_limit_error",
    "too_many_failed_keys": "rate_limit_error",
    "upstream": "api_error",
    "timeout": "timeout_error",
    "shutting_down": "overloaded_error",
    "internal": "api_error",
}
_GEMINI_STATUSES: Final[dict[ErrorKind, str]] = {
    "invalid": "INVALID_ARGUMENT",
    "overflow": "INVALID_ARGUMENT",
    "invalid_key": "UNAUTHENTICATED",
    "forbidden": "PERMISSION_DENIED",
    "not_found": "NOT_FOUND",
    "too_large": "INVALID_ARGUMENT",
    "rate_limited": "RESOURCE_EXHAUSTED",
    "too_many_failed_keys": "RESOURCE_EXHAUSTED",
    "upstream": "UNAVAILABLE",
    "timeout": "DEADLINE_EXCEEDED",
    "shutting_down": "UNAVAILABLE",
    "internal": "INTERNAL",
}
_CLIENT_ERRORS: Final[dict[int, ErrorKind]] = {
    401: "invalid_key",
    403: "forbidden",
    404: "not_found",
    413: "too_large",
    429: "rate_limited",
}
"""Status codes of upstreams that are the client's fault."""
_BARE_PATH: Final = re.compile(r"/(chat/completions|completions|responses|embeddings|messages|models)(/|$)")
"""Paths of clients whose base URL lacks the `/v1`."""
_ERROR_STATUSES: Final = range(400, 600)
"""Valid HTTP errors; other statuses of an upstream become 502."""
_CODES: Final[dict[ErrorKind, str]] = {
    "overflow": "context_length_exceeded",
    "invalid_key": "invalid_api_key",
    "too_large": "request_too_large",
    "rate_limited": "rate_limit_exceeded",
    "too_many_failed_keys": "too_many_failed_keys",
    "shutting_down": "shutting_down",
}


class ApiError(Exception):
    """A rejected request. `retry_after` is in seconds; `body` and `headers` are those of the upstream's own error."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status or STATUS_CODES[kind]
        self.code = code or _CODES.get(kind)
        self.param = param
        self.retry_after = retry_after
        self.body = body
        self.headers = dict(headers or {})


def error_body(error: ApiError, error_format: ErrorFormat) -> bytes:
    """Return the JSON body of an error in the format of a provider.

    >>> error_body(ApiError("rate_limited", "too many requests"), "anthropic")
    b'{"type":"error","error":{"type":"rate_limit_error","message":"too many requests"}}'
    """
    if error.body is not None:
        return error.body
    body: dict[str, Any]
    match error_format:
        case "openai":
            kind = _OPENAI_TYPES[error.kind]
            body = {
                "error": {"message": error.message, "type": kind, "param": error.param, "code": error.code},
            }
        case "anthropic":
            body = {"type": "error", "error": {"type": _ANTHROPIC_TYPES[error.kind], "message": error.message}}
        case "gemini":
            status = _GEMINI_STATUSES[error.kind]
            body = {"error": {"code": error.status, "message": error.message, "status": status}}
        case "ollama":
            body = {"error": error.message}
        case _:
            assert_never(error_format)
    return msgspec.json.encode(body)


def to_api_error(error: BrimfulError, error_format: ErrorFormat, path: str = "") -> ApiError:  # noqa: PLR0911 - by type
    """Convert an error to the response that a client of a path gets."""
    match error:
        case BudgetExceeded():
            return _prompt_too_long(error, error_format, path)
        case InvalidRequest():
            return ApiError("invalid", "; ".join(error.violations))
        case UnknownPolicy():
            known = ", ".join(error.known)
            return ApiError("invalid", f"policy: must be one of {known}, not {preview(error.name)}", param="policy")
        case InvalidPolicy():  # named policies are valid, so it is the change to one
            key = f"{error.key}: " if error.key else ""
            return ApiError("invalid", f"overrides: {key}{error.reason}", param="overrides")
        case InvalidValue():
            return ApiError("invalid", str(error), param=error.field)
        case ContentErased():
            return ApiError("not_found", str(error), code="erased", param="handle")
        case UnknownRecord():
            param = "handle" if error.kind == "handle" else "id"
            code = "context_not_recorded" if isinstance(error, NotRecorded) else f"{error.kind}_not_found"
            return ApiError("not_found", str(error), code=code, param=param)
        case ProviderError():
            return _upstream_error(error, path)
        case StoreError():
            return ApiError("internal", "the store is not available", status=503, retry_after=5.0)
        case _:
            return ApiError("internal", "internal error")


def _messages_field(path: str) -> str:
    return "input" if path.endswith("/responses") else "messages"


def _prompt_too_long(error: BudgetExceeded, error_format: ErrorFormat, path: str) -> ApiError:
    """Word the error the way clients expect it."""
    required = ", ".join(f"{id} ({tokens})" for id, tokens in error.required[:5])
    why = f"the required parts alone do not fit: {required}{f'; {error.hint}' if error.hint else ''}"
    match error_format:
        case "anthropic":
            message = f"prompt is too long: {error.needed} tokens > {error.limit} maximum; {why}"
        case "gemini":
            message = (
                f"The input token count ({error.needed}) exceeds the maximum number of tokens allowed ({error.limit}): "
                f"{why}"
            )
        case "openai" | "ollama":
            message = (
                f"This model's maximum context length is {error.limit} tokens for the prompt. However, your messages "
                f"resulted in {error.needed} tokens: {why}. Please reduce the length of the messages."
            )
        case _:
            assert_never(error_format)
    return ApiError("overflow", message, param=_messages_field(path))


def _upstream_error(error: ProviderError, path: str) -> ApiError:
    """Return an upstream's error as it came: status, headers and body."""
    overflow = isinstance(error, ContextOverflow)
    if overflow and error.status is None:  # an event of a stream, before anything else was forwarded
        return ApiError("overflow", error.reason, param=_messages_field(path), body=error.body)
    if error.status is None or error.status not in _ERROR_STATUSES:  # a redirect means that the upstream's URL is wrong
        kind: ErrorKind = "timeout" if isinstance(error, ProviderTimeout) else "upstream"
        return ApiError(kind, str(error))
    if overflow:
        kind = "overflow"
    elif error.status >= STATUS_CODES["internal"]:
        kind = "upstream"
    else:
        kind = _CLIENT_ERRORS.get(error.status, "invalid")
    return ApiError(kind, error.reason, status=error.status, body=error.body, headers=error.headers)


def unknown_path(path: str, method: str, status: int = STATUS_CODES["not_found"]) -> ApiError:
    """Return the error for a path that is not served. It says if the client's base URL seems to be wrong."""
    if has_extra_root(path):
        hint = "remove /v1 from the client's base URL"
    elif _BARE_PATH.match(path):
        hint = "add /v1 to the client's base URL"
    else:
        hint = "see /openapi.json for all endpoints"
    return ApiError("not_found", f"{method} {path[:200]} not found: {hint}", status=status)


def has_extra_root(path: str) -> bool:
    """Whether a path has a `/v1` too many, as the base URLs of Anthropic, Gemini and Ollama have none."""
    return path.startswith(("/v1/v1/", "/v1/v1beta/", "/v1/api/"))


def method_not_allowed(path: str, method: str, allowed: Iterable[str]) -> ApiError:
    """Return the error for a method that a path does not support."""
    methods = ", ".join(sorted(set(allowed)))
    message = f"{path[:200]} does not support {method}: use {methods}"
    return ApiError("not_found", message, status=405, code="method_not_allowed", headers={"allow": methods})


def get_error_format(path: str, headers: Mapping[str, str]) -> ErrorFormat:
    """Return the error format that the client of a path expects. Anthropic's clients send `anthropic-version`."""
    if path.startswith(GEMINI_ROOT):
        return "gemini"
    if path.startswith(OLLAMA_ROOT):
        return "ollama"
    is_ours = path.startswith("/brimful/")
    is_anthropic = path.startswith("/v1/messages") or ("anthropic-version" in headers and not is_ours)
    return "anthropic" if is_anthropic else "openai"
