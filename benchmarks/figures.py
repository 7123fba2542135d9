"""Figures of ten million builds: how long they take, and that they are exact.

python benchmarks/figures.py            ten million builds, in a file that is removed at the end
python benchmarks/figures.py --quick    a hundred thousand

It is not called `statistics`, since it would stand in the way of Python's own.
"""

import argparse
import asyncio
import math
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from brimful import assemble, package
from brimful.core.task import Task
from brimful.records import Snapshot
from brimful.records.statistics import Statistics
from brimful.stores import connect
from brimful.stores.log.agent_runs import Place
from brimful.stores.log.contexts import make_build
from brimful.stores.log.tallies import DAY, HOUR, Scope, Tally, TallyKey, tally_build
from brimful.stores.store import Store
from peers import MODEL
from tables import Section, duration, table

BUILDS = 10_000_000
QUICK_BUILDS = 100_000
DAYS = 90
BURST = 20  # builds of one room, within an hour
FIRST = 494_400  # an hour, counted from 1970: 2026-05-27
TENANT = "bench"
PERSONAS, POLICIES = ("nova", "helper", "scribe"), ("default", "auction")
MODELS = ("gpt-4o", "claude-sonnet-4-5", "qwen2.5:7b")

_INDEXES = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'log' AND sql IS NOT NULL"
_HINTS = f"SELECT tbl, idx, stat FROM sqlite_stat1 WHERE idx IN (SELECT name FROM ({_INDEXES}))"  # noqa: S608 - ours

ABOUT = f"""`store.statistics` on SQLite. Contexts of {DAYS} days, evenly distributed: three personas, three models, two
policies, and rooms of {BURST} contexts each. The log and its tallies are written in bulk, with the sums that a store
would write. Context records are not written, since statistics do not need them. Time ranges start and end in the middle
of an hour, so that contexts are read one by one at both ends. Every result was checked against a count of the log's
rows. Medians of five calls. The last two rows show why tallies exist: "build by build" sums the last 24 hours without
them, and "GROUP BY" lets SQLite group the log for a single sum, where a tally has 28."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many builds there are, and where they are."""

    builds: int

    @property
    def rooms(self) -> int:
        """Rooms that are spoken in, in each hour."""
        return math.ceil(self.builds / (DAYS * DAY * BURST))

    @property
    def total(self) -> int:
        """Builds in all."""
        return self.rooms * BURST * DAYS * DAY

    @property
    def now(self) -> float:
        """The time at which is asked: in the middle of the last hour."""
        return (FIRST + DAYS * DAY - 0.5) * HOUR


def report(*, quick: bool) -> Section:
    """Write a log, ask it, and count after it."""
    shape = Shape(QUICK_BUILDS if quick else BUILDS)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "figures.db")
        began = time.perf_counter()
        asyncio.run(_made(file, shape))
        filled, size = time.perf_counter() - began, file.stat().st_size
        rows = asyncio.run(_time_queries(file, shape))
    text = f"{shape.total:,} builds; a file of {size / 1e9:.1f} GB, written in {duration(filled)}."
    return Section("Figures of many builds", ABOUT, (table(["figures of", "builds", "time"], rows), text))


# -- a log -----------------------------------------------------------------------------------------------------------


async def _made(file: Path, shape: Shape) -> None:
    async with connect(f"sqlite:///{file}") as database:
        await database.tenant(TENANT).follow()
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -400000")
    indexes, hints = connection.execute(_INDEXES).fetchall(), connection.execute(_HINTS).fetchall()
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    bulk = Bulk(connection, shape)
    for day in range(DAYS):
        connection.execute("BEGIN")
        bulk.write_day(FIRST + day * DAY)
        connection.execute("COMMIT")
    for _, statement in indexes:
        connection.execute(statement)  # at once, which is quicker than row by row
    connection.executemany("INSERT INTO sqlite_stat1 VALUES (?, ?, ?)", hints)
    connection.execute("INSERT INTO log_ends VALUES (?, ?, ?)", (TENANT, bulk.place, -(2**53)))
    connection.execute("INSERT INTO tenants VALUES (?)", (TENANT,))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


