"""What stands under one heading shares its cost: who gets in for that, who bears it, and that it adds up.

A word is a token, so a heading costs 1; `dear` ones cost more.
"""

from itertools import combinations
from random import Random
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.core.decision import Score, make_scorer
from brimful.core.forms import Shaper
from brimful.core.handles import Handles
from brimful.core.select import Allowance, choose_best_forms, choose_best_set, drop_worst, select, total_score
from brimful.core.units import Unit, make_units, total_cost, with_heading_costs
from brimful.packagers import memory, message, package
from brimful.policies import load_policy
from strategies import COUNTER, NOW, examples
from support import build, words

DAY = 86_400


def unit(number, value, cost, heading="", heading_cost=8):
    entry = package("message-older", f"{number}", counter=COUNTER, id=f"u{number:02d}", timestamp=NOW - number)
    return Unit(
        key=entry.id,
        packages=(entry,),
        cost=cost,
        score=Score(total=value, priority=0.0, importance=0.0, relevance=value, recency=0.0),
        pool="related",
        fixed=False,
        may_shrink=False,
        heading=heading,
        heading_cost=heading_cost if heading else 0,
    )


UNITS = st.lists(
    st.tuples(st.floats(0.01, 1.0), st.integers(1, 60), st.sampled_from(["", "mon", "tue", "wed"])), max_size=40
).map(lambda rows: [unit(at, *row) for at, row in enumerate(rows)])


def keys(units):
    return [each.key for each in units]


@settings(max_examples=examples(100))
@given(UNITS, st.integers(0, 600))
def test_a_best_set_is_never_over_nor_worse_than_going_down_the_list(units, tokens):
    chosen = choose_best_set(units, tokens)
    assert total_cost(chosen) <= tokens
    assert keys(chosen) == [each.key for each in units if each in chosen]
    taken = []
    for each in units:
        taken += [each] if total_cost([*taken, each]) <= tokens else []
    assert total_score(chosen) >= total_score(taken) - 1e-9
    left = [each for each in units if each not in chosen and each.cost]
    assert not any(total_cost([*chosen, each]) <= tokens for each in left)


@settings(max_examples=examples(100))
@given(UNITS, st.integers(0, 600))
def test_a_best_set_of_forms_is_never_worse_than_going_down_the_list(units, tokens):
    shaper = Shaper(COUNTER, load_policy("default").forms, "", Handles([]))
    menus = [shaper.own_menu(each) for each in units]
    chosen = choose_best_forms(units, Allowance(tokens=tokens, hard=0), (), menus, shaper)
    assert total_cost(chosen) <= tokens
    taken = []
    for each in units:
        taken += [each] if total_cost([*taken, each]) <= tokens else []
    assert total_score(chosen) >= total_score(taken) - 1e-9


def test_the_better_set_of_forms_is_taken_and_not_the_first_that_fits():
    units = [unit(0, 0.1, 50, "mon"), unit(1, 0.9, 40, "tue")]
    shaper = Shaper(COUNTER, load_policy("default").forms, "", Handles([]))
    menus = [shaper.own_menu(each) for each in units]
    assert keys(choose_best_forms(units, Allowance(tokens=60, hard=0), (), menus, shaper)) == ["u01"]


def test_a_unit_shortened_into_the_last_gap_leaves_room_for_its_heading():
    policy = load_policy("default")
    shaper = Shaper(COUNTER, policy.forms, "", Handles([]))
    facts = [*((f"n{number}", 6) for number in range(8)), ("long", 60)]
    texts = {id: " ".join(f"Fact {n} of {id} is known to all." for n in range(count)) for id, count in facts}
    units, _ = make_units(
        [
            memory(text, counter=COUNTER, id=id, importance=0.1 if id == "long" else 0.9, min_tokens=5)
            for id, text in texts.items()
        ],
        policy,
        lambda entry: entry.tokens.upper + 10,
        lambda entry: ("day", 8) if entry.id == "long" else ("", 0),
        shaper.may_shrink,
        make_scorer(policy.weights, NOW),
    )
    tokens = total_cost(units[:-1]) + 70
    chosen = select(policy.pool("related"), units, Allowance(tokens=tokens, hard=0), shaper)
    assert {each.key: each.form for each in chosen} == {id: "excerpt" if id == "long" else "full" for id in texts}
    assert total_cost(chosen) <= tokens


def test_items_under_different_headings_of_the_same_cost_pay_for_one_each():
    found = [
        package("message-older", f"{n} tea", counter=COUNTER, id=f"o{n}", timestamp=NOW - n * DAY, relevance=0.9)
        for n in (1, 2)
    ]
    context = build([*found, message("tea?", counter=COUNTER, id="now", current=True, timestamp=NOW)])
    costs = [context.decision(each.id).cost for each in found]
    alone = build([found[0], message("tea?", counter=COUNTER, id="now", current=True, timestamp=NOW)])
    assert costs == [alone.decision("o1").cost] * 2


def test_best_sets_of_a_few_are_near_the_best_there_is():
    chance, shares = Random(7), []
    for _ in range(200):
        days = [chance.choice(["", "mon", "tue", "wed"]) for _ in range(8)]
        units = [unit(at, chance.random(), chance.randrange(1, 60), day) for at, day in enumerate(days)]
        tokens = chance.randrange(60, 250)
        sets = [each for size in range(9) for each in combinations(units, size) if total_cost(each) <= tokens]
        shares.append(total_score(choose_best_set(units, tokens)) / max(map(total_score, sets)))
    assert mean(shares) > 0.99
    assert min(shares) > 0.85


