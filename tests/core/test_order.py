"""The order that a record tells is that of the prompt which was sent."""

import msgspec
from hypothesis import HealthCheck, given, reject, settings

import brimful
from brimful.core.arrange import arrange
from brimful.core.context import Inputs
from brimful.core.order import reading_order
from brimful.core.stages import assemble_candidates, prepare
from brimful.render import renderer_for
from strategies import COUNTER, GENERATED_POLICIES, NOW, models, piles


@given(piles(), GENERATED_POLICIES, models())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_order_is_that_of_the_prompt(packages, policy, model):
    chosen = policy if isinstance(policy, brimful.Policy) else brimful.load_policy(policy)
    inputs = Inputs(packages=tuple(packages), policy=chosen, model=model, method="hybrid", now=NOW)
    pile = prepare(inputs, counter=COUNTER, renderer=renderer_for(model.wire))
    try:
        context = assemble_candidates(pile)
    except brimful.BudgetExceeded:
        reject()
    selection = pile.filled(context.budget).selection
    plain = msgspec.structs.replace(model, one_call=False, alternate=False)
    prompt = arrange(selection, model=plain, tools=(), max_output=1, layout=chosen.layout)
    read = list(dict.fromkeys(id for message in prompt.messages for id in message.sources))
    order = reading_order(context)
    assert sorted(order, key=order.__getitem__) == read


def test_a_summary_stands_where_its_cluster_stood():
    said = [
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
    told = brimful.packagers.summary("Four turns.", of="old", counter=brimful.counter("gpt-4o"), id="sum")
    now = brimful.package("message-current", "And now?", model="gpt-4o", id="now", position=9)
    context = brimful.assemble([*said, told, now], model="gpt-4o", window=400, completion=50, now=0.0)
    assert context.decision("m3").outcome == "replaced"
    order = reading_order(context)
    assert order["sum"] < order["m7"] < order["now"]
