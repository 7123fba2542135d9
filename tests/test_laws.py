"""The guarantees of the README, for generated packages, policies and models."""

import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import brimful
from brimful.assembly.assemble import counter_of
from brimful.core.arrange import note_depth
from brimful.core.content import ToolCall, ToolResult
from brimful.core.context import Context, Inputs
from brimful.core.media import media_parts
from brimful.core.model import ModelInfo
from brimful.core.recall import item_text
from brimful.core.stages import assemble
from brimful.policies import load_policy
from brimful.wires import find_wire
from brimful.wires.registry import IncomingWire
from strategies import (
    COUNTER,
    COUNTERS,
    GENERATED_POLICIES,
    NOW,
    POLICIES,
    WIRES,
    examples,
    large_piles,
    models,
    piles,
    repeated_piles,
)
from support import history

SLOW = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
CONVERSATION = ("system-prompt", "system-note", "message-recent", "message-current", "tool-call", "tool-result")
DECISIONS = {"kept", "shrunk", "replaced", "duplicate", "dropped"}


def build(pile, policy, model, counter=COUNTER, **more):
    chosen = policy if isinstance(policy, brimful.Policy) else load_policy(policy)
    inputs = Inputs(packages=tuple(pile), policy=chosen, model=model, method="hybrid", now=NOW, **more)
    return assemble(inputs, counter=counter, renderer=find_wire(model.wire))


def build_if_it_fits(pile, policy, model, **more):
    try:
        return build(pile, policy, model, **more)
    except brimful.errors.BudgetExceeded:
        reject()


@SLOW
@given(piles(), GENERATED_POLICIES, models(), COUNTERS)
def test_1_never_over(pile, policy, model, counter):
    context = build_if_it_fits(pile, policy, model, counter=counter)
    limit = context.budget.window - context.budget.completion
    again = counter.prompt(find_wire(model.wire).parse(context.request))
    assert again.upper == context.tokens <= limit
    required = {package.id for package in pile if not package.flex.can_drop}
    assert required <= set(context.kept)


@SLOW
@given(piles(), POLICIES, models(), st.randoms())
def test_2_deterministic_whatever_the_order(pile, policy, model, random):
    context = build_if_it_fits(pile, policy, model)
    shuffled = list(pile)
    random.shuffle(shuffled)
    assert build(shuffled, policy, model).to_json() == context.to_json()


@SLOW
@given(piles(), GENERATED_POLICIES, models())
def test_3_one_decision_each(pile, policy, model):
    context = build_if_it_fits(pile, policy, model)
    media = {id for package in pile for id, _, _ in media_parts(package)}
    decided = sorted(decision.id for decision in context.decisions if decision.kind != "ledger")
    assert decided == sorted([*media, *(package.id for package in pile)])
    assert {package.id for package in context.candidates} - {"ledger"} == media | {package.id for package in pile}
    assert {decision.outcome for decision in context.decisions} <= DECISIONS
    for package in pile:
        assert context.explain(package.id)
    for decision in context.decisions:
        assert decision.included or decision.cost == 0
        assert (decision.form == "full") == (decision.outcome != "shrunk")
        assert decision.outcome == "shrunk" or (decision.larger, decision.smaller) == (0, 0)
        if decision.outcome == "replaced":
            assert context.decision(decision.by).included


@SLOW
@given(piles(), GENERATED_POLICIES, models())
def test_3_the_accounts_add_up(pile, policy, model):
    context = build_if_it_fits(pile, policy, model)
    assert sum(component.tokens for component in context.components) == context.tokens
    assert all(component.tokens >= 0 for component in context.components)
    for use in context.pools:
        inside = [d for d in context.decisions if d.included and d.pool == use.name]
        assert use.used == sum(decision.cost for decision in inside)
        assert use.items == len(inside)


