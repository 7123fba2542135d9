"""What the record of a build takes: bytes in the store, and processor time to write and to read it.

python benchmarks/records.py                              in SQLite
python benchmarks/records.py --postgres URL               and in PostgreSQL, in databases of its own
python benchmarks/records.py --against ../other/checkout  and with another checkout of Brimful, before this one
python benchmarks/records.py --measure --share 0          as JSON, if only the summaries of contexts are stored
python benchmarks/records.py --measure --plain            as JSON, with columns as plain lists
"""

import argparse
import asyncio
import json
import sqlite3
import tempfile
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from brimful.engine import Engine
from brimful.records import Message, Persona, Room, User
from brimful.stores import connect
from brimful.stores.log import columns, context_codec
from checkouts import call, checkouts, new_database
from tables import Section, duration, table
from texts import Texts

CANDIDATES = 251
MEMORIES = 20
BUILDS = 24  # of one room, one after the other
ROOMS = 6  # with one build each
CALLS = 20  # that are timed
MODEL = "gpt-4o"
NOW = 1.7e9
TABLES = ("snapshots", "context_items", "log", "log_ends", "tallies")
SHARED = "SELECT coalesce(sum(length(body)), 0) FROM contents WHERE uses <= 0"  # contents that only contexts have

ABOUT = f"""This measures how much a store grows by the record of a build with {CANDIDATES} candidates: messages of
about 280 characters in a room, and a question. "One room" is the mean of {BUILDS} consecutive builds of the same
room, and "many rooms" the mean of the first build in each of {ROOMS} rooms. "With memories": {MEMORIES} of the
candidates are memories of the user, found by search. Bytes include all tables that a build writes: heap, indexes and
TOAST in PostgreSQL after `VACUUM FULL`, and used bytes of pages in SQLite. Messages are stored in other tables, and
are not counted. "Save" and "load" are the processor time of this process for `save_context` and `snapshot` in SQLite,
the minimum of {CALLS} calls."""


def report(postgres: str | None = None, against: Path | None = None, *, quick: bool = False) -> Section:
    """Measure each checkout in each store, in processes of their own; with `quick`, only this one in SQLite."""
    if quick:
        postgres = against = None
    head = ["checkout", "store", "one room", "many rooms", "one room, with memories", "many rooms, with memories"]
    rows: list[list[str]] = []
    for name, path in checkouts(against).items():
        for store in ("SQLite", *(["PostgreSQL"] if postgres else [])):
            server = [] if store == "SQLite" or postgres is None else ["--postgres", postgres]
            found = call(__file__, path, *server)
            rows.append([name, store, *(f"{size / 1000:.1f} KB" for size in found["bytes"])])
            if store == "SQLite":
                rows[-1] += [duration(found["save"]), duration(found["load"])]
            else:
                rows[-1] += ["–", "–"]
            print(rows[-1], found["tables"], flush=True)
    return Section("Records of builds", ABOUT, (table([*head, "save", "load"], rows, words=2),))


def measure(postgres: str | None, **options: Any) -> dict[str, Any]:
    """Return bytes a build in each case, by table for the last, and the seconds to save and load one."""
    sizes: list[float] = []
    by_table: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for memories in (0, MEMORIES):
            for rooms in (1, ROOMS):
                file = f"sqlite:///{folder}/{memories}-{rooms}.db"
                builds = BUILDS if rooms == 1 else ROOMS
                with nullcontext(file) if postgres is None else new_database(postgres) as url:
                    asyncio.run(_fill(url, rooms + 1, memories))
                    asyncio.run(_build(url, rooms, 1, **options))  # the first row of a table takes whole pages
                    before = _sizes(url)
                    asyncio.run(_build(url, 0, builds, rooms, **options))
                    after = _sizes(url)
                by_table = {name: round((after[name] - before[name]) / builds) for name in after}
                sizes.append(sum(by_table.values()))
        save, load = (0.0, 0.0) if postgres or options else asyncio.run(_times(file))
    return {"bytes": sizes, "tables": by_table, "save": save, "load": load}


