"""window_for: the window in which a candidate would be included."""

import random
import time

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import brimful
from brimful.assembly.whatif import MAX_WINDOW
from brimful.core.selection import HistoryStart
from strategies import GENERATED_POLICIES, NOW, examples, models, piles

SLOW = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def counted(model):
    """Return a model that the front door can count for: without a template of its own."""
    return msgspec.structs.replace(model, overhead="openai")


def is_sent(decision):
    """Whether a candidate is in. A media item is not if only its line is."""
    return decision.included and not (decision.form == "stub" and decision.kind.startswith("media-"))


def included(context, id, window):
    """Whether the candidate is in, when the same is built for another window, through the front door."""
    try:
        return is_sent(brimful.replay(context, window=window).decision(id))
    except brimful.errors.BudgetExceeded:
        return False


@SLOW
@given(piles(), GENERATED_POLICIES, models().map(counted), st.data())
def test_at_the_window_it_is_in_and_one_token_below_it_is_out(pile, policy, model, data):
    try:
        context = brimful.assemble(pile, model=model, policy=policy, now=NOW)
    except brimful.errors.BudgetExceeded:
        assume(condition=False)
    decision = data.draw(st.sampled_from(context.decisions))
    found = brimful.window_for(context, decision.id)
    now_in = is_sent(context.decision(decision.id))
    if found is None:
        assert not now_in
        assert not included(context, decision.id, MAX_WINDOW)
        return
    assert included(context, decision.id, found)
    assert found == 1 or not included(context, decision.id, found - 1)
    assert found <= context.budget.window if now_in else found > context.budget.window


def conversation(turns, model="gpt-4o"):
    messages = [
        {"role": "user" if n % 2 == 0 else "assistant", "content": f"turn {n} " + "word " * 20} for n in range(turns)
    ]
    return brimful.conversation(messages, model=model)


@settings(SLOW, max_examples=examples(12))
@given(st.integers(5, 60), st.integers(300, 3000))
def test_window_for_is_the_smallest_window_if_history_is_contiguous(turns, window):
    context = brimful.assemble(
        conversation(turns), model="gpt-4o", policy="window", window=window, completion=50, now=NOW
    )
    for id in ("msg-000000", f"msg-{turns // 2:06d}"):
        found = brimful.window_for(context, id)
        assert found is not None
        smaller = range(max(1, found - 400), found, 7)
        assert not any(included(context, id, less) for less in smaller)
        assert all(included(context, id, more) for more in range(found, found + 400, 7))


def memory(id, words, **options):
    return brimful.package("memory-semantic", f"{id} " + "word " * words, model="gpt-4o", id=id, **options)


QUESTION = brimful.package("message-current", "What now?", model="gpt-4o", id="now")


def test_a_candidate_can_be_in_a_smaller_window_and_out_of_a_larger_one():
    """The auction goes on past what does not fit: a small one is in where a better one is too large."""
    pile = [QUESTION, memory("large", 60, relevance=0.9), memory("small", 10, relevance=0.1)]
    fits = {
        window: included(
            brimful.assemble(
                pile,
                model="gpt-4o",
                policy="auction",
                window=window,
                completion=10,
                now=0,
                overrides={"margin.tokens": 0, "margin.share": 0.0},
            ),
            "small",
            window,
        )
        for window in range(40, 200)
    }
    steps = [window for window in fits if window > 40 and fits[window] and not fits[window - 1]]
    assert len(steps) == 2  # it is not monotone: in by luck, out, and in for good
    context = brimful.assemble(
        pile,
        model="gpt-4o",
        policy="auction",
        window=min(window for window in fits if window > steps[0] and not fits[window]),
        completion=10,
        now=0,
        overrides={"margin.tokens": 0, "margin.share": 0.0},
    )
    assert brimful.window_for(context, "small") == steps[1]


@pytest.mark.parametrize(
    ("pile", "options", "id"),
    [
        ([memory("first", 9), memory("twice", 9)], {}, "twice"),
        ([memory("first", 9)], {"policy": "window"}, "first"),  # no pool takes it
        (
            [memory(f"m{n}", 9, relevance=1 - n / 10) for n in range(5)],
            {"overrides": {"pools.related.max_items": 2}},
            "m4",
        ),
        (
            [memory(f"m{n}", 90, relevance=1 - n / 10) for n in range(5)],
            {"overrides": {"pools.related.limit.tokens": 200, "pools.related.borrow": False}},
            "m4",
        ),
    ],
    ids=["duplicate", "no pool", "most items", "a limit in tokens"],
)
def test_no_window_helps(pile, options, id):
    if id == "twice":
        pile[1] = msgspec.structs.replace(pile[0], id="twice")
    context = brimful.assemble([QUESTION, *pile], model="gpt-4o", window=4000, completion=100, now=0, **options)
    assert not context.decision(id).included
    assert brimful.window_for(context, id) is None


