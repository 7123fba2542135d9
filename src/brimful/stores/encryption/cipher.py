"""Encrypt and decrypt stored values.

Every value with content is encrypted before it is written. Its table, row id and references are bound to it as
associated data. Without keys, values are stored in plain text.
"""

from brimful.errors import EncryptionError
from brimful.stores.encryption.keyring import missing_key_error, read_keys
from brimful.stores.encryption.tenant_keys import KEYED_PREFIX, TenantKeys, is_encrypted, key_number
from brimful.stores.encryption.xaes import DamagedError
from brimful.stores.session import Session


def encrypt(session: Session, body: bytes, *bindings: str | bytes) -> bytes:
    """Encrypt a value, bound to its table, row and references. Without keys, it is returned unchanged."""
    return body if session.keys is None else session.keys.encrypt(body, _associated_data(bindings))


def decrypt(session: Session, body: bytes, *bindings: str | bytes) -> bytes:
    """Decrypt a value that was encrypted with the same bindings."""
    keys = session.keys
    if not is_encrypted(body):
        if keys is not None and not keys.mixed:
            raise EncryptionError(
                session.tenant,
                "clear",
                f"{_describe(bindings)} is not encrypted; if that is expected, run: brimful db encrypt",
            )
        return body
    if keys is None:
        raise missing_key_error(session.tenant)
    try:
        return _keys_for(session, keys, body).decrypt(body, _associated_data(bindings))
    except DamagedError:
        raise EncryptionError(
            session.tenant, "damaged", f"{_describe(bindings)} was changed after it was encrypted; restore a backup"
        ) from None


def storage_address(session: Session, hash: str) -> str:
    """Return the address of a content hash: a keyed hash if the store is encrypted."""
    return hash if session.keys is None else session.keys.address(hash)


def is_keyed_address(address: str) -> bool:
    """Tell whether an address is a keyed hash."""
    return address.startswith(KEYED_PREFIX)


def _keys_for(session: Session, keys: TenantKeys, body: bytes) -> TenantKeys:
    """Return keys that can decrypt a value. Another process may have added a key."""
    if not keys.has_key_of(body):
        keys.update(read_keys(session))
        if not keys.has_key_of(body):
            raise EncryptionError(session.tenant, "damaged", f"there is no key {key_number(body)}; restore a backup")
    return keys


def _associated_data(bindings: tuple[str | bytes, ...]) -> bytes:
    """Join the parts, none of which contains a null character."""
    return b"\0".join([part if isinstance(part, bytes) else part.encode() for part in bindings])


def _describe(bindings: tuple[str | bytes, ...]) -> str:
    return f"{bindings[0]!s} {bindings[1]!s}"
