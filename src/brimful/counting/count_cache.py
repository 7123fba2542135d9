"""A bounded cache of token counts, so that each text is tokenized once."""

import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from brimful.cache import LRU

MAX_KEY_CHARACTERS: Final = 4_096  # a longer text is cached under its hash
MAX_ENTRIES: Final = 65_536
_ENTRY_BYTES: Final = 400  # memory of an entry besides its key

_Key = str | bytes
C = TypeVar("C")


class CountCache(Generic[C]):
    """Caches what `count` returns for each text.

    >>> cache = CountCache(lambda texts: [len(text) for text in texts])
    >>> cache.counts(["a", "bb", "a"])
    [1, 2, 1]
    """

    def __init__(self, count: Callable[[Sequence[str]], list[C]], max_entries: int = MAX_ENTRIES) -> None:
        self._count = count
        self._known: LRU[_Key, C] = LRU(
            max_entries=max_entries, name="counts", size=lambda key, _: _ENTRY_BYTES + sys.getsizeof(key)
        )

    def __len__(self) -> int:
        return len(self._known)

    def counts(self, texts: Sequence[str]) -> list[C]:
        """Count each text; those that are not cached are counted in one batch."""
        keys = _keys(texts)
        known = self._known.get_many(keys)
        if len(known) == len(keys):  # all different and all cached, as most often
            return list(known.values())
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if new:
            # Without a lock: two threads may count the same text, which is harmless, and neither waits for the other.
            counted = dict(zip(new, self._count(list(new.values())), strict=True))
            self._known.update(counted)
            known |= counted
        return [known[key] for key in keys]

    def add(self, counts: Mapping[str, C]) -> None:
        """Add counts that are already known, such as those from a store.

        >>> cache = CountCache(lambda texts: [0 for text in texts])
        >>> cache.add({"abc": 3})
        >>> cache.counts(["abc"])
        [3]
        """
        keys = dict(zip(_keys(counts), counts.values(), strict=True))
        new = self._known.absent(keys)
        if new:  # seldom: the same history is read every turn
            self._known.update({key: keys[key] for key in new})

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Return the texts that are not cached.

        >>> cache = CountCache(lambda texts: [0 for text in texts])
        >>> cache.add({"abc": 3})
        >>> cache.missing(["abc", "xyz"])
        ['xyz']
        """
        keys = _keys(texts)
        absent = set(self._known.absent(keys))
        return [text for text, key in zip(texts, keys, strict=True) if key in absent] if absent else []


def _keys(texts: Iterable[str]) -> list[_Key]:
    return [text if len(text) <= MAX_KEY_CHARACTERS else _hash(text) for text in texts]


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
