"""What is said when a request cannot be served: always JSON, in the dialect of the endpoint that was asked."""

from typing import Any, Final, Literal, assert_never

import msgspec

from brimful.core.decode import decode_json
from brimful.errors import (
    BrimfulError,
    BudgetExceeded,
    ContextOverflow,
    InvalidRequest,
    InvalidValue,
    ProviderError,
    ProviderUnavailable,
    StoreError,
    UnknownRecord,
)

ErrorKind = Literal[
    "invalid", "overflow", "key", "forbidden", "unknown", "large", "busy", "upstream", "stopping", "internal"
]
ErrorFormat = Literal["openai", "anthropic"]
"""In whose form errors are told."""

STATUS_CODES: Final[dict[ErrorKind, int]] = {
    "invalid": 400,
    "overflow": 400,
    "key": 401,
    "forbidden": 403,
    "unknown": 404,
    "large": 413,
    "busy": 429,
    "upstream": 502,
    "stopping": 503,
    "internal": 500,
}
_OPENAI_TYPES: Final[dict[ErrorKind, str]] = {
    "invalid": "invalid_request_error",
    "overflow": "invalid_request_error",
    "key": "invalid_request_error",
    "forbidden": "permission_error",
    "unknown": "invalid_request_error",
    "large": "invalid_request_error",
    "busy": "rate_limit_error",
    "upstream": "server_error",
    "stopping": "server_error",
    "internal": "server_error",
}
_ANTHROPIC_TYPES: Final[dict[ErrorKind, str]] = {
    "invalid": "invalid_request_error",
    "overflow": "invalid_request_error",
    "key": "authentication_error",
    "forbidden": "permission_error",
    "unknown": "not_found_error",
    "large": "request_too_large",
    "busy": "rate_limit_error",
    "upstream": "api_error",
    "stopping": "overloaded_error",
    "internal": "api_error",
}
_CLIENT_ERRORS: Final[dict[int, ErrorKind]] = {401: "key", 403: "forbidden", 404: "unknown", 413: "large", 429: "busy"}
"""What an upstream's refusal of a caller's request is called."""
_ERROR_STATUSES: Final = range(400, 600)
"""What HTTP knows as an error. Anything else in its place is nothing that a caller could be told as it is."""
_CODES: Final[dict[ErrorKind, str]] = {
    "overflow": "context_length_exceeded",
    "key": "invalid_api_key",
    "large": "request_too_large",
    "busy": "rate_limit_exceeded",
    "stopping": "stopping",
}


class ApiError(Exception):
    """A request that is not served. `retry_after` is in seconds. `body` is an upstream's own words, as they came."""

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
        """Say what is amiss, and what to do about it."""
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status or STATUS_CODES[kind]
        self.code = code or _CODES.get(kind)
        self.param = param
        self.retry_after = retry_after
        self.body = body


def error_body(refusal: ApiError, tongue: ErrorFormat) -> bytes:
    """Return the body that says it.

    >>> error_body(ApiError("busy", "too many requests"), "anthropic")
    b'{"type":"error","error":{"type":"rate_limit_error","message":"too many requests"}}'
    """
    if refusal.body is not None:
        return refusal.body
    said: dict[str, Any]
    match tongue:
        case "openai":
            kind = _OPENAI_TYPES[refusal.kind]
            said = {
                "error": {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.code},
            }
        case "anthropic":
            said = {"type": "error", "error": {"type": _ANTHROPIC_TYPES[refusal.kind], "message": refusal.message}}
        case _:
            assert_never(tongue)
    return msgspec.json.encode(said)


def to_api_error(error: BrimfulError, tongue: ErrorFormat) -> ApiError:  # noqa: PLR0911 - one for each sort of error
    """Return what a caller is told of an error of ours."""
    match error:
        case BudgetExceeded():
            return _prompt_too_long(error, tongue)
        case ContextOverflow():
            return ApiError("overflow", error.reason, param="messages")
        case InvalidRequest():
            return ApiError("invalid", "; ".join(error.violations))
        case InvalidValue():
            return ApiError("invalid", str(error), param=error.field)
        case UnknownRecord():
            return ApiError("unknown", str(error), code=f"{error.kind}_not_found", param="id")
        case ProviderError():
            return _upstream_error(error, tongue)
        case StoreError():
            return ApiError("internal", "the server's store cannot be used at this time", status=503, retry_after=5.0)
        case _:
            return ApiError("internal", "the request could not be served")


def _prompt_too_long(error: BudgetExceeded, tongue: ErrorFormat) -> ApiError:
    """Say it in the words that clients look for."""
    required = ", ".join(f"{id} ({tokens})" for id, tokens in error.required[:5])
    why = f"what cannot be left out does not fit: {required}"
    if tongue == "anthropic":
        message = f"prompt is too long: {error.needed} tokens > {error.limit} maximum; {why}"
    else:
        message = (
            f"This model's maximum context length is {error.limit} tokens for the prompt. However, your messages "
            f"resulted in {error.needed} tokens: {why}. Please reduce the length of the messages."
        )
    return ApiError("overflow", message, param="messages")


def _upstream_error(error: ProviderError, tongue: ErrorFormat) -> ApiError:
    wait = error.retry_after if isinstance(error, ProviderUnavailable) else None
    if (
        error.status is None or error.status not in _ERROR_STATUSES
    ):  # a redirection is an error of the upstream's address
        return ApiError("upstream", str(error), retry_after=wait)
    kind: ErrorKind = (
        "upstream" if error.status >= STATUS_CODES["internal"] else _CLIENT_ERRORS.get(error.status, "invalid")
    )
    return ApiError(kind, error.reason, status=error.status, retry_after=wait, body=_original_body(error.body, tongue))


def _original_body(body: bytes, tongue: ErrorFormat) -> bytes | None:
    """Return an upstream's own words if they are in the dialect that was asked; a page for people is not handed on."""
    try:
        said = decode_json(body)
    except ValueError:
        return None
    if not isinstance(said, dict) or not isinstance(said.get("error"), dict):
        return None
    return body if tongue == "openai" or said.get("type") == "error" else None
