"""A least-recently-used cache, bounded by entries, by size in bytes, or both."""

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Lock
from typing import Final, Generic, TypeVar, overload

import msgspec

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_ENTRY_BYTES: Final = 500  # memory of an entry besides its content: key, count, links


class LRU(Generic[K, V]):
    """A mapping that evicts its least recently used entries. Safe to use from several threads.

    `max_entries` bounds the number of entries. `max_size` bounds the sum of `size(key, value)`, usually bytes, measured
    when an entry is set. An entry larger than `max_size` is not kept, unless `keep_last` is set: then the latest entry
    always stays.

    >>> cache: LRU[str, int] = LRU(max_entries=2)
    >>> cache["a"], cache["b"] = 1, 2
    >>> cache.get("a")
    1
    >>> cache["c"] = 3
    >>> list(cache)
    ['a', 'c']
    """

    __slots__ = ("_entries", "_keep_last", "_lock", "_max_entries", "_max_size", "_size", "_sizes", "_total")

    def __init__(
        self,
        *,
        max_entries: int | None = None,
        max_size: int | None = None,
        size: Callable[[K, V], int] | None = None,
        keep_last: bool = False,
    ) -> None:
        if (max_size is None) is not (size is None):
            raise ValueError("max_size and size go together")
        self._max_entries = max_entries
        self._max_size = max_size
        self._size = size
        self._keep_last = keep_last
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._sizes: dict[K, int] = {}  # empty without `size`
        self._total = 0
        self._lock = Lock()

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        """Whether there is an entry. Does not count as a use."""
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        """Iterate over a snapshot of the keys, least recently used first."""
        with self._lock:
            return iter(list(self._entries))

    @property
    def total_size(self) -> int:
        """The sum of all sizes, as they were measured."""
        return self._total

    def __getitem__(self, key: K) -> V:
        """Return a value and mark it as used. Raise `KeyError` if there is none."""
        with self._lock:
            self._entries.move_to_end(key)
            return self._entries[key]

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: D | None = None) -> V | D | None:
        """Return a value and mark it as used."""
        with self._lock:
            if key not in self._entries:
                return default
            self._entries.move_to_end(key)
            return self._entries[key]

    def get_many(self, keys: Iterable[K]) -> dict[K, V]:
        """Return the values of the keys that are present, and mark them as used."""
        entries, move_to_end = self._entries, self._entries.move_to_end
        found: dict[K, V] = {}
        with self._lock:
            for key in keys:
                if key in entries:
                    move_to_end(key)
                    found[key] = entries[key]
        return found

    def __setitem__(self, key: K, value: V) -> None:
        """Set a value as the most recently used one, and evict what no longer fits."""
        with self._lock:
            self._set(key, value)
            self._evict()

    def update(self, values: Mapping[K, V]) -> None:
        """Set many values."""
        with self._lock:
            for key, value in values.items():
                self._set(key, value)
            self._evict()

    def setdefault(self, key: K, make: Callable[[], V]) -> V:
        """Return a value and mark it as used; make and set it first if it is missing. Other threads wait meanwhile."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key]
            value = make()
            self._set(key, value)
            self._evict()
            return value

    def pop(self, key: K) -> V | None:
        """Remove an entry and return its value, if there is one."""
        with self._lock:
            self._total -= self._sizes.pop(key, 0)
            return self._entries.pop(key, None)

    def items(self) -> list[tuple[K, V]]:
        """Return a snapshot of all entries, least recently used first. Does not count as a use."""
        with self._lock:
            return list(self._entries.items())

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
            self._sizes.clear()
            self._total = 0

    def remeasure(self) -> None:
        """Measure all entries again and evict what no longer fits. For values that grow after they were set."""
        with self._lock:
            if self._size is not None:
                self._sizes = {key: self._size(key, value) for key, value in self._entries.items()}
                self._total = sum(self._sizes.values())
            self._evict()

    def _set(self, key: K, value: V) -> None:
        if self._size is not None:
            size = self._size(key, value)
            self._total += size - self._sizes.get(key, 0)
            self._sizes[key] = size
        self._entries[key] = value
        self._entries.move_to_end(key)

    def _evict(self) -> None:
        if self._max_entries is not None:
            while len(self._entries) > self._max_entries:
                self._evict_oldest()
        if self._max_size is not None and self._total > self._max_size:
            self._evict_by_size(self._max_size)

    def _evict_by_size(self, max_size: int) -> None:
        latest = next(reversed(self._entries))
        if not self._keep_last and self._sizes[latest] > max_size:  # evicting others would not make it fit
            self._total -= self._sizes.pop(latest)
            del self._entries[latest]
        while self._total > max_size and len(self._entries) > self._keep_last:
            self._evict_oldest()

    def _evict_oldest(self) -> None:
        key, _ = self._entries.popitem(last=False)
        self._total -= self._sizes.pop(key, 0)


def content_bytes(content: str | tuple[msgspec.Struct, ...]) -> int:
    """Estimate the memory of a cached content, including the cache's own overhead.

    >>> content_bytes("ok") > 500, content_bytes("a" * 10_000) < 11_000, content_bytes("🫖" * 10_000) > 40_000
    (True, True, True)
    """
    if isinstance(content, str):
        return _ENTRY_BYTES + sys.getsizeof(content)
    fields = (field for part in content for field in msgspec.structs.astuple(part))
    return _ENTRY_BYTES + sys.getsizeof(content) + sum(map(sys.getsizeof, content)) + sum(map(sys.getsizeof, fields))
