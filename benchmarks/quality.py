"""How good the chosen set is: its value beside the best possible, found by dynamic programming."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, median

from brimful import ContentPackage, Context, Form, assemble, counter, package
from brimful.core.cost import make_cost_function
from brimful.core.knapsack import choose, choose_options
from peers import COMPLETION, MODEL, NOW
from tables import Section, duration, table, times
from texts import Texts

INSTANCES = 40
ITEMS = 150
CAPACITY = 4_000
FORMS_INSTANCES = 8  # dynamic programming takes long with forms
SHARES = (1.0, 0.5, 0.1)  # of an item, in its forms
CANDIDATES = (2_500, 5_000, 10_000)
FORMS_WINDOW = 128_000
ROUNDS = 3

ABOUT = f"""Each of {INSTANCES} random instances has {ITEMS} items of random value and size, and space for about
{CAPACITY:,} tokens. "Of the best" is the value of the chosen set divided by the optimum, which dynamic
programming finds. "Greedy" takes whatever fits, most valuable first. "Whole" goes through
`brimful.assemble` and the default policy, but without excerpts, so that an item is in or out: memories with a
relevance, including the cost of labels and the request itself.

With forms ({FORMS_INSTANCES} instances), each item comes in three sizes (all of it, half, a tenth), of which at most
one is taken; a part is worth the square root of its share. The second table builds whole contexts for a window of
{FORMS_WINDOW:,} tokens from many memories, each in one size or with two shorter forms of its own; times are medians of
{ROUNDS}."""


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
        _row(
            "`knapsack.choose_options`, three forms",
            [_forms_share(instance) for instance in random_ones[:FORMS_INSTANCES]],
        ),
        _row(
            "`knapsack.choose_options`, worth follows size",
            [_forms_share(instance) for instance in spread[:FORMS_INSTANCES]],
        ),
        _row("whole", [_whole_share(seed) for seed in range(number)]),
    ]
    timing = f"`knapsack.choose` took {duration(median(map(_seconds, random_ones)))} an instance."
    speed = table(
        ["candidates", "one form", "three forms", "ratio"],
        [_forms_row(candidates) for candidates in (CANDIDATES[:1] if quick else CANDIDATES)],
    )
    return Section("The best set", ABOUT, (table(["way", "of the best, mean", "least"], rows), timing, speed))


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


def _forms_share(instance: Instance) -> float:
    values = [[value * sqrt(share) for share in SHARES] for value in instance.values]
    weights = [[max(1, int(weight * share)) for share in SHARES] for weight in instance.weights]
    chosen = choose_options(values, weights, instance.capacity)
    best = optimum_of_forms(values, weights, instance.capacity)
    return sum(values[at][form] for at, form in chosen.items()) / best


def optimum_of_forms(values: Sequence[Sequence[float]], weights: Sequence[Sequence[int]], capacity: int) -> float:
    """Return the highest value that fits with at most one form of each item.

    >>> optimum_of_forms([[10, 7], [6]], [[8, 3], [5]], 8)
    13.0
    """
    best = [0.0] * (capacity + 1)
    for forms in map(zip, values, weights):
        before = list(best)
        for value, weight in forms:
            if weight <= capacity:
                best[weight:] = map(max, best[weight:], (value + room for room in before[: len(best) - weight]))
    return best[-1]


def _forms_row(candidates: int) -> list[str]:
    print(f"  quality: {candidates:,} candidates with forms", flush=True)
    one, three = _fill_seconds(candidates, forms=False), _fill_seconds(candidates, forms=True)
    return [f"{candidates:,}", duration(one), duration(three), times(three / one)]


def _fill_seconds(candidates: int, *, forms: bool) -> float:
    choice = random.Random(candidates)
    memories = [_memory(at, choice, forms=forms) for at in range(candidates)]
    seconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        assemble(memories, model=MODEL, window=FORMS_WINDOW, completion=COMPLETION, now=NOW)
        seconds.append(time.process_time() - began)
    return median(seconds)


def _memory(at: int, choice: random.Random, *, forms: bool) -> ContentPackage:
    words = [f"word{at}" for _ in range(choice.randint(10, 60))]
    shorter = [Form(" ".join(words[: max(1, int(len(words) * share))]), sqrt(share)) for share in SHARES[1:]]
    text = " ".join(words)
    return package("memory-semantic", text, model=MODEL, relevance=choice.random(), forms=shorter if forms else [])


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
    return assemble(
        [*memories, question],
        model=MODEL,
        window=CAPACITY + COMPLETION,
        completion=COMPLETION,
        now=NOW,
        overrides={"forms.kinds": []},
    )


def _row(name: str, shares: Sequence[float]) -> list[str]:
    return [name, f"{100 * mean(shares):.2f} %", f"{100 * min(shares):.2f} %"]
