"""What stands between content and the disk. Every body that holds content is sealed before it is written.

A body is sealed for its place: its table, the id of its row, and whatever that row refers to. Without keys, bodies are
kept as they are.
"""

from brimful.errors import SealError
from brimful.stores.key_rows import key_rows
from brimful.stores.session import Session
from brimful.stores.tenant_keys import ADDRESS, TenantKeys, is_sealed, number_of
from brimful.stores.vault import no_key
from brimful.stores.xaes import DamagedError


def seal(session: Session, body: bytes, *place: str | bytes) -> bytes:
    """Return a body as it is kept at its place."""
    return body if session.keys is None else session.keys.seal(body, _spelled(place))


def unseal(session: Session, body: bytes, *place: str | bytes) -> bytes:
    """Return the body that was sealed for this place."""
    keys = session.keys
    if not is_sealed(body):
        if keys is not None and not keys.mixed:
            raise SealError(
                session.tenant, "clear", f"{_shown(place)} is in the clear; if that is right, run: brimful db encrypt"
            )
        return body
    if keys is None:
        raise no_key(session.tenant)
    try:
        return _knowing(session, keys, body).open(body, _spelled(place))
    except DamagedError:
        raise SealError(
            session.tenant, "damaged", f"{_shown(place)} was changed after it was sealed; restore a backup"
        ) from None


def address(session: Session, hash: str) -> str:
    """Return the name under which a content of that hash is kept, counted and embedded."""
    return hash if session.keys is None else session.keys.address(hash)


def is_keyed(address: str) -> bool:
    """Say whether an address tells nothing of its content."""
    return address.startswith(ADDRESS)


def _knowing(session: Session, keys: TenantKeys, body: bytes) -> TenantKeys:
    """Return keys that open a body, whose key another process may have made."""
    if not keys.knows(body):
        keys.learn(key_rows(session))
        if not keys.knows(body):
            raise SealError(session.tenant, "damaged", f"there is no key {number_of(body)}; restore a backup")
    return keys


def _spelled(place: tuple[str | bytes, ...]) -> bytes:
    """Return a place as one name; no part of it has a null character."""
    return b"\0".join([part if isinstance(part, bytes) else part.encode() for part in place])


def _shown(place: tuple[str | bytes, ...]) -> str:
    return f"{place[0]!s} {place[1]!s}"
