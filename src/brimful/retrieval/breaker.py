"""A circuit breaker: what fails again and again is left alone for a while, and then asked once.

    closed ──3 failures in a row──▶ open ──5 minutes──▶ half-open ──a probe succeeds──▶ closed
                                     ▲                      │
                                     └────a probe fails─────┘

It does no I/O and reads no clock: whoever uses it says what time it is.
"""

from typing import Literal

from brimful.core.validation import is_whole_number, preview, to_finite_float
from brimful.errors import InvalidValue

State = Literal["closed", "open", "half-open"]

FAILURES = 3  # in a row open it
COOLDOWN = 300.0  # seconds until one probe is let through


class Breaker:
    """Says whether to ask, and learns from how it went. Also keeps how long it was closed: the uptime.

    >>> breaker = Breaker(now=0.0, failures=2, cooldown=60.0)
    >>> for now in (1.0, 2.0):
    ...     if breaker.allow(now):
    ...         breaker.failed(now)
    >>> breaker.allow(3.0), breaker.state(3.0)
    (False, 'open')
    >>> breaker.allow(62.0), breaker.allow(62.0)  # one probe, and no more until it is answered
    (True, False)
    >>> breaker.succeeded(62.5)
    >>> breaker.state(62.5)
    'closed'
    """

    def __init__(self, *, now: float, failures: int = FAILURES, cooldown: float = COOLDOWN) -> None:
        """Begin closed."""
        if not is_whole_number(failures):
            raise InvalidValue("failures", f"must be a positive whole number, not {preview(failures)}")
        seconds = to_finite_float(cooldown)
        if seconds is None or seconds < 0:
            raise InvalidValue("cooldown", f"must be a number of seconds, not {preview(cooldown)}")
        self.failures = failures
        self.cooldown = seconds
        self.openings = 0
        self._born = now
        self._in_a_row = 0
        self._opened: float | None = None
        self._probed: float | None = None
        self._closed_seconds = 0.0
        self._closed_since: float | None = now

    def state(self, now: float) -> State:
        """Return what it is now."""
        if self._opened is None:
            return "closed"
        return "open" if 0 <= now - self._opened < self.cooldown else "half-open"  # a clock may be set back

    def allow(self, now: float) -> bool:
        """Say whether to ask. When half-open, one probe may; one that never comes back gives way to the next."""
        match self.state(now):
            case "closed":
                return True
            case "open":
                return False
            case "half-open":
                if self._probed is not None and 0 <= now - self._probed < self.cooldown:
                    return False
                self._probed = now
                return True

    def succeeded(self, now: float) -> None:
        """Note an answer: one is enough to close it."""
        self._in_a_row = 0
        self._opened = self._probed = None
        if self._closed_since is None:
            self._closed_since = now

    def left(self) -> None:
        """Note that whoever asked went away before the answer: it was no probe, and the next one may be."""
        self._probed = None

    def failed(self, now: float) -> None:
        """Note a failure: too many in a row, or that of a probe, open it."""
        self._in_a_row += 1
        if self._opened is None and self._in_a_row < self.failures:
            return
        if self._opened is None:
            self.openings += 1
        self._opened, self._probed = now, None
        if self._closed_since is not None:
            self._closed_seconds += max(0.0, now - self._closed_since)
            self._closed_since = None

    def uptime(self, now: float) -> float:
        """Return the share of time in which it was closed."""
        lived = now - self._born
        if lived <= 0:
            return 1.0
        closed = self._closed_seconds + (0.0 if self._closed_since is None else now - self._closed_since)
        return min(1.0, max(0.0, closed / lived))

    def retry_in(self, now: float) -> float:
        """Return the seconds until a probe may go, 0 if one may now."""
        return 0.0 if self._opened is None or now < self._opened else max(0.0, self._opened + self.cooldown - now)
