"""XAES-256-GCM (c2sp.org/XAES-256-GCM): AES-256-GCM with a 192-bit nonce.

With the 96-bit nonces of plain AES-GCM, one key can safely encrypt only about 2³² messages with random nonces. Here
the first half of the nonce derives a fresh key and the second half is the nonce under that key, so no counter is
needed.
"""

import os
from functools import lru_cache
from typing import Any, Final

from brimful.errors import MissingExtra

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 24
_PREFIX_BYTES: Final = 12  # bytes: what AES-GCM takes as a nonce
_BLOCK: Final = 16  # bytes of an AES block
_BITS: Final = 128  # of an AES block
_REDUCTION: Final = 0x87  # what CMAC adds where doubling lost a bit
# A new first half for each text would cost a derivation for each that is read. Of 2¹⁶ random second halves, two are the
# same with a probability of 2⁻⁶⁵.
_ENCRYPTIONS_PER_PREFIX: Final = 1 << 16
_DERIVED_KEYS: Final = 64  # held at once: each opens up to 2¹⁶ rows that one process wrote


class DamagedError(Exception):
    """What is sealed was changed, or was sealed with another key, or for another place."""


class Cipher:
    """Seals and opens with one key."""

    __slots__ = ("_derived", "_half", "_key", "_left", "_mask", "_refusal")

    def __init__(self, key: bytes) -> None:
        """Take a key of 32 bytes."""
        self._key = key
        self._refusal = _cryptography().exceptions.InvalidTag
        zero = int.from_bytes(self._encrypted(bytes(_BLOCK)))
        self._mask = (zero << 1) % (1 << _BITS) ^ (_REDUCTION if zero >> (_BITS - 1) else 0)
        self._derived = lru_cache(_DERIVED_KEYS)(self._derive)
        self._half = b""
        self._left = 0

    def __repr__(self) -> str:
        """Show nothing of the key."""
        return "Cipher(…)"

    def seal(self, text: bytes, bound: bytes) -> bytes:
        """Return a nonce and the sealed text, which opens only together with what it is bound to."""
        if self._left <= 0:  # two threads may count down at once
            self._half, self._left = os.urandom(_PREFIX_BYTES), _ENCRYPTIONS_PER_PREFIX
        self._left -= 1
        return self.seal_with(self._half + os.urandom(_PREFIX_BYTES), text, bound)

    def seal_with(self, nonce: bytes, text: bytes, bound: bytes) -> bytes:
        """Do the same with a nonce that is given, and must never be given again."""
        sealed: bytes = self._derived(nonce[:_PREFIX_BYTES]).encrypt(nonce[_PREFIX_BYTES:], text, bound)
        return nonce + sealed

    def open(self, sealed: bytes, bound: bytes) -> bytes:
        """Return the text."""
        if len(sealed) < NONCE_BYTES + _BLOCK:
            raise DamagedError
        try:
            text: bytes = self._derived(sealed[:_PREFIX_BYTES]).decrypt(
                sealed[_PREFIX_BYTES:NONCE_BYTES], sealed[NONCE_BYTES:], bound
            )
        except self._refusal:
            raise DamagedError from None
        return text

    def _derive(self, half: bytes) -> Any:
        """Return AES-GCM with the key that CMAC derives from the first half of a nonce."""
        blocks = [self._masked(bytes((0, part)) + b"X\0" + half) for part in (1, 2)]
        return _cryptography().aead.AESGCM(self._encrypted(b"".join(blocks)))

    def _masked(self, block: bytes) -> bytes:
        return (int.from_bytes(block) ^ self._mask).to_bytes(_BLOCK)

    def _encrypted(self, blocks: bytes) -> bytes:
        """Encrypt blocks one by one, as CMAC has it."""
        ciphers = _cryptography().ciphers
        encrypted: bytes = (
            ciphers.Cipher(ciphers.algorithms.AES256(self._key), ciphers.modes.ECB()).encryptor().update(blocks)
        )
        return encrypted


class _Library:
    """The parts of `cryptography` that are used. It is an extra: only who encrypts needs it."""

    def __init__(self) -> None:
        from cryptography import exceptions  # noqa: PLC0415
        from cryptography.hazmat.primitives import ciphers  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers import aead  # noqa: PLC0415

        self.exceptions = exceptions
        self.ciphers = ciphers
        self.aead = aead


@lru_cache(1)
def _cryptography() -> _Library:
    try:
        return _Library()
    except ImportError as error:
        raise MissingExtra("encryption", "encryption at rest") from error