@SLOW
@given(piles(), POLICIES, models(), POLICIES, st.integers(400, 5000))
def test_4_replayable(pile, policy, model, other, window):
    context = build_if_it_fits(pile, policy, model)
    stored = Context.from_json(context.to_json())
    assert stored == context
    again = assemble(stored.inputs, counter=COUNTER, renderer=find_wire(model.wire))
    assert again.to_json() == context.to_json()
    changed = msgspec.structs.replace(stored.inputs, policy=load_policy(other), window=window)
    try:
        what_if = assemble(changed, counter=COUNTER, renderer=find_wire(model.wire))
    except brimful.errors.BudgetExceeded:
        return
    assert what_if.tokens <= window - what_if.budget.completion
    assert brimful.diff(context, what_if).tokens_after == what_if.tokens


@SLOW
@given(repeated_piles(), GENERATED_POLICIES, models())
def test_3_equal_content_is_sent_once(pile, policy, model):
    """Of what was retrieved, pinned or summarized. What people said twice, and what is required or grouped, stays."""
    context = build_if_it_fits(pile, policy, model, completion=40)
    dedupe = {pool.name: pool.dedupe for pool in context.inputs.policy.pools}
    packages = {package.id: package for package in pile}
    included = [each for each in context.decisions if each.included and each.form not in ("digest", "stub")]
    texts = Counter(normalized_text(packages[each.id]) for each in included if each.id in packages)
    for each in included:
        package = packages.get(each.id)
        is_turn = package is None or package.kind in CONVERSATION
        if not is_turn and package.flex.can_drop and not each.group and dedupe[each.pool] != "id":
            assert texts[normalized_text(package)] == 1, each.id


def normalized_text(package):
    return " ".join(package.text.casefold().split()) or str(package.content)


@SLOW
@given(piles(), GENERATED_POLICIES, models())
def test_5_valid(pile, policy, model):
    context = build_if_it_fits(pile, policy, model)
    renderer = find_wire(model.wire)
    assert renderer.check(context.request) == []
    calls, results = [], []
    for message in renderer.parse(context.request).messages:
        calls += [part.id for part in message.parts if isinstance(part, ToolCall)]
        results += [part.id for part in message.parts if isinstance(part, ToolResult)]
    assert sorted(calls) == sorted(results)
    groups = {}
    for package in pile:
        if package.group:
            groups.setdefault(package.group, set()).add(context.decision(package.id).included)
    included = {decision.id for decision in context.decisions if decision.included}
    duplicates = {decision.id for decision in context.decisions if decision.outcome == "duplicate"}
    for name, fates in groups.items():
        members = {package.id for package in pile if package.group == name}
        assert len(fates) == 1 or members & duplicates, (name, members & included)


@SLOW
@given(large_piles(), POLICIES, models(), COUNTERS, st.randoms())
def test_1_to_5_hold_for_large_items_of_every_type(pile, policy, model, counter, random):
    renderer = find_wire(model.wire)
    context = build_if_it_fits(pile, policy, model, counter=counter)
    assert counter.prompt(renderer.parse(context.request)).upper == context.tokens
    assert context.tokens <= context.budget.hard_limit
    shuffled = random.sample(pile, len(pile))
    assert build(shuffled, policy, model, counter=counter).to_json() == context.to_json()
    decided = sorted(decision.id for decision in context.decisions if decision.kind != "ledger")
    assert decided == sorted(package.id for package in pile)
    for decision in context.decisions:
        assert (decision.outcome == "shrunk") == (decision.form != "full")
        assert decision.form == "full" or decision.smaller < decision.cost < decision.larger
    stored = Context.from_json(context.to_json())
    assert assemble(stored.inputs, counter=counter, renderer=renderer).to_json() == context.to_json()
    assert renderer.check(context.request) == []
    again = build(pile, policy, model, counter=counter, previous=context.history)
    assert again.tokens <= again.budget.hard_limit


@SLOW
@given(large_piles(), POLICIES, models())
def test_1_what_can_shrink_is_never_the_reason_for_an_error(pile, policy, model):
    """The window is large enough for what cannot shrink, and for a line about everything that is required."""
    required = [entry for entry in pile if not entry.flex.can_drop and entry.tokens.tokens > 300]
    small = sum(entry.tokens.tokens + 20 for entry in pile if not entry.flex.can_drop) - sum(
        entry.tokens.tokens for entry in required
    )
    model = msgspec.structs.replace(model, window=max(model.window, small + 120 * len(required) + 200))
    changed = load_policy(policy, overrides={"completion.tokens": 20, "margin.tokens": 0, "margin.share": 0.0})
    build(pile, changed, model)


