"""API keys of a tenant. A key is shown once, when it is created; only its digest is stored."""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

import msgspec

from brimful.core import validation
from brimful.errors import InvalidValue
from brimful.stores.session import Row, Session
from brimful.stores.transactions import Transactions

PREFIX: Final = "bf-"
_SECRET_BYTES: Final = 32  # random bytes: nobody guesses them, so that a plain digest will do
_LIST: Final = "SELECT id, name, scopes, created, revoked FROM api_keys WHERE tenant = :tenant ORDER BY created, id"
_FIND: Final = "SELECT id, name, scopes, created, revoked, digest FROM api_keys WHERE tenant = :tenant AND id = :id"


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as it may be shown. `revoked` is when it ceased to hold."""

    id: str
    tenant: str
    name: str
    scopes: tuple[str, ...]
    created: float
    revoked: float | None = None


class PresentedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as a caller shows it: it says itself whose it is, so that no tenant's rows are searched for another's."""

    tenant: str
    id: str
    secret: str

    def __repr__(self) -> str:
        """Show no secret."""
        return f"Presented({self.tenant!r}, {self.id!r})"


def parse_api_key(key: str) -> PresentedKey | None:
    """Take a key apart; None if it is none of ours.

    >>> parse_api_key("sk-something-else") is None
    True
    """
    tenant, _, rest = key.removeprefix(PREFIX).partition(".")
    id, _, secret = rest.partition(".")
    if not key.startswith(PREFIX) or not key.isascii() or not (tenant and id and secret):
        return None
    try:
        name = base64.urlsafe_b64decode(tenant + "=" * (-len(tenant) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
    return PresentedKey(tenant=name, id=id, secret=secret) if name and "\0" not in name + id else None


class ApiKeys(Transactions):
    """The keys of one tenant's callers."""

    async def create(self, *, name: str, scopes: Sequence[str], at: float) -> tuple[ApiKey, str]:
        """Make a key, and return it as it may be shown, and as it is: now, and never again."""
        validation.require_unicode("name", name, InvalidValue)
        if "\0" in name:
            raise InvalidValue("name", "must not contain a null character")
        id, secret = secrets.token_hex(6), secrets.token_urlsafe(_SECRET_BYTES)
        caller = ApiKey(id=id, tenant=self.tenant, name=name, scopes=tuple(scopes), created=at)
        await self._write(lambda session: _insert(session, caller, _digest(secret)))
        tenant = base64.urlsafe_b64encode(self.tenant.encode()).decode().rstrip("=")
        return caller, f"{PREFIX}{tenant}.{id}.{secret}"

    async def listed(self) -> list[ApiKey]:
        """Return all keys, the oldest first."""
        found = await self._read(lambda session: session.rows(_LIST))
        return [_decode_key(self.tenant, row) for row in found]

    async def revoke(self, id: str, *, at: float) -> bool:
        """Let a key hold no longer; False if there is none of that id that does."""
        sql = "UPDATE api_keys SET revoked = :at WHERE tenant = :tenant AND id = :id AND revoked IS NULL"
        return bool(await self._write(lambda session: session.run(sql, id=id, at=at)))

    async def known(self, presented: PresentedKey) -> ApiKey | None:
        """Return whose key was presented; None if it is none, or holds no longer. Guessing takes as long as knowing."""
        row = await self._read(lambda session: session.row(_FIND, id=presented.id))
        digest = bytes(row[-1]) if row else b"\0" * hashlib.sha256().digest_size
        same = hmac.compare_digest(digest, _digest(presented.secret))
        if row is None or not same or row[4] is not None:
            return None
        return _decode_key(self.tenant, row)


def _insert(session: Session, caller: ApiKey, digest: bytes) -> None:
    session.run(
        "INSERT INTO api_keys (tenant, id, digest, name, scopes, created) "
        "VALUES (:tenant, :id, :digest, :name, :scopes, :created)",
        id=caller.id,
        digest=digest,
        name=caller.name,
        scopes=" ".join(caller.scopes),
        created=caller.created,
    )


def _decode_key(tenant: str, row: Row) -> ApiKey:
    id, name, scopes, created, revoked = row[:5]
    return ApiKey(id=id, tenant=tenant, name=name, scopes=tuple(scopes.split()), created=created, revoked=revoked)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(b"brimful caller " + secret.encode()).digest()
