"""The cache of contents returns what was stored, within its limit."""

import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.cache import content_bytes
from brimful.core.content import Text
from brimful.records import Content
from brimful.stores.tables.contents import ContentCache

entries = st.tuples(st.sampled_from(["t1", "t2"]), st.sampled_from("abcdef"), st.integers(0, 12))


@given(st.lists(entries, max_size=40), st.integers(12, 30))
def test_the_last_ones_that_fit_are_held(steps, max_bytes):
    cache, order = ContentCache(max_bytes=max_bytes), []
    for tokenizer, address, size in steps:
        cache.keep(tokenizer, address, (f"{tokenizer}{address}", size), size=size)
        order = [step for step in order if step[:2] != (tokenizer, address)] + [(tokenizer, address, size)]
        while sum(size for *_, size in order) > max_bytes:
            del order[0]
    for tokenizer in ("t1", "t2"):
        expected = {address: (f"{tokenizer}{address}", size) for each, address, size in order if each == tokenizer}
        assert cache.known(tokenizer, "abcdef") == expected


def test_recently_used_contents_stay():
    cache = ContentCache(max_bytes=2)
    for address in "ab":
        cache.keep("t", address, (address, 1), size=1)
    assert set(cache.known("t", ["a"])) == {"a"}
    cache.keep("t", "c", ("c", 1), size=1)
    assert set(cache.known("t", "abc")) == {"a", "c"}


def test_a_content_larger_than_all_that_is_allowed_drives_nothing_out():
    cache = ContentCache(max_bytes=2)
    cache.keep("t", "a", ("a", 1), size=2)
    cache.keep("t", "b", ("long", 1), size=3)
    assert set(cache.known("t", "ab")) == {"a"}


@pytest.mark.parametrize(
    "make",
    [
        lambda number: f"ok {number}",
        lambda number: f"{number} 🫖 " + "tea " * 50,
        lambda number: (Text(text=f"first {number}"), Text(text="second 🫖" * 9)),
    ],
    ids=["short", "wide", "parts"],
)
def test_the_cache_takes_no_more_memory_than_it_estimates(make):
    bodies = [msgspec.json.encode(make(number)) for number in range(5_000)]
    cache, expected = ContentCache(max_bytes=2**40), 0
    tracemalloc.start()
    for number, body in enumerate(bodies):
        content = msgspec.json.decode(body, type=Content)
        expected += content_bytes(content)
        cache.keep("o200k_base", f"b2:{number:064x}", (content, 1_000 + number), size=content_bytes(content))
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.7 * expected < taken < expected