@SLOW
@given(piles(most=8), models(), st.integers(6, 14), st.sampled_from([2, 3, 4, 99]), st.booleans())
def test_7_stable_prefix(pile, model, turns, every, days):
    """History grows at its end: two contexts in a row share everything before the newest turn of the first.

    The message of that turn may change its form: where speakers must alternate, what is volatile stands in it as well.
    """
    picture = brimful.Media(modality="image", url="https://example.org/cat.png")
    messages = [
        brimful.packagers.message(
            (brimful.Text(text=f"turn {n} " + "word " * (n % 7)), picture)
            if n % every == 0
            else f"turn {n} " + "word " * (n % 7),
            counter=COUNTER,
            id=f"turn-{n:03d}",
            timestamp=NOW - 1e6 + n * 40_000,  # about two messages a day
            role="user" if n % 2 == 0 else "assistant",
        )
        for n in range(turns + 1)
    ]
    policy = load_policy("default", overrides={"layout.history_days": days})
    candidates = [package for package in pile if package.kind not in ("message-recent", "tool-call", "tool-result")]
    before = build_if_it_fits([*candidates, *messages[:turns]], policy, model)
    after = build_if_it_fits([*candidates, *messages], policy, model, previous=before.history)
    if before.history is None or after.history is None or before.history.first != after.history.first:
        return  # the rare large step
    changed = [id for id, form in before.history.media if after.decision(id).form != form]
    if changed:  # a picture stays in or out, unless there is no more room for it
        assert all(after.decision(id).reason in ("window-full", "pool-full") for id in changed)
        return
    included = [entry.id for entry in messages[:turns] if before.decision(entry.id).included]
    assert all(after.decision(id).included for id in included)
    moving = max((note_depth(each) for each in candidates if each.kind == "system-note"), default=0)
    settled = max(0, str(before.request).find(f"turn {turns - 2 - moving} "))
    assert str(after.request)[:settled] == str(before.request)[:settled]


@SLOW
@given(st.lists(st.integers(0, 30), min_size=30, max_size=120), st.randoms(use_true_random=False), st.floats(0, 1))
def test_7_history_that_lost_much_restarts_and_then_stays(lengths, random, share):
    """Whatever is deleted: history is not left nearly empty while older turns wait, and it begins anew only once."""
    model = brimful.ModelInfo(id="m", provider="p", window=1200, max_output=100, wire="openai")
    messages = [
        brimful.packagers.message(f"turn {n} " + "word " * size, counter=COUNTER, id=f"t{n:03d}", timestamp=NOW + n)
        for n, size in enumerate(lengths)
    ]
    before = build(messages, "default", model)
    left = [entry for entry in messages if entry.id == before.history.first or random.random() >= share]
    after = build(left, "default", model, previous=before.history)
    waits = any(not decision.included for decision in after.decisions)
    used = next(use.used for use in after.pools if use.name == "recent")
    dearest = 30 + 2 + 4  # the words of a turn, and what stands around them
    assert not waits or used >= int(0.75 * after.budget.limit("recent")) * 2 / 3 - dearest
    again = build(left, "default", model, previous=after.history)
    assert again.history == after.history
    assert again.request == after.request


@st.composite
def long_messages(draw):
    """Long turns and memories of several kinds of text, which are shortened or left out."""
    text = st.sampled_from(["It rained on day {}. ", '{{"row": {}, "name": "cup"}}\n', "def step_{}():\n    pass\n"])
    sizes = draw(st.lists(st.tuples(text, st.integers(30, 400), st.booleans()), min_size=1, max_size=6))
    make = (brimful.packagers.message, brimful.packagers.memory)
    return [
        make[is_memory](
            "".join(line.format(n) for n in range(size)),
            counter=COUNTER,
            id=f"long-{at}-with-an-id-of-many-letters",
            timestamp=NOW - at,
        )
        for at, (line, size, is_memory) in enumerate(sizes)
    ]


