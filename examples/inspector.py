"""Sample data for the inspector: what the model saw, what it did not see, and why the last answer forgot something.

Fills a SQLite file with a year of small talk, 240 memories and five responses, then serves it. The model is scripted,
the contexts are real. Run it with `make inspect`. Arguments are passed on to `brimful serve`, such as
`--listen 127.0.0.1:9000`.
"""

import asyncio
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from memory import DAY, MODEL, NOW, QUESTIONS, year
from rich.console import Console

import brimful
from brimful.core.content import Text
from brimful.counting import counter_for
from brimful.models import resolve
from brimful.records import Memory, Persona, Room, Usage
from brimful.records.reply import Reply
from brimful.testing import ScriptedProvider
from brimful.wires.incoming import read_incoming

EXCHANGES = (
    (QUESTIONS[0], "Rosinante, the red Gazelle."),
    ("Where do I like to sit in the library?", "In the window seat."),
    (QUESTIONS[2], "After the street where you met."),
    ("How do I get to the market?", "By tram."),
    ("Which cake should I bake for Sunday?", "A hazelnut torte, with plenty of cream. Grace will love it."),
)
FORGOTTEN = "mem-nuts"
"""The memory that the last answer should have known."""
THINGS = ("the tram to the market", "her red bicycle", "the window seat in the library", "long walks by the canal")
THOUGHTS = (
    "Ada prefers {} to anything else after work.",
    "Ada says that {} reminds her of Lisbon.",
    "Grace gave Ada a book about {}, which she has not read yet.",
    "Ada would like to photograph {} before the winter.",
    "Ada forgot her umbrella because of {}, and laughed about it.",
)
KINDS = ("semantic", "episodic", "procedural")
PINNED = 7
LETTER = "A letter from Grace:\n\n" + "\n".join(
    f"{number}. We looked at house number {number} in the Rua da Rosa: {number % 4 + 1} rooms, a {view} view, too dear."
    for number, view in enumerate(("river", "garden", "courtyard", "street") * 20, 1)
)
"""Too long for the window, so the model sees a digest of it."""


def memories() -> list[Memory]:
    """Return more memories than are worth their tokens, two of which matter for the last question."""
    known = [
        Memory(id=FORGOTTEN, content="Ada must not eat hazelnuts, says her doctor.", user="ada", at=NOW - 100 * DAY),
        Memory(
            id="mem-grace",
            content="Ada's sister Grace comes for Sunday lunch and likes lemon cake.",
            user="ada",
            at=NOW - 10 * DAY,
        ),
    ]
    return known + [
        Memory(
            id=f"mem-{number}",
            content=THOUGHTS[number % len(THOUGHTS)].format(THINGS[number % len(THINGS)]) + f" (Day {number})",
            type=KINDS[number % 3],  # type: ignore[arg-type]
            user="ada",
            importance=0.3 + 0.6 * (number % 10) / 10,
            at=NOW - (365 - number) * DAY,
            pinned=number == PINNED,
        )
        for number in range(240 - len(known))
    ]


def tokens_of(request: dict[str, Any]) -> int:
    """Count the tokens of a request, as a server would report them."""
    return counter_for(resolve(MODEL)).prompt(read_incoming(request, "openai").prompt).tokens


def line(answer: str, cache: list[Any]) -> Callable[[dict[str, Any]], Reply]:
    """Return a line of the script: an answer that reports its tokens, as a server with a prompt cache would."""

    def reply(request: dict[str, Any]) -> Reply:
        messages = request["messages"]
        prefix = [new for new, _ in takewhile(lambda pair: pair[0] == pair[1], zip(messages, cache, strict=False))]
        cache[:] = messages
        usage = Usage(
            prompt=tokens_of(request),
            cached=tokens_of(request | {"messages": prefix}) if prefix else 0,
            completion=counter_for(resolve(MODEL)).text(answer).tokens,
        )
        return Reply(parts=(Text(text=answer),), model=MODEL, usage=usage)

    return reply


async def live(url: str) -> brimful.Context:
    """Write the sample data, and return the last context."""
    cache: list[Any] = []
    provider = ScriptedProvider([line(answer, cache) for _, answer in EXCHANGES])
    async with brimful.Engine(url, model=MODEL, provider=provider) as engine:
        await engine.put(Persona(id="nova", name="Nova", prompt="You are Nova, an old friend. You remember."))
        await engine.put(Room(id="kitchen", name="The kitchen", user="ada"))
        await engine.post_many(year())
        await engine.remember_many(memories())
        await engine.wait_indexed()
        for number, (question, _) in enumerate(EXCHANGES):
            if number == len(EXCHANGES) - 1:
                await engine.post(room="kitchen", sender="Ada", text=LETTER)
            answer = await engine.respond("kitchen", "nova", question, sender="Ada", user="ada")
        return answer.context


def stop(*_: object) -> NoReturn:
    """Exit on SIGTERM as on Ctrl+C: the server is stopped, and the file is removed."""
    sys.exit(0)


def main() -> None:
    """Fill a file, and serve it until Ctrl+C."""
    signal.signal(signal.SIGTERM, stop)
    console = Console(highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'companion.db'}"
        with console.status("Writing a year of small talk, 240 memories and five responses …"):
            asyncio.run(live(url))
        console.print(
            "[bold]Open the URL below in a browser.[/] The last answer suggests hazelnuts. Find out why it forgot the "
            f"memory [bold]{FORGOTTEN}[/]. Press Ctrl+C to stop.\n"
        )
        command = [sys.executable, "-m", "brimful", "serve", "--db", url, *sys.argv[1:]]
        subprocess.run(command, check=False)  # noqa: S603 - ourselves


if __name__ == "__main__":
    main()
