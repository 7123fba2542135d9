"""The fill by example: what is included, what is left out, and what the record says."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brimful
from brimful.core.cost import base_cost
from brimful.core.decision import make_scorer
from brimful.core.forms import Shaper
from brimful.core.handles import Handles
from brimful.core.policy import Forms
from brimful.core.selection import HistoryStart
from brimful.core.units import make_units
from brimful.errors import InvalidPackage
from brimful.packagers import lorebook_entry, media, memory, message, package, summary, tool_turn
from brimful.policies import load_policy
from strategies import COUNTER, NOW
from support import NO_FORMS, build, history, words


def outcomes(context):
    return {decision.id: (decision.outcome, decision.reason) for decision in context.decisions}


def test_auction_goes_on_past_what_does_not_fit():
    pile = [
        memory(words(80), counter=COUNTER, id="large", relevance=1.0),
        memory(words(20), counter=COUNTER, id="small", relevance=0.0),
    ]
    context = build(pile, "auction", window=100, completion=20, overrides={"margin.tokens": 0, "margin.share": 0.0})
    assert outcomes(context) == {"large": ("dropped", "too-large"), "small": ("kept", "fits")}


def test_window_stops_at_the_first_that_does_not_fit():
    pile = [*history(6), message(words(600), counter=COUNTER, id="flood", timestamp=NOW - 997.5)]
    context = build(pile, "window", overrides={"pools.recent.min_items": 0, "pools.recent.limit.subtract": 0})
    found = outcomes(context)
    assert found["m003"] == ("kept", "fits")
    assert found["flood"] == ("kept", "fits")
    overrides = {"pools.recent.min_items": 0, "pools.recent.limit.subtract": 0}
    assert build(pile, "window", window=700, overrides=overrides | NO_FORMS).kept == ("m003", "m004", "m005")
    shortened = build(pile, "window", window=700, overrides=overrides)
    assert shortened.kept == ("flood", "m000", "m001", "m002", "m003", "m004", "m005")
    assert shortened.decision("flood").form == "digest"


def test_window_keeps_the_least_messages_even_if_they_eat_the_margin_but_not_the_completion():
    context = build(history(20, size=40), "window", window=700, completion=300)
    assert context.budget.limit("recent") == 0
    assert context.component("recent").items == 5
    assert context.tokens <= 400
    squeezed = build(history(20, size=40), "window", window=400, completion=300)
    assert squeezed.component("recent").items == 2


def test_window_keeps_at_most_a_hundred():
    context = build(history(150, size=1), "window", window=100_000)
    assert context.component("recent").items == 100
    assert outcomes(context)["m049"] == ("dropped", "max-items")


def test_split_gives_retrieval_what_history_left():
    pile = [*history(60), *(memory(words(10), counter=COUNTER, id=f"f{n:02d}", relevance=n / 60) for n in range(60))]
    limits = {"total_tokens": 600, "pools.recent.limit.tokens": 450, "pools.related.limit.tokens": 150}
    context = build(pile, "split", window=5000, overrides=limits)
    recent, related = (next(use for use in context.pools if use.name == name) for name in ("recent", "related"))
    assert 430 <= recent.used <= 450
    assert related.used <= min(150, 600 - recent.used)
    kept = [id for id in context.kept if id.startswith("f")]
    assert kept == [f"f{n:02d}" for n in range(60 - len(kept), 60)]


def test_default_lends_what_history_does_not_need():
    pile = [*history(3), *(memory(f"fact {n} " + words(8), counter=COUNTER, id=f"f{n:02d}") for n in range(90))]
    context = build(pile, overrides={"pools.related.limit.share": 0.4, "pools.related.borrow": True})
    related = next(use for use in context.pools if use.name == "related")
    assert related.used > related.limit
    assert related.borrowed == related.used - related.limit
    assert context.tokens >= 0.97 * context.budget.available
    assert ("kept", "borrowed") in outcomes(context).values()


def test_a_pool_that_may_borrow_and_need_not_has_borrowed_nothing():
    pile = [*history(3), memory("fact", counter=COUNTER, id="f", relevance=0.9)]
    context = build(pile, overrides={"pools.related.limit.share": 0.4, "pools.related.borrow": True})
    assert {use.borrowed for use in context.pools} == {0}


def test_a_required_part_that_does_not_fit_is_an_error_with_numbers_and_ids():
    pile = [
        package("system-prompt", words(80), counter=COUNTER, id="sys-1"),
        message(words(900), counter=COUNTER, current=True, id="cur"),
    ]
    with pytest.raises(
        brimful.errors.BudgetExceeded, match=r"need 985 tokens, limit 900 .*cur \(902\), sys-1 \(82\)"
    ) as caught:
        build(pile, overrides=NO_FORMS)
    assert caught.value.required == (("cur", 902), ("sys-1", 82))
    assert (caught.value.needed, caught.value.limit) == (985, 900)


def test_a_current_message_is_shrunk_where_the_caller_allows_it():
    text = " ".join(f"Sentence {n} ends here." for n in range(400))
    pile = [message(text, counter=COUNTER, current=True, id="cur", min_tokens=50)]
    context = build(pile)
    assert outcomes(context) == {"cur": ("shrunk", "required")}
    sent = context.request["messages"][0]["content"]
    assert sent.count("ends here. […] Sentence") == 1
    assert 0.97 * context.budget.available <= context.tokens <= context.budget.available


def test_a_current_message_that_just_fits_is_not_shrunk():
    context = build([message(words(897), counter=COUNTER, current=True, id="cur", min_tokens=50)])
    assert outcomes(context) == {"cur": ("kept", "required")}
    assert context.tokens == context.budget.hard_limit == 900


def test_several_required_parts_are_shrunk_the_least_important_first():
    pile = [
        package("system-prompt", words(600, "rule."), counter=COUNTER, id="sys", min_tokens=100),
        message(
            words(500, "talk."), counter=COUNTER, current=True, id="cur", min_tokens=100, importance=0.1, priority=1
        ),
    ]
    context = build(pile)
    assert outcomes(context)["cur"] == ("shrunk", "required")
    assert context.tokens <= 900


def test_an_item_is_shrunk_before_it_is_dropped():
    text = " ".join(f"Fact {n} is known." for n in range(300))
    pile = [memory(text, counter=COUNTER, id="long", min_tokens=20, relevance=1.0)]
    for policy in ("default", "auction"):
        context = build(pile, policy, overrides={"margin.tokens": 0, "margin.share": 0.0})
        assert outcomes(context)["long"][0] == "shrunk"
        assert context.tokens >= 0.97 * context.budget.available
        assert "is known. […]" in str(context.request)
    fixed = build([memory(text, counter=COUNTER, id="long", relevance=1.0)], overrides=NO_FORMS)
    assert outcomes(fixed)["long"][0] == "dropped"


def test_a_tool_call_and_its_results_are_kept_or_dropped_whole():
    calls = [brimful.ToolCall(id=f"c{n}", name="look") for n in range(3)]
    results = [brimful.ToolResult(id=call.id, content=words(200)) for call in calls]
    turn = tool_turn(calls, results, counter=COUNTER, id="turn", timestamp=NOW - 5)
    newer = message("hello", counter=COUNTER, id="newer", timestamp=NOW)
    tight = build([*turn, newer], window=500)
    assert {tight.decision(entry.id).outcome for entry in turn} == {"dropped"}
    roomy = build([*turn, newer])
    assert {tight.decision("newer").outcome, *(roomy.decision(entry.id).outcome for entry in turn)} == {"kept"}
    assert "one unit with 'turn'" in roomy.explain("turn/c1")


def test_a_group_is_in_the_pool_of_its_first_item():
    said = message("Look at this.", counter=COUNTER, id="m", timestamp=NOW - 9, group="g")
    note = memory("It is tea.", counter=COUNTER, id="n", timestamp=NOW - 5, group="g")
    context = build([said, note], "split")
    assert [context.decision(id).pool for id in "mn"] == ["recent", "recent"]


def test_unpaired_calls_and_results_are_dropped_and_reported():
    turn = tool_turn(
        [brimful.ToolCall(id="a", name="f"), brimful.ToolCall(id="b", name="f")],
        [brimful.ToolResult(id="a", content="1")],
        counter=COUNTER,
        id="half",
    )
    orphan = package("tool-result", (brimful.ToolResult(id="z", content="?"),), counter=COUNTER, id="orphan")
    found = outcomes(build([*turn, orphan, *history(1)]))
    assert found == {
        "half": ("dropped", "unpaired"),
        "half/a": ("dropped", "unpaired"),
        "orphan": ("dropped", "unpaired"),
        "m000": ("kept", "min-items"),
    }


def test_a_required_half_of_a_tool_turn_is_refused():
    orphan = package("tool-result", (brimful.ToolResult(id="z", content="?"),), counter=COUNTER, id="o", can_drop=False)
    with pytest.raises(brimful.errors.InvalidPackage, match="'o' is required"):
        build([orphan])


def test_call_ids_that_are_used_again_stay_paired_and_become_unique():
    pile = []
    for n in range(3):
        pile += tool_turn(
            [brimful.ToolCall(id="call_0", name="f")],
            [brimful.ToolResult(id="call_0", content=f"answer {n}")],
            counter=COUNTER,
            id=f"t{n}",
            timestamp=NOW + n,
        )
    context = build(pile)
    ids = [m["tool_call_id"] for m in context.request["messages"] if m["role"] == "tool"]
    assert ids == ["call_0", "call_0-2", "call_0-3"]


def test_a_call_that_is_made_again_before_it_was_answered_is_dropped():
    lost = package("tool-call", (brimful.ToolCall(id="c", name="f"),), counter=COUNTER, id="lost", timestamp=NOW - 2)
    turn = tool_turn(
        [brimful.ToolCall(id="c", name="f")],
        [brimful.ToolResult(id="c", content="answer")],
        counter=COUNTER,
        id="turn",
        timestamp=NOW - 1,
    )
    found = outcomes(build([lost, *turn]))
    assert found["lost"] == ("dropped", "unpaired")
    assert {found[each.id][0] for each in turn} == {"kept"}


def test_a_call_comes_before_its_result_of_the_same_time_whatever_their_ids_are():
    call = package("tool-call", (brimful.ToolCall(id="c", name="look"),), counter=COUNTER, id="z")
    result = package("tool-result", (brimful.ToolResult(id="c", content="tea"),), counter=COUNTER, id="a")
    context = build([result, call, *history(2)])
    assert context.kept == ("a", "m000", "m001", "z")
    assert {(context.decision(id).group, context.decision(id).full) for id in "az"} == {("z", 0)}


def test_a_maximum_of_messages_leaves_the_minimum_of_the_policy_as_it_is():
    context = build(
        history(20, size=40), "window", window=700, completion=300, overrides={"pools.recent.history.max_items": 50}
    )
    assert context.component("recent").items == 5


def test_the_same_id_twice_is_one_candidate_and_the_required_one_wins():
    pile = [
        memory("old", counter=COUNTER, id="x", timestamp=NOW - 9),
        memory("new", counter=COUNTER, id="x", timestamp=NOW - 1),
        message("now", counter=COUNTER, id="y", timestamp=NOW - 1),
        message("now", counter=COUNTER, id="y", current=True, timestamp=NOW - 9),
    ]
    context = build(pile)
    assert sorted((d.id, d.outcome, d.kind) for d in context.decisions) == [
        ("x", "duplicate", "memory-semantic"),
        ("x", "kept", "memory-semantic"),
        ("y", "duplicate", "message-recent"),
        ("y", "kept", "message-current"),
    ]
    assert "new" in str(context.request)
    assert context.explain("x").startswith("kept")
    # In a record that lists the duplicate last, too.
    listed = sorted(context.decisions, key=lambda decision: decision.outcome != "kept")
    assert msgspec.structs.replace(context, decisions=tuple(listed)).decision("x").outcome == "kept"


def test_the_earlier_pool_wins_between_packages_with_one_id_even_if_older():
    pile = [
        message("said", counter=COUNTER, id="x", timestamp=NOW - 9),
        package("message-older", "found", counter=COUNTER, id="x", timestamp=NOW - 1, relevance=0.9),
    ]
    context = build(pile, "split")
    assert [(each.kind, each.outcome) for each in context.decisions] == [
        ("message-older", "duplicate"),
        ("message-recent", "kept"),
    ]


def test_excluded_packages_do_not_compete_and_say_why():
    pile = [memory("Ada sails", counter=COUNTER, id="x", excluded="it is a secret"), *history(1)]
    context = build(pile)
    assert outcomes(context)["x"] == ("dropped", "excluded")
    assert "it is a secret" in context.explain("x")
    assert "sails" not in str(context.request)


@pytest.mark.parametrize("field", ["pinned", "always_on"])
def test_a_flag_is_true_or_false(field):
    with pytest.raises(InvalidPackage, match=f"{field}: must be true or false, not 1"):
        memory("Ada sails", counter=COUNTER, **{field: 1})


def test_the_same_text_is_retrieved_once_but_stays_twice_in_history():
    pile = [
        memory("Ada likes tea", counter=COUNTER, id="a", relevance=0.9),
        memory("ada  LIKES tea", counter=COUNTER, id="b", relevance=0.8),
        message("ok", counter=COUNTER, id="m1", timestamp=NOW - 2),
        message("ok", counter=COUNTER, id="m2", timestamp=NOW - 1),
        memory("OK", counter=COUNTER, id="c"),
    ]
    found = outcomes(build(pile))
    assert found["a"] == ("kept", "fits")
    assert found["b"] == found["c"] == ("duplicate", "same-content")
    assert found["m1"] == found["m2"] == ("kept", "min-items")
    everything = outcomes(build(pile, overrides={"pools.recent.dedupe": "all"}))
    assert everything["m1"] == ("duplicate", "same-content")


def test_a_memory_of_a_current_message_that_is_shortened_is_still_a_duplicate():
    text = " ".join(f"Sentence {n} ends here." for n in range(400))
    current = message(text, counter=COUNTER, current=True, id="cur", min_tokens=50)
    context = build([current, memory(text, counter=COUNTER, id="same", relevance=0.9)])
    assert context.decision("cur").form == "excerpt"
    assert outcomes(context)["same"] == ("duplicate", "same-content")


def clustered(day, count, size=20):
    return [
        message(
            words(size), counter=COUNTER, id=f"{day}-{n}", timestamp=NOW - 1000 + n + 100 * day, cluster=f"day-{day}"
        )
        for n in range(count)
    ]


def test_old_clusters_give_way_to_their_newest_summary_which_stands_where_they_stood():
    pile = [
        *clustered(1, 20),
        *clustered(2, 10),
        *clustered(3, 10),
        summary("an old view", of="day-1", counter=COUNTER, id="s-old", timestamp=NOW - 900),
        summary("day one in short", of="day-1", counter=COUNTER, id="s-new", timestamp=NOW - 500),
        summary("day two in short", of="day-2", counter=COUNTER, id="s-2", timestamp=NOW - 500),
    ]
    context = build(pile, window=700, overrides={"pools.recent.limit.share": 1.0})
    found = outcomes(context)
    assert {found[f"1-{n}"] for n in range(20)} == {("replaced", "summary")}
    assert context.decision("1-0").by == "s-new"
    assert found["s-new"] == ("kept", "summary")
    assert found["s-old"] == ("dropped", "verbatim")
    assert {found[f"3-{n}"][0] for n in range(10)} == {"kept"}
    assert "day one in short" in context.request["messages"][0]["content"]
    assert "covered by summary 's-new'" in context.explain("1-4")


def test_a_summary_replaces_exactly_what_it_covers():
    pile = [
        *clustered(1, 20),
        summary("the first ten", of="day-1", counter=COUNTER, id="s", covers=tuple(f"1-{n}" for n in range(10))),
    ]
    context = build(pile, window=450)
    found = outcomes(context)
    assert {found[f"1-{n}"] for n in range(10)} == {("replaced", "summary")}
    assert {found[f"1-{n}"][0] for n in range(10, 20)} == {"kept"}


def test_a_summary_of_nothing_present_is_a_candidate_itself():
    context = build([summary("long ago", of="gone", counter=COUNTER, id="s"), *history(2)])
    assert outcomes(context)["s"] == ("kept", "fits")


@pytest.mark.parametrize(("covers", "reason"), [((), "fits"), (("1-0", "1-9"), "fits"), (("1-8", "1-9"), "verbatim")])
def test_a_summary_covers_the_rest_of_a_cluster_in_which_history_ends(covers, reason):
    limit = {"pools.recent.summarize": False, "pools.recent.limit": {"tokens": 110}, "pools.recent.borrow": False}
    pile = [*clustered(1, 10), summary("the whole day", of="day-1", counter=COUNTER, id="s", covers=covers)]
    found = outcomes(build(pile, overrides=limit))
    out = ["replaced" if reason == "fits" and f"1-{n}" in (covers or found) else "dropped" for n in range(5)]
    assert [found[f"1-{n}"][0] for n in range(10)] == out + ["kept"] * 5
    assert found["s"] == ("kept" if reason == "fits" else "dropped", reason)


def test_a_summary_larger_than_its_cluster_saves_nothing():
    pile = [*clustered(1, 3, size=300), summary(words(950), of="day-1", counter=COUNTER, id="s")]
    context = build(pile, overrides=NO_FORMS)
    assert outcomes(context)["s"] == ("dropped", "too-large")
    assert ("replaced", "summary") not in outcomes(context).values()


@pytest.mark.parametrize(("borrow", "reason"), [(False, "fits"), (True, "borrowed")])
def test_a_summary_of_what_history_does_not_reach_gets_in_even_if_history_may_borrow(borrow, reason):
    pile = [
        *clustered(1, 6),
        message(words(950), counter=COUNTER, id="giant", timestamp=NOW - 10),
        message("hello", counter=COUNTER, id="newest", timestamp=NOW - 5),
        summary("day one in short", of="day-1", counter=COUNTER, id="s"),
    ]
    found = outcomes(build(pile, overrides=NO_FORMS | {"pools.recent.min_items": 1, "pools.related.borrow": borrow}))
    assert (found["1-0"], found["s"]) == (("replaced", "summary"), ("kept", reason))


def test_pools_drops_related_first_then_summarizes_then_trims_recent_and_spares_persistent():
    pile = [
        *clustered(1, 12),
        summary("day one in short", of="day-1", counter=COUNTER, id="s"),
        *(memory(f"related {n} " + words(18), counter=COUNTER, id=f"r{n:02d}", relevance=n / 40) for n in range(40)),
        memory(words(100), counter=COUNTER, id="pin", pinned=True),
    ]
    generous = {
        "margin.tokens": 0,
        "margin.share": 0.0,
        "pools.persistent.limit.share": 1.0,
        "pools.recent.limit.share": 1.0,
        "pools.related.limit.share": 1.0,
    }
    some = outcomes(build(pile, "pools", window=900, overrides=generous))
    assert some["r00"] == ("dropped", "trimmed")
    assert some["r39"][0] == some["1-0"][0] == some["pin"][0] == "kept"
    fewer = outcomes(build(pile, "pools", window=400, overrides=generous))
    assert fewer["1-0"] == ("replaced", "summary")
    assert fewer["r00"][0] == "dropped"
    assert fewer["r39"][0] == fewer["s"][0] == fewer["pin"][0] == "kept"
    without = [entry for entry in pile if entry.id != "s"]
    less = outcomes(build(without, "pools", window=500, overrides=generous))
    assert less["r39"] == ("dropped", "trimmed")
    assert less["1-0"][0] == less["pin"][0] == "kept"
    least = outcomes(build(without, "pools", window=300, overrides=generous))
    assert least["1-0"] == ("dropped", "trimmed")
    assert least["1-11"][0] == least["pin"][0] == "kept"
    last = outcomes(build(without, "pools", window=180, overrides=generous))
    assert last["pin"] == ("dropped", "trimmed")
    assert last["1-11"][0] == "kept"


def test_a_package_that_no_pool_takes_is_reported():
    context = build([*history(1), lorebook_entry("The moon is green.", counter=COUNTER, id="lore")], "window")
    assert outcomes(context)["lore"] == ("dropped", "no-pool")
    assert "no pool of policy 'window' takes kind 'lorebook'" in context.explain("lore")


def test_a_new_kind_needs_no_change_anywhere():
    context = build(
        [
            package("code-snippet", "print()", counter=COUNTER, id="c", priority=7),
            package("weather", "sun", counter=COUNTER, id="w"),
        ]
    )
    assert context.kept == ("c", "w")
    assert context.component("weather").items == 1


def test_pictures_go_first():
    pictures = [brimful.Media(modality="image", url=f"https://example.org/{n}.png") for n in range(4)]
    pile = [media(part, counter=COUNTER, id=f"i{n}", timestamp=NOW - n) for n, part in enumerate(pictures)]
    found = outcomes(build([*pile, message("look", counter=COUNTER, current=True, id="now")]))
    assert sorted(outcome for outcome, _ in found.values()) == ["dropped", "dropped", "kept", "kept", "kept"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 60)), min_size=1, max_size=40), st.integers(60, 900))
def test_default_is_within_one_percent_of_the_optimum(items, room):
    pile = [
        memory(f"{n} " + words(size - 1) if size > 1 else str(n), counter=COUNTER, id=f"f{n:02d}", relevance=value)
        for n, (value, size) in enumerate(items)
    ]
    none = {"margin.tokens": 0, "margin.share": 0.0, "pools.related.limit.share": 1.0}
    context = build(pile, window=room + 100, overrides=none)
    capacity = room - base_cost(pile, COUNTER)
    best = [0.0] * (capacity + 1)
    scores = {d.id: d.score.total for d in context.decisions}
    costs = {entry.id: entry.tokens.tokens + COST_OF_LABEL for entry in pile}
    for entry in pile:
        for left in range(capacity, costs[entry.id] - 1, -1):
            best[left] = max(best[left], best[left - costs[entry.id]] + scores[entry.id])
    value = sum(scores[id] for id in context.kept)
    assert value >= 0.99 * best[capacity]


COST_OF_LABEL = 1  # the word `undated:`


def test_a_pool_that_is_not_contiguous_goes_on_past_its_most_items_for_smaller_units():
    turn = tool_turn(
        [brimful.ToolCall(id="c", name="f")],
        [brimful.ToolResult(id="c", content="x")],
        counter=COUNTER,
        id="t",
        priority=10,
    )
    pile = [*turn, *(memory(f"fact {n}", counter=COUNTER, id=f"f{n}", relevance=n / 9) for n in range(9))]
    context = build(pile, "auction", window=3000, overrides={"pools.all.max_items": 1})
    assert context.kept == ("f8",)


def test_the_best_set_respects_least_and_most():
    facts = [memory(f"{n} " + words(40 - n), counter=COUNTER, id=f"f{n:02d}", relevance=n / 20) for n in range(20)]
    few = build(facts, overrides={"pools.related.max_items": 3})
    assert few.kept == ("f17", "f18", "f19")
    large = memory(words(300), counter=COUNTER, id="large", relevance=1.0)
    forced = build([*facts, large], window=500, overrides={"pools.related.min_items": 1})
    assert outcomes(forced)["large"] == ("kept", "min-items")
    text = " ".join(f"Fact {n} is known." for n in range(300))
    capped = build(
        [*facts[18:], memory(text, counter=COUNTER, id="long", min_tokens=5)], overrides={"pools.related.max_items": 2}
    )
    assert capped.kept == ("f18", "f19")


def test_groups_never_exceed_the_most_items_of_a_best_set():
    pairs = [
        memory(f"half {n} {side}", counter=COUNTER, id=f"p{n}{side}", group=f"g{n}", relevance=n / 9)
        for n in range(4)
        for side in "ab"
    ]
    assert build(pairs, overrides={"pools.related.max_items": 3}).kept == ("p3a", "p3b")


def test_packages_that_cannot_be_cut_are_dropped():
    pile = [memory("x" * 50 + " " + words(2000), counter=COUNTER, id="long", min_tokens=1)]
    assert outcomes(build(pile, window=115, completion=100))["long"][0] == "dropped"
    two = [brimful.Text(text=words(1000)), brimful.Text(text=words(1000))]
    assert outcomes(build([package("note", two, counter=COUNTER, id="n", min_tokens=5)]))["n"][0] == "dropped"
    assert outcomes(build([package("note", two[:1], counter=COUNTER, id="n", min_tokens=5)]))["n"][0] == "shrunk"


def test_a_text_that_has_no_place_to_be_cut_cannot_shrink():
    long = memory(words(50), counter=COUNTER, id="long", min_tokens=1)
    shaper = Shaper(COUNTER, Forms(), "", Handles([]))
    [unit], _ = make_units(
        [long],
        load_policy("default"),
        lambda entry: entry.tokens.upper + 4,
        lambda _: ("", 0),
        shaper.may_shrink,
        make_scorer(load_policy("default").weights, NOW),
    )
    assert shaper.shrink(unit, 5) is None
    assert shaper.shrink(unit, 6).cost == 6


def test_trimming_cuts_what_may_be_cut():
    long = memory(" ".join(f"Fact {n} is known." for n in range(300)), counter=COUNTER, id="long", min_tokens=20)
    generous = {"pools.related.limit.share": 1.0, "pools.recent.limit.share": 1.0, "margin.tokens": 0}
    found = outcomes(build([long, *history(9, size=30)], "pools", window=1300, overrides=generous))
    assert found["long"] == ("shrunk", "fits")


def test_a_related_cluster_gives_way_to_its_summary_in_its_own_block():
    facts = [
        memory(f"fact {n} " + words(30), counter=COUNTER, id=f"f{n}", relevance=1.0, cluster="k") for n in range(20)
    ]
    short = summary("all facts in short", of="k", counter=COUNTER, id="s")
    pile = [*history(9, size=30), *facts, short]
    generous = {"pools.related.limit.share": 1.0, "pools.recent.limit.share": 1.0, "margin.tokens": 0}
    context = build(pile, "pools", window=800, overrides={**generous, "pools.related.min_items": 20})
    assert outcomes(context)["f0"] == ("replaced", "summary")
    block = next(m["content"] for m in context.request["messages"] if m["content"].startswith("<context"))
    assert "all facts in short" in block
    assert context.history.summaries == ()


def test_the_largest_saving_goes_first_and_only_as_many_as_needed():
    small, large = clustered(1, 5, size=20), clustered(2, 15, size=20)
    notes = [summary(f"day {n} in short", of=f"day-{n}", counter=COUNTER, id=f"s{n}") for n in (1, 2)]
    found = outcomes(build([*small, *large, *notes], window=430, overrides={"pools.recent.limit.share": 1.0}))
    assert found["s2"] == ("kept", "summary")
    assert found["s1"] == ("dropped", "verbatim")
    assert {found[entry.id][0] for entry in small} == {"kept"}


def test_a_summary_stands_in_only_once():
    pile = [
        *clustered(1, 20),
        *(memory(f"m {n} " + words(20), counter=COUNTER, id=f"x{n}", cluster="day-1") for n in range(20)),
        summary("SHORT", of="day-1", counter=COUNTER, id="s"),
    ]
    context = build(pile, window=700, overrides={"pools.related.summarize": True})
    assert str(context.request).count("SHORT") == 1


def test_the_least_items_are_trimmed_last():
    generous = {"pools.related.limit.share": 1.0, "pools.recent.limit.share": 1.0, "margin.tokens": 300}
    pile = [memory(f"{n} " + words(40), counter=COUNTER, id=f"f{n}", relevance=n / 10) for n in range(10)]
    found = build(
        [*pile, *history(20, size=20)], "pools", window=600, overrides={**generous, "pools.related.min_items": 2}
    )
    assert {"f9", "f8"} <= set(found.kept)
    tighter = {**generous, "margin.tokens": 0, "pools.related.min_items": 9, "pools.recent.min_items": 20}
    squeezed = build([*pile, *history(20, size=20)], "pools", window=300, overrides=tighter)
    assert squeezed.tokens <= 200
    assert ("dropped", "trimmed") in outcomes(squeezed).values()


def test_a_duplicate_gets_in_where_what_it_duplicates_does_not():
    wordy = memory(
        "Ada likes tea", counter=COUNTER, id="a", relevance=0.9, metadata={"source": words(60)}, name=words(90)
    )
    plain = memory("ada LIKES tea", counter=COUNTER, id="b", relevance=0.8)
    context = build([wordy, plain, *history(1)], window=160)
    assert outcomes(context)["b"] == ("kept", "fits")
    assert outcomes(context)["a"][0] == "dropped"
    both = build([wordy, plain], window=900)
    assert both.decision("b").by == "a"


def test_the_best_set_with_a_most_is_not_worse_than_going_down_the_list():
    large = [memory(f"big{n} " + words(300), counter=COUNTER, id=f"big{n}", relevance=1.0) for n in range(2)]
    small = [memory(f"small{n} " + words(21), counter=COUNTER, id=f"small{n:02d}", relevance=0.6) for n in range(30)]
    only = {"pools.related.borrow": False, "pools.related.limit.share": 1.0}
    assert not {"big0", "big1"} & set(build([*large, *small], window=800, overrides=only).kept)
    context = build([*large, *small], window=800, overrides={**only, "pools.related.max_items": 2})
    assert context.kept == ("big0", "big1")


def test_history_begins_where_its_optional_part_began():
    first = message("Do the task.", counter=COUNTER, id="task", timestamp=NOW - 5000, can_drop=False)
    firsts, previous = [], None
    for turns in range(20, 60):
        context = build([first, *history(turns)], window=500, previous=previous)
        previous = context.history
        firsts.append(previous.first)
    assert 2 <= len(set(firsts)) <= 8
    stepped = next(d for d in context.decisions if d.reason in ("low-water", "older"))
    assert context.explain(stepped.id)


def test_history_keeps_its_beginning_only_by_tokens_that_later_pools_do_not_want():
    """60 turns of 12 tokens are more than the 540 of their pool; 15 memories of 12 and more want 180 of the rest."""
    long = history(60)
    memories = [memory(f"fact {n} {words(8)}", counter=COUNTER, id=f"fact{n:02d}") for n in range(15)]
    mark = HistoryStart(first="m000")
    alone = build(long, previous=mark)
    assert alone.history.first == mark.first
    assert len(alone.kept) == 60
    contested = build([*long, *memories], previous=mark)
    assert contested.decision("m000").outcome == "dropped"
    assert all(contested.decision(entry.id).included for entry in memories)


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_each_speakers_name_is_charged(wire):
    """A word, two for its message, and the words of the name, in a field of its own or before the text."""
    names = ("", "Ada", "Joel Brook")
    messages = [message("hello", counter=COUNTER, id=name or "nobody", name=name, timestamp=NOW) for name in names]
    context = build(messages, wire=wire)
    assert {d.id: d.cost for d in context.decisions} == {"nobody": 3, "Ada": 4, "Joel Brook": 5}
    assert context.verification.difference <= 0


def test_media_that_the_model_cannot_see_are_not_sent():
    picture = brimful.Media(modality="image", url="https://example.org/a.png")
    alone = media(picture, counter=COUNTER, id="pic")
    inside = message((brimful.Text(text="look"), picture), counter=COUNTER, id="m", current=True)
    blind = build([alone, inside], modalities=("text",))
    assert outcomes(blind) == {
        "pic": ("dropped", "no-modality"),
        "m": ("kept", "required"),
        "m/image-1": ("shrunk", "no-modality"),
    }
    assert "takes no image" in blind.explain("pic")
    assert blind.request["messages"][-1]["content"] == "look\n\n[image: https://example.org/a.png]"
    assert blind.component("format").tokens >= 0
    seen = build([alone, inside])
    assert seen.kept == ("m", "m/image-1")
    assert (seen.decision("pic").outcome, seen.decision("pic").by) == ("duplicate", "m/image-1")
    unknown = build([inside], known=False, modalities=("text",))
    assert unknown.request["messages"][-1]["content"][1]["type"] == "image_url"


def test_the_same_text_may_stay_where_only_ids_count():
    pile = [memory("Ada likes tea", counter=COUNTER, id=id) for id in ("a", "b")]
    assert build(pile, overrides={"pools.related.dedupe": "id"}).kept == ("a", "b")


def dumps(count, **options):
    call = brimful.ToolCall(id="c", name="read_file")
    result = brimful.ToolResult(id="c", content=" ".join(f"Line {n} of the file." for n in range(count)))
    return tool_turn([call], [result], counter=COUNTER, id="t", timestamp=NOW, **options)


def test_a_tools_answer_may_be_cut_within_its_unit():
    context = build(dumps(400, min_tokens=50))
    assert outcomes(context) == {"t": ("kept", "min-items"), "t/c": ("shrunk", "min-items")}
    assert context.request["messages"][-1]["content"].count("[…]") == 1
    assert context.tokens >= 0.97 * context.budget.available
    required = build(dumps(400, min_tokens=50, can_drop=False))
    assert required.tokens <= 900
    assert outcomes(required)["t/c"] == ("shrunk", "required")
    with pytest.raises(brimful.errors.BudgetExceeded):
        build(dumps(400, can_drop=False), overrides=NO_FORMS)
    with pytest.raises(brimful.errors.BudgetExceeded):
        build(dumps(400, can_drop=False, min_tokens=1500))


def test_a_cut_shorter_than_the_least_is_no_cut():
    pile = [memory("Yes. " + words(3000), counter=COUNTER, id="long", min_tokens=400)]
    context = build(pile)
    assert outcomes(context)["long"][0] in ("shrunk", "dropped")


def test_summaries_that_cover_nothing_present_of_their_cluster_are_passed_over():
    pile = [
        *clustered(1, 30),
        summary("of others", of="day-1", counter=COUNTER, id="s-new", covers=("gone",), timestamp=NOW),
        summary("of all", of="day-1", counter=COUNTER, id="s-old", timestamp=NOW - 9),
    ]
    context = build(pile, window=500)
    assert context.decision("1-0").by == "s-old"
    alone = build([entry for entry in pile if entry.id != "s-old"], window=500)
    assert outcomes(alone)["s-new"] == ("dropped", "verbatim")


def test_history_whose_start_was_removed_is_filled_again():
    first = build(history(60), window=500)
    assert first.history is not None
    rest = [entry for entry in history(60) if entry.id != first.history.first]
    assert build(rest, window=500, previous=first.history).tokens >= 0.97 * (400 - 16)


def test_history_that_lost_most_of_its_messages_restarts_at_low_water():
    """5 of its 20 turns are left: it takes older ones again, to 55 of 12 tokens, within 0.75 of the 884 there are."""
    left = [entry for entry in history(90) if entry.id < "m073" or entry.id > "m087"]
    context = build(left, previous=HistoryStart(first="m070"))
    assert context.history.first == "m020"
    assert outcomes(context)["m020"] == ("kept", "fits")
    assert outcomes(context)["m019"] == ("dropped", "low-water")
    assert "low water" in context.explain("m019")
    grown = [*left, *(message(words(10), counter=COUNTER, id=f"n{n}", timestamp=NOW) for n in range(9))]
    assert build(grown, previous=context.history).history.first == context.history.first


@pytest.mark.parametrize(("first", "begins"), [("m025", "m025"), ("m037", "m037"), ("m038", "m005"), ("m059", "m005")])
def test_history_that_lost_less_than_a_third_keeps_its_beginning(first, begins):
    """Two thirds of the pool's low water are 270 of 405 tokens, 22 turns; what others leave is not counted there."""
    context = build(history(60), previous=HistoryStart(first=first))
    assert context.history.first == begins


