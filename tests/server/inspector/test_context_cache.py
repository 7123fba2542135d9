"""Contexts at hand: few, fresh, and each its tenant's."""

import asyncio

import msgspec
import pytest

import brimful
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


def test_a_context_is_read_once_as_long_as_it_is_fresh():
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


def test_of_one_tenant_only_the_last_are_kept():
    acme, other = Shelves(), Shelves("other")
    cache = ContextCache(Clock(), per_tenant=2)
    look(cache, other, "x")
    look(cache, acme, "a", "b", "a", "c", "a")
    look(cache, other, "x")
    assert (acme.read, other.read) == (["a", "b", "c"], ["x"])
    look(cache, acme, "b")
    assert acme.read == ["a", "b", "c", "b"]


def test_large_contexts_make_room_for_each_other():
    store = Shelves()
    cache = ContextCache(Clock(), candidates=2)
    look(cache, store, "a", "b", "c")
    assert len(cache) == 2
    large = ContextCache(Clock(), candidates=0)
    look(large, store, "a")
    assert len(large) == 1


def test_what_belongs_to_another_tenant_is_not_mixed_up():
    acme, other = Shelves(), Shelves("other")
    cache = ContextCache(Clock())
    look(cache, acme, "a")
    look(cache, other, "a")
    assert other.read == ["a"]
    cache.drop("acme")
    look(cache, acme, "a")
    look(cache, other, "a")
    assert (acme.read, other.read) == (["a", "a"], ["a"])


def test_what_is_not_there_is_not_kept():
    cache = ContextCache(Clock())
    with pytest.raises(ApiError, match="not found"):
        look(cache, Shelves(), "none")
    assert len(cache) == 0


def test_what_was_read_while_something_was_erased_is_not_kept():
    store, cache = Shelves(), ContextCache(Clock())
    read = store.snapshot

    async def slow(id):
        snapshot = await read(id)
        cache.drop("acme")
        return snapshot

    store.snapshot = slow
    look(cache, store, "a")
    assert len(cache) == 0
