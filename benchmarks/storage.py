"""What a message takes in a store, by table, and what messages and builds take of the processor.

BENCH_DATA=folder python benchmarks/storage.py                  SQLite
BENCH_DATA=folder python benchmarks/storage.py --postgres URL   and PostgreSQL, in databases of its own
                                       … --against ../other     and with another checkout of Brimful, before this one
"""

import argparse
import asyncio
import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, unquote

from brimful.engine import Engine
from brimful.records import Message
from brimful.testing import HashEmbedder
from checkouts import call, checkouts, new_database
from evidence_data import Talk, talks
from tables import Section, table

MODEL = "gpt-4o"
MESSAGES, QUICK_MESSAGES = 15_000, 1_000
BATCH = 500
BUILDS = 40
WINDOW, COMPLETION = 9_000, 1_000
DIMENSIONS = 256
NOW = 1_900_000_000.0
TICKS = os.sysconf("SC_CLK_TCK")
# Those of autovacuum end at any time, and would be counted in one of two measurements only.
LASTING = """
SELECT pid FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND backend_type NOT IN ('autovacuum worker', 'parallel worker')
"""
SIZES = """
SELECT relname, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class
WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
"""
GROUPS = {
    "postings and counts of terms": ("text_index", "term_counts", "term_blocks", "term_scopes"),
    "documents": ("documents",),
    "vectors": ("vectors", "vector_blocks", "vector_log"),
    "contents": ("contents",),
    "messages": ("messages",),
    "token counts": ("token_counts",),
}
TITLE = "What a message takes"
ABOUT = """The tables show bytes per message (rows with indexes, after `VACUUM`), and the processor time of this process
(client) and of the database server. There are {messages:,} messages of {characters:.0f} characters in {rooms} rooms:
conversations of LoCoMo and REALTALK and one of BEAM, copied into several tenants, written in batches and embedded with
256 numbers. Long messages have several passages, so there are more documents and vectors than messages. A build fills a
window of 9,000 tokens for a question that was not asked before; its time is the mean of 40."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of processor time, of this process and of the server."""

    client: float
    server: float


def copies(data: Path, size: int) -> Iterator[tuple[str, Talk]]:
    """Yield tenants with a conversation each, copy after copy, until there are so many messages."""
    found = talks(data)
    found["BEAM"] = found.get("BEAM", [])[:1]  # its answers are long: one, so that the mean is that of a chat
    known = [talk for collection in found.values() for talk in collection if talk.questions]
    written = 0
    for copy in count():
        for talk in known:
            yield f"copy{copy}", talk
            written += len(talk.turns)
            if written >= size:
                return


def room_of(talk: Talk) -> list[Message]:
    """Return the messages of a conversation, with ids such as a client makes."""
    return [
        Message(
            id=f"{talk.name}-{turn.id}".replace(" ", "-"),
            room=talk.name,
            content=turn.text,
            sender=turn.speaker,
            at=turn.at or NOW - len(talk.turns) + at,
        )
        for at, turn in enumerate(talk.turns)
    ]


class Store:
    """A store under measurement."""

    def __init__(self, url: str) -> None:
        """Remember the address of an empty database."""
        self.url = url
        self._engines: dict[str, Engine] = {}

    async def engine(self, tenant: str) -> Engine:
        """Return the open engine of a tenant."""
        if tenant not in self._engines:
            engine = Engine(self.url, tenant=tenant, model=MODEL, embedder=HashEmbedder(dims=DIMENSIONS))
            self._engines[tenant] = await engine.open()
        return self._engines[tenant]

    async def close(self) -> None:
        """Close all engines."""
        for engine in self._engines.values():
            await engine.close()
        self._engines.clear()

    def server_seconds(self) -> float:
        """Return the processor time of the server's lasting processes: of its clients, and of those that help it."""
        if not self.url.startswith("postgres"):
            return 0.0
        import psycopg  # noqa: PLC0415 - an extra

        with psycopg.connect(self.url) as connection:
            pids = connection.execute(LASTING).fetchall()
        spent = 0
        for (pid,) in pids:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            spent += int(fields[11]) + int(fields[12])
        return spent / TICKS

    def sizes(self, path: str) -> dict[str, tuple[int, int]]:
        """Return the bytes of each table: of its rows, and of its indexes."""
        if self.url.startswith("postgres"):
            import psycopg  # noqa: PLC0415 - an extra

            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute("VACUUM FULL ANALYZE" if os.environ.get("BENCH_FULL") else "VACUUM ANALYZE")
                return {name: (rows, keys) for name, rows, keys in connection.execute(SIZES)}
        with sqlite3.connect(path) as connection:
            owners = dict(connection.execute("SELECT name, tbl_name FROM sqlite_master WHERE type = 'index'"))
            found = connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall()
        rows: Counter[str] = Counter()
        keys: Counter[str] = Counter()
        for name, size in found:
            if name in owners:
                keys[owners[name]] += size
            else:
                rows["text_index" if name.startswith("text_index") else name] += size
        return {name: (rows[name], keys[name]) for name in rows}


