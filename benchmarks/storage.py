"""What a message takes in a store, by table, and what a build takes of the database server's processor.

BENCH_DATA=folder python benchmarks/storage.py                                           SQLite
BENCH_DATA=folder python benchmarks/storage.py --postgres postgresql://localhost/empty   and an empty database
"""

import argparse
import asyncio
import os
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from statistics import mean
from urllib.parse import quote

from brimful.engine import Engine
from brimful.records import Message
from brimful.testing import HashEmbedder
from evidence_data import Talk, talks
from tables import table

MODEL = "gpt-4o"
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


async def measure(url: str, path: str, data: Path, size: int) -> str:
    """Write a store, build in it, and return what both took."""
    store = Store(url)
    chosen = list(copies(data, size))
    total = sum(len(talk.turns) for _, talk in chosen)
    began = time.perf_counter()
    writing = Cost(0.0, 0.0)
    for tenant, talk in chosen:
        engine = await store.engine(tenant)
        before, client = store.server_seconds(), time.process_time()
        stream = iter(room_of(talk))
        while batch := list(islice(stream, BATCH)):
            await engine.post_many(batch)
        await engine.index()
        writing = Cost(writing.client + time.process_time() - client, writing.server + store.server_seconds() - before)
    wall = time.perf_counter() - began
    sizes = store.sizes(path)
    retrieved = await _build(store, chosen, save=False)
    saved = await _build(store, chosen, save=True)
    await store.close()
    rows = [
        [name, f"{rows / total:,.0f}", f"{keys / total:,.0f}", f"{(rows + keys) / total:,.0f}"]
        for name, (rows, keys) in sorted(sizes.items(), key=lambda item: -sum(item[1]))
        if (rows + keys) / total >= 1 and name not in ("snapshots", "inclusions", "log")
    ]
    shown = [row for row in sizes if row not in ("snapshots", "inclusions", "log")]
    whole = sum(sum(sizes[name]) for name in shown) / total
    text = table(["bytes a message", "rows", "indexes", "both"], [*rows, ["**all**", "", "", f"**{whole:,.0f}**"]])
    costs = table(
        ["processor time", "client", "server"],
        [
            ["a message, in batches", *(f"{1e3 * each / total:.2f} ms" for each in (writing.client, writing.server))],
            ["a build", *(f"{each:.1f} ms" for each in (retrieved.client, retrieved.server))],
            ["a build that is saved", *(f"{each:.1f} ms" for each in (saved.client, saved.server))],
        ],
    )
    characters = mean(len(turn.text) for _, talk in chosen for turn in talk.turns)
    head = f"{total:,} messages of {characters:.0f} characters in {len(chosen)} rooms, written in {wall:.0f} s"
    return f"{head}\n\n{text}\n\n{costs}\n"


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


def main() -> None:
    """Measure SQLite, and PostgreSQL where one is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BENCH_DATA") or None, help="folder of JSON files")
    parser.add_argument("--postgres", default="", help="address of an empty database")
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--no-sqlite", action="store_true")
    options = parser.parse_args()
    if options.data is None:
        parser.error("name a folder with --data, or set BENCH_DATA")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store.db"
        urls = [] if options.no_sqlite else [f"sqlite:///{quote(path)}"]
        for url in [*urls, *filter(None, [options.postgres])]:
            print(f"## {url.partition(':')[0]}\n")
            print(asyncio.run(measure(url, path, options.data, options.messages)), flush=True)


if __name__ == "__main__":
    main()