def test_messages_older_than_continued_history_stay_out_even_if_there_is_room():
    context = build(history(60), previous=HistoryStart(first="m025"))
    assert context.budget.available - context.tokens > 12
    assert outcomes(context)["m024"] == outcomes(context)["m023"] == ("dropped", "older")
    assert "older than where history began in the previous context" in context.explain("m024")


def test_history_grows_no_further_than_what_stands_in_the_way():
    flood = message(words(900), counter=COUNTER, id="flood", timestamp=NOW - 1000 + 49.5)
    context = build([*history(60), flood], previous=HistoryStart(first="m050"), overrides=NO_FORMS)
    assert context.history.first == "m050"
    assert not context.decision("flood").included


def test_restarted_history_respects_max_items():
    only = {"pools.recent.max_items": 20}
    context = build(history(60, size=1), previous=HistoryStart(first="m055"), overrides=only)
    assert context.component("recent").items == 15
    assert outcomes(context)["m044"] == ("dropped", "low-water")
    again = build(history(60, size=1), previous=context.history, overrides=only)
    assert again.history.first == context.history.first


def test_history_with_too_many_items_is_trimmed_to_low_water_of_their_number():
    context = build(history(60, size=1), previous=HistoryStart(first="m030"), overrides={"pools.recent.max_items": 20})
    assert context.component("recent").items == 15