class Bulk:
    """Writes a log and its tallies, with what a store would write: builds of one sort add the same."""

    def __init__(self, connection: sqlite3.Connection, shape: Shape) -> None:
        """Prepare what each sort of build adds, one by one and a burst at once."""
        self.place = 0
        self._connection = connection
        self._rooms = shape.rooms
        self._sorts = [TallyKey(who, model, policy) for who in PERSONAS for model in MODELS for policy in POLICIES]
        tallies = [_tally(at) for at in range(len(self._sorts))]
        self._bodies = [msgspec.json.encode(each) for each in tallies]
        self._bursts = [_times(each, BURST) for each in tallies]

    def write_day(self, first: int) -> None:
        """Write all hours of a day, and its sums."""
        daily: dict[int, Tally] = {}
        for hour in range(first, first + DAY):
            for at, tally in self._write_hour(hour).items():
                daily.setdefault(at, Tally()).add(tally)
        self._tally("all", [("", DAY, first, at, tally) for at, tally in daily.items()])

    def _write_hour(self, hour: int) -> dict[int, Tally]:
        hourly: dict[int, Tally] = {}
        of_rooms = []
        for room in range(self._rooms):
            at = self._sort_of(hour, room)
            hourly.setdefault(at, Tally()).add(self._bursts[at])
            name, sizes = f"r{hour}-{room}", ((1, hour), (DAY, hour // DAY * DAY))
            of_rooms += [(name, size, first, at, self._bursts[at]) for size, first in sizes]
        self._tally("all", [("", 1, hour, at, tally) for at, tally in hourly.items()])
        self._tally("room", of_rooms)
        self._connection.executemany(
            "INSERT INTO log VALUES (?, ?, 'build', ?, ?, ?, ?, ?, ?, '', '', NULL, ?)", self._events(hour)
        )
        self.place += self._rooms * BURST
        return hourly

    def _events(self, hour: int) -> Iterator[tuple[Any, ...]]:
        step = HOUR / (self._rooms * BURST)
        for number in range(self._rooms * BURST):
            room = number // BURST
            at, place = self._sort_of(hour, room), self.place + number + 1
            sort = self._sorts[at]
            yield (
                *(TENANT, place, f"ctx-{place:024x}", f"r{hour}-{room}", hour * HOUR + number * step),
                *(sort.persona, sort.model, sort.policy, self._bodies[at]),
            )

    def _sort_of(self, hour: int, room: int) -> int:
        return (hour + room) % len(self._sorts)

    def _tally(self, scope: Scope, rows: Sequence[tuple[str, int, int, int, Tally]]) -> None:
        self._connection.executemany(
            "INSERT INTO tallies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (TENANT, scope, owner, size, hour, sort.persona, sort.model, sort.policy, msgspec.json.encode(tally))
                for owner, size, hour, at, tally in rows
                for sort in (self._sorts[at],)
            ),
        )


def _tally(number: int) -> Tally:
    """Return what a real build adds, each a little larger than the one before."""
    packages = [
        package("system-prompt", "You are a helpful assistant.", model=MODEL),
        *(package("memory-semantic", f"Ada likes tea number {at}.", model=MODEL, relevance=0.5) for at in range(5)),
        *(package("message-recent", f"And so on, {at}. " * 20, model=MODEL) for at in range(20 + number)),
        package("message-current", "Well?", model=MODEL),
    ]
    context = assemble(packages, model=MODEL, now=0.0)
    snapshot = Snapshot(id="s", room="r", context=context)
    return tally_build(make_build(snapshot, Place(task=Task(), address="", run="s")), context)


def _times(tally: Tally, count: int) -> Tally:
    total = Tally()
    for _ in range(count):
        total.add(tally)
    return total


# -- what is asked ---------------------------------------------------------------------------------------------------


async def _time_queries(file: Path, shape: Shape) -> list[list[str]]:
    now = shape.now
    day, month = now - DAY * HOUR, now - 30 * DAY * HOUR
    questions: dict[str, dict[str, Any]] = {
        "the last 24 hours": {"since": day, "until": now},
        "the last 30 days": {"since": month, "until": now},
        "all": {},
        "the last 30 days, by day": {"since": month, "until": now, "by": "day"},
        "all, by day": {"by": "day"},
        "all, by hour": {"by": "hour"},
        "all, by model": {"by": "model"},
        "all of one persona": {"persona": PERSONAS[0]},
        "one room": {"room": f"r{FIRST}-0"},
    }
    async with connect(f"sqlite:///{file}") as database:
        store = database.tenant(TENANT)
        rows = [await _row(store, file, name, asked) for name, asked in questions.items()]
    slow, grouped = _one_by_one(file, day, now), _grouped(file)
    return [
        *rows,
        ["the last 24 hours, build by build", f"{slow[0]:,}", duration(slow[1])],
        ["all, by model, with GROUP BY (tokens alone)", f"{grouped[0]:,}", duration(grouped[1])],
    ]


async def _row(store: Store, file: Path, name: str, asked: dict[str, Any]) -> list[str]:
    seconds, found = [], list[Statistics]()
    for _ in range(5):
        began = time.perf_counter()
        found = await store.statistics(**asked)
        seconds.append(time.perf_counter() - began)
    contexts = sum(each.contexts for each in found)
    counted = _counted(file, asked)
    if contexts != counted:
        raise AssertionError(f"{name}: {contexts:,} builds, and the log has {counted:,}")
    return [name, f"{contexts:,}", duration(sorted(seconds)[2])]


def _counted(file: Path, asked: dict[str, Any]) -> int:
    conditions = {"since": "at >= ?", "until": "at < ?", "persona": "persona = ?", "room": "room = ?"}
    chosen = {name: asked[name] for name in conditions if name in asked}
    where = " AND ".join(["tenant = ?", *(conditions[name] for name in chosen)])
    [(count,)] = _read(file, f"SELECT count(*) FROM log WHERE {where}", TENANT, *chosen.values())  # noqa: S608 - ours
    return int(count)


def _one_by_one(file: Path, since: float, until: float) -> tuple[int, float]:
    """Sum up builds without any tally."""
    began = time.perf_counter()
    decoder, total = msgspec.json.Decoder(Tally), Tally()
    sql = "SELECT body FROM log WHERE tenant = ? AND at >= ? AND at < ?"
    for (body,) in _read(file, sql, TENANT, since, until):
        total.add(decoder.decode(body))
    return total.contexts, time.perf_counter() - began


def _grouped(file: Path) -> tuple[int, float]:
    """Let SQLite group the log, for one of the 28 sums of a tally."""
    began = time.perf_counter()
    sql = "SELECT model, count(*), sum(json_extract(body, '$[1]')) FROM log WHERE tenant = ? GROUP BY model"
    found = _read(file, sql, TENANT)
    return sum(count for _, count, _ in found), time.perf_counter() - began


def _read(file: Path, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(file)
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a hundred thousand builds")
    print(report(quick=parser.parse_args().quick).markdown())
