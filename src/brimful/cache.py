"""A least-recently-used cache, bounded by entries or bytes, and a budget of bytes that all caches share."""

import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final, Generic, TypeVar, TypeVarTuple, overload
from weakref import WeakSet

import msgspec

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")
Ts = TypeVarTuple("Ts")

MEBIBYTE: Final = 2**20
DEFAULT_BUDGET: Final = 256 * MEBIBYTE
_ENTRY_BYTES: Final = 500  # memory of an entry besides its content: key, count, links
_LOW_WATER: Final = 0.95  # of a budget, left after an eviction, so that not every new entry causes one


class CacheBudget:
    """A limit on the bytes of several caches together. When they exceed it, the largest cache is evicted first.

    >>> budget = CacheBudget(1_000)
    >>> small, large = (LRU[str, str](name=name, size=lambda _, text: len(text), budget=budget) for name in "sl")
    >>> small["a"] = "x" * 100
    >>> large["a"], large["b"] = "x" * 500, "x" * 450
    >>> budget.sizes()
    {'l': 450, 's': 100}
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._caches: WeakSet[LRU[Any, Any] | Generations[Any, Any]] = WeakSet()
        self._used = 0  # too large after a cache was garbage collected, until the next eviction
        self._lock = Lock()
        self._evicting = Lock()

    @property
    def max_bytes(self) -> int:
        return self._max_bytes

    @max_bytes.setter
    def max_bytes(self, limit: int) -> None:
        self._max_bytes = limit
        self.change(0)

    def sizes(self) -> dict[str, int]:
        """Return the bytes in use by the name of the cache. Several caches may have one name."""
        sizes: Counter[str] = Counter()
        for cache in self._snapshot():
            sizes[cache.name] += cache.total_size
        return dict(sorted(sizes.items()))

    def add(self, cache: "LRU[Any, Any] | Generations[Any, Any]") -> None:
        """Add a cache, for as long as it is in use."""
        with self._lock:
            self._caches.add(cache)

    def change(self, size: int) -> None:
        """Record that a cache has grown or shrunk, and evict entries if that is too much."""
        with self._lock:
            self._used += size
            full = self._used > self._max_bytes
        if full and self._evicting.acquire(blocking=False):
            try:
                self._evict()
            finally:
                self._evicting.release()

    def _evict(self) -> None:
        caches = sorted(self._snapshot(), key=lambda cache: cache.total_size)
        used, target = sum(cache.total_size for cache in caches), int(self._max_bytes * _LOW_WATER)
        while caches and used > target:
            *others, largest = caches
            excess = largest.total_size - (others[-1].total_size if others else 0)
            freed = largest.shrink(min(used - target, max(excess, largest.total_size // 4)))
            used -= freed
            caches = sorted(caches, key=lambda cache: cache.total_size) if freed else others
        with self._lock:
            self._used = used

    def _snapshot(self) -> "list[LRU[Any, Any] | Generations[Any, Any]]":
        with self._lock:
            return list(self._caches)


SHARED_BUDGET: Final = CacheBudget(DEFAULT_BUDGET)
"""The budget of all caches of this process except caches of vectors. Its limit can be set."""
VECTOR_BUDGET: Final = CacheBudget(2 * DEFAULT_BUDGET)
"""The budget of vectors in memory. One room may need more than all other caches, and must not evict those."""


def set_cache_limit(max_bytes: int) -> None:
    """Limit all caches together, and the vectors in memory to twice as much."""
    SHARED_BUDGET.max_bytes = max_bytes
    VECTOR_BUDGET.max_bytes = 2 * max_bytes


class LRU(Generic[K, V]):
    """A mapping that evicts its least recently used entries. Safe to use from several threads.

    `max_entries` bounds the number of entries. `max_size` bounds the sum of `size(key, value)`, usually bytes, measured
    when an entry is set. An entry larger than `max_size` is not kept, unless `keep_last` is set: then the latest entry
    always stays. A cache with a `name` shares the `budget` of all caches; its sizes are bytes.

    >>> cache: LRU[str, int] = LRU(max_entries=2)
    >>> cache["a"], cache["b"] = 1, 2
    >>> cache.get("a")
    1
    >>> cache["c"] = 3
    >>> list(cache)
    ['a', 'c']
    """

    __slots__ = (
        "__weakref__",
        "_budget",
        "_entries",
        "_keep_last",
        "_lock",
        "_max_entries",
        "_max_size",
        "_size",
        "_sizes",
        "_total",
        "name",
    )

    def __init__(
        self,
        *,
        max_entries: int | None = None,
        max_size: int | None = None,
        size: Callable[[K, V], int] | None = None,
        keep_last: bool = False,
        name: str = "",
        budget: CacheBudget = SHARED_BUDGET,
    ) -> None:
        if (max_size is None and not name) is not (size is None):
            raise ValueError("size goes together with max_size or name")
        self.name = name
        self._max_entries = max_entries
        self._max_size = max_size
        self._size = size
        self._keep_last = keep_last
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._sizes: dict[K, int] = {}  # empty without `size`
        self._total = 0
        self._lock = Lock()
        self._budget = budget if name else None
        if name:
            budget.add(self)

    def __len__(self) -> int:
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
        entries = self._entries
        with self._lock:
            found = {key: entries[key] for key in keys if key in entries}
            for _ in map(entries.move_to_end, found):
                pass
        return found

    def absent(self, keys: Iterable[K]) -> list[K]:
        """Return the keys that have no entry. Does not count as a use."""
        entries = self._entries
        return [key for key in keys if key not in entries]

    def __setitem__(self, key: K, value: V) -> None:
        """Set a value as the most recently used one, and evict what no longer fits."""
        with self._changing():
            self._set(key, value)
            self._evict()

    def update(self, values: Mapping[K, V]) -> None:
        """Set many values."""
        with self._changing():
            for key, value in values.items():
                self._set(key, value)
            self._evict()

    def setdefault(self, key: K, make: Callable[[], V]) -> V:
        """Return a value and mark it as used; make and set it first if it is missing. Other threads wait meanwhile."""
        with self._changing():
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key]
            value = make()
            self._set(key, value)
            self._evict()
            return value

    def pop(self, key: K) -> V | None:
        """Remove an entry and return its value, if there is one."""
        with self._changing():
            self._total -= self._sizes.pop(key, 0)
            return self._entries.pop(key, None)

    def items(self) -> list[tuple[K, V]]:
        """Return a snapshot of all entries, least recently used first. Does not count as a use."""
        with self._lock:
            return list(self._entries.items())

    def clear(self) -> None:
        """Remove all entries."""
        with self._changing():
            self._entries.clear()
            self._sizes.clear()
            self._total = 0

    def remeasure(self, keys: Iterable[K]) -> None:
        """Measure entries again and evict what no longer fits. For values that grow after they were set."""
        with self._changing():
            for key in keys:
                if self._size is not None and key in self._entries:
                    size = self._size(key, self._entries[key])
                    self._total += size - self._sizes[key]
                    self._sizes[key] = size
            self._evict()

    def shrink(self, size: int) -> int:
        """Evict entries of this size or more, and return how much was freed. Does not change the shared budget."""
        with self._lock:
            before = self._total
            while before - self._total < size and len(self._entries) > self._keep_last:
                self._evict_oldest()
            return before - self._total

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock during a change, and tell the shared budget about it afterwards."""
        with self._lock:
            before = self._total
            yield
            change = self._total - before
        if self._budget is not None and change:
            self._budget.change(change)

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


