"""Smaller forms of long items: what they look like, and which of them is chosen."""

from itertools import pairwise

import msgspec
import pytest

from brimful import Count, Form, Text, ToolCall, ToolResult
from brimful.cache import SHARED_BUDGET, set_cache_limit
from brimful.core.content import ContentPackage
from brimful.core.context import Context
from brimful.core.decision import make_scorer
from brimful.core.forms import Shaper
from brimful.core.handles import Handles
from brimful.core.labels import iso_date
from brimful.core.select import cap_large
from brimful.core.units import make_units, total_cost
from brimful.errors import InvalidPackage
from brimful.packagers import memory, message, package, tool_turn
from brimful.policies import load_policy
from strategies import COUNTER, NOW
from support import build, history, words

STORY = " ".join(f"On day {n} it rained." for n in range(400))


def test_history_has_digests_that_do_not_depend_on_the_current_message():
    long = message(STORY, counter=COUNTER, id="long", timestamp=NOW - 500)
    sent = []
    for text in ("Which day?", "Was it day 200?"):
        current = message(text, counter=COUNTER, id="now", current=True, timestamp=NOW)
        context = build([long, *history(5), current])
        assert context.decision("long").form == "digest"
        sent.append(context.request["messages"][0])
    assert sent[0] == sent[1]


def test_retrieved_content_has_excerpts_for_the_current_message():
    long = memory(STORY.replace("On day 200 it rained.", "On day 200 it snowed."), counter=COUNTER, id="long")
    current = message("When was it that it snowed?", counter=COUNTER, id="now", current=True, timestamp=NOW)
    context = build([long, current])
    assert context.decision("long").form == "excerpt"
    assert "On day 200 it snowed." in str(context.request)


def test_one_line_stays_if_not_even_a_digest_fits():
    large = [message(words(800), counter=COUNTER, id=f"l{n}", name="Ada", timestamp=NOW - 2000 + n) for n in range(4)]
    context = build([*large, *history(3)], window=260, completion=100)
    stubs = [each for each in context.decisions if each.form == "stub"]
    assert stubs
    assert stubs[0].smaller == 0
    day = iso_date(NOW - 2000)
    assert f"[message from Ada, {day}, 800 tokens, left out: word word" in str(context.request)


def test_a_form_stays_from_turn_to_turn():
    large = message(STORY, counter=COUNTER, id="large", timestamp=NOW - 900)
    later = [message("ok", counter=COUNTER, id=f"n{n}", timestamp=NOW + n) for n in range(20)]
    first = build([large, *later[:2]])  # full to the brim
    stepped = build([large, *later[:15]], previous=first.history)
    again = build([large, *later], previous=stepped.history)
    assert stepped.history.forms == again.history.forms != ()
    assert again.request["messages"][:5] == stepped.request["messages"][:5]


def test_a_form_stays_in_a_history_without_large_steps_too():
    large = message(STORY, counter=COUNTER, id="large", timestamp=NOW - 900)
    later = [message("ok", counter=COUNTER, id=f"n{n}", timestamp=NOW + n) for n in range(15)]
    first = build([large, *later[:2]], "pools", window=5_000)
    again = build([large, *later], "pools", window=5_000, previous=first.history)
    fresh = build([large, *later], "pools", window=5_000)
    assert first.history.forms == again.history.forms != fresh.history.forms != ()


@pytest.mark.parametrize(("over", "forms"), [(0, ["full", "full"]), (1, ["digest", "full"]), (1_500, ["digest"] * 2)])
def test_no_more_of_a_history_is_shortened_than_it_takes_to_go_on(over, forms):
    policy = load_policy("default")
    shaper = Shaper(COUNTER, policy.forms, "", Handles([]))
    turns = [message(f"{n} {STORY}", counter=COUNTER, id=f"m{n}", timestamp=NOW - n) for n in range(2)]
    units, _ = make_units(
        turns,
        policy,
        lambda entry: entry.tokens.upper,
        lambda _: ("", 0),
        shaper.may_shrink,
        make_scorer(policy.weights, NOW),
    )
    tokens = total_cost(units) - over
    capped = cap_large(units, tokens, shaper)
    assert [each.form for each in capped] == forms
    assert total_cost(capped) <= tokens


