"""Access control: API keys and scopes, same-origin checks, and rate limits per key.

Without API keys, a browser on this machine is the only way in for web pages of other sites: such a page can make the
browser send requests to this machine, or point its own host name at it. The headers checked here cannot be forged by
either.
"""

import asyncio
import hashlib
import ipaddress
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, Protocol, get_args
from urllib.parse import urlsplit

import msgspec

from brimful.cache import LRU
from brimful.errors import StoreError
from brimful.server.background import BackgroundTasks, log_failure
from brimful.server.errors import ApiError
from brimful.stores import Database
from brimful.stores.admin.api_keys import parse_api_key
from brimful.stores.admin.shared_state import Grant

Scope = Literal["chat", "read", "write", "metrics", "admin", "keys"]
"""What a key allows: sending requests to models, reading records, changing them, reading metrics, seeing the names
and the state of all tenants, though not their records, and managing the keys of its tenant."""
SCOPES: Final[tuple[str, ...]] = get_args(Scope)
KEY_HEADER: Final = "x-brimful-key"
"""For our API key, if the other headers carry a key for the upstream."""

KEY_CACHE_SECONDS: Final = 5.0  # seconds until a key is looked up again
_USE_SECONDS: Final = 60.0  # between two writes of when a key was used last
_MAX_CACHED_KEYS: Final = 10_000
_OTHER_ORIGIN: Final = "other_origin"
_OTHER_SITE, _SAME_ORIGIN = "cross-site", "same-origin"  # values of Sec-Fetch-Site
_MAX_ADDRESSES: Final = 10_000  # with wrong keys; beyond that, the oldest are forgotten
_IPV4: Final = 4
_IPV6_HOST_BITS: Final = 64  # a provider assigns at least a /64 to a customer
_MINUTE = 60.0  # seconds
_HOLD_SECONDS: Final = 1.0  # for which a server takes requests from the common allowance at once
_TIME_LIMIT: Final = 0.5  # seconds that a request waits for the common allowance
_RETRY_SECONDS: Final = 10.0  # after a failure, until the database is asked again
_KeyName = tuple[str, str]  # the tenant and the id of an API key


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a request: the tenant, the id of the API key, its scopes, and the `user` it is bound to, if any.

    `models` are patterns of the models that the key may use, and `policies` the names of policies; None allows all.
    Without API keys, `key` is empty.
    """

    tenant: str
    key: str = ""
    scopes: frozenset[str] = frozenset()
    user: str | None = None
    expires: float | None = None
    models: tuple[str, ...] | None = None
    policies: tuple[str, ...] | None = None


class Authenticator(Protocol):
    """Identifies clients."""

    async def identify(self, headers: Mapping[str, str], address: str = "") -> Client:
        """Return the client that sent these headers from an IP address; reject unknown keys."""

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Reject requests to the inspector API by web pages that may not send them."""


