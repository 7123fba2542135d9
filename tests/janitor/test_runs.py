"""The janitor on real stores: what it does, what it leaves alone, and undo."""

import asyncio

import pytest

from brimful.engine.janitor import JANITOR_LEASE, MIN_BUILDS
from brimful.errors import InvalidValue, StoreUnavailable, UnknownRecord
from brimful.records import Memory, Message, Summary
from brimful.testing import ScriptedProvider
from janitor_rooms import DAY, NOW, chatter, echoes, make_message


async def everything(engine):
    return [record async for record in engine.store.export_records()]


def only(records, kind):
    return [record for record in records if isinstance(record, kind)]


def places(summaries):
    return sorted(seq for each in summaries for first, last in each.spans for seq in range(first, last + 1))


def test_undoing_a_run_restores_every_record(run, new_engine):
    async def story():
        async with new_engine(embedder="static") as engine:
            await engine.post_many(chatter(60, at=NOW - 500 * DAY, every=DAY / 3))
            await engine.post_many(echoes(40))
            await engine.post_many(chatter(30, at=NOW - 3600, prefix="n", seed=5))
            await engine.write_summaries(
                [Summary(id="mine", room="r", content="By hand.", cluster="c", first=1, last=9)]
            )
            await engine.remember_many(
                [Memory(id=f"k{n}", content="Ada  likes TEA"[: 13 + n], at=1.0) for n in range(3)]
            )
            before = await everything(engine)
            dry = await engine.run_janitor(dry_run=True, older_than="30d")
            assert await everything(engine) == before
            done = await engine.run_janitor(older_than="30d")
            after = await everything(engine)
            again = await engine.run_janitor(older_than="30d")
            found = await engine.search("lottery", room="r")
            undone = await engine.undo_janitor()
            assert await everything(engine) == before
            assert await engine.wait_indexed() == await engine.store.index_progress("static-minilm-256@7")
            back = await engine.search("lottery", room="r")
            assert await engine.undo_janitor() is None
            problems = await engine.database.check()
        return dry, done, after, again, found, undone, back, problems

    dry, done, after, again, found, undone, back, problems = run(story())
    assert (dry.rooms, dry.memories, dry.run) == (done.rooms, done.memories, None)
    assert (done.run, undone.number, undone.state) == (1, 1, "undone")
    [room] = done.rooms
    assert room.messages == 40
    [line] = room.floods
    assert line.startswith("40 near-identical messages from 3 senders, 10:00, e.g. “CONGRATS ")
    assert len(only(after, Message)) == 130
    assert next(each for each in only(after, Summary) if each.id == "mine").content == "By hand."
    made = [each for each in only(after, Summary) if each.id != "mine"]
    assert places(made) == list(range(1, 130))
    assert again.run is None
    assert not again.facts["summaries"]
    assert not [hit for hit in found.hits if hit.record.id.startswith("spam")]
    assert len([hit for hit in back.hits if hit.record.id.startswith("spam")]) >= 20
    assert done.memories == 1
    assert problems == []


def test_a_day_that_grew_is_summarized_again_and_the_others_cost_nothing(run, new_engine):
    async def story():
        async with new_engine() as engine:
            await engine.post_many(chatter(50, at=NOW - 5 * DAY, every=DAY / 10))
            first = await engine.run_janitor("r")
            await engine.post_many(chatter(3, at=NOW - 60, prefix="late", every=1.0))
            second = await engine.run_janitor("r")
            return first, second, await engine.store.summaries("r")

    first, second, summaries = run(story())
    assert first.facts["summaries"] == 6
    assert second.facts["summaries"] == 1
    assert places(summaries) == list(range(1, 53))


class Everything:
    """A summarizer that leaves nothing out."""

    incremental = False

    async def summarize(self, digest):
        return " ".join(passage.text for topic in digest.topics for passage in topic)


def levels(summaries):
    return sorted((each.metadata["janitor"], each.spans) for each in summaries)