class Surprising(type(COUNTER)):
    """Counts a whole prompt higher, or lower, than its parts."""

    def __init__(self, factor):
        self.factor = factor

    def prompt(self, prompt):
        count = super().prompt(prompt)
        return brimful.Count(tokens=int(count.tokens * self.factor), basis="exact", tokenizer=self.tokenizer)


def surprised(pile, factor):
    return build(pile, counter=Surprising(factor), overrides=NO_FORMS)


def test_a_whole_that_is_larger_than_its_parts_is_filled_again_until_it_fits():
    context = surprised(history(90), 1.3)
    assert 0.9 * 900 <= context.tokens <= 900
    assert context.verification.rounds > 1
    assert context.verification.difference > 0


def test_a_whole_that_is_smaller_than_its_parts_is_filled_to_the_brim():
    context = surprised(history(300), 0.5)
    assert context.tokens >= 0.95 * context.budget.available
    assert context.verification.difference < 0
    everything = surprised(history(30), 0.5)
    assert everything.verification.rounds == 1


def test_a_refill_that_gains_nothing_is_not_taken():
    large = [message(words(400), counter=COUNTER, id=f"m{n}", timestamp=NOW + n) for n in range(9)]
    assert surprised(large, 0.9).verification.rounds == 1


def test_a_counter_that_never_agrees_is_an_error_and_not_a_loop():
    required = [package("note", words(30), counter=COUNTER, id=f"n{n}", can_drop=False) for n in range(5)]
    with pytest.raises(brimful.errors.BudgetExceeded, match="required parts need"):
        surprised(required, 9.0)

    class Stubborn(type(COUNTER)):
        def prompt(self, prompt):
            del prompt
            return brimful.Count(tokens=901, basis="exact", tokenizer=self.tokenizer)

    with pytest.raises(brimful.errors.BudgetExceeded, match="more than its parts after 12 rounds"):
        build(history(90), counter=Stubborn())


