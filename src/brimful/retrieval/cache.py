"""A cache of search results: an LRU with a time to live."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from brimful.cache import LRU
from brimful.core.validation import is_whole_number, preview, to_finite_float
from brimful.errors import InvalidValue

Value = TypeVar("Value")

MAX_ENTRIES = 100  # results
_ENTRY_BYTES = 2_000  # memory of an entry: its key, and a small result
TTL = 60.0  # seconds


class Cache(Generic[Value]):
    """A bounded cache with a time to live. The caller passes the time. `size` measures large results.

    >>> cache = Cache[str](max_entries=2, ttl=60.0)
    >>> cache.put("a", "one", now=0.0)
    >>> cache.get("a", now=59.0), cache.get("a", now=60.0)
    ('one', None)
    """

    def __init__(
        self, *, max_entries: int = MAX_ENTRIES, ttl: float = TTL, size: Callable[[Value], int] = lambda _: 0
    ) -> None:
        """Hold at most `max_entries` results, each for `ttl` seconds."""
        if not is_whole_number(max_entries):
            raise InvalidValue("max_entries", f"must be a positive whole number, not {preview(max_entries)}")
        seconds = to_finite_float(ttl)
        if seconds is None or seconds < 0:
            raise InvalidValue("ttl", f"must be a number of seconds, not {preview(ttl)}")
        self._ttl = seconds
        self._entries: LRU[Hashable, tuple[float, Value]] = LRU(
            max_entries=max_entries, name="searches", size=lambda _, entry: _ENTRY_BYTES + size(entry[1])
        )

    def __len__(self) -> int:
        """Return the number of results held."""
        return len(self._entries)

    def get(self, key: Hashable, *, now: float) -> Value | None:
        """Return the result, if there is one that is young enough."""
        created, value = self._entries.get(key, (None, None))
        if created is None or not 0 <= now - created < self._ttl:
            self._entries.pop(key)
            return None
        return value

    def put(self, key: Hashable, value: Value, *, now: float) -> None:
        """Keep a result, unless it would be too old at once."""
        if self._ttl:
            self._entries[key] = (now, value)
