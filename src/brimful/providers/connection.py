"""HTTP connection to a model server: limits, retries, and errors mapped to ours.

Request and response bodies pass through as bytes, so fields unknown to Brimful survive.

A request is retried only if the server cannot have started working on it, since every attempt may cost money:

- no connection could be made;
- the server rejected the request (429, 502, 503, 529);
- an idle connection turned out to be closed before the first byte of the response. If a new connection breaks, the
  request may have arrived.

A 504 means that a gateway gave up while the server may still be working, so it is not retried. Neither is a 500, nor
a request that hit one of our timeouts. Nothing is retried after the first byte, nor if the body is an upload that was
read as it was sent.
"""

import asyncio
import logging
import math
import random
import re
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from brimful.core.validation import preview
from brimful.errors import InvalidValue, MissingExtra, ProviderError, ProviderTimeout, ProviderUnavailable
from brimful.providers.address import add_query, get_route, parse_address, remove_version
from brimful.wires.errors import ErrorSource, find_secrets, make_provider_error, shorten
from brimful.wires.event_stream import EventDecoder, EventSize, JsonLinesDecoder, ServerEventDecoder

if TYPE_CHECKING:
    import httpx2
RETRY_STATUSES: Final = frozenset({429, 502, 503, 529})
"""Statuses after which a request may be sent again."""
INITIAL_BACKOFF: Final = 0.5  # seconds before the second attempt, doubled each time
MAX_BACKOFF: Final = 8.0  # seconds
MAX_JITTER: Final = 0.5  # seconds, so that clients that failed together do not retry together
_DEFAULT_HEADERS: Final = {
    "user-agent": "brimful",
    "accept-encoding": "identity",
}  # uncompressed, so that streams can be read as they arrive
_KEY_VALUE: Final = re.compile(r"[ -~]*")
_HEADER_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")
"""Of a header that somebody else wrote: any bytes but control characters, as Latin-1."""
EVENT_STREAM: Final = "text/event-stream"
JSON_LINES: Final = ("application/x-ndjson", "application/jsonl")
HOP_BY_HOP_HEADERS: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers about one connection, which are never forwarded (RFC 9110, section 7.6.1)."""
_DROPPED_HEADERS: Final = HOP_BY_HOP_HEADERS | {
    "alt-svc",
    "clear-site-data",
    "content-encoding",
    "content-length",
    "set-cookie",
    "strict-transport-security",
}
"""Headers about the transfer to us, or about the server's own host, which are not forwarded."""
_DROPPED_PREFIXES: Final = ("access-control-", "x-brimful-")  # which pages may read an answer is up to this server


class Libraries(NamedTuple):
    """httpx2 sends requests, stamina retries them."""

    httpx2: ModuleType
    stamina: ModuleType


@cache
def load_libraries() -> Libraries:
    """Import both; raise `MissingExtra` if they are not installed."""
    try:
        import httpx2  # noqa: PLC0415 - an extra
        import stamina  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("remote", "a provider behind HTTP") from error
    # stamina logs retries. Without a handler, Python would print them to stderr.
    logging.getLogger("stamina").addHandler(logging.NullHandler())
    return Libraries(httpx2, stamina)