def test_several_current_messages_all_stand_at_the_end():
    pile = [message(f"part {n}", counter=COUNTER, id=f"c{n}", current=True, timestamp=NOW + n) for n in range(3)]
    context = build([*history(2), *pile])
    assert [entry["content"] for entry in context.request["messages"]][-3:] == ["part 0", "part 1", "part 2"]


def test_tokens_missing_from_a_bounded_count_are_charged():
    class Unsure(type(COUNTER)):
        def prompt(self, prompt):
            tokens = super().prompt(prompt).tokens
            return brimful.Count(tokens=tokens, margin=50, basis="calibrated", tokenizer=self.tokenizer)

    assert build(history(2), counter=Unsure()).tokens == build(history(2)).tokens + 50
    assert build(history(90), counter=Unsure()).tokens <= 900


def test_multiplying_by_relevance_keeps_many_minor_items_from_displacing_the_relevant_one():
    trifles = [memory(f"trifle {n}", counter=COUNTER, id=f"t{n}", relevance=0.01) for n in range(40)]
    answer = memory(words(60), counter=COUNTER, id="answer", relevance=0.9)
    context = build([*trifles, answer], window=200)
    assert "answer" in context.kept
    score = context.decision("answer").score
    merit = 0.50 * score.priority + 0.40 * score.importance + 0.10 * score.recency
    assert score.total == pytest.approx(0.9 * merit)