def test_only_the_text_of_a_tool_result_is_shortened():
    rows = "\n".join(f"row {n} is fine" for n in range(400))
    turn = tool_turn(
        [ToolCall(id="a", name="look"), ToolCall(id="b", name="look")],
        [ToolResult(id="a", content=rows), ToolResult(id="b", content="short")],
        counter=COUNTER,
        id="turn",
        timestamp=NOW,
    )
    context = build(turn)
    forms = {each.id: each.form for each in context.decisions}
    assert sorted(forms.values()) == ["digest", "full", "full"]
    assert "short" in str(context.request)


def test_a_count_of_the_caller_that_is_too_small_gives_no_excerpt_that_does_not_fit():
    bound = memory(STORY, counter=COUNTER, id="long", tokens=Count(tokens=950, basis="bound"))
    context = build([bound, message("Hi", counter=COUNTER, id="now", current=True)])
    assert context.tokens <= context.budget.hard_limit


def test_large_items_stay_whole_if_they_cannot_be_shortened_enough():
    large = message("one " * 320, counter=COUNTER, id="large", min_tokens=310, timestamp=NOW - 915.5)
    context = build([large, *history(90)])
    assert context.decision("large").form == "full"
    assert context.decision("m080").included


SUMMARY, LINE = Form(words(60, "summary"), worth=0.8), Form("one line", worth=0.3)


@pytest.mark.parametrize(
    ("window", "form", "text", "larger", "smaller"),
    [(900, "full", "rained", 0, 0), (300, "digest", "summary", 2001, 3), (150, "digest", "one line", 61, 0)],
)
def test_forms_of_a_package_are_preferred_to_made_ones(window, form, text, larger, smaller):
    long = memory(STORY, counter=COUNTER, id="long", forms=[LINE, SUMMARY])
    context = build([long], window=window + 1500 * (form == "full"), overrides={"forms.kinds": []})
    decision = context.decision("long")
    assert (decision.form, decision.larger, decision.smaller) == (form, larger, smaller)
    assert text in str(context.request)


def test_forms_of_a_message_shrink_it_in_history_and_stay_below_what_is_made_for_more_room():
    long = message(STORY, counter=COUNTER, id="long", forms=[LINE], timestamp=NOW - 2000)
    context = build([long, *history(40)])
    assert context.decision("long").form == "digest"
    assert "one line" in str(context.request)


def test_required_packages_shrink_to_their_smallest_form():
    long = memory(STORY, counter=COUNTER, id="long", forms=[SUMMARY, LINE], can_drop=False, can_shrink=True)
    fixed = memory(words(30), counter=COUNTER, id="fixed", can_drop=False)
    context = build([long, fixed], window=160, overrides={"forms.kinds": []})
    assert "one line" in str(context.request)


def test_a_smaller_form_is_made_if_none_of_its_own_fits():
    long = message(STORY, counter=COUNTER, id="long", forms=[SUMMARY], can_drop=False, timestamp=NOW)
    context = build([long], window=150)
    assert context.decision("long").form == "stub"


def test_the_form_of_a_tool_result_replaces_its_text():
    call = ToolCall(id="a", name="look")
    turn = tool_turn([call], [ToolResult(id="a", content=STORY)], counter=COUNTER, id="turn", timestamp=NOW)
    turn[1] = msgspec.structs.replace(turn[1], forms=(LINE,))
    context = build(turn)
    assert context.request["messages"][1]["content"] == "one line"
    assert context.request["messages"][1]["tool_call_id"] == "a"


def test_the_record_of_a_tool_result_has_its_next_smaller_form():
    call = ToolCall(id="a", name="look")
    turn = tool_turn([call], [ToolResult(id="a", content=STORY)], counter=COUNTER, id="turn", timestamp=NOW)
    turn[1] = msgspec.structs.replace(turn[1], forms=(LINE, SUMMARY))
    decision = build(turn).decision(turn[1].id)
    assert decision.larger == decision.full > decision.cost
    assert decision.cost - decision.smaller == 58


def test_the_form_of_a_package_of_several_parts_is_counted_with_the_others():
    parts = [Text(text=STORY), Text(text=words(20))]
    long = package("memory-semantic", parts, counter=COUNTER, id="long", forms=[LINE])
    context = build([long], window=300, overrides={"forms.kinds": []})
    assert (context.decision("long").form, context.decision("long").tokens) == ("digest", 22)