@settings(SLOW, max_examples=examples(20))
@given(piles(), long_messages(), GENERATED_POLICIES, models(), st.integers(1, 300), st.sampled_from(["", "day 7 tea"]))
def test_8_nothing_is_lost(pile, long, policy, model, max_tokens, query):
    """Every candidate can be recalled: whole with enough tokens, never in more than requested, from any record."""
    model = msgspec.structs.replace(model, overhead="openai")  # it has no chat template
    context = build_if_it_fits([*pile, *long], policy, model)
    counter = counter_of(context)
    stored = Context.from_json(context.to_json())
    again = assemble(stored.inputs, counter=COUNTER, renderer=find_wire(model.wire))
    recalled = set()
    for handle, item in context.items.items():
        whole = context.recall(handle, max_tokens=10**6)
        assert (whole.whole, whole.text, whole.id) == (True, item_text(item.package), item.package.id)
        assert whole.tokens == counter.text(whole.text).upper or not whole.text
        assert whole == stored.recall(handle, max_tokens=10**6) == again.recall(handle, max_tokens=10**6)
        part = context.recall(handle, query=query, max_tokens=max_tokens)
        assert counter.text(part.text).upper <= max_tokens or not part.text
        assert part == stored.recall(handle, query=query, max_tokens=max_tokens)
        recalled.add((item.package.id, item.package.hash))
    assert recalled == {(package.id, package.hash) for package in context.candidates}
    found = context.recall(query="day 7 tea", max_tokens=max_tokens)
    assert counter.text(found.text).upper <= max_tokens or not found.text
    assert found == stored.recall(query="day 7 tea", max_tokens=max_tokens)
    assert all(not context.items[passage.handle].is_shown for passage in found.passages)


ROOMY = ModelInfo(
    id="m", provider="p", window=10**6, max_output=100, modalities=("text", "image", "audio", "document"), wire="openai"
)


@settings(SLOW, max_examples=examples(30))
@given(piles(most=12), st.sampled_from(sorted({*WIRES} & {*get_args(IncomingWire)})), st.integers(200, 3000))
def test_8_everything_in_a_fitted_request_can_be_recalled(pile, wire, window):
    """Every mark in a fitted request names something that can be recalled, with media among the messages too."""
    request = {"model": "gpt-4o", **build(pile, "default", msgspec.structs.replace(ROOMY, wire=wire)).request}
    try:
        context = brimful.fit(request, wire=wire, window=window, completion=50, now=NOW)
    except brimful.errors.BudgetExceeded:
        reject()
    assert marks(context.request) - marks(request) <= set(context.items)
    for handle, item in context.items.items():
        assert context.recall(handle, max_tokens=10**6).text == item_text(item.package)
    context.recall(query="picture", max_tokens=200)


def marks(request):
    """Return the handles that a request names."""
    return set(re.findall(r'recall "([^"]+)"', "\n".join(strings(request))))


