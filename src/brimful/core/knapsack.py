"""The 0/1 and the multiple-choice knapsack problem: near-optimal, deterministic, n log n."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace, nsmallest
from itertools import count, repeat
from math import inf
from typing import TypeVar

NODES = 4000  # of the branch-and-bound search: a few milliseconds, and optimal for random instances
CLOSE_ENOUGH = 0.999  # of the upper bound: then a search is not worth it
CORE = 40  # items on either side of the break item that the search may still decide
OPTIONS_CLOSE_ENOUGH = 0.995  # of the upper bound, where there are several options of each item
OPTIONS_CORE = 16  # steps on either side, where there are several options of each item
_NO_WEIGHT = 1e-9  # in place of 0, to divide by
STEPS = 512  # of the capacity, for dynamic programming if the search gives up


_Chosen = tuple[()] | tuple[int, "_Chosen"]  # the last item, and those before it
_Set = tuple[float, int, _Chosen]  # value, weight, items
_Picked = tuple[()] | tuple[int, int, "_Picked"]  # the last item and its option, and those before it
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


_Step = tuple[float, int, int, int]
"""A step to a larger option of an item, in the order of sorting.

The density with a minus sign, the item, how much weight it adds, and the option.
"""


def choose_options(
    values: Sequence[Sequence[float]], weights: Sequence[Sequence[int]], capacity: int
) -> dict[int, int]:
    """Choose at most one option of each item so that the total value is near the highest.

    Return the index of the chosen option by item. Never worse than going down the list and taking the first option of
    each item if it fits.

    >>> choose_options([[10, 7], [6]], [[8, 3], [5]], 8)
    {0: 1, 1: 0}
    """
    # Items wait with their next step along the upper hull. Most are never reached, so only their first is computed.
    first = map(_next_step, count(), values, weights, repeat(-1), repeat(capacity))
    waiting = [step for step in first if step is not None]
    heapify(waiting)
    taken: list[_Step] = []
    room = capacity
    while waiting and waiting[0][2] <= room:
        _, index, more, option = step = waiting[0]
        taken.append(step)
        room -= more
        further = _next_step(index, values[index], weights[index], option, capacity)
        if further is None:
            heappop(waiting)
        else:
            heapreplace(waiting, further)
    chosen = {i: option for _, i, _, option in taken}
    if not waiting:
        return chosen
    bound = _options_total(values, chosen) - waiting[0][0] * room
    first_weights = [options[0] for options in weights]
    found = (
        _fill_options(chosen, waiting, values, weights, room),
        dict.fromkeys(_greedy(range(len(values)), first_weights, capacity), 0),
    )
    best = max(found, key=lambda each: _options_total(values, each))
    if _options_total(values, best) >= OPTIONS_CLOSE_ENOUGH * bound:
        return best
    near = dict.fromkeys(i for _, i, _, _ in [*taken[-OPTIONS_CORE:], *nsmallest(OPTIONS_CORE, waiting)])
    exact = {i: option for i, option in chosen.items() if i not in near}
    exact |= _options_step_by_step(near, values, weights, capacity - _options_total(weights, exact))
    others = [step for step in waiting if step[1] not in near]
    exact = _fill_options(exact, others, values, weights, capacity - _options_total(weights, exact))
    return max(best, exact, key=lambda each: _options_total(values, each))


def _next_step(
    position: int, values: Sequence[float], weights: Sequence[int], start: int, capacity: int
) -> _Step | None:
    """Return the densest step from the option `start` (-1: none) to a larger one; None if there is none."""
    low, below = (values[start], weights[start]) if start >= 0 else (0.0, 0)
    best, more, index = 0.0, 0, -1
    for option, value in enumerate(values):
        if value > low and weights[option] <= capacity:
            added = weights[option] - below
            density = (value - low) / (added or _NO_WEIGHT)
            if density > best or (density == best and added < more):
                best, more, index = density, added, option
    return None if index < 0 else (-best, position, more, index)


def _fill_options(
    chosen: Mapping[int, int],
    waiting: Sequence[_Step],
    values: Sequence[Sequence[float]],
    weights: Sequence[Sequence[int]],
    room: int,
) -> dict[int, int]:
    """Return the chosen options and those that still fit, densest first."""
    filled = dict(chosen)
    fitting = [step for step in waiting if step[2] <= room]
    heapify(fitting)
    while fitting:
        _, index, more, option = heappop(fitting)
        if more <= room:
            filled[index] = option
            room -= more
            further = _next_step(index, values[index], weights[index], option, weights[index][option] + room)
            if further is not None:
                heappush(fitting, further)
    return filled


_Number = TypeVar("_Number", int, float)


def _options_total(numbers: Sequence[Sequence[_Number]], chosen: Mapping[int, int]) -> _Number:
    """Return the total value or weight of the chosen options."""
    return sum([numbers[i][option] for i, option in chosen.items()])


def _options_step_by_step(
    items: Iterable[int], values: Sequence[Sequence[float]], weights: Sequence[Sequence[int]], capacity: int
) -> dict[int, int]:
    """Dynamic programming over items: keep the best choice for every step of the capacity."""
    whole = max(1, capacity)
    found: dict[int, tuple[float, int, _Picked]] = {0: (0.0, 0, ())}
    for index in items:
        options = list(enumerate(zip(values[index], weights[index], strict=True)))
        for total, taken, picked in list(found.values()):
            for option, (value, weight) in options:
                if taken + weight <= capacity:
                    step = (taken + weight) * STEPS // whole
                    if step not in found or total + value > found[step][0]:
                        found[step] = (total + value, taken + weight, (index, option, picked))
    _, _, rest = max(found.values(), key=lambda one: one[0])
    chosen: dict[int, int] = {}
    while rest:
        index, option, rest = rest
        chosen[index] = option
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
    index, room = 0, capacity
    while index < len(dense) and weights[dense[index]] <= room:
        room -= weights[dense[index]]
        index += 1
    start = max(0, index - CORE)
    head, core, tail = dense[:start], dense[start : index + CORE], dense[index + CORE :]
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
    value, room, index = 0.0, capacity, 0
    for _ in range(NODES):
        if index < count and value + _bound(values, weights, range(index, count), room) > best_value:
            if weights[index] <= room:
                chosen.append(index)
                value += values[index]
                room -= weights[index]
            index += 1
            continue
        if index >= count and value > best_value:
            best, best_value = list(chosen), value
        if not chosen:
            return best, True
        index = chosen.pop()
        value -= values[index]
        room += weights[index]
        index += 1
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
