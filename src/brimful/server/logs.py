"""The server's log: text for people, or JSON for programs, with the request that each line belongs to."""

import json
import logging
import sys
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final

import msgspec
from starlette.types import Scope

from brimful.engine.events import format_fields
from brimful.engine.writer import new_id
from brimful.errors import BrimfulError, BudgetExceeded, ContextOverflow, ProviderError
from brimful.server.config import TelemetryConfig
from brimful.server.errors import ApiError
from brimful.server.proxy.upstreams import describe_outage

ACCESS_LOG: Final = "brimful.access"
REQUEST_HEADER: Final = "x-brimful-request"
_CLIENT_HEADER: Final = b"x-request-id"
_MAX_ID_LENGTH: Final = 128  # characters of a client's id
_TRACE_DIGITS: Final = 32
_TRACE_PARTS: Final = 4  # of a `traceparent` header: version, trace, span, flags
_CONTEXT_FIELDS: Final = ("request_id", "trace_id", "tenant")
"""Of a request, on each of its lines."""
_VERBOSE: Final = ("brimful.build", "brimful.breaker", "brimful.cache")  # their INFO lines are written if asked for
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

_log = logging.getLogger("brimful.server")
_request: Final[ContextVar[Mapping[str, Any]]] = ContextVar("brimful_request", default={})  # noqa: B039 - never changed


def begin_request(scope: Scope) -> dict[str, Any]:
    """Return the fields of a request for the log, with its id, which may be the client's."""
    sent = next((value for name, value in scope["headers"] if name == _CLIENT_HEADER), b"").decode("latin-1")
    is_valid = sent.isascii() and sent.isprintable() and " " not in sent and 0 < len(sent) <= _MAX_ID_LENGTH
    fields: dict[str, Any] = {"request_id": sent if is_valid else new_id("req")}
    scope["brimful"] = fields
    _request.set(fields)
    return fields


def read_trace_id(traceparent: str) -> str:
    """Return the id of the trace in a W3C header, or an empty string.

    >>> read_trace_id("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    '0af7651916cd43dd8448eb211c80319c'
    >>> read_trace_id("none")
    ''
    """
    parts = traceparent.strip().lower().split("-")
    trace = parts[1] if len(parts) >= _TRACE_PARTS else ""
    return trace if len(trace) == _TRACE_DIGITS and set(trace) <= set("0123456789abcdef") and int(trace, 16) else ""


def log_request(scope: Scope, status: int, *, started: float, now: float) -> None:
    """Write the line of a request to the access log. The query is left out, because some clients put keys in it."""
    fields = {"at": started, "method": scope["method"], "path": scope["path"], "status": status}
    fields |= {"seconds": round(max(0.0, now - started), 4)} | scope.get("brimful", {})
    logging.getLogger(ACCESS_LOG).info("%s %s %d", scope["method"], scope["path"], status, extra=fields)


def log_overflow(error: BudgetExceeded | ContextOverflow, request: Mapping[str, Any]) -> None:
    """Write a warning about a prompt that is too long, without the words of the error, which may quote content."""
    fields = {name: request[name] for name in ("model", "upstream") if name in request}
    if isinstance(error, BudgetExceeded):
        fields |= {"tokens": error.needed, "limit": error.limit, "rejected_by": "brimful"}
    else:
        fields |= {"tokens": error.prompt, "limit": error.window, "rejected_by": "upstream"}
    _log.warning(format_fields("context_length_exceeded", fields), extra=fields)


def note_cut(request: dict[str, Any], error: ApiError | BrimfulError) -> None:
    """Note for the log who ended an answer before it was complete, and why."""
    is_upstreams = isinstance(error, ProviderError) or (isinstance(error, ApiError) and error.kind == "upstream")
    request["cut_by"] = "upstream" if is_upstreams else "server"
    if isinstance(error, ProviderError) and (error.status is not None or error.body):
        request["error"] = describe_outage(error)  # its own words may quote content
    else:
        request["error"] = str(error) if isinstance(error, ApiError | ProviderError) else type(error).__name__
    if isinstance(error, BudgetExceeded | ContextOverflow):
        log_overflow(error, request)


def get_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return what was logged as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


class TextFormatter(logging.Formatter):
    """Indents further lines of a record and removes control characters: a message may quote what a stranger wrote."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        text = super().format(record)
        if text.isprintable():
            return text
        first, *rest = text.splitlines() or [""]
        lines = (first, *(f"    {line}" for line in rest))
        return "\n".join("".join(mark for mark in line if mark.isprintable()) for line in lines)


def format_record_time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class AccessFormatter(logging.Formatter):
    """Writes the fields of a request as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a request."""
        return msgspec.json.encode({"time": format_record_time(record)} | get_fields(record)).decode()


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the time, the level, the message, the request that it belongs to, its fields, and any traceback."""
        line: dict[str, Any] = {"time": format_record_time(record), "level": record.levelname, "logger": record.name}
        line["message"] = record.getMessage()
        request = _request.get()
        line |= {name: request.get(name) for name in _CONTEXT_FIELDS} | get_fields(record)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure_logging(config: TelemetryConfig) -> None:
    """Write requests and warnings, and if requested also builds: all as JSON to standard output, or as text.

    As text, requests go to standard output, as JSON, and all else to standard error.
    """
    if config.log_format == "json":
        _configure_json()
    else:
        _configure_text()
    for name in (ACCESS_LOG, _log.name):  # requests, and when the server listened or reloaded its configuration
        logging.getLogger(name).setLevel(logging.INFO)
    if config.logs:
        for name in _VERBOSE:
            logging.getLogger(name).setLevel(logging.INFO)


def _configure_text() -> None:
    warnings = TextFormatter("%(levelname)s %(message)s")
    handlers: list[tuple[str, logging.Handler, logging.Formatter]] = [
        (ACCESS_LOG, logging.StreamHandler(sys.stdout), AccessFormatter()),
        ("brimful", logging.StreamHandler(sys.stderr), warnings),
        ("uvicorn.error", logging.StreamHandler(sys.stderr), warnings),
    ]
    for name, handler, formatter in handlers:
        logger = logging.getLogger(name)
        handler.setFormatter(formatter)
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.WARNING)


def _configure_json() -> None:
    """Write the lines of all loggers, Python's warnings, and exceptions that nobody catches."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda args: _log_uncaught(args.exc_type, args.exc_value, args.exc_traceback)


def _log_uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    _log.critical("uncaught exception", exc_info=(kind, error or kind(), trace))
