"""How long the stages take as candidates grow: memories, lore and messages for one window."""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from statistics import median
from typing import Any

from brimful import ContentPackage, Count, Flex, assemble, counter, package
from brimful.core import selection, stages
from isolated import Failure, Isolated
from peers import MODEL, NOW
from tables import Section, duration, table, times
from texts import Texts

SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 10_000)
ROUNDS = 5
LIMIT_SECONDS = 240.0
HOUR = 3_600.0
KINDS = {"memory-semantic": 30, "memory-episodic": 20, "lorebook": 20, "message-recent": 30}  # percent

STAGES = {
    "canonical_order": "order",
    "dedupe_by_id": "dedupe",
    "recount": "recount",
    "make_units": "units",
    "make_queues": "fill",
    "fill": "fill",
    "pool_decisions": "fill",
    "arrange": "arrange",
    "verify": "verify",
    "record": "record",
}
REST = "rest"  # rendering, and what stands between the stages

ABOUT = f"""Half of the candidates are memories and a fifth lore, both with a relevance; the rest are messages. They
have 20 to 120 tokens each, already counted, for one window of {MODEL} (128,000 tokens) under the default policy.
Stages are timed where `assemble` calls them, medians of up to {ROUNDS} calls. "Whole" is `brimful.assemble`
including the record of every candidate, and "rest" is rendering and everything between the stages. "Growth"
compares with the previous size: ten times as many candidates may take ten times as long, and a little more
for sorting."""


def report(*, quick: bool) -> Section:
    """Measure each size in a process of its own, so that none inherits the memory of another."""
    sizes = QUICK_SIZES if quick else SIZES
    found = {size: _isolated(size) for size in sizes}
    return Section("Candidates and time", ABOUT, (_table(found),))


def candidates(size: int, seed: int = 7) -> list[ContentPackage]:
    """Return a system prompt, a question, and packages of mixed kinds between them, all counted."""
    texts, choice = Texts(seed), random.Random(seed)
    contents = [f"{at}: {texts.prose(choice.randint(80, 480))}" for at in range(size)]
    counts = counter(MODEL).texts(contents)
    kinds = choice.choices(list(KINDS), list(KINDS.values()), k=size)
    system = package("system-prompt", "You are a helpful assistant.", model=MODEL)
    question = package("message-current", "When is the demo?", model=MODEL)
    made = [_candidate(*row, choice) for row in zip(range(size), kinds, contents, counts, strict=True)]
    return [system, *made, question]


def _candidate(at: int, kind: str, content: str, tokens: Count, choice: random.Random) -> ContentPackage:
    return ContentPackage(
        id=f"c{at:07d}",
        kind=kind,
        content=content,
        tokens=tokens,
        timestamp=NOW - HOUR * choice.randint(1, 20_000),
        position=at,
        relevance=None if kind.startswith("message") else choice.random(),
        importance=choice.random(),
        flex=Flex(priority=choice.randint(1, 10)),
    )


def measure(size: int) -> dict[str, float]:
    """Return the median seconds of each stage, and of the whole."""
    packages = candidates(size)
    rounds = [_timed(packages) for _ in range(ROUNDS if size < 100_000 else 1)]
    return {stage: median([seconds[stage] for seconds in rounds]) for stage in rounds[0]}


def _timed(packages: list[ContentPackage]) -> dict[str, float]:
    with _stages_timed() as seconds:
        began = time.perf_counter()
        assemble(packages, model=MODEL, now=NOW)
        whole = time.perf_counter() - began
    return {"whole": whole, **seconds, REST: whole - sum(seconds.values())}


@contextmanager
def _stages_timed() -> Iterator[dict[str, float]]:
    """Wrap each stage in a clock, and unwrap it again."""
    seconds: dict[str, float] = defaultdict(float)
    called = [(module, name) for module in (stages, selection) for name in STAGES if hasattr(module, name)]
    originals = [getattr(module, name) for module, name in called]
    for (module, name), original in zip(called, originals, strict=True):
        setattr(module, name, _clocked(original, STAGES[name], seconds))
    yield seconds
    for (module, name), original in zip(called, originals, strict=True):
        setattr(module, name, original)


def _clocked(function: Callable[..., Any], stage: str, seconds: dict[str, float]) -> Callable[..., Any]:
    @wraps(function)
    def timed(*arguments: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            seconds[stage] += time.perf_counter() - began

    return timed


def _isolated(size: int) -> dict[str, float] | Failure:
    print(f"  scaling: {size:,} candidates", flush=True)
    with Isolated(_ready) as process:
        return process.call(measure, size, seconds=LIMIT_SECONDS)


def _ready() -> None:
    """Count something, so that the vocabulary is loaded."""
    counter(MODEL).text("warm up")


def _table(found: dict[int, dict[str, float] | Failure]) -> str:
    columns = ["whole", *dict.fromkeys(STAGES.values()), REST]
    rows: list[list[str]] = []
    before: dict[str, float] = {}
    for size, row in found.items():
        if isinstance(row, Failure):
            rows.append([f"{size:,}", "–", row.reason, *("–" for _ in columns[1:])])
            continue
        growth = times(row["whole"] / before["whole"]) if before else "–"
        rows.append([f"{size:,}", growth, *(duration(row.get(stage)) for stage in columns)])
        before = row
    return table(["candidates", "growth", *columns], rows)
