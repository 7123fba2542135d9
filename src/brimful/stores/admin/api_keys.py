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
from brimful.records.base import validate_id
from brimful.stores.session import Row, Session
from brimful.stores.transactions import Transactions

PREFIX: Final = "bf-"
_SECRET_BYTES: Final = 32  # random bytes; too many to guess, so a plain digest is enough
_SCOPES_OF_ALL: Final = frozenset({"admin", "metrics", "keys"})  # what they show is about all users
_USE_SECONDS: Final = 60.0  # the time of last use is as precise as this, so that most requests write nothing
_COLUMNS: Final = "id, name, scopes, created, revoked, user_id, expires, models, policies, used"
_ORDER: Final = "ORDER BY created, id LIMIT :limit OFFSET :after"
_LIST: Final = f"SELECT {_COLUMNS} FROM api_keys WHERE tenant = :tenant {_ORDER}"  # noqa: S608 - constant
_FIND: Final = f"SELECT {_COLUMNS}, digest FROM api_keys WHERE tenant = :tenant AND id = :id"  # noqa: S608
_USE: Final = "UPDATE api_keys SET used = :at WHERE tenant = :tenant AND id = :id AND (used IS NULL OR used <= :before)"


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key without its secret. `user` is the only user it may act for.

    `models` are patterns of the models that it may use, and `policies` the names of policies; None allows all.
    `revoked` and `expires` are times, and `used` that of its last use, to a minute.
    """

    id: str
    tenant: str
    name: str
    scopes: tuple[str, ...]
    created: float
    revoked: float | None = None
    user: str | None = None
    expires: float | None = None
    models: tuple[str, ...] | None = None
    policies: tuple[str, ...] | None = None
    used: float | None = None


class PresentedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as sent by a client. It names its tenant, so only that tenant's keys are searched."""

    tenant: str
    id: str
    secret: str

    def __repr__(self) -> str:
        """Do not show the secret."""
        return f"Presented({self.tenant!r}, {self.id!r})"


def parse_api_key(key: str) -> PresentedKey | None:
    """Parse a key; None if it is not one of ours.

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
    """The API keys of one tenant."""

    async def create(
        self,
        *,
        name: str,
        scopes: Sequence[str],
        at: float,
        user: str | None = None,
        expires: float | None = None,
        models: Sequence[str] | None = None,
        policies: Sequence[str] | None = None,
    ) -> tuple[ApiKey, str]:
        """Create a key, bound to a user if one is given, and limited to `models` and `policies` if these are.

        Returns its description, and the key itself, which cannot be retrieved again.
        """
        validation.require_unicode("name", name, InvalidValue)
        if "\0" in name:
            raise InvalidValue("name", "must not contain a null character")
        if user is not None:
            validate_id("user", user)
            if wide := sorted(set(scopes) & _SCOPES_OF_ALL):
                raise InvalidValue("scopes", f"a key that is bound to a user cannot have the scope {wide[0]!r}")
        if expires is not None and validation.require_calendar_time("expires", expires, InvalidValue) <= at:
            raise InvalidValue("expires", "must be in the future")
        id, secret = secrets.token_hex(6), secrets.token_urlsafe(_SECRET_BYTES)
        key = ApiKey(
            id=id,
            tenant=self.tenant,
            name=name,
            scopes=tuple(scopes),
            created=at,
            user=user,
            expires=expires,
            models=_validate_names("models", models),
            policies=_validate_names("policies", policies),
        )
        await self._write(lambda session: _insert(session, key, _digest(secret)))
        tenant = base64.urlsafe_b64encode(self.tenant.encode()).decode().rstrip("=")
        return key, f"{PREFIX}{tenant}.{id}.{secret}"

    async def list_keys(self, *, after: int = 0, limit: int = validation.MAX_INTEGER) -> list[ApiKey]:
        """Return keys, oldest first: `limit` of them `after` so many others."""
        found = await self._read(lambda session: session.rows(_LIST, after=after, limit=limit))
        return [_decode_key(self.tenant, row) for row in found]

    async def revoke(self, id: str, *, at: float) -> bool:
        """Revoke a key. Returns False if there is no active key with this id."""
        sql = "UPDATE api_keys SET revoked = :at WHERE tenant = :tenant AND id = :id AND revoked IS NULL"
        return bool(await self._write(lambda session: session.run(sql, id=id, at=at)))

    async def verify(self, presented: PresentedKey) -> ApiKey | None:
        """Return the key if it is valid and not revoked, else None, in constant time. It may have expired."""
        row = await self._read(lambda session: session.row(_FIND, id=presented.id))
        digest = bytes(row[-1]) if row else b"\0" * hashlib.sha256().digest_size
        same = hmac.compare_digest(digest, _digest(presented.secret))
        if row is None or not same or row[4] is not None:
            return None
        return _decode_key(self.tenant, row)

    async def note_use(self, id: str, *, at: float) -> None:
        """Store the time of a use, unless one was stored in the minute before."""
        await self._write(lambda session: session.run(_USE, id=id, at=at, before=at - _USE_SECONDS))


def _validate_names(field: str, names: Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not names:
        raise InvalidValue(field, "must not be empty: leave it out to allow all")
    for name in names:
        validation.require_id(field, name, InvalidValue)
        if "\0" in name:
            raise InvalidValue(field, "must not contain a null character")
    return tuple(dict.fromkeys(names))


def _insert(session: Session, key: ApiKey, digest: bytes) -> None:
    session.run(
        "INSERT INTO api_keys (tenant, id, digest, name, scopes, created, user_id, expires, models, policies) "
        "VALUES (:tenant, :id, :digest, :name, :scopes, :created, :user, :expires, :models, :policies)",
        id=key.id,
        digest=digest,
        name=key.name,
        scopes=" ".join(key.scopes),
        created=key.created,
        user=key.user,
        expires=key.expires,
        models=_encode_names(key.models),
        policies=_encode_names(key.policies),
    )


def _decode_key(tenant: str, row: Row) -> ApiKey:
    id, name, scopes, created, revoked, user, expires, models, policies, used = row[:10]
    return ApiKey(
        id=id,
        tenant=tenant,
        name=name,
        scopes=tuple(scopes.split()),
        created=created,
        revoked=revoked,
        user=user,
        expires=expires,
        models=_decode_names(models),
        policies=_decode_names(policies),
        used=used,
    )


def _encode_names(names: tuple[str, ...] | None) -> str | None:
    return None if names is None else msgspec.json.encode(names).decode()


def _decode_names(stored: str | None) -> tuple[str, ...] | None:
    return None if stored is None else msgspec.json.decode(stored, type=tuple[str, ...])


def _digest(secret: str) -> bytes:
    return hashlib.sha256(b"brimful api key " + secret.encode()).digest()
