"""The cache: a hundred results for a minute, and none of them stale."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.errors import InvalidValue
from brimful.retrieval.cache import Cache


def test_the_cache_holds_100_entries_for_60_seconds():
    cache = Cache[int]()
    for number in range(101):
        cache.put(number, number, now=0.0)
    assert len(cache) == 100
    assert cache.get(0, now=0.0) is None
    assert cache.get(100, now=59.9) == 100
    assert cache.get(100, now=60.0) is None


def test_the_least_recently_used_goes_first():
    cache = Cache[int](max_entries=2)
    cache.put("a", 1, now=0.0)
    cache.put("b", 2, now=0.0)
    cache.get("a", now=0.0)
    cache.put("c", 3, now=0.0)
    assert [cache.get(key, now=0.0) for key in "abc"] == [1, None, 3]


def test_a_clock_that_goes_back_finds_nothing_from_the_future():
    cache = Cache[int]()
    cache.put("a", 1, now=100.0)
    assert cache.get("a", now=99.0) is None


def test_entries_that_would_expire_at_once_are_not_stored():
    cache = Cache[int](ttl=0.0)
    cache.put("a", 1, now=0.0)
    assert len(cache) == 0


@pytest.mark.parametrize("wrong", [{"max_entries": 0}, {"ttl": -1.0}, {"ttl": float("nan")}])
def test_wrong_settings_are_refused_by_name(wrong):
    with pytest.raises(InvalidValue, match=next(iter(wrong))):
        Cache(**wrong)


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 50), st.booleans()), max_size=50))
def test_the_cache_agrees_with_a_dictionary_that_forgets(steps):
    cache, held, now = Cache[float](max_entries=6), {}, 0.0
    for key, pause, writes in steps:
        now += pause
        if writes:
            cache.put(key, now, now=now)
            held[key] = now
        else:
            fresh = key in held and now - held[key] < 60
            assert cache.get(key, now=now) == (held[key] if fresh else None)
