"""The price of tokens, what turns of the conversation are worth, and how both divide the window."""

import msgspec
import pytest

from brimful.assembly.assemble import replay
from brimful.core.decision import Score
from brimful.core.selection import HistoryStart
from brimful.core.units import Unit
from brimful.core.worth import Balance, find_needs
from brimful.packagers import memory, message, package
from brimful.packagers.records import package_lore_entry
from brimful.policies import load_policy
from brimful.records import LoreEntry
from strategies import COUNTER, NOW
from support import build as build_shipped
from support import history, words

NEED = {"newest": 0.75, "decay": 2.0, "own": 0.1, "mentioned": 2.0, "min_share": 0.2, "reread": 0.05}
DIVIDED = {"price": 0.0, "pools.recent.need": NEED, "pools.related.limit": {}, "pools.recent.min_items": 0}


START = HistoryStart(first="m024")
BY_PRICE = {
    "min_relevance": 0.0,
    "min_memory_relevance": None,
    "min_best_relevance": 0.0,
    "min_share_of_best": 0.0,
    "pools.related.free": None,
}


def build(pile, *, overrides, **options):
    """Build a context in which the price alone says what is worth its tokens."""
    return build_shipped(pile, overrides=BY_PRICE | overrides, **options)


def note(id, relevance, size=20, **options):
    return memory(f"{id} " + words(size - 1), counter=COUNTER, id=id, relevance=relevance, **options)


def prose(id, relevance, sentences=80):
    text = " ".join(f"Fact {n} is known to all." for n in range(sentences))
    return memory(text, counter=COUNTER, id=id, relevance=relevance, min_tokens=5)


def reason(context, id):
    return context.decision(id).outcome, context.decision(id).reason


# -- the price -------------------------------------------------------------------------------------------------------


def test_an_item_gets_in_only_if_it_is_worth_more_than_its_tokens():
    pile = [*history(2), note("good", 0.5), note("poor", 0.001)]
    context = build(pile, overrides={"price": 1.0})
    assert reason(context, "good") == ("kept", "fits")
    assert reason(context, "poor") == ("dropped", "not-worth")
    assert context.remaining > 500
    assert "poor" in build(pile, overrides={"price": "full"}).kept
    assert context.warnings == ()


def test_the_explanation_has_worth_price_and_tokens():
    context = build([*history(2), note("good", 0.5), note("poor", 0.001)], overrides={"price": 1.0})
    line = context.explain("poor")
    assert line == "dropped: not worth its tokens at a price of 1 per 1,000, score 0.0007, 20 tokens"


LIKELY = {"price": "balanced", "min_relevance": 0.015, "min_best_relevance": 0.04, "min_total_relevance": 0.05}


def test_a_find_gets_in_only_if_it_may_help_and_one_of_all_is_likely_to():
    pile = [*history(2), note("kettle", 0.02), note("ladder", 0.01)]
    context = build(pile, overrides=LIKELY)
    line = (
        "dropped: unlikely to help: relevance under 1.5%, or under 4% for the best and 5% for all that its search found"
        ", score 0.01, 20 tokens"
    )
    assert context.explain("kettle") == line
    assert [notice.kind for notice in context.warnings] == ["nothing-relevant"]
    assert "kettle" in build(pile, overrides=LIKELY | {"price": "full"}).kept
    both = build([*pile, note("cup", 0.4)], overrides=LIKELY)
    assert {"cup", "kettle"} < set(both.kept)
    assert reason(both, "ladder") == ("dropped", "unlikely")


def test_many_finds_that_are_all_alike_may_have_the_answer_together():
    alike = [note(f"cup {n}", 0.02) for n in range(3)]
    assert not {each.id for each in alike[:2]} & set(build([*history(2), *alike[:2]], overrides=LIKELY).kept)
    assert {each.id for each in alike} < set(build([*history(2), *alike], overrides=LIKELY).kept)


