"""Bringing history along: how fast exports are imported, how much memory that takes, and what the check before costs.

python benchmarks/imports.py                  exports of 5 and of 25 MB into SQLite
python benchmarks/imports.py --quick          of 1 and of 4 MB
python benchmarks/imports.py --postgres URL   and into PostgreSQL, in databases of its own
python benchmarks/imports.py --against PATH   and by another checkout, in alternation
"""

import argparse
import asyncio
import importlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from brimful.engine import Engine
from brimful.engine.transfer import ImportTally, import_records
from brimful.formats import Entry, Reader, Source, check_files, read_checked
from checkouts import HERE, checkouts, new_database
from isolated import Failure, Isolated
from tables import Section, duration, percent, table
from texts import Texts

SIZES = (5, 25)  # MB
QUICK_SIZES = (1, 4)
MB = 10**6
LIMIT_SECONDS = 900.0
MODEL = "gpt-4o"
TURNS = 20  # messages of a conversation
PROCESSES = 2  # of the example that feeds
FILES = 8
COPIES = 4
SAYINGS = 2_000  # texts, of which each message is one with a number before it

ABOUT = f"""`brimful import` into an empty store, and again into the same one. The files are generated: a ChatGPT
`conversations.json`, and JSON lines with one conversation each, as for fine-tuning, with {TURNS} messages per
conversation from the texts of the other sections. *imported* is how many messages a second are checked, read, written
and counted for gpt-4o: all that has to be done before the store can be used. *indexed* is how many a second are added
to the full-text index after that: by the same command, or in the background. *with index* is how many a second both
take together. Behind each is how many it is for one second of the client's processor. *check* is the share of the
imported time that goes into the pass that reads everything before anything is written. Each import runs in a process
of its own; memory is its peak. Nothing is embedded: that happens later, in the background.

The second table is about whole commands in processes of their own, with everything that they import and with the
creation of the tables. `brimful import` of the largest JSON lines ends with the full-text index. `examples/feed.py`
writes and counts {COPIES} times as many in {PROCESSES} processes, as {FILES} files of one tenant each, and leaves the
index to workers.

The third table shows why the JSON of an export is split by our own reader: it is faster than ijson (the yajl2_c
backend), and reads on after damage. *after damage* is how many conversations of the same file are read if the first one
is damaged; a reader that stops there gets none."""
DAMAGE = '[{"title": tru},'  # a damaged first element


class Times(NamedTuple):
    """Seconds, and seconds of the client's processor."""

    wall: float
    processor: float

    @classmethod
    def now(cls) -> "Times":
        """Return the times of both clocks."""
        return cls(time.perf_counter(), time.process_time())

    def since(self, start: "Times") -> "Times":
        """Return the times between two readings of the clocks."""
        return Times(self.wall - start.wall, self.processor - start.processor)


@dataclass(frozen=True, slots=True)
class Run:
    """One import."""

    check: float  # seconds
    imported: "Times"  # with the check
    indexed: "Times"
    messages: int  # that are new
    memory: int  # MB


def report(
    data: Path | None = None, postgres: str | None = None, against: Path | None = None, *, quick: bool
) -> Section:
    """Import each file of each size twice, the largest one also by commands, and read it with each JSON reader."""
    rows: list[list[str]] = []
    commands: list[list[str]] = []
    readers: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for form, written in FORMS.items():
            for size in QUICK_SIZES if quick else SIZES:
                print(f"  imports: {form}, {size} MB", flush=True)
                path = Path(folder, f"{form}-{size}.{'json' if form == 'chatgpt' else 'jsonl'}")
                with path.open("w", encoding="utf-8") as file:
                    file.writelines(written(size * MB, _sayings(data)))
                sqlite = f"sqlite:///{folder}/{form}-{size}.db"
                for store in ("SQLite", *(["PostgreSQL"] if postgres else [])):
                    server = postgres if store == "PostgreSQL" else None
                    with new_database(server) if server else nullcontext(sqlite) as url:
                        first, again = _run(path, url), _run(path, url)
                    received = 0 if isinstance(first, Failure) else first.messages
                    started = [form, store, f"{path.stat().st_size / MB:.0f} MB"]
                    rows += [_row([*started, "first"], received, first), _row([*started, "again"], received, again)]
                if form == "chatgpt":
                    readers = [_reader_row(name, path) for name in READERS]
                elif size == max(QUICK_SIZES if quick else SIZES):
                    commands = _command_rows(path, postgres, against)
                path.unlink()
    head = [
        "export",
        "store",
        "file",
        "import",
        "messages",
        "imported",
        "check",
        "indexed",
        "with index",
        "most memory",
    ]
    reader_head = ["JSON reader", "file", "processor", "a second", "most memory", "after damage"]
    tables = (table(head, rows, words=4), table(COMMAND_HEAD, commands, words=3), table(reader_head, readers))
    return Section("Importing", ABOUT, tables)


