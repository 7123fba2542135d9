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
    memo = CountCache(spy)
    assert memo.counts(["a", "bb", "a"]) == [1, 2, 1]
    assert memo.counts(["bb", "ccc"]) == [2, 3]
    assert spy.seen == ["a", "bb", "ccc"]


def test_long_texts_are_remembered_by_digest():
    spy = Spy()
    memo = CountCache(spy)
    long = "x" * (MAX_KEY_CHARACTERS + 1)
    assert memo.counts([long]) == memo.counts([long]) == [MAX_KEY_CHARACTERS + 1]
    assert len(spy.seen) == 1
    assert not any(isinstance(key, str) for key in memo._known)  # noqa: SLF001 - what it holds is the point


def test_long_texts_with_lone_surrogates_are_remembered_too():
    memo = CountCache(Spy())
    assert memo.counts(["\ud800" * 1000]) == [1000]


def test_the_least_recently_used_goes_first():
    spy = Spy()
    memo = CountCache(spy, most=2)
    memo.counts(["a", "bb"])
    memo.counts(["a"])
    memo.counts(["ccc"])
    assert len(memo) == 2
    memo.counts(["a", "bb"])
    assert spy.seen == ["a", "bb", "ccc", "bb"]


def test_more_texts_at_once_than_it_can_remember():
    memo = CountCache(Spy(), most=3)
    texts = [str(number) for number in range(20)]
    assert memo.counts(texts) == [len(text) for text in texts]
    assert len(memo) == 3


def test_threads_get_right_counts():
    memo = CountCache(Spy(), most=50)
    batches = [[str(number * step) for number in range(100)] for step in range(1, 20)]
    with ThreadPoolExecutor(8) as pool:
        for batch, counts in zip(batches, pool.map(memo.counts, batches), strict=True):
            assert counts == [len(text) for text in batch]