class OpenAccess:
    """Access without API keys: every program on this machine is the same client, and web pages are rejected.

    `hosts` are names for this machine besides `localhost`, and `origins` are the accepted origins of web pages.
    """

    def __init__(self, tenant: str, hosts: Collection[str] = (), origins: Collection[str] = ()) -> None:
        self._client = Client(tenant=tenant, scopes=frozenset(SCOPES))
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origins)

    async def identify(self, headers: Mapping[str, str], address: str = "") -> Client:
        del address
        if headers.get("origin") not in self._origins:
            reject_web_page(headers)
        self._require_own_host(headers.get("host", ""))
        return self._client

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Reject requests from pages other than our own and pages of allowed origins."""
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
    """Return the API key of a request, from our own header, a bearer token, or the headers of other providers.

    >>> find_key({"authorization": "Bearer bf-1"}), find_key({"x-api-key": "bf-2"}), find_key({})
    ('bf-1', 'bf-2', '')
    """
    if KEY_HEADER in headers:
        return headers[KEY_HEADER].strip()
    if "x-api-key" in headers:
        return headers["x-api-key"].strip()
    kind, _, key = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return key.strip()
    return (headers.get("api-key") or headers.get("x-goog-api-key") or "").strip()


def require_scope(client: Client, scope: Scope) -> None:
    """Reject a client whose key lacks a scope."""
    if scope not in client.scopes:
        raise ApiError("forbidden", f"this API key lacks the scope {scope!r}")


def require_unbound(client: Client) -> None:
    """Reject a client whose key is bound to a user, where there are records of all users."""
    if client.user is not None:
        message = f"this API key is bound to the user {client.user!r}: it can be used for chats and for /mcp"
        raise ApiError("forbidden", message, code="bound_key")


def may_use_model(client: Client, model: str) -> bool:
    """Return whether a client may use a model.

    >>> client = Client(tenant="acme", models=("gpt-4o*",))
    >>> may_use_model(client, "gpt-4o-mini"), may_use_model(client, "o3"), may_use_model(Client(tenant="acme"), "o3")
    (True, False, True)
    """
    return client.models is None or any(fnmatchcase(model, pattern) for pattern in client.models)


def require_model(client: Client, model: str) -> None:
    """Reject a model that a client may not use. No model, an empty string, is one that it may not use either."""
    if client.models is None or may_use_model(client, model):
        return
    allowed = ", ".join(client.models)
    what = f"does not allow the model {model[:80]!r}" if model else "does not allow requests that name no model"
    raise ApiError("forbidden", f"this API key {what}; it allows {allowed}", code="model_not_allowed", param="model")


def list_fallbacks(body: Mapping[str, Any]) -> list[str]:
    """Return the models that may answer in place of the one that a request names. OpenRouter takes a list of them.

    >>> list_fallbacks({"model": "gpt-4o", "models": ["gpt-4o", "o3"]}), list_fallbacks({"model": "gpt-4o"})
    (['gpt-4o', 'o3'], [])
    """
    models = body.get("models")
    return [str(name) for name in models if name] if isinstance(models, list) else []


def may_use_policy(client: Client, policy: str) -> bool:
    return client.policies is None or policy in client.policies


def choose_policy(client: Client, named: str | None, *, param: str = "policy") -> str | None:
    """Return the policy of a request: the one that it names, or else the first one of its key.

    None leaves the choice to the server. A policy that the key does not allow is rejected.

    >>> client = Client(tenant="acme", policies=("agent", "window"))
    >>> choose_policy(client, "window"), choose_policy(client, None), choose_policy(Client(tenant="acme"), None)
    ('window', 'agent', None)
    """
    if client.policies is None:
        return named
    if named is None:
        return client.policies[0]
    if named not in client.policies:
        message = f"this API key does not allow the policy {named[:80]!r}; it allows {', '.join(client.policies)}"
        raise ApiError("forbidden", message, code="policy_not_allowed", param=param)
    return named


def find_user(client: Client, named: str) -> str | None:
    """Return the user of a request: the one that the key is bound to, or the one that a header names.

    >>> find_user(Client(tenant="acme"), "bob"), find_user(Client(tenant="acme", user="ada"), "")
    ('bob', 'ada')
    """
    if client.user is not None and named not in ("", client.user):
        message = f"this API key is bound to the user {client.user!r}: X-Brimful-User must name that user, or none"
        raise ApiError("forbidden", message, code="bound_key")
    return client.user or named or None


class KeyAccess:
    """Access by API key. Keys are cached, so a revoked key works for a few more seconds.

    An address that sends too many wrong keys has to wait. Keys that have worked before are still accepted from it.
    """

    def __init__(
        self, database: Database, tasks: BackgroundTasks, clock: Callable[[], float], *, failures_per_minute: int
    ) -> None:
        self._database = database
        self._tasks = tasks
        self._clock = clock
        self._used: LRU[_KeyName, float] = LRU(max_entries=_MAX_CACHED_KEYS)
        self._cached: LRU[bytes, tuple[Client, float]] = LRU(max_entries=_MAX_CACHED_KEYS)
        self._failures = FailedKeys(failures_per_minute)

    async def identify(self, headers: Mapping[str, str], address: str = "") -> Client:
        """Return the client that owns the API key."""
        key = find_key(headers)
        if not key:
            raise ApiError(
                "invalid_key",
                "an API key is required: send it as `Authorization: Bearer KEY`, `x-api-key: KEY`, `api-key: KEY` or "
                "`x-goog-api-key: KEY`",
            )
        digest, now = hashlib.sha256(key.encode("utf-8", "replace")).digest(), self._clock()
        cached = self._cached.get(digest)
        if cached is not None and 0 <= now - cached[1] < KEY_CACHE_SECONDS:
            return self._admit(cached[0], now)
        if cached is None:
            self._failures.check(address, now=now)
        client = await self._look_up(key)
        if client is None:
            self._cached.pop(digest)  # a revoked key is a wrong one like any other
            self._failures.add(address, now=now)
            raise ApiError("invalid_key", "unknown or revoked API key")
        self._cached[digest] = (client, now)
        return self._admit(client, now)

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Accept every page: it has a key."""

    def _admit(self, client: Client, now: float) -> Client:
        """Reject a key that has expired. Note the use of any other, in the background and at most once a minute."""
        if client.expires is not None and client.expires <= now:
            when = datetime.fromtimestamp(client.expires, UTC)
            message = f"this API key expired on {when:%Y-%m-%d at %H:%M:%S} UTC"
            raise ApiError("invalid_key", message, code="expired_api_key")
        used = self._used.get(_name(client))
        if not self._database.read_only and (used is None or not 0 <= now - used < _USE_SECONDS):
            self._used[_name(client)] = now
            note_use = self._database.api_keys(client.tenant).note_use
            self._tasks.start(note_use(client.key, at=now), "noting the use of an API key")
        return client

    async def _look_up(self, key: str) -> Client | None:
        presented = parse_api_key(key)
        owner = None if presented is None else await self._database.api_keys(presented.tenant).verify(presented)
        if owner is None:
            return None
        return Client(
            tenant=owner.tenant,
            key=owner.id,
            scopes=frozenset(owner.scopes),
            user=owner.user,
            expires=owner.expires,
            models=owner.models,
            policies=owner.policies,
        )


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
            raise ApiError(
                "too_many_failed_keys",
                f"too many wrong API keys from {address}",
                retry_after=wait,
                limit="failed_keys_per_minute",
            )

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


