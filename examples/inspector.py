"""A companion's week in a browser: what the model saw, what it did not see, and what window that would have taken.

Fills a SQLite file with a year of small talk, 240 memories and a week of answers, then serves it: `make inspect`. The
model is a script; every context is real.
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
    """Return more of them than gpt-4 has room for."""
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
    """Count as a server would report it."""
    return counter_for(resolve(MODEL)).prompt(read_incoming(request, "openai").prompt).tokens


async def live(url: str) -> brimful.Context:
    """Write it all, and return the last context."""
    provider = ScriptedProvider((*ANSWERS, *ANSWERS), tokens=tokens_of)
    async with brimful.Engine(url, model=MODEL, provider=provider) as engine:
        await engine.put(Persona(id="nova", name="Nova", prompt="You are Nova, an old friend. You remember."))
        await engine.put(Room(id="kitchen", name="The kitchen", user="ada"))
        await engine.post_many(year())
        await engine.remember_many(memories())
        await engine.settled()
        for question in (*QUESTIONS, *QUESTIONS):
            answer = await engine.respond("kitchen", "nova", question, sender="Ada", user="ada")
        return answer.context


def main() -> None:
    """Fill a file, and serve it until Ctrl-C."""
    console = Console(highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'companion.db'}"
        with console.status("A year of small talk, 240 memories and six answers are being written …"):
            last = asyncio.run(live(url))
        lost = next(each for each in last.decisions if each.kind.startswith("memory-") and not each.included)
        console.print(
            f"[bold]Open the address below in a browser.[/] Find out: why was the memory [bold]{lost.id}[/] not "
            "in the context of the last answer, and what window would it have taken? Ctrl-C ends it.\n"
        )
        subprocess.run([sys.executable, "-m", "brimful", "serve", "--db", url], check=False)  # noqa: S603 - ourselves


if __name__ == "__main__":
    main()