_INTEGER_LIMITS: Final = (
    ("max_connections", 1),
    ("max_idle", 0),
    ("max_attempts", 1),
    ("max_response_bytes", 1),
    ("max_stream_bytes", 1),
)
"""Their smallest values."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts in seconds and other limits of a connection.

    `connect`: to reach the server. `write`: to send a chunk of the request. `read`: between two chunks of the answer.
    `pool`: for a free connection out of `max_connections`, of which `max_idle` stay open while unused.
    A request is sent at most `max_attempts` times. If a server asks to wait longer than `max_wait`, it is not retried.
    `max_response_bytes`: of an answer that is read whole, and of one event of a stream. `max_stream_bytes`: of an
    answer that is read as it arrives. Both count uncompressed bytes.
    """

    connect: float = 10.0
    write: float = 60.0
    read: float = 600.0  # a model may think for minutes before its first token
    pool: float = 30.0
    max_connections: int = 1_000
    max_idle: int = 100
    max_attempts: int = 3
    max_wait: float = 30.0
    max_response_bytes: int = 67_108_864
    max_stream_bytes: int = 1_000_000_000

    def __post_init__(self) -> None:
        for field in ("connect", "write", "read", "pool", "max_wait"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise InvalidValue(f"limits.{field}", f"must be a positive number of seconds, not {preview(value)}")
        for field, low in _INTEGER_LIMITS:
            value = getattr(self, field)
            if type(value) is not int or value < low:
                raise InvalidValue(f"limits.{field}", f"must be an integer of at least {low}, not {preview(value)}")


class Retriable(Exception):
    """An attempt failed, and the request may safely be sent again. Internal: callers see `error`."""

    def __init__(self, error: ProviderError) -> None:
        """Take the message of the error, since stamina logs it."""
        super().__init__(str(error))
        self.error = error


def get_retry_delay(failure: Exception, *, max_wait: float) -> bool | float:
    """Return whether to retry: False, True for exponential backoff, or the seconds that the server asked for.

    If it asks for more than `max_wait`, the request is not retried, since retrying earlier would fail.
    """
    if not isinstance(failure, Retriable):
        return False
    error = failure.error
    seconds = error.retry_after if isinstance(error, ProviderUnavailable) else None
    if seconds is None:
        return True
    return seconds + random.uniform(0, MAX_JITTER) if seconds <= max_wait else False  # noqa: S311 - not for security


def parse_retry_after(headers: Mapping[str, str], *, now: float) -> float | None:
    """Return the seconds to wait according to `Retry-After` (seconds or a date) or `Retry-After-Ms`.

    >>> parse_retry_after({"retry-after": "7"}, now=0.0), parse_retry_after({"retry-after-ms": "250"}, now=0.0)
    (7.0, 0.25)
    >>> parse_retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, now=15.0), parse_retry_after({}, now=0.0)
    (45.0, None)
    """
    milliseconds = _parse_seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1_000
    value = headers.get("retry-after", "")
    seconds = _parse_seconds(value)
    return seconds if seconds is not None else _seconds_until(value, now)


def _parse_seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _seconds_until(date: str, now: float) -> float | None:
    try:
        named = parsedate_to_datetime(date)
        return max(0.0, (named if named.tzinfo else named.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, OverflowError):
        return None


class AttemptTrace:
    """Traces one attempt: `fresh` is True if it opened a new connection instead of reusing an idle one."""

    def __init__(self, on_sent: Callable[[], None]) -> None:
        """Call `on_sent` once the whole request is sent."""
        self.fresh = False
        self._on_sent = on_sent

    async def trace(self, event: str, info: dict[str, Any]) -> None:
        """Handle an event of httpx2."""
        del info
        if event.startswith("connection.connect"):
            self.fresh = True
        elif event.endswith("send_request_body.complete"):
            self._on_sent()


def make_request_error(
    route: str, error: "httpx2.HTTPError | httpx2.InvalidURL", limits: Limits, *, fresh: bool
) -> Exception:
    """Return the error for a request without an answer, as `Retriable` if it may safely be sent again."""
    httpx2 = load_libraries().httpx2
    again, kind = False, ProviderUnavailable
    match error:
        case httpx2.ConnectTimeout():
            reason, again, kind = f"no connection within {limits.connect:g} seconds", True, ProviderTimeout
        case httpx2.ConnectError():
            reason, again = f"cannot be reached: {_describe_cause(error)}", True
        case httpx2.PoolTimeout():
            reason = f"all {limits.max_connections:,} connections have been in use for {limits.pool:g} seconds"
        case httpx2.WriteTimeout():
            reason, kind = f"did not accept the request within {limits.write:g} seconds", ProviderTimeout
        case httpx2.TimeoutException():
            reason, kind = f"no answer within {limits.read:g} seconds", ProviderTimeout
        case httpx2.NetworkError() | httpx2.RemoteProtocolError():
            reason, again = f"the connection broke before an answer came: {_describe_cause(error)}", not fresh
        case _:
            return ProviderError(route, f"the request failed: {type(error).__name__}")
    unavailable = kind(route, reason)
    unavailable.may_be_billed = not isinstance(error, httpx2.ConnectTimeout | httpx2.ConnectError | httpx2.PoolTimeout)
    return Retriable(unavailable) if again else unavailable


def make_stream_error(route: str, error: "httpx2.HTTPError", limits: Limits) -> ProviderError:
    """Return the error for an answer that broke off."""
    httpx2 = load_libraries().httpx2
    match error:
        case httpx2.TimeoutException():
            broken: ProviderError = ProviderTimeout(route, f"the answer broke off: no data for {limits.read:g} seconds")
        case httpx2.DecodingError():
            broken = ProviderError(route, f"the answer cannot be decoded: {_describe_cause(error)}")
        case _:
            broken = ProviderUnavailable(route, f"the answer broke off: {_describe_cause(error)}")
    broken.may_be_billed = True
    return broken


def _describe_cause(error: Exception) -> str:
    return shorten(str(error)) or type(error).__name__


def ignore_sent() -> None:
    """Do nothing."""


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A complete response. The names of `headers` are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpStream:
    """A response that has begun: its `status` and `headers`, and its body as it arrives. It can be read once.

    `length` is the size of the body in bytes, if the server declared it. `read` rejects more than `max_bytes`.
    """

    def __init__(
        self,
        status: int,
        headers: dict[str, str],
        chunks: AsyncIterator[bytes],
        *,
        length: int | None = None,
        route: str = "",
        max_bytes: int = Limits().max_response_bytes,
    ) -> None:
        self.status = status
        self.headers = headers
        self.chunks = chunks
        self.length = length
        self._route = route
        self._max_bytes = max_bytes

    @property
    def is_event_stream(self) -> bool:
        """Whether the body consists of events: server-sent ones, or one JSON value per line."""
        return self.headers.get("content-type", "").lower().startswith((EVENT_STREAM, *JSON_LINES))

    def make_decoder(self) -> EventDecoder:
        """Return a decoder for the events of the body."""
        is_lines = self.headers.get("content-type", "").lower().startswith(JSON_LINES)
        return JsonLinesDecoder() if is_lines else ServerEventDecoder()

    async def read(self) -> bytes:
        """Return the rest of the body."""
        if self.length is not None and self.length > self._max_bytes:
            raise _too_large(self._route, "the answer", self._max_bytes, "max_response_bytes")
        chunks, size = [], 0
        async for chunk in self.chunks:
            size += len(chunk)
            if size > self._max_bytes:
                raise _too_large(self._route, "the answer", self._max_bytes, "max_response_bytes")
            chunks.append(chunk)
        return b"".join(chunks)


def _too_large(route: str, what: str, limit: int, name: str) -> ProviderError:
    return ProviderError(route, f"{what} is larger than {limit:,} bytes (limits.{name})")


Body = bytes | AsyncIterable[bytes] | None
"""The body of a request: whole, or an upload that is read as it is sent."""


class _HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    url: str
    body: Body
    headers: dict[str, str]
    on_sent: Callable[[], None]


class Connection:
    """A connection to one server. It belongs to the event loop in which it is first used.

    - `url`: the base URL. Credentials in it are sent as a header, and its query is added to every request.
    - `headers`: sent with every request. No error, record or log shows the API key in them.
    - `route`: the name of the server in errors and records.
    - `key_name`: the environment variable of the API key, for error messages.
    - `clock`: the current time, for dates in `Retry-After`.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        route: str = "",
        limits: Limits | None = None,
        key_name: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare a connection; nothing is sent yet."""
        address = parse_address(url)
        self.url: Final = address.url
        self._query = address.query
        self.route: Final = route or get_route(url)
        self.limits: Final = limits or Limits()
        self.headers: Final = _DEFAULT_HEADERS | address.auth | _check_headers(headers, _KEY_VALUE)
        self._key_name = key_name
        self._clock = clock
        self._client: httpx2.AsyncClient | None = None
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        """Show only the route."""
        return f"Connection({self.route!r})"

    async def get(self, path: str, *, headers: Mapping[str, str] | None = None, versioned: bool = True) -> HttpResponse:
        """Send a GET request. If not `versioned`, the path replaces the API version at the end of the URL."""
        return await self._send_and_read(self._make_request("GET", path, None, headers, versioned=versioned))

    async def post(
        self, path: str, body: bytes, *, headers: Mapping[str, str] | None = None, versioned: bool = True
    ) -> HttpResponse:
        """Send JSON, and return the response."""
        return await self._send_and_read(self._make_request("POST", path, body, headers, versioned=versioned))

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        body: Body,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        on_sent: Callable[[], None] = ignore_sent,
    ) -> AsyncGenerator[HttpStream, None]:
        """Send a request, and yield the response as it arrives. Leaving the block frees the connection.

        A body of bytes is JSON unless the headers say otherwise.
        `on_sent` is called when the request has been sent, at least once, at the latest when the response begins.
        """
        async with self._send(self._make_request(method, path, body, headers, on_sent)) as answer:
            yield answer

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def _make_request(
        self,
        method: str,
        path: str,
        body: Body,
        headers: Mapping[str, str] | None,
        on_sent: Callable[[], None] = ignore_sent,
        *,
        versioned: bool = True,
    ) -> _HttpRequest:
        typed = {"content-type": "application/json"} if body and isinstance(body, bytes) else {}
        all_headers = self.headers | typed | _check_headers(headers, _HEADER_VALUE)
        url = (self.url if versioned else remove_version(self.url)) + add_query(path, self._query)
        return _HttpRequest(method=method, url=url, body=body, headers=all_headers, on_sent=on_sent)

    async def _send_and_read(self, request: _HttpRequest) -> HttpResponse:
        async with self._send(request) as answer:
            return HttpResponse(status=answer.status, headers=answer.headers, body=await answer.read())

    @asynccontextmanager
    async def _send(self, request: _HttpRequest) -> AsyncGenerator[HttpStream, None]:
        client = await self._get_client()
        response = await self._send_with_retries(client, request)
        async with aclosing(response), aclosing(self._read_chunks(response)) as chunks:
            yield HttpStream(
                response.status_code,
                _get_forwarded_headers(response.headers),
                chunks,
                length=_get_length(response.headers),
                route=self.route,
                max_bytes=self.limits.max_response_bytes,
            )

    async def _send_with_retries(self, client: "httpx2.AsyncClient", request: _HttpRequest) -> "httpx2.Response":
        attempts = load_libraries().stamina.retry_context(
            on=lambda failure: get_retry_delay(failure, max_wait=self.limits.max_wait),
            attempts=self.limits.max_attempts if isinstance(request.body, bytes | None) else 1,
            timeout=None,  # only attempts are limited: an answer may take minutes
            wait_initial=INITIAL_BACKOFF,
            wait_max=MAX_BACKOFF,
            wait_jitter=MAX_JITTER,
        )
        try:
            async for attempt in attempts:
                with attempt:
                    return await self._attempt(client, request)
        except Retriable as failure:
            raise failure.error from failure.__cause__
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, client: "httpx2.AsyncClient", request: _HttpRequest) -> "httpx2.Response":
        """Return a successful response that has begun; raise `Retriable` if the request may be sent again."""
        library = load_libraries().httpx2
        trace = AttemptTrace(request.on_sent)
        try:
            http_request = client.build_request(
                request.method,
                request.url,
                content=request.body,
                headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()],
                extensions={"trace": trace.trace},
            )
            response = await client.send(http_request, stream=True)
        except (library.HTTPError, library.InvalidURL) as error:
            raise make_request_error(self.route, error, self.limits, fresh=trace.fresh) from error
        request.on_sent()
        if response.is_success:
            return response
        raise await self._make_error(response, request.headers)

    async def _make_error(self, response: "httpx2.Response", headers: dict[str, str]) -> Exception:
        """Read an error response, which frees the connection."""
        forwarded = _get_forwarded_headers(response.headers)
        async with aclosing(response), aclosing(self._read_chunks(response)) as chunks:
            stream = HttpStream(
                response.status_code, forwarded, chunks, route=self.route, max_bytes=self.limits.max_response_bytes
            )
            try:
                body = await stream.read()
            except ProviderUnavailable:
                body = b""  # it broke off; the status is enough
        source = ErrorSource(route=self.route, key_name=self._key_name, secrets=find_secrets(headers))
        wait = parse_retry_after(response.headers, now=self._clock())
        error = make_provider_error(source, response.status_code, body, retry_after=wait)
        error.headers = forwarded
        return Retriable(error) if _is_retriable(error) else error

    async def _read_chunks(self, response: "httpx2.Response") -> AsyncGenerator[bytes, None]:
        """Yield the body within the limits, decompressed in pieces."""
        limits, size, event = self.limits, 0, _make_event_size(response.headers.get("content-type", ""))
        is_compressed = "content-encoding" in response.headers
        try:
            async for chunk in response.aiter_bytes():
                size += len(chunk)
                if size > limits.max_stream_bytes:
                    raise _too_large(self.route, "the answer", limits.max_stream_bytes, "max_stream_bytes")
                if event is not None and event.feed(chunk) > limits.max_response_bytes:
                    what = "an event of the stream"
                    raise _too_large(self.route, what, limits.max_response_bytes, "max_response_bytes")
                yield chunk
                if is_compressed:
                    await asyncio.sleep(0)  # a small piece of it may become a large one
        except load_libraries().httpx2.HTTPError as error:
            raise make_stream_error(self.route, error, self.limits) from error

    async def _get_client(self) -> "httpx2.AsyncClient":
        if self._client is None:
            async with self._opening:
                if self._client is None:  # in a thread: loading libraries and certificates is slow
                    self._client = await asyncio.to_thread(_make_client, self.limits)
        return self._client


