"""The effect of the janitor: a flood costs one line, and a year fits into a window, all on the record."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brimful
from brimful.core.content import ContentPackage
from brimful.core.tokens import Count
from brimful.engine import Engine
from brimful.engine.candidates import filter_summaries
from brimful.engine.history import Clusters
from brimful.records import Message, Summary
from janitor_rooms import DAY, NOW, a_year, chatter, flood

WINDOW = 32_768


def engine_at(url):
    return Engine(url, clock=lambda: NOW, embedder="none", model="gpt-4o")


def test_a_flood_of_ten_thousand_costs_less_than_a_hundred_tokens(sqlite_url):
    question = {"room": "r", "message": "What did we say about the release?", "window": WINDOW, "now": NOW}

    async def story():
        async with engine_at(sqlite_url) as engine:
            await engine.post_many(chatter(40, at=NOW - 30_000))
            await engine.post_many(flood(10_000))
            drowned = await engine.assemble(**question)
            await engine.run_janitor("r")
            newest = await engine.assemble(**question)
            await engine.post(room="r", id="what", text="What was that?", sender="Ada", at=NOW - 60)
            await engine.run_janitor("r")
            return drowned, newest, await engine.assemble(**question)

    drowned, newest, tidy = asyncio.run(story())
    assert drowned.tokens > 10_000
    without = brimful.assemble(
        [package for package in tidy.inputs.packages if "near-identical" not in package.text],
        model="gpt-4o",
        window=WINDOW,
        now=NOW,
    )
    assert tidy.tokens - without.tokens < 100
    assert newest.decision("spam-9999").outcome == "kept"  # as long as it may be what is to be answered
    included = {decision.id for decision in tidy.decisions if decision.included}
    assert {f"m{n}" for n in range(40)} <= included
    [line] = [package for package in tidy.inputs.packages if "near-identical" in package.text]
    assert line.text.startswith("10,000 near-identical messages from 3 senders, 10:00–10:33, e.g. “CONGRATS ")
    assert tidy.decision(line.id).outcome == "kept"


@pytest.mark.parametrize("window", [WINDOW, 3_000])
def test_a_flood_of_a_past_month_is_summarized_while_its_messages_are_archived(sqlite_url, window):
    """The month is told by its own messages, and stays out; the flood has no messages that could tell of it."""
    question = {"room": "r", "message": "Who sent spam about the lottery?", "window": window, "now": NOW}

    async def story():
        async with engine_at(sqlite_url) as engine:
            await engine.post_many(chatter(60, at=NOW - 90 * DAY, every=DAY))
            await engine.post_many(flood(10_000, at=NOW - 85 * DAY))
            await engine.post(room="r", text="Good night.", sender="Ada", at=NOW - 60)
            await engine.run_janitor("r")
            return await engine.assemble(**question), await engine.store.summaries("r")

    context, summaries = asyncio.run(story())
    [line] = [each for each in summaries if "near-identical" in each.content]
    assert line.content.startswith("10,000 near-identical messages from 3 senders, 12:00–12:33, e.g. “CONGRATS ")
    assert context.decision(line.id).outcome == "kept"
    assert context.decision(line.id).tokens < 100
    assert line.content in str(context.request)
    if window == WINDOW:
        inside = {each.id for each in context.decisions if each.included}
        assert {f"m{n}" for n in range(60)} <= inside
        assert "r/month/2026-08" not in inside
        assert "r/month/2026-08" in {each.id for each in summaries}


def test_a_year_of_a_busy_room_fits_a_window_as_summaries_recent_and_what_was_found(sqlite_url):
    async def story():
        async with engine_at(sqlite_url) as engine:
            await engine.post_many(a_year(24))
            await engine.run_janitor("r")
            question = {"room": "r", "message": "What was the passphrase of the old vault?", "window": WINDOW}
            contexts = [await engine.assemble(**question, now=NOW + n) for n in range(3)]
            return (
                contexts,
                await engine.store.summaries("r"),
                await engine.database.janitor("default").positions("r"),
            )

    contexts, summaries, places = asyncio.run(story())
    covers = {each.id: each.spans for each in summaries}
    for context in contexts:
        assert context.tokens <= context.budget.available
        names = {package.id: package for package in context.inputs.packages}
        inside = [decision.id for decision in context.decisions if decision.included]
        found = {seq for id in inside if id in covers for a, b in covers[id] for seq in range(a, b + 1)}
        verbatim = {names[id].position for id in inside if names[id].kind.startswith("message-")}
        assert not {place.seq for place in places} - found - verbatim
        assert len(context.decisions) == len(context.inputs.packages)
        assert "heliotrope-cormorant" in str(context.request)
        sorts = {component.name: component for component in context.components}
        assert min(sorts["summaries"].items, sorts["recent"].items) > 5
        assert sorts["older"].items >= 1


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)), max_size=8),
    st.integers(1, 60),
    st.sets(st.integers(1, 60), max_size=5),
)
@settings(deadline=None)
def test_a_message_belongs_to_the_summary_whose_spans_hold_it(drawn, oldest, aside):
    """Of a cluster of which only a part was read, no message bears the name: its summary competes by itself."""
    taken, summaries = set(), []
    for first, length in drawn:
        span = set(range(first, first + length + 1))
        if not span & taken:
            taken |= span
            name = f"c{first}"
            summaries.append(
                Summary(
                    id=name,
                    room="r",
                    content="",
                    cluster=name,
                    first=first,
                    last=first + length,
                    spans=((first, first + length),),
                )
            )
    clusters = Clusters(summaries)
    read = [seq for seq in range(70, oldest - 1, -1) if seq not in aside]
    messages = [Message(id=f"m{seq}", room="r", content="", seq=seq) for seq in read]
    count = Count(tokens=1, basis="exact")
    packages = [
        ContentPackage(id=each.id, kind="message-recent", content="x", tokens=count, cluster=clusters.find(each))
        for each in messages
    ]
    parted = clusters.find_partial(messages, read)
    for message, package, whole in zip(messages, packages, clusters.detach(packages, parted), strict=True):
        own = next((each for each in summaries if each.first <= message.seq <= each.last), None)
        assert package.cluster == (own and own.cluster)
        complete = own is not None and set(range(own.first, own.last + 1)) <= set(read)
        assert whole.cluster == (own.cluster if complete else None)


def test_the_newest_messages_stay_and_are_not_summarized():
    def report(name, first, last, **metadata):
        spans = ((first, last),)
        more = {"cluster": name, "first": first, "last": last, "spans": spans, "metadata": metadata}
        return Summary(id=name, room="r", content="", **more)

    summaries = [
        report("today", 51, 60, janitor="day"),
        report("flood", 55, 58, janitor="family"),
        report("before", 31, 50, janitor="day"),
        Summary(id="mine", room="r", content="", cluster="mine", first=1, last=60),
    ]
    assert [each.id for each in filter_summaries(summaries, 45)] == ["flood", "before", "mine"]
    assert filter_summaries(summaries, None) == summaries
    assert [each.id for each in filter_summaries(summaries, 45, {"today"})] == ["today", "flood", "before", "mine"]
    days = [each for each in summaries if each.id in ("today", "before")]
    clusters = Clusters(days)
    messages = [Message(id=f"m{seq}", room="r", content="", seq=seq) for seq in range(60, 30, -1)]
    packages = [
        ContentPackage(
            id=each.id,
            kind="message-recent",
            content="x",
            tokens=Count(tokens=1, basis="exact"),
            position=each.seq,
            cluster=clusters.find(each),
        )
        for each in messages
    ]
    left = {package.position: package.cluster for package in clusters.detach(packages, (), 45)}
    assert {left[seq] for seq in range(45, 61)} == {None}
    assert {left[seq] for seq in range(31, 45)} == {"before"}
