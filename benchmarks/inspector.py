"""How long somebody waits who asks why: whole commands on a long room, and what-if through the API."""

import asyncio
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from brimful.engine import Engine
from brimful.records import Message
from peers import MODEL, NOW
from proxy import Server, started
from rooms import batched_messages
from tables import Section, duration, table

ROOM = 100_000  # messages
CANDIDATES = (200, 1_000, 5_000)
QUICK = (2_000, (200,))
ROUNDS = 7
QUESTION = "What was said of topic7?"
WINDOWS = range(9_000, 120_000, 4_100)  # one a question: a slider that is dragged

ABOUT = f"""The time of whole commands, from start to exit of the process, on a room with this many messages in
SQLite, each with its counts, terms and static vector. `inspect` builds and shows the next context, with retrieval
over the whole room. Times are medians of {ROUNDS} runs, all commands in turn. "CPU" is the processor time of all
threads. A first run is not counted: it writes the compiled files that every installed package has.

What-if builds a stored context again with another window, requested from `brimful serve` as the page does while a
slider is dragged: {len(WINDOWS)} windows each, from the request to the last byte of the response."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a command, in seconds."""

    wall: float
    cpu: float


def report(*, quick: bool) -> Section:
    """Write the store, run the commands, and ask the server."""
    size, counts = QUICK if quick else (ROOM, CANDIDATES)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/room.db"
        print(f"  inspector: a room of {size:,} messages is written", flush=True)
        kept = asyncio.run(_written(url, size))
        print("  inspector: commands", flush=True)
        commands = _commands_table(_runs(_commands(url, kept), 1 if quick else ROUNDS, folder), size)
        print("  inspector: what-if", flush=True)
        contexts = asyncio.run(_contexts(url, counts))
        with started("-m", "brimful", "serve", "--listen", "127.0.0.1:0", "--db", url) as server:
            dragged = {count: _dragged(server, id) for count, id in contexts.items()}
    return Section("The inspector", ABOUT, (commands, _dragged_table(dragged)))


# -- commands --------------------------------------------------------------------------------------------------------


async def _written(url: str, size: int) -> str:
    """Fill a room, and return the id of a context that was built of it."""
    async with Engine(url, model=MODEL) as engine:
        for batch in batched_messages(size):
            await engine.post_many(batch)
        await engine.index()
        return (await engine.assemble(room="room", message=QUESTION, now=NOW)).id


def _commands(url: str, context: str) -> dict[str, list[str]]:
    store = ["--db", url]
    return {
        "brimful --help": ["--help"],
        "brimful count": ["count", "Fill the window to the brim."],
        "brimful stats": ["stats", *store],
        "brimful explain": ["explain", context, *store],
        "brimful assemble --dry-run": ["assemble", "--dry-run", "--room", "room", "--message", QUESTION, *store],
    }


def _runs(commands: Mapping[str, Sequence[str]], rounds: int, folder: str) -> dict[str, list[Run]]:
    """Run all of them in turn, so that a noisy moment hits each."""
    found: dict[str, list[Run]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, arguments in commands.items():
            run = _run(arguments, folder)
            if turn:
                found[name].append(run)
    return found


def _run(arguments: Sequence[str], folder: str) -> Run:
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}
    command = [sys.executable, "-m", "brimful", *arguments]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environ) as process:  # noqa: S603 - our own
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return Run(time.perf_counter() - began, used.ru_utime + used.ru_stime)


def _commands_table(found: Mapping[str, Sequence[Run]], size: int) -> str:
    rows = [
        [f"`{name}`", duration(median(run.wall for run in runs)), duration(median(run.cpu for run in runs))]
        for name, runs in found.items()
    ]
    return table([f"a room of {size:,} messages", "time", "CPU"], rows)


# -- what-if ---------------------------------------------------------------------------------------------------------


async def _contexts(url: str, counts: Sequence[int]) -> dict[int, str]:
    """Build a context of each number of candidates, and return their ids."""
    found = {}
    async with Engine(url, model=MODEL, embedder=None) as engine:
        for count in counts:
            room = f"crowd-{count}"
            text = "The kettle sings, the tea is green, and nobody minds the rain."
            await engine.post_many(
                [
                    Message(id=f"{room}-{at}", room=room, content=f"{at}: {text}", at=NOW - count + at)
                    for at in range(count - 1)
                ]
            )
            context = await engine.assemble(room=room, message=QUESTION, now=NOW)
            if len(context.decisions) != count:
                raise AssertionError(f"{len(context.decisions):,} candidates, not {count:,}")
            found[count] = context.id
    return found


def _dragged(server: Server, context: str) -> list[float]:
    """Ask for one window after the other; the first answer, which reads the record, is not counted."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    found = []
    for window in WINDOWS:
        body = json.dumps({"window": window, "completion": 1_000})
        began = time.perf_counter()
        connection.request(
            "POST", f"/brimful/v1/contexts/{context}/what-if", body, {"content-type": "application/json"}
        )
        answer = connection.getresponse()
        result = answer.read()
        found.append(time.perf_counter() - began)
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"what-if answered {answer.status}: {result[:200]!r}")
    return found[1:]


def _dragged_table(found: Mapping[int, Sequence[float]]) -> str:
    rows = [[f"{count:,}", duration(median(seconds)), duration(max(seconds))] for count, seconds in found.items()]
    return table(["what-if, candidates", "median", "slowest"], rows)


if __name__ == "__main__":
    print(report(quick="--quick" in sys.argv).markdown())