def test_media_that_the_model_cannot_see_need_no_window():
    picture = brimful.Media(modality="image", url="https://example.org/cat.png", width=64, height=64)
    pile = [QUESTION, brimful.packagers.media(picture, counter=brimful.counter("gpt-4"), id="pic")]
    context = brimful.assemble(pile, model="gpt-4", now=0)
    assert context.decision("pic").reason == "no-modality"
    assert brimful.window_for(context, "pic") is None


def test_a_picture_of_a_message_takes_the_window_in_which_it_is_more_than_a_line():
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
    request = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Look!"}, picture]}]}
    context = brimful.fit(request, model="gpt-4o", window=4000, completion=100, now=0)
    found = brimful.window_for(context, "msg-000000/image-1")
    assert found < 4000
    assert included(context, "msg-000000/image-1", found)
    assert not included(context, "msg-000000/image-1", found - 1)


@pytest.mark.parametrize("first", ["msg-000008", "msg-000028"])
def test_history_restarts_earlier_in_a_window_that_is_large_enough(first):
    pile = [*conversation(30), QUESTION]
    previous = HistoryStart(first=first)
    context = brimful.assemble(pile, model="gpt-4o", window=400, completion=100, now=0, previous=previous)
    assert not context.decision("msg-000005").included
    found = brimful.window_for(context, "msg-000005")
    assert included(context, "msg-000005", found)
    assert not included(context, "msg-000005", found - 1)


def test_required_items_need_the_smallest_window_that_can_be_built():
    context = brimful.assemble([QUESTION, *conversation(9)], model="gpt-4o", window=3000, completion=100, now=0)
    found = brimful.window_for(context, "now")
    brimful.replay(context, window=found)
    with pytest.raises(brimful.errors.BudgetExceeded):
        brimful.replay(context, window=found - 1)


def test_a_given_request_as_well():
    messages = [{"role": "user", "content": f"turn {n} " + "word " * 30} for n in range(40)]
    context = brimful.fit({"model": "gpt-4o", "messages": messages}, window=800, completion=100, now=0)
    out = next(decision.id for decision in context.decisions if not decision.included)
    found = brimful.window_for(context, out)
    assert included(context, out, found)
    assert not included(context, out, found - 1)


def test_a_summary_that_is_in_only_in_between():
    """In a large window what it covers stands there itself; the window that is told is the one below which it goes."""
    said = [msgspec.structs.replace(each, cluster="day") for each in conversation(30)]
    digest = brimful.packagers.summary("They talked.", of="day", counter=brimful.counter("gpt-4o"), id="sum")
    context = brimful.assemble([*said, digest, QUESTION], model="gpt-4o", window=500, completion=50, now=0)
    assert context.decision("sum").included
    found = brimful.window_for(context, "sum")
    assert included(context, "sum", found)
    assert not included(context, "sum", found - 1)
    assert not included(context, "sum", 100_000)


def test_nobody_of_that_name_and_no_context():
    context = brimful.assemble([QUESTION], model="gpt-4o", now=0)
    with pytest.raises(brimful.errors.InvalidValue, match="no candidate 'nobody'"):
        brimful.window_for(context, "nobody")
    with pytest.raises(brimful.errors.InvalidValue, match="must be a Context"):
        brimful.window_for({}, "now")


def test_five_thousand_candidates_take_the_time_of_a_few_builds():
    choice = random.Random(7)
    texts = [f"note {n}: " + "word " * choice.randint(10, 60) for n in range(5_000)]
    counts = brimful.counter("gpt-4o").texts(texts)
    pile = [
        brimful.ContentPackage(
            id=f"c{n}", kind="memory-semantic", content=text, tokens=tokens, relevance=choice.random(), position=n
        )
        for n, (text, tokens) in enumerate(zip(texts, counts, strict=True))
    ]
    began = time.process_time()
    context = brimful.assemble([*pile, QUESTION], model="gpt-4o", window=16_000, now=0)
    build = time.process_time() - began
    out = [decision.id for decision in context.decisions if not decision.included]
    began = time.process_time()
    found = brimful.window_for(context, out[len(out) // 2])
    took = time.process_time() - began
    assert found is not None
    assert took < 20 * build  # two builds to be sure, and plans without a request to get there