def test_forms_that_are_not_smaller_and_packages_that_may_not_shrink_are_left_alone():
    long = memory("short", counter=COUNTER, id="long", forms=[SUMMARY], can_drop=False)
    fixed = memory(words(800), counter=COUNTER, id="fixed", forms=[SUMMARY], can_shrink=False)
    context = build([long, fixed], window=400)
    assert context.decision("long").form == "full"
    assert context.decision("fixed").outcome == "dropped"


def test_the_best_set_chooses_among_the_forms_of_many_packages():
    notes = [memory(words(100, f"n{n}"), counter=COUNTER, id=f"n{n:02d}", forms=[SUMMARY]) for n in range(20)]
    context = build(notes, window=1400, overrides={"forms.kinds": [], "pools.related.dedupe": "id"})
    forms = [context.decision(each.id).form for each in notes]
    assert forms.count("digest") > 10


def test_an_excerpt_is_made_of_what_comes_with_larger_forms_alone():
    long = memory(STORY, counter=COUNTER, id="long", forms=[Form(words(3000), worth=0.9)])
    context = build([long, message("Was it day 200?", counter=COUNTER, id="now", current=True, timestamp=NOW)])
    assert context.decision("long").form == "excerpt"


def test_a_count_of_the_caller_for_a_form_is_kept():
    bound = Form("one line", worth=0.5, tokens=Count(tokens=20, basis="bound"))
    long = memory(STORY, counter=COUNTER, id="long", forms=[bound])
    context = build([long], window=300, overrides={"forms.kinds": []})
    assert (context.decision("long").form, context.decision("long").tokens) == ("digest", 20)


def test_the_better_of_two_forms_of_one_size_is_taken():
    better, worse = Form("better line", worth=0.6), Form("other line", worth=0.4)
    long = memory(STORY, counter=COUNTER, id="long", forms=[worse, better, LINE])
    context = build([long], window=300, overrides={"forms.kinds": []})
    decision = context.decision("long")
    assert "better line" in str(context.request)
    assert (decision.larger, decision.smaller) == (2001, 0)


def test_forms_are_counted_for_the_model_and_are_in_the_record():
    other = Form("one two", tokens=Count(tokens=9, basis="exact", tokenizer="another"))
    bound = Form("three", tokens=Count(tokens=3, basis="bound"))
    long = ContentPackage(
        id="long", kind="message-recent", content=STORY, tokens=COUNTER.text(STORY), forms=(Form("a b c"), other, bound)
    )
    context = build([long, *history(60)])
    assert "one two" in str(context.request) or "a b c" in str(context.request)
    assert Context.from_json(context.to_json()) == context
    assert context.inputs.packages[0].forms == long.forms
    counted = memory(STORY, counter=COUNTER, forms=[Form("a lone \ud800")])
    assert counted.forms == (Form("a lone \ufffd", 0.5, COUNTER.text("a lone x")),)


@pytest.mark.parametrize("forms", ["text", None, {"text": "x"}, ["text"], [("text", 0.5)]])
def test_wrong_forms_are_refused(forms):
    with pytest.raises(InvalidPackage, match="forms"):
        memory("x", counter=COUNTER, forms=forms)


@pytest.mark.parametrize("fields", [{"text": " "}, {"text": 1}, {"text": "x", "worth": 2}, {"text": "x", "tokens": 1}])
def test_wrong_fields_of_a_form_are_refused(fields):
    with pytest.raises(InvalidPackage, match=r"forms\."):
        Form(**fields)


def test_a_package_takes_forms_alone():
    with pytest.raises(InvalidPackage, match="forms"):
        ContentPackage(id="x", kind="y", content="z", tokens=COUNTER.text("z"), forms=("short",))
    with pytest.raises(InvalidPackage, match="surrogate"):
        ContentPackage(id="x", kind="y", content="z", tokens=COUNTER.text("z"), forms=(Form("\ud800"),))


def test_packages_of_a_group_are_shortened_together():
    pair = [memory(STORY, counter=COUNTER, id=f"n{n}", group="pair", forms=[SUMMARY], position=n) for n in range(2)]
    context = build(pair, window=300)
    assert [each.form for each in context.decisions] == ["digest", "digest"]


