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
_PREFIX_BYTES: Final = 12  # the nonce size of AES-GCM
_BLOCK: Final = 16  # bytes of an AES block
_BITS: Final = 128  # of an AES block
_REDUCTION: Final = 0x87  # the CMAC constant for 128-bit blocks
# Reusing a nonce prefix saves a key derivation for each value that is read. Of 2¹⁶ random second halves, two are equal
# with a probability of 2⁻⁶⁵.
_ENCRYPTIONS_PER_PREFIX: Final = 1 << 16
_DERIVED_KEYS: Final = 64  # cached; each decrypts up to 2¹⁶ rows that one process wrote


class DamagedError(Exception):
    """The ciphertext, the key or the associated data does not match."""


class Cipher:
    """Encrypts and decrypts with one key."""

    __slots__ = ("_derived", "_half", "_key", "_left", "_mask", "_refusal")

    def __init__(self, key: bytes) -> None:
        """Take a key of 32 bytes."""
        self._key = key
        self._refusal = _cryptography().exceptions.InvalidTag
        zero = int.from_bytes(self._encrypt_blocks(bytes(_BLOCK)))
        self._mask = (zero << 1) % (1 << _BITS) ^ (_REDUCTION if zero >> (_BITS - 1) else 0)
        self._derived = lru_cache(_DERIVED_KEYS)(self._derive)
        self._half = b""
        self._left = 0

    def __repr__(self) -> str:
        """Do not show the key."""
        return "Cipher(…)"

    def encrypt(self, text: bytes, bound: bytes) -> bytes:
        """Return the nonce and the ciphertext, bound to associated data."""
        if self._left <= 0:  # two threads may decrement it at once
            self._half, self._left = os.urandom(_PREFIX_BYTES), _ENCRYPTIONS_PER_PREFIX
        self._left -= 1
        return self.encrypt_with(self._half + os.urandom(_PREFIX_BYTES), text, bound)

    def encrypt_with(self, nonce: bytes, text: bytes, bound: bytes) -> bytes:
        """Encrypt with a given nonce, which must never be reused."""
        ciphertext: bytes = self._derived(nonce[:_PREFIX_BYTES]).encrypt(nonce[_PREFIX_BYTES:], text, bound)
        return nonce + ciphertext

    def decrypt(self, ciphertext: bytes, bound: bytes) -> bytes:
        """Return the plain text, or raise `DamagedError`."""
        if len(ciphertext) < NONCE_BYTES + _BLOCK:
            raise DamagedError
        try:
            text: bytes = self._derived(ciphertext[:_PREFIX_BYTES]).decrypt(
                ciphertext[_PREFIX_BYTES:NONCE_BYTES], ciphertext[NONCE_BYTES:], bound
            )
        except self._refusal:
            raise DamagedError from None
        return text

    def _derive(self, half: bytes) -> Any:
        """Return AES-GCM with the key derived by CMAC from the first half of a nonce."""
        blocks = [self._apply_mask(bytes((0, part)) + b"X\0" + half) for part in (1, 2)]
        return _cryptography().aead.AESGCM(self._encrypt_blocks(b"".join(blocks)))

    def _apply_mask(self, block: bytes) -> bytes:
        return (int.from_bytes(block) ^ self._mask).to_bytes(_BLOCK)

    def _encrypt_blocks(self, blocks: bytes) -> bytes:
        """Encrypt single blocks, as CMAC requires."""
        ciphers = _cryptography().ciphers
        encrypted: bytes = (
            ciphers.Cipher(ciphers.algorithms.AES256(self._key), ciphers.modes.ECB()).encryptor().update(blocks)
        )
        return encrypted


class _Library:
    """The parts of `cryptography` in use. It is an optional dependency."""

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
