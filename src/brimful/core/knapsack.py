"""The 0/1 and the multiple-choice knapsack problem: near-optimal, deterministic, n log n."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import inf

NODES = 4000  # of the branch-and-bound search: a few milliseconds, and optimal for random instances
CLOSE_ENOUGH = 0.999  # of the upper bound: then a search is not worth it
CORE = 40  # items on either side of the break item that the search may still decide
OPTIONS_CLOSE_ENOUGH = 0.995  # of the upper bound, where there are several options of each item
OPTIONS_CORE = 16  # steps on either side, where there are several options of each item
STEPS = 512  # of the capacity, for dynamic programming if the search gives up


_Chosen = tuple[()] | tuple[int, "_Chosen"]  # the last item, and those before it
_Set = tuple[float, int, _Chosen]  # value, weight, items
_Picked = tuple[()] | tuple[int, int, "_Picked"]  # the last class and its option, and those before it
_Decide = Callable[[list[float], list[int], int], tuple[list[int], bool]]


def choose(values: Sequence[float], weights: Sequence[int], capacity: int) -> list[int]:
    """Return the indices of a set whose weight is at most `capacity` and whose value is near the highest possible.

    Never worse than taking whatever fits in the order of the list; ties go to the earlier index.

    >>> choose([6, 10, 12], [1, 2, 3], 5)
    [1, 2]
    """
    if sum(weights) <= capacity:
        return list(range(len(values)))
    densities = [value / weight if weight else inf for value, weight in zip(values, weights, strict=True)]
    fitting = [i for i in range(len(values)) if weights[i] <= capacity]
    dense = sorted(fitting, key=densities.__getitem__, reverse=True)
    greedy = [_greedy(range(len(values)), weights, capacity), _greedy(dense, weights, capacity)]
    best = max(greedy, key=lambda chosen: _total(values, chosen))
    upper = _bound(values, weights, dense, capacity)
    if _total(values, best) < CLOSE_ENOUGH * upper:
        by_value = _greedy(sorted(fitting, key=values.__getitem__, reverse=True), weights, capacity)
        best = max(best, by_value, key=lambda chosen: _total(values, chosen))
    finished = False
    for decide in (_branch_and_bound, _step_by_step):
        if finished or _total(values, best) >= CLOSE_ENOUGH * upper:
            break
        found, finished = _search(dense, values, weights, capacity, decide)
        best = max(best, found, key=lambda chosen: _total(values, chosen))
    return sorted(best)


def choose_options(classes: Sequence[Sequence[tuple[float, int]]], capacity: int) -> dict[int, int]:
    """Choose at most one option of each class, given as (value, weight), so that the total value is near the highest.

    Return the index of the chosen option by class.

    >>> choose_options([[(10, 8), (7, 3)], [(6, 5)]], 8)
    {0: 1, 1: 0}
    """
    steps = [step for at, options in enumerate(classes) for step in _hull(at, options, capacity)]
    steps.sort()
    chosen: dict[int, int] = {}
    room, blocked, broken, bound = capacity, set[int](), len(steps), 0.0
    for rank, (density, at, _, more, option) in enumerate(steps):
        if more <= room and at not in blocked:
            chosen[at], room = option, room - more
        else:
            blocked.add(at)
            if rank < broken:
                broken = rank
                bound = _options_value(classes, chosen) - density * room
    if broken == len(steps) or _options_value(classes, chosen) >= OPTIONS_CLOSE_ENOUGH * bound:
        return chosen
    start = max(0, broken - OPTIONS_CORE)
    near = dict.fromkeys(at for _, at, *_ in steps[start : broken + OPTIONS_CORE])
    fixed = {at: option for _, at, _, _, option in steps[:start] if at not in near}
    room = capacity - sum(classes[at][option][1] for at, option in fixed.items())
    exact = fixed | _options_step_by_step({at: classes[at] for at in near}, room)
    room = capacity - sum(classes[at][option][1] for at, option in exact.items())
    for _, at, weight, _, option in steps[broken:]:
        if at not in exact and weight <= room:
            exact[at], room = option, room - weight
    return max(chosen, exact, key=lambda found: _options_value(classes, found))


_Step = tuple[float, int, int, int, int]
"""A step from one option of a class to the next larger one that is worth it.