def test_floods_are_collapsed_alone_and_the_days_are_summarized_later(run, new_engine):
    async def story():
        async with new_engine() as engine:
            await engine.post_many(chatter(6, at=NOW - 100 * DAY, every=1.0))
            await engine.post_many([*echoes(9), make_message("one", "Is that spam?", at=NOW - 7000)])
            whole = await engine.run_janitor("r")
            day, month = await engine.store.summaries("r")
            await engine.post_many([*chatter(4, at=NOW - 6000, prefix="new"), make_message("end", "Bye.", at=NOW)])
            first = await engine.run_janitor("r", summarize=False)
            kept = await engine.store.summaries("r")
            await engine.post_many(
                [make_message(f"more-{n}", echoes(1)[0].content, at=NOW - 3000 + n) for n in range(5)]
            )
            await engine.post(room="r", text="Stop it!", at=NOW)
            second = await engine.run_janitor("r", summarize=False)
            flooded = await engine.store.summaries("r")
            third = await engine.run_janitor("r", summarize=False)
            last = await engine.run_janitor("r")
            return whole, (day, month), first, kept, second, flooded, third, last, await engine.store.summaries("r")

    whole, before, first, kept, second, flooded, third, last, after = run(story())
    assert (whole.pending, levels(before)) == (0, [("day", ((7, 15),)), ("month", ((1, 6),))])
    assert (first.run, first.pending, kept) == (None, 1, list(before))  # the day is out of date, but not wrong
    assert (second.facts["floods"], second.facts["messages"], second.pending) == (1, 14, 1)
    assert levels(flooded) == [("family", ((7, 15), (22, 26))), ("month", ((1, 6),))]
    assert (third.run, third.pending) == (None, 1)
    assert (last.facts["floods"], last.facts["summaries"], last.pending) == (0, 1, 0)
    assert levels(after) == [("day", ((16, 21),)), *levels(flooded)]


def test_a_month_that_changed_is_left_to_the_run_that_summarizes(run, new_engine):
    async def story():
        async with new_engine() as engine:
            flood = echoes(20, at=NOW - 100 * DAY)
            await engine.post_many([*flood, *chatter(6, at=NOW - 99 * DAY), make_message("end", "Bye.", at=NOW)])
            new = await engine.run_janitor("r", summarize=False)
            await engine.run_janitor("r")
            before = await engine.store.summaries("r")
            await engine.edit("m3", "Something else entirely.", at=NOW - 1)
            unchanged = await engine.run_janitor("r", summarize=False)
            await engine.edit("m3", "Something else again.", at=NOW + 1)
            changed = await engine.run_janitor("r", summarize=False)
            return new, before, unchanged, changed, await engine.store.summaries("r")

    new, before, unchanged, changed, after = run(story())
    assert (new.facts["floods"], new.pending) == (1, 2)  # a day, and a month for the flood
    assert (unchanged.pending, changed.pending, changed.run) == (0, 2, None)
    assert after == before


def test_edited_deleted_and_erased_messages_are_summarized_again(run, new_engine):
    async def story():
        async with new_engine() as engine:
            await engine.post_many(chatter(12, at=NOW - DAY))
            await engine.post(room="r", id="pw", text="The password of the harbour office is swordfish.", at=NOW - DAY)
            await engine.post_many([make_message("last", "Bye.", at=NOW)])
            await engine.run_janitor("r", summarizer=Everything())
            result = await engine.store.summaries("r")
            await engine.delete("m3")
            await engine.edit("m4", "Something else entirely about penguins and glaciers.", at=NOW + 5)
            changed = await engine.run_janitor("r", summarizer=Everything())
            context = await engine.assemble(room="r", message="?", window=900, completion=100, now=NOW + 9)
            await engine.delete("pw", erase=True)
            kept = await engine.store.summaries("r")
            undone = await engine.undo_janitor()
            after_undo = await engine.store.summaries("r")
            await engine.run_janitor("r", summarizer=Everything())
            past = await engine.store.snapshot(context.id)
            return result, changed, kept, undone, after_undo, await engine.store.summaries("r"), past

    told, changed, kept, undone, after_undo, again, past = run(story())
    assert "swordfish" in told[0].content
    assert changed.facts["summaries"] == 1
    assert kept == []
    assert undone is not None
    assert "swordfish" not in "".join(each.content for each in (*after_undo, *again))
    assert "swordfish" not in str(past.context.request)
    assert places(again) == [1, 2, 3, *range(5, 13)]


