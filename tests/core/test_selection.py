"""Who pays from which account: limits, margins, high and low water, by numbers that a person can check.

A word is a token, a message costs 2 more, a request 1. Under `default`, 884 of 1,000 tokens are to be filled where 100
are kept for the answer: recent may take 540 of them by itself, related 360.
"""

import pytest

import brimful
from brimful.core.content import Media, ToolCall, ToolResult
from brimful.core.selection import HistoryStart
from brimful.packagers import memory, message, package, summary, tool_turn
from strategies import COUNTER, NOW
from support import NO_FORMS, build, history, words

ALONE = {"pools.recent.min_items": 0, "pools.recent.limit.subtract": 0}


def outcomes(context):
    return {decision.id: (decision.outcome, decision.reason) for decision in context.decisions}


def renamed(packages, prefix):
    return [
        message(entry.text, counter=COUNTER, id=f"{prefix}{at}", timestamp=entry.timestamp + 500, can_drop=False)
        for at, entry in enumerate(packages)
    ]


def began(first, *summaries):
    return HistoryStart(first=first, summaries=summaries)


def test_required_units_are_paid_from_their_pool():
    pile = [*renamed(history(1, size=48), "must"), *history(10)]
    context = build(pile, "window", overrides={**ALONE, "pools.recent.limit.tokens": 100})
    assert context.component("recent").tokens == 50 + 4 * 12


def test_required_units_count_toward_max_items():
    pile = [*renamed(history(2), "must"), *history(10)]
    context = build(pile, "window", overrides={**ALONE, "pools.recent.max_items": 3})
    assert context.component("recent").items == 3
    assert {"must0", "must1", "m009"} == set(context.kept)


def test_trimming_spares_the_margin():
    pile = [
        *history(400),
        *(memory(words(50, f"w{at}"), counter=COUNTER, id=f"r{at}", relevance=0.9) for at in range(100)),
        *(memory(words(50, f"p{at}"), counter=COUNTER, id=f"p{at}", pinned=True) for at in range(30)),
    ]
    context = build(pile, "pools", window=10_000, overrides={"pools.recent.limit.share": 0.4})
    assert ("dropped", "trimmed") in outcomes(context).values()
    assert context.tokens <= context.budget.available == 10_000 - 100 - 1_024


def test_persistent_content_goes_before_the_system_prompt():
    pile = [
        package("system-prompt", words(45), counter=COUNTER, id="system", can_drop=True),
        memory(words(60, "pin"), counter=COUNTER, id="pinned", pinned=True),
        message("So?", counter=COUNTER, id="now", current=True, timestamp=NOW),
    ]
    context = build(pile, "pools", completion=900)
    assert outcomes(context)["pinned"] == ("dropped", "trimmed")
    assert "system" in context.kept


def test_history_steps_down_from_all_that_it_could_have_had():
    context = build(history(74), previous=began("m000"))
    assert context.component("recent").items == int(883 * 0.75) // 12
    assert outcomes(context)["m018"] == ("dropped", "low-water")


def test_tokens_that_later_pools_cannot_use_are_not_reserved_for_them():
    large = memory(words(500), counter=COUNTER, id="large")
    limited = {"pools.related.limit": {"share": 0.4}, "pools.recent.need": None}
    context = build([*history(50), large], previous=began("m000"), overrides=NO_FORMS | limited)
    assert context.component("recent").items == 50
    assert outcomes(context)["large"][0] == "dropped"


def test_trimmed_history_does_not_borrow():
    pile = [*history(50), *(memory(words(200, word), counter=COUNTER, id=word, relevance=0.5) for word in ("a", "b"))]
    context = build(pile, previous=began("m000"))
    assert context.component("recent").items == int(540 * 0.75) // 12
    assert set(context.kept) > {"a", "b"}


def test_summaries_that_stood_in_history_stand_there_again():
    pile = [
        *history(5, cluster="day-1"),
        summary("They spoke.", counter=COUNTER, id="sum", of="day-1", timestamp=NOW),
        message("So?", counter=COUNTER, id="now", current=True, timestamp=NOW + 1),
    ]
    assert outcomes(build(pile))["m000"] == ("kept", "fits")
    again = outcomes(build(pile, previous=began("sum", "sum")))
    assert again["m000"] == ("replaced", "summary")
    assert again["sum"] == ("kept", "summary")


def test_the_least_items_do_not_give_way_to_a_summary():
    pile = [
        *history(5, size=200, cluster="day-1"),
        summary("They spoke.", counter=COUNTER, id="sum", of="day-1", timestamp=NOW),
    ]
    found = outcomes(build(pile))
    assert [found[f"m00{at}"][0] for at in range(5)] == ["replaced", "replaced", "replaced", "kept", "kept"]


def test_a_summary_that_stands_in_one_pool_does_not_stand_in_another():
    pile = [
        *history(40, size=20, cluster="day-1"),
        *(
            memory(words(30, f"w{at}"), counter=COUNTER, id=f"r{at}", relevance=0.9, cluster="day-1")
            for at in range(12)
        ),
        summary("They spoke.", counter=COUNTER, id="sum", of="day-1", timestamp=NOW),
    ]
    generous = {"pools.related.limit.share": 1.0, "pools.recent.limit.share": 1.0, "margin.tokens": 0}
    context = build(pile, "pools", window=800, overrides={**generous, "pools.related.min_items": 12})
    assert str(context.request).count("They spoke.") <= 1
    assert outcomes(context)["m039"] == ("kept", "fits")


