"""The LRU cache: bounded by entries and bytes, in the order of use, from several threads."""

import threading

import pytest

from brimful.cache import LRU, content_bytes
from brimful.core.content import Text


def test_the_least_recently_used_entry_goes_first():
    cache: LRU[str, int] = LRU(max_entries=2)
    cache["a"], cache["b"] = 1, 2
    assert cache.get("a") == 1
    cache["c"] = 3
    assert list(cache) == ["a", "c"]
    assert "b" not in cache
    assert len(cache) == 2


def test_setting_an_entry_again_replaces_it_and_counts_as_a_use():
    cache: LRU[str, int] = LRU(max_entries=2)
    cache["a"], cache["b"] = 1, 2
    cache["a"] = 3
    cache["c"] = 4
    assert cache.items() == [("a", 3), ("c", 4)]


def test_get_returns_the_default_for_a_missing_key_and_none_for_a_stored_none():
    cache: LRU[str, int | None] = LRU(max_entries=2)
    cache["a"] = None
    assert cache.get("a", 7) is None
    assert cache.get("b", 7) == 7
    assert cache.get("b") is None
    assert cache["a"] is None
    with pytest.raises(KeyError, match="b"):
        cache["b"]


def test_bytes_are_bounded():
    cache: LRU[str, str] = LRU(max_size=10, size=lambda key, value: len(key) + len(value))
    cache["a"] = "1234"
    cache["b"] = "1234"
    assert cache.total_size == 10
    cache["c"] = "1"
    assert list(cache) == ["b", "c"]
    cache["b"] = "12345"
    assert cache.total_size == 8


def test_an_entry_larger_than_the_cache_is_not_kept_and_evicts_nothing():
    cache: LRU[str, str] = LRU(max_size=10, size=lambda _, value: len(value))
    cache["a"] = "12345"
    cache["b"] = "x" * 11
    assert cache.items() == [("a", "12345")]
    assert cache.total_size == 5


def test_keep_last_keeps_an_entry_of_any_size():
    cache: LRU[str, str] = LRU(max_size=10, size=lambda _, value: len(value), keep_last=True)
    cache["a"] = "12345"
    cache["b"] = "x" * 11
    assert list(cache) == ["b"]
    cache["c"] = "1"
    assert list(cache) == ["c"]


def test_remeasure_evicts_what_has_grown():
    cache: LRU[str, list[int]] = LRU(max_size=4, size=lambda _, value: len(value))
    cache.remeasure()
    grown: list[int] = []
    cache["a"], cache["b"] = grown, [1, 2]
    grown += [1, 2, 3]
    assert cache.total_size == 2
    cache.remeasure()
    assert cache.items() == [("b", [1, 2])]
    counted: LRU[str, int] = LRU(max_entries=1)
    counted["a"] = 1
    counted.remeasure()
    assert list(counted) == ["a"]


def test_many_entries_at_once():
    cache: LRU[str, int] = LRU(max_entries=3)
    cache.update({"a": 1, "b": 2, "c": 3, "d": 4})
    assert cache.get_many(["b", "a", "c"]) == {"b": 2, "c": 3}
    assert list(cache) == ["d", "b", "c"]


def test_setdefault_makes_a_missing_value_once():
    cache: LRU[str, list[int]] = LRU(max_entries=2)
    made = cache.setdefault("a", list)
    cache["b"] = []
    assert cache.setdefault("a", list) is made
    cache["c"] = []
    assert list(cache) == ["a", "c"]


def test_pop_and_clear():
    cache: LRU[str, str] = LRU(max_size=10, size=lambda _, value: len(value))
    cache["a"], cache["b"] = "123", "45"
    assert cache.pop("a") == "123"
    assert cache.pop("a") is None
    assert cache.total_size == 2
    cache.clear()
    assert len(cache) == cache.total_size == 0


def test_max_size_needs_a_size():
    with pytest.raises(ValueError, match="go together"):
        LRU(max_size=10)


def test_the_size_of_parts_includes_their_fields():
    assert content_bytes((Text(text="a" * 1_000),)) > content_bytes("a" * 1_000)


def test_threads_share_a_cache():
    cache: LRU[int, int] = LRU(max_entries=50)

    def work(start: int) -> None:
        for number in range(start, start + 2_000):
            cache[number % 100] = number
            cache.get(number % 70)
            cache.get_many(range(number % 5))
            cache.pop(number % 11)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache) <= 50
