"""The cache of contexts."""

import asyncio

import msgspec
import pytest

import brimful
from brimful.cache import CacheBudget
from brimful.records import Snapshot
from brimful.server.errors import ApiError
from brimful.server.inspector.context_cache import CACHE_SECONDS, ContextCache


class Shelves:
    """A store of one context by any name, which counts how often it is read."""

    def __init__(self, tenant="acme"):
        self.tenant = tenant
        self.read = []
        packages = [brimful.package("message-current", "Hi", model="gpt-4o", id="now")]
        self._context = brimful.assemble(packages, model="gpt-4o", now=0.0)

    async def snapshot(self, id):
        self.read.append(id)
        return None if id == "none" else Snapshot(id=id, room="r", context=self._context)


class Clock(msgspec.Struct):
    now: float = 100.0

    def __call__(self):
        return self.now


def look(cache, store, *ids):
    async def story():
        for id in ids:
            assert (await cache.snapshot(store, id)).id == id

    asyncio.run(story())


def test_a_context_is_read_once_while_cached():
    clock, store = Clock(), Shelves()
    cache = ContextCache(clock)
    look(cache, store, "a", "a", "b", "a")
    assert store.read == ["a", "b"]
    clock.now += CACHE_SECONDS
    look(cache, store, "a")
    assert store.read == ["a", "b", "a"]
    assert len(cache) == 1
    clock.now -= 1  # a clock may be set back
    look(cache, store, "a")
    assert store.read == ["a", "b", "a", "a"]


def test_the_cache_is_limited_per_tenant():
    acme, other = Shelves(), Shelves("other")
    cache = ContextCache(Clock(), per_tenant=2)
    look(cache, other, "x")
    look(cache, acme, "a", "b", "a", "c", "a")
    look(cache, other, "x")
    assert (acme.read, other.read) == (["a", "b", "c"], ["x"])
    look(cache, acme, "b")
    assert acme.read == ["a", "b", "c", "b"]


def test_large_contexts_evict_each_other():
    store = Shelves()
    budget = CacheBudget(2**30)
    cache = ContextCache(Clock(), budget=budget)
    look(cache, store, "a", "b")
    budget.max_bytes = budget.sizes()["contexts"] * 6 // 5
    look(cache, store, "c")
    assert len(cache) == 2
    large = ContextCache(Clock(), budget=CacheBudget(0))
    look(large, store, "a")
    assert len(large) == 1


def test_tenants_do_not_share_cached_contexts():
    acme, other = Shelves(), Shelves("other")
    cache = ContextCache(Clock())
    look(cache, acme, "a")
    look(cache, other, "a")
    assert other.read == ["a"]
    cache.drop("acme")
    look(cache, acme, "a")
    look(cache, other, "a")
    assert (acme.read, other.read) == (["a", "a"], ["a"])


def test_missing_contexts_are_not_cached():
    cache = ContextCache(Clock())
    with pytest.raises(ApiError, match="not found"):
        look(cache, Shelves(), "none")
    assert len(cache) == 0


def test_a_context_read_during_an_erasure_is_not_cached():
    store, cache = Shelves(), ContextCache(Clock())
    read = store.snapshot

    async def slow(id):
        snapshot = await read(id)
        cache.drop("acme")
        return snapshot

    store.snapshot = slow
    look(cache, store, "a")
    assert len(cache) == 0
