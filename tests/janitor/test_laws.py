"""Properties of the janitor on a real store with generated rooms."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.engine import Engine
from brimful.records import Memory, Message, Room, Summary
from janitor_rooms import DAY, NOW, echoes
from strategies import examples

TEXTS = st.sampled_from(["Lunch at noon?", "ok", "The build is green again, thanks to Bo."]) | st.text(max_size=30)
AGES = st.sampled_from([0.0, 0.1, 1.0, 40.0, 100.0, 500.0, 900.0])
MESSAGES = st.tuples(TEXTS, AGES, st.booleans())
KNOWN = st.tuples(st.sampled_from(["Ada likes tea", "ada likes  TEA", "Bo sails"]), AGES, st.booleans())


def room_of(said, spam, drawn):
    messages = [
        Message(
            id=f"m{n}",
            room=f"r{n % 2}",
            content=text or "…",
            at=NOW - age * DAY,
            sender="Ada",
            metadata={"pinned": True} if pinned and n % 3 == 0 else {},
        )
        for n, (text, age, pinned) in enumerate(said)
    ]
    at = min(drawn, len(messages))
    return [*messages[:at], *echoes(spam, room="r0"), *messages[at:]]


@given(
    said=st.lists(MESSAGES, max_size=12),
    later=st.lists(MESSAGES, max_size=4),
    known=st.lists(KNOWN, max_size=4),
    spam=st.sampled_from([0, 9, 12]),
    drawn=st.integers(0, 12),
    older=st.sampled_from([None, 0, "30d"]),
)
@settings(deadline=None, max_examples=examples(15))
def test_undoing_every_run_gives_back_every_record(said, later, known, spam, drawn, older):
    async def story():
        async with Engine("sqlite:///:memory:", clock=lambda: NOW, embedder="none", model="gpt-4o") as engine:

            async def records():
                return [record async for record in engine.store.export_records()]

            await engine.put(Room(id="r0"))
            await engine.post_many(room_of(said, spam, drawn))
            memories = [
                Memory(id=f"k{n}", content=text, at=NOW - age * DAY, pinned=pinned)
                for n, (text, age, pinned) in enumerate(known)
            ]
            await engine.remember_many(memories)
            states = [await records()]
            runs = [(await engine.run_janitor(older_than=older)).run]
            states.append(await records())
            fresh = [
                Message(id=f"l{n}", room="r0", content=text or "…", at=NOW - age * DAY)
                for n, (text, age, _) in enumerate(later)
            ]
            await engine.post_many(fresh)
            states.append(await records())
            runs.append((await engine.run_janitor(older_than=older)).run)
            touched = await engine.count_archived()
            assert touched["memories"] <= sum(not memory.pinned and not memory.accesses for memory in memories)
            assert (await engine.run_janitor(older_than=older)).run is None
            if runs[1] is not None:
                assert (await engine.undo_janitor()).number == runs[1]
            assert await records() == states[2]
            if runs[0] is not None:
                assert (await engine.undo_janitor()).number == runs[0]
            left = [record for record in await records() if record.id not in {message.id for message in fresh}]
            assert left == states[0]
            assert not [record for record in left if isinstance(record, Summary)]
            assert await engine.database.check() == []
            return states

    before, after, _ = asyncio.run(story())
    assert [each for each in after if not isinstance(each, Summary)] == before