def _run(path: Path, url: str) -> Run | Failure:
    with Isolated(_begin) as process:
        return process.call(_imported, str(path), url, seconds=LIMIT_SECONDS)


def _begin() -> None:
    """Import nothing more: what this file imports is all that it takes."""


def _imported(path: str, url: str) -> Run:
    began = Times.now()
    with Reader([path]) as walk:
        check_files(walk)
        check = Times.now().since(began).wall
        tally = ImportTally()
        imported, indexed = asyncio.run(_taken(walk, url, tally))
    return Run(
        check=check,
        imported=imported.since(began),
        indexed=indexed.since(imported),
        messages=tally.make_report().records.get("message", 0),
        memory=_most_memory(),
    )


def _most_memory() -> int:
    """Return the most MB that this process held. `ru_maxrss` begins with those of the one that started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) * 1024 // MB


async def _taken(walk: Reader, url: str, tally: ImportTally) -> tuple[Times, Times]:
    """Import, and return the times when everything was written, and when it was indexed."""
    async with Engine(url, embedder=None, model=MODEL) as engine:
        await import_records(engine, read_checked(walk), tally, get_location=lambda: walk.location, index=False)
        written = Times.now()
        await engine.index_deferred()
        return written, Times.now()


def _row(started: list[str], came: int, run: Run | Failure) -> list[str]:
    if isinstance(run, Failure):
        return [*started, "–", run.reason, "–", "–", "–", "–"]
    whole = Times(*map(sum, zip(run.imported, run.indexed, strict=True)))
    return [
        *started,
        f"{came:,}",
        _rate(came, run.imported),
        percent(run.check / run.imported.wall),
        _rate(came, run.indexed) if run.messages else "–",
        _rate(came, whole),
        f"{run.memory} MB",
    ]


def _rate(messages: int, times: Times) -> str:
    """Return the messages a second, and those for a second of the client's processor."""
    return f"{messages / times.wall:,.0f} ({messages / times.processor:,.0f})"


# -- commands --------------------------------------------------------------------------------------------------------

COMMAND_HEAD = ["command", "checkout", "store", "messages", "a second", "messages for a second of the clients"]


