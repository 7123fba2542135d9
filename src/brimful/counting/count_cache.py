"""A bounded cache of token counts."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

MAX_KEY_CHARACTERS: Final = 512  # characters; a longer text is remembered by its digest
MAX_ENTRIES: Final = 65_536  # so that a full memory holds at most 32 million characters

Key = str | bytes
C = TypeVar("C")


class CountCache(Generic[C]):
    """Remembers how many tokens, or what else, a text has, least recently used first to go. For any thread.

    >>> memo = CountCache(lambda texts: [len(text) for text in texts])
    >>> memo.counts(["a", "bb", "a"])
    [1, 2, 1]
    """

    def __init__(self, count: Callable[[Sequence[str]], list[C]], most: int = MAX_ENTRIES) -> None:
        """Remember what `count` says, for at most `most` texts."""
        self._count = count
        self._most = most
        self._known: OrderedDict[Key, C] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of texts remembered."""
        return len(self._known)

    def counts(self, texts: Sequence[str]) -> list[C]:
        """Count each text, and only those never seen, in one batch."""
        keys = [text if len(text) <= MAX_KEY_CHARACTERS else _key(text) for text in texts]
        known = self._recall(keys)
        counts = [count for count in known if count is not None]
        if len(counts) == len(keys):
            return counts
        new = {key: text for key, text, count in zip(keys, texts, known, strict=True) if count is None}
        # Outside the lock: two threads may count the same text, which is harmless; neither waits for the other.
        counted = dict(zip(new, self._count(list(new.values())), strict=True))
        self._remember(counted)
        return [counted[key] if count is None else count for key, count in zip(keys, known, strict=True)]

    def learn(self, counts: Mapping[str, C]) -> None:
        """Remember counts that were made before, by another process or on another day.

        >>> memo = CountCache(lambda texts: [0 for text in texts])
        >>> memo.learn({"abc": 3})
        >>> memo.counts(["abc"])
        [3]
        """
        self._remember({_key(text): tokens for text, tokens in counts.items()})

    def unknown(self, texts: Sequence[str]) -> list[str]:
        """Return the texts that would have to be counted.

        >>> memo = CountCache(lambda texts: [0 for text in texts])
        >>> memo.learn({"abc": 3})
        >>> memo.unknown(["abc", "xyz"])
        ['xyz']
        """
        with self._lock:
            return [text for text in texts if _key(text) not in self._known]

    def _recall(self, keys: Sequence[Key]) -> list[C | None]:
        known = self._known
        with self._lock:
            found = [known.get(key) for key in keys]
            for key, count in zip(keys, found, strict=True):
                if count is not None:
                    known.move_to_end(key)
        return found

    def _remember(self, counted: dict[Key, C]) -> None:
        with self._lock:
            self._known.update(counted)
            while len(self._known) > self._most:
                self._known.popitem(last=False)


def _key(text: str) -> Key:
    if len(text) <= MAX_KEY_CHARACTERS:
        return text
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