The density with a minus sign, the class, the weight, how much more that is, and the option: in the order of sorting.
"""


def _hull(at: int, options: Sequence[tuple[float, int]], capacity: int) -> list[_Step]:
    """Return the steps along the options that are best for some price of weight, smallest option first."""
    hull: list[tuple[int, float, int]] = [(0, 0.0, -1)]
    for weight, value, option in sorted([(weight, value, n) for n, (value, weight) in enumerate(options)]):
        if weight > capacity or value <= hull[-1][1]:
            continue
        while len(hull) > 1:
            (below, low, _), (at_top, top, _) = hull[-2], hull[-1]
            if (value - top) * (at_top - below) < (top - low) * (weight - at_top):
                break
            hull.pop()
        hull.append((weight, value, option))
    return [
        ((low - value) / (weight - below or 1e-9), at, weight, weight - below, option)
        for (below, low, _), (weight, value, option) in pairwise(hull)
    ]


def _options_value(classes: Sequence[Sequence[tuple[float, int]]], chosen: Mapping[int, int]) -> float:
    return sum(classes[at][chosen[at]][0] for at in sorted(chosen))


def _options_step_by_step(classes: Mapping[int, Sequence[tuple[float, int]]], capacity: int) -> dict[int, int]:
    """Dynamic programming over classes: keep the best choice for every step of the capacity."""
    whole = max(1, capacity)
    found: dict[int, tuple[float, int, _Picked]] = {0: (0.0, 0, ())}
    for at, options in classes.items():
        for total, taken, picked in list(found.values()):
            for option, (value, weight) in enumerate(options):
                if taken + weight <= capacity:
                    step = (taken + weight) * STEPS // whole
                    if step not in found or total + value > found[step][0]:
                        found[step] = (total + value, taken + weight, (at, option, picked))
    _, _, rest = max(found.values(), key=lambda one: one[0])
    chosen: dict[int, int] = {}
    while rest:
        at, option, rest = rest
        chosen[at] = option
    return chosen


def _total(values: Sequence[float], chosen: Sequence[int]) -> float:
    return sum(values[i] for i in sorted(chosen))


def _greedy(order: Sequence[int], weights: Sequence[int], capacity: int) -> list[int]:
    chosen = []
    for i in order:
        if weights[i] <= capacity:
            chosen.append(i)
            capacity -= weights[i]
    return chosen


def _search(
    dense: list[int], values: Sequence[float], weights: Sequence[int], capacity: int, decide: _Decide
) -> tuple[list[int], bool]:
    """Decide the items around the break item; items before are in, and items after are out. Return whether it finished.

    Beyond the core, what still fits is taken in order of density.
    """
    at, room = 0, capacity
    while at < len(dense) and weights[dense[at]] <= room:
        room -= weights[dense[at]]
        at += 1
    start = max(0, at - CORE)
    head, core, tail = dense[:start], dense[start : at + CORE], dense[at + CORE :]
    room = capacity - sum(weights[i] for i in head)
    inner, finished = decide([values[i] for i in core], [weights[i] for i in core], room)
    chosen = [core[i] for i in inner]
    room -= sum(weights[i] for i in chosen)
    return head + chosen + _greedy(tail, weights, room), finished


def _branch_and_bound(values: list[float], weights: list[int], capacity: int) -> tuple[list[int], bool]:
    """Depth-first search over items by density, pruned by the fractional bound, for at most `NODES` nodes."""
    count = len(values)
    best: list[int] = []
    best_value = -1.0
    chosen: list[int] = []
    value, room, at = 0.0, capacity, 0
    for _ in range(NODES):
        if at < count and value + _bound(values, weights, range(at, count), room) > best_value:
            if weights[at] <= room:
                chosen.append(at)
                value += values[at]
                room -= weights[at]
            at += 1
            continue
        if at >= count and value > best_value:
            best, best_value = list(chosen), value
        if not chosen:
            return best, True
        at = chosen.pop()
        value -= values[at]
        room += weights[at]
        at += 1
    return best, False


def _step_by_step(values: list[float], weights: list[int], capacity: int) -> tuple[list[int], bool]:
    """Dynamic programming: keep the best set for every step of the capacity.

    So few large items among many small ones are decided, where depth first would put the small ones back one by one.
    """
    whole = max(1, capacity)
    found: dict[int, _Set] = {0: (0.0, 0, ())}
    for i, (value, weight) in enumerate(zip(values, weights, strict=True)):
        for total, taken, chosen in list(found.values()):
            if taken + weight <= capacity:
                step = (taken + weight) * STEPS // whole
                if step not in found or total + value > found[step][0]:
                    found[step] = (total + value, taken + weight, (i, chosen))
    _, _, rest = max(found.values(), key=lambda one: one[0])
    best: list[int] = []
    while rest:
        i, rest = rest
        best.append(i)
    return best, True


def _bound(values: Sequence[float], weights: Sequence[int], dense: Sequence[int], room: int) -> float:
    """Return the fractional upper bound: the densest items, and as much of the next as fits."""
    value = 0.0
    for i in dense:
        if weights[i] > room:
            return value + values[i] * room / weights[i]
        room -= weights[i]
        value += values[i]
    return value
