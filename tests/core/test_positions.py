"""Decisions record where each item is in the prompt."""

from hypothesis import HealthCheck, given, reject, settings

import brimful
from brimful.core.context import Inputs
from brimful.core.stages import assemble_candidates, prepare
from brimful.wires import find_wire
from strategies import COUNTER, GENERATED_POLICIES, NOW, examples, models, piles
from support import prompt_order


@given(piles(), GENERATED_POLICIES, models())
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_positions_are_those_of_the_prompt(packages, policy, model):
    chosen = policy if isinstance(policy, brimful.Policy) else brimful.load_policy(policy)
    inputs = Inputs(packages=tuple(packages), policy=chosen, model=model, method="hybrid", now=NOW)
    candidates = prepare(inputs, counter=COUNTER, renderer=find_wire(model.wire))
    try:
        context = assemble_candidates(candidates)
    except brimful.errors.BudgetExceeded:
        reject()
    included = [each for each in context.decisions if each.included]
    assert sorted(each.position for each in included) == list(range(len(included)))
    assert all(each.region is not None for each in included)
    assert all(each.position is each.region is None for each in context.decisions if not each.included)


def test_a_summary_is_where_its_cluster_was():
    turns = [
        brimful.package(
            "message-recent",
            f"Turn {n}: " + "word " * 40,
            model="gpt-4o",
            id=f"m{n}",
            position=n,
            role="user",
            cluster="old" if n < 4 else None,
        )
        for n in range(8)
    ]
    summary = brimful.packagers.summary("Four turns.", of="old", counter=brimful.counter("gpt-4o"), id="sum")
    now = brimful.package("message-current", "And now?", model="gpt-4o", id="now", position=9)
    context = brimful.assemble([*turns, summary, now], model="gpt-4o", window=400, completion=50, now=0.0)
    assert context.decision("m3").outcome == "replaced"
    assert context.decision("sum").region == "history"
    order = prompt_order(context)
    assert order.index("sum") < order.index("m7") < order.index("now")


def test_included_packages_are_listed_by_kind():
    packages = [
        brimful.package("message-current", "When is tea?", model="gpt-4o", id="now"),
        brimful.package("memory-semantic", "Ada likes tea.", model="gpt-4o", id="tea", relevance=1.0),
        brimful.package("memory-episodic", "Ada likes tea.", model="gpt-4o", id="copy"),
    ]
    ctx = brimful.assemble(packages, model="gpt-4o")
    assert [each.id for each in ctx.included("memory-*")] == ["tea"]
    assert {each.id for each in ctx.included()} == {"now", "tea"}
    assert ctx.included("lore") == ()
