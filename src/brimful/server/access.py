"""Access control: API keys and scopes, same-origin checks, and rate limits per key.

Without API keys, a browser on this machine is the only way in for web pages of other sites: such a page can make the
browser send requests to this machine, or point its own host name at it. The headers checked here cannot be forged by
either.
"""

import hashlib
import ipaddress
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal, Protocol, get_args
from urllib.parse import urlsplit

import msgspec

from brimful.cache import LRU
from brimful.server.errors import ApiError
from brimful.stores import Database
from brimful.stores.admin.api_keys import parse_api_key

Scope = Literal["chat", "read", "write", "metrics", "admin"]
"""What a key allows: sending requests to models, reading records, changing them, reading metrics, and seeing the names
and the state of all tenants, though not their records."""
SCOPES: Final[tuple[str, ...]] = get_args(Scope)
KEY_HEADER: Final = "x-brimful-key"
"""For our API key, if the other headers carry a key for the upstream."""

KEY_CACHE_SECONDS: Final = 5.0  # seconds until a key is looked up again
_MAX_CACHED_KEYS: Final = 10_000
_OTHER_ORIGIN: Final = "other_origin"
_OTHER_SITE, _SAME_ORIGIN = "cross-site", "same-origin"  # values of Sec-Fetch-Site
_MAX_ADDRESSES: Final = 10_000  # with wrong keys; beyond that, the oldest are forgotten
_IPV4: Final = 4
_IPV6_HOST_BITS: Final = 64  # a provider assigns at least a /64 to a customer
_MINUTE = 60.0  # seconds


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a request: the tenant, the id of the API key, and its scopes. Without API keys, `key` is empty."""

    tenant: str
    key: str = ""
    scopes: frozenset[str] = frozenset()


class Authenticator(Protocol):
    """Identifies clients."""

    async def identify(self, headers: Mapping[str, str], address: str = "") -> Client:
        """Return the client that sent these headers from an IP address; reject unknown keys."""
        ...

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Reject requests to the inspector API by web pages that may not send them."""
        ...


class OpenAccess:
    """Access without API keys: every program on this machine is the same client, and web pages are rejected.

    `hosts` are names for this machine besides `localhost`, and `origins` those of web pages that are accepted.
    """

    def __init__(self, tenant: str, hosts: Collection[str] = (), origins: Collection[str] = ()) -> None:
        self._client = Client(tenant=tenant, scopes=frozenset(SCOPES))
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origins)

    async def identify(self, headers: Mapping[str, str], address: str = "") -> Client:
        """Return the only client."""
        del address
        if headers.get("origin") not in self._origins:
            reject_web_page(headers)
        self._require_own_host(headers.get("host", ""))
        return self._client

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Reject requests from any page but our own and those of the allowed origins."""
        if headers.get("origin") not in self._origins:
            require_same_origin(headers)

    def _require_own_host(self, host: str) -> None:
        """Reject requests sent to another host name: a web page may point its own name at this machine."""
        if not is_loopback_host(host) and _host_name(host) not in self._hosts:
            raise ApiError(
                "forbidden",
                f"without API keys, only requests to localhost are answered, not to {host[:80]!r}: use 127.0.0.1, add "
                "the name to `hosts` in the configuration, or require keys",
                code="other_host",
            )


def find_key(headers: Mapping[str, str]) -> str:
    """Return the API key of a request, from our own header, `x-api-key`, the bearer token or Azure's `api-key`.

    >>> find_key({"authorization": "Bearer bf-1"}), find_key({"x-api-key": "bf-2"}), find_key({})
    ('bf-1', 'bf-2', '')
    """
    if KEY_HEADER in headers:
        return headers[KEY_HEADER].strip()
    if "x-api-key" in headers:
        return headers["x-api-key"].strip()
    kind, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else headers.get("api-key", "").strip()


def require_scope(client: Client, scope: Scope) -> None:
    """Reject a client whose key lacks a scope."""
    if scope not in client.scopes:
        raise ApiError("forbidden", f"this API key lacks the scope {scope!r}")


class KeyAccess:
    """Access by API key. Keys are cached, so a revoked key works for a few more seconds.

    An address that sends too many wrong keys has to wait. Keys that have worked before are still accepted from it.
    """

    def __init__(self, database: Database, clock: Callable[[], float], *, failures_per_minute: int) -> None:
        self._database = database
        self._clock = clock
        self._cached: LRU[bytes, tuple[Client, float]] = LRU(max_entries=_MAX_CACHED_KEYS)
        self._failures = FailedKeys(failures_per_minute)

    async def identify(self, headers: Mapping[str, str], address: str = "") -> Client:
        """Return the client that owns the API key."""
        key = find_key(headers)
        if not key:
            raise ApiError(
                "invalid_key",
                "an API key is required: send it as `Authorization: Bearer KEY`, `x-api-key: KEY` or `api-key: KEY`",
            )
        digest, now = hashlib.sha256(key.encode("utf-8", "replace")).digest(), self._clock()
        cached = self._cached.get(digest)
        if cached is not None and 0 <= now - cached[1] < KEY_CACHE_SECONDS:
            return cached[0]
        if cached is None:
            self._failures.check(address, now=now)
        client = await self._look_up(key)
        if client is None:
            self._failures.add(address, now=now)
            raise ApiError("invalid_key", "unknown or revoked API key")
        self._cached[digest] = (client, now)
        return client

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Accept every page: it has a key."""

    async def _look_up(self, key: str) -> Client | None:
        presented = parse_api_key(key)
        owner = None if presented is None else await self._database.api_keys(presented.tenant).verify(presented)
        return None if owner is None else Client(tenant=owner.tenant, key=owner.id, scopes=frozenset(owner.scopes))


