"""How long the next context takes as rooms grow: ours from its store, theirs from a list in memory."""

import asyncio
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice
from statistics import median
from typing import Literal

import mem0_search
from brimful.engine import Engine, Retrieval
from brimful.records import Message
from brimful.testing import HashEmbedder
from isolated import Failure, Isolated
from peers import COMPLETION, MODEL, NOW, fillers
from tables import Section, duration, table, times
from texts import Texts

SIZES = (600, 20_000, 200_000, 1_000_000)  # the last one takes ten minutes to write
QUICK_SIZES = (600, 2_000)
PEER_SIZES = (600, 20_000)
PEERS = ("langchain-core, approximate", "langchain-core, exact", "litellm")
BUDGET = 8_000
BUILDS = 31
BATCH = 5_000
DIMENSIONS = 256
LIMIT_SECONDS = 1_500.0
BUILD_SECONDS = 60.0
PEER_SECONDS = 60.0
PEER_ROUNDS = 5
MEM0_SECONDS = 240.0

Way = Literal["retrieved", "saved", "window"]
WAYS: tuple[Way, ...] = ("retrieved", "saved", "window")

ABOUT = f"""The time to build a context in a room with this many messages in SQLite, each with its counts, terms and a
vector of {DIMENSIONS} numbers, and a budget of {BUDGET:,} tokens under the default policy. "Load and fill" takes the
newest messages and retrieves nothing. "With retrieval" runs three queries over the whole room and the memories, in
full text and by vectors, none of them seen before. "And saved" also stores the record of every decision. Times are
medians of {BUILDS} builds; the rooms take turns, each in its own process. The vectors are hashes, since search time
does not depend on their meaning. The last column compares "with retrieval" to the smallest room.

langchain-core and litellm get the whole conversation as a list in memory, retrieve nothing and store no record. mem0
gets it in its own store, in bulk; a turn is one vector search for {mem0_search.FINDS} texts, and fills no window."""


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
    """Measure all sizes in turn, each in a process of its own."""
    sizes = QUICK_SIZES if quick else SIZES
    rooms = _rooms(sizes)
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


def nothing() -> None:
    """Begin a process with nothing in it."""


# -- ours ------------------------------------------------------------------------------------------------------------


def _rooms(sizes: Sequence[int]) -> dict[int, RoomTimings | Failure]:
    """Write all rooms, then build in one after the other: a machine that slows down meanwhile does so for all."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        processes = {size: stack.enter_context(Isolated(nothing)) for size in sizes}
        writes = {size: processes[size].call(_write, size, folder, seconds=LIMIT_SECONDS) for size in sizes}
        builds: dict[int, dict[Way, list[Timing | Failure]]] = {size: defaultdict(list) for size in sizes}
        for way in WAYS:
            for turn in range(BUILDS + 1):
                for size in sizes:
                    builds[size][way].append(processes[size].call(_build, size, way, turn, seconds=BUILD_SECONDS))
        return {size: _timings(writes[size], builds[size]) for size in sizes}


def _timings(write: float | Failure, builds: Mapping[Way, Sequence[Timing | Failure]]) -> RoomTimings | Failure:
    failed = [each for each in (write, *chain(*builds.values())) if isinstance(each, Failure)]
    if failed or isinstance(write, Failure):
        return failed[0]
    # The first build opens files and fills caches.
    found = {way: [each for each in timings[1:] if isinstance(each, Timing)] for way, timings in builds.items()}
    medians = {way: Timing(median(e.wall for e in each), median(e.cpu for e in each)) for way, each in found.items()}
    return RoomTimings(write=write, window=medians["window"], retrieved=medians["retrieved"], saved=medians["saved"])


class _Opened:
    """What a process keeps from one call to the next."""

    def __init__(self, url: str) -> None:
        self.runner = asyncio.Runner()
        self.searching = Engine(url, model=MODEL, embedder=HashEmbedder(dims=DIMENSIONS))
        self.reading = Engine(url, model=MODEL, embedder=None, retrieval=Retrieval(max_results=0))
        self.runner.run(self._open())

    async def _open(self) -> None:
        await self.searching.open()
        await self.reading.open()

    async def write(self, size: int) -> None:
        for batch in batched_messages(size):
            await self.searching.post_many(batch)
        await self.searching.index()


_opened: list[_Opened] = []


def _write(size: int, folder: str) -> float:
    """Write a room, keep it open, and return the seconds that a message took."""
    opened = _Opened(f"sqlite:///{folder}/{size}.db")
    began = time.perf_counter()
    opened.runner.run(opened.write(size))
    _opened.append(opened)
    return (time.perf_counter() - began) / size


def _build(size: int, way: Way, turn: int) -> Timing:
    """Build one context of the room that this process wrote."""
    [opened] = _opened
    engine = opened.reading if way == "window" else opened.searching
    topic = random.Random(f"{size}{way}{turn}").randrange(size // 30 + 1)
    wall, cpu = time.perf_counter(), time.process_time()
    opened.runner.run(
        engine.assemble(
            room="room",
            message=f"What was said of topic{topic}? ({turn})",
            window=BUDGET + COMPLETION,
            completion=COMPLETION,
            now=NOW + turn,
            save=way == "saved",
        )
    )
    return Timing(time.perf_counter() - wall, time.process_time() - cpu)


def batched_messages(size: int) -> Iterator[list[Message]]:
    """Yield the conversation in batches, as an import writes it."""
    stream = messages(size)
    while batch := list(islice(stream, BATCH)):
        yield batch


# -- theirs ----------------------------------------------------------------------------------------------------------


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