def test_a_worse_one_gets_in_where_its_heading_is_there():
    day = [unit(at, 0.5, 20, "mon") for at in range(4)]
    stranger, neighbour = unit(8, 0.31, 20, "tue"), unit(9, 0.3, 20, "mon")
    assert keys(choose_best_set([*day, stranger, neighbour], 108)) == [*keys(day), neighbour.key]
    assert keys(choose_best_set([stranger, neighbour], 20, beside=day)) == [neighbour.key]


def test_the_earliest_bears_the_heading():
    units = [unit(1, 0.5, 10, "mon"), unit(2, 0.5, 10, "mon"), unit(3, 0.5, 10), unit(4, 0.5, 10, "tue")]
    assert [each.cost for each in with_heading_costs(units)] == [10, 18, 10, 18]
    assert total_cost(units) == 40 + 16


def older(number, day=1, size=9, **options):
    return package(
        "message-older",
        words(size, f"w{number}"),
        counter=COUNTER,
        id=f"o{number:02d}",
        name="Ada",
        timestamp=NOW - day * DAY + number,
        **{"relevance": 0.5} | options,
    )


def build_with_question(pile, *args, **options):
    return build([*pile, message("So?", counter=COUNTER, id="now", current=True, timestamp=NOW)], *args, **options)


def costs(context):
    return {decision.id: decision.cost for decision in context.decisions if decision.included}


def pool(context, name="related"):
    return next(use for use in context.pools if use.name == name)


def test_the_parts_of_a_block_with_headings_add_up_to_the_whole():
    context = build_with_question([older(number, day=number % 3) for number in range(12)])
    assert len(context.kept) == 13
    assert context.verification.difference == 0
    assert pool(context).used == 12 * (9 + 1) + 3 == sum(costs(context).values()) - costs(context)["now"]
    assert [id for id, cost in costs(context).items() if cost == 11] == ["o02", "o01", "o00"]


@pytest.mark.parametrize(("days", "kept"), [(1, 9), (100, 8)])
def test_a_pool_takes_more_of_one_day_than_of_many(days, kept):
    limit = {"pools.related.limit": {"tokens": 95}, "pools.related.borrow": False}
    context = build_with_question([older(number, day=1 + number % days) for number in range(20)], overrides=limit)
    assert pool(context).items == kept
    assert pool(context).used <= 95


def test_a_pool_in_order_counts_a_heading_once():
    limit = {"pools.related.optimize": False, "pools.related.limit": {"tokens": 95}, "pools.related.borrow": False}
    context = build_with_question([older(number) for number in range(20)], overrides=limit)
    assert (pool(context).items, pool(context).used) == (9, 91)


def test_a_package_shrunk_into_the_gap_leaves_room_for_its_heading():
    limit = {"pools.related.limit": {"tokens": 40}, "pools.related.borrow": False}
    sentences = " ".join(f"Word{at} is here." for at in range(20))
    long = package(
        "message-older", sentences, counter=COUNTER, id="long", name="Ada", min_tokens=3, timestamp=NOW - DAY
    )
    context = build_with_question([older(1, day=3), long], overrides=limit)
    assert set(context.kept) == {"o01", "long", "now"}
    assert pool(context).used <= 40
    assert context.verification.difference <= 0


def test_trimming_wins_a_heading_only_with_the_last_that_stands_under_it():
    pile = [older(number, day=1 + number % 2, relevance=0.1 + number / 100) for number in range(30)]
    pile += [message(words(9), counter=COUNTER, id=f"m{at}", timestamp=NOW - 900 + at) for at in range(60)]
    context = build_with_question(pile, "pools", window=2_000, completion=100)
    assert context.verification.rounds == 1
    assert context.tokens <= context.budget.available
    trimmed = [decision for decision in context.decisions if decision.reason == "trimmed"]
    assert trimmed
    assert pool(context).used == sum(cost for id, cost in costs(context).items() if id.startswith("o"))


@pytest.mark.parametrize(("over", "left"), [(10, 2), (12, 1), (20, 1), (21, 0), (38, 0)])
def test_dropping_a_unit_does_not_save_a_heading_that_others_need(over, left):
    units = [unit(at, 0.5, 10, "mon") for at in range(3)]
    kept, gone = drop_worst(units, over, 3, lambda *_: None)
    assert (len(kept), len(gone)) == (left, 3 - left)
    alone = [*units[:2], unit(3, 0.5, 10, "tue")]
    assert drop_worst(alone, 18, 3, lambda *_: None) == (units[:2], ["u03"])


def test_a_pool_is_full_for_what_would_need_a_heading_more():
    limit = {"pools.related.limit": {"tokens": 21}, "pools.related.borrow": False}
    one_day = build_with_question([older(1, relevance=0.9), older(2)], overrides=limit)
    assert set(one_day.kept) == {"o01", "o02", "now"}
    two_days = build_with_question([older(1, relevance=0.9), older(2, day=2)], overrides=limit)
    assert two_days.decision("o02").reason == "pool-full"


def test_required_packages_pay_for_their_own_heading():
    pile = [older(1, can_drop=False), older(2, can_drop=False), older(3)]
    assert [costs(build_with_question(pile))[id] for id in ("o01", "o02", "o03")] == [11, 11, 11]
