"""XAES-256-GCM: the test vectors of the specification, and what must not decrypt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.stores.encryption.xaes import Cipher, DamagedError

NONCE = b"ABCDEFGHIJKLMNOPQRSTUVWX"


@pytest.mark.parametrize(
    ("key", "bound", "sealed"),
    [  # c2sp.org/XAES-256-GCM, Test vectors
        (b"\x01" * 32, b"", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
        (b"\x03" * 32, b"c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"),
    ],
)
def test_the_vectors_of_the_specification(key, bound, sealed):
    assert Cipher(key).encrypt_with(NONCE, b"XAES-256-GCM", bound) == NONCE + bytes.fromhex(sealed)


@given(st.binary(min_size=32, max_size=32), st.binary(), st.binary())
def test_encrypted_values_are_decrypted(key, text, bound):
    assert Cipher(key).decrypt(Cipher(key).encrypt(text, bound), bound) == text


@given(st.binary(max_size=40), st.integers(0, 10**6), st.integers(0, 7))
def test_no_bit_of_it_may_be_changed(text, place, bit):
    cipher = Cipher(bytes(range(32)))
    sealed = bytearray(cipher.encrypt(text, b"here"))
    sealed[place % len(sealed)] ^= 1 << bit
    with pytest.raises(DamagedError):
        cipher.decrypt(bytes(sealed), b"here")


@pytest.mark.parametrize("length", [0, 1, 11, 12, 23, 24, 39])
def test_truncated_ciphertext_does_not_open(length):
    cipher = Cipher(bytes(range(32)))
    with pytest.raises(DamagedError):
        cipher.decrypt(cipher.encrypt(b"", b"")[:length], b"")


def test_ciphertext_opens_only_in_its_place_and_with_its_key():
    sealed = Cipher(bytes(range(32))).encrypt(b"text", b"here")
    for key, bound in ((bytes(range(32)), b"there"), (bytes(range(1, 33)), b"here")):
        with pytest.raises(DamagedError):
            Cipher(key).decrypt(sealed, bound)


def test_no_nonce_comes_twice():
    cipher = Cipher(bytes(range(32)))
    assert len({cipher.encrypt(b"", b"")[:24] for _ in range(70_000)}) == 70_000


def test_nothing_of_the_key_is_shown():
    assert repr(Cipher(bytes(range(32)))) == "Cipher(…)"
