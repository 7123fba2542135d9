"""How good the chosen set is: its value beside the best possible, found by dynamic programming."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from brimful import Context, assemble, counter, package
from brimful.core.cost import make_cost_function
from brimful.core.knapsack import choose
from peers import COMPLETION, MODEL, NOW
from tables import Section, duration, table
from texts import Texts

INSTANCES = 40
ITEMS = 150
CAPACITY = 4_000

ABOUT = f"""Each of {INSTANCES} random instances has {ITEMS} items of random value and size, and space for about
{CAPACITY:,} tokens. "Of the best" is the value of the chosen set divided by the optimum, which dynamic
programming finds. "Greedy" takes whatever fits, most valuable first. "Whole" goes through
`brimful.assemble` and the default policy: memories with a relevance, including the cost of labels and the
request itself."""


@dataclass(frozen=True, slots=True)
class Instance:
    """Items and a capacity."""

    values: list[float]
    weights: list[int]
    capacity: int


def report(*, quick: bool) -> Section:
    """Compare greedy, the chooser alone and the whole engine with the optimum."""
    number = 4 if quick else INSTANCES
    print(f"  quality: {number} instances", flush=True)
    random_ones = [_random_instance(seed) for seed in range(number)]
    spread = [_random_instance(seed, correlated=True) for seed in range(number)]
    rows = [
        _row("greedy by worth", [_greedy_share(instance) for instance in random_ones]),
        _row("`knapsack.choose`", [_chosen_share(instance) for instance in random_ones]),
        _row("greedy by worth, worth follows size", [_greedy_share(instance) for instance in spread]),
        _row("`knapsack.choose`, worth follows size", [_chosen_share(instance) for instance in spread]),
        _row("whole", [_whole_share(seed) for seed in range(number)]),
    ]
    timing = f"`knapsack.choose` took {duration(median(map(_seconds, random_ones)))} an instance."
    return Section("The best set", ABOUT, (table(["way", "of the best, mean", "least"], rows), timing))


def optimum(instance: Instance) -> float:
    """Return the highest value that fits, by dynamic programming over the capacity.

    >>> optimum(Instance([6, 10, 12], [1, 2, 3], 5))
    22.0
    """
    best = [0.0] * (instance.capacity + 1)
    for value, weight in zip(instance.values, instance.weights, strict=True):
        if weight <= instance.capacity:
            taken = [before + value for before in best[: len(best) - weight]]
            best[weight:] = map(max, best[weight:], taken)
    return best[-1]


def _random_instance(seed: int, *, correlated: bool = False) -> Instance:
    choice = random.Random(seed)
    weights = [choice.randint(10, 400) for _ in range(ITEMS)]
    values = [weight / 400 + choice.random() / 10 if correlated else choice.random() for weight in weights]
    return Instance(values, weights, CAPACITY)


def _greedy_share(instance: Instance) -> float:
    room, value = instance.capacity, 0.0
    for worth, weight in sorted(zip(instance.values, instance.weights, strict=True), reverse=True):
        if weight <= room:
            room -= weight
            value += worth
    return value / optimum(instance)


def _chosen_share(instance: Instance) -> float:
    chosen = choose(instance.values, instance.weights, instance.capacity)
    return _sum(instance.values, chosen) / optimum(instance)


def _seconds(instance: Instance) -> float:
    began = time.perf_counter()
    choose(instance.values, instance.weights, instance.capacity)
    return time.perf_counter() - began


def _sum(values: Sequence[float], chosen: Sequence[int]) -> float:
    return sum(values[at] for at in chosen)


def _whole_share(seed: int) -> float:
    """Return the worth of the memories that the engine chose over the highest possible at the same cost."""
    context = _assembled(seed)
    cost_of = make_cost_function(counter(MODEL), names="field")
    memories = [text for text in context.inputs.packages if text.kind.startswith("memory")]
    scores = {decision.id: decision.score.total for decision in context.decisions if decision.score}
    inside = sum(decision.cost for decision in context.decisions if decision.kind.startswith("memory"))
    beside = context.verification.parts - inside
    instance = Instance(
        values=[scores[given.id] for given in memories],
        weights=[cost_of(given) for given in memories],
        capacity=context.budget.available - beside,
    )
    kept = set(context.kept)
    return sum(scores[given.id] for given in memories if given.id in kept) / optimum(instance)


def _assembled(seed: int) -> Context:
    texts, choice = Texts(seed), random.Random(seed)
    memories = [
        package("memory-semantic", f"{at}: {texts.prose(size)}", model=MODEL, relevance=choice.random())
        for at, size in enumerate(choice.choices(range(40, 1_200), k=ITEMS))
    ]
    question = package("message-current", "When is the demo?", model=MODEL)
    return assemble([*memories, question], model=MODEL, window=CAPACITY + COMPLETION, completion=COMPLETION, now=NOW)


def _row(name: str, shares: Sequence[float]) -> list[str]:
    return [name, f"{100 * mean(shares):.2f} %", f"{100 * min(shares):.2f} %"]
