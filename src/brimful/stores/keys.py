"""Keys that wrap keys: they are given from outside, and never written into a store."""

import base64
import binascii
import hashlib
from typing import Final, Literal, get_args

from brimful.errors import InvalidValue
from brimful.stores.xaes import KEY_BYTES, Cipher

Search = Literal["none", "terms", "vectors"]
"""What may be searched in a sealed store: nothing; by words; by words, and by vectors that the database reads."""
SEARCHES: Final[tuple[str, ...]] = get_args(Search)

_LEAST_VARIED: Final = 8  # different bytes; of 32 random ones, nearly all differ
_HOW: Final = "make one with: openssl rand -base64 32"


class Keys:
    """The key that wraps the keys of data, and previous ones that still unwrap what they wrapped.

    A key is 32 random bytes, or those as base64. Its id is a fingerprint, so that none has to be given.
    """

    __slots__ = ("_ciphers", "id", "search")

    def __init__(self, current: str | bytes, *previous: str | bytes, search: Search = "terms") -> None:
        """Take the current key and any number of previous ones."""
        if search not in SEARCHES:
            raise InvalidValue("search", f"must be one of {', '.join(SEARCHES)}, not {search!r}")
        self.search: Search = search
        secrets = [key_bytes("key", current), *(key_bytes("previous key", key) for key in previous)]
        self.id: str = fingerprint(secrets[0])
        self._ciphers = {fingerprint(secret): Cipher(secret) for secret in secrets}

    def __repr__(self) -> str:
        """Show ids, and nothing of the keys."""
        previous = "".join(f", {id!r}" for id in self.ids[1:])
        return f"<Keys {self.id!r}{previous}, search={self.search!r}>"

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all keys, that of the current one first."""
        return tuple(self._ciphers)

    def wrap(self, secret: bytes, bound: bytes) -> bytes:
        """Return a secret, wrapped with the current key."""
        return self._ciphers[self.id].seal(secret, bound)

    def unwrap(self, id: str, wrapped: bytes, bound: bytes) -> bytes:
        """Return a secret that the key of this id wrapped."""
        return self._ciphers[id].open(wrapped, bound)


def key_bytes(field: str, given: str | bytes) -> bytes:
    """Return the 32 bytes of a key that is given as they are, or as base64.

    >>> key_bytes("BRIMFUL_KEY", "correct horse battery staple")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidValue: BRIMFUL_KEY: is not base64; a key is 32 random bytes; \
make one with: openssl rand -base64 32
    """
    if not isinstance(given, str | bytes):
        raise InvalidValue(field, f"must be {KEY_BYTES} bytes, or those as base64; {_HOW}")
    raw = _decoded(field, given) if isinstance(given, str) else given
    if len(raw) != KEY_BYTES:
        raise InvalidValue(field, f"has {len(raw)} bytes; a key is {KEY_BYTES} random bytes; {_HOW}")
    if len(set(raw)) < _LEAST_VARIED:
        raise InvalidValue(field, f"is no random key, but the same bytes again and again; {_HOW}")
    return raw


def fingerprint(key: bytes) -> str:
    """Return the id of a key, which tells nothing of it."""
    return hashlib.blake2b(b"id", key=key, digest_size=8, person=b"brimful key").hexdigest()


def _decoded(field: str, text: str) -> bytes:
    plain = text.strip().translate(str.maketrans("-_", "+/"))
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):  # a ValueError is a sign beyond ASCII
        raise InvalidValue(field, f"is not base64; a key is {KEY_BYTES} random bytes; {_HOW}") from None