def _command_rows(path: Path, postgres: str | None, against: Path | None) -> list[list[str]]:
    with path.open(encoding="utf-8") as export:
        talks = [json.loads(line)["messages"] for line in export]
    files = [path.with_name(f"feed{number}.jsonl") for number in range(FILES)]
    for number, file in enumerate(files):
        lines = (
            json.dumps({"room": f"r{at}", **message}, ensure_ascii=False) + "\n"
            for at, talk in enumerate(talks[number * COPIES % FILES // COPIES :: FILES // COPIES])
            for message in talk
        )
        file.write_text("".join(lines), encoding="utf-8")
    importing = ["-m", "brimful", "import", str(path), "--db", "URL"]
    feeding = [str(HERE / "examples" / "feed.py"), "URL", *map(str, files), "--processes", str(PROCESSES)]
    wanted = [("`brimful import`", name, checkout, importing) for name, checkout in checkouts(against).items()]
    wanted.append(("`examples/feed.py`", "now", HERE, feeding))
    rows: list[list[str]] = []
    for store in ("SQLite", *(["PostgreSQL"] if postgres else [])):
        for command, name, checkout, arguments in wanted:
            print(f"  imports: {command}, {name}, {store}", flush=True)
            sqlite = f"sqlite:///{path.parent}/{name}-{len(rows)}.db"
            with new_database(postgres) if postgres and store == "PostgreSQL" else nullcontext(sqlite) as url:
                times = _run_command([url if each == "URL" else each for each in arguments], checkout)
            count = sum(map(len, talks)) * (COPIES if arguments is feeding else 1)
            rows.append(
                [command, name, store, f"{count:,}", f"{count / times.wall:,.0f}", f"{count / times.processor:,.0f}"]
            )
            for mark in path.parent.glob("*.at"):
                mark.unlink()
    for file in files:
        file.unlink()
    return rows


def _run_command(arguments: list[str], checkout: Path) -> Times:
    """Run Python with Brimful from a checkout, and return what it took, with its processes."""
    began, used = time.perf_counter(), os.times()
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    subprocess.run([sys.executable, *arguments], env=environment, check=True, capture_output=True)  # noqa: S603 - ours
    wall, after = time.perf_counter() - began, os.times()
    children = after.children_user + after.children_system - used.children_user - used.children_system
    return Times(wall, children)


# -- JSON readers ----------------------------------------------------------------------------------------------------


def _count_ours(path: str) -> int:
    with Source(path) as source:
        return sum(isinstance(entry, Entry) for entry in source.entries())


def _count_ijson(path: str) -> int:
    ijson = importlib.import_module("ijson.backends.yajl2_c")
    count = 0
    with Path(path).open("rb") as file:
        try:
            for _ in ijson.items(file, "item", use_float=True, buf_size=2**18):
                count += 1
        except importlib.import_module("ijson").JSONError:
            pass
    return count


READERS: dict[str, tuple[str, Callable[[str], int]]] = {
    "brimful": ("brimful", _count_ours),
    "ijson": ("ijson", _count_ijson),
}


def _read_json(name: str, path: str) -> tuple[int, float, int]:
    began = time.process_time()
    count = READERS[name][1](path)
    return count, time.process_time() - began, _most_memory()


def _reader_row(name: str, path: Path) -> list[str]:
    size = path.stat().st_size / MB
    if find_spec(READERS[name][0]) is None:
        return [name, f"{size:.0f} MB", "not installed", "–", "–", "–"]
    damaged = path.with_name("damaged.json")
    damaged.write_bytes(DAMAGE.encode() + path.read_bytes()[1:])
    with Isolated(_begin) as process:
        run = process.call(_read_json, name, str(path), seconds=LIMIT_SECONDS)
        after = process.call(_read_json, name, str(damaged), seconds=LIMIT_SECONDS)
    damaged.unlink()
    if isinstance(run, Failure) or isinstance(after, Failure):
        return [name, f"{size:.0f} MB", run.reason if isinstance(run, Failure) else "failed", "–", "–", "–"]
    count, seconds, memory = run
    return [
        *(name, f"{size:.0f} MB", duration(seconds), f"{size / seconds:.1f} MB", f"{memory} MB"),
        f"{after[0]:,} of {count:,}",
    ]


# -- exports ---------------------------------------------------------------------------------------------------------


def _sayings(data: Path | None) -> Callable[[int], str]:
    texts, chosen = Texts(7, data), random.Random(7)
    lines = [texts.any(chosen.choice((80, 200, 400, 1_200))) for _ in range(SAYINGS)]
    return lambda at: f"{at}: {lines[at % SAYINGS]}"


def _chatgpt(size: int, saying: Callable[[int], str]) -> Iterator[str]:
    """Yield a `conversations.json` of so many bytes."""
    written = 0
    for number, talk in enumerate(_talks(saying)):
        text = ("," if number else "[") + json.dumps(_conversation(number, talk), ensure_ascii=False)
        yield text
        written += len(text.encode())
        if written >= size:
            yield "]"
            return


def _conversation(number: int, talk: list[str]) -> dict[str, Any]:
    nodes: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": ["n0"]}}
    for at, said in enumerate(talk):
        nodes[f"n{at}"] = {
            "id": f"n{at}",
            "message": {
                "id": f"n{at}",
                "author": {"role": "assistant" if at % 2 else "user", "name": None, "metadata": {}},
                "create_time": 1.7e9 + 1_000 * number + at,
                "content": {"content_type": "text", "parts": [said]},
                "status": "finished_successfully",
                "weight": 1.0,
                "metadata": {"model_slug": "gpt-4o"} if at % 2 else {},
                "recipient": "all",
            },
            "parent": f"n{at - 1}" if at else "root",
            "children": [f"n{at + 1}"] if at + 1 < len(talk) else [],
        }
    made = {"title": f"Talk {number}", "create_time": 1.7e9 + 1_000 * number, "conversation_id": f"c{number}"}
    return {**made, "mapping": nodes, "current_node": f"n{len(talk) - 1}"}


def _openai(size: int, saying: Callable[[int], str]) -> Iterator[str]:
    """Yield lines of conversations, of so many bytes."""
    written = 0
    for talk in _talks(saying):
        messages = [{"role": "assistant" if at % 2 else "user", "content": said} for at, said in enumerate(talk)]
        line = json.dumps({"messages": messages}, ensure_ascii=False) + "\n"
        yield line
        written += len(line.encode())
        if written >= size:
            return


def _talks(saying: Callable[[int], str]) -> Iterator[list[str]]:
    at = 0
    while True:
        yield [saying(at + turn) for turn in range(TURNS)]
        at += TURNS


FORMS: dict[str, Callable[[int, Callable[[int], str]], Iterator[str]]] = {"chatgpt": _chatgpt, "openai": _openai}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small files")
    parser.add_argument("--data", type=Path, default=None, help="folder of JSON files")
    parser.add_argument("--postgres", default=None, help="the URL of a server on which databases may be created")
    parser.add_argument("--against", type=Path, default=None, help="the folder of another checkout, to compare with")
    options = parser.parse_args()
    print(report(options.data, options.postgres, options.against, quick=options.quick).markdown())