def test_forms_from_a_cache_are_those_that_are_made():
    pile = [
        *(message(f"{n} {STORY}", counter=COUNTER, id=f"m{n}", timestamp=NOW - 900 + n) for n in range(5)),
        *(memory(f"{STORY} {n}", counter=COUNTER, id=f"n{n}") for n in range(5)),
        message("Was it day 200?", counter=COUNTER, id="now", current=True, timestamp=NOW),
    ]
    before = SHARED_BUDGET.max_bytes
    try:
        set_cache_limit(0)
        made = build(pile)
    finally:
        set_cache_limit(before)
    assert build(pile).to_json() == build(pile).to_json() == made.to_json()


def test_a_duplicate_of_something_that_was_shortened_is_a_duplicate():
    pair = [memory(STORY, counter=COUNTER, id=f"n{n}") for n in range(2)]
    context = build(pair)
    assert sorted(each.outcome for each in context.decisions) == ["duplicate", "shrunk"]


def test_an_excerpt_prefers_the_passage_that_search_found():
    start = STORY.index("On day 300")
    current = message("What about the weather?", counter=COUNTER, id="now", current=True, timestamp=NOW)
    sent = {}
    for matches in ((), ((start, start + 120),)):
        long = memory(STORY, counter=COUNTER, id="long", matches=matches)
        context = build([long, current])
        assert context.decision("long").form == "excerpt"
        sent[bool(matches)] = str(context.request)
        assert Context.from_json(context.to_json()) == context
    assert "On day 300 it rained. On day 301 it rained." in sent[True]
    assert "On day 300" not in sent[False]


def test_history_does_not_depend_on_what_search_found():
    long = message(STORY, counter=COUNTER, id="long", timestamp=NOW - 500)
    found = msgspec.structs.replace(long, matches=((3_000, 3_200),))
    first, second = (build([each, *history(5)]).request for each in (long, found))
    assert first == second


@pytest.mark.parametrize("matches", [[(0, 5)], ((5, 5),), ((-1, 5),), ((1, 2, 3),), (("a", "b"),), "ab"])
def test_matches_are_pairs_of_positions(matches):
    with pytest.raises(InvalidPackage, match=r"matches: must be a tuple of \(start, stop\)"):
        memory("text", counter=COUNTER, matches=matches)


def talk(policy, window=3000, turns=60):
    """Yield the context of each turn of a conversation in which every fifth message is large."""
    messages, previous = [], None
    for n in range(turns):
        text = f"Turn {n}. " + (" ".join(f"In line {k} of {n} all is well." for k in range(90)) if n % 5 == 4 else "")
        role = "assistant" if n % 2 else "user"
        messages.append(message(text, counter=COUNTER, id=f"t{n:02d}", role=role, timestamp=NOW - 1000 + n))
        context = build(messages, policy, window=window, completion=500, previous=previous)
        yield context
        previous = context.history


@pytest.mark.parametrize("policy", ["default", "fit"])
def test_the_prefix_breaks_only_at_rare_large_steps(policy):
    breaks = []
    for n, (before, after) in enumerate(pairwise(talk(policy))):
        same = before.request["messages"]
        if after.request["messages"][: len(same)] != same:
            breaks.append(n)
            assert before.history.first != after.history.first or before.history.forms != after.history.forms
    assert 1 <= len(breaks) <= 12


@pytest.mark.parametrize("policy", ["window", "split", "pools"])
def test_forms_change_seldom_without_large_steps(policy):
    limits: dict[str, list[int]] = {}
    for context in talk(policy, window=6000):
        for id, limit in context.history.forms:
            if id != context.history.first:  # the oldest shrinks as the window moves on
                limits.setdefault(id, []).append(limit)
    assert len(limits) > 5
    assert all(sum(a != b for a, b in pairwise(each)) <= 3 for each in limits.values())


def test_a_search_hit_is_no_duplicate_of_the_digest_of_its_message():
    start = STORY.index("On day 300")
    long = message(STORY, counter=COUNTER, id="long", timestamp=NOW - 500)
    span = ((start, start + 120),)
    found = package(
        "message-older", STORY, counter=COUNTER, id="again", timestamp=NOW - 500, relevance=0.5, matches=span
    )
    current = message("What about the weather?", counter=COUNTER, id="now", current=True, timestamp=NOW)
    context = build([long, found, *history(5), current])
    assert (context.decision("long").form, context.decision("again").form) == ("digest", "excerpt")
    assert "On day 300 it rained." in str(context.request)
