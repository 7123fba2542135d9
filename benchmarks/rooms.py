"""How long the next context takes as rooms grow: ours from its store, theirs from a list in memory."""

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

import mem0_search
from brimful.engine import Engine, Retrieval
from brimful.records import Message
from brimful.testing import HashEmbedder
from isolated import Failure, Isolated
from peers import COMPLETION, MODEL, NOW, fillers
from tables import Section, duration, table, times
from texts import Texts

SIZES = (600, 20_000, 200_000)
MILLION = 1_000_000  # takes a quarter of an hour to write: `python benchmarks/rooms.py`
QUICK_SIZES = (600, 2_000)
PEER_SIZES = (600, 20_000)
PEERS = ("langchain-core, approximate", "langchain-core, exact", "litellm")
BUDGET = 8_000
BUILDS = 31
BATCH = 5_000
DIMENSIONS = 256
LIMIT_SECONDS = 1_500.0
PEER_SECONDS = 60.0
PEER_ROUNDS = 5
MEM0_SECONDS = 240.0

ABOUT = f"""A room of so many messages in SQLite, each with its counts, its terms and a vector of {DIMENSIONS} numbers,
and a budget of {BUDGET:,} tokens under the default policy. "load and fill" takes the newest messages and retrieves
nothing. "with retrieval" asks three questions of the whole room and the memories, in full text and by vectors, none of
them asked before. "and saved" keeps the record of every decision, too. Medians of {BUILDS} builds; the vectors are made
by a hash, for the search takes as long whatever they mean. The last column sets "with retrieval" beside the smallest
room.

langchain-core and litellm get the whole conversation as a list in memory, retrieve nothing and keep no record. mem0
gets it in its own store, in bulk, and a turn is one vector search for {mem0_search.FINDS} texts: it fills no window."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Medians of one way, in seconds."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class RoomTimings:
    """One room: how long it took to write a message, and to build."""

    write: float
    window: Timing
    retrieved: Timing
    saved: Timing


def report(*, quick: bool) -> Section:
    """Measure each size in a process of its own."""
    sizes = QUICK_SIZES if quick else SIZES
    rooms = {size: _isolated(size) for size in sizes}
    common = [size for size in sizes if size in PEER_SIZES]
    peers = {name: [_peer(name, size) for size in common] for name in PEERS}
    peers["mem0, search alone"] = [_mem0(size) for size in common]
    return Section("Rooms of any length", ABOUT, (_ours(rooms), _theirs(rooms, peers, sizes)))


def messages(size: int, seed: int = 11) -> Iterator[Message]:
    """Yield a conversation of two, with words of a topic that changes every thirty turns."""
    texts, choice = Texts(seed), random.Random(seed)
    for at in range(size):
        yield Message(
            id=f"m{at}",
            room="room",
            sender="Ada" if at % 2 else "",
            role="user" if at % 2 else "assistant",
            content=f"{texts.prose(choice.randint(60, 240))} (topic{at // 30})",
            at=NOW - 60.0 * (size - at),
        )


def _isolated(size: int) -> RoomTimings | Failure:
    with Isolated(nothing) as process:
        return process.call(_measure, size, seconds=LIMIT_SECONDS)


def nothing() -> None:
    """Begin a process with nothing in it."""


def _measure(size: int) -> RoomTimings:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_room(size, Path(folder)))


async def _room(size: int, folder: Path) -> RoomTimings:
    url = f"sqlite:///{folder}/room.db"
    async with Engine(url, model=MODEL, embedder=HashEmbedder(dims=DIMENSIONS)) as engine:
        began = time.perf_counter()
        for batch in batched_messages(size):
            await engine.post_many(batch)
        await engine.index()
        write = (time.perf_counter() - began) / size
        retrieved = await _builds(engine, size, save=False)
        saved = await _builds(engine, size, save=True)
    async with Engine(url, model=MODEL, embedder=None, retrieval=Retrieval(most=0)) as engine:
        return RoomTimings(
            write=write, window=await _builds(engine, size, save=False), retrieved=retrieved, saved=saved
        )


def batched_messages(size: int) -> Iterator[list[Message]]:
    """Yield the conversation in batches, as an import writes it."""
    stream = messages(size)
    while batch := list(islice(stream, BATCH)):
        yield batch


async def _builds(engine: Engine, size: int, *, save: bool) -> Timing:
    choice = random.Random(f"{size}{save}")
    walls, cpus = [], []
    for turn in range(BUILDS + 1):
        question = f"What was said of topic{choice.randrange(size // 30 + 1)}? ({turn})"
        wall, cpu = time.perf_counter(), time.process_time()
        await engine.assemble(
            room="room",
            message=question,
            window=BUDGET + COMPLETION,
            completion=COMPLETION,
            now=NOW + turn,
            save=save,
        )
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return Timing(median(walls[1:]), median(cpus[1:]))  # the first one opens files and fills caches


def _peer(name: str, size: int) -> Timing | Failure:
    filler = next(filler for filler in fillers() if filler.name == name)
    with Isolated(filler.load) as process:
        return process.call(_time_peer, name, size, seconds=PEER_SECONDS)


def _time_peer(name: str, size: int) -> Timing:
    filler = next(filler for filler in fillers() if filler.name == name)
    history = [{"role": message.role, "content": str(message.content)} for message in messages(size)]
    system = {"role": "system", "content": "You are a helpful assistant."}
    walls, cpus = [], []
    for turn in range(PEER_ROUNDS):
        fitted = filler.prepare([system, *history, {"role": "user", "content": f"What now? ({turn})"}], BUDGET)
        wall, cpu = time.perf_counter(), time.process_time()
        fitted.call()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return Timing(median(walls), median(cpus))


def _mem0(size: int) -> Timing | Failure:
    with Isolated(mem0_search.load) as process:
        return process.call(_time_mem0, size, seconds=MEM0_SECONDS)


def _time_mem0(size: int) -> Timing:
    texts = [str(message.content) for message in messages(size)]
    questions = [f"What was said of topic{turn}?" for turn in range(PEER_ROUNDS)]
    return Timing(*mem0_search.time_search(texts, questions))


def _ours(rooms: Mapping[int, RoomTimings | Failure]) -> str:
    smallest = next(iter(rooms.values()))
    rows = []
    for size, room in rooms.items():
        if isinstance(room, Failure):
            rows.append([f"{size:,}", room.reason, *["–"] * 4])
            continue
        growth = times(room.retrieved.wall / smallest.retrieved.wall) if isinstance(smallest, RoomTimings) else "–"
        rows.append(
            [
                f"{size:,}",
                duration(room.write),
                duration(room.window.wall),
                duration(room.retrieved.wall),
                duration(room.saved.wall),
                growth,
            ]
        )
    head = ["messages", "to write one", "load and fill", "with retrieval", "and saved", f"against {min(rooms):,}"]
    return table(head, rows)


def _theirs(
    rooms: Mapping[int, RoomTimings | Failure],
    peers: Mapping[str, Sequence[Timing | Failure]],
    sizes: Sequence[int],
) -> str:
    common = [size for size in sizes if size in PEER_SIZES]
    rows = [
        ["brimful, load and fill", *(_cpu(_of(rooms[size], "window")) for size in common)],
        ["brimful, with retrieval", *(_cpu(_of(rooms[size], "retrieved")) for size in common)],
    ]
    rows += [[name, *map(_cpu, timings)] for name, timings in peers.items()]
    return table(["CPU of one turn", *(f"{size:,} turns" for size in common)], rows)


def _of(room: RoomTimings | Failure, way: str) -> Timing | Failure:
    return room if isinstance(room, Failure) else getattr(room, way)


def _cpu(timing: Timing | Failure) -> str:
    return duration(timing if isinstance(timing, Failure) else timing.cpu)


if __name__ == "__main__":
    print(_ours({size: _isolated(size) for size in (*SIZES, MILLION)}))