def test_a_memory_gets_in_with_less_relevance_than_a_message():
    older = package("message-older", "The cup is on the shelf.", counter=COUNTER, id="older", relevance=0.003)
    pile = [*history(2), note("good", 0.1, size=300), note("kept", 0.003, size=300), older]
    overrides = {"price": "balanced", "min_relevance": 0.005, "min_memory_relevance": 0.002, "min_best_relevance": 0.06}
    context = build(pile, overrides=overrides)
    assert reason(context, "older") == ("dropped", "unlikely")
    assert "relevance under 0.5%" in context.explain("older")
    assert reason(context, "kept")[1] != "unlikely"
    assert reason(build(pile, overrides=overrides | {"min_memory_relevance": None}), "kept") == ("dropped", "unlikely")


def test_only_the_best_fifty_finds_add_up():
    crumbs = [note(f"crumb {n}", 0.0009, size=5) for n in range(60)]
    context = build([*history(2), *crumbs, note("cup", 0.02)], overrides=LIKELY | {"min_relevance": 0.0})
    assert reason(context, "cup") == ("kept", "fits")
    context = build([*history(2), *crumbs, note("cup", 0.004)], overrides=LIKELY | {"min_relevance": 0.0})
    assert reason(context, "cup") == ("dropped", "unlikely")


def found(id, relevance, best, *, stands_out=False):
    search = {"query": "event", "relevance": relevance, "best": best, "total": best, "stands_out": stands_out}
    return note(id, relevance, metadata={"search": search})


def test_results_of_one_search_do_not_open_the_window_for_another():
    pile = [*history(2), found("own", 0.02, 0.02), found("best", 0.4, 0.4), found("other", 0.02, 0.4)]
    context = build(pile, overrides=LIKELY)
    assert [reason(context, id)[0] for id in ("own", "best", "other")] == ["dropped", "kept", "kept"]


def test_a_find_gets_in_only_with_a_share_of_the_relevance_of_the_best_of_its_search():
    pile = [*history(2), found("best", 0.5, 0.5), found("fair", 0.06, 0.5), found("poor", 0.04, 0.5)]
    context = build([*pile, found("own", 0.04, 0.1)], overrides=LIKELY | {"min_share_of_best": 0.1})
    assert [reason(context, id)[0] for id in ("best", "fair", "poor", "own")] == ["kept", "kept", "dropped", "kept"]
    assert "under 10% of the best that its search found" in context.explain("poor")


def test_a_find_that_stands_out_may_get_in_alone():
    poor = found("poor", 0.01, 0.03, stands_out=True)
    pile = [*history(2), found("first", 0.03, 0.03, stands_out=True), found("second", 0.02, 0.03), poor]
    context = build(pile, overrides=LIKELY)
    assert [reason(context, id)[0] for id in ("first", "second", "poor")] == ["kept", "dropped", "dropped"]


# -- free of the price -----------------------------------------------------------------------------------------------


def test_a_few_memories_get_in_whatever_the_question_is():
    notes = [note(f"fact {n}", 0.0001) for n in range(6)]
    context = build_shipped([*history(2), *notes])
    assert {reason(context, each.id) for each in notes} == {("kept", "free")}
    assert "need not be worth their tokens" in context.explain("fact 3")
    assert context.warnings == ()


def test_the_best_of_many_memories_get_in_and_others_only_if_worth_it():
    notes = [note(f"fact {n:02}", 0.001 + n / 1e5, size=30) for n in range(40)]
    context = build_shipped([*history(2), *notes, note("good", 0.7)], window=4_000)
    kept = [each.id for each in notes if each.id in context.kept]
    assert kept == [f"fact {n:02}" for n in range(40 - len(kept), 40)]
    assert 3 <= len(kept) <= 10
    assert reason(context, "good") == ("kept", "fits")
    assert sum(context.decision(id).cost for id in [*kept, "good"]) <= 200


