"""Properties of summaries, with generated rooms."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.janitor.days import group_by_day, make_spans, merge_spans, spans_contain
from brimful.janitor.schedule import find_due_days, find_roll_ups, summarizable
from brimful.janitor.summaries import (
    flood_summaries,
    make_day_change,
    make_day_summary,
    make_digest,
    make_roll_up_change,
    make_roll_up_digest,
    separate_floods,
)
from brimful.janitor.topics import group_by_thread, merge_by_subject
from brimful.records import Message
from brimful.records.runs import MessagePosition
from janitor_rooms import DAY, NOW, echoes, make_message

PLACES = st.lists(st.integers(1, 200), unique=True, max_size=60)


@given(PLACES)
def test_spans_hold_exactly_their_places(places):
    spans = make_spans(places)
    assert {place for place in range(202) if spans_contain(spans, place)} == set(places)
    assert merge_spans(spans) == spans


@given(st.lists(st.floats(-1e9, 4e9) | st.sampled_from([0.0, NOW, NOW - DAY]), max_size=50))
def test_days_hold_every_place_once(times):
    places = [MessagePosition(seq=at, at=time) for at, time in enumerate(times, start=1)]
    days = group_by_day(places)
    assert sorted(place.seq for day in days for place in day.positions) == [place.seq for place in places]
    assert len({day.name for day in days}) == len(days)


@st.composite
def rooms(draw):
    """Return the messages of a room: some days, some floods, some that are pinned, in any order of time."""
    texts = st.sampled_from(["Lunch at noon?", "ok", "The build is green again, thanks to Bo."]) | st.text(max_size=40)
    messages = []
    for _ in range(draw(st.integers(1, 30))):
        at = NOW - draw(st.sampled_from([0, 1, 2, 40, 100, 500, 900])) * DAY
        pinned = draw(st.booleans()) and draw(st.booleans())
        content = draw(texts) or "…"
        messages.append(("m", content, at, {"pinned": True} if pinned else {}))
    if draw(st.booleans()):
        spam = echoes(draw(st.integers(8, 14)))
        at = NOW - draw(st.sampled_from([0, 40, 500])) * DAY
        messages += [("s", message.content, at, {}) for message in spam]
    order = sorted(messages, key=lambda each: each[2]) if draw(st.booleans()) else messages
    return [
        Message(id=f"{kind}{seq}", room="r", content=text, at=at, seq=seq, sender="Ada", metadata=metadata)
        for seq, (kind, text, at, metadata) in enumerate(order, start=1)
    ]


def tidied(messages, known=(), aside=frozenset(), now=NOW):
    """Put a room in order as the engine does, without a store; return its summaries, and what is set aside."""
    known, aside = {summary.id: summary for summary in known}, set(aside)

    def apply(change):
        for id in change.remove:
            known.pop(id, None)
        known.update({summary.id: summary for summary in change.write})
        aside.update(change.messages)

    places = [
        MessagePosition(seq=each.seq, at=each.at, edited=each.edited, archived=each.id in aside) for each in messages
    ]
    changes = 0
    for waiting in find_due_days(places, list(known.values())):
        inside = {place.seq for place in waiting.day.positions}
        said = [each for each in messages if each.seq in inside]
        found = separate_floods(said)
        made = flood_summaries("r", waiting.day.name, found, NOW)
        if found.rest:
            digest = make_digest(group_by_thread(found.rest), found.rest, None)
            made.append(make_day_summary("r", waiting.day.name, found, digest, "", now=NOW))
        change = make_day_change(waiting, found, made)
        changes += bool(change)
        apply(change)
    while past := find_roll_ups(places, list(known.values()), now):
        for each in past:
            apply(make_roll_up_change("r", each, make_roll_up_digest(each), "", now=NOW))
            changes += 1
    return list(known.values()), aside, changes


def covered(summaries):
    return [place for each in summaries for first, last in each.spans for place in range(first, last + 1)]


@given(rooms())
@settings(deadline=None)
def test_every_message_is_covered_once_but_the_newest_and_what_is_pinned(messages):
    summaries, aside, _ = tidied(messages)
    expected = [each.seq for each in messages[:-1] if not each.metadata]
    assert sorted(covered(summaries)) == expected
    assert not aside & {each.id for each in messages if each.metadata}
    assert messages[-1].id not in aside
    for each in summaries:
        assert (each.first, each.last) == (each.spans[0][0], each.spans[-1][1])


@given(rooms(), st.integers(0, 40))
@settings(deadline=None)
def test_bit_by_bit_covers_what_from_scratch_covers(messages, cut):
    first, aside, _ = tidied(messages[: max(1, cut)])
    grown, grown_aside, _ = tidied(messages, first, aside)
    whole, whole_aside, _ = tidied(messages)
    spans = {each.id: each.spans for each in whole}
    assert {each.id: each.spans for each in grown} == spans
    assert grown_aside == whole_aside


@given(rooms())
@settings(deadline=None)
def test_a_second_run_has_nothing_to_do(messages):
    summaries, aside, _ = tidied(messages)
    again, still, changes = tidied(messages, summaries, aside)
    assert not changes
    assert (again, still) == (summaries, aside)


def test_floods_of_a_month_and_of_a_year_are_summarized_by_number_and_the_largest():
    def shouted(name, count, at):
        return [
            make_message(f"{name}-{n}", f"Buy {name} from us, they are the best", at=at + n * 0.1) for n in range(count)
        ]

    floods = {"apples": (20, 730), "watches": (60, 699), "lamps": (12, 698), "carpets": (40, 697), "yachts": (30, 600)}
    spam = [each for name, (size, days) in floods.items() for each in shouted(name, size, NOW - days * DAY)]
    room = [*spam, make_message("end", "Good night.", at=NOW)]
    messages = [msgspec.structs.replace(each, seq=at) for at, each in enumerate(room, start=1)]
    months, aside, _ = tidied(messages, now=NOW - 400 * DAY)
    apples, watches, lamps, carpets, yachts = (
        f"{size} near-identical messages from Ada, 12:00, e.g. “Buy {name} from us, they are the best”"
        for name, (size, _) in floods.items()
    )
    december = ["2024-12: 3 floods, 112 messages in all", f"2024-12-16: {watches}", f"2024-12-18: {carpets}"]
    assert {each.id: each.content.splitlines() for each in months} == {
        "r/family/2024-11/floods": [apples],
        "r/family/2024-12/floods": [*december, f"2024-12-17: {lamps}"],
        "r/family/2025-03/floods": [yachts],
    }
    assert len(aside) == len(spam)
    years, *_ = tidied(messages, months, aside)
    largest = [f"2024-12-16: {watches}", f"2024-12-18: {carpets}", f"2024-11-15: {apples}"]
    assert {each.id: each.content.splitlines() for each in years} == {
        "r/family/2024/floods": ["2024: 4 floods, 132 messages in all", *largest],
        "r/family/2025-03/floods": [yachts],
    }
    assert sorted(covered(years)) == list(range(1, len(spam) + 1))


def test_the_newest_message_alone_is_left_alone():
    assert summarizable([MessagePosition(seq=1, at=NOW)]) == []
    assert find_due_days([], []) == []


def test_threads_follow_what_messages_answer():
    messages = [
        Message(id="a", room="r", content="Who has the key?"),
        Message(id="b", room="r", content="Lunch?"),
        Message(id="c", room="r", content="I have it.", metadata={"reply_to": "a"}),
        Message(id="d", room="r", content="Thanks!", metadata={"reference": {"messageId": "c"}}),
        Message(id="e", room="r", content="One", metadata={"thread_ts": 17.5, "thread_id": 9}),
        Message(id="f", room="r", content="Two", metadata={"thread_id": 9}),
    ]
    assert [[each.id for each in thread] for thread in group_by_thread(messages)] == [
        ["a", "c", "d"],
        ["b"],
        ["e", "f"],
    ]


def test_subjects_join_what_means_the_same():
    import numpy as np  # noqa: PLC0415 - of this test alone

    messages = [(Message(id=name, room="r", content=name),) for name in "abc"]
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1]], dtype=np.float32)
    assert [[each.id for each in topic] for topic in merge_by_subject(tuple(messages), vectors)] == [["a", "c"], ["b"]]
    assert merge_by_subject(tuple(messages), None) == tuple(messages)
