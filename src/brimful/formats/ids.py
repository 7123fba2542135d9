"""Stable ids for records that have none, derived from their content: the same file always gives the same ids."""

import hashlib

import msgspec

MAX_ID_CHARS = 200  # databases cannot index more than 2,700 bytes


class IdChain:
    """Ids for the messages of one conversation. Each depends on all messages before it.

    Two conversations in one room share no id after their first difference, and a file that has grown gives the same
    ids as before, followed by new ones.

    >>> IdChain("room").next("Hi") == IdChain("room").next("Hi")
    True
    >>> IdChain("room").next("Hi") == IdChain("hall").next("Hi")
    False
    """

    def __init__(self, *seed: object) -> None:
        self._state = _digest(b"", seed)

    def next(self, *content: object) -> str:
        """Return the id of the next message."""
        self._state = _digest(self._state, content)
        return f"msg-{self._state.hex()}"


class OccurrenceIds:
    """Ids for the messages of one room. Each depends only on its own content, and on how often that occurred before.

    A file in which a message was changed gives the same ids as before for all other messages.

    >>> ids = OccurrenceIds("room")
    >>> first, again = ids.next("Ada", "noon"), ids.next("Ada", "noon")
    >>> first == OccurrenceIds("room").next("Ada", "noon"), first == again
    (True, False)
    """

    def __init__(self, *seed: object) -> None:
        self._seed = _digest(b"", seed)
        self._seen: dict[bytes, int] = {}

    def next(self, *content: object) -> str:
        """Return the id of the next message."""
        mark = _digest(self._seed, content)
        number = self._seen[mark] = self._seen.get(mark, 0) + 1
        return f"msg-{_digest(mark, number).hex()}"


def join_id(*parts: object) -> str:
    """Join the parts of an id by slashes. One that is too long is shortened and gets a hash.

    >>> join_id("chatgpt", 7), len(join_id("chatgpt", "x" * 9999))
    ('chatgpt/7', 200)
    """
    id = "/".join(map(str, parts))
    if len(id) <= MAX_ID_CHARS:
        return id
    mark = _digest(b"", [id]).hex()
    return f"{id[: MAX_ID_CHARS - len(mark) - 1]}~{mark}"


def _digest(before: bytes, values: object) -> bytes:
    return hashlib.blake2b(before + msgspec.json.encode(values), digest_size=16).digest()
