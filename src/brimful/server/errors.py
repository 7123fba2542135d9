"""Error responses: always JSON, in the format of the endpoint."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

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
from brimful.wires import Wire
from brimful.wires.registry import served_wires
from brimful.wires.wire import ErrorFacts, ErrorKind

STATUS_CODES: Final[dict[ErrorKind, int]] = {
    "invalid": 400,
    "overflow": 400,
    "invalid_key": 401,
    "spending_limit": 402,
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
    "spending_limit": "spending_limit_reached",
    "too_many_failed_keys": "too_many_failed_keys",
    "shutting_down": "shutting_down",
}


class ApiError(Exception):
    """A rejected request. `retry_after` is in seconds; `body` and `headers` come from the upstream's own error.

    `limit` names the limit that was reached, for metrics.
    """

    may_be_billed = False

    def __init__(  # noqa: PLR0913 - the fields of an error, by name
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
        limit: str = "",
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
        self.limit = limit


def error_body(error: ApiError, wire: Wire) -> bytes:
    """Return the JSON body of an error in the format of a provider.

    >>> from brimful.wires import find_wire
    >>> error_body(ApiError("rate_limited", "too many requests"), find_wire("anthropic"))
    b'{"type":"error","error":{"type":"rate_limit_error","message":"too many requests"}}'
    """
    if error.body is not None:
        return error.body
    facts = ErrorFacts(kind=error.kind, message=error.message, status=error.status, code=error.code, param=error.param)
    return msgspec.json.encode(wire.write_error(facts))


def to_api_error(error: BrimfulError, wire: Wire) -> ApiError:  # noqa: PLR0911 - by type
    """Convert an error to the response that a client gets."""
    match error:
        case BudgetExceeded():
            return _prompt_too_long(error, wire)
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
            return _upstream_error(error, wire)
        case StoreError():
            return ApiError("internal", "the store is not available", status=503, retry_after=5.0)
        case _:
            return ApiError("internal", "internal error")


def _prompt_too_long(error: BudgetExceeded, wire: Wire) -> ApiError:
    """Word the error the way clients expect it."""
    required = ", ".join(f"{id} ({tokens})" for id, tokens in error.required[:5])
    why = f"the required parts alone do not fit: {required}{f'; {error.hint}' if error.hint else ''}"
    message = wire.describe_overflow(error.needed, error.limit, why)
    return ApiError("overflow", message, param=wire.message_field)


def _upstream_error(error: ProviderError, wire: Wire) -> ApiError:
    """Return an upstream's error as it came: status, headers and body."""
    overflow = isinstance(error, ContextOverflow)
    if overflow and error.status is None:  # an event of a stream, before anything else was forwarded
        return ApiError("overflow", error.reason, param=wire.message_field, body=error.body)
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
    return path.startswith(tuple(f"/v1{paths.root}/" for _, paths in served_wires()))


def method_not_allowed(path: str, method: str, allowed: Iterable[str]) -> ApiError:
    """Return the error for a method that a path does not support."""
    methods = ", ".join(sorted(set(allowed)))
    message = f"{path[:200]} does not support {method}: use {methods}"
    return ApiError("not_found", message, status=405, code="method_not_allowed", headers={"allow": methods})
