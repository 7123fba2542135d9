"""When a request is retried."""

import pytest

from brimful.errors import ContextOverflow, ProviderError, ProviderUnavailable
from brimful.providers.connection import MAX_JITTER, Retriable, get_retry_delay, parse_retry_after

NOW = 1_800_000_000.0


def unavailable(seconds=None):
    return ProviderUnavailable("r", "busy", status=429, retry_after=seconds)


def test_only_retriable_errors_are_retried():
    for failure in (unavailable(), ProviderError("r", "no"), ContextOverflow("r", "long"), KeyError()):
        assert get_retry_delay(failure, max_wait=30) is False
    assert get_retry_delay(Retriable(unavailable()), max_wait=30) is True


@pytest.mark.parametrize("seconds", [0.0, 1.5, 30.0])
def test_the_requested_delay_is_used_with_jitter(seconds):
    waits = {get_retry_delay(Retriable(unavailable(seconds)), max_wait=30) for _ in range(50)}
    assert all(seconds <= wait <= seconds + MAX_JITTER for wait in waits)
    assert len(waits) > 1


@pytest.mark.parametrize("seconds", [30.1, 3600.0])
def test_too_long_a_delay_is_not_retried(seconds):
    assert get_retry_delay(Retriable(unavailable(seconds)), max_wait=30) is False


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Fri, 15 Jan 2027 08:01:30 GMT"}, 90.0),
        ({"retry-after": "Fri, 15 Jan 2027 10:01:30 +0200"}, 90.0),
        ({"retry-after": "Fri, 15 Jan 2027 08:01:30 -0000"}, 90.0),
        ({"retry-after": "Friday, 15-Jan-27 08:01:30 GMT"}, 90.0),
        ({"retry-after": "Thu, 14 Jan 2027 08:00:00 GMT"}, 0.0),
        ({"retry-after": "Fri, 99 Jan 2027 08:00:00 GMT"}, None),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2.0),
    ],
)
def test_retry_delays_are_parsed_in_each_format(headers, seconds):
    assert parse_retry_after(headers, now=NOW) == seconds
