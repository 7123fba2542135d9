"""The best set where some share a heading: under one that is there already, a unit costs less than alone."""

from collections import Counter
from collections.abc import Iterable, Sequence

from brimful.core.knapsack import choose
from brimful.core.unit import Unit


def best_set(units: Sequence[Unit], tokens: int, beside: Sequence[Unit] = ()) -> list[Unit]:
    """Return units that are worth near the most that so many tokens can hold, `beside` some that are in already.

    Never worse than going down the list as it is given and taking whatever fits.
    """
    there = {unit.heading for unit in beside}
    headings = [unit.heading_due(there) for unit in units]
    values = [unit.score.total for unit in units]
    if not any(headings):
        return [units[at] for at in choose(values, [unit.cost for unit in units], tokens)]
    # Each is charged with its share of a heading: first as if all got in that may stand under it, then as they did.
    hopeful = _choice(units, headings, values, tokens, range(len(units)))
    likely = _choice(units, headings, values, tokens, hopeful)
    dense = sorted(range(len(units)), key=lambda at: -values[at] / (units[at].cost or 1))
    orders = (_first(likely, dense), range(len(units)))
    return max((_whatever_fits(units, order, tokens, there) for order in orders), key=worth)


def _choice(
    units: Sequence[Unit], headings: Sequence[int], values: Sequence[float], tokens: int, company: Iterable[int]
) -> list[int]:
    """Return the best set if headings are shared as they are in some company; it may be over."""
    sharing = Counter(units[at].heading for at in company)
    costs = [
        unit.cost + -(-heading // max(1, sharing[unit.heading])) for unit, heading in zip(units, headings, strict=True)
    ]
    return choose(values, costs, tokens)


def worth(units: Sequence[Unit]) -> float:
    """Return what units are worth together."""
    return sum(unit.score.total for unit in units)


def _first(chosen: Iterable[int], dense: Sequence[int]) -> list[int]:
    """Return the chosen ones, then all others."""
    inside = set(chosen)
    return [at for at in dense if at in inside] + [at for at in dense if at not in inside]


def _whatever_fits(units: Sequence[Unit], order: Iterable[int], tokens: int, there: set[str]) -> list[Unit]:
    taken, headings = list[int](), set(there)
    for at in order:
        unit = units[at]
        cost = unit.cost + unit.heading_due(headings)
        if cost <= tokens:
            taken.append(at)
            headings.add(unit.heading)
            tokens -= cost
    return [units[at] for at in sorted(taken)]
