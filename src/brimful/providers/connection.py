"""HTTP connection to a model server: limits, retries, and errors mapped to ours.

Request and response bodies pass through as bytes, so fields unknown to Brimful survive.

A request is retried only if the server cannot have started working on it, since every attempt may cost money:

- no connection could be made;
- the server rejected the request (429, 502, 503, 529);
- an idle connection turned out to be closed before the first byte of the response. If a new connection breaks, the
  request may have arrived.

A 504 means that a gateway gave up while the server may still be working, so it is not retried. Neither is a 500, nor
a request that hit one of our timeouts. Nothing is retried after the first byte.
"""

import asyncio
import logging
import math
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from brimful.core.validation import preview
from brimful.errors import InvalidValue, MissingExtra, ProviderError, ProviderUnavailable
from brimful.providers.address import get_route, parse_address
from brimful.providers.errors import ErrorSource, find_secrets, make_provider_error, shorten

if TYPE_CHECKING:
    import httpx2


class Libraries(NamedTuple):
    """httpx2 talks, stamina tries again."""

    httpx2: ModuleType
    stamina: ModuleType


@cache
def load_libraries() -> Libraries:
    """Return both, or say how to get them."""
    try:
        import httpx2  # noqa: PLC0415 - an extra
        import stamina  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("remote", "a provider behind HTTP") from error
    # A retry is logged for whoever listens. Where nobody does, Python would print it among a program's own words.
    logging.getLogger("stamina").addHandler(logging.NullHandler())
    return Libraries(httpx2, stamina)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a connection. Times are in seconds.

    `connect` is for reaching the server, `write` for handing it a piece of the request, `read` for the silence between
    two pieces of its answer, `pool` for a free one of at most `connections`, of which `idle` stay open unused.
    A request is sent at most `attempts` times; a server that asks to wait longer than `longest_wait` is not waited for.
    """

    connect: float = 10.0
    write: float = 60.0
    read: float = 600.0  # a model may think for minutes before it says the first word
    pool: float = 30.0
    connections: int = 1_000
    idle: int = 100
    attempts: int = 3
    longest_wait: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what is no limit."""
        for field in ("connect", "write", "read", "pool", "longest_wait"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise InvalidValue(f"limits.{field}", f"must be a number of seconds above 0, not {preview(value)}")
        for field, least in (("connections", 1), ("idle", 0), ("attempts", 1)):
            value = getattr(self, field)
            if type(value) is not int or value < least:
                raise InvalidValue(f"limits.{field}", f"must be a whole number from {least} on, not {preview(value)}")


RETRY_STATUSES: Final = frozenset({429, 502, 503, 529})
"""Statuses after which the same request may be sent again."""

INITIAL_BACKOFF: Final = 0.5  # seconds before the second attempt, then twice as long each time
MAX_BACKOFF: Final = 8.0  # seconds
MAX_JITTER: Final = 0.5  # seconds at most, so that many who failed together do not come back together


class Retriable(Exception):
    """An attempt failed, and the request may safely be sent again. It stays within this room: callers see `error`."""

    def __init__(self, error: ProviderError) -> None:
        """Speak as the error does: whoever watches attempts reads it."""
        super().__init__(str(error))
        self.error = error


def get_retry_delay(failure: Exception, *, longest: float) -> bool | float:
    """Say whether to try again: not at all, after a growing wait (True), or after the seconds that the server named.

    A server that names more than `longest` is not tried again: to come back sooner would be rude, and in vain.
    """
    if not isinstance(failure, Retriable):
        return False
    error = failure.error
    told = error.retry_after if isinstance(error, ProviderUnavailable) else None
    if told is None:
        return True
    return told + random.uniform(0, MAX_JITTER) if told <= longest else False  # noqa: S311 - spreads callers out


def parse_retry_after(headers: Mapping[str, str], *, now: float) -> float | None:
    """Return the seconds that a server asks to wait, by `Retry-After` (seconds or a date) or `Retry-After-Ms`.

    >>> parse_retry_after({"retry-after": "7"}, now=0.0), parse_retry_after({"retry-after-ms": "250"}, now=0.0)
    (7.0, 0.25)
    >>> parse_retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, now=15.0), parse_retry_after({}, now=0.0)
    (45.0, None)
    """
    milliseconds = _parse_seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1_000
    named = headers.get("retry-after", "")
    seconds = _parse_seconds(named)
    return seconds if seconds is not None else _seconds_until(named, now)


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
    """Watches one attempt: `fresh` says that it made a connection of its own, rather than to take one that was idle."""

    def __init__(self, sent: Callable[[], None]) -> None:
        """Assume that there is one to be had; `sent` is told that the whole request is on its way."""
        self.fresh = False
        self._sent = sent

    async def trace(self, event: str, info: dict[str, Any]) -> None:
        """Note what httpx2 does."""
        del info
        if event.startswith("connection.connect"):
            self.fresh = True
        elif event.endswith("send_request_body.complete"):
            self._sent()


def make_request_error(
    route: str, error: "httpx2.HTTPError | httpx2.InvalidURL", limits: Limits, *, fresh: bool
) -> Exception:
    """Return the error for a request that got no answer, as a `Retriable` where it may safely be sent again."""
    httpx2 = load_libraries().httpx2
    again = False
    match error:
        case httpx2.ConnectTimeout():
            reason, again = f"no connection within {limits.connect:g} seconds", True
        case httpx2.ConnectError():
            reason, again = f"cannot be reached: {_describe_cause(error)}", True
        case httpx2.PoolTimeout():
            reason = f"all {limits.connections:,} connections have been in use for {limits.pool:g} seconds"
        case httpx2.WriteTimeout():
            reason = f"did not take the request within {limits.write:g} seconds"
        case httpx2.TimeoutException():
            reason = f"no answer within {limits.read:g} seconds"
        case httpx2.NetworkError() | httpx2.RemoteProtocolError():
            reason, again = f"the connection broke before an answer came: {_describe_cause(error)}", not fresh
        case _:
            return ProviderError(route, f"cannot be asked: {type(error).__name__}")
    unavailable = ProviderUnavailable(route, reason)
    return Retriable(unavailable) if again else unavailable


def make_stream_error(route: str, error: "httpx2.HTTPError", limits: Limits) -> ProviderError:
    """Return the error for an answer that began and did not end."""
    httpx2 = load_libraries().httpx2
    match error:
        case httpx2.TimeoutException():
            return ProviderUnavailable(route, f"the answer broke off: nothing more came for {limits.read:g} seconds")
        case httpx2.DecodingError():
            return ProviderError(route, f"the answer cannot be unpacked: {_describe_cause(error)}")
        case _:
            return ProviderUnavailable(route, f"the answer broke off: {_describe_cause(error)}")


def _describe_cause(error: Exception) -> str:
    return shorten(str(error)) or type(error).__name__


_DEFAULT_HEADERS: Final = {
    "user-agent": "brimful",
    "accept-encoding": "identity",
}  # bytes that can be read as they come
_DROPPED_HEADERS: Final = (
    "connection",
    "content-encoding",
    "content-length",
    "keep-alive",
    "set-cookie",
    "transfer-encoding",
)
"""Headers that tell how an answer travelled here, or are meant for us alone: nothing to hand on."""


def _ignore_sent() -> None:
    """Tell nobody that a request is on its way."""


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer. The names of `headers` are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpStream:
    """An answer that has begun: its `status` and `headers`, and its bytes as they come. It can be read once."""

    def __init__(self, status: int, headers: dict[str, str], chunks: AsyncIterator[bytes]) -> None:
        """Take what has come so far."""
        self.status = status
        self.headers = headers
        self.chunks = chunks

    async def read(self) -> bytes:
        """Return all that is still to come."""
        return b"".join([chunk async for chunk in self.chunks])


class _HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    body: bytes | None
    headers: dict[str, str]
    sent: Callable[[], None]


class Connection:
    """Asks one server. Belongs to the event loop in which it is first used.

    `url` is where its paths begin, `headers` go with every request, `route` is its name in errors and records. A name
    and a password in the URL are sent as a header. `key_name` tells a user which variable holds the key. `clock` gives
    the time, by which a date in `Retry-After` is read. No error, record or log shows a key.
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
        """Take an address; nothing is asked yet."""
        address = parse_address(url)
        self.url: Final = address.url
        self.route: Final = route or get_route(url)
        self.limits: Final = limits or Limits()
        self._headers = _DEFAULT_HEADERS | address.signed | _check_headers(headers)
        self._key_name = key_name
        self._clock = clock
        self._client: httpx2.AsyncClient | None = None
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        """Show the route alone."""
        return f"Connection({self.route!r})"

    async def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> HttpResponse:
        """Return what stands at a path."""
        return await self._whole(self._question("GET", path, None, headers))

    async def post(self, path: str, body: bytes, *, headers: Mapping[str, str] | None = None) -> HttpResponse:
        """Send JSON, and return the whole answer."""
        return await self._whole(self._question("POST", path, body, headers))

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        sent: Callable[[], None] = _ignore_sent,
    ) -> AsyncGenerator[HttpStream, None]:
        """Send JSON, and give the answer as it comes. Leaving the block frees the connection, however it is left.

        `sent` is called when the request is on its way, once or more often, and at the latest when the server speaks.
        """
        async with self._asked(self._question("POST", path, body, headers, sent)) as answer:
            yield answer

    async def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def _question(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        sent: Callable[[], None] = _ignore_sent,
    ) -> _HttpRequest:
        typed = {} if body is None else {"content-type": "application/json"}
        all_headers = self._headers | typed | _check_headers(headers)
        return _HttpRequest(method=method, path=path, body=body, headers=all_headers, sent=sent)

    async def _whole(self, question: _HttpRequest) -> HttpResponse:
        async with self._asked(question) as answer:
            return HttpResponse(status=answer.status, headers=answer.headers, body=await answer.read())

    @asynccontextmanager
    async def _asked(self, question: _HttpRequest) -> AsyncGenerator[HttpStream, None]:
        client = await self._opened()
        response = await self._retried(client, question)
        async with aclosing(response), aclosing(self._chunks(response)) as chunks:
            yield HttpStream(response.status_code, _get_forwarded_headers(response.headers), chunks)

    async def _retried(self, client: "httpx2.AsyncClient", question: _HttpRequest) -> "httpx2.Response":
        attempts = load_libraries().stamina.retry_context(
            on=lambda failure: get_retry_delay(failure, longest=self.limits.longest_wait),
            attempts=self.limits.attempts,
            timeout=None,  # attempts are what is limited: an answer may take minutes
            wait_initial=INITIAL_BACKOFF,
            wait_max=MAX_BACKOFF,
            wait_jitter=MAX_JITTER,
        )
        try:
            async for attempt in attempts:
                with attempt:
                    return await self._begun(client, question)
        except Retriable as failure:
            raise failure.error from failure.__cause__
        raise AssertionError("the last attempt returns or raises")

    async def _begun(self, client: "httpx2.AsyncClient", question: _HttpRequest) -> "httpx2.Response":
        """Return an answer that has begun well; raise `Retriable` where the request may be sent once more."""
        library = load_libraries().httpx2
        line = AttemptTrace(question.sent)
        try:
            request = client.build_request(
                question.method,
                self.url + question.path,
                content=question.body,
                headers=question.headers,
                extensions={"trace": line.trace},
            )
            response = await client.send(request, stream=True)
        except (library.HTTPError, library.InvalidURL) as error:
            raise make_request_error(self.route, error, self.limits, fresh=line.fresh) from error
        question.sent()
        if response.is_success:
            return response
        raise await self._refused(response, question.headers)

    async def _refused(self, response: "httpx2.Response", headers: dict[str, str]) -> Exception:
        """Read what the server says instead of an answer, which frees the connection."""
        try:
            body = await response.aread()
        except load_libraries().httpx2.HTTPError:
            body = b""  # the status alone says enough
        finally:
            await response.aclose()
        asked = ErrorSource(route=self.route, key_name=self._key_name, secrets=find_secrets(headers))
        wait = parse_retry_after(response.headers, now=self._clock())
        error = make_provider_error(asked, response.status_code, body, retry_after=wait)
        return Retriable(error) if _is_retriable(error) else error

    async def _chunks(self, response: "httpx2.Response") -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in response.aiter_bytes():
                yield chunk
        except load_libraries().httpx2.HTTPError as error:
            raise make_stream_error(self.route, error, self.limits) from error

    async def _opened(self) -> "httpx2.AsyncClient":
        if self._client is None:
            async with self._opening:
                if self._client is None:  # libraries and certificates take long enough to hold others up
                    self._client = await asyncio.to_thread(_make_client, self.limits)
        return self._client


def _is_retriable(error: ProviderError) -> bool:
    return isinstance(error, ProviderUnavailable) and error.status in RETRY_STATUSES


def _check_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return headers under lower names; refuse what no header can carry, without showing it."""
    checked = {name.lower(): value.strip() for name, value in (headers or {}).items()}
    for name, value in checked.items():
        if not value.isascii() or not value.isprintable():
            raise InvalidValue(f"headers.{name}", "has a character that no header can carry (is it the right key?)")
    return checked


def _get_forwarded_headers(headers: "httpx2.Headers") -> dict[str, str]:
    """Return headers that may be handed on: a sign a byte, so that any alphabet can be written as it came."""
    headers.encoding = "latin-1"
    return {name.lower(): value for name, value in headers.items() if name.lower() not in _DROPPED_HEADERS}


def _make_client(limits: Limits) -> "httpx2.AsyncClient":
    library = load_libraries().httpx2
    timeout = library.Timeout(connect=limits.connect, read=limits.read, write=limits.write, pool=limits.pool)
    pool = library.Limits(max_connections=limits.connections, max_keepalive_connections=limits.idle)
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))  # callers share the client, and must not meet in it
    client: httpx2.AsyncClient = library.AsyncClient(timeout=timeout, limits=pool, cookies=no_cookies)
    return client