def test_two_janitors_exclude_each_other_and_a_dead_one_is_relieved(run, new_engine):
    async def story():
        now = [NOW]
        async with new_engine(clock=lambda: now[0]) as engine:
            await engine.post_many(echoes(30))
            house = engine.database.janitor("default")  # a run that dies half way
            dead = await house.begin(holder="dead", now=NOW, lease=JANITOR_LEASE)
            with pytest.raises(StoreUnavailable, match="at work"):
                await engine.run_janitor("r")
            with pytest.raises(StoreUnavailable, match="at work"):
                await engine.undo_janitor()
            now[0] += JANITOR_LEASE + 1
            done = await engine.run_janitor("r")
            with pytest.raises(StoreUnavailable, match="taken over"):
                await house.heartbeat(dead, now=now[0])
            return dead, done, await engine.list_janitor_runs()

    dead, done, runs = run(story())
    assert done.run == dead.number
    assert [(each.number, each.state) for each in runs] == [(dead.number, "done")]


def test_a_run_that_is_broken_off_is_whole_and_the_next_goes_on(run, new_engine):
    class Slow:
        incremental = False

        def __init__(self):
            self.told = 0

        async def summarize(self, digest):
            assert digest.topics
            self.told += 1
            if self.told == 3:
                raise asyncio.CancelledError
            return "short"

    async def story():
        async with new_engine() as engine:
            await engine.post_many(chatter(50, at=NOW - 5 * DAY, every=DAY / 10))
            before = await everything(engine)
            with pytest.raises(asyncio.CancelledError):
                await engine.run_janitor("r", summarizer=Slow())
            [broken] = await engine.list_janitor_runs()
            some = await engine.store.summaries("r")
            done = await engine.run_janitor("r")
            await engine.undo_janitor()
            await engine.undo_janitor()
            return broken, some, done, before == await everything(engine)

    broken, some, done, same = run(story())
    assert broken.state == "done"
    assert len(some) == 2
    assert done.facts["summaries"] == 4
    assert same


@pytest.mark.parametrize("share", [1.0, 0.5, 0.0])
def test_pinned_and_used_memories_stay(run, new_engine, share):
    async def story():
        async with new_engine(record_share=share) as engine:
            old = chatter(40, at=NOW - 200 * DAY)
            pinned = make_message(
                "pin", "Never touch this message, it is pinned.", at=NOW - 200 * DAY, metadata={"pinned": True}
            )
            await engine.post_many([*old, pinned, *chatter(5, at=NOW - 60, prefix="new", every=1.0)])
            small = {"window": 700, "completion": 100}
            few = await engine.run_janitor("r", older_than="90d", now=NOW)
            contexts = [await engine.assemble(room="r", message=f"{n}?", now=NOW, **small) for n in range(MIN_BUILDS)]
            used = {
                each.id.removesuffix("/recalled") for context in contexts for each in context.decisions if each.included
            }
            done = await engine.run_janitor("r", older_than=90 * DAY)
            left = [each.message.id for each in await engine.store.history("r", limit=100)]
            by_id = await engine.store.messages(["m0", "pin"])
            return few, used, done, left, by_id

    few, used, done, left, by_id = run(story())
    assert "20" in few.rooms[0].notes[0]
    assert few.facts["messages"] == 0
    assert done.rooms[0].unused == done.facts["messages"] > 10
    assert "pin" in left
    assert set(left) == {"pin", *(f"new{n}" for n in range(5))} | {id for id in used if id.startswith("m")}
    assert [each.id for each in by_id] == ["m0", "pin"]


def test_archived_messages_are_summarized_if_history_reaches_back_beyond_them(run, new_engine):
    async def story():
        async with new_engine() as engine:
            day = chatter(12, at=NOW - 200 * DAY, every=60.0)
            pinned = make_message("pin", "The key is under the mat.", at=NOW - 201 * DAY, metadata={"pinned": True})
            await engine.post_many([pinned, *day, *chatter(30, at=NOW - 60, prefix="new", every=1.0)])
            small = {"window": 580, "completion": 100}
            for number in range(MIN_BUILDS):
                await engine.assemble(room="r", message=f"{number}?", now=NOW, **small)
            done = await engine.run_janitor("r", older_than="90d")
            return done, await engine.assemble(room="r", message="And before?"), await engine.store.summaries("r")

    done, context, summaries = run(story())
    assert done.rooms[0].unused == 12
    [told] = [each for each in summaries if each.first <= 5 <= each.last]
    assert {"pin", told.id, "new0", "new29"} <= {each.id for each in context.decisions if each.included}
    assert told.content.splitlines()[-1] in str(context.request)


