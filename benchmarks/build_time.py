"""How much processor time a build takes, here and in another checkout, in alternation.

BENCH_DATA=folder python benchmarks/build_time.py --against ../other        SQLite
BENCH_DATA=folder python benchmarks/build_time.py --against ../other --postgres postgresql:///postgres

The last column says how many of the finished contexts are equal, record included. `--postgres` is a server on this
machine on which databases may be created; each checkout gets one, and they are dropped afterwards.
"""

import argparse
import asyncio
import hashlib
import itertools
import multiprocessing
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import BytesIO
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from checkouts import new_database
from evidence_data import Asked, Talk, Turn, spread, talks
from tables import Section, duration, table
from texts import Texts

HERE = Path(__file__).parent.parent
WINDOW = 8_192
QUESTIONS = 20  # of each collection, evenly spread over its conversations
ROUNDS = 5
MODEL = "gpt-4o"
ROOM = "talk"
SYNTHETIC = "251 candidates"
LARGE_WINDOW = 128_000  # all 251 fit
BACKENDS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""

BEFORE = "68013a9"  # before relevance was a probability and records were packed
TITLE = "Build time"
ABOUT = f"""The processor time of a build: of the client with all its threads, and of PostgreSQL's backends. *here* is
this version, *there* commit `{BEFORE}`, before relevance was a probability, tokens had a price and records were packed.
About {QUESTIONS} questions of each collection, evenly spread over its conversations, in a window of {WINDOW:,} tokens;
and as many about a room of 250 messages of about 280 characters, all of which fit into the window. Both versions
build each of them {ROUNDS} times in alternation, at different times, so that each build is saved anew; the median
counts. *here / there* is the median of the ratios of all questions. Records of this version have more candidates, so
contexts differ.

Against commit `661664c1`, in which a number of results instead of tokens ended a search, a build in SQLite took 0.84 to
0.88 of the processor time on LoCoMo and REALTALK, 1.04 to 1.10 on BEAM, and 1.01 to 1.02 with 251 candidates (measured
on 2026-11-18 with `python benchmarks/build_time.py --against ../other`).

    BENCH_DATA=folder python benchmarks/run_all.py --only build --postgres URL"""

_START = multiprocessing.get_context("spawn")


class Build(NamedTuple):
    """The processor time of a build, of all threads of the client and of the server, and a hash of the context."""

    client: float
    server: float
    context: str


def main() -> None:
    """Print a table: collections by row."""
    options = _options()
    print(_compare(options, options.against))


def report(data: Path | None, postgres: str | None = None, *, quick: bool = False) -> Section:
    """Compare this checkout with the commit `BEFORE` of the same repository, in each store."""
    if data is None:
        return Section(TITLE, f"{ABOUT} There were no conversations to measure it with.", ())
    with tempfile.TemporaryDirectory() as folder:
        command = ["git", "archive", BEFORE, "src"]
        archive = subprocess.run(command, cwd=HERE, check=True, capture_output=True).stdout  # noqa: S603 - ours
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        # A process of its own: what `run_all` imports would be imported by the workers, too.
        command = [sys.executable, __file__, "--data", str(data), "--against", folder]
        command += ["--rounds=1"] if quick else []
        stores = {"SQLite": "", **({"PostgreSQL": postgres} if postgres and not quick else {})}
        tables = [f"{name}:\n\n{_run([*command, '--postgres', url])}" for name, url in stores.items()]
    return Section(TITLE, ABOUT, tuple(tables))


def _run(command: Sequence[str]) -> str:
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - ours
    return "\n".join(line for line in printed.splitlines() if line.startswith("|"))


def _compare(options: argparse.Namespace, against: Path | None) -> str:
    rows = []
    for name, conversations in {**talks(options.data), SYNTHETIC: [_synthetic(options.questions)]}.items():
        asked = [
            (talk, question)
            for talk in conversations
            for question in spread(talk.questions, options.questions // len(conversations))
        ]
        print(f"{name}: {len(asked)} questions", flush=True)
        for saved in (False, True):
            checkouts = [HERE] if against is None else [HERE, against]
            builds = _measure(checkouts, asked, options, saved=saved)
            sides = ("client", "server") if options.postgres else ("client",)
            rows += [[name, "yes" if saved else "no", side, *_cells(builds, side)] for side in sides]
    return table(["conversations", "saved", "of", "here", "there", "here / there", "equal"], rows, words=3)


def _synthetic(questions: int) -> Talk:
    texts = Texts(7)
    turns = [Turn(f"m{at}", ("Ada", "Helper")[at % 2], texts.prose(280), 1.7e9 + 61.25 * at) for at in range(250)]
    return Talk(SYNTHETIC, turns, [Asked(texts.prose(100), frozenset()) for _ in range(questions)], asker="Ada")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BENCH_DATA"), help="folder of conversations")
    parser.add_argument("--against", type=Path, help="another checkout, with `src/brimful` in it")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="of each collection")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="builds of each question; their median counts")
    parser.add_argument("--window", type=int, default=WINDOW, help="tokens")
    parser.add_argument("--postgres", default="", help="URL of a server; SQLite without it")
    options = parser.parse_args()
    if options.data is None:
        parser.error("pass --data or set BENCH_DATA")
    return options


