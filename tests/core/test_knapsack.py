from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.core.knapsack import choose

INSTANCES = st.lists(st.tuples(st.floats(0.01, 1.0), st.integers(0, 120)), max_size=60)


def optimum(values, weights, capacity):
    best = [0.0] * (capacity + 1)
    for value, weight in zip(values, weights, strict=True):
        for room in range(capacity, weight - 1, -1):
            best[room] = max(best[room], best[room - weight] + value)
    return best[capacity]


def greedy(values, weights, capacity):
    total = 0.0
    for value, weight in zip(values, weights, strict=True):
        if weight <= capacity:
            total += value
            capacity -= weight
    return total


@settings(max_examples=300)
@given(INSTANCES, st.integers(0, 1500))
def test_is_within_one_percent_of_the_optimum_and_never_below_greedy(items, capacity):
    values, weights = [v for v, _ in items], [w for _, w in items]
    chosen = choose(values, weights, capacity)
    value = sum(values[i] for i in chosen)
    assert sum(weights[i] for i in chosen) <= capacity
    assert value >= 0.99 * optimum(values, weights, capacity)
    assert value >= greedy(values, weights, capacity) - 1e-9


def test_equal_items_go_to_the_earlier_index():
    assert choose([1.0] * 5, [10] * 5, 25) == [0, 1]


def test_nothing_fits_in_nothing():
    assert choose([1.0], [10], 9) == []
    assert choose([], [], 10) == []
