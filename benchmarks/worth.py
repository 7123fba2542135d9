"""What the price of tokens saves and costs in recall, and how history and finds share real windows.

BENCH_DATA=folder python benchmarks/worth.py           questions to all conversations of the folder
BENCH_DATA=folder python benchmarks/worth.py --quick   some questions to one of each collection
"""

import asyncio
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import mean
from types import MappingProxyType
from typing import Final

from brimful.core.context import Context
from brimful.core.policy import PRICES
from brimful.engine import Engine
from evidence_data import Asked, Talk, parse_options, spread, talks
from evidence_engine import ROOM, WINDOW, messages, only_related
from tables import Section, table

WINDOWS = (2_048, 4_096, 8_192)
RETRIEVED = 8_000
QUESTIONS, QUICK_QUESTIONS = 160, 6  # of each collection, evenly spread over its conversations
MODEL = "gpt-4"
UNRELATED = ("What is 2 + 2?", "Thanks!", "Tell me a joke.", "Who painted the Mona Lisa?")
MEMORIES = 300

FIXED_SHARES: Final[Mapping[str, object]] = MappingProxyType(
    {
        "price": "full",
        "pools.recent.need": None,
        "pools.related.limit": {"share": 0.4, "of": "prompt"},
        "pools.related.borrow": True,
    }
)
DIVISIONS: Final[Mapping[str, Mapping[str, object]]] = MappingProxyType(
    {
        "60 % history, 40 % found": FIXED_SHARES,
        "by worth, price `full`": {"price": "full"},
        "by worth, price `balanced` (`default`)": {},
    }
)

ABOUT = f"""This measures what a price of tokens does to the recall of evidence (see above), for up to {QUESTIONS}
questions of each collection. The first table uses the default policy in windows of this many tokens, a quarter of which
is reserved for the answer. History and search results share the rest, in fixed shares or by their value. With a price,
results that are not worth their tokens leave them to history. History costs less, because most of it is in the
provider's prompt cache. The second table has no history, and at most {RETRIEVED:,} tokens of search results at each
price. The number in brackets is the mean number of tokens of the results. The last table counts how many of {MEMORIES}
memories about kettles and ladders are included for a message that has nothing to do with them."""

Results = dict[tuple[str, int], list[tuple[float, int]]]
"""By name of the setting and tokens: the recall of each question, and the tokens of what was found for it."""


def report(data: Path | None, *, quick: bool) -> Section:
    """Measure both divisions in every window, and every price without history."""
    divided, priced = [], []
    for name, conversations in (talks(data) if data else {}).items():
        results: Results = defaultdict(list)
        some = conversations[: 1 if quick else None]
        for talk in some:
            print(f"  worth: {name}, {talk.name}", flush=True)
            most = (QUICK_QUESTIONS if quick else QUESTIONS) // len(some)
            asyncio.run(_measure(talk, spread(talk.questions, most), results))
        divided += [[name, way, *(_cell(results[way, window]) for window in WINDOWS)] for way in DIVISIONS]
        priced.append([name, *(_cell(results[price, RETRIEVED]) for price in reversed(PRICES))])
    inside = asyncio.run(_unrelated())
    tables = [table(["message", "memories that get in"], [[text, str(inside[text])] for text in UNRELATED])]
    if divided:
        head = ["conversations", "window divided", *(f"{window:,}" for window in WINDOWS)]
        tables = [table(head, divided, words=2), table(["conversations", *reversed(PRICES)], priced), *tables]
    return Section("Worth", ABOUT, tuple(tables))


async def _measure(talk: Talk, questions: Sequence[Asked], results: Results) -> None:
    now = max((turn.at or 0.0) for turn in talk.turns)
    with tempfile.TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/talk.db", model=MODEL, embedder="static") as engine:
            await engine.post_many(list(messages(talk)))
            await engine.index()
            for question, (name, tokens, window, overrides) in product(questions, _settings()):
                context = await engine.assemble(
                    room=ROOM,
                    message=question.text,
                    sender=talk.asker,
                    window=window,
                    now=now,
                    overrides=overrides,
                    save=False,
                )
                inside = {id.removesuffix("/recalled") for id in context.kept}
                recall = len(inside & question.evidence) / len(question.evidence)
                results[name, tokens].append((recall, _tokens(context)))


def _settings() -> Iterator[tuple[str, int, int, Mapping[str, object]]]:
    """Yield what to build for each question: the name and tokens of its cell, the window, and the overrides."""
    for (name, overrides), window in product(DIVISIONS.items(), WINDOWS):
        yield name, window, window, overrides
    for price in PRICES:
        yield price, RETRIEVED, WINDOW, only_related(RETRIEVED) | {"price": price}


def _tokens(context: Context) -> int:
    return next(pool.used for pool in context.pools if pool.name == "related")


def _cell(rows: Sequence[tuple[float, int]]) -> str:
    return f"{100 * mean(recall for recall, _ in rows):.1f} ({mean(tokens for _, tokens in rows):,.0f})"


async def _unrelated() -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/talk.db", model=MODEL, embedder="static") as engine:
            for number in range(MEMORIES // 2):
                await engine.remember(f"Kettle {number} stands on the shelf and boils water slowly.", user="ada")
                await engine.remember(f"Ladder {number} leans against the barn and has a loose rung.", user="ada")
            await engine.index()
            contexts = [await engine.assemble(room=ROOM, user="ada", message=text, save=False) for text in UNRELATED]
    return {text: context.component("memories").items for text, context in zip(UNRELATED, contexts, strict=True)}


if __name__ == "__main__":
    options = parse_options(__doc__)
    print(report(options.data, quick=options.quick).markdown())
