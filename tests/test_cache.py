"""The LRU cache: bounded by entries and bytes, in the order of use, from several threads."""

import threading

import pytest

from brimful.cache import LRU, CacheBudget, Generations, content_bytes, memoize
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
    cache.remeasure(["a"])
    grown: list[int] = []
    cache["a"], cache["b"] = grown, [1, 2]
    grown += [1, 2, 3]
    assert cache.total_size == 2
    cache.remeasure(["a"])
    assert cache.items() == [("b", [1, 2])]
    counted: LRU[str, int] = LRU(max_entries=1)
    counted["a"] = 1
    counted.remeasure(["a"])
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
    with pytest.raises(ValueError, match="goes together"):
        LRU(max_size=10)


def by_length(_: object, value: str) -> int:
    return len(value)


def test_caches_share_a_budget_and_the_largest_is_evicted_first():
    budget = CacheBudget(1_000)
    small: LRU[int, str] = LRU(name="small", size=by_length, budget=budget)
    large: LRU[int, str] = LRU(name="large", size=by_length, budget=budget)
    small[0] = "x" * 200
    for number in range(100):
        large[number] = "x" * 50
        assert sum(budget.sizes().values()) <= 1_000
    assert budget.sizes()["small"] == 200
    assert budget.sizes()["large"] >= 700
    assert 99 in large


def test_many_caches_of_one_name_share_the_budget_too():
    budget = CacheBudget(10_000)
    caches: list[LRU[int, str]] = [LRU(name="tenant", size=by_length, budget=budget) for _ in range(50)]
    for number in range(400):
        caches[number % 50][number] = "x" * 100
    assert 9_000 <= budget.sizes()["tenant"] <= 10_000
    assert all(len(cache) for cache in caches)


def test_a_smaller_budget_evicts_at_once_and_what_a_collected_cache_used_is_free_again():
    budget = CacheBudget(1_000)
    cache: LRU[int, str] = LRU(name="a", size=by_length, budget=budget)
    cache.update(dict.fromkeys(range(9), "x" * 100))
    budget.max_bytes = 500
    assert cache.total_size <= 500
    del cache
    other: LRU[int, str] = LRU(name="b", size=by_length, budget=budget)
    other.update(dict.fromkeys(range(4), "x" * 100))
    assert budget.sizes() == {"b": 400}


def test_an_entry_larger_than_the_budget_stays_only_if_the_last_one_must():
    budget = CacheBudget(100)
    plain: LRU[int, str] = LRU(name="a", size=by_length, budget=budget)
    kept: LRU[int, str] = LRU(name="b", size=by_length, budget=budget, keep_last=True)
    plain[0] = kept[0] = "x" * 200
    assert budget.sizes() == {"a": 0, "b": 200}


def test_memoize_calls_a_function_once_for_each_argument():
    calls: list[str] = []

    def shout(text: str) -> str:
        calls.append(text)
        return text.upper()

    cached = memoize(shout, name="test", size=lambda _, value: len(value))
    assert [cached("a"), cached("b"), cached("a")] == ["A", "B", "A"]
    assert calls == ["a", "b"]


def test_generations_lose_what_was_not_used_since_memory_was_last_needed():
    budget = CacheBudget(1_000)
    cache: Generations[int, str] = Generations("a", by_length, budget)
    for number in range(200):
        cache.add(number, "x" * 50)
        assert cache.total_size <= 1_000
    assert cache.total_size == 50 * (len(cache.young) + len(cache.old)) >= 500
    assert 199 in cache.young
    assert 0 not in cache.young | cache.old
    assert cache.shrink(1_000) > 0
    assert cache.total_size == len(cache.young) == len(cache.old) == 0


def test_threads_share_a_budget():
    budget = CacheBudget(1_000)
    caches: list[LRU[int, str]] = [LRU(name="a", size=by_length, budget=budget) for _ in range(4)]

    def work(start: int) -> None:
        for number in range(2_000):
            caches[(start + number) % 4][number % 97] = "x" * (number % 50)
            caches[number % 4].pop(number % 13)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    caches[0][0] = "x"
    assert sum(budget.sizes().values()) <= 1_000


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


def test_absent_keys_are_named_without_counting_as_a_use():
    cache = LRU(max_entries=2)
    cache["a"], cache["b"] = 1, 2
    assert cache.absent(["a", "x", "b", "y"]) == ["x", "y"]
    cache["c"] = 3
    assert list(cache) == ["b", "c"]