def test_hidden_messages_are_in_no_summary(run, new_engine):
    hidden = [
        make_message("secret", "The password is swordfish.", at=NOW - 3 * DAY, hidden=True),
        *(make_message(f"h{n}", "The password is swordfish!", at=NOW - 3 * DAY + n, hidden=True) for n in range(30)),
    ]

    async def story():
        async with new_engine() as engine:
            await engine.post_many([make_message("plain", "The garden wants water.", at=NOW - 3 * DAY - 60), *hidden])
            await engine.post_many([make_message("end", "Anybody here?", at=NOW)])
            done = await engine.run_janitor("r")
            return done, await engine.store.summaries("r"), await engine.store.history("r", limit=100)

    done, [told], left = run(story())
    assert told.content == "1 message from Ada, 11:59\nAda: The garden wants water."
    assert done.facts["messages"] == 0
    assert len(left) == 33


def test_purged_is_purged_and_summaries_go_on_to_stand_for_it(run, new_engine):
    async def story():
        async with new_engine() as engine:
            await engine.post_many([*echoes(25), make_message("end", "Anybody here?", at=NOW)])
            first = await engine.run_janitor("r")
            kept = await engine.run_janitor("r", purge=True)
            again = await engine.run_janitor("r")
            records = await everything(engine)
            return first, kept, again, records, await engine.undo_janitor(), await engine.database.check()

    first, kept, again, records, undone, problems = run(story())
    assert (first.facts["messages"], kept.purged, again.run) == (25, 25, None)
    assert [message.id for message in only(records, Message)] == ["end"]
    assert [each.spans for each in only(records, Summary)] == [((1, 25),)]
    assert undone is None
    assert problems == []


def test_a_model_writes_within_its_window_and_goes_on_from_what_it_wrote(run, new_engine):
    provider = ScriptedProvider(f"Minutes, part {n}." for n in range(100))

    async def story():
        async with new_engine() as engine:
            await engine.post_many(chatter(60, at=NOW - 3 * 3600))
            writer = engine.make_summarizer("gpt-4o", provider=provider, window=1_200)
            await engine.run_janitor("r", summarizer=writer)
            [told] = await engine.store.summaries("r")
            asked = len(provider.requests)
            await engine.post_many(chatter(2, at=NOW - 60, prefix="late", every=1.0))
            await engine.run_janitor("r", summarizer=writer)
            [grown] = await engine.store.summaries("r")
            return told, asked, grown

    told, asked, grown = run(story())
    assert asked > 2
    assert told.content.splitlines()[1] == f"Minutes, part {asked - 1}."
    assert len(provider.requests) == asked + 1
    assert f"Minutes, part {asked - 1}." in str(provider.requests[-1])
    assert "62 messages" in grown.content or "61 messages" in grown.content


def test_a_model_that_fails_is_stood_in_for(run, new_engine):
    async def story():
        async with new_engine() as engine:
            await engine.post_many(chatter(20, at=NOW - 3600))
            return await engine.run_janitor(
                "r", summarizer=engine.make_summarizer("gpt-4o", provider=ScriptedProvider([""]))
            )

    done = run(story())
    assert done.facts["summaries"] == 1
    assert "failed" in done.rooms[0].notes[0]


def test_invalid_values_are_refused(run, new_engine):
    async def story():
        async with new_engine() as engine:
            with pytest.raises(UnknownRecord):
                await engine.run_janitor("nowhere")
            for wrong in (-1, float("nan"), "old", ()):
                with pytest.raises(InvalidValue, match="older"):
                    await engine.run_janitor(older_than=wrong)
            with pytest.raises(InvalidValue, match="purge: needs `summarize`"):
                await engine.run_janitor(purge=True, summarize=False)
            assert (await engine.run_janitor()).run is None

    run(story())