def test_a_duplicate_does_not_get_in_beyond_the_most_items():
    data = {"metadata": {"source": words(60)}, "name": words(90)}
    pile = [
        memory("Ada likes tea", counter=COUNTER, id="wordy", relevance=0.9, **data),
        memory("ada LIKES tea", counter=COUNTER, id="plain", relevance=0.8),
        memory("Bob likes rum", counter=COUNTER, id="other", relevance=0.7),
    ]
    assert build(pile, window=160).kept == ("other", "plain")
    assert build(pile, window=160, overrides={"pools.related.max_items": 1}).kept == ("other",)


def test_required_units_count_toward_min_items_when_trimming():
    pile = [
        *renamed(history(2, size=20), "must"),
        *history(20, size=20),
        *(memory(words(40, f"w{at}"), counter=COUNTER, id=f"r{at}", relevance=0.9) for at in range(2)),
    ]
    generous = {"pools.related.limit.share": 1.0, "pools.recent.limit.share": 1.0, "margin.tokens": 480}
    context = build(pile, "pools", window=600, overrides={**generous, "pools.recent.min_items": 4})
    assert context.component("recent").items == 4


def test_an_item_that_is_too_large_is_not_reported_as_max_items():
    large = message(words(2_000), counter=COUNTER, id="large", timestamp=NOW - 5_000)
    context = build([*history(2), large], "window", overrides={**ALONE, **NO_FORMS, "pools.recent.max_items": 3})
    assert outcomes(context)["large"] == ("dropped", "too-large")


def test_required_units_count_toward_min_items():
    pile = [*renamed(history(2), "must"), *history(1)]
    context = build(pile, "window", overrides={**ALONE, "pools.recent.min_items": 2})
    assert outcomes(context)["m000"] == ("kept", "fits")


def test_a_best_set_is_free_where_its_least_items_are_required():
    must = [memory(f"must {at}", counter=COUNTER, id=f"must{at}", can_drop=False) for at in range(2)]
    large = memory(words(200, "large"), counter=COUNTER, id="large", relevance=1.0)
    small = [memory(words(60, f"s{at}"), counter=COUNTER, id=f"small{at}", relevance=0.7) for at in range(3)]
    free = {"pools.related.min_items": 2, "pools.related.borrow": False, "pools.related.limit.tokens": 240}
    kept = set(build([*must, large, *small], overrides=free).kept)
    assert kept == {"must0", "must1", "small0", "small1", "small2"}


def test_a_summary_of_a_part_does_not_stand_for_the_whole_unit():
    turn = tool_turn(
        [ToolCall(id="a", name="look")],
        [ToolResult(id="a", content=words(600))],
        counter=COUNTER,
        id="turn",
        timestamp=NOW - 5_000,
        cluster="day-1",
    )
    part = summary("They looked.", counter=COUNTER, id="sum", of="day-1", covers=("turn",), timestamp=NOW)
    found = outcomes(build([*turn, *history(40), part], overrides=NO_FORMS))
    assert (found["turn"][0], found["turn/a"][0]) == ("dropped", "dropped")


def test_a_picture_is_charged_by_its_own_size_in_the_finished_request():
    photo = Media(modality="image", url="https://example.org/a.png", width=1920, height=1080)
    shown = brimful.package("message-current", (photo,), model="gpt-4o", id="now")
    assert brimful.assemble([shown], model="gpt-4o", now=NOW).tokens >= 1_105


@pytest.mark.parametrize(
    ("covered", "outcomes"),
    [([2, 3], ["dropped", "replaced", "replaced"]), ([9, 9], ["dropped"] * 3), ("2-3", ["dropped"] * 3)],
)
def test_dropped_messages_that_a_summary_covers_by_position_are_replaced(covered, outcomes):
    old = [message(words(400), counter=COUNTER, id=f"m{n}", position=n, timestamp=NOW - 99 + n) for n in (1, 2, 3)]
    current = message(words(30), counter=COUNTER, id="now", current=True, timestamp=NOW)
    made = summary("short", of="x", counter=COUNTER, id="sum", relevance=1.0, metadata={"covered": covered})
    context = build([*old, made, current], window=400, completion=100, overrides=ALONE | NO_FORMS)
    assert context.decision("sum").included
    decisions = [context.decision(each.id) for each in old]
    assert [each.outcome for each in decisions] == outcomes
    assert all(each.by == ("sum" if each.outcome == "replaced" else "") for each in decisions)


def test_a_summary_covers_neither_memories_by_position_nor_messages_of_another_cluster():
    turn = message(words(400), counter=COUNTER, id="m", position=2, timestamp=NOW - 9, cluster="y")
    fact = memory(words(400), counter=COUNTER, id="f", position=2, relevance=0.1)
    current = message(words(30), counter=COUNTER, id="now", current=True, timestamp=NOW)
    made = summary("short", of="x", counter=COUNTER, id="sum", relevance=1.0, metadata={"covered": [1, 3]})
    context = build([turn, fact, made, current], window=400, completion=100, overrides=ALONE | NO_FORMS)
    assert context.decision("sum").included
    assert [context.decision(id).outcome for id in ("m", "f")] == ["dropped", "dropped"]
