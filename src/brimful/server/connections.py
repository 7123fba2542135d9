"""Limits on connections: their number, the size of headers, and how long a slow client may take."""

import asyncio
import re
from http import HTTPStatus
from typing import Any, ClassVar, Final

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from brimful.server.config import Config, ServerLimits
from brimful.server.errors import ApiError, error_body
from brimful.wires.registry import default_wire

_OTHER_FILES: Final = 64  # open files of a process besides connections: the store, the log
_END_OF_HEADERS: Final = re.compile(rb"\n\r?\n")


class LimitedProtocol(H11Protocol):
    """Serves one connection.

    A client has `header_timeout` seconds to send the headers of a request, and `write_timeout` seconds to accept more
    of an answer that it does not read. When there are too many connections, the one that has waited longest for a
    request is closed, so that idle connections keep nobody out.
    """

    limits: ClassVar[ServerLimits]
    waiting: ClassVar[dict["LimitedProtocol", None]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the time limit for the first headers."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.max_connections:
            self._make_room()
        if not transport.is_closing():
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End all time limits."""
        super().connection_lost(exc)
        self.waiting.pop(self, None)
        self._cancel_deadline()
        self._cancel_write_deadline()

    def data_received(self, data: bytes) -> None:
        """Read more of a request. h11 limits headers that arrive in pieces, but not those that arrive at once."""
        if self.conn.their_state is h11.IDLE and not self._is_answering():
            head, limit = self.conn.trailing_data[0] + data, self.limits.max_header_bytes
            if len(head) > limit and not _END_OF_HEADERS.search(head, 0, limit):
                self.send_400_response("")
                return
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if not self._is_answering() and not self.transport.is_closing():
            self.waiting[self] = None

    def pause_writing(self) -> None:
        """Start the time limit for a client that does not read its answer."""
        super().pause_writing()
        self._write_deadline = self.loop.call_later(self.limits.write_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """End that time limit."""
        super().resume_writing()
        self._cancel_write_deadline()

    def send_400_response(self, msg: str) -> None:
        """Answer requests that are not HTTP, or have too large headers."""
        del msg
        limit = self.limits.max_header_bytes
        reason = f"the request is not valid HTTP, or its headers are larger than {limit:,} bytes"
        self._refuse(HTTPStatus.BAD_REQUEST, ApiError("invalid", reason))

    def _watch(self) -> None:
        """Start the time limit when the client begins to send headers, and end it when they are complete."""
        if self._is_answering():
            self.waiting.pop(self, None)
            self._cancel_deadline()
        elif self._deadline is None:
            self.waiting[self] = None
            self._deadline = self.loop.call_later(self.limits.header_timeout, self.transport.close)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _make_room(self) -> None:
        oldest = next(iter(self.waiting), None)
        if oldest is None:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, ApiError("shutting_down", "too many connections"))
        else:
            del self.waiting[oldest]
            oldest.transport.close()

    def _refuse(self, status: HTTPStatus, error: ApiError) -> None:
        body = error_body(error, default_wire())
        head = f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cancel_write_deadline(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None


def _affordable(connections: int) -> int:
    """Return how many connections the process may have, after raising its limit of open files if possible.

    An answer needs a second connection, to the upstream.
    """
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return connections
    wanted = 2 * connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(connections, (soft - _OTHER_FILES) // 2))


def connection_settings(config: Config) -> dict[str, Any]:
    """Return the settings of uvicorn that limit connections and say whose forwarded addresses are believed."""
    limits = msgspec.structs.replace(config.limits, max_connections=_affordable(config.limits.max_connections))
    return {
        "http": type("Protocol", (LimitedProtocol,), {"limits": limits, "waiting": {}}),
        "h11_max_incomplete_event_size": limits.max_header_bytes,
        "timeout_keep_alive": limits.keep_alive,
        "proxy_headers": bool(config.trusted_proxies),
        "forwarded_allow_ips": list(config.trusted_proxies),
    }