def test_free_memories_never_take_the_place_of_what_is_worth_more():
    good = [note(f"good {n}", 0.9) for n in range(8)]
    tight = build_shipped([*good, note("idle", 0.0001)], window=320, completion=100)
    assert {each.id for each in good} >= set(tight.kept)
    assert reason(tight, "idle")[0] == "dropped"


def test_older_messages_are_not_free():
    older = package("message-older", "kettle " + words(10), counter=COUNTER, id="older", relevance=0.0001)
    assert reason(build_shipped([*history(2), older]), "older") == ("dropped", "unlikely")


def test_a_context_says_that_nothing_is_relevant():
    pile = [*history(2), *(note(f"kettle {n}", 0.0001) for n in range(9))]
    [notice] = build(pile, overrides={"price": 1.0}).warnings
    assert (notice.kind, notice.facts) == ("nothing-relevant", {"items": 9, "price": 1.0})
    assert build(pile, overrides={"price": 0.0}).warnings == ()
    assert build([*pile, note("good", 0.9)], overrides={"price": 1.0}).warnings == ()


def test_history_and_pins_have_no_price():
    pile = [*history(5), note("pin", 0.0001, pinned=True)]
    assert len(build(pile, overrides={"price": 1e6}).kept) == 6


@pytest.mark.parametrize("policy", ["auction", "pools", "split", "window", "fit"])
def test_other_policies_have_no_price(policy):
    assert load_policy(policy).price == 0.0
    assert all(pool.need is None for pool in load_policy(policy).pools)


def test_least_items_get_in_whatever_they_are_worth():
    context = build(
        [*history(2), note("poor", 0.001), note("poorer", 0.0001)],
        overrides={
            "price": 1.0,
            "pools.related.min_items": 1,
        },
    )
    assert reason(context, "poor") == ("kept", "min-items")
    assert reason(context, "poorer") == ("dropped", "not-worth")


def test_most_items_hold_beside_a_price():
    pile = [note("a", 0.9), note("b", 0.8), note("c", 0.7), note("poor", 0.001), *history(2)]
    context = build(pile, overrides={"price": 1.0, "pools.related.max_items": 2})
    assert [id for id in context.kept if not id.startswith("m")] == ["a", "b"]
    assert reason(context, "c") == ("dropped", "max-items")
    assert reason(context, "poor") == ("dropped", "not-worth")


def test_a_larger_form_is_worth_its_tokens_only_if_what_it_adds_is():
    pile = [*history(2), prose("long", 0.6)]
    cheap = build(pile, overrides={"price": 0.1}, window=2_000).decision("long")
    dear = build(pile, overrides={"price": 1.0}, window=2_000).decision("long")
    out = build(pile, overrides={"price": 200.0}, window=2_000).decision("long")
    assert (cheap.outcome, cheap.form) == ("kept", "full")
    assert (dear.outcome, dear.form) == ("shrunk", "excerpt")
    assert (out.outcome, out.reason) == ("dropped", "not-worth")


def test_leftover_tokens_do_not_grow_an_excerpt_that_is_long_enough():
    context = build([prose("long", 0.6, 400), *history(2)], overrides={"price": 0.2}, window=3_000)
    assert context.decision("long").form == "excerpt"
    assert context.remaining > 2_000


def test_without_a_price_a_long_item_takes_all_that_is_left():
    context = build([prose("long", 0.6, 400), *history(2)], overrides={"price": "full"})
    assert context.decision("long").form == "excerpt"
    assert context.tokens >= 0.97 * context.budget.available


def test_a_gap_is_not_filled_with_what_is_not_worth_it():
    pile = [*(note(f"n{n}", 0.9, 60) for n in range(10)), prose("poor", 0.0005), *history(2)]
    assert reason(build(pile, overrides={"price": 1.0}, window=800), "poor") == ("dropped", "not-worth")


