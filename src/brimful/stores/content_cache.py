"""Contents that were read before: their address says what they are, so what is held for it is never out of date."""

import sys
from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Final

import msgspec

from brimful.records import Content

MOST_BYTES: Final = 16 * 2**20  # of memory
_EACH: Final = 450  # bytes for what is held beside a text: its address, its count, its place among the others

Known = tuple[Content, int | None]
"""A content, and the stored count of its text."""


def weight(content: Content) -> int:
    """Return how many bytes of memory it takes to hold a content. A short text takes less than what goes with it.

    >>> weight("ok") > 450, weight("a" * 10_000) < 11_000, weight("🫖" * 10_000) > 40_000
    (True, True, True)
    """
    if isinstance(content, str):
        return _EACH + sys.getsizeof(content)
    fields = (field for part in content for field in msgspec.structs.astuple(part))
    return _EACH + sys.getsizeof(content) + sum(map(sys.getsizeof, content)) + sum(map(sys.getsizeof, fields))


class ContentCache:
    """Contents of one tenant by address, with their counts by one tokenizer; the least recently used are let go first.

    >>> cache = ContentCache(most=10)
    >>> cache.keep("o200k", "a1", ("Hello.", 2), size=8)
    >>> cache.known("o200k", ["a1", "b2"])
    {'a1': ('Hello.', 2)}
    >>> cache.keep("o200k", "b2", ("Bye.", 2), size=6)
    >>> cache.known("o200k", ["a1", "b2"])
    {'b2': ('Bye.', 2)}
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        """Hold contents of so many bytes together."""
        self._most = most
        self._bytes = 0
        self._lock = Lock()
        self._held: OrderedDict[tuple[str, str], tuple[Known, int]] = OrderedDict()

    def known(self, tokenizer: str, addresses: Iterable[str]) -> dict[str, Known]:
        """Return what is held of these."""
        found = {}
        with self._lock:
            for address in addresses:
                held = self._held.get((tokenizer, address))
                if held is not None:
                    self._held.move_to_end((tokenizer, address))
                    found[address] = held[0]
        return found

    def keep(self, tokenizer: str, address: str, known: Known, *, size: int) -> None:
        """Hold a content that takes so many bytes, unless it would leave no room for others."""
        if size > self._most:
            return
        with self._lock:
            _, before = self._held.pop((tokenizer, address), (None, 0))
            self._held[tokenizer, address] = known, size
            self._bytes += size - before
            while self._bytes > self._most:
                _, (_, freed) = self._held.popitem(last=False)
                self._bytes -= freed
