"""Sample data for the inspector: what the model saw, what it did not see, and why.

Fills a SQLite file with a year of small talk, 240 memories and six responses, then serves it. The model is scripted,
the contexts are real. Run it with `make inspect`.
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from memory import DAY, MODEL, NOW, QUESTIONS, year
from rich.console import Console

import brimful
from brimful.counting import counter_for
from brimful.models import resolve
from brimful.records import Memory, Persona, Room
from brimful.render.incoming import read_incoming
from brimful.testing import ScriptedProvider

ANSWERS = (
    "Rosinante, the red Gazelle.",
    "Hazelnuts: the doctor was clear about them.",
    "After the street where you met.",
)
HABITS = ("tea", "the tram", "the window seat", "long walks", "old songs", "rainy mornings", "the market", "chess")
KINDS = ("semantic", "episodic", "procedural")
PINNED = 7


def memories() -> list[Memory]:
    """Return more memories than fit into the window of gpt-4."""
    return [
        Memory(
            id=f"mem-{number}",
            content=f"On day {number} Ada spoke of {HABITS[number % len(HABITS)]}, and of her bicycle.",
            type=KINDS[number % 3],  # type: ignore[arg-type]
            user="ada",
            importance=0.3 + 0.6 * (number % 10) / 10,
            at=NOW - (365 - number) * DAY,
            pinned=number == PINNED,
        )
        for number in range(240)
    ]


def tokens_of(request: dict[str, Any]) -> int:
    """Count the tokens of a request, as a server would report them."""
    return counter_for(resolve(MODEL)).prompt(read_incoming(request, "openai").prompt).tokens


async def live(url: str) -> brimful.Context:
    """Write the sample data, and return the last context."""
    provider = ScriptedProvider((*ANSWERS, *ANSWERS), tokens=tokens_of)
    async with brimful.Engine(url, model=MODEL, provider=provider) as engine:
        await engine.put(Persona(id="nova", name="Nova", prompt="You are Nova, an old friend. You remember."))
        await engine.put(Room(id="kitchen", name="The kitchen", user="ada"))
        await engine.post_many(year())
        await engine.remember_many(memories())
        await engine.wait_indexed()
        for question in (*QUESTIONS, *QUESTIONS):
            answer = await engine.respond("kitchen", "nova", question, sender="Ada", user="ada")
        return answer.context


def main() -> None:
    """Fill a file, and serve it until Ctrl+C."""
    console = Console(highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'companion.db'}"
        with console.status("Writing a year of small talk, 240 memories and six responses …"):
            last = asyncio.run(live(url))
        lost = next(each for each in last.decisions if each.kind.startswith("memory-") and not each.included)
        console.print(
            f"[bold]Open the URL below in a browser.[/] Try to find out why the memory [bold]{lost.id}[/] was not in "
            "the context of the last response, and which window size would have included it. Press Ctrl+C to stop.\n"
        )
        subprocess.run([sys.executable, "-m", "brimful", "serve", "--db", url], check=False)  # noqa: S603 - ourselves


if __name__ == "__main__":
    main()
