"""Who speaks in a conversation at a time: one request keeps what it says, and is read with it, before the next does."""

import asyncio
from weakref import WeakValueDictionary


class Turns:
    """A lock for each conversation, as long as somebody wants it."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def of(self, tenant: str, room: str) -> asyncio.Lock:
        """Return the lock of a conversation."""
        return self._locks.setdefault((tenant, room), asyncio.Lock())
