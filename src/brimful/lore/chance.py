"""Chance that can be replayed: the same room, entry and turn give the same number."""

import hashlib

import msgspec

_RANGE = 2.0**64


def roll(seed: str, *what: str | int) -> float:
    """Return a number from 0 to 1, which follows from what is rolled for alone.

    >>> roll("room", "entry", 7) == roll("room", "entry", 7), roll("room", "entry", 7) == roll("room", "entry", 8)
    (True, False)
    """
    data = msgspec.json.encode([seed, *what])
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest()) / _RANGE