class FailedKeys:
    """Limits how many wrong API keys per minute an address may send.

    >>> failed = FailedKeys(per_minute=1)
    >>> failed.check("192.0.2.7", now=0.0)
    >>> failed.add("192.0.2.7", now=0.0)
    >>> failed.check("192.0.2.7", now=15.0)
    Traceback (most recent call last):
    ...
    brimful.server.errors.ApiError: too many wrong API keys from 192.0.2.7
    >>> failed.check("192.0.2.7", now=60.0)
    """

    def __init__(self, per_minute: int) -> None:
        self._rate = per_minute
        self._left: LRU[str, tuple[float, float]] = LRU(max_entries=_MAX_ADDRESSES)

    def check(self, address: str, *, now: float) -> None:
        """Reject a request from an address that has sent too many wrong keys."""
        left = self._refill(_network(address), now)
        if left < 1:
            wait = (1 - left) * _MINUTE / self._rate
            raise ApiError("too_many_failed_keys", f"too many wrong API keys from {address}", retry_after=wait)

    def add(self, address: str, *, now: float) -> None:
        """Count a wrong key."""
        network = _network(address)
        self._left[network] = (max(0.0, self._refill(network, now) - 1), now)

    def _refill(self, network: str, now: float) -> float:
        left, at = self._left.get(network, (float(self._rate), now))
        return min(float(self._rate), left + max(0.0, now - at) * self._rate / _MINUTE)


def _network(address: str) -> str:
    """Return the network of an IPv6 address, since one host has 2**64 of them; any other address unchanged.

    >>> _network("2001:db8::1"), _network("192.0.2.7")
    ('2001:db8::', '192.0.2.7')
    """
    try:
        host = ipaddress.ip_address(address)
    except ValueError:
        return address
    if host.version == _IPV4:
        return address
    return str(ipaddress.ip_network((int(host) >> _IPV6_HOST_BITS << _IPV6_HOST_BITS, 128)).network_address)


def require_same_origin(headers: Mapping[str, str]) -> None:
    """Reject requests from any page but our own."""
    if not _is_same_origin(headers, headers.get("host", "")):
        raise ApiError(
            "forbidden",
            "requests from other sites are rejected: add the site to `origins` in the configuration",
            code=_OTHER_ORIGIN,
        )


def reject_web_page(headers: Mapping[str, str]) -> None:
    """Reject requests from web pages. Programs send no `Origin`, and desktop apps and local pages have their own.

    Browsers let any page send a request whose answer it cannot read, which would still cost money and be remembered.
    For some requests, such as those for images, they send `Sec-Fetch-Site` but no `Origin`.

    >>> for headers in ({}, {"origin": "app://notes"}, {"origin": "http://localhost:3000"}, {"sec-fetch-site": "none"}):
    ...     reject_web_page(headers)
    """
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    if site == _OTHER_SITE if origin is None else site != _SAME_ORIGIN and not _is_local_origin(origin):
        raise ApiError(
            "forbidden",
            "requests from other sites are rejected: add the site to `origins` in the configuration, or require keys",
            code=_OTHER_ORIGIN,
        )


def _is_local_origin(origin: str) -> bool:
    scheme, _, host = origin.partition("://")
    return is_loopback_host(host) if scheme.lower() in ("http", "https") else bool(host)


def _is_same_origin(headers: Mapping[str, str], host: str) -> bool:
    """Return whether no page or our own page sent the request, by `Sec-Fetch-Site`, or `Origin` in older browsers."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site in (_SAME_ORIGIN, "none")
    return origin is None or origin.partition("://")[2].lower() == host.lower()


def is_loopback_host(host: str) -> bool:
    """Return whether a host, with or without port, is a loopback name or address.

    >>> [is_loopback_host(host) for host in ("localhost:8080", "127.0.0.1", "[::1]:80", "evil.example", "")]
    [True, True, True, False, False]
    """
    name = _host_name(host)
    try:
        return name == "localhost" or name.endswith(".localhost") or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _host_name(host: str) -> str:
    """Return a host in lower case and without its port; empty if it is not valid."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


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
