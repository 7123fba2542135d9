"""Which conversation a request goes on with: clients send all of it, and nothing that names it.

A request goes on with an earlier one if it begins with all of its messages. Where history began in that one, it begins
again, so that the upstream's prompt cache holds.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.core.selection import Previous

KEPT: Final = 16_384  # requests that are remembered, least recently used first to go

Chain = list[bytes]


def chain_of(messages: Sequence[Any], seed: Sequence[str]) -> Chain:
    """Return a digest for each beginning of a list of messages; `seed` tells apart what must not be mixed up.

    >>> short, long = chain_of(["a"], ["acme"]), chain_of(["a", "b"], ["acme"])
    >>> long[0] == short[0], chain_of(["a"], ["other"])[0] == short[0]
    (True, False)
    """
    digest = hashlib.blake2b(msgspec.json.encode(list(seed)), digest_size=16)
    chain = []
    for message in messages:
        digest.update(msgspec.json.encode(message))
        chain.append(digest.digest())
    return chain


class Threads:
    """Remembers where history began in the requests that were trimmed."""

    def __init__(self, kept: int = KEPT) -> None:
        """Remember so many."""
        self._kept = kept
        self._known: OrderedDict[bytes, Previous] = OrderedDict()

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._known)

    def last(self, chain: Chain) -> Previous | None:
        """Return where history began in the longest earlier request that this one goes on with."""
        for digest in reversed(chain):
            if digest in self._known:
                self._known.move_to_end(digest)
                return self._known[digest]
        return None

    def keep(self, chain: Chain, previous: Previous | None) -> None:
        """Remember where history began in a request."""
        if previous is None or not chain:
            return
        self._known[chain[-1]] = previous
        self._known.move_to_end(chain[-1])
        if len(self._known) > self._kept:
            self._known.popitem(last=False)
