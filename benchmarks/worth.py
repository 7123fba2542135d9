"""What the price of tokens saves, and what it costs in recall, under the default policy as a user has it.

BENCH_DATA=folder python benchmarks/worth.py           all conversations of the folder
BENCH_DATA=folder python benchmarks/worth.py --quick   one of each collection
"""

import argparse
import asyncio
import os
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from brimful.assembly.assemble import replay
from brimful.core.context import Context
from brimful.core.policy import PRICES
from brimful.engine import Engine
from evidence_data import Asked, Talk, talks
from evidence_engine import ROOM, messages
from tables import Section, table

WINDOWS = (2_048, 4_096, 8_192)
MODEL = "gpt-4"
UNRELATED = ("What is 2 + 2?", "Thanks!", "Tell me a joke.", "Who painted the Mona Lisa?")
MEMORIES = 300

ABOUT = f"""Recall of evidence, as above, but under the default policy and in windows of this many tokens, a quarter of
which is reserved for the answer. History and what was found share the rest. The number in brackets is the mean of the
tokens of what was found. Below, {MEMORIES} memories about kettles and ladders and a message that has nothing to do with
them: how many get in."""

Found = dict[tuple[str, int], list[tuple[float, int]]]
"""By price and window: the recall of each question, and the tokens of what was found for it."""


def report(data: Path | None, *, quick: bool) -> Section:
    """Measure every price in every window."""
    tables = []
    for name, conversations in (talks(data) if data else {}).items():
        found: Found = defaultdict(list)
        for talk in conversations[: 1 if quick else None]:
            print(f"  worth: {name}, {talk.name}", flush=True)
            asyncio.run(_measure(talk, found))
        rows = [[price, *(_cell(found[price, window]) for window in WINDOWS)] for price in PRICES]
        tables.append(table([name, *(f"{window:,}" for window in WINDOWS)], rows))
    kept = asyncio.run(_unrelated())
    tables.append(table(["message", "memories that get in"], [[text, str(kept[text])] for text in UNRELATED]))
    return Section("Worth", ABOUT, tuple(tables))


async def _measure(talk: Talk, found: Found) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/talk.db", model=MODEL, embedder="static") as engine:
            await engine.post_many(list(messages(talk)))
            await engine.index()
            for question in talk.questions:
                for window in WINDOWS:
                    await _ask(engine, talk, question, window, found)


async def _ask(engine: Engine, talk: Talk, question: Asked, window: int, found: Found) -> None:
    now = max((turn.at or 0.0) for turn in talk.turns)
    context = await engine.assemble(
        room=ROOM, message=question.text, sender=talk.asker, window=window, now=now, save=False
    )
    for price in PRICES:
        again = await asyncio.to_thread(replay, context, overrides={"price": price})
        inside = {id.removesuffix("/recalled") for id in again.kept}
        recall = len(inside & question.evidence) / len(question.evidence)
        found[price, window].append((recall, _tokens(again)))


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one conversation of each collection")
    parser.add_argument("--data", type=Path, default=os.environ.get("BENCH_DATA") or None, help="folder of JSON files")
    options = parser.parse_args()
    print(report(options.data, quick=options.quick).markdown())
