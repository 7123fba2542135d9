"""Contents in memory: what is held is what was kept, and never more than is allowed."""

from hypothesis import given
from hypothesis import strategies as st

from brimful.stores.content_cache import ContentCache

kept = st.tuples(st.sampled_from(["t1", "t2"]), st.sampled_from("abcdef"), st.integers(0, 12))


@given(st.lists(kept, max_size=40), st.integers(12, 30))
def test_the_last_ones_that_fit_are_held(steps, most):
    cache, order = ContentCache(most=most), []
    for tokenizer, address, size in steps:
        cache.keep(tokenizer, address, (f"{tokenizer}{address}", size), size=size)
        order = [step for step in order if step[:2] != (tokenizer, address)] + [(tokenizer, address, size)]
        while sum(size for *_, size in order) > most:
            del order[0]
    for tokenizer in ("t1", "t2"):
        wanted = {address: (f"{tokenizer}{address}", size) for each, address, size in order if each == tokenizer}
        assert cache.known(tokenizer, "abcdef") == wanted


def test_what_was_asked_for_stays_longer():
    cache = ContentCache(most=2)
    for address in "ab":
        cache.keep("t", address, (address, 1), size=1)
    assert set(cache.known("t", ["a"])) == {"a"}
    cache.keep("t", "c", ("c", 1), size=1)
    assert set(cache.known("t", "abc")) == {"a", "c"}


def test_a_content_larger_than_all_that_is_allowed_drives_nothing_out():
    cache = ContentCache(most=2)
    cache.keep("t", "a", ("a", 1), size=2)
    cache.keep("t", "b", ("long", 1), size=3)
    assert set(cache.known("t", "ab")) == {"a"}
