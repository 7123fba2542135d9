"""A companion that remembers a year: old messages come back when they are relevant.

A room with 5,000 messages in SQLite, three of which matter, and an embedding service that fails halfway through. Needs
no API key, network or server. Run it with
`python examples/memory.py`.
"""

import asyncio
import random
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import brimful
from brimful.embedding import StaticEmbedder
from brimful.records import Message, Persona, Room

NOW = 1_794_000_000.0
DAY = 86_400.0
MODEL = "gpt-4"  # 8,192 tokens; the room has twenty times as many
MESSAGES = 5_000
TOPICS = ("the garden", "a new lamp", "the tram", "lunch", "a film", "the rain", "my cousin", "an old song", "the shop")
MOODS = ("I thought about {} again today.", "Did I tell you about {}?", "So much for {}, I suppose.", "Then came {}.")
LONG_AGO = {
    400: "My bicycle is a red Gazelle, and I call her Rosinante.",
    1_900: "The doctor says that I must not eat hazelnuts any more.",
    3_300: "We named the kitten after the street where we met: Bairro.",
}
QUESTIONS = (
    "What is the name of my bicycle?",
    "Which nuts should I avoid?",
    "How did the kitten get its name?",
)


class Service(StaticEmbedder):
    """An embedding service that can be switched off."""

    down = False

    async def embed(self, texts, purpose):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        if self.down:
            raise ConnectionError("connection refused")
        return await super().embed(texts, purpose)


def year() -> list[Message]:
    """Return a year of small talk with three facts in it."""
    choice = random.Random(7)  # noqa: S311 - small talk
    return [
        Message(
            id=f"m{number}",
            room="kitchen",
            sender="Ada" if number % 2 == 0 else "Nova",
            role="user" if number % 2 == 0 else "assistant",
            content=LONG_AGO.get(number) or choice.choice(MOODS).format(choice.choice(TOPICS)) + f" ({number})",
            at=NOW - (MESSAGES - number) * DAY * 365 / MESSAGES,
        )
        for number in range(MESSAGES)
    ]


async def ask(engine: brimful.Engine, question: str, table: Table) -> brimful.Context:
    """Build the context for a question, and add a row to the table."""
    began = time.perf_counter()
    context = await engine.assemble(room="kitchen", persona="nova", user="ada", sender="Ada", message=question, now=NOW)
    took = 1e3 * (time.perf_counter() - began)
    wanted = {f"m{number}" for number in LONG_AGO} & set(context.kept)
    found = "; ".join(LONG_AGO[int(id[1:])] for id in sorted(wanted)) or "nothing"
    lost = next((each.text for each in context.warnings if each.kind.startswith("vector-search")), "")
    table.add_row(question, found, f"{context.tokens:,}", f"{took:.0f} ms", lost)
    return context


async def show(console: Console, folder: Path) -> None:
    """Store the year, then ask."""
    service = Service()
    async with brimful.Engine(f"sqlite:///{folder}/companion.db", model=MODEL, embedder=service) as engine:
        await engine.put(Persona(id="nova", prompt="You are Nova, an old friend. You remember."))
        await engine.put(Room(id="kitchen", user="ada"))
        began = time.perf_counter()
        await engine.post_many(year())
        written = time.perf_counter() - began
        progress = await engine.wait_indexed()
        await engine.remember("Ada likes to be called Countess.", user="ada", pinned=True, at=NOW)
        console.print(
            f"[bold]Stored a year of {MESSAGES:,} messages in a SQLite file[/] ({written:.1f} s) and embedded "
            f"{progress.done:,} in the background. {MODEL} has a window of 8,192 tokens.\n"
        )
        table = Table(title="Old messages that come back when they are relevant", title_justify="left")
        for column in ("question", "retrieved", "tokens", "built in", "degraded"):
            table.add_column(column, justify="right" if column in ("tokens", "built in") else "left")
        contexts = [await ask(engine, question, table) for question in QUESTIONS]
        service.down = True
        degraded = await ask(engine, f"Again, without the embedding service: {QUESTIONS[0]}", table)
        console.print(table)
        console.print("\n[bold]Why was the doctor's advice retrieved?[/] It shares no word with the question.")
        console.print(f"  m1900       {contexts[1].explain('m1900')}", markup=False, soft_wrap=True)
        found = next(package for package in contexts[1].inputs.packages if package.id == "m1900").metadata["search"]
        console.print(f"  its parts   {found}\n", markup=False, soft_wrap=True)
        console.print(degraded.report(), markup=False)


def main() -> None:
    """Run the demo."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(show(Console(width=120, highlight=False), Path(folder)))


if __name__ == "__main__":
    main()
