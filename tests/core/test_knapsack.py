from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.core.knapsack import choose, choose_options
from strategies import examples

INSTANCES = st.lists(st.tuples(st.floats(0.01, 1.0), st.integers(0, 120)), max_size=60)


def optimum(values, weights, capacity):
    return best_options([[item] for item in zip(values, weights, strict=True)], capacity)


def greedy(values, weights, capacity):
    total = 0.0
    for value, weight in zip(values, weights, strict=True):
        if weight <= capacity:
            total += value
            capacity -= weight
    return total


@settings(max_examples=examples(100))
@given(INSTANCES, st.integers(0, 1500))
def test_a_choice_is_within_one_percent_of_the_optimum_and_never_below_greedy(items, capacity):
    values, weights = [v for v, _ in items], [w for _, w in items]
    chosen = choose(values, weights, capacity)
    value = sum(values[i] for i in chosen)
    assert sum(weights[i] for i in chosen) <= capacity
    assert value >= 0.99 * optimum(values, weights, capacity)
    assert value >= greedy(values, weights, capacity) - 1e-9


def anything(random):
    return random.random(), random.randrange(1, 200)


def worth_its_weight(random):
    weight = random.randrange(1, 200)
    return weight / 200, weight


def worth_a_little_more(random):
    weight = random.randrange(1, 200)
    return (weight + 20) / 220, weight


def large_or_small(random):
    weight = random.choice([random.randrange(1, 9), random.randrange(150, 200)])
    return weight / 200 * random.uniform(0.8, 1), weight


def huge_or_tiny(random):
    weight = random.choice([1, 2, 190])
    return weight / 190 * random.random(), weight


def nearly_alike(random):
    return random.random(), random.choice([97, 101, 103])


SHAPES = [anything, worth_its_weight, worth_a_little_more, large_or_small, huge_or_tiny, nearly_alike]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("best_first", [True, False])
def test_quality_does_not_depend_on_item_shape(shape, best_first):
    random = Random(shape.__name__)
    for _ in range(25):
        items = [shape(random) for _ in range(random.randrange(2, 90))]
        items = sorted(items, reverse=True) if best_first else items
        values, weights = [v for v, _ in items], [w for _, w in items]
        capacity = random.randrange(1, sum(weights) // random.choice([1, 3, 10]) + 2)
        chosen = choose(values, weights, capacity)
        assert sum(weights[i] for i in chosen) <= capacity
        assert len(set(chosen)) == len(chosen)
        assert sum(values[i] for i in chosen) >= 0.99 * optimum(values, weights, capacity)


def test_a_capacity_that_is_used_up_by_what_is_clearly_good():
    values, weights = [1.0] * 60 + [0.5] * 60 + [0.4], [1] * 60 + [7] * 60 + [0]
    assert sum(weights[i] for i in choose(values, weights, 60)) <= 60


def test_equal_items_go_to_the_earlier_index():
    assert choose([1.0] * 5, [10] * 5, 25) == [0, 1]


def test_nothing_fits_in_nothing():
    assert choose([1.0], [10], 9) == []
    assert choose([], [], 10) == []


def choose_classes(classes, capacity):
    """Choose from rows of (value, weight)."""
    values = [[value for value, _ in options] for options in classes]
    weights = [[weight for _, weight in options] for options in classes]
    return choose_options(values, weights, capacity)


def best_options(classes, capacity):
    best = np.zeros(capacity + 1)  # the value that fits into each capacity
    for options in classes:
        before = best.copy()
        for value, weight in options:
            if weight <= capacity:
                np.maximum(best[weight:], before[: capacity + 1 - weight] + value, out=best[weight:])
    return best[capacity]


CLASSES = st.lists(st.lists(st.tuples(st.floats(0.01, 1.0), st.integers(0, 120)), min_size=1, max_size=4), max_size=40)


@settings(max_examples=examples(100))
@given(CLASSES, st.integers(0, 1500))
def test_one_option_of_each_is_chosen_within_one_percent_of_the_optimum(classes, capacity):
    chosen = choose_classes(classes, capacity)
    assert sum(classes[at][option][1] for at, option in chosen.items()) <= capacity
    value = sum(classes[at][option][0] for at, option in chosen.items())
    assert value >= 0.99 * best_options(classes, capacity) - 1e-9


@pytest.mark.parametrize(
    ("classes", "capacity", "chosen"),
    [
        ([[(0.5, 10), (0.5, 4)]], 20, {0: 1}),  # an option that is larger and worth no more
        ([[(0.5, 10), (0.2, 10)]], 20, {0: 0}),
        ([[(1.0, 6)], [(1.0, 6)], [(1.1, 9)], [(0.1, 1)]], 13, {0: 0, 1: 0, 3: 0}),
        ([], 5, {}),
        ([[(1.0, 10)]] * 40 + [[(0.0001, 1)]], 85, {**dict.fromkeys(range(8), 0), 40: 0}),
        ([[(0.0, 1)], [(1.0, 9)]], 5, {}),
        # Of equally dense options the smaller one comes first, so it fits where the larger one does not.
        ([[(1_200.0, 10)], [(2.0, 10), (1.0, 5)]], 15, {0: 0, 1: 1}),
        # What is left fits the next larger option, not the densest one.
        ([[(120_000.0, 110)], [(25.0, 50)], [(32.0, 105), (2.1, 8), (2.0, 5)]], 120, {0: 0, 2: 1}),
        # The exact choice leaves out an item that had a next step: it must not take that step after all.
        ([[(20.27, 14)], [(36.41, 37), (37.63, 39)], [(41.94, 47)]], 81, {0: 0, 2: 0}),
    ],
)
def test_the_best_option_of_a_few_is_chosen(classes, capacity, chosen):
    assert choose_classes(classes, capacity) == chosen


def forms(random):
    """An item in full, and in three smaller forms that are worth less, but more for each token."""
    value, weight = random.random(), random.randrange(20, 400)
    return [(value * share**0.5, max(1, int(weight * share))) for share in (1, 0.3, 0.1, 0.03)]


def options_of_one_density(random):
    return [(weight / 200, weight) for weight in random.sample(range(1, 200), 3)]


@pytest.mark.parametrize("make", [forms, options_of_one_density])
@pytest.mark.parametrize("seed", range(10))
def test_many_items_in_several_forms_are_chosen_within_one_percent(make, seed):
    random = Random(seed)
    classes = [make(random) for _ in range(80)]
    capacity = random.randrange(200, 2500)
    chosen = choose_classes(classes, capacity)
    assert sum(classes[at][option][1] for at, option in chosen.items()) <= capacity
    value = sum(classes[at][option][0] for at, option in chosen.items())
    assert value >= 0.99 * best_options(classes, capacity)