class Generations(Generic[K, V]):
    """A cache in two generations, for small values that are looked up very often.

    An entry that is used again moves from the old generation to the young one. When memory is needed, the old one is
    dropped and the young one becomes old. A hit in the young generation takes no lock, unlike in an LRU.
    """

    def __init__(self, name: str, size: Callable[[K, V], int], budget: CacheBudget = SHARED_BUDGET) -> None:
        self.name = name
        self.young: dict[K, V] = {}
        self.old: dict[K, V] = {}
        self._size = size
        self._sizes = (0, 0)  # of the young and the old generation
        self._lock = Lock()
        self._budget = budget
        budget.add(self)

    @property
    def total_size(self) -> int:
        return sum(self._sizes)

    def add(self, key: K, value: V) -> None:
        """Add an entry to the young generation."""
        size = self._size(key, value)
        with self._lock:
            if key in self.young:  # by another thread
                return
            self.young[key] = value
            self._sizes = (self._sizes[0] + size, self._sizes[1])
        self._budget.change(size)

    def shrink(self, size: int) -> int:
        """Drop the old generation, or both if that is not enough; return how much was freed."""
        freed = 0
        with self._lock:
            for _ in range(2):
                if freed < size:
                    freed += self._sizes[1]
                    self.old, self.young = self.young, {}
                    self._sizes = (0, self._sizes[0])
        return freed


def memoize(function: Callable[[*Ts], V], *, name: str, size: Callable[[tuple[*Ts], V], int]) -> Callable[[*Ts], V]:
    """Return a function that caches what another one returns, in a cache that shares the budget.

    >>> double = memoize(lambda text: text * 2, name="doubles", size=lambda args, doubled: len(doubled))
    >>> double("ab"), double("ab")
    ('abab', 'abab')
    """
    cache: Generations[tuple[*Ts], V] = Generations(name, size)

    def cached(*args: *Ts) -> V:
        try:
            return cache.young[args]
        except KeyError:
            value = cache.old.get(args)
            if value is None:
                value = function(*args)
            cache.add(args, value)
            return value

    return cached


def content_bytes(content: str | tuple[msgspec.Struct, ...]) -> int:
    """Estimate the memory of a cached content, including the cache's own overhead.

    >>> content_bytes("ok") > 500, content_bytes("a" * 10_000) < 11_000, content_bytes("🫖" * 10_000) > 40_000
    (True, True, True)
    """
    if isinstance(content, str):
        return _ENTRY_BYTES + sys.getsizeof(content)
    fields = (field for part in content for field in msgspec.structs.astuple(part))
    return _ENTRY_BYTES + sys.getsizeof(content) + sum(map(sys.getsizeof, content)) + sum(map(sys.getsizeof, fields))