def test_relevance_needs_something_to_multiply():
    wrong = dict.fromkeys(("weights.priority", "weights.importance", "weights.recency"), 0.0)
    with pytest.raises(brimful.errors.InvalidPolicy, match="multiply_by_relevance"):
        brimful.load_policy("default", overrides=wrong)


def test_a_summary_competes_by_itself_where_nothing_of_its_cluster_got_in():
    """History begins where it began before: what lies behind it is told by its summary, among what was found."""
    day = clustered(-1, 10)
    short = summary("the day before in short", of="day--1", counter=COUNTER, id="s", timestamp=NOW - 1050)
    pile = [*day, *history(10), short]
    first = build(pile, window=2000)
    assert outcomes(first)["s"] == ("dropped", "verbatim")
    context = build(pile, window=480, previous=build(history(10), window=480).history)
    found = outcomes(context)
    assert {found[package.id][0] for package in day} == {"replaced"}
    assert found["s"] == ("kept", "fits")
    assert "the day before in short" in str(context.request)


def test_a_pool_of_all_kinds_limits_history_by_items_and_by_share():
    notes = [memory(words(20), counter=COUNTER, id=f"note{n}", importance=0.1) for n in range(10)]
    pile = [*history(10, size=20), *notes]

    def messages(**limits):
        overrides = {f"pools.all.history.{key}": value for key, value in limits.items()}
        found = outcomes(build(pile, "auction", window=700, completion=20, overrides=overrides | {"margin.tokens": 0}))
        return {id for id, (outcome, _) in found.items() if outcome == "kept" and id.startswith("m")}, found

    newest, found = messages(max_items=3)
    assert newest == {"m007", "m008", "m009"}
    assert found["m006"] == ("dropped", "max-items")
    few, found = messages(share=0.2)
    assert 0 < len(few) < 10
    assert found["m000"] == ("dropped", "pool-full")
    assert len(messages(share=0.2, min_items=8)[0]) == 8


