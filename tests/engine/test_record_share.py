"""Only a share of the contexts is recorded in full. Everything else works as if all were."""

import zlib

import pytest

from brimful.core.notice import Notice
from brimful.errors import InvalidValue, NotRecorded, UnknownRecord
from brimful.records import Snapshot
from brimful.records.contexts import is_sampled
from brimful.testing import ScriptedProvider

TURNS = 15
SMALL = {"window": 400, "completion": 50}  # room for some of the turns


async def talk(engine, turns=TURNS):
    """Build a context for each message and record its answer; return the contexts."""
    await engine.remember("Ada drinks green tea.", id="tea", at=1.0)
    contexts = []
    for turn in range(turns):
        await engine.post(room="den", text=f"Turn {turn}: is there any green tea left?", id=f"q{turn}", at=10.0 * turn)
        contexts.append(await engine.assemble(room="den", now=10.0 * turn + 1, **SMALL))
        usage = {"prompt": contexts[-1].tokens, "completion": 3}
        await engine.record_response(contexts[-1], f"Answer {turn}", usage=usage, id=f"a{turn}", at=10.0 * turn + 2)
    return contexts


def without_records(statistics):
    return [(each.contexts, each.tokens, each.left_out, each.memories, each.answers) for each in statistics]


def test_statistics_accesses_and_prefixes_are_the_same_whatever_is_recorded(run, new_engine):
    async def story(share):
        async with new_engine(tenant=f"t{share}", model="gpt-4o", embedder="none", record_share=share) as engine:
            contexts = await talk(engine)
        async with new_engine(tenant=f"t{share}", model="gpt-4o", embedder="none", record_share=share) as engine:
            contexts.append(await engine.assemble(room="den", message="And now?", now=999.0, **SMALL))
            store = engine.store
            [memory] = await store.memories(ids=["tea"])
            return (
                [context.request for context in contexts],
                [(build.id, build.history, build.tokens) for build in await store.builds()],
                without_records(await store.statistics()),
                (memory.accesses, len(await store.usage_reports()), len(await store.responses())),
                await engine.database.check(),
                [build.recorded for build in await store.builds()],
            )

    whole, none = run(story(1.0)), run(story(0.0))
    assert whole[:-1] == none[:-1]
    assert (set(whole[-1]), set(none[-1])) == ({True}, {False})
    assert whole[3] == (TURNS + 1, TURNS, TURNS)


def test_the_id_decides_what_is_recorded_and_a_problem_always_is(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none", record_share=0.3) as engine:
            contexts = await talk(engine)
            notice = Notice(kind="overflowed", text="rebuilt")
            notable = [
                await engine.assemble(room="den", message=f"{n}?", notices=[notice], now=900.0 + n) for n in range(5)
            ]
            recorded = {build.id: build.recorded for build in await engine.store.builds()}
            exported = [each.id async for each in engine.store.export_records() if isinstance(each, Snapshot)]
            return contexts, notable, recorded, exported

    contexts, notable, recorded, exported = run(story())
    assert {context.id: is_sampled(context, 0.3) for context in contexts}.items() <= recorded.items()
    assert {recorded[context.id] for context in contexts} == {True, False}
    assert {recorded[context.id] for context in notable} == {True}
    assert sorted(exported) == sorted(id for id, kept in recorded.items() if kept)


def test_methods_that_need_the_record_say_that_there_is_none(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none", record_share=0.0) as engine:
            [context, *_] = await talk(engine, turns=3)
            for attempt in (engine.store.snapshot(context.id), engine.recall(query="tea", context=context.id)):
                with pytest.raises(NotRecorded, match=rf"'{context.id}' was not recorded, only its summary"):
                    await attempt
            with pytest.raises(UnknownRecord, match="no handle 'none'"):
                await engine.recall("none", room="den")
            recalled = await engine.recall(query="tea", context=context)
            by_id = await engine.record_response(context.id, "Again", usage={"prompt": 9}, id="by-id", at=99.0)
            reports = [report.id for report in await engine.store.usage_reports()]
            inclusions = await engine.store.inclusions(item="q0"), await engine.store.inclusions(snapshot=context.id)
            await engine.delete("q0", erase=True)
            removed = await engine.store.remove_context(context.id)
            return recalled, by_id, reports, inclusions, removed, await engine.database.check()

    recalled, by_id, reports, inclusions, removed, problems = run(story())
    assert "green tea" in recalled.text
    assert (by_id.model, by_id.usage.prompt, by_id.message) == ("gpt-4o", 9, "by-id/message")
    assert sorted(reports) == [f"a{turn}/usage" for turn in range(3)]  # without the context, there is no comparison
    assert (inclusions, removed, problems) == (([], []), True, [])


def test_messages_with_the_same_hash_are_both_known_as_included(run, new_engine):
    ids: dict[int, str] = {}
    for number in range(100_000):
        other = ids.setdefault(zlib.crc32(f"m{number}".encode()) & 0xFFFF, f"m{number}")
        if other != f"m{number}":
            break

    async def story():
        async with new_engine(model="gpt-4o", embedder="none", record_share=0.0) as engine:
            for id in (other, f"m{number}"):
                await engine.post(room="den", text=f"Tea {id}", id=id, at=1.0)
            context = await engine.assemble(room="den", message="More?", now=9.0)
            unused = await engine.database.janitor("default").unused_messages("den", before=5.0)
            return {other, f"m{number}"} <= set(context.kept), unused

    assert run(story()) == (True, [])


def test_an_answer_still_supersedes_the_one_before_it(run, new_engine):
    async def story():
        provider = ScriptedProvider(["First", "Second"])
        options = {"model": "gpt-4o", "embedder": "none", "provider": provider, "record_share": 0.0}
        async with new_engine(**options) as engine:
            asked = await engine.post(room="den", text="Tea?", id="q")
            for now in (100.0, 200.0):
                await engine.respond(room="den", message=asked, now=now)
            return [(each.message.content, each.message.hidden) for each in await engine.store.history("den")]

    assert run(story()) == [("Second", False), ("First", True), ("Tea?", False)]


@pytest.mark.parametrize("share", [-0.1, 1.1, "half", None, float("nan")])
def test_a_share_is_a_number_from_0_to_1(new_engine, share):
    with pytest.raises(InvalidValue, match="record_share: must be a number from 0 to 1"):
        new_engine(record_share=share)


def test_all_of_them_are_pruned(run, new_engine, clock):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none", record_share=0.5) as engine:
            await talk(engine, turns=8)
            clock.now = 1e9
            report = await engine.store.prune(before=1e9)
            return report, await engine.store.builds(), (await engine.store.statistics())[0].contexts

    report, left, contexts = run(story())
    assert (report.builds, left, contexts) == (8, [], 8)
