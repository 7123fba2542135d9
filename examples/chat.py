"""A conversation with a real model on this machine: SmolLM2 with 135 million parameters, in llama.cpp.

The window is small on purpose. Ada's first message no longer fits when she asks about it, and comes back through
retrieval. The usage that the server reports calibrates the counts for a tokenizer that Brimful does not have. Run it
with `make demo`.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llama_server import LlamaServer, LlamaUnavailable, smollm2
from rich.console import Console
from rich.table import Table

import brimful
from brimful.engine.responder import Answer
from brimful.records import Message, Persona

MODEL = "smollm2-135m"
WINDOW = 768  # tokens; the model supports 8,192, but the conversation should not fit
COMPLETION = 48
FACT = "My boat is a green sloop, and her name is Marigold."
SMALL_TALK = (
    "The harbour was quiet this morning, and the gulls sat in a row on the wall as if they were waiting for a bus.",
    "I painted the kitchen door twice, since the first coat had the colour of cold soup and nobody could bear it.",
    "My neighbour is learning the trombone. He plays the same four notes, and the fourth one is always wrong.",
    "We had pancakes for dinner again, because the children had voted, and because there was nothing else left.",
    "The train was late by an hour, so I read the whole newspaper, even the page with the prices of pork.",
)
DAYS = ("On Monday", "On Tuesday", "The day after", "On Friday", "Last Sunday")
TURNS = (FACT, "I also like to sing.", "What is the name of my boat?")


def name_of(text: str) -> str:
    """Return the id of one of Ada's messages."""
    return f"ada-{TURNS.index(text) + 1}"


@contextmanager
def local_model() -> Iterator[str]:
    """Serve SmolLM2, and yield its URL."""
    with LlamaServer(smollm2(), context=WINDOW, slots=1) as server:
        yield f"{server.address}/v1"


async def say(engine: brimful.Engine, text: str, console: Console) -> Answer:
    """Send a message, and print the response as it is generated."""
    console.print(f"[bold]Ada:[/bold] {text}")
    console.print("[bold]Wren:[/bold] ", end="")
    async with engine.stream("harbour", "wren", text, id=name_of(text), sender="Ada", window=WINDOW) as stream:
        async for piece in stream:
            console.print(piece.text, end="", markup=False, highlight=False)
    console.print()
    return stream.answer


def small_talk() -> list[Message]:
    """Return other messages: enough to fill the window more than once."""
    lines = [f"{day}: {line}" for day in DAYS for line in SMALL_TALK]
    return [
        Message(id=f"talk-{at}", room="harbour", sender="Ada", content=line, at=time.time())
        for at, line in enumerate(lines)
    ]


async def talk(console: Console, provider: str, folder: Path) -> None:
    """Run the conversation, and show its last context."""
    async with brimful.Engine(f"sqlite:///{folder}/harbour.db", provider=provider) as engine:
        prompt = "You are Wren, a friendly sailor. Answer in one short sentence."
        await engine.put(Persona(id="wren", prompt=prompt, model=MODEL, completion=COMPLETION))
        answers = [await say(engine, text, console) for text in TURNS[:-1]]
        others = small_talk()
        console.print(f"[dim]… Ada writes {len(others)} messages about other things …[/dim]")
        await engine.post_many(others)
        await engine.wait_indexed()
        answers.append(await say(engine, TURNS[-1], console))
    show_bill(console, answers)
    show_recall(console, answers[-1].context)


def show_bill(console: Console, answers: list[Answer]) -> None:
    """Print our counts beside the server's."""
    table = Table("turn", "counted", "with margin", "reported by llama.cpp", "window", title="Token counts")
    for at, answer in enumerate(answers, start=1):
        seen, usage = answer.context.verification, answer.reply.usage
        billed = f"{usage.prompt:,}" if usage else "?"
        counts = (f"{seen.tokens - seen.margin:,}", f"{seen.tokens:,}", billed, f"{answer.context.budget.window:,}")
        table.add_row(str(at), *counts)
    console.print()
    console.print(table)


def show_recall(console: Console, context: brimful.Context) -> None:
    """Print the last context, and why Ada's first message is in it."""
    console.print(context.report(), markup=False, highlight=False)
    console.print(f"\n“{FACT}” is {len(small_talk()) + len(TURNS)} messages old:", markup=False, highlight=False)
    for decision in context.decisions:
        if decision.id.startswith(name_of(FACT)):
            console.print(
                f"  {decision.id}: {context.explain(decision.id)}", markup=False, highlight=False, soft_wrap=True
            )


def main() -> None:
    """Run the conversation, or say why it is skipped."""
    console = Console()
    console.rule("A conversation with SmolLM2, on this machine")
    try:
        with local_model() as provider, tempfile.TemporaryDirectory() as folder:
            asyncio.run(talk(console, provider, Path(folder)))
    except (LlamaUnavailable, brimful.errors.MissingExtra) as missing:
        console.print(f"Skipped: {missing}", markup=False)


if __name__ == "__main__":
    main()
