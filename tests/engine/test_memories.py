"""List, search, update and forget memories by filter."""

import asyncio
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brimful.engine import Engine
from brimful.errors import InvalidValue, UnknownRecord
from brimful.records import Memory

NUMBERS = itertools.count()  # of examples that share a store


async def list_ids(engine, **filters):
    """Return the ids on all pages, and check that pages are as long as they should be."""
    ids, cursor, limit = [], "", filters.pop("limit")
    while cursor is not None:
        page = await engine.list_memories(cursor=cursor, limit=limit, **filters)
        assert len(page.memories) == limit or page.next is None
        ids += [memory.id for memory in page.memories]
        cursor = page.next
    return ids


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    times=st.lists(st.sampled_from([0.0, 1.0, 1.5, 2.0]), max_size=12),
    kinds=st.lists(st.booleans(), min_size=12, max_size=12),
    limit=st.integers(1, 5),
)
def test_pages_are_the_list(sqlite_url, times, kinds, limit):
    memories = [
        Memory(id=f"m {at}", content="tea", at=time, user=f"u/{kinds[at]}", metadata={"kind": kinds[at]})
        for at, time in enumerate(times)
    ]

    async def story():
        async with Engine(sqlite_url, tenant=f"t{next(NUMBERS)}", embedder=None) as engine:
            await engine.remember_many(memories)
            for filters in ({}, {"metadata": {"kind": True}}, {"user_prefix": "u/T"}):
                expected = sorted(
                    (each for each in memories if not filters or each.metadata["kind"]),
                    key=lambda each: (-each.at, each.id),
                )
                assert await list_ids(engine, limit=limit, **filters) == [each.id for each in expected]
                assert await engine.count_memories(**filters) == len(expected)

    asyncio.run(story())


def test_pages_are_stable_while_others_write(new_engine, run):
    async def story():
        async with new_engine(embedder=None) as engine:
            await engine.remember_many([Memory(id=f"m{at}", content="tea", at=at) for at in range(6)])
            first = await engine.list_memories(limit=2)
            await engine.remember_many([Memory(id="new", content="tea", at=9), Memory(id="m0", content="milk", at=0)])
            await engine.forget("m4")
            second = await engine.list_memories(limit=9, cursor=first.next)
            return [each.id for each in (*first.memories, *second.memories)]

    assert run(story()) == ["m5", "m4", "m3", "m2", "m1", "m0"]


def test_search_by_prefix_and_metadata(new_engine, run):
    async def story():
        async with new_engine() as engine:
            for user, number in (("team/ada", 1), ("team/bob", 2), ("other", 3), (None, 4)):
                await engine.remember(
                    "The tea is green.", user=user, id=f"{user or 'all'}/{number}", metadata={"n": number}
                )
            for at in range(60):
                await engine.remember(f"The tea is green, {at}.", user="team/many", metadata={"n": 0})
            await engine.remember("The tea is green and old.", user="team/many", id="old", metadata={"n": 5})
            await engine.remember("The tea is green.", user="team/ada", persona="p", room="den", id="private")
            await engine.wait_indexed()

            async def find(**filters):
                return sorted(hit.record.id for hit in await engine.search("green tea", **filters))

            return [
                await find(user_prefix="team/", metadata={"n": 5}),
                await find(user_prefix="team/a"),
                await find(user_prefix="team/a", persona="p", room="den"),
                await find(user_prefix="nobody"),
                await find(prefix="team/", user="team/ada"),
                await find(user="team/ada", metadata={"n": 4}),
            ]

    assert run(story()) == [["old"], ["team/ada/1"], ["private", "team/ada/1"], [], ["team/ada/1"], ["all/4"]]


def test_search_by_user_or_by_a_prefix_of_users(new_engine, run):
    async def story():
        async with new_engine() as engine:
            with pytest.raises(InvalidValue, match="user_prefix: cannot be combined with `user`"):
                await engine.search("tea", user="ada", user_prefix="a")

    run(story())


def test_a_memory_is_updated(new_engine, run, clock):
    async def story():
        async with new_engine() as engine:
            memory = await engine.remember("Ada drinks tea.", user="ada", metadata={"a": 1})
            clock.now += 60
            text = await engine.update_memory(memory.id, "Ada drinks coffee.")
            assert (text.content, text.metadata, text.at, text.edited) == (
                "Ada drinks coffee.",
                {"a": 1},
                memory.at,
                memory.at + 60,
            )
            changed = await engine.update_memory(memory.id, metadata={"b": 2}, pinned=True, at=memory.at + 90)
            assert (changed.content, changed.metadata, changed.pinned) == ("Ada drinks coffee.", {"b": 2}, True)
            assert changed.edited == memory.at + 90
            assert await engine.store.memories(ids=[memory.id]) == [changed]
            (hit,) = await engine.search("coffee", user="ada")
            assert hit.record == changed
            with pytest.raises(UnknownRecord):
                await engine.update_memory("nobody", "tea")
            for wrong in ({"text": " "}, {"metadata": "b"}, {"source_message": "nobody"}, {"colour": "red"}):
                with pytest.raises(InvalidValue):
                    await engine.update_memory(memory.id, **wrong)

    run(story())


def test_memories_are_forgotten_by_filter(new_engine, run):
    events = []

    async def story():
        async with new_engine(hooks=[events.append]) as engine:
            for user in ("ada", "ada", "bob", None):
                await engine.remember("Tea is green.", user=user)
            assert await engine.forget_memories(user="ada", erase=True) == 2
            assert await engine.forget_memories(user="ada") == 0
            assert await engine.count_memories() == 2

    run(story())
    assert [event.facts for event in events if event.name == "forgotten"] == [{"count": 2, "erased": True}]


@pytest.mark.parametrize("cursor", ["x", "nan a", 7, b"1.0 a"])
def test_a_wrong_cursor_is_refused(new_engine, run, cursor):
    async def story():
        async with new_engine(embedder=None) as engine:
            with pytest.raises(InvalidValue, match="cursor: must be the `next` of another page"):
                await engine.list_memories(cursor=cursor)

    run(story())
