"""One minute of Brimful, beside what most applications do: send the newest messages that fit.

The same long conversations go both ways: a companion with a year of messages, an agent with forty orders to look at,
and the bill for both. At the end, a small model on this machine answers from a memory. Needs no API key and no network.
Run it with `make demo`.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import agent
import memory
from llama_server import LlamaServer, LlamaUnavailable, smollm2
from rich.console import Console
from rich.table import Table
from rich.text import Text

import brimful
from brimful import Context
from brimful.engine.bench import Recording, Report, Sizes, measure
from brimful.models import resolve
from brimful.records import Persona, Room

WIDTH = 118
COMPLETION = 1_000
MESSAGES = memory.MESSAGES
UNRELATED = "What is 2 + 2?"
REPLAYED = 800  # of the newest messages, for the bill
REQUESTS = 40
SMALL_MODEL = "smollm2-135m"
SMALL_WINDOW = 512
BOAT = "Ada's boat is a green sloop called Marigold."


# -- 1. the companion ------------------------------------------------------------------------------------------------


async def ask(engine: brimful.Engine, question: str) -> Context:
    """Build the context of a question."""
    return await engine.assemble(
        room="kitchen",
        persona="nova",
        user="ada",
        sender="Ada",
        message=question,
        completion=COMPLETION,
        now=memory.NOW,
    )


async def companion(console: Console, folder: Path) -> None:
    """Ask about what was said months ago."""
    messages = memory.year()
    async with brimful.Engine(f"sqlite:///{folder}/companion.db", model=memory.MODEL) as engine:
        await engine.put(Persona(id="nova", prompt="You are Nova, an old friend. You remember."))
        await engine.put(Room(id="kitchen", user="ada"))
        await engine.post_many(messages)
        await engine.wait_indexed()
        contexts = [await ask(engine, question) for question in (*memory.QUESTIONS, UNRELATED)]
    sizes, window = Sizes(resolve(memory.MODEL)), resolve(memory.MODEL).window
    newest = sizes.keep_newest(Recording.of("kitchen", messages).before(MESSAGES), window - COMPLETION)
    console.rule(f"1. A year of {MESSAGES:,} messages, a window of {window:,} tokens", align="left")
    table = compare("question")
    for question, fact, context in zip(memory.QUESTIONS, memory.LONG_AGO.values(), contexts, strict=False):
        found = mark(fact in str(context.request), fact)
        table.add_row(question, mark(fact in str(newest), "not in the request"), found)
    recent, older = contexts[0].component("recent").items, contexts[0].component("older").items
    unrelated = contexts[-1].component("older").items
    table.add_row(UNRELATED, "", mark(not unrelated, f"{unrelated} old messages looked up"))
    table.add_row("sent", f"the {len(newest)} newest messages", f"the {recent} newest, and {older} that were found")
    console.print(table, "")


def compare(title: str) -> Table:
    """Return a table that compares both ways."""
    table = Table(title, width=WIDTH)
    table.add_column("the newest messages", ratio=1)
    table.add_column("Brimful", ratio=1)
    return table


def mark(good: bool, text: str) -> str:  # noqa: FBT001 - what is marked
    """Mark a text as good or bad."""
    return f"{'[green]✓[/]' if good else '[red]✗[/]'} {text}"


# -- 2. the agent ----------------------------------------------------------------------------------------------------


def refunds(console: Console) -> None:
    """Run an agent far past its window, both ways."""
    ours, naive = agent.run_agent(overrides={"recall": "tool"}), run_with_newest()
    tokens = agent.total_tokens(ours.contexts[-1])
    console.rule(f"2. An agent whose run has {tokens:,} tokens, a window of {agent.WINDOW:,}", align="left")
    console.print(f"[bold]Task:[/] {agent.TASK}\n")
    table = compare("")
    last = ours.contexts[-1].request["messages"]
    for name, *cells in zip(
        ("task", "tool calls", "answer"), outcome(naive, naive_request(naive)), outcome(ours, last), strict=True
    ):
        table.add_row(name, *cells)
    console.print(table)
    lines = [line for message in last for line in str(message["content"]).splitlines() if " → " in line]
    console.print("[bold]Older steps stay as lines of a ledger[/], each with a handle that the model can recall:")
    for line in lines[:3]:
        console.print(f"  {line[: WIDTH - 4]} …", markup=False)
    console.print()


def run_with_newest() -> agent.Run:
    """Run the agent with the newest messages that fit."""
    run = agent.Run([{"role": "system", "content": agent.SYSTEM}, {"role": "user", "content": agent.TASK}])
    agent.work(run, lambda request: agent.next_message(request | {"messages": naive_request(run)}))
    return run


def naive_request(run: agent.Run) -> list[agent.Message]:
    """Return the newest messages of a run, without tool results whose call is gone: providers refuse these."""
    sizes = Sizes(resolve(agent.MODEL))
    tools = 200  # tokens; about what their definitions take
    system, *rest = sizes.keep_newest(run.messages, agent.WINDOW - agent.COMPLETION - tools)
    start = next((at for at, message in enumerate(rest) if message["role"] != "tool"), len(rest))
    return [system, *rest[start:]]


def outcome(run: agent.Run, last: list[agent.Message]) -> Iterator[str]:
    """Describe how a run ended."""
    has_task = agent.TASK in agent.visible_text(last)
    yield mark(has_task, "still in the last request" if has_task else "no longer in the last request")
    yield mark(not run.repeated, f"{run.calls.total()}, of which {run.repeated} repeated")
    yield mark(f"{sum(agent.BROKEN.values()):.2f}" in run.answer, run.answer)


# -- 3. the bill -----------------------------------------------------------------------------------------------------


async def bill(console: Console) -> None:
    """Replay the end of the year, and compare what it costs."""
    records = memory.year()[-REPLAYED:]
    async with brimful.Engine("sqlite://") as engine:
        [report] = await measure(
            [Recording.of("kitchen", records)],
            engine,
            model=resolve("gpt-4o"),
            windows=[4_096],
            completion=COMPLETION,
            requests=REQUESTS,
        )
    console.rule(f"3. The bill for {report.requests} requests in a window of 4,096 tokens, gpt-4o", align="left")
    console.print(make_bill(report))
    console.print("Measure your own conversations: brimful bench chat.jsonl\n")


def make_bill(report: Report) -> Table:
    """Return the costs of each way."""
    table = Table("", "input tokens", "from the cache", "cost")
    names = {"newest": "the newest messages", "fit": "brimful.fit", "memory": "Brimful with a memory"}
    for way, figures in report.ways.items():
        cost = "?" if figures.cost is None else f"${figures.cost:.3f}"
        table.add_row(names[way], f"{figures.input:,}", f"{figures.cached / figures.input:.0%}", cost)
    return table


# -- 4. a model on this machine --------------------------------------------------------------------------------------


async def answer(console: Console) -> None:
    """Let a small model answer from a memory."""
    console.rule("4. A real model on this machine: SmolLM2 with 135 million parameters", align="left")
    with LlamaServer(smollm2(), context=SMALL_WINDOW) as server:
        async with brimful.Engine("sqlite://", provider=f"{server.address}/v1") as engine:
            prompt = "You answer questions about Ada in one short sentence."
            await engine.put(Persona(id="wren", prompt=prompt, model=SMALL_MODEL, completion=24))
            await engine.remember(BOAT, user="ada")
            await engine.wait_indexed()
            question = "What is the name of Ada's boat?"
            found = await engine.respond(
                "harbour", question, persona="wren", user="ada", window=SMALL_WINDOW, fields={"temperature": 0}
            )
    console.print(f"[bold]remembered:[/] {BOAT}\n[bold]question:[/]   {question}")
    console.print(Text.assemble(("answer:     ", "bold"), found.text))


def main() -> None:
    """Run the demo."""
    console = Console(width=WIDTH, highlight=False)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(companion(console, Path(folder)))
    refunds(console)
    asyncio.run(bill(console))
    try:
        asyncio.run(answer(console))
    except (LlamaUnavailable, brimful.errors.MissingExtra) as missing:
        console.print(f"Skipped: {missing}", markup=False)
    console.print(
        "\nEvery decision is on record. To see why something was in, or out, in a browser: [bold]make inspect[/]"
    )
    if sys.stdin.isatty() and console.input("Open the inspector with sample data now? [y/N] ").strip().lower() == "y":
        subprocess.run(["make", "inspect"], check=False)  # noqa: S607


if __name__ == "__main__":
    main()
