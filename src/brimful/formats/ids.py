"""Stable ids for records that have none, derived from their content: the same file always gives the same ids."""

import hashlib

import msgspec

MAX_ID_CHARS = 200  # characters of an id: more is no name, and more than 2,700 bytes no index of a database holds


class IdChain:
    """Ids of the things said in one conversation. Each depends on all before it.

    So two conversations in one room that say the same thing share no id from the first difference on, and a file that
    has grown gives the ids it gave before, and new ones after them.

    >>> IdChain("room").next("Hi") == IdChain("room").next("Hi")
    True
    >>> IdChain("room").next("Hi") == IdChain("hall").next("Hi")
    False
    """

    def __init__(self, *seed: object) -> None:
        """Begin with what sets the conversation apart."""
        self._state = _digest(b"", seed)

    def next(self, *said: object) -> str:
        """Return the id of what is said next."""
        self._state = _digest(self._state, said)
        return f"msg-{self._state.hex()}"


class OccurrenceIds:
    """Ids of the things said in one room, each by what sets it apart alone: what was said before does not matter.

    So a file in which something was changed gives the ids it gave before. The same thing said again has another id.

    >>> ids = OccurrenceIds("room")
    >>> first, again = ids.next("Ada", "noon"), ids.next("Ada", "noon")
    >>> first == OccurrenceIds("room").next("Ada", "noon"), first == again
    (True, False)
    """

    def __init__(self, *seed: object) -> None:
        """Begin with what sets the conversation apart."""
        self._seed = _digest(b"", seed)
        self._seen: dict[bytes, int] = {}

    def next(self, *apart: object) -> str:
        """Return the id of what comes next."""
        mark = _digest(self._seed, apart)
        number = self._seen[mark] = self._seen.get(mark, 0) + 1
        return f"msg-{_digest(mark, number).hex()}"


def join_id(*parts: object) -> str:
    """Return an id of several parts, from the whole to the part. One that is too long is shortened, and told apart.

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