@pytest.mark.parametrize("policy", ["agent", "auction", "default", "fit", "pools", "split"])
@pytest.mark.parametrize("pinned", [True, False])
def test_a_copy_of_a_turn_is_not_sent_even_if_it_ranks_higher(policy, pinned):
    turns = [message("Tea is at noon.", counter=COUNTER, id=f"m{n}", timestamp=NOW - 9 + n) for n in range(2)]
    copy = memory("tea is at  NOON.", counter=COUNTER, id="copy", importance=1.0, relevance=1.0, pinned=pinned)
    context = build([*turns, copy, message("so?", counter=COUNTER, id="now", current=True)], policy, window=5000)
    assert context.kept == ("m0", "m1", "now")  # it was said twice
    assert context.decision("copy").outcome == "duplicate"
    assert context.decision("copy").by in ("m0", "m1")


def test_a_search_hit_of_a_turn_in_the_same_pool_is_a_duplicate():
    turn = message("Tea is at noon.", counter=COUNTER, id="m", timestamp=NOW - 9)
    hit = package("message-older", (brimful.Text(text="Tea is at noon."),), counter=COUNTER, id="m/recalled")
    assert build([turn, hit], "window", window=5000).kept == ("m",)
    assert build([turn, hit], "window", window=5000, overrides={"pools.recent.dedupe": "id"}).kept == (
        "m",
        "m/recalled",
    )


