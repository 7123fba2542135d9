"""Error responses: always JSON, in the format of the endpoint."""

from typing import Any, Final, Literal, assert_never

import msgspec

from brimful.core.validation import decode_json, preview
from brimful.errors import (
    BrimfulError,
    BudgetExceeded,
    ContextOverflow,
    InvalidRequest,
    InvalidValue,
    ProviderError,
    ProviderUnavailable,
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
    "upstream",
    "shutting_down",
    "internal",
]
ErrorFormat = Literal["openai", "anthropic"]
"""The format of error bodies."""

STATUS_CODES: Final[dict[ErrorKind, int]] = {
    "invalid": 400,
    "overflow": 400,
    "invalid_key": 401,
    "forbidden": 403,
    "not_found": 404,
    "too_large": 413,
    "rate_limited": 429,
    "upstream": 502,
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
    "upstream": "server_error",
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
    "upstream": "api_error",
    "shutting_down": "overloaded_error",
    "internal": "api_error",
}
_CLIENT_ERRORS: Final[dict[int, ErrorKind]] = {
    401: "invalid_key",
    403: "forbidden",
    404: "not_found",
    413: "too_large",
    429: "rate_limited",
}
"""Status codes of upstreams that are the client's fault."""
_ERROR_STATUSES: Final = range(400, 600)
"""Valid HTTP errors; other statuses of an upstream become 502."""
_CODES: Final[dict[ErrorKind, str]] = {
    "overflow": "context_length_exceeded",
    "invalid_key": "invalid_api_key",
    "too_large": "request_too_large",
    "rate_limited": "rate_limit_exceeded",
    "shutting_down": "shutting_down",
}


class ApiError(Exception):
    """A rejected request. `retry_after` is in seconds; `body` is the upstream's own error body."""

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
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status or STATUS_CODES[kind]
        self.code = code or _CODES.get(kind)
        self.param = param
        self.retry_after = retry_after
        self.body = body


def error_body(error: ApiError, error_format: ErrorFormat) -> bytes:
    """Return the JSON body of an error in the format of OpenAI or Anthropic.

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
        case _:
            assert_never(error_format)
    return msgspec.json.encode(body)


def to_api_error(error: BrimfulError, error_format: ErrorFormat) -> ApiError:  # noqa: PLR0911 - one per type
    """Convert an error to the response that a client gets."""
    match error:
        case BudgetExceeded():
            return _prompt_too_long(error, error_format)
        case ContextOverflow():
            return _overflow_error(error, error_format)
        case InvalidRequest():
            return ApiError("invalid", "; ".join(error.violations))
        case UnknownPolicy():
            known = ", ".join(error.known)
            return ApiError("invalid", f"policy: must be one of {known}, not {preview(error.name)}", param="policy")
        case InvalidValue():
            return ApiError("invalid", str(error), param=error.field)
        case UnknownRecord():
            return ApiError("not_found", str(error), code=f"{error.kind}_not_found", param="id")
        case ProviderError():
            return _upstream_error(error, error_format)
        case StoreError():
            return ApiError("internal", "the store is not available", status=503, retry_after=5.0)
        case _:
            return ApiError("internal", "internal error")


def _prompt_too_long(error: BudgetExceeded, error_format: ErrorFormat) -> ApiError:
    """Word the error the way clients expect it."""
    required = ", ".join(f"{id} ({tokens})" for id, tokens in error.required[:5])
    why = f"the required parts alone do not fit: {required}"
    if error_format == "anthropic":
        message = f"prompt is too long: {error.needed} tokens > {error.limit} maximum; {why}"
    else:
        message = (
            f"This model's maximum context length is {error.limit} tokens for the prompt. However, your messages "
            f"resulted in {error.needed} tokens: {why}. Please reduce the length of the messages."
        )
    return ApiError("overflow", message, param="messages")


def _overflow_error(error: ContextOverflow, error_format: ErrorFormat) -> ApiError:
    """Return the upstream's own error."""
    status = error.status if error.status in _ERROR_STATUSES else None
    body = _original_body(error.body, error_format)
    return ApiError("overflow", error.reason, status=status, param="messages", body=body)


def _upstream_error(error: ProviderError, error_format: ErrorFormat) -> ApiError:
    wait = error.retry_after if isinstance(error, ProviderUnavailable) else None
    if error.status is None or error.status not in _ERROR_STATUSES:  # a redirect means that the upstream's URL is wrong
        return ApiError("upstream", str(error), retry_after=wait)
    kind: ErrorKind = (
        "upstream" if error.status >= STATUS_CODES["internal"] else _CLIENT_ERRORS.get(error.status, "invalid")
    )
    return ApiError(
        kind, error.reason, status=error.status, retry_after=wait, body=_original_body(error.body, error_format)
    )


def _original_body(body: bytes, error_format: ErrorFormat) -> bytes | None:
    """Return an upstream's error body if it is in the right format, and not for example an HTML page."""
    try:
        data = decode_json(body)
    except ValueError:
        return None
    if not isinstance(data, dict) or not isinstance(data.get("error"), dict):
        return None
    return body if error_format == "openai" or data.get("type") == "error" else None
