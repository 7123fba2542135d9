"""Retention: old records are deleted, nothing else is, and statistics stay."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brimful.errors import InvalidValue
from brimful.packagers import message, package
from brimful.records import Response
from brimful.stores import connect
from stores.encrypted import kek
from stores.samples import make_message, words
from stores.test_snapshots import pile, snapshot
from stores.test_statistics import HOUR, START, events, moments, save_all, shown
from strategies import COUNTER, NOW, examples
from support import build

DAY = 24 * HOUR
FEW = settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NUMBERS = iter(range(10**6))


def build_of(text, id, at, **more):
    """Return a build of one message and what is said in it."""
    context = build([message(text, counter=COUNTER, id=f"m-{id}", timestamp=NOW - 1), pile()[-1]])
    return snapshot(context, id=id, at=at, **more)


@FEW
@given(given=events(), before=moments(), hours=st.lists(st.integers(-4, 61), min_size=2, max_size=2))
def test_only_old_records_are_pruned(database, run, given, before, hours):
    store = database.tenant(f"t{next(NUMBERS)}")
    run(save_all(store, given))
    boundary = before // HOUR * HOUR
    old = [each for each in given if each.at < boundary]
    since, until = (START + hour * HOUR for hour in sorted(hours))
    times = [{}, {"since": since}, {"since": since, "until": until}, {"until": until}, {"by": "hour"}, {"room": "one"}]
    figures = [run(store.statistics(**time)) for time in times]
    foreseen = run(store.prune(before=before, dry_run=True))
    assert run(store.builds()) == run(store.builds())
    assert len(run(store.builds())) == sum(hasattr(each, "persona") for each in given)
    removed = run(store.prune(before=before))
    assert removed == foreseen
    assert removed.before == boundary
    assert removed.builds + removed.answers == len(old)
    for each in given:
        if hasattr(each, "persona"):
            assert run(store.snapshot(each.id)) == (None if each in old else each)
    assert {each.id for each in run(store.responses())} == {
        each.id for each in given if isinstance(each, Response) and each not in old
    }
    assert [run(store.statistics(**time)) for time in times] == figures
    assert run(store.prune(before=before)).builds == 0


def test_pruned_hours_count_where_they_begin(store, run):
    for number in range(4):
        run(store.save_context(build_of("Tea", f"s{number}", START + number * HOUR + 1800)))
    run(store.prune(before=START + 2 * HOUR))

    def contexts(since, until):
        return run(store.statistics(since=START + since, until=START + until))[0].contexts

    assert contexts(0, 1) == 1
    assert contexts(1, HOUR) == 0
    assert contexts(1, HOUR + 1) == 1
    assert contexts(0, 2 * HOUR) == 2
    assert contexts(2 * HOUR + 1800, 2 * HOUR + 1801) == 1
    parts = [0, 1, HOUR - 1, HOUR + 7, 2 * HOUR + 1800, 3 * HOUR + 5, 5 * HOUR]
    assert sum(contexts(*part) for part in pairwise(parts)) == 4


def test_contents_go_with_the_last_build_that_saw_them(store, run):
    prompt = package("system-prompt", "You are kind, and were kinder.", counter=COUNTER, id="sys")
    old = build([prompt, message("only once", counter=COUNTER, id="m1", timestamp=NOW - 1), pile()[-1]])
    new = build([prompt, pile()[-1]])
    run(store.save_context(snapshot(old, id="old", at=START)))
    run(store.save_context(snapshot(new, id="new", at=START + 3 * DAY)))
    removed = run(store.prune(before=START + 2 * DAY))
    assert (removed.builds, removed.contents) == (1, 1)
    assert removed.bytes > len("only once")
    assert run(store.snapshot("new")).context == new
    assert run(store.prune(before=START + 9 * DAY)).contents == 3  # with the policy of the last context


def test_contents_that_a_message_says_stay(store, run):
    run(store.post([make_message("m1", "said and seen"), make_message("m2", "said and deleted")]))
    for number, text in enumerate(("said and seen", "said and deleted")):
        run(store.save_context(build_of(text, f"s{number}", START)))
    run(store.delete("m2"))
    removed = run(store.prune(before=START + 2 * DAY))
    assert removed.contents == 3  # what was deleted, the question that was never posted, and the policy
    assert run(store.messages(["m1"]))[0].content == "said and seen"
    again = build_of("said and deleted", "s9", START + 3 * DAY)
    run(store.save_context(again))
    assert run(store.snapshot("s9")) == again


def test_a_context_keeps_its_text_when_equal_messages_are_deleted_or_edited(store, run):
    seen = build_of("Yes.", "s1", START)
    run(store.save_context(seen))
    run(store.post([make_message("m1", "Yes."), make_message("m2", "Yes.")]))
    run(store.delete("m1"))
    run(store.edit("m2", "No.", words("No."), at=2.0))
    assert run(store.snapshot("s1")) == seen


def test_encrypting_a_store_makes_no_content_older(url, run):
    new = build_of("tea", "new", START + 5 * DAY)

    async def story():
        async with connect(url) as database:
            await database.tenant("acme").save_context(new)
        async with connect(url, keys=kek()) as database:
            await database.encryption("acme").encrypt()
            store = database.tenant("acme")
            return (await store.prune(before=START + 2 * DAY)).contents, await store.snapshot("new")

    assert run(story()) == (0, new)


def test_loading_an_older_build_does_not_make_its_contents_older(store, run):
    run(store.save_context(build_of("tea", "new", START + 5 * DAY)))
    run(store.save_context(build_of("tea", "old", START)))
    assert run(store.prune(before=START + 2 * DAY)).contents == 0
    assert run(store.snapshot("new")) == build_of("tea", "new", START + 5 * DAY)


def test_nothing_is_wrong_with_a_store_that_was_pruned(database, run):
    store = database.tenant("acme")
    run(store.post([make_message("m1", "said and seen")]))
    for number in range(5):
        run(store.save_context(build_of("said and seen", f"s{number}", START + number * DAY)))
        run(
            store.save_response(
                Response(id=f"a{number}", context=f"s{number}", room="general", at=START + number * DAY)
            )
        )
    run(store.prune(before=START + 3 * DAY))
    assert run(database.check()) == []


def test_progress_is_reported(store, run):
    for number in range(3):
        run(store.save_context(build_of("tea", f"s{number}", START)))
    reports = []
    whole = run(store.prune(before=START + 2 * DAY, on_progress=reports.append))
    assert reports[-1] == whole
    assert [each.builds for each in reports] == sorted(each.builds for each in reports)


def test_content_posted_again_while_it_is_pruned_is_not_lost(url, run):
    """A build refers to a content at the moment at which it goes: it is kept, or written anew."""

    async def raced():
        async with connect(url) as one, connect(url) as other:
            for turn in range(15):
                text = f"said again {turn}"
                await one.tenant("acme").save_context(build_of(text, f"old{turn}", START))
                new = build_of(text, f"new{turn}", START + 9 * DAY)
                await asyncio.gather(
                    one.tenant("acme").prune(before=START + 2 * DAY), other.tenant("acme").save_context(new)
                )
                assert await one.tenant("acme").snapshot(f"new{turn}") == new

    run(raced())


@pytest.mark.parametrize("before", [None, float("nan"), "yesterday"])
def test_nonsense_is_refused_by_name(store, run, before):
    with pytest.raises(InvalidValue, match="before"):
        run(store.prune(before=before))


def test_statistics_of_a_pruned_store_can_be_grouped_by_day(store, run):
    run(store.save_context(build_of("tea", "s1", START)))
    before = run(store.statistics(by="day"))
    run(store.prune(before=START + DAY))
    assert [shown(each) for each in run(store.statistics(by="day"))] == [shown(each) for each in before]
