import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

from brimful.counting.count_cache import MAX_KEY_CHARACTERS, CountCache


class Spy:
    def __init__(self):
        self.seen = []

    def __call__(self, texts):
        self.seen += texts
        return [len(text) for text in texts]


def test_a_text_is_counted_once():
    spy = Spy()
    cache = CountCache(spy)
    assert cache.counts(["a", "bb", "a"]) == [1, 2, 1]
    assert cache.counts(["bb", "ccc"]) == [2, 3]
    assert spy.seen == ["a", "bb", "ccc"]


class Traced(str):
    """A string that can be weakly referenced."""

    __slots__ = ("__weakref__",)


def test_long_texts_are_cached_under_their_hash():
    spy = Spy()
    cache = CountCache(spy)
    long = Traced("x" * (MAX_KEY_CHARACTERS + 1))
    assert cache.counts([long]) == cache.counts([long]) == [MAX_KEY_CHARACTERS + 1]
    assert len(spy.seen) == 1
    kept = weakref.ref(long)
    spy.seen.clear()
    del long
    gc.collect()
    assert kept() is None


def test_long_texts_with_lone_surrogates_are_remembered_too():
    cache = CountCache(Spy())
    assert cache.counts(["\ud800" * 1000]) == [1000]


def test_the_least_recently_used_goes_first():
    spy = Spy()
    cache = CountCache(spy, max_entries=2)
    cache.counts(["a", "bb"])
    cache.counts(["a"])
    cache.counts(["ccc"])
    assert len(cache) == 2
    cache.counts(["a", "bb"])
    assert spy.seen == ["a", "bb", "ccc", "bb"]


def test_more_texts_at_once_than_it_can_remember():
    cache = CountCache(Spy(), max_entries=3)
    texts = [str(number) for number in range(20)]
    assert cache.counts(texts) == [len(text) for text in texts]
    assert len(cache) == 3


def test_threads_get_right_counts():
    cache = CountCache(Spy(), max_entries=50)
    batches = [[str(number * step) for number in range(100)] for step in range(1, 20)]
    with ThreadPoolExecutor(8) as pool:
        for batch, counts in zip(batches, pool.map(cache.counts, batches), strict=True):
            assert counts == [len(text) for text in batch]