def _measure(
    checkouts: Sequence[Path], asked: Sequence[tuple[Talk, Asked]], options: argparse.Namespace, *, saved: bool
) -> list[list[Build]]:
    """Return the builds of each checkout, question by question."""
    builds: list[list[Build]] = [[] for _ in checkouts]
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(each, options, saved=saved)) for each in checkouts]
        talk = None
        for its_talk, question in asked:
            if its_talk is not talk:
                talk = its_talk
                for worker in workers:
                    _ask(worker, talk)
            rounds = [[_ask(worker, question) for worker in workers] for _ in range(options.rounds)]
            for mine, found in zip(builds, zip(*rounds, strict=True), strict=True):
                times = (median(build.client for build in found), median(build.server for build in found))
                mine.append(Build(*times, found[0].context))
    return builds


def _cells(builds: Sequence[Sequence[Build]], side: str) -> list[str]:
    times = [[getattr(build, side) for build in mine] for mine in builds]
    medians = [median(mine) for mine in times]
    if len(builds) == 1:
        return [duration(medians[0]), "–", "–", "–"]
    ratio = median(here / there for here, there in zip(*times, strict=True))
    equal = sum(here.context == there.context for here, there in zip(*builds, strict=True))
    return [*map(duration, medians), f"{ratio:.2f}", f"{equal} of {len(times[0])}"]


# -- in a process of its own, with the code of a checkout -------------------------------------------------------------


@contextmanager
def _worker(checkout: Path, options: argparse.Namespace, *, saved: bool) -> Iterator[Connection]:
    mine, theirs = _START.Pipe()
    arguments = (theirs, str(checkout.resolve() / "src"), options.postgres, options.window, saved)
    process = _START.Process(target=_serve, args=arguments, daemon=True)
    process.start()
    theirs.close()
    try:
        yield mine
    finally:
        mine.close()
        process.join()


def _ask(worker: Connection, what: Talk | Asked) -> Build:
    worker.send(what)
    answer: Build = worker.recv()
    return answer


def _serve(connection: Connection, source: str, postgres: str, window: int, saved: bool) -> None:  # noqa: FBT001
    if "brimful" in sys.modules:
        raise RuntimeError("brimful was imported before the checkout was chosen")
    sys.path.insert(0, source)
    try:
        asyncio.run(_answer(connection, postgres, {"window": window, "save": saved}))
    except EOFError:
        return


async def _answer(connection: Connection, postgres: str, build: dict[str, Any]) -> None:
    talk: Talk = await asyncio.to_thread(connection.recv)
    while True:
        with _store(postgres) as url:
            talk = await _converse(connection, talk, url, build)


async def _converse(connection: Connection, talk: Talk, url: str, build: dict[str, Any]) -> Talk:
    """Build for each question to a conversation, until the next one comes."""
    from brimful.engine import Engine  # noqa: PLC0415 - of the checkout
    from brimful.engine.options import Retrieval  # noqa: PLC0415

    now = max((turn.at or 0.0) for turn in talk.turns)
    build = {**build, "window": LARGE_WINDOW} if talk.name == SYNTHETIC else build
    seconds = itertools.count(1)  # a build at another time has another id: one with the same id is not saved again
    async with Engine(url, model=MODEL, embedder="static", retrieval=Retrieval(cache_ttl=0.0)) as engine:
        await engine.post_many(_messages(talk))
        await engine.index()
        server = _Server(url)
        connection.send(Build(0.0, 0.0, ""))
        while True:
            question: Talk | Asked = await asyncio.to_thread(connection.recv)
            if isinstance(question, Talk):
                return question
            before, began = server.seconds(), time.process_time()
            context = await engine.assemble(
                room=ROOM, message=question.text, sender=talk.asker, now=now + next(seconds), **build
            )
            client = time.process_time() - began
            connection.send(Build(client, server.seconds() - before, _hash(context)))


class _Server:
    """The processor time of PostgreSQL for a database; of SQLite, which has no server, it is 0."""

    def __init__(self, url: str) -> None:
        self._connection = None
        if not url.startswith("sqlite"):
            import psycopg  # noqa: PLC0415 - SQLite needs none

            self._connection = psycopg.connect(url, autocommit=True)
            self._connection.execute("VACUUM ANALYZE")  # or autovacuum would, during one of the builds

    def seconds(self) -> float:
        if self._connection is None:
            return 0.0
        pids = [pid for (pid,) in self._connection.execute(BACKENDS)]
        return sum(int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) for pid in pids) / 1e9


def _messages(talk: Talk) -> list[Any]:
    from brimful.records import Message  # noqa: PLC0415 - of the checkout

    return [
        Message(
            id=turn.id,
            room=ROOM,
            sender=turn.speaker,
            role="user" if turn.speaker == talk.asker or not talk.asker else "assistant",
            content=turn.text,
            at=turn.at or 0.0,
        )
        for turn in talk.turns
    ]


def _hash(context: Any) -> str:
    import msgspec  # noqa: PLC0415

    plain = msgspec.structs.replace(context, id="")
    return hashlib.sha256(msgspec.msgpack.encode(plain)).hexdigest()


@contextmanager
def _store(postgres: str) -> Iterator[str]:
    if postgres:
        with new_database(postgres) as url:
            yield url
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/talk.db"


if __name__ == "__main__":
    main()