def _is_retriable(error: ProviderError) -> bool:
    return isinstance(error, ProviderUnavailable) and error.status in RETRY_STATUSES


def _check_headers(headers: Mapping[str, str] | None, valid: re.Pattern[str]) -> dict[str, str]:
    """Return headers with lower-case names; refuse invalid values without showing them."""
    checked = {name.lower(): value.strip() for name, value in (headers or {}).items()}
    for name, value in checked.items():
        if not valid.fullmatch(value):
            raise InvalidValue(
                f"headers.{name}", "contains a character that is not allowed in a header (is it the right key?)"
            )
    return checked


def _get_forwarded_headers(headers: "httpx2.Headers") -> dict[str, str]:
    """Return headers to forward, decoded as Latin-1 so that all bytes survive."""
    headers.encoding = "latin-1"
    dropped = _DROPPED_HEADERS | set(split_tokens(headers.get("connection", "")))
    return {
        lower: value
        for name, value in headers.items()
        if (lower := name.lower()) not in dropped and not lower.startswith(_DROPPED_PREFIXES)
    }


def split_tokens(value: str) -> list[str]:
    """Split the value of a header that lists names.

    >>> split_tokens("Keep-Alive, x-hop"), split_tokens("")
    (['keep-alive', 'x-hop'], [])
    """
    return [token for part in value.split(",") if (token := part.strip().lower())]


