"""The data keys of one tenant, unwrapped, and the secret that derives content addresses and term hashes."""

import hashlib
import os
from functools import lru_cache
from typing import Final

import msgspec

from brimful.errors import EncryptionError
from brimful.stores.encryption.keys import Keys
from brimful.stores.encryption.xaes import KEY_BYTES, Cipher, DamagedError

ADDRESS_KEY: Final = 0  # the number of the key that derives addresses and term hashes
HEADER: Final = b"\0BS\1"  # starts every encrypted value and nothing else; the last byte is the format version
HEADER_BYTES: Final = 8  # including the number of the key
KEYED_PREFIX: Final = "k1:"  # starts a keyed address
_TOKEN_BYTES: Final = 10  # of a hashed term: a collision among a million terms of a scope has a probability of 2⁻⁴¹
_CACHED_TERMS: Final = 65_536  # the same terms occur again and again
HASHED_TERM_PREFIX: Final = "k="  # starts a hashed term; no other term has an equals sign there


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A wrapped data key. With `mixed`, the tenant may still have rows in plain text."""

    number: int
    wrapped: bytes
    kek: str
    created: float
    retired: float | None = None
    mixed: bool = False

    def __repr__(self) -> str:
        """Do not show the wrapped key."""
        return f"<KeyRow {self.number}, wrapped by {self.kek!r}>"


class TenantKeys:
    """Encrypts, decrypts and hashes for one tenant."""

    __slots__ = ("_ciphers", "_naming", "_terms", "current", "keys", "mixed", "rows", "tenant")

    def __init__(self, tenant: str, keys: Keys, rows: list[KeyRow]) -> None:
        self.tenant = tenant
        self.keys = keys
        self._ciphers: dict[bytes, tuple[Cipher, bytes]] = {}
        self.update(rows)

    def __repr__(self) -> str:
        """Do not show the keys."""
        return f"<TenantKeys of {self.tenant!r}>"

    def update(self, rows: list[KeyRow]) -> None:
        """Unwrap keys that are new. The newest one encrypts from now on."""
        for row in rows:
            head = key_header(row.number)
            if row.number == ADDRESS_KEY:
                self._name(row)
            elif head not in self._ciphers:
                bound = head + self.tenant.encode() + b"\0"
                self._ciphers[head] = (Cipher(unwrap_secret(self.keys, self.tenant, row)), bound)
        self.current = rows[-1].number
        self.rows = rows

    def has_key_of(self, ciphertext: bytes) -> bool:
        """Tell whether the key of an encrypted value is known."""
        return ciphertext[:HEADER_BYTES] in self._ciphers

    def encrypt(self, body: bytes, bindings: bytes) -> bytes:
        """Encrypt a value with the current key."""
        head = key_header(self.current)
        cipher, bound = self._ciphers[head]
        return head + cipher.encrypt(body, bound + bindings)

    def decrypt(self, ciphertext: bytes, bindings: bytes) -> bytes:
        """Decrypt a value that was encrypted with the same bindings."""
        cipher, bound = self._ciphers[ciphertext[:HEADER_BYTES]]
        return cipher.decrypt(ciphertext[HEADER_BYTES:], bound + bindings)

    def address(self, hash: str) -> str:
        return KEYED_PREFIX + hashlib.blake2b(hash.encode(), key=self._naming, digest_size=24).hexdigest()

    def token(self, scope: int, term: str) -> str:
        """Return the keyed token of a term, which is different in every scope."""
        return _hash_term(self._terms, scope, term)

    def _name(self, row: KeyRow) -> None:
        secret = unwrap_secret(self.keys, self.tenant, row)
        self._naming = hashlib.blake2b(key=secret, digest_size=KEY_BYTES, person=b"brimful address").digest()
        self._terms = hashlib.blake2b(key=secret, digest_size=KEY_BYTES, person=b"brimful terms").digest()
        self.mixed = row.mixed


def key_header(number: int) -> bytes:
    """Return the first bytes of values encrypted with this key."""
    return HEADER + number.to_bytes(HEADER_BYTES - len(HEADER))


def is_encrypted(body: bytes) -> bool:
    """Tell whether a value is encrypted."""
    return body.startswith(HEADER)


def key_number(body: bytes) -> int:
    """Return the number of the key of an encrypted value."""
    return int.from_bytes(body[len(HEADER) : HEADER_BYTES])


@lru_cache(_CACHED_TERMS)
def _hash_term(key: bytes, scope: int, term: str) -> str:
    named = f"{scope:x}:{term}".encode("utf-8", "surrogatepass")
    return f"{scope:x}:{HASHED_TERM_PREFIX}{hashlib.blake2b(named, key=key, digest_size=_TOKEN_BYTES).hexdigest()}"


def new_key(keys: Keys, tenant: str, number: int, *, now: float, mixed: bool = False) -> KeyRow:
    """Return a new random key, wrapped."""
    return wrap_secret(
        keys, tenant, KeyRow(number=number, wrapped=b"", kek="", created=now, mixed=mixed), os.urandom(KEY_BYTES)
    )


def rewrap_key(keys: Keys, tenant: str, row: KeyRow, *, mixed: bool) -> KeyRow:
    """Wrap a key again with the current key."""
    return wrap_secret(keys, tenant, msgspec.structs.replace(row, mixed=mixed), unwrap_secret(keys, tenant, row))


def wrap_secret(keys: Keys, tenant: str, row: KeyRow, secret: bytes) -> KeyRow:
    """Wrap a secret. The other columns of the row are bound to it."""
    named = msgspec.structs.replace(row, kek=keys.id)
    return msgspec.structs.replace(named, wrapped=keys.wrap(secret, _associated_data(tenant, named)))


def unwrap_secret(keys: Keys, tenant: str, row: KeyRow) -> bytes:
    if row.kek not in keys.ids:
        raise EncryptionError(
            tenant,
            "wrong-key",
            f"key {row.number} is wrapped by key {row.kek}, which is not among the keys given ({', '.join(keys.ids)}); "
            "add it to BRIMFUL_KEY_PREVIOUS",
        )
    try:
        return keys.unwrap(row.kek, row.wrapped, _associated_data(tenant, row))
    except DamagedError:
        raise EncryptionError(
            tenant, "damaged", f"key {row.number} was changed after it was wrapped; restore a backup"
        ) from None


def _associated_data(tenant: str, row: KeyRow) -> bytes:
    return "\0".join(("brimful key", tenant, str(row.number), row.kek, "mixed" if row.mixed else "encrypted")).encode()
