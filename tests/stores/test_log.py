"""The log: contexts and responses in order of arrival, without gaps or duplicates."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brimful.errors import InvalidValue
from brimful.packagers import memory
from brimful.records import Feedback, Response, Room, Snapshot, Usage
from brimful.records.contexts import Build
from brimful.stores import connect
from brimful.stores.backends.postgres import PostgresDriver
from brimful.stores.log.contexts import save_snapshots
from brimful.stores.urls import parse_url
from stores.test_snapshots import pile, snapshot
from strategies import COUNTER, examples
from support import build, history

FEW = settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def answer(id, context="s1", **more):
    return Response(**({"id": id, "context": context, "room": "general", "at": 8.0} | more))


async def all_after(store, cursor, limit):
    """Follow to the end, and return what came, as ids."""
    received = []
    while True:
        followed = await store.follow(cursor, limit=limit)
        received += [event.id for event in followed.events]
        if followed.cursor == cursor:
            return received, cursor
        cursor = followed.cursor


# -- feedback --------------------------------------------------------------------------------------------------------


def test_feedback_is_stored_replaced_and_removed(store, run):
    good = Feedback(rating="good", note="That helped.", at=9.0)
    run(store.save_response(answer("a1")))
    assert run(store.rate_response("none", good)) is None
    for feedback in (good, Feedback(rating="bad", at=10.0), None):
        rated = run(store.rate_response("a1", feedback))
        assert rated == answer("a1", feedback=feedback)
        assert run(store.responses()) == [rated]


def test_contexts_are_filtered_by_feedback(store, run):
    for id in ("s1", "s2", "s3"):
        run(store.save_context(snapshot(build([*pile()]), id=id)))
        run(store.save_response(answer(f"{id}-first", id)))
        run(store.save_response(answer(f"{id}-second", id)))

    def found(feedback, **filters):
        return [each.id for each in run(store.builds(feedback=feedback, **filters))]

    assert found("bad") == []
    run(store.rate_response("s1-first", Feedback(rating="bad")))
    run(store.rate_response("s1-second", Feedback(rating="bad")))
    run(store.rate_response("s2-first", Feedback(rating="good")))
    run(store.rate_response("s3-second", Feedback(rating="bad")))
    assert (found("bad"), found("good"), found(None)) == (["s3", "s1"], ["s2"], ["s3", "s2", "s1"])
    assert (found("bad", room="elsewhere"), found("bad", limit=1)) == ([], ["s3"])
    run(store.rate_response("s3-second", None))
    assert found("bad") == ["s1"]
    run(store.remove_context("s1"))
    assert found("bad") == []


def test_feedback_is_exported_and_loaded_again(store, run):
    rated = answer("a1", feedback=Feedback(rating="bad", note="Wrong year.", at=9.0))
    run(store.save_context(snapshot(build([*pile()]))))
    run(store.load_records([rated], lambda _: None))
    assert [each.id for each in run(store.builds(feedback="bad"))] == ["s1"]

    async def exported():
        return [each async for each in store.export_records()]

    assert rated in run(exported())


# -- builds ----------------------------------------------------------------------------------------------------------


def test_a_build_tells_its_numbers(store, run):
    context = build([*pile(), *history(90, size=20)], degraded=("vector search failed (x): full text alone",))
    run(store.save_context(snapshot(context, message="now")))
    [listed] = run(store.builds())
    assert (listed.number, listed.id, listed.message, listed.at) == (1, "s1", "now", 7.0)
    assert (listed.tokens, listed.window, listed.completion) == (context.tokens, 1000, 100)
    assert listed.available == context.budget.available
    assert listed.components == context.components
    assert (listed.warnings, listed.degraded) == (context.warnings, context.inputs.degraded)
    out = [each for each in context.decisions if not each.included]
    assert (listed.candidates, listed.left_out) == (len(context.decisions), len(out))
    assert out
    assert listed.naive == context.tokens + sum(each.tokens for each in out)


def test_the_naive_prompt_includes_the_cut_part_of_an_item(store, run):
    long = memory("word " * 400, counter=COUNTER, id="long", min_tokens=5, can_drop=False)
    context = build([long, pile()[-1]], window=300, completion=20)
    decision = context.decision("long")
    assert decision.outcome == "shrunk"
    run(store.save_context(snapshot(context)))
    assert run(store.builds())[0].naive == context.tokens + 400 - decision.tokens


def test_builds_match_all_filters(store, run):
    context = build(pile())
    for number in range(12):
        room, persona = ("one", "two")[number % 2], ("a", "b", None)[number % 3]
        question = f"q{number // 2}"
        data = {"at": float(number), "room": room, "persona": persona, "message": question}
        run(store.save_context(snapshot(context, id=f"s{number}", **data)))

    def ids(**chosen):
        return [each.id for each in run(store.builds(**chosen))]

    assert ids() == [f"s{number}" for number in range(11, -1, -1)]
    assert ids(room="one", persona="a") == ["s6", "s0"]
    assert ids(persona="b", limit=2) == ["s10", "s7"]
    assert ids(model="m", since=3.0, until=6.0) == ["s5", "s4", "s3"]
    assert ids(since=9.5) == ["s11", "s10"]
    assert ids(until=2.0, room="two") == ["s1"]
    assert ids(model="other") == []
    assert ids(message="q2") == ["s5", "s4"]
    assert ids(message="q2", room="one") == ["s4"]
    page = run(store.builds(limit=5))
    assert ids(before=page[-1].number, limit=5) == ["s6", "s5", "s4", "s3", "s2"]


@pytest.mark.parametrize(
    "wrong", [{"before": -1}, {"before": "7"}, {"since": float("nan")}, {"until": "now"}, {"limit": -1}]
)
def test_nonsense_is_refused_by_name(store, run, wrong):
    with pytest.raises(InvalidValue, match=next(iter(wrong))):
        run(store.builds(**wrong))


# -- answers ---------------------------------------------------------------------------------------------------------


def test_an_answer_is_found_by_the_message_that_it_is(store, run):
    run(store.save_response(answer("a1", message="m1")))
    run(store.save_response(answer("a2", message="m2")))
    run(store.save_response(answer("a3")))
    assert [each.id for each in run(store.responses(message="m2"))] == ["a2"]
    assert run(store.responses(message="m3")) == []


def test_an_answer_that_is_known_is_kept_with_its_context_and_counted_with_it(store, run):
    context = build(pile())
    run(store.save_context(snapshot(context), answer("a1", usage=Usage(prompt=100, completion=5))))
    assert [event.id for event in run(store.follow("0")).events] == ["s1", "a1"]
    [figures] = run(store.statistics())
    assert (figures.contexts, figures.answers.total, figures.answers.counted) == (1, 1, context.tokens)


# -- following -------------------------------------------------------------------------------------------------------


def test_following_begins_at_the_present_end(store, run):
    run(store.save_context(snapshot(build(pile()))))
    end = run(store.follow())
    assert end.events == ()
    assert run(store.follow(end.cursor)) == end
    run(store.save_response(answer("a1")))
    [event] = run(store.follow(end.cursor)).events
    assert event == answer("a1")


def test_everything_comes_once_and_in_order(store, run):
    context = build(pile())
    for number in range(5):
        run(store.save_context(snapshot(context, id=f"s{number}", at=float(-number))))
        run(store.save_context(snapshot(context, id=f"s{number}", at=99.0)))
        run(store.save_response(answer(f"a{number}", f"s{number}")))
        run(store.save_response(answer(f"a{number}", f"s{number}")))
    expected = [f"{kind}{number}" for number in range(5) for kind in "sa"]
    assert [run(all_after(store, "0", limit))[0] for limit in (1, 3, 100)] == [expected] * 3
    first = run(store.follow("0", limit=1)).events[0]
    assert isinstance(first, Build)
    assert first == run(store.builds(limit=5))[-1]


def test_removed_events_are_skipped(store, run):
    run(store.put(Room(id="gone")))
    run(store.save_context(snapshot(build(pile()), id="s1", room="gone")))
    run(store.save_response(answer("a1", "s1", room="gone")))
    run(store.save_context(snapshot(build(pile()), id="s2")))
    run(store.remove(Room, "gone"))
    assert run(all_after(store, "0", 1))[0] == ["s2"]
    assert [each.id for each in run(store.builds())] == ["s2"]


@pytest.mark.parametrize("cursor", ["-1", "x", "1.5", "9" * 40, "٣", 7])
def test_a_cursor_that_nobody_gave_is_refused(store, run, cursor):
    with pytest.raises(InvalidValue, match="cursor"):
        run(store.follow(cursor))


@FEW
@given(writes=st.lists(st.sampled_from(["save", "respond", "follow"]), max_size=12), limit=st.integers(1, 4))
def test_a_follower_sees_what_was_written_whenever_it_looks(database, run, writes, limit):
    store, context = database.tenant(f"t{next(NUMBERS)}"), build(pile())
    cursor, came, wrote = "0", [], []
    for number, write in enumerate(writes):
        match write:
            case "save":
                run(store.save_context(snapshot(context, id=f"s{number}", room=f"r{number}")))
                wrote.append(f"s{number}")
            case "respond":
                run(store.save_response(answer(f"a{number}")))
                wrote.append(f"a{number}")
            case "follow":
                more, cursor = run(all_after(store, cursor, limit))
                came += more
    came += run(all_after(store, cursor, limit))[0]
    assert came == wrote


NUMBERS = iter(range(10**6))


def test_two_writers_that_end_out_of_order_hide_nothing(postgres_url, run):
    """One begins first and ends last: whoever follows meanwhile neither misses its build nor sees another before it."""
    context = build(pile())

    async def raced():
        slow = PostgresDriver(parse_url(postgres_url), wait=10.0)
        await slow.open(migrate=False)
        async with connect(postgres_url) as other:
            quick = other.tenant("acme")
            await quick.save_context(snapshot(context, id="first"))
            begun, go = asyncio.Event(), asyncio.Event()
            loop = asyncio.get_running_loop()

            def slowly(session):
                save_snapshots(session, [snapshot(context, id="slow")])
                loop.call_soon_threadsafe(begun.set)
                asyncio.run_coroutine_threadsafe(go.wait(), loop).result(120)

            writing = asyncio.create_task(slow.write("acme", slowly))
            await begun.wait()
            waiting = asyncio.create_task(quick.save_context(snapshot(context, id="quick")))
            await asyncio.sleep(0.3)  # what must not happen has time to happen
            meanwhile, cursor = await all_after(quick, "0", 10)
            assert not waiting.done()
            go.set()
            await asyncio.gather(writing, waiting)
            await slow.close()
            return meanwhile, (await all_after(quick, cursor, 10))[0]

    assert run(raced()) == (["first"], ["slow", "quick"])


def test_many_writers_at_once_give_each_event_a_place_of_its_own(url, run):
    context = build(pile())

    async def crowded():
        databases = [await connect(url).open() for _ in range(3)]
        stores = [database.tenant("acme") for database in databases]
        cursor, came = "0", []
        writing = asyncio.gather(
            *(stores[n % 3].save_context(snapshot(context, id=f"s{n}", at=float(n))) for n in range(30)),
            *(stores[n % 3].save_response(answer(f"a{n}", f"s{n}")) for n in range(30)),
        )
        while not writing.done():
            followed = await stores[0].follow(cursor, limit=7)
            cursor, came = followed.cursor, came + [event.id for event in followed.events]
            await asyncio.sleep(0)
        await writing
        came += (await all_after(stores[0], cursor, 7))[0]
        [all] = await stores[0].statistics()
        for database in databases:
            await database.close()
        return came, all

    came, all = run(crowded())
    assert sorted(came) == sorted([f"{kind}{n}" for n in range(30) for kind in "sa"])
    assert (all.contexts, all.answers.total) == (30, 30)


def test_the_end_of_the_log_never_goes_back(store, run):
    run(store.save_context(Snapshot(id="s1", room="general", context=build(pile()), at=1.0)))
    before = run(store.follow()).cursor
    run(store.prune(before=9e9))
    run(store.save_context(Snapshot(id="s2", room="general", context=build(pile()), at=1.0)))
    assert int(run(store.follow()).cursor) == int(before) + 1
