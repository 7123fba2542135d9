"""Many tenants in one process and in one database: memory, the questions a server asks all day, and vector graphs.

python benchmarks/tenants.py                  10,000 tenants, one after the other, on SQLite
python benchmarks/tenants.py --postgres URL   and a million tenants in PostgreSQL, in databases of its own
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from statistics import median

import httpx2
import psycopg

import graphs
from brimful.cache import DEFAULT_BUDGET, MEBIBYTE, set_cache_limit
from brimful.embedding import embedder_for
from brimful.engine.worker import Worker, WorkSettings
from brimful.server.app import create_app
from brimful.server.config import Config, RememberConfig, ServerLimits
from brimful.server.tenants import Tenants
from brimful.stores import connect
from brimful.telemetry.prometheus import memory_bytes
from checkouts import new_database
from tables import Section, duration, table

TENANTS = 10_000
STORED_TENANTS = (1, 1_000_000)
CACHE_MB = (8, DEFAULT_BUDGET // MEBIBYTE)
CALLS = 50
STEPS = 5
MESSAGES = (
    "The garden fence is green, and the gate needs new hinges before winter.",
    "Order 4711 was sent on Tuesday by train, and its invoice is still open.",
    "Which colour has the fence?",
)

FILL = """
INSERT INTO tenants (tenant) SELECT 'tenant-' || lpad(n::text, 7, '0') FROM generate_series(1, {0}) n;
INSERT INTO jobs (tenant, kind, subject, due)
SELECT 'tenant-' || lpad(n::text, 7, '0'), 'embed', 'static', 2e9 FROM generate_series(1, {0}) n
"""
ABOUT = f"""{TENANTS:,} tenants use one process, one after the other, as in `brimful serve` with a SQLite store: each
posts {len(MESSAGES) - 1} messages and builds a context, whose record is stored, while a worker embeds the messages. The
engines of the {ServerLimits().max_engines:,} most recent tenants stay open (`limits.max_engines`). Memory is that of
the whole process. Its caches grow until they reach their limit, and then let go of what was not used for longest."""
ABOUT_STORED = f"""

The second table shows what a server and a worker ask a PostgreSQL database all day, with one tenant and with a million,
each with a job that is not due yet: median of {CALLS} calls. The third is the recall@{graphs.NEAREST} of the vector
graph of a tenant that owns {100 * graphs.SHARE} % of the rows, with {graphs.DIMS} dimensions: random vectors, and those
of real texts."""


def report(postgres: str | None = None, *, quick: bool) -> Section:
    """Measure memory after every so many tenants and, in PostgreSQL, what many stored tenants cost."""
    # The smaller cache first: a process does not return all of its memory.
    rows = [asyncio.run(_measure(200 if quick else TENANTS, megabytes)) for megabytes in CACHE_MB]
    head = ["tenants so far", "engines", *(f"memory, `cache_mb = {megabytes}`" for megabytes in CACHE_MB)]
    tables = [table(head, [[*small, large] for small, (_, _, large) in zip(*rows, strict=True)])]
    if postgres:
        asked = []
        for tenants in STORED_TENANTS:
            with new_database(postgres) as url:
                asked.append(asyncio.run(_ask(url, min(tenants, 10_000) if quick else tenants)))
        tables.append(table(["tenants", "`GET /ready`", "page of 1,000 tenants", "jobs that are due"], asked))
        with new_database(postgres) as url:
            recall = asyncio.run(graphs.measure(url, rows=10_000 if quick else graphs.ROWS))
        tables.append(table(["vectors", "of the tenant", "of all tenants", "recall"], recall))
    return Section("Tenants", ABOUT + (ABOUT_STORED if postgres else ""), tuple(tables))


async def _ask(url: str, tenants: int) -> list[str]:
    """Return how long it takes to ask a database with so many tenants."""
    async with connect(url) as database:
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in FILL.format(tenants).split(";"):
                connection.execute(statement.encode())
            connection.execute(b"ANALYZE")
        app = create_app(Config(store=url, background_work=False))
        transport = httpx2.ASGITransport(app)
        async with app.open(), httpx2.AsyncClient(transport=transport) as client:

            async def ready() -> None:
                (await client.get("http://127.0.0.1/ready")).raise_for_status()

            questions = (
                ready,
                lambda: database.tenants(after=f"tenant-{tenants // 2:07}"),
                lambda: database.due_jobs("embed", None, now=1e9),
            )
            taken = [await _median(each) for each in questions]
    return [f"{tenants:,}", *map(duration, taken)]


async def _median(call: Callable[[], Awaitable[object]]) -> float:
    taken = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - began)
    return median(taken)


async def _measure(tenants: int, cache_mb: int) -> list[list[str]]:
    set_cache_limit(cache_mb * MEBIBYTE)
    embedder, limits = embedder_for("static"), ServerLimits()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        async with connect(f"sqlite:///{folder}/store.db") as database:
            served = Tenants(
                database,
                RememberConfig(),
                embedder=embedder,
                policies={},
                clock=time.time,
                max_open=limits.max_engines,
                idle=limits.engine_idle,
            )
            worker = Worker(database, WorkSettings(embedder=embedder), open_engine=served.engine)
            worker.start()
            for number in range(tenants):
                engine = await served.engine(f"tenant-{number}")
                for text in MESSAGES[:-1]:
                    await engine.post(room="general", text=text)
                await engine.assemble(room="general", message=MESSAGES[-1], model="gpt-4o")
                worker.wake()
                if (number + 1) % max(1, tenants // STEPS) == 0:
                    rows.append([f"{number + 1:,}", f"{served.engines:,}", f"{memory_bytes() / 2**20:.0f} MB"])
                    print(f"  tenants: {' '.join(rows[-1])}", flush=True)
            await worker.stop()
            await served.close()
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", default=None, help="the URL of a server on which databases may be created")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    print(report(options.postgres, quick=options.quick).markdown())
