"""The data keys of one tenant, unwrapped, and the secret that derives content addresses and term hashes."""

import hashlib
import os
from functools import lru_cache
from typing import Final

import msgspec

from brimful.errors import EncryptionError
from brimful.stores.encryption.keys import Keys
from brimful.stores.encryption.xaes import KEY_BYTES, Cipher, DamagedError

ADDRESS_KEY: Final = 0  # the number of the secret that names
HEADER: Final = b"\0BS\1"  # begins what is sealed, and nothing that is not; its last byte is the version of the form
HEADER_BYTES: Final = 8  # with the number of the key
KEYED_PREFIX: Final = "k1:"  # begins an address that is keyed
_TOKEN_BYTES: Final = 10  # of a keyed term: among a million terms of a scope, two are one with a probability of 2⁻⁴¹
_CACHED_TERMS: Final = 65_536  # remembered: a scope's words come again and again
HASHED_TERM_PREFIX: Final = "k="  # begins a term that is keyed: no other term has this sign there


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A key as a store keeps it: wrapped. With `mixed`, the tenant may still have rows in the clear."""

    number: int
    wrapped: bytes
    kek: str
    created: float
    retired: float | None = None
    mixed: bool = False

    def __repr__(self) -> str:
        """Show nothing of the key, wrapped as it is."""
        return f"<KeyRow {self.number}, wrapped by {self.kek!r}>"


class TenantKeys:
    """Seals, opens, addresses and blinds for one tenant."""

    __slots__ = ("_naming", "_opened", "_terms", "current", "keys", "mixed", "rows", "tenant")

    def __init__(self, tenant: str, keys: Keys, rows: list[KeyRow]) -> None:
        """Open a tenant's keys."""
        self.tenant = tenant
        self.keys = keys
        self._opened: dict[bytes, tuple[Cipher, bytes]] = {}
        self.learn(rows)

    def __repr__(self) -> str:
        """Show nothing of the keys."""
        return f"<TenantKeys of {self.tenant!r}>"

    def learn(self, rows: list[KeyRow]) -> None:
        """Open the keys that are not open yet; the newest one seals from now on."""
        for row in rows:
            head = key_header(row.number)
            if row.number == ADDRESS_KEY:
                self._name(row)
            elif head not in self._opened:
                bound = head + self.tenant.encode() + b"\0"
                self._opened[head] = (Cipher(unwrap_secret(self.keys, self.tenant, row)), bound)
        self.current = rows[-1].number
        self.rows = rows

    def knows(self, sealed: bytes) -> bool:
        """Say whether the key that sealed a body was opened."""
        return sealed[:HEADER_BYTES] in self._opened

    def seal(self, body: bytes, place: bytes) -> bytes:
        """Return a body, sealed with the current key for its place."""
        head = key_header(self.current)
        cipher, bound = self._opened[head]
        return head + cipher.seal(body, bound + place)

    def open(self, sealed: bytes, place: bytes) -> bytes:
        """Return the body that was sealed for this place."""
        cipher, bound = self._opened[sealed[:HEADER_BYTES]]
        return cipher.open(sealed[HEADER_BYTES:], bound + place)

    def address(self, hash: str) -> str:
        """Return the address of a hash: the same for the same hash, and told by nobody who has no key."""
        return KEYED_PREFIX + hashlib.blake2b(hash.encode(), key=self._naming, digest_size=24).hexdigest()

    def token(self, scope: int, term: str) -> str:
        """Return the token of a term in a scope: the same for the same term, in this scope alone."""
        return _hash_term(self._terms, scope, term)

    def _name(self, row: KeyRow) -> None:
        secret = unwrap_secret(self.keys, self.tenant, row)
        self._naming = hashlib.blake2b(key=secret, digest_size=KEY_BYTES, person=b"brimful address").digest()
        self._terms = hashlib.blake2b(key=secret, digest_size=KEY_BYTES, person=b"brimful terms").digest()
        self.mixed = row.mixed


def key_header(number: int) -> bytes:
    """Return what begins a body that the key of this number seals."""
    return HEADER + number.to_bytes(HEADER_BYTES - len(HEADER))


def is_encrypted(body: bytes) -> bool:
    """Say whether a body is sealed."""
    return body.startswith(HEADER)


def key_number(body: bytes) -> int:
    """Return the number of the key that sealed a body."""
    return int.from_bytes(body[len(HEADER) : HEADER_BYTES])


@lru_cache(_CACHED_TERMS)
def _hash_term(key: bytes, scope: int, term: str) -> str:
    named = f"{scope:x}:{term}".encode("utf-8", "surrogatepass")
    return f"{scope:x}:{HASHED_TERM_PREFIX}{hashlib.blake2b(named, key=key, digest_size=_TOKEN_BYTES).hexdigest()}"


def new_key(keys: Keys, tenant: str, number: int, *, now: float, mixed: bool = False) -> KeyRow:
    """Return a new random key, wrapped."""
    return wrap_secret(
        keys, tenant, KeyRow(number=number, wrapped=b"", kek="", created=now, mixed=mixed), _random_key()
    )


def rewrap_key(keys: Keys, tenant: str, row: KeyRow, *, mixed: bool) -> KeyRow:
    """Return a key, wrapped anew with the current key of keys."""
    return wrap_secret(keys, tenant, msgspec.structs.replace(row, mixed=mixed), unwrap_secret(keys, tenant, row))


def wrap_secret(keys: Keys, tenant: str, row: KeyRow, secret: bytes) -> KeyRow:
    """Return the row of a secret. What the row says of itself is bound to it."""
    named = msgspec.structs.replace(row, kek=keys.id)
    return msgspec.structs.replace(named, wrapped=keys.wrap(secret, _associated_data(tenant, named)))


def unwrap_secret(keys: Keys, tenant: str, row: KeyRow) -> bytes:
    """Return the secret of a row."""
    if row.kek not in keys.ids:
        raise EncryptionError(
            tenant,
            "wrong-key",
            f"key {row.number} was wrapped by the key {row.kek}, and those given are {', '.join(keys.ids)}; "
            "give that one as well, in BRIMFUL_KEY_PREVIOUS",
        )
    try:
        return keys.unwrap(row.kek, row.wrapped, _associated_data(tenant, row))
    except DamagedError:
        raise EncryptionError(
            tenant, "damaged", f"key {row.number} was changed after it was wrapped; restore a backup"
        ) from None


def _associated_data(tenant: str, row: KeyRow) -> bytes:
    return "\0".join(("brimful key", tenant, str(row.number), row.kek, "mixed" if row.mixed else "sealed")).encode()


def _random_key() -> bytes:
    return os.urandom(KEY_BYTES)
