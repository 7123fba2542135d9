"""Access control: API keys and scopes, same-origin checks, and rate limits per key.

Without API keys, a browser on this machine is the only way in for web pages of other sites: such a page can make the
browser send requests to this machine, or point its own host name at it. The headers checked here cannot be forged by
either.
"""

import hashlib
import ipaddress
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal, Protocol, get_args
from urllib.parse import urlsplit

import msgspec

from brimful.cache import LRU
from brimful.server.errors import ApiError
from brimful.stores import Database
from brimful.stores.admin.api_keys import parse_api_key

Scope = Literal["chat", "read", "write", "metrics"]
"""What a key allows: sending requests to models, reading records, changing them, and reading metrics."""
SCOPES: Final[tuple[str, ...]] = get_args(Scope)
KEY_HEADER: Final = "x-brimful-key"
"""For our API key, if the other headers carry a key for the upstream."""

KEY_CACHE_SECONDS: Final = 5.0  # seconds until a key is looked up again
_MAX_CACHED_KEYS: Final = 10_000
_OTHER_ORIGIN: Final = "other_origin"
_MINUTE = 60.0  # seconds


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a request: the tenant, the id of the API key, and its scopes. Without API keys, `key` is empty."""

    tenant: str
    key: str = ""
    scopes: frozenset[str] = frozenset()


class Authenticator(Protocol):
    """Identifies clients."""

    async def identify(self, headers: Mapping[str, str]) -> Client:
        """Return the client that sent these headers; reject unknown keys."""
        ...


class OpenAccess:
    """Access without API keys: everyone is the same client and may do everything."""

    def __init__(self, tenant: str) -> None:
        self._client = Client(tenant=tenant, scopes=frozenset(SCOPES))

    async def identify(self, headers: Mapping[str, str]) -> Client:
        """Return the only client."""
        del headers
        return self._client


def find_key(headers: Mapping[str, str]) -> str:
    """Return the API key of a request, from our own header, `x-api-key` or the bearer token.

    >>> find_key({"authorization": "Bearer bf-1"}), find_key({"x-api-key": "bf-2"}), find_key({})
    ('bf-1', 'bf-2', '')
    """
    if KEY_HEADER in headers:
        return headers[KEY_HEADER].strip()
    if "x-api-key" in headers:
        return headers["x-api-key"].strip()
    kind, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else ""


def require_scope(client: Client, scope: Scope) -> None:
    """Reject a client whose key lacks a scope."""
    if scope not in client.scopes:
        raise ApiError("forbidden", f"this API key lacks the scope {scope!r}")


class KeyAccess:
    """Access by API key. Keys are cached, so a revoked key works for a few more seconds."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._cached: LRU[bytes, tuple[Client, float]] = LRU(max_entries=_MAX_CACHED_KEYS)

    async def identify(self, headers: Mapping[str, str]) -> Client:
        """Return the client that owns the API key."""
        key = find_key(headers)
        if not key:
            raise ApiError("invalid_key", "an API key is required: send it as a bearer token or in x-api-key")
        digest, now = hashlib.sha256(key.encode("utf-8", "replace")).digest(), self._clock()
        cached = self._cached.get(digest)
        if cached is not None and 0 <= now - cached[1] < KEY_CACHE_SECONDS:
            return cached[0]
        client = await self._look_up(key)
        self._cached[digest] = (client, now)
        return client

    async def _look_up(self, key: str) -> Client:
        presented = parse_api_key(key)
        owner = None if presented is None else await self._database.api_keys(presented.tenant).verify(presented)
        if owner is None:
            raise ApiError("invalid_key", "unknown or revoked API key")
        return Client(tenant=owner.tenant, key=owner.id, scopes=frozenset(owner.scopes))


def require_same_origin(headers: Mapping[str, str]) -> None:
    """Reject requests from other sites' pages, and requests sent to this machine under another host name."""
    host = headers.get("host", "")
    if not _is_same_origin(headers, host):
        raise ApiError("forbidden", "requests from other sites are rejected", code=_OTHER_ORIGIN)
    if not is_loopback_host(host):
        raise ApiError(
            "forbidden",
            f"without API keys, only requests to localhost are answered, not to {host[:80]!r}: require keys, or use "
            "127.0.0.1",
            code="other_host",
        )


def reject_web_origin(headers: Mapping[str, str]) -> None:
    """Reject requests from web pages. Programs send no `Origin`, and desktop apps and local pages have their own.

    Browsers let any page send a request whose answer it cannot read, which would still cost money and be remembered.

    >>> for headers in ({}, {"origin": "app://notes"}, {"origin": "http://localhost:3000"}):
    ...     reject_web_origin(headers)
    """
    origin = headers.get("origin")
    if origin is not None and not _is_local_origin(origin):
        raise ApiError(
            "forbidden",
            "requests from other sites are rejected unless the server requires API keys",
            code=_OTHER_ORIGIN,
        )


def _is_local_origin(origin: str) -> bool:
    scheme, _, host = origin.partition("://")
    return is_loopback_host(host) if scheme.lower() in ("http", "https") else bool(host)


def _is_same_origin(headers: Mapping[str, str], host: str) -> bool:
    """Return whether no page or our own page sent the request, by `Sec-Fetch-Site`, or `Origin` in older browsers."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or origin.partition("://")[2].lower() == host.lower()


def is_loopback_host(host: str) -> bool:
    """Return whether a host, with or without port, is a loopback name or address.

    >>> [is_loopback_host(host) for host in ("localhost:8080", "127.0.0.1", "[::1]:80", "evil.example", "")]
    [True, True, True, False, False]
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or name.endswith(".localhost") or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class _Bucket:
    """Token bucket of a key, and its number of running requests."""

    def __init__(self, left: float, at: float) -> None:
        self.left = left
        self.at = at
        self.running = 0


class RateLimiter:
    """Limits concurrent requests and requests per minute of each key.

    >>> limiter = RateLimiter(concurrency=1, requests_per_minute=60)
    >>> with limiter.limit("ada", now=0.0):
    ...     with limiter.limit("ada", now=0.0):
    ...         pass
    Traceback (most recent call last):
    ...
    brimful.server.errors.ApiError: too many concurrent requests: this API key may have 1 at a time
    """

    def __init__(self, *, concurrency: int, requests_per_minute: int) -> None:
        self._concurrency = concurrency
        self._rate = requests_per_minute
        self._buckets: dict[str, _Bucket] = {}

    @contextmanager
    def limit(self, key: str, *, now: float) -> Iterator[None]:
        """Count a request while it runs; reject it if the key is over its limits."""
        bucket = self._bucket(key, now)
        if bucket.running >= self._concurrency:
            message = f"too many concurrent requests: this API key may have {self._concurrency:,} at a time"
            raise ApiError("rate_limited", message, retry_after=1.0)
        if bucket.left < 1:
            wait = (1 - bucket.left) * _MINUTE / self._rate
            raise ApiError("rate_limited", f"rate limit: {self._rate:,} requests per minute", retry_after=wait)
        bucket.left -= 1
        bucket.running += 1
        try:
            yield
        finally:
            bucket.running -= 1

    def _bucket(self, key: str, now: float) -> _Bucket:
        bucket = self._buckets.setdefault(key, _Bucket(float(self._rate), now))
        bucket.left = min(float(self._rate), bucket.left + max(0.0, now - bucket.at) * self._rate / _MINUTE)
        bucket.at = now
        return bucket