class OwnAllowance:
    """Counts the requests of each key in this process: a bucket that refills continuously.

    >>> allowance = OwnAllowance(per_minute=1)
    >>> [asyncio.run(allowance.take(Client(tenant="acme"), now=now)) for now in (0.0, 0.0, 30.0, 60.0)]
    [0.0, 60.0, 30.0, 0.0]
    """

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._left: LRU[_KeyName, tuple[float, float]] = LRU(max_entries=_MAX_CACHED_KEYS)

    async def take(self, client: Client, *, now: float) -> float:
        """Take one request from the bucket."""
        left, at = self._left.get(_name(client), (float(self.per_minute), now))
        left = min(float(self.per_minute), left + max(0.0, now - at) * self.per_minute / _MINUTE)
        self._left[_name(client)] = (left - 1 if left >= 1 else left, now)
        return 0.0 if left >= 1 else (1 - left) * _MINUTE / self.per_minute


class SharedAllowance:
    """Counts the requests of each key together with all servers of a database.

    A server takes the requests of a second at once, so that it rarely has to ask. Those that it does not use are lost,
    so all servers together never exceed the limit. While the database does not answer, each server counts alone.
    """

    def __init__(self, per_minute: int, database: Database, *, time_limit: float = _TIME_LIMIT) -> None:
        self.per_minute = per_minute
        self._database = database
        self._time_limit = time_limit
        self._own = OwnAllowance(per_minute)
        self._held: LRU[_KeyName, _HeldRequests] = LRU(max_entries=_MAX_CACHED_KEYS)
        self._alone_until = 0.0

    async def take(self, client: Client, *, now: float) -> float:
        """Take one of the requests that this server holds, or more from the database."""
        held = self._held.get(_name(client))
        if held is None:
            held = self._held[_name(client)] = _HeldRequests()
        async with held.lock:  # one request asks for all that wait
            if held.left and now < held.until:
                held.left -= 1
                return 0.0
            grant = await self._ask(client, now)
            if grant is None:
                return await self._own.take(client, now=now)
            held.left, held.until = max(0, grant.requests - 1), now + _HOLD_SECONDS
            return grant.wait

    async def _ask(self, client: Client, now: float) -> Grant | None:
        """Take requests from the database; None if it does not answer."""
        if now < self._alone_until:
            return None
        count = max(1, int(self.per_minute * _HOLD_SECONDS / _MINUTE))
        state = self._database.shared_state(client.tenant)
        try:
            async with asyncio.timeout(self._time_limit):
                return await state.take_requests(client.key, count=count, per_minute=self.per_minute, now=now)
        except (StoreError, TimeoutError) as error:
            log_failure("looking up a rate limit", error)
            self._alone_until = now + _RETRY_SECONDS
            return None


class _HeldRequests:
    """Requests that this server may still serve, and until when."""

    def __init__(self) -> None:
        self.left = 0
        self.until = 0.0
        self.lock = asyncio.Lock()


class RateLimiter:
    """Limits the requests per minute of each key, and how many of them this process serves at a time.

    >>> limiter = RateLimiter(OwnAllowance(per_minute=60), concurrency=1)
    >>> async def start_two(client):
    ...     async with limiter.limit(client, now=0.0), limiter.limit(client, now=0.0):
    ...         pass
    >>> asyncio.run(start_two(Client(tenant="acme")))
    Traceback (most recent call last):
    ...
    brimful.server.errors.ApiError: too many concurrent requests: this API key may have 1 at a time
    """

    def __init__(self, allowance: OwnAllowance | SharedAllowance, *, concurrency: int) -> None:
        self._allowance = allowance
        self._concurrency = concurrency
        self._running: Counter[_KeyName] = Counter()

    @asynccontextmanager
    async def limit(self, client: Client, *, now: float) -> AsyncIterator[None]:
        """Count a request while it runs; reject it if the key is over its limits."""
        name = _name(client)
        if self._running[name] >= self._concurrency:
            message = f"too many concurrent requests: this API key may have {self._concurrency:,} at a time"
            raise ApiError("rate_limited", message, retry_after=1.0, limit="concurrency")
        self._running[name] += 1
        try:
            wait = await self._allowance.take(client, now=now)
            if wait:
                message = f"rate limit: {self._allowance.per_minute:,} requests per minute"
                raise ApiError("rate_limited", message, retry_after=wait, limit="requests_per_minute")
            yield
        finally:
            self._running[name] -= 1
            if not self._running[name]:
                del self._running[name]


def _name(client: Client) -> _KeyName:
    return (client.tenant, client.key)