def test_a_duplicate_is_not_taken_after_all_if_it_is_not_worth_it():
    old = message(words(30), counter=COUNTER, id="old", timestamp=NOW - 5_000)
    same = memory(words(30), counter=COUNTER, id="same", relevance=0.0001)
    pile = [old, same, *history(30, size=40)]
    options = {"pools.recent.borrow": False, "pools.related.limit.share": 1.0}
    assert "same" in build(pile, overrides=options | {"price": 0.0}, window=1_200).kept
    assert reason(build(pile, overrides=options | {"price": 1.0}, window=1_200), "same") == ("dropped", "not-worth")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"price": 0.0}, ("kept", "fits")),
        ({"price": 1.0}, ("dropped", "not-worth")),
        ({"price": 1.0, "pools.related.optimize": False}, ("kept", "fits")),
    ],
)
def test_a_duplicate_whose_original_does_not_fit_gets_in_only_without_a_price(options, expected):
    name, source = words(90), words(60)
    wordy = memory("Ada likes tea", counter=COUNTER, id="a", relevance=0.9, name=name, metadata={"source": source})
    plain = memory("ada LIKES tea", counter=COUNTER, id="b", relevance=0.0001)
    context = build([wordy, plain, *history(1)], overrides=options, window=160)
    assert not context.decision("a").included
    assert reason(context, "b") == expected


def test_a_replay_takes_the_price_of_the_record_or_another_one():
    context = build([*history(2), note("poor", 0.001)], overrides={"price": 1.0})
    again = replay(context, model="gpt-4o", window=1_000)
    assert reason(again, "poor") == ("dropped", "not-worth")
    full = replay(context, model="gpt-4o", window=1_000, overrides={"price": "full"})
    assert reason(full, "poor") == ("kept", "fits")


# -- what a turn is worth --------------------------------------------------------------------------------------------


def needs(pile, **changes):
    return find_needs(pile, load_policy("default", overrides={"pools.recent.need": NEED | changes}))


def say(id, role, text, at, **options):
    return message(text, counter=COUNTER, id=id, role=role, timestamp=NOW + at, **options)


def test_the_probability_that_a_turn_is_needed_falls_with_its_distance():
    found = needs(history(4), own=1.0, mentioned=1.0)
    assert found["m003"] == pytest.approx(0.75)
    assert found["m002"] == pytest.approx(0.75 / 1.75)  # odds of 3 / 2²
    assert found["m003"] > found["m002"] > found["m001"] > found["m000"]


def test_own_turns_are_needed_less_and_mentioned_ones_more():
    turns = [say("a", "user", "My cello broke.", 0), say("b", "assistant", "That is a pity.", 1)]
    turns += [say("c", "user", "And it rains.", 2), say("d", "assistant", "So it does.", 3)]
    about = say("now", "user", "WHO MENDS A CELLO?", 4, current=True)
    other = say("now", "user", "Who is this?", 4, current=True)
    assert needs([*turns, about])["a"] > needs([*turns, other])["a"]
    assert needs([*turns, other], own=1.0)["a"] > needs([*turns, other])["a"]
    assert needs([*turns, other], own=1.0)["b"] == needs([*turns, other])["b"]


def test_a_word_of_a_few_turns_counts_as_rare_and_only_recent_turns_are_read():
    turns = [say(f"t{n:02d}", "assistant", "A cello." if n in (0, 60, 69) else words(3), n) for n in range(70)]
    pile = [*turns, say("now", "user", "Who mends a cello?", 99, current=True)]
    found, plain = needs(pile), needs(pile, mentioned=1.0)
    assert [id for id in found if found[id] > plain[id]] == ["t69", "t60"]


def test_a_message_that_was_found_is_not_a_turn_and_lore_does_not_replace_turns():
    turns = history(2)
    old = message("An old message.", counter=COUNTER, id="old", timestamp=NOW - 9_000, relevance=0.0)
    entry = LoreEntry(id="lore", lorebook="b", content="The harbor is old.")
    lore = package_lore_entry(entry, counter=COUNTER, relevance=0.9)
    assert needs([*turns, old, lore]) == needs(turns)


