"""A circuit breaker: stop calling a service that keeps failing, and probe it once after a cooldown.

    closed ──3 failures in a row, or a timeout──▶ open ──5 minutes──▶ half-open ──a probe succeeds──▶ closed
                                                   ▲                      │
                                                   └────a probe fails─────┘

It does no I/O except to log its changes, and reads no clock: callers pass the time.
"""

import logging
from typing import Literal

from brimful.core.validation import is_whole_number, preview, to_finite_float
from brimful.errors import InvalidValue

State = Literal["closed", "open", "half-open"]

FAILURES = 3  # consecutive failures that open the breaker
COOLDOWN = 300.0  # seconds until one probe is allowed

_log = logging.getLogger("brimful.breaker")
_log.addHandler(logging.NullHandler())


class Breaker:
    """Decides whether a call is allowed, based on recent results. Also tracks uptime: the share of time it was closed.

    >>> breaker = Breaker(now=0.0, failures=2, cooldown=60.0)
    >>> for now in (1.0, 2.0):
    ...     if breaker.allow(now):
    ...         breaker.failed(now)
    >>> breaker.allow(3.0), breaker.state(3.0)
    (False, 'open')
    >>> breaker.allow(62.0), breaker.allow(62.0)  # one probe, and no more until it returns
    (True, False)
    >>> breaker.succeeded(62.5)
    >>> breaker.state(62.5)
    'closed'
    """

    def __init__(self, *, now: float, failures: int = FAILURES, cooldown: float = COOLDOWN) -> None:
        """Start closed."""
        if not is_whole_number(failures):
            raise InvalidValue("failures", f"must be a positive whole number, not {preview(failures)}")
        seconds = to_finite_float(cooldown)
        if seconds is None or seconds < 0:
            raise InvalidValue("cooldown", f"must be a number of seconds, not {preview(cooldown)}")
        self.failures = failures
        self.cooldown = seconds
        self.openings = 0
        self._created = now
        self._consecutive = 0
        self._opened: float | None = None
        self._probed: float | None = None
        self._closed_seconds = 0.0
        self._closed_since: float | None = now

    def state(self, now: float) -> State:
        """Return the current state."""
        if self._opened is None:
            return "closed"
        return "open" if 0 <= now - self._opened < self.cooldown else "half-open"  # the clock may be set back

    def allow(self, now: float) -> bool:
        """Return whether a call is allowed. When half-open, one probe is; a probe that never returns expires."""
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
        """Record a success, which closes the breaker."""
        self._consecutive = 0
        self._opened = self._probed = None
        if self._closed_since is None:
            self._closed_since = now
            _log.info("breaker state=closed", extra={"state": "closed"})

    def cancelled(self) -> None:
        """Record that a call was cancelled before it returned, so that the next call may be the probe."""
        self._probed = None

    def failed(self, now: float, *, timed_out: bool = False) -> None:
        """Record a failure. Too many in a row, a failed probe, or one timeout open the breaker.

        Each further timeout would make somebody wait for the whole time limit again.
        """
        self._consecutive += 1
        if self._opened is None and self._consecutive < self.failures and not timed_out:
            return
        if self._opened is None:
            self.openings += 1
            fields = {"state": "open", "failures": self._consecutive, "timed_out": timed_out, "cooldown": self.cooldown}
            line = "breaker state=open failures=%(failures)d timed_out=%(timed_out)s cooldown=%(cooldown)g"
            _log.warning(line, fields, extra=fields)
        self._opened, self._probed = now, None
        if self._closed_since is not None:
            self._closed_seconds += max(0.0, now - self._closed_since)
            self._closed_since = None

    def uptime(self, now: float) -> float:
        """Return the share of time the breaker was closed."""
        age = now - self._created
        if age <= 0:
            return 1.0
        closed = self._closed_seconds + (0.0 if self._closed_since is None else now - self._closed_since)
        return min(1.0, max(0.0, closed / age))

    def retry_in(self, now: float) -> float:
        """Return the seconds until a probe is allowed, or 0 if one is allowed now."""
        return 0.0 if self._opened is None or now < self._opened else max(0.0, self._opened + self.cooldown - now)