def test_the_room_of_a_copy_goes_to_the_rest_of_its_pool():
    same = words(300)
    pile = [
        memory(same, counter=COUNTER, id="copy", importance=1.0, relevance=1.0),
        message(same, counter=COUNTER, id="m", timestamp=NOW - 9),
        memory(words(250, "other"), counter=COUNTER, id="other", importance=0.0, relevance=0.0),
    ]
    context = build(pile, "auction", window=1800, completion=100)
    assert outcomes(context) == {
        "copy": ("duplicate", "same-content"),
        "m": ("kept", "fits"),
        "other": ("kept", "fits"),
    }


def test_a_copy_gets_in_if_its_turn_does_not():
    same = words(20, "tea")
    pile = [message(same, counter=COUNTER, id="old", timestamp=NOW - 5000), *history(30)]
    copy = memory(same, counter=COUNTER, id="copy", relevance=1.0)
    context = build([*pile, copy], "split", window=300, overrides={"pools.recent.limit.tokens": 100})
    assert not context.decision("old").included
    assert context.decision("copy").outcome == "kept"


@pytest.mark.parametrize("policy", ["default", "pools"])
def test_no_summary_repeats_what_is_in(policy):
    """Neither of a memory, nor of another summary."""
    days = [*clustered(1, 20), *clustered(2, 20)]
    same = [summary("a quiet day", of=f"day-{n}", counter=COUNTER, id=f"s{n}") for n in (1, 2)]
    options = {"window": 400, "completion": 100} if policy == "default" else {"window": 4300, "completion": 3000}
    context = build([*days, *same], policy, **options)
    assert sum(context.decision(f"s{n}").included for n in (1, 2)) == 1
    pinned = memory("A quiet day", counter=COUNTER, id="pin", pinned=True)
    context = build([*days, *same, pinned], policy, **options)
    assert context.decision("pin").included
    assert not any(context.decision(f"s{n}").included for n in (1, 2))


