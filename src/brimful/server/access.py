"""Who may ask what: callers by their keys, or by being on the same machine."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, Literal, Protocol, get_args

from brimful.server.asked import Caller
from brimful.server.errors import Refusal
from brimful.stores import Database
from brimful.stores.callers import read_key

Scope = Literal["chat", "read", "write", "metrics"]
"""What a key allows: to ask models, to read what is kept, to change it, and to read what is measured of all tenants."""
SCOPES: Final[tuple[str, ...]] = get_args(Scope)
KEY_HEADER: Final = "x-brimful-key"
"""Where a caller's key stands if the other headers hold a key for the upstream."""

FRESH: Final = 5.0  # seconds for which a key is taken for known without being looked up
_MOST_KNOWN: Final = 10_000  # keys


class Access(Protocol):
    """Knows callers."""

    async def caller(self, headers: Mapping[str, str]) -> Caller:
        """Return who sent these headers; refuse a key that is not known."""
        ...


class Open:
    """Everybody who reaches the server is the same caller, and may do anything."""

    def __init__(self, tenant: str) -> None:
        """Take whose records they are."""
        self._caller = Caller(tenant=tenant, scopes=frozenset(SCOPES))

    async def caller(self, headers: Mapping[str, str]) -> Caller:
        """Return the one that there is."""
        del headers
        return self._caller


def key_in(headers: Mapping[str, str]) -> str:
    """Return the key that a caller sent, by our own header, as Anthropic's clients send it, or as all others do.

    >>> key_in({"authorization": "Bearer bf-1"}), key_in({"x-api-key": "bf-2"}), key_in({})
    ('bf-1', 'bf-2', '')
    """
    if KEY_HEADER in headers:
        return headers[KEY_HEADER].strip()
    if "x-api-key" in headers:
        return headers["x-api-key"].strip()
    kind, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else ""


def want_scope(caller: Caller, scope: Scope) -> None:
    """Refuse a caller whose key does not allow it."""
    if scope not in caller.scopes:
        raise Refusal("forbidden", f"this key has no scope {scope!r}")


class Keyed:
    """Knows callers by their keys, as a database keeps them. A key that was revoked holds for some seconds more."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        """Take an open database."""
        self._database = database
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[Caller, float]] = OrderedDict()

    async def caller(self, headers: Mapping[str, str]) -> Caller:
        """Return whose key it is."""
        key = key_in(headers)
        if not key:
            raise Refusal("key", "a key is needed: send one as a bearer token or as x-api-key")
        digest, now = hashlib.sha256(key.encode("utf-8", "replace")).digest(), self._clock()
        held = self._known.get(digest)
        if held is not None and 0 <= now - held[1] < FRESH:
            return held[0]
        caller = await self._looked_up(key)
        self._known[digest] = (caller, now)
        self._known.move_to_end(digest)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return caller

    async def _looked_up(self, key: str) -> Caller:
        presented = read_key(key)
        found = None if presented is None else await self._database.callers(presented.tenant).known(presented)
        if found is None:
            raise Refusal("key", "this key is not known, or was revoked")
        return Caller(tenant=found.tenant, key=found.id, scopes=frozenset(found.scopes))
