"""Many tenants through one process: the memory of a server that lets engines of idle tenants go.

python benchmarks/tenants.py [TENANTS]
"""

import asyncio
import sys
import tempfile
import time

from brimful.embedding import embedder_for
from brimful.engine.worker import Worker, WorkSettings
from brimful.server.config import RememberConfig, ServerLimits
from brimful.server.tenants import Tenants
from brimful.stores import connect
from brimful.telemetry.prometheus import memory_bytes
from tables import Section, table

TENANTS = 10_000
STEPS = 5
MESSAGES = (
    "The garden fence is green, and the gate needs new hinges before winter.",
    "Order 4711 was sent on Tuesday by train, and its invoice is still open.",
    "Which colour has the fence?",
)

ABOUT = f"""{TENANTS:,} tenants use one process, one after the other, as in `brimful serve` with a SQLite store: each
posts {len(MESSAGES) - 1} messages and builds a context, whose record is stored, while a worker embeds the messages. The
engines of the {ServerLimits().max_engines:,} most recent tenants are kept (`limits.max_engines`). Memory is that of the
whole process, its caches included."""


def report(*, quick: bool) -> Section:
    """Measure memory after every so many tenants."""
    rows = asyncio.run(_measure(200 if quick else TENANTS))
    return Section("Tenants", ABOUT, (table(["tenants so far", "engines", "memory"], rows),))


async def _measure(tenants: int) -> list[list[str]]:
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
    asyncio.run(_measure(int(sys.argv[1]) if len(sys.argv) > 1 else TENANTS))