def strings(value):
    """Yield all strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


@SLOW
@given(
    piles(), st.sampled_from(["fit", "window"]), models(), st.sampled_from(["window", "reserve", "system"]), st.data()
)
def test_10_more_room_more_seen(pile, policy, model, change, data):
    """A larger window, a smaller reserve or a shorter system prompt loses nothing that fits in full."""
    rules = brimful.packagers.package("system-prompt", "be kind " * 20, counter=COUNTER, id="rules")
    small = build_if_it_fits([*pile, rules], policy, model, completion=40)
    if change == "window":
        model = msgspec.structs.replace(model, window=model.window + data.draw(st.integers(1, 3000)))
    elif change == "system":
        text = "be kind " * data.draw(st.integers(0, 19))
        rules = brimful.packagers.package("system-prompt", text, counter=COUNTER, id="rules")
    completion = data.draw(st.integers(1, 39)) if change == "reserve" else 40
    large = build([*pile, rules], policy, model, completion=completion)
    is_cut = any(each.outcome == "shrunk" and not each.kind.startswith("media") for each in small.decisions)
    for each in small.decisions if not is_cut else ():
        if each.included and each.form == "full":
            after = large.decision(each.id)
            assert after.included or after.outcome == "duplicate" or after.reason == "verbatim", each.id


def test_2_byte_identical_across_processes_and_hash_seeds(tmp_path):
    script = Path(__file__).with_name("build_one.py")
    outputs = set()
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, script], capture_output=True, env=environment, cwd=tmp_path, check=True)
        outputs.add(done.stdout)
    assert len(outputs) == 1
    context = Context.from_json(outputs.pop())
    assert {"kept", "dropped"} <= {decision.outcome for decision in context.decisions}


def test_7_the_most_items_hold_and_are_trimmed_in_steps_as_well():
    model = brimful.ModelInfo(id="m", provider="p", window=90_000, max_output=100, wire="openai")
    policy = load_policy("default", overrides={"pools.recent.max_items": 20})
    said, previous, firsts = history(80), None, []
    for turns in range(10, 80):
        inputs = Inputs(
            packages=tuple(said[:turns]), policy=policy, model=model, method="hybrid", now=NOW, previous=previous
        )
        context = assemble(inputs, counter=COUNTER, renderer=find_wire("openai"))
        assert context.component("recent").items <= 20
        previous = context.history
        firsts.append(previous.first)
    assert 8 <= len(set(firsts)) <= 16


def test_7_the_same_candidates_again_give_the_same_prefix():
    picture = brimful.packagers.media(brimful.Media(modality="image", url="u"), counter=COUNTER, id="pic", tokens=5000)
    model = brimful.ModelInfo(id="m", provider="p", window=1200, max_output=100, wire="openai")
    messages = [
        brimful.packagers.message("word " * 12, counter=COUNTER, id=f"t{n:03d}", timestamp=NOW + n) for n in range(99)
    ]
    first = build([*messages, picture], "default", model)
    again = build([*messages, picture], "default", model, previous=first.history)
    assert again.request == first.request


def test_4_whole_numbers_replay_as_well():
    model = brimful.ModelInfo(id="m", provider="p", window=1200, max_output=100, wire="openai")
    package = brimful.packagers.memory("x", counter=COUNTER, importance=1, relevance=0, timestamp=5)
    context = build([package], "default", model)
    stored = Context.from_json(context.to_json())
    assert assemble(stored.inputs, counter=COUNTER, renderer=find_wire("openai")).to_json() == context.to_json()


def test_history_is_trimmed_in_rare_large_steps():
    model = brimful.ModelInfo(id="m", provider="p", window=1200, max_output=100, wire="openai")
    system = brimful.packagers.package("system-prompt", "be kind", counter=COUNTER, id="system")
    said, firsts, previous = [system], [], None
    for n in range(300):
        role = "user" if n % 2 == 0 else "assistant"
        said.append(
            brimful.packagers.message("word " * 12, counter=COUNTER, id=f"t{n:03d}", timestamp=NOW + n, role=role)
        )
        context = build(said, "default", model, previous=previous)
        previous = context.history
        firsts.append(previous.first)
    steps = [n for n in range(1, 300) if firsts[n] != firsts[n - 1]]
    assert 3 <= len(steps) <= 12
    assert min(b - a for a, b in pairwise(steps)) > 10


@pytest.mark.parametrize("policy", ["default", "auction", "pools", "split", "window"])
def test_every_policy_fills_what_it_may(policy):
    model = brimful.ModelInfo(id="m", provider="p", window=4000, max_output=500, wire="openai")
    pile = [
        brimful.packagers.message("word " * 9, counter=COUNTER, id=f"m{n:03d}", timestamp=NOW - n) for n in range(600)
    ]
    context = build(pile, policy, model, completion=500)
    pool = context.decision("m000").pool
    own = context.budget.available if policy == "default" else context.budget.limit(pool)
    limit = min(own, context.budget.available)
    if policy == "window":  # capped by its most messages
        assert context.component("recent").items == 100
    else:
        assert limit - 12 <= context.tokens <= context.budget.available