def test_summaries_displace_only_a_share_and_take_what_is_left():
    facts = [
        memory(f"fact {n} " + words(40), counter=COUNTER, id=f"r{n}", relevance=1 - n / 100, cluster=f"c{n}")
        for n in range(30)
    ]
    short = [summary(f"{n} " + words(15), of=f"c{n}", counter=COUNTER, id=f"s{n}") for n in range(30)]
    context = build([*facts, *short], "pools", window=4_900, completion=3_000)
    kept = sum(context.decision(f"r{n}").included for n in range(30))
    summaries = [n for n in range(30) if context.decision(f"s{n}").included]
    assert kept >= 0.7 * 876 / 46
    assert len(summaries) > 9  # although they take the room of facts
    assert summaries == list(range(kept, kept + len(summaries)))  # the best ones
    assert {context.decision(f"s{n}").reason for n in range(kept + len(summaries), 30)} == {"window-full"}
    assert context.remaining < 17
    related = context.pools[-1]
    costs = [each.cost for each in context.decisions if each.included]
    assert (related.used, related.items) == (sum(costs), len(costs))


def test_a_summary_that_stands_in_is_charged_once():
    facts = [
        memory(f"fact {n} " + words(200), counter=COUNTER, id=f"r{n}", relevance=1 - n / 100, cluster=f"c{n}")
        for n in range(5)
    ]
    short = [summary(f"{n} in short", of=f"c{n}", counter=COUNTER, id=f"s{n}") for n in range(5)]
    context = build([*facts, *short], "pools", window=4_900, completion=3_000, overrides=NO_FORMS)
    assert context.kept == ("r0", "r1", "r2", "r3", "s4")
    assert context.remaining > context.decision("s4").cost
    assert (context.pools[-1].items, context.pools[-1].used) == (5, sum(each.cost for each in context.decisions))


def test_a_summary_of_a_part_of_history_stands_before_it_with_what_was_found():
    day = [
        message(f"line {n} " + words(40), counter=COUNTER, id=f"m{n:02d}", timestamp=NOW - 100 + n, cluster="day")
        for n in range(40)
    ]
    facts = [memory(f"fact {n} " + words(60), counter=COUNTER, id=f"r{n}", relevance=0.9) for n in range(30)]
    short = summary("the day in short", of="day", counter=COUNTER, id="s")
    context = build([*day, *facts, short], "pools", window=5_000, completion=3_000)
    assert not context.decision("m00").included
    assert context.decision("m39").included
    assert (outcomes(context)["s"], context.decision("s").region) == (("kept", "summary"), "related")


def test_a_summary_is_dropped_only_if_nothing_else_is_left_to_drop():
    pin = message(words(860), counter=COUNTER, id="now", current=True, timestamp=NOW)
    facts = [memory(f"fact {n} " + words(60), counter=COUNTER, id=f"r{n}", cluster="k") for n in range(3)]
    short = summary(words(30), of="k", counter=COUNTER, id="s")
    context = build([pin, *facts, short], "pools", window=4_900, completion=3_000, overrides=NO_FORMS)
    assert context.kept == ("now",)
    assert context.decision("s").reason == "window-full"


def test_one_summary_of_a_cluster_stands_in_and_no_pool_holds_more_than_its_maximum():
    facts = [
        memory(f"fact {n} " + words(60), counter=COUNTER, id=f"r{n}", relevance=1 - n / 100, cluster=f"c{n // 10}")
        for n in range(60)
    ]
    short = [
        summary(
            f"cluster {n} in short, as of {day}", of=f"c{n}", counter=COUNTER, id=f"s{n}-{day}", timestamp=NOW + day
        )
        for n in range(6)
        for day in range(2)
    ]
    context = build([*facts, *short], "pools", window=4_900, completion=3_000)
    assert [each for each in context.kept if each.startswith("s")] == ["s2-1", "s3-1", "s4-1", "s5-1"]
    assert context.decision("s2-0").reason == "verbatim"
    limits = {"pools.related.max_items": 7}
    assert len(build([*facts, *short], "pools", window=4_900, completion=3_000, overrides=limits).kept) == 7


def test_a_summary_does_not_stand_in_for_what_was_taken_back():
    days = [*clustered(1, 40)]
    facts = [memory(f"fact {n} " + words(60), counter=COUNTER, id=f"r{n}", cluster="k") for n in range(3)]
    short = [summary(words(9, f"{of}"), of=of, counter=COUNTER, id=f"s-{of}") for of in ("day-1", "k")]
    pile = [*days, *facts, *short, message(words(300), counter=COUNTER, id="now", current=True, timestamp=NOW)]
    context = build(pile, "pools", window=4_900, completion=3_000, overrides=NO_FORMS)
    assert {context.decision(f"r{n}").outcome for n in range(3)} == {"kept"}
    assert (context.decision("s-day-1").outcome, context.decision("s-k").reason) == ("kept", "verbatim")