def test_the_more_certain_a_find_is_the_less_are_turns_needed():
    plain, found = needs(history(2)), needs([*history(2), note("found", 0.9)])
    assert found["m001"] == pytest.approx(0.1 * plain["m001"])
    assert find_needs(history(2), load_policy("window")) == {}


def test_turns_carry_the_probability_in_their_score():
    context = build(history(3), overrides={"pools.recent.need": NEED})
    assert context.decision("m002").score.relevance == pytest.approx(0.75)
    assert context.decision("m000").score.relevance < context.decision("m001").score.relevance


# -- the division ----------------------------------------------------------------------------------------------------


def finds(relevance, count=20):
    return [note(f"f{n:02d}", relevance) for n in range(count)]


def used(context, name):
    return next(pool.used for pool in context.pools if pool.name == name)


def test_confident_finds_get_the_room_that_history_would_have():
    sure = build([*history(60), *finds(0.9)], overrides=DIVIDED, window=600)
    vague = build([*history(60), *finds(0.00001)], overrides=DIVIDED, window=600)
    assert used(sure, "related") > 2 * used(vague, "related")
    assert used(vague, "recent") > 2 * used(sure, "recent")
    assert used(sure, "recent") >= 0.8 * 0.2 * sure.budget.limit("recent")


def test_finds_that_are_not_worth_their_tokens_get_no_room_from_history():
    context = build([*history(60), *finds(0.3)], overrides=DIVIDED | {"price": 1e6}, window=600)
    assert not context.history.divided
    assert build([*history(60), *finds(0.3)], overrides=DIVIDED, window=600).history.divided


def test_history_gets_what_finds_leave():
    context = build([*history(60), *finds(0.9, 3)], overrides=DIVIDED, window=600)
    assert context.remaining < 40
    assert "f02" in context.kept


def test_a_find_is_left_out_if_history_grows_as_far_as_the_same_message():
    turns = [say(f"t{n:02d}", "user", f"Turn {n} " + words(8), n) for n in range(60)]
    found = package("message-older", f"Turn 30 {words(8)}", counter=COUNTER, id="copy", relevance=0.99, timestamp=NOW)
    context = build([*turns, found], overrides=DIVIDED, window=600)
    assert "t30" in context.kept
    assert reason(context, "copy") == ("duplicate", "same-content")


def test_history_stays_where_it_began_unless_it_pays_to_move():
    turns, some = history(60), finds(0.5)
    before = build([*turns, *finds(0.00001)], overrides=DIVIDED, window=600)
    dear = build(
        [*turns, *some], overrides=DIVIDED | {"pools.recent.need.reread": 1e6}, window=600, previous=before.history
    )
    cheap = build([*turns, *some], overrides=DIVIDED, window=600, previous=before.history)
    assert dear.history.first == before.history.first
    assert cheap.history.first > before.history.first
    assert used(cheap, "related") > used(dear, "related")
    assert "low-water" in {decision.reason for decision in cheap.decisions}
    again = build([*turns, *some], overrides=DIVIDED, window=600, previous=cheap.history)
    assert again.history.first == cheap.history.first


def test_history_that_outgrew_its_room_is_trimmed_in_one_large_step():
    before = build(history(40), overrides=DIVIDED, window=600)
    after = build(history(60), overrides=DIVIDED, window=600, previous=before.history)
    assert used(after, "recent") < 0.8 * after.budget.limit("recent") / 0.6
    assert not after.history.divided  # there was nothing to divide it with
    assert "low-water" in {decision.reason for decision in after.decisions}


def test_history_that_gives_room_may_still_have_as_many_items_as_before():
    overrides = DIVIDED | {"pools.recent.max_items": 7, "pools.recent.need.reread": 0.0}
    before = build([*history(60), *finds(0.00001)], overrides=overrides, window=600)
    after = build([*history(60), *finds(0.05)], overrides=overrides, window=600, previous=before.history)
    assert (before.component("recent").items, after.component("recent").items) == (7, 6)


