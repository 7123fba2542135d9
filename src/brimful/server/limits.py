"""How much a caller may ask at a time, and how often."""

from collections.abc import Iterator
from contextlib import contextmanager

from brimful.server.errors import Refusal

_MINUTE = 60.0  # seconds


class _Bucket:
    """What a caller has left: requests that may begin now, and those that are under way."""

    def __init__(self, left: float, at: float) -> None:
        self.left = left
        self.at = at
        self.running = 0


class Gate:
    """Lets requests of each key pass as long as they are not too many at once, nor too many in a minute.

    >>> gate = Gate(concurrency=1, requests_per_minute=60)
    >>> with gate.passed("ada", now=0.0):
    ...     with gate.passed("ada", now=0.0):
    ...         pass
    Traceback (most recent call last):
    ...
    brimful.server.errors.Refusal: 1 request of this key is under way, and no more may be at a time
    """

    def __init__(self, *, concurrency: int, requests_per_minute: int) -> None:
        """Allow so much to each key."""
        self._concurrency = concurrency
        self._rate = requests_per_minute
        self._buckets: dict[str, _Bucket] = {}

    @contextmanager
    def passed(self, key: str, *, now: float) -> Iterator[None]:
        """Count a request of a key for as long as it takes; refuse one too many, and say when to come again."""
        bucket = self._bucket(key, now)
        if bucket.running >= self._concurrency:
            many = f"{bucket.running:,} request{'s' if bucket.running > 1 else ''} of this key"
            verb = "are" if bucket.running > 1 else "is"
            raise Refusal("busy", f"{many} {verb} under way, and no more may be at a time", retry_after=1.0)
        if bucket.left < 1:
            wait = (1 - bucket.left) * _MINUTE / self._rate
            raise Refusal("busy", f"this key may send {self._rate:,} requests a minute", retry_after=wait)
        bucket.left -= 1
        bucket.running += 1
        try:
            yield
        finally:
            bucket.running -= 1

    def _bucket(self, key: str, now: float) -> _Bucket:
        bucket = self._buckets.setdefault(key, _Bucket(float(self._rate), now))
        bucket.left = min(float(self._rate), bucket.left + max(0.0, now - bucket.at) * self._rate / _MINUTE)
        bucket.at = now
        return bucket
