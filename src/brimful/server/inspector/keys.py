"""Endpoints for API keys and limits. A key never makes one that can do more than itself."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Literal

from brimful.records.limits import LimitedKind, LimitsInUse, UsageLimits
from brimful.server.access import Client
from brimful.server.errors import ApiError
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import KeyBody, PageQuery, cut_page
from brimful.server.inspector.views import View, to_view
from brimful.server.limits import Limiter
from brimful.server.tenants import Tenants
from brimful.stores import ApiKey, ApiKeys


class KeyList(View, frozen=True, kw_only=True):
    """API keys of the tenant, oldest first, without their secrets. `next` continues the list; null at its end."""

    keys: tuple[ApiKey, ...]
    next: int | None


class NewKey(ApiKey, frozen=True, kw_only=True):
    """A new API key. The `key` itself is shown only here."""

    key: str


class RevokedKey(View, frozen=True, kw_only=True):
    """Confirms that an API key was revoked."""

    id: str
    revoked: Literal[True] = True


class LimitList(View, frozen=True, kw_only=True):
    """Limits of single keys and users, with what they used, and the limits of all others by kind: `key` and `user`.

    `next` continues the list; null at its end.
    """

    limits: tuple[LimitsInUse, ...]
    next: int | None
    defaults: dict[LimitedKind, UsageLimits]


class Keys:
    """Endpoints for the API keys of a tenant, and for what they and users may use."""

    def __init__(self, tenants: Tenants, limiter: Limiter, *, clock: Callable[[], float]) -> None:
        self._tenants = tenants
        self._limiter = limiter
        self._clock = clock

    async def list_all(self, call: Call) -> KeyList:
        query: PageQuery = call.query
        keys = await self._keys(call).list_keys(after=query.after, limit=query.limit + 1)
        page, following = cut_page(keys, query)
        return KeyList(keys=page, next=following)

    async def create(self, call: Call) -> NewKey:
        """Make a key. What the body leaves out is limited as the key that asks."""
        body: KeyBody = call.body
        maker, keys = call.client, self._keys(call)
        _require_all("scope", body.scopes, lambda scope: scope in maker.scopes)
        _require_all("model", body.models or (), lambda model: _covers_model(maker, model))
        _require_all("policy", body.policies or (), lambda name: maker.policies is None or name in maker.policies)
        if body.expires is not None and maker.expires is not None and body.expires > maker.expires:
            raise _exceeds(f"it expires at {maker.expires:.0f} itself", "expires")
        record, key = await keys.create(
            name=body.name,
            scopes=body.scopes,
            at=self._clock(),
            user=body.user,
            expires=maker.expires if body.expires is None else body.expires,
            models=maker.models if body.models is None else body.models,
            policies=maker.policies if body.policies is None else body.policies,
        )
        return to_view(NewKey, record, key=key)

    async def revoke(self, call: Call) -> RevokedKey:
        id = call.name()
        if not await self._keys(call).revoke(id, at=self._clock()):
            raise ApiError("not_found", f"there is no active key {id[:80]!r}", code="key_not_found", param="id")
        return RevokedKey(id=id)

    async def list_limits(self, call: Call) -> LimitList:
        """Return limits, and what was used of them."""
        query: PageQuery = call.query
        limits = self._tenants.database.limits(call.tenant)
        page, following = cut_page(await limits.list_own(after=query.after, limit=query.limit + 1), query)
        found = await limits.in_use(page, now=self._clock())
        return LimitList(limits=tuple(found), next=following, defaults=dict(self._limiter.defaults))

    def _keys(self, call: Call) -> ApiKeys:
        """Return the keys of the tenant. Without a key of its own, a client cannot be trusted with them."""
        if not call.client.key:
            message = "this server requires no API keys, so they cannot be managed over HTTP: use `brimful api-key`"
            raise ApiError("forbidden", message, code="no_api_key")
        return self._tenants.database.api_keys(call.tenant)


def _require_all(what: str, names: Iterable[str], has: Callable[[str], bool]) -> None:
    for name in names:
        if not has(name):
            raise _exceeds(f"it does not have the {what} {name[:80]!r}", {"policy": "policies"}.get(what, f"{what}s"))


def _exceeds(why: str, param: str) -> ApiError:
    message = f"{param}: this API key cannot make a key that can do more than itself, and {why}"
    return ApiError("forbidden", message, code="exceeds_own_key", param=param)


def _covers_model(maker: Client, pattern: str) -> bool:
    return maker.models is None or any(covers(own, pattern) for own in maker.models)


def covers(wide: str, narrow: str) -> bool:
    """Return whether a pattern surely matches whatever another one matches.

    >>> covers("gpt-4o*", "gpt-4o-mini*"), covers("gpt-?", "gpt-5"), covers("gpt-?", "gpt-*"), covers("*", "[ab]")
    (True, True, False, False)
    """
    if wide == narrow:
        return True
    # A `*` also matches the wildcards of the other pattern, and so what these match. A `?` or a set may match the
    # character `*` itself, and a literal may match one from within a set.
    is_literal, has_only_stars = not set(narrow) & set("*?["), not set(wide) & set("?[")
    return fnmatchcase(narrow, wide) and (is_literal or (has_only_stars and "[" not in narrow))