def test_history_leaves_room_for_a_long_find_that_is_worth_it_only_when_shortened():
    """The 36 turns from its start fit beside nothing else. In full, the find is not worth its 244 tokens."""
    pile = [*history(60), prose("long", 0.3, 40)]
    context = build(pile, overrides={"price": 1.0}, window=600, previous=START)
    assert context.history.first == "m042"
    assert reason(context, "long") == ("shrunk", "fits")
    poor = build([*history(60), note("poor", 0.001, 100)], overrides={"price": 1.0}, window=600, previous=START)
    assert poor.history.first == START.first


def test_history_grows_back_only_as_far_as_finds_leave_it_room():
    """The finds leave 228 tokens: 19 turns, and low water is 14 of them."""
    pile = [*history(60), *finds(0.5, 100)]
    grown = build(pile, overrides=DIVIDED, window=2000, previous=HistoryStart(first="m058"))
    assert grown.history.first == "m046"
    divided = HistoryStart(first="m055", divided=True)
    again = build(pile, overrides=DIVIDED, window=2000, previous=divided).history
    assert (again.first, again.divided) == ("m055", True)


def test_history_may_have_everything_if_nothing_was_found():
    balance = Balance([], [], 100, 0.0)
    assert (balance.best(10, 50), balance.worth(50)) == (50, 0.0)


def test_finds_that_cost_tokens_get_in_only_if_there_are_any():
    score = Score(total=0.5, priority=0.0, importance=0.0, relevance=0.5, recency=0.0)
    item = note("free", 0.5)
    free = Unit(key="free", packages=(item,), cost=0, score=score, pool="related", fixed=False, may_shrink=False)
    dear = msgspec.structs.replace(free, cost=20)
    assert Balance([], [free], 10, 0.0).worth(30) == free.value > 0
    assert Balance([], [dear], 10, 0.0).worth(30) == 0.0
    assert Balance([], [dear], 10, 0.0).worth(0) == dear.value / 2
    large = msgspec.structs.replace(dear, cost=200, score=msgspec.structs.replace(score, total=0.9))
    assert Balance([], [large, dear], 20, 0.0).worth(0) == dear.value  # what is worth most per token comes first


def test_a_find_that_fits_in_part_is_worth_its_share():
    score = Score(total=0.8, priority=0.0, importance=0.0, relevance=0.8, recency=0.0)
    first = Unit(
        key="a", packages=(note("a", 0.8),), cost=20, score=score, pool="related", fixed=False, may_shrink=False
    )
    second = msgspec.structs.replace(first, key="b", score=msgspec.structs.replace(score, total=0.4))
    assert Balance([], [first, second], 30, 0.0).worth(0) == pytest.approx(0.8 + 0.4 / 2)


def test_history_that_gave_room_does_not_grow_back_for_a_single_message():
    turns = history(60)
    divided = build([*turns, *finds(0.5)], overrides=DIVIDED, window=600)
    after = build(turns, overrides=DIVIDED, window=600, previous=divided.history)
    assert divided.history.divided
    assert (after.history.first, after.history.divided) == (divided.history.first, divided.history.divided)


def test_history_that_gave_room_grows_back_in_a_far_larger_window():
    turns = history(60)
    divided = build([*turns, *finds(0.5)], overrides=DIVIDED, window=600)
    larger = build([*turns, *finds(0.5)], overrides=DIVIDED, window=20_000, previous=divided.history)
    assert larger.history.first < divided.history.first
    assert not larger.history.divided


def test_only_the_beginning_of_a_long_turn_is_searched_for_words():
    question = message("Where is the lighthouse?", counter=COUNTER, id="q", current=True, timestamp=NOW)
    texts = ("lighthouse" + " x" * 20_000, "x " * 20_000 + "lighthouse")
    turns = [message(text, counter=COUNTER, id="t", role="assistant", timestamp=NOW - 1) for text in texts]
    early, late = (find_needs([turn, question], load_policy("default"))["t"] for turn in turns)
    assert early > late