@cache
def get_content_codings() -> tuple[str, ...]:
    """Return the content codings that can be decompressed: gzip, deflate, and with their libraries zstd and br."""
    library = load_libraries().httpx2
    with library.Client(transport=library.BaseTransport(), trust_env=False) as client:  # connects to nothing
        return tuple(split_tokens(client.headers["accept-encoding"]))


async def decompress(chunks: AsyncIterable[bytes], codings: str) -> AsyncGenerator[bytes, None]:
    """Yield decompressed bytes in pieces of at most 1 MiB; raise `ValueError` if they cannot be decompressed."""
    library = load_libraries().httpx2
    response = library.Response(200, headers={"content-encoding": codings}, content=chunks)
    try:
        async for piece in response.aiter_bytes():
            yield piece
            await asyncio.sleep(0)  # a small body may become a large one
    except library.DecodingError as error:
        raise ValueError(_describe_cause(error)) from None


def _get_length(headers: "httpx2.Headers") -> int | None:
    """Return the declared length of a body that is not compressed."""
    length = headers.get("content-length", "")
    return int(length) if length.isdecimal() and headers.get("content-encoding", "identity") == "identity" else None


def _make_event_size(content_type: str) -> EventSize | None:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == EVENT_STREAM:
        return EventSize()
    return EventSize((b"\n",)) if kind in JSON_LINES else None


def _make_client(limits: Limits) -> "httpx2.AsyncClient":
    library = load_libraries().httpx2
    timeout = library.Timeout(connect=limits.connect, read=limits.read, write=limits.write, pool=limits.pool)
    pool = library.Limits(max_connections=limits.max_connections, max_keepalive_connections=limits.max_idle)
    no_cookies = CookieJar(
        DefaultCookiePolicy(allowed_domains=())
    )  # tenants share the client, and must not share cookies
    client: httpx2.AsyncClient = library.AsyncClient(timeout=timeout, limits=pool, cookies=no_cookies)
    return client
