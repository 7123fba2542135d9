"""A server at the other end of a line: bytes in, bytes out, and errors of ours for all that may go wrong between.

Nothing is read into the bytes of a request or of an answer, so whatever a caller sends goes through untouched, fields
that nobody here has heard of included.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Final

import msgspec

from brimful.errors import InvalidValue, ProviderError, ProviderUnavailable
from brimful.providers import retries
from brimful.providers.address import read_address, route_of
from brimful.providers.failures import Line, broken_off, failed
from brimful.providers.libraries import libraries
from brimful.providers.limits import Limits
from brimful.providers.refusal import Asked, refusal, secrets_in
from brimful.providers.retries import TURNED_AWAY, Retriable, told_wait

if TYPE_CHECKING:
    import httpx2

_OWN: Final = {"user-agent": "brimful", "accept-encoding": "identity"}  # bytes that can be read as they come
_NOT_TOLD: Final = (
    "connection",
    "content-encoding",
    "content-length",
    "keep-alive",
    "set-cookie",
    "transfer-encoding",
)
"""Headers that tell how an answer travelled here, or are meant for us alone: nothing to hand on."""


def _nobody_asks() -> None:
    """Tell nobody that a request is on its way."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer. The names of `headers` are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Answering:
    """An answer that has begun: its `status` and `headers`, and its bytes as they come. It can be read once."""

    def __init__(self, status: int, headers: dict[str, str], chunks: AsyncIterator[bytes]) -> None:
        """Take what has come so far."""
        self.status = status
        self.headers = headers
        self.chunks = chunks

    async def read(self) -> bytes:
        """Return all that is still to come."""
        return b"".join([chunk async for chunk in self.chunks])


class _Question(msgspec.Struct, frozen=True, kw_only=True):
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
        address = read_address(url)
        self.url: Final = address.url
        self.route: Final = route or route_of(url)
        self.limits: Final = limits or Limits()
        self._headers = _OWN | address.signed | _checked(headers)
        self._key_name = key_name
        self._clock = clock
        self._client: httpx2.AsyncClient | None = None
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        """Show the route alone."""
        return f"Connection({self.route!r})"

    async def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> Answered:
        """Return what stands at a path."""
        return await self._whole(self._question("GET", path, None, headers))

    async def post(self, path: str, body: bytes, *, headers: Mapping[str, str] | None = None) -> Answered:
        """Send JSON, and return the whole answer."""
        return await self._whole(self._question("POST", path, body, headers))

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        sent: Callable[[], None] = _nobody_asks,
    ) -> AsyncGenerator[Answering, None]:
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
        sent: Callable[[], None] = _nobody_asks,
    ) -> _Question:
        typed = {} if body is None else {"content-type": "application/json"}
        all_headers = self._headers | typed | _checked(headers)
        return _Question(method=method, path=path, body=body, headers=all_headers, sent=sent)

    async def _whole(self, question: _Question) -> Answered:
        async with self._asked(question) as answer:
            return Answered(status=answer.status, headers=answer.headers, body=await answer.read())

    @asynccontextmanager
    async def _asked(self, question: _Question) -> AsyncGenerator[Answering, None]:
        client = await self._opened()
        response = await self._retried(client, question)
        async with aclosing(response), aclosing(self._chunks(response)) as chunks:
            yield Answering(response.status_code, _told(response.headers), chunks)

    async def _retried(self, client: "httpx2.AsyncClient", question: _Question) -> "httpx2.Response":
        attempts = libraries().stamina.retry_context(
            on=lambda failure: retries.wait_for(failure, longest=self.limits.longest_wait),
            attempts=self.limits.attempts,
            timeout=None,  # attempts are what is limited: an answer may take minutes
            wait_initial=retries.FIRST_WAIT,
            wait_max=retries.LONGEST_BACKOFF,
            wait_jitter=retries.JITTER,
        )
        try:
            async for attempt in attempts:
                with attempt:
                    return await self._begun(client, question)
        except Retriable as failure:
            raise failure.error from failure.__cause__
        raise AssertionError("the last attempt returns or raises")

    async def _begun(self, client: "httpx2.AsyncClient", question: _Question) -> "httpx2.Response":
        """Return an answer that has begun well; raise `Retriable` where the request may be sent once more."""
        library = libraries().httpx2
        line = Line(question.sent)
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
            raise failed(self.route, error, self.limits, fresh=line.fresh) from error
        question.sent()
        if response.is_success:
            return response
        raise await self._refused(response, question.headers)

    async def _refused(self, response: "httpx2.Response", headers: dict[str, str]) -> Exception:
        """Read what the server says instead of an answer, which frees the connection."""
        try:
            body = await response.aread()
        except libraries().httpx2.HTTPError:
            body = b""  # the status alone says enough
        finally:
            await response.aclose()
        asked = Asked(route=self.route, key_name=self._key_name, secrets=secrets_in(headers))
        wait = told_wait(response.headers, now=self._clock())
        error = refusal(asked, response.status_code, body, retry_after=wait)
        return Retriable(error) if _turned_away(error) else error

    async def _chunks(self, response: "httpx2.Response") -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in response.aiter_bytes():
                yield chunk
        except libraries().httpx2.HTTPError as error:
            raise broken_off(self.route, error, self.limits) from error

    async def _opened(self) -> "httpx2.AsyncClient":
        if self._client is None:
            async with self._opening:
                if self._client is None:  # libraries and certificates take long enough to hold others up
                    self._client = await asyncio.to_thread(_client, self.limits)
        return self._client


def _turned_away(error: ProviderError) -> bool:
    return isinstance(error, ProviderUnavailable) and error.status in TURNED_AWAY


def _checked(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return headers under lower names; refuse what no header can carry, without showing it."""
    checked = {name.lower(): value.strip() for name, value in (headers or {}).items()}
    for name, value in checked.items():
        if not value.isascii() or not value.isprintable():
            raise InvalidValue(f"headers.{name}", "has a character that no header can carry (is it the right key?)")
    return checked


def _told(headers: "httpx2.Headers") -> dict[str, str]:
    """Return headers that may be handed on: a sign a byte, so that any alphabet can be written as it came."""
    headers.encoding = "latin-1"
    return {name.lower(): value for name, value in headers.items() if name.lower() not in _NOT_TOLD}


def _client(limits: Limits) -> "httpx2.AsyncClient":
    library = libraries().httpx2
    timeout = library.Timeout(connect=limits.connect, read=limits.read, write=limits.write, pool=limits.pool)
    pool = library.Limits(max_connections=limits.connections, max_keepalive_connections=limits.idle)
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))  # callers share the client, and must not meet in it
    client: httpx2.AsyncClient = library.AsyncClient(timeout=timeout, limits=pool, cookies=no_cookies)
    return client
