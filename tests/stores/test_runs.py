"""The janitor's data in a store survives backups, encryption and removals."""

import pytest

from brimful.errors import StoreUnavailable
from brimful.records import Room
from brimful.records.runs import JanitorChange
from brimful.stores import connect
from stores.samples import known, make_message, occurring, summed, words

NOW = 1_794_744_000.0


async def begin(house, holder="me", now=NOW):
    return await house.begin(holder=holder, now=now, lease=60.0)


def indexed(record):
    return words(record.content)


async def filled(database):
    """Write a room of two messages, a memory and a summary, and set aside all that can be; return before and after."""
    store, house = database.tenant("acme"), database.janitor("acme")
    await store.post([make_message("m1", "one tea"), make_message("m2", "two teas")])
    await store.save_memories([known("k1", "Ada drinks tea"), known("pinned", "Bo drinks tea", pinned=True)])
    await store.save_summaries([summed("s1", "They spoke of tea", spans=((1, 1),), first=1, last=1)])
    before = [record async for record in store.export_records()]
    run = await begin(house)
    fresh = [summed("s1", "Tea, in short", spans=((1, 2),), first=1, last=2)[0], summed("s2", "More")[0]]
    change = JanitorChange(write=tuple(fresh), messages=("m1",), memories=("k1", "pinned"))
    await house.apply(run, change, indexed, now=NOW)
    await house.apply(run, JanitorChange(remove=("s2",)), indexed, now=NOW)
    await house.end(run, {"messages": 1}, now=NOW)
    return store, house, before


def test_archived_messages_are_in_no_context_or_search_but_in_the_store(database, run):
    async def story():
        store, house, _ = await filled(database)
        history = [entry.message.id for entry in await store.history("general")]
        at = [entry.message.id for entry in await store.messages_at("general", [1, 2])]
        found = await occurring(store, ["room:general"], ["one", "two"])
        by_id = [message.id for message in await store.messages(["m1", "m2"])]
        scopes = [memory.id for memory in await store.memories(scopes=["memory:::"])]
        ids = [memory.id for memory in await store.memories(ids=["k1"])]
        exported = [record.id async for record in store.export_records()]
        again = await store.post([make_message("m1", "one tea")])
        assert await house.count_archived() == {"messages": 1, "memories": 1}
        return history, at, found, by_id, scopes, ids, exported, again[0].seq

    history, at, found, by_id, scopes, ids, exported, seq = run(story())
    assert history == at == ["m2"]
    assert len(found.doc) == 1
    assert by_id == ["m1", "m2"]
    assert scopes == ["pinned"]
    assert ids == ["k1"]
    assert {"m1", "m2", "k1", "pinned", "s1"} <= set(exported)
    assert seq == 1


def test_undo_gives_back_what_was_there(database, run):
    async def story():
        store, house, before = await filled(database)
        undone = await house.undo(indexed, holder="me", now=NOW, lease=60.0)
        after = [record async for record in store.export_records()]
        found = await occurring(store, ["room:general"], ["one", "two"])
        return before, after, undone, len(found.doc), await database.check()

    before, after, undone, found, problems = run(story())
    assert after == before
    assert (undone.state, undone.facts) == ("undone", {"messages": 1})
    assert found == 2
    assert problems == []


def test_another_tenant_has_no_part_in_it(database, run):
    async def story():
        await filled(database)
        other = database.janitor("other")
        return (
            await other.runs(),
            await other.undo(indexed, holder="me", now=NOW, lease=60.0),
            await other.count_archived(),
        )

    assert run(story()) == ([], None, {"messages": 0, "memories": 0})


def test_a_copy_can_be_undone_as_well(database, run, keys, tmp_path):
    async def story():
        _, _, before = await filled(database)
        await database.backup(tmp_path / "copy.db")
        async with connect(f"sqlite:///{tmp_path}/copy.db", keys=keys) as copy:
            house = copy.janitor("acme")
            await house.undo(indexed, holder="me", now=NOW, lease=60.0)
            return before, [record async for record in copy.tenant("acme").export_records()], await begin(house)

    before, after, next_run = run(story())
    assert after == before
    assert next_run.number == 2


def test_undo_data_is_reencrypted_and_removed_with_its_room(database, run, keys):
    if keys is None:
        pytest.skip("nothing is sealed")

    async def story():
        store, house, before = await filled(database)
        await database.encryption("acme").rotate_data_key()
        await house.undo(indexed, holder="me", now=NOW, lease=60.0)
        after = [record async for record in store.export_records()]
        await store.remove(Room, "general")
        return before, after

    before, after = run(story())
    assert after == before


def test_a_room_that_is_removed_takes_along_what_undoing_would_give_back(database, run):
    async def story():
        store, house, _ = await filled(database)
        await store.remove(Room, "general")
        await house.undo(indexed, holder="me", now=NOW, lease=60.0)
        return [record.id async for record in store.export_records()], await database.check()

    ids, problems = run(story())
    assert ids == ["k1", "pinned"]
    assert problems == []


def test_one_janitor_run_at_a_time(database, run):
    async def story():
        _, house, _ = await filled(database)
        first = await begin(house)
        with pytest.raises(StoreUnavailable, match="at work") as busy:
            await begin(house, "you", NOW + 59)
        second = await begin(house, "you", NOW + 61)
        with pytest.raises(StoreUnavailable, match="taken over"):
            await house.apply(first, JanitorChange(messages=("m2",)), indexed, now=NOW + 62)
        nothing = await house.end(second, {}, now=NOW + 63)
        return (
            busy.value.retriable,
            first.number == second.number,
            nothing,
            [each.number for each in await house.runs()],
        )

    assert run(story()) == (True, True, None, [1])


def test_archived_records_come_back_when_edited_or_written_again(database, run):
    async def story():
        store, house, _ = await filled(database)
        await store.edit("m1", "one more tea", words("one more tea"), at=NOW)
        await store.save_memories([known("k1", "Ada drinks coffee")])
        await house.undo(indexed, holder="me", now=NOW, lease=60.0)
        history = [entry.message.content for entry in await store.history("general")]
        return history, [memory.content for memory in await store.memories()], await database.check()

    history, memories, problems = run(story())
    assert history == ["two teas", "one more tea"]
    assert sorted(memories) == ["Ada drinks coffee", "Bo drinks tea"]
    assert problems == []
