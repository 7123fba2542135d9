"""A conversation that does not fit takes less of the window if what it leaves out is found by search."""

import pytest

from brimful.engine.options import Retrieval
from brimful.records import Message, User

NOW = 1_800_000_000.0


def talk(count):
    text = "We talked about the weather in town {n}, and about the way there. "
    return [Message(id=f"m{n}", room="r", content=text.format(n=n) * 2, at=NOW - 900 + n) for n in range(count)]


def left_out(context):
    return [each.id for each in context.decisions if each.kind == "message-recent" and not each.included]


@pytest.fixture
def history_of(run, new_engine):
    """Return how a context is built for a room with so many messages: its history, and what it may take."""

    def build(count, *, retrieval=None, **options):
        async def story():
            async with new_engine(model="gpt-4o", embedder="none", retrieval=retrieval or Retrieval()) as engine:
                await engine.post_many(talk(count))
                return await engine.assemble(
                    room="r", message="Hm?", now=NOW, window=4_096, completion=96, save=False, **options
                )

        context = run(story())
        recent = next(pool for pool in context.pools if pool.name == "recent")
        return recent.used, context

    return build


def test_history_leaves_room_if_it_is_searched_and_does_not_fit(history_of):
    used, context = history_of(300)
    assert 0.3 * 4_000 < used <= 0.45 * 4_000
    assert context.inputs.unread.messages + len(left_out(context)) > 200


def test_a_conversation_that_fits_stays_as_it_is(history_of):
    used, context = history_of(90)
    assert used > 0.6 * 4_000
    assert left_out(context) == []


def test_history_fills_the_window_if_nothing_is_searched_or_tokens_have_no_price(history_of):
    assert history_of(300, retrieval=Retrieval(max_results=0))[0] > 0.9 * 4_000
    assert history_of(300, overrides={"price": "full"})[0] > 0.9 * 4_000
    assert history_of(300, overrides={"pools.recent.need.searched_share": None})[0] > 0.9 * 4_000


def test_a_smaller_limit_of_a_policy_holds(history_of):
    assert history_of(300, overrides={"pools.recent.limit.share": 0.2})[0] <= 0.2 * 4_000


@pytest.mark.parametrize(("most", "others"), [(2, 0), (4, 2), (4, 3), (4, 60), (4, 100)])
def test_a_message_beyond_the_limit_of_messages_is_searched(run, new_engine, most, others):
    """What is older than the limit is found by search, no matter how many messages a store returns at once."""
    nuts = Message(id="nuts", room="r", content="I am allergic to nuts.", at=NOW - 1000)
    limits = {"max_messages": most}

    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await engine.post_many([nuts, *talk(others)])
            return [
                await engine.assemble(room="r", message=message, now=NOW, save=False, overrides=limits)
                for message in ("Is there anything in nuts that I am allergic to?", "Hm?")
            ]

    asked, other = run(story())
    assert "nuts" in {each.id for each in asked.included()}
    for context in (asked, other):
        recent = [each for each in context.included() if each.kind in {"message-recent", "message-current"}]
        assert len(recent) == min(most, others + 2)
        assert "max-items" not in {each.reason for each in context.decisions}


def test_days_are_those_of_the_user(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await engine.put(User(id="ada", timezone="Pacific/Honolulu"))
            await engine.remember("Ada moved yesterday.", user="ada", at=NOW, pinned=True)
            options = {"room": "r", "message": "Hm?", "now": NOW, "user": "ada", "save": False}
            own = await engine.assemble(**options)
            return own, await engine.assemble(**options, overrides={"layout.timezone": "UTC"})

    own, other = run(story())
    assert "yesterday (13 January 2027)" in own.request["messages"][0]["content"]
    assert "yesterday (14 January 2027)" in other.request["messages"][0]["content"]
