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

from brimful.cache import LRU
from brimful.server.errors import ApiError
from brimful.server.proxy.request import Client
from brimful.stores import Database
from brimful.stores.admin.api_keys import parse_api_key

Scope = Literal["chat", "read", "write", "metrics"]
"""What a key allows: to ask models, to read what is kept, to change it, and to read what is measured of all tenants."""
SCOPES: Final[tuple[str, ...]] = get_args(Scope)
KEY_HEADER: Final = "x-brimful-key"
"""Where a caller's key stands if the other headers hold a key for the upstream."""

KEY_CACHE_SECONDS: Final = 5.0  # seconds for which a key is taken for known without being looked up
_MAX_CACHED_KEYS: Final = 10_000  # keys


class Authenticator(Protocol):
    """Knows callers."""

    async def caller(self, headers: Mapping[str, str]) -> Client:
        """Return who sent these headers; refuse a key that is not known."""
        ...


class OpenAccess:
    """Everybody who reaches the server is the same caller, and may do anything."""

    def __init__(self, tenant: str) -> None:
        """Take whose records they are."""
        self._caller = Client(tenant=tenant, scopes=frozenset(SCOPES))

    async def caller(self, headers: Mapping[str, str]) -> Client:
        """Return the one that there is."""
        del headers
        return self._caller


def find_key(headers: Mapping[str, str]) -> str:
    """Return the key that a caller sent, by our own header, as Anthropic's clients send it, or as all others do.

    >>> find_key({"authorization": "Bearer bf-1"}), find_key({"x-api-key": "bf-2"}), find_key({})
    ('bf-1', 'bf-2', '')
    """
    if KEY_HEADER in headers:
        return headers[KEY_HEADER].strip()
    if "x-api-key" in headers:
        return headers["x-api-key"].strip()
    kind, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else ""


def require_scope(caller: Client, scope: Scope) -> None:
    """Refuse a caller whose key does not allow it."""
    if scope not in caller.scopes:
        raise ApiError("forbidden", f"this key has no scope {scope!r}")


class KeyAccess:
    """Knows callers by their keys, as a database keeps them. A key that was revoked holds for some seconds more."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        """Take an open database."""
        self._database = database
        self._clock = clock
        self._known: LRU[bytes, tuple[Client, float]] = LRU(max_entries=_MAX_CACHED_KEYS)

    async def caller(self, headers: Mapping[str, str]) -> Client:
        """Return whose key it is."""
        key = find_key(headers)
        if not key:
            raise ApiError("key", "a key is needed: send one as a bearer token or as x-api-key")
        digest, now = hashlib.sha256(key.encode("utf-8", "replace")).digest(), self._clock()
        held = self._known.get(digest)
        if held is not None and 0 <= now - held[1] < KEY_CACHE_SECONDS:
            return held[0]
        caller = await self._looked_up(key)
        self._known[digest] = (caller, now)
        return caller

    async def _looked_up(self, key: str) -> Client:
        presented = parse_api_key(key)
        found = None if presented is None else await self._database.callers(presented.tenant).known(presented)
        if found is None:
            raise ApiError("key", "this key is not known, or was revoked")
        return Client(tenant=found.tenant, key=found.id, scopes=frozenset(found.scopes))


_OTHER_ORIGIN: Final = "other_origin"


def require_same_origin(headers: Mapping[str, str]) -> None:
    """Refuse what another site's page sends, and what is sent to this machine by another name."""
    host = headers.get("host", "")
    if not _is_same_origin(headers, host):
        raise ApiError("forbidden", "pages of other sites may not ask here", code=_OTHER_ORIGIN)
    if not is_loopback_host(host):
        raise ApiError(
            "forbidden",
            f"without keys, only requests to this machine are answered here, not to {host[:80]!r}: use keys, or ask "
            "127.0.0.1",
            code="other_host",
        )


def reject_web_origin(headers: Mapping[str, str]) -> None:
    """Refuse what a page of the web sends. Programs send no origin; apps and pages of this machine have their own.

    A page needs no leave to send a request whose answer it cannot read: it would cost money, and be remembered.

    >>> reject_web_origin({}), reject_web_origin({"origin": "app://notes"}), reject_web_origin({"origin": "http://localhost:3000"})
    (None, None, None)
    """
    origin = headers.get("origin")
    if origin is not None and not _is_local_origin(origin):
        raise ApiError(
            "forbidden", "pages of other sites may not ask here: without keys, they are refused", code=_OTHER_ORIGIN
        )


def _is_local_origin(origin: str) -> bool:
    scheme, _, host = origin.partition("://")
    return is_loopback_host(host) if scheme.lower() in ("http", "https") else bool(host)


def _is_same_origin(headers: Mapping[str, str], host: str) -> bool:
    """Say whether no page sent it, or our own. Browsers tell which; those that do not yet, tell the page's origin."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or origin.partition("://")[2].lower() == host.lower()


def is_loopback_host(host: str) -> bool:
    """Say whether a host, with its port or without, is a name of this machine for itself.

    >>> [is_loopback_host(host) for host in ("localhost:8080", "127.0.0.1", "[::1]:80", "evil.example", "")]
    [True, True, True, False, False]
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or name.endswith(".localhost") or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


_MINUTE = 60.0  # seconds


class _Bucket:
    """What a caller has left: requests that may begin now, and those that are under way."""

    def __init__(self, left: float, at: float) -> None:
        self.left = left
        self.at = at
        self.running = 0


class RateLimiter:
    """Lets requests of each key pass as long as they are not too many at once, nor too many in a minute.

    >>> gate = RateLimiter(concurrency=1, requests_per_minute=60)
    >>> with gate.passed("ada", now=0.0):
    ...     with gate.passed("ada", now=0.0):
    ...         pass
    Traceback (most recent call last):
    ...
    brimful.server.errors.ApiError: 1 request of this key is under way, and no more may be at a time
    """

    def __init__(self, *, concurrency: int, requests_per_minute: int) -> None:
        """Allow so much to each key."""
        self._concurrency = concurrency
        self._rate = requests_per_minute
        self._buckets: dict[str, _Bucket] = {}

    @contextmanager
    def passed(self, key: str, *, now: float) -> Iterator[None]:
        """Count a request of a key for as long as it takes; refuse one too many, and say when to come again."""
        bucket = self._bucket(key, now)
        if bucket.running >= self._concurrency:
            many = f"{bucket.running:,} request{'s' if bucket.running > 1 else ''} of this key"
            verb = "are" if bucket.running > 1 else "is"
            raise ApiError("busy", f"{many} {verb} under way, and no more may be at a time", retry_after=1.0)
        if bucket.left < 1:
            wait = (1 - bucket.left) * _MINUTE / self._rate
            raise ApiError("busy", f"this key may send {self._rate:,} requests a minute", retry_after=wait)
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
