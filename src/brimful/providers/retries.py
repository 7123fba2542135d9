"""What may safely be sent again, and when.

A request for an answer costs money each time that it is worked on, and nothing else: it changes nothing on the server.
So it is sent again where the server cannot have worked on it, and nowhere else:

- no connection could be made;
- the server turned the request away (429, 502, 503, 529);
- a connection that had been idle turned out to be closed before the first byte came: the server hung up while nobody
  talked, as servers do after a while. A new connection that breaks is another matter: the request may have arrived.

A 504 says that somebody in between gave up waiting while the work goes on: that is paid for, and is not sent twice.
Neither is a 500, nor a request that met a time limit of ours. After the first byte, nothing is.
"""

import random
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from brimful.errors import ProviderError, ProviderUnavailable

TURNED_AWAY: Final = frozenset({429, 502, 503, 529})
"""Statuses after which the same request may be sent again."""

FIRST_WAIT: Final = 0.5  # seconds before the second attempt, then twice as long each time
LONGEST_BACKOFF: Final = 8.0  # seconds
JITTER: Final = 0.5  # seconds at most, so that many who failed together do not come back together


class Retriable(Exception):
    """An attempt failed, and the request may safely be sent again. It stays within this room: callers see `error`."""

    def __init__(self, error: ProviderError) -> None:
        """Speak as the error does: whoever watches attempts reads it."""
        super().__init__(str(error))
        self.error = error


def wait_for(failure: Exception, *, longest: float) -> bool | float:
    """Say whether to try again: not at all, after a growing wait (True), or after the seconds that the server named.

    A server that names more than `longest` is not tried again: to come back sooner would be rude, and in vain.
    """
    if not isinstance(failure, Retriable):
        return False
    error = failure.error
    told = error.retry_after if isinstance(error, ProviderUnavailable) else None
    if told is None:
        return True
    return told + random.uniform(0, JITTER) if told <= longest else False  # noqa: S311 - spreads callers out


def told_wait(headers: Mapping[str, str], *, now: float) -> float | None:
    """Return the seconds that a server asks to wait, by `Retry-After` (seconds or a date) or `Retry-After-Ms`.

    >>> told_wait({"retry-after": "7"}, now=0.0), told_wait({"retry-after-ms": "250"}, now=0.0)
    (7.0, 0.25)
    >>> told_wait({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, now=15.0), told_wait({}, now=0.0)
    (45.0, None)
    """
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1_000
    named = headers.get("retry-after", "")
    seconds = _seconds(named)
    return seconds if seconds is not None else _until(named, now)


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _until(date: str, now: float) -> float | None:
    try:
        named = parsedate_to_datetime(date)
        return max(0.0, (named if named.tzinfo else named.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, OverflowError):
        return None