def store_plain_columns() -> None:
    """Store columns of records as lists of their values."""
    for module in (columns, context_codec):
        vars(module)["pack"] = lambda values: ("raw", list(values), b"")


async def _fill(url: str, rooms: int, memories: int) -> None:
    texts = Texts(7)
    async with Engine(url, embedder=None) as engine:
        await engine.put(User(id="ada", name="Ada"))
        await engine.put(Persona(id="helper", name="Helper"))
        for room in range(rooms):
            await engine.put(Room(id=f"room-{room}"))
            await engine.post_many([_message(f"room-{room}", at, texts) for at in range(CANDIDATES - 1 - memories)])
        for at in range(memories):
            await engine.remember(texts.prose(150), user="ada", at=NOW - 86_400.0 * at)


def _message(room: str, at: int, texts: Texts) -> Message:
    who: dict[str, Any] = {"sender": "ada", "role": "user"} if at % 2 else {"sender": "helper", "role": "assistant"}
    return Message(id=f"msg-{uuid4().hex}", room=room, content=texts.prose(280), at=NOW + 61.25 * at, **who)


async def _build(url: str, first: int, builds: int, rooms: int = 1, **options: Any) -> None:
    texts = Texts(8)
    async with Engine(url, embedder=None, **options) as engine:
        for number in range(builds):
            await engine.assemble(
                room=f"room-{first + number % rooms}",
                persona="helper",
                user="ada",
                model=MODEL,
                message=texts.prose(100),
            )


async def _times(url: str) -> tuple[float, float]:
    database = connect(url)
    await database.open()
    store = database.tenant("default")
    snapshot = await store.snapshot((await store.builds(limit=1))[0].id)
    if snapshot is None:
        raise LookupError("the last build is gone")
    saved, loaded = [], []
    for number in range(CALLS):
        began = time.process_time()
        await store.save_context(msgspec.structs.replace(snapshot, id=f"copy-{number}"))
        saved.append(time.process_time() - began)
        began = time.process_time()
        await store.snapshot(f"copy-{number}")
        loaded.append(time.process_time() - began)
    await database.close()
    return min(saved), min(loaded)


def _sizes(url: str) -> dict[str, int]:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
            database.execute("VACUUM")
            indexes = dict(
                database.execute("SELECT name, tbl_name FROM sqlite_schema WHERE type IN ('table', 'index')")
            )
            found = dict.fromkeys(TABLES, 0)
            for name, size in database.execute("SELECT name, sum(pgsize - unused) FROM dbstat GROUP BY name"):
                if indexes.get(name) in found:
                    found[indexes[name]] += size
            return {**found, "shared": database.execute(SHARED).fetchone()[0]}
    import psycopg  # noqa: PLC0415 - only for PostgreSQL

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM FULL")
        found = {}
        for name in TABLES:
            row = connection.execute("SELECT pg_total_relation_size(to_regclass(%s))", (name,)).fetchone()
            found[name] = (row and row[0]) or 0
        shared = connection.execute(SHARED).fetchone()
        return {**found, "shared": int(shared[0]) if shared else 0}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", default=None, help="the URL of a server on which databases may be created")
    parser.add_argument("--against", type=Path, default=None, help="another checkout")
    parser.add_argument("--measure", action="store_true", help="measure this checkout, and print JSON")
    parser.add_argument("--share", type=float, default=None, help="the share of contexts to record, with --measure")
    parser.add_argument("--plain", action="store_true", help="store columns as lists, with --measure")
    options = parser.parse_args()
    if options.plain:
        store_plain_columns()
    if options.measure:
        share = {} if options.share is None else {"record_share": options.share}
        print(json.dumps(measure(options.postgres, **share)))
    else:
        print(report(options.postgres, options.against).markdown())
