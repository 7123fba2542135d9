"""Ids for what has none: derived from what was said, so that the same file gives the same ones again."""

import hashlib

import msgspec


class Chain:
    """Ids of the things said in one conversation. Each depends on all before it.

    So two conversations in one room that say the same thing share no id from the first difference on, and a file that
    has grown gives the ids it gave before, and new ones after them.

    >>> [Chain("room").next("Hi") == Chain("room").next("Hi"), Chain("room").next("Hi") == Chain("hall").next("Hi")]
    [True, False]
    """

    def __init__(self, *seed: object) -> None:
        """Begin with what sets the conversation apart."""
        self._state = _digest(b"", seed)

    def next(self, *said: object) -> str:
        """Return the id of what is said next."""
        self._state = _digest(self._state, said)
        return f"msg-{self._state.hex()}"


def _digest(before: bytes, values: object) -> bytes:
    return hashlib.blake2b(before + msgspec.json.encode(values), digest_size=16).digest()
