"""Usage by user and by API key, over time."""

import pytest

from brimful import Engine
from brimful.errors import InvalidValue
from brimful.records import Usage

DAY = 86_400.0
NOON = 20_000 * DAY + 12 * 3_600


def use_models(run, ask):
    """Answer Ada on two days and Bob on one, and return what `ask` gets."""

    async def story():
        async with Engine("sqlite:///:memory:", model="gpt-4o", embedder="none") as engine:
            for user, key, at in (
                ("ada", "k1", NOON),
                ("ada", "k2", NOON + DAY),
                ("bob", "k1", NOON),
                (None, None, NOON),
            ):
                context = await engine.assemble(room="hall", message="Hi", user=user, key=key, now=at)
                usage = Usage(prompt=1_000, cached=400, completion=50, reasoning=10)
                await engine.record_response(context, "Hello.", usage=usage, at=at)
            return await ask(engine)

    return run(story())


def test_usage_of_a_user_by_day(run):
    pytest.importorskip("genai_prices")
    first, second = use_models(run, lambda engine: engine.usage("ada"))
    assert (first.key, first.begin, first.requests) == ("2024-10-04", 20_000 * DAY, 1)
    assert (first.prompt, first.cached, first.completion, first.reasoning) == (1_000, 400, 50, 10)
    assert first.cost > 0
    assert second.begin == first.begin + DAY
    assert [each.key for each in use_models(run, lambda engine: engine.usage("ada", by="hour"))] == [
        "2024-10-04T12:00Z",
        "2024-10-05T12:00Z",
    ]


def test_usage_of_a_key_and_of_all(run):
    assert [each.requests for each in use_models(run, lambda engine: engine.usage(key="k1"))] == [2]
    assert [each.requests for each in use_models(run, lambda engine: engine.usage())] == [3, 1]
    assert use_models(run, lambda engine: engine.usage("eve")) == []
    assert [each.requests for each in use_models(run, lambda engine: engine.usage(since=NOON + 1))] == [1]


def test_the_records_know_their_user_and_key(run):
    async def look(engine):
        builds = await engine.store.builds()
        return [(each.user, each.key) for each in builds], (await engine.store.snapshot(builds[-1].id)).key

    who, key = use_models(run, look)
    assert (who, key) == ([(None, None), ("bob", "k1"), ("ada", "k2"), ("ada", "k1")], "k1")


def test_statistics_of_an_engine_are_those_of_its_store(run):
    async def both(engine):
        return await engine.statistics(by="user"), await engine.store.statistics(by="user")

    ours, stored = use_models(run, both)
    assert ours == stored
    assert [(each.key, each.contexts) for each in ours] == [("ada", 2), ("bob", 1)]


@pytest.mark.parametrize("wrong", [{"by": "week"}, {"user": "ada", "key": "k1"}, {"since": "today"}, {"user": 7}])
def test_wrong_arguments_are_named(run, wrong):
    with pytest.raises(InvalidValue, match=list(wrong)[-1]):
        use_models(run, lambda engine: engine.usage(**wrong))
