"""Sums over the messages of a room: what is in none is read, but not more than a page, and no stale sum is saved."""

import pytest

from brimful.records import Room
from brimful.stores.tables.room_counts import MAX_SPAN, RoomCounts, Sum
from stores.samples import make_message, words


async def read(store, room="general", counter="t"):
    """Return what is counted of a room, and the version of its search scope."""
    contents = await store.room_contents(
        room, memories=[], max_pinned=1, limit=3, tokenizer="t", counter=counter, scopes=[f"room:{room}"]
    )
    return contents.counts, contents.versions.get(f"room:{room}", "")


def spans(counts):
    return [(each.first, each.last, [one.message.seq for one in each.messages]) for each in counts.spans]


async def post(store, count, start=1, **fields):
    await store.post([make_message(f"m{n}", **fields) for n in range(start, start + count)])


def test_messages_in_no_sum_are_read(run, store):
    async def story():
        await post(store, 4)
        await store.delete("m2")
        counts, version = await read(store)
        assert (counts.sums, spans(counts), counts.rest) == ((), [(1, 4, [4, 3, 1])], 0)
        saved = Sum(first=1, last=4, messages=3, tokens=30)
        await store.save_room_counts("general", "t", version, [saved])
        await post(store, 2, start=5)
        counts, _ = await read(store)
        assert (counts.sums, spans(counts), counts.rest) == ((saved,), [(5, 6, [6, 5])], 0)
        assert (await read(store, counter="other"))[0].sums == ()
        assert (await read(store, room="unknown"))[0] == RoomCounts()

    run(story())


def change(how):
    return {
        "edited": lambda store: store.edit("m2", "Tea", words("tea"), at=9.0),
        "deleted": lambda store: store.delete("m2"),
        "erased": lambda store: store.delete("m2", erase=True),
        "hidden": lambda store: store.hide(["m2"]),
    }[how]


@pytest.mark.parametrize("how", ["edited", "deleted", "erased", "hidden"])
def test_a_change_removes_the_sum_of_its_message_alone(run, store, how):
    async def story():
        await post(store, 6)
        _, version = await read(store)
        sums = [Sum(first=first, last=first + 1, messages=2, tokens=first) for first in (1, 3, 5)]
        await store.save_room_counts("general", "t", version, sums)
        await change(how)(store)
        counts, _ = await read(store)
        assert counts.sums == tuple(sums[1:])
        assert [(first, last) for first, last, _ in spans(counts)] == [(1, 2)]

    run(story())


@pytest.mark.parametrize("how", ["edited", "deleted", "erased", "hidden"])
def test_a_sum_of_what_changed_meanwhile_is_not_saved(run, store, how):
    async def story():
        await post(store, 3)
        _, version = await read(store)
        await change(how)(store)
        await store.save_room_counts("general", "t", version, [Sum(first=1, last=3, messages=3, tokens=30)])
        counts, version = await read(store)
        assert counts.sums == ()
        await store.save_room_counts("gone", "t", version, [Sum(first=1, last=3, messages=3, tokens=30)])
        await store.save_room_counts("general", "t", version, [Sum(first=1, last=3, messages=2, tokens=20)])
        assert (await read(store))[0].sums == (Sum(first=1, last=3, messages=2, tokens=20),)

    run(story())


def test_no_more_than_a_page_is_read_of_a_long_room(run, store):
    """Newest first; gaps between sums come after."""

    async def story():
        for start in range(1, 3_000, 500):
            await post(store, 500, start=start)
        counts, version = await read(store)
        [(first, last, seqs)] = spans(counts)
        assert (first, last, len(seqs), counts.rest) == (3_000 - MAX_SPAN + 1, 3_000, MAX_SPAN, 3_000 - MAX_SPAN)
        sums = [
            Sum(first=first, last=last, messages=MAX_SPAN, tokens=1),
            Sum(first=1, last=900, messages=900, tokens=1),
        ]
        await store.save_room_counts("general", "t", version, sums)
        counts, version = await read(store)
        [(first, last, seqs)] = spans(counts)
        assert (first, last, len(seqs), counts.rest) == (953, 1_976, MAX_SPAN, 52)
        sums = [Sum(first=first, last=last, messages=len(seqs), tokens=1)]
        await store.save_room_counts("general", "t", version, sums)
        await store.delete("m5")
        counts, _ = await read(store)
        assert [(first, last) for first, last, _ in spans(counts)] == [(1, 952)]
        assert counts.rest == 0

    run(story())


def test_positions_may_be_far_apart(run, store):
    async def story():
        messages = [make_message(f"m{n}", seq=n)[0] for n in (7, 10**12)]
        await store.load_records(messages, lambda each: words(each.content))
        counts, version = await read(store)
        assert spans(counts) == [(1, 10**12, [10**12, 7])]
        await store.save_room_counts("general", "t", version, [Sum(first=1, last=10**12, messages=2, tokens=2)])
        assert spans((await read(store))[0]) == []

    run(story())


def test_a_removed_room_leaves_no_sums(run, store):
    async def story():
        await post(store, 2)
        _, version = await read(store)
        await store.save_room_counts("general", "t", version, [Sum(first=1, last=2, messages=2, tokens=2)])
        await store.remove(Room, "general")
        await post(store, 1)
        counts, _ = await read(store)
        assert (counts.sums, spans(counts)) == ((), [(1, 1, [1])])

    run(story())