async def measure(url: str, path: str, data: Path, size: int) -> dict[str, Any]:
    """Write a store, build in it, and return what both took."""
    store = Store(url)
    chosen = list(copies(data, size))
    total = sum(len(talk.turns) for _, talk in chosen)
    writing = Cost(0.0, 0.0)
    for tenant, talk in chosen:
        engine = await store.engine(tenant)
        before, client = store.server_seconds(), time.process_time()
        stream = iter(room_of(talk))
        while batch := list(islice(stream, BATCH)):
            await engine.post_many(batch)
        await engine.index()
        writing = Cost(writing.client + time.process_time() - client, writing.server + store.server_seconds() - before)
    sizes = store.sizes(path)
    costs = {
        "a message, in batches": Cost(1e3 * writing.client / total, 1e3 * writing.server / total),
        "a build": await _build(store, chosen, save=False),
        "a build that is saved": await _build(store, chosen, save=True),
    }
    await store.close()
    return {
        "messages": total,
        "rooms": len(chosen),
        "characters": mean(len(turn.text) for _, talk in chosen for turn in talk.turns),
        "bytes": {name: sum(each) / total for name, each in sizes.items()},
        "costs": {name: asdict(cost) for name, cost in costs.items()},
    }


async def _build(store: Store, chosen: list[tuple[str, Talk]], *, save: bool) -> Cost:
    """Return the mean cost of a build. Questions differ, so that no result is cached."""
    turns = [chosen[at % len(chosen)] for at in range(BUILDS)]
    for tenant, talk in turns[:2]:  # the first ones load code and fill caches
        await _ask(await store.engine(tenant), talk, 0, save=save)
    before, client = store.server_seconds(), time.process_time()
    for at, (tenant, talk) in enumerate(turns):
        await _ask(await store.engine(tenant), talk, 1 + at // len(chosen), save=save)
    client = time.process_time() - client
    return Cost(1e3 * client / BUILDS, 1e3 * (store.server_seconds() - before) / BUILDS)


async def _ask(engine: Engine, talk: Talk, at: int, *, save: bool) -> None:
    question = talk.questions[(2 * at + save) % len(talk.questions)].text
    await engine.assemble(room=talk.name, message=question, window=WINDOW, completion=COMPLETION, now=NOW, save=save)


def report(
    data: Path | None, postgres: str | None = None, against: Path | None = None, *, quick: bool = False
) -> Section:
    """Measure each checkout in each store, in processes of their own."""
    if data is None:
        return Section(TITLE, "There is no folder of conversations.", ())
    found: dict[str, dict[str, Any]] = {}
    for store in (*(["PostgreSQL"] if postgres else []), "SQLite"):
        for name, path in checkouts(against if store == "PostgreSQL" or not postgres else None).items():
            print(f"  storage: {store}, {name}", flush=True)
            with TemporaryDirectory() as folder, _empty(store, folder, postgres) as url:
                size = str(QUICK_MESSAGES if quick else MESSAGES)
                found[f"{store} {name}"] = call(__file__, path, "--data", str(data), "--messages", size, "--url", url)
    first = next(iter(found.values()))
    about = ABOUT.format(messages=first["messages"], characters=first["characters"], rooms=first["rooms"])
    return Section(TITLE, about, (_size_table(found), _cost_table(found)))


@contextmanager
def _empty(store: str, folder: str, postgres: str | None) -> Iterator[str]:
    if store == "SQLite" or postgres is None:
        yield f"sqlite:///{quote(folder)}/store.db"
    else:
        with new_database(postgres) as url:
            yield url


def _size_table(found: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for group, tables in GROUPS.items():
        sizes = [sum(each["bytes"].get(name, 0) for name in tables) for each in found.values()]
        rows.append([group, *(f"{size:,.0f}" for size in sizes)])
    named = {name for tables in GROUPS.values() for name in tables}
    others = [sum(size for name, size in each["bytes"].items() if name not in named) for each in found.values()]
    rows.append(["other", *(f"{size:,.0f}" for size in others)])
    rows.append(["**all**", *(f"**{sum(each['bytes'].values()):,.0f}**" for each in found.values())])
    return table(["bytes a message", *found], rows)


def _cost_table(found: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        [name, side, *(f"{cost:.2f} ms" if (cost := each["costs"][name][side]) else "–" for each in found.values())]
        for name in next(iter(found.values()))["costs"]
        for side in ("client", "server")
    ]
    return table(["processor time", "of", *found], rows, words=2)


def main() -> None:
    """Print the section, or what one checkout takes in one store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BENCH_DATA") or None, help="folder of JSON files")
    parser.add_argument("--postgres", default=None, help="the URL of a server on which databases may be created")
    parser.add_argument("--against", type=Path, default=None, help="another checkout")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--url", default="", help="an empty store")
    parser.add_argument("--measure", action="store_true", help="measure this checkout, and print JSON")
    options = parser.parse_args()
    if options.data is None:
        parser.error("name a folder with --data, or set BENCH_DATA")
    if options.measure:
        path = unquote(options.url.removeprefix("sqlite:///"))
        print(json.dumps(asyncio.run(measure(options.url, path, options.data, options.messages))))
    else:
        print(report(options.data, options.postgres, options.against).markdown())


if __name__ == "__main__":
    main()
