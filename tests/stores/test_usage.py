"""Usage reports: stored once, read newest first, summed by model and route."""

import asyncio

import pytest

from brimful.records import Room
from brimful.records.statistics import ResponseStatistics
from brimful.records.usage import UsageReport
from brimful.stores import connect

ON = {"model": "claude", "route": "anthropic:api.anthropic.com"}


def seen(id, at=0.0, **fields):
    return UsageReport(**{**ON, "id": id, "at": at, "counted": 100, "margin": 10, "reported": 100} | fields)


def keep(run, store, *observations):
    for observation in observations:
        run(store.save_usage(observation))


def test_an_observation_comes_back_as_it_was(store, run):
    whole = seen(
        "o1",
        at=7.5,
        kind="overflow",
        context="ctx-1",
        room="general",
        basis="calibrated",
        tokenizer="o200k_base",
        features={"tokens": 90.0, "han": 2.0},
        cached=5,
        expected_cached=6,
        completion=7,
        reasoning=8,
        window=4096,
    )
    keep(run, store, whole)
    assert run(store.usage_reports(ON["model"], ON["route"])) == [whole]


def test_the_first_of_an_id_stands(store, run):
    keep(run, store, seen("o1", reported=90), seen("o1", reported=80))
    assert [each.reported for each in run(store.usage_reports())] == [90]


def test_usage_reports_are_read_newest_first_by_model_and_route(store, run):
    keep(run, store, seen("o1", at=1), seen("o3", at=3), seen("o2", at=2), seen("o4", at=3), seen("x", at=9, route="b"))
    assert [each.id for each in run(store.usage_reports(**ON))] == ["o4", "o3", "o2", "o1"]
    assert [each.id for each in run(store.usage_reports(**ON, limit=2))] == ["o4", "o3"]
    assert [each.id for each in run(store.usage_reports(**ON, before=3.0))] == ["o2", "o1"]
    assert [each.id for each in run(store.usage_reports(ON["model"]))] == ["x", "o4", "o3", "o2", "o1"]
    assert {each.id for each in run(store.usage_reports(ids=["o1", "x", "none"]))} == {"o1", "x"}
    assert run(store.usage_reports("gpt-4o", ON["route"])) == []


def test_summaries_are_in_the_statistics_and_listed_only_on_request(store, run):
    summary = seen("s1", at=2, kind="summary", room="general", reported=900, cached=100, completion=40, reasoning=7)
    keep(run, store, seen("o1", at=1), summary, summary, seen("s2", at=3, kind="summary", model="other"))
    assert [each.id for each in run(store.usage_reports())] == ["o1"]
    assert run(store.usage_reports(unusual=True)) == []
    assert [each.id for each in run(store.usage_reports(summaries=True))] == ["s2", "s1", "o1"]
    assert [(each.model, each.requests) for each in run(store.accuracy())] == [("claude", 1)]
    [all] = run(store.statistics())
    assert all.summaries == ResponseStatistics(
        total=2, reported=2, prompt=1_000, cached=100, completion=40, reasoning=7
    )
    assert {each.model: each.summaries.prompt for each in all.models} == {"claude": 900, "other": 100}
    assert all.answers == ResponseStatistics()
    [room] = run(store.statistics(room="general"))
    assert room.summaries.total == 1
    assert run(store.follow("0")).events == ()


def test_overflows_and_cuts_are_found_however_many_requests_came_since(store, run):
    keep(run, store, seen("o1", at=1, kind="overflow", window=9), seen("o2", at=2, kind="cut"), seen("o3", at=3))
    assert [each.id for each in run(store.usage_reports(**ON, unusual=True))] == ["o2", "o1"]
    assert [each.id for each in run(store.usage_reports(**ON, unusual=True, limit=1))] == ["o2"]


def test_accuracy_sums_up_by_model_and_route(store, run):
    keep(
        run,
        store,
        seen("o1", at=1, counted=110, reported=100, cached=40, expected_cached=50),
        seen("o2", at=2, counted=90, margin=5, reported=100, cached=10, expected_cached=10),
        seen("o3", at=3, counted=100, reported=0),
        seen("o4", at=4, kind="cut", counted=1000, reported=100),
        seen("o5", at=5, kind="overflow", counted=1000, reported=4000, window=3000),
        seen("o6", at=6, model="gpt-4o", route="openai"),
    )
    claude, gpt = run(store.accuracy())
    assert (claude.model, claude.requests, claude.overflows, claude.cuts) == ("claude", 3, 1, 1)
    assert claude.mean_error == pytest.approx(0.0)
    assert claude.mean_absolute_error == pytest.approx(0.1)
    assert claude.worst_error == pytest.approx(0.1)
    assert claude.covered == pytest.approx(2 / 3)
    assert (claude.counted, claude.reported, claude.cached, claude.expected_cached) == (300, 200, 50, 60)
    assert (claude.first, claude.last) == (1.0, 5.0)
    assert (gpt.model, gpt.requests, gpt.mean_error, gpt.covered) == ("gpt-4o", 1, 0.0, 1.0)


def test_accuracy_since_a_time_and_of_one_model(store, run):
    keep(run, store, seen("o1", at=1, counted=200), seen("o2", at=2, counted=90), seen("o3", at=3, model="gpt-4o"))
    (late,) = run(store.accuracy(since=2.0, model="claude"))
    assert (late.requests, late.worst_error) == (1, pytest.approx(-0.1))
    assert [each.model for each in run(store.accuracy(since=2.5))] == ["gpt-4o"]
    assert run(store.accuracy(since=9.0)) == []


def test_accuracy_of_nothing_but_overflows(store, run):
    keep(run, store, seen("o1", kind="overflow", window=4096))
    (only,) = run(store.accuracy())
    assert (only.requests, only.overflows, only.covered, only.worst_error) == (0, 1, 1.0, 0.0)


def test_a_room_that_goes_takes_its_name_along_and_leaves_what_was_learned(store, run):
    run(store.put(Room(id="general")))
    keep(run, store, seen("o1", room="general", context="ctx-1"), seen("o2", room="other", context="ctx-2"))
    run(store.remove(Room, "general"))
    kept = {each.id: (each.room, each.context) for each in run(store.usage_reports())}
    assert kept == {"o1": (None, None), "o2": ("other", "ctx-2")}


def test_several_may_write_at_once_and_nothing_is_lost(url, run):
    async def together():
        async with connect(url) as one, connect(url) as other:
            stores = [one.tenant("acme"), other.tenant("acme")]
            await asyncio.gather(*(stores[n % 2].save_usage(seen(f"o{n % 30}", at=float(n))) for n in range(60)))
            return await stores[0].usage_reports(limit=100)

    assert {each.id for each in run(together())} == {f"o{n}" for n in range(30)}
