"""Disturb each part of a deployment under load: `python tools/chaos.py [--citus] [--requests N]`, or `make chaos`.

Two servers, two workers, PgBouncer and PostgreSQL run on this machine; with `--citus`, a cluster of three (see
citus.py). Clients of several tenants chat, post and read through both servers. They repeat requests only after a 429,
a 502, a 503 or a lost connection. At the end, everything acknowledged must be there once, with its vector, and only in
its tenant.

Each part is killed once. With `--requests`, the load goes on for that many requests, with another fault every half
minute: parts are killed or stand still, as behind a network that is gone, the model fails, is busy or does not answer,
and the database's disk is slow or full. What is never killed (a server and a worker) must not grow, and a user's limit
must hold to the token.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import math
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import citus
import httpx2
import psycopg
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from brimful.records import Room
from brimful.stores import Database, connect
from brimful.stores.tables.jobs import Job

TENANTS = [f"tenant{number}" for number in range(8)]
ROOMS = ["tea", "garden"]  # the same ids in every tenant, for one client each
STEADY = 4.0  # seconds under load before each kill
DOWN = 4.0  # seconds before a part is started again
PAUSE = 25.0  # between two faults of a long run
SAMPLES = 10  # in a long run
PLAIN = 60  # requests between two turns that are remembered, in a long run
GROWTH = 1.25  # how much memory and open files may grow from the second sample to the last
DISK = "8g"  # of the database in a long run, in memory
BILLED = 110  # tokens of each answer of the model
ALLOWED = 300_000  # tokens that the limited user may use in a month
PATIENCE = 300.0  # for a part to start, and for the rest of the work; the lease of a killed worker takes 90 seconds
RETRIED = {429, 502, 503}
OK = 200
LIMITED = 402
SETTINGS = "listen_addresses = '127.0.0.1'\nfsync = off\nmax_connections = 200\n"  # a kill is no power failure
POOLER = """
[databases]
* = host=127.0.0.1 port={postgres} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
server_login_retry = 1
auth_type = any
"""
SERVER = """
listen = "127.0.0.1:{port}"
store = "{store}"
mode = "remember"
require_keys = true
background_work = false
records = "trimmed"
cache_mb = 32
limits = {{ requests_per_minute = 1000000 }}
[[upstreams]]
name = "fake"
url = "{upstream}/v1"
window = 8192
"""
WITHOUT_VECTOR = """
SELECT count(*) FROM documents d
WHERE passage <> '' AND NOT EXISTS (SELECT FROM vectors v WHERE v.tenant = d.tenant AND v.hash = d.passage)
"""
# The package's pgvector is built for ARM processors with SVE; on others, its own function would end the server.
PORTABLE_PRODUCT = """
SET citus.enable_ddl_propagation = off;
CREATE OR REPLACE FUNCTION halfvec_negative_inner_product(halfvec, halfvec) RETURNS float8
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS 'SELECT -sum(a::float8 * b::float8) FROM unnest($1::real[], $2::real[]) AS pairs (a, b)'
"""
SLOW_DISK = ("fsync = on", "commit_siblings = 0", "commit_delay = 100000")
"""Each commit waits for 100 ms before it is flushed."""
PLACE = """
SELECT nodeport FROM citus_shards
WHERE table_name = 'tenants'::regclass AND shardid = get_shard_id_for_distribution_column('tenants', %s::text)
"""


class Part:
    """A process that is killed and started again."""

    def __init__(
        self, name: str, port: int, command: Sequence[str | Path], *, folder: Path, user: str | None = None
    ) -> None:
        self.name = name
        self.port = port  # where it listens; 0 for a worker, which writes a line when it is ready
        self._command = command
        self._log = folder / f"{name}.log"
        self._user = user
        self._starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid if self._process is not None else 0

    async def start(self) -> None:
        """Start it and wait until it is ready. PostgreSQL refuses to start while processes of the killed one end."""
        until = time.monotonic() + PATIENCE
        while not self.runs or not self._is_ready():
            if time.monotonic() > until:
                sys.exit(f"{self.name} does not start; see {self._log}")
            if not self.runs:
                self._spawn()
            await asyncio.sleep(0.2)

    def _spawn(self) -> None:
        self._starts += 1
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, user=self._user, cwd="/", stdout=log, stderr=log)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal, and wait for its end."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()

    def send(self, number: int) -> None:
        """Send a signal to it and to the processes that it started."""
        for pid in (self.pid, *map(int, Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split())):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _is_ready(self) -> bool:
        if not self.port:
            return self._log.read_text().count("working;") == self._starts
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == 0


class Line:
    """A connection to a server, in a tenth of the processor time of an HTTP library: the rest is for the servers."""

    def __init__(self, address: str) -> None:
        self._host, _, port = address.removeprefix("http://").partition(":")
        self._port = int(port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, head: str, body: bytes) -> tuple[int, bytes]:
        """Send a request, and return the status and the body of the answer."""
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(self._host, self._port)
            reader, writer = self._streams
            json_head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n{head}"
            writer.write(f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{json_head}\r\n\r\n".encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", answer.lower())
            return int(answer[9:12]), await reader.readexactly(int(length[1]) if length else 0)
        except (OSError, EOFError):
            if self._streams is not None:
                self._streams[1].close()
            self._streams = None
            raise


class Load:
    """Clients of all tenants, and what was acknowledged to them."""

    def __init__(self, addresses: Sequence[str], keys: dict[str, str], faults: list[str], *, plain: int = 0) -> None:
        """Use these servers. Between two turns that are remembered, a client sends `plain` requests that are not."""
        self.acknowledged: dict[tuple[str, str], list[str]] = {}  # by tenant and room
        self.faults = faults
        self.requests: Counter[str] = Counter()
        self.done: list[tuple[str, float, float]] = []  # tenant, begin and end of each call, with its retries
        self.running = True
        self.spent = 0  # tokens of answers that the limited user got
        self._plain = plain
        self._addresses = addresses
        self._keys = keys

    async def run(self) -> None:
        """Run all clients until `running` is false."""
        async with httpx2.AsyncClient(timeout=60) as client, asyncio.TaskGroup() as group:
            group.create_task(self._spend(client, TENANTS[0]))
            for number, (tenant, room) in enumerate(itertools.product(TENANTS, ROOMS)):
                group.create_task(self._talk(client, tenant, room, number))

    async def _spend(self, client: httpx2.AsyncClient, tenant: str) -> None:
        """Send requests of one user until a limit stops them."""
        headers = {"authorization": f"Bearer {self._keys[tenant]}", "x-brimful-mode": "fit"}
        question = {"role": "user", "content": f"[{tenant}] How much is left?"}
        body = {"model": "gpt-4o", "max_tokens": 10, "user": "spender", "messages": [question]}
        for address in itertools.cycle(self._addresses):
            with contextlib.suppress(httpx2.TransportError):
                answer = await client.post(f"{address}/v1/chat/completions", json=body, headers=headers)
                self.spent += BILLED if answer.is_success else 0
                if answer.status_code == LIMITED:
                    return
            if not self.running:
                return
            await asyncio.sleep(0.05)

    async def _talk(self, client: httpx2.AsyncClient, tenant: str, room: str, first: int) -> None:
        """Chat, post and read in turn. Ids and rooms are those of the other tenants, too; texts name the tenant."""
        history: list[dict[str, str]] = []
        noted = self.acknowledged[tenant, room] = []
        notes = self.acknowledged[tenant, f"{room}-notes"] = []
        servers = itertools.cycle(self._addresses[:: 1 if first % 2 else -1])
        lines = itertools.cycle([Line(address) for address in self._addresses])
        path = f"/brimful/v1/rooms/{room}-notes/messages"
        for number in itertools.count():
            if not self.running:
                return
            question = {"role": "user", "content": f"[{tenant}] What about fence {number} in the {room}?"}
            body = {"model": "gpt-4o", "messages": [*history[-6:], question]}
            headers = {"x-brimful-conversation": room}
            sent = await self._call(client, servers, tenant, "POST", "/v1/chat/completions", json=body, headers=headers)
            answer = sent["choices"][0]["message"]["content"]
            if not answer.endswith(question["content"]):
                self.faults.append(f"{question['content']} got: {answer}")
            history += [question, {"role": "assistant", "content": answer}]
            noted += [question["content"], answer]
            note = f"[{tenant}] Fence {number} is green."
            await self._call(client, servers, tenant, "POST", path, json={"content": note, "id": f"{room}-{number}"})
            notes.append(note)
            await self._call(client, servers, tenant, "GET", path, params={"q": f"fence {number}"})
            for _ in range(self._plain):
                await self._ask(lines, tenant, json.dumps(body).encode())

    async def _ask(self, lines: Iterator[Line], tenant: str, body: bytes) -> None:
        """Send a request that is only trimmed, and repeat it like any other."""
        begin = time.monotonic()
        head = f"authorization: Bearer {self._keys[tenant]}\r\nx-brimful-mode: fit"
        status = 0
        while status != OK:
            try:
                status, answer = await next(lines).post("/v1/chat/completions", head, body)
            except (OSError, EOFError) as error:
                self.requests[type(error).__name__] += 1
            else:
                self.requests[str(status)] += 1
                if status != OK and status not in RETRIED:
                    self.faults.append(f"{tenant}: {status} {answer[:300]!r}")
            await asyncio.sleep(0 if status == OK else 0.1)
        self.done.append((tenant, begin, time.monotonic()))
        self.faults += [f"{tenant} sees {other}" for other in foreign(answer.decode(), tenant)]

    async def _call(
        self, client: httpx2.AsyncClient, servers: Any, tenant: str, method: str, path: str, **options: Any
    ) -> Any:
        headers = {"authorization": f"Bearer {self._keys[tenant]}"} | options.pop("headers", {})
        begin = time.monotonic()
        while True:
            try:
                answer = await client.request(method, next(servers) + path, headers=headers, **options)
            except httpx2.TransportError as error:
                self.requests[type(error).__name__] += 1
            else:
                self.requests[str(answer.status_code)] += 1
                if answer.is_success:
                    break
                if answer.status_code not in RETRIED:
                    self.faults.append(f"{method} {path} of {tenant}: {answer.status_code} {answer.text[:300]}")
            await asyncio.sleep(0.1)
        self.done.append((tenant, begin, time.monotonic()))
        self.faults += [f"{tenant} sees {other}: {path}" for other in foreign(answer.text, tenant)]
        return answer.json()


def foreign(text: str, tenant: str) -> set[str]:
    """Return the other tenants that a text names."""
    return set(re.findall(r"tenant\d+", text)) - {tenant}


class Model:
    """What is wrong with the model. `works` is not set while it does not answer at all."""

    def __init__(self) -> None:
        self.status = OK
        self.works = asyncio.Event()
        self.works.set()

    def fail(self, status: int) -> None:
        """Answer each request with an error."""
        self.status = status

    async def recover(self) -> None:
        """Answer again."""
        self.status = OK
        self.works.set()


@contextlib.asynccontextmanager
async def upstream(faults: list[str], model: Model) -> AsyncIterator[str]:
    """Run a model that repeats the question, and notes requests with texts of several tenants."""
    numbers = itertools.count()

    async def answer(request: Request) -> JSONResponse:
        await model.works.wait()
        if model.status != OK:
            headers = {"retry-after": "1"}
            return JSONResponse({"error": {"message": "overloaded", "type": "server_error"}}, model.status, headers)
        try:
            body = (await request.body()).decode()
        except ClientDisconnect:  # the server was killed
            return JSONResponse(None, 499)
        question = json.loads(body)["messages"][-1]["content"]
        named = set(re.findall(r"tenant\d+", body))
        faults.extend([f"a context has texts of {named}"] if len(named) != 1 else [])
        message = {"role": "assistant", "content": f"Answer {next(numbers)} to {question}"}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse({"id": "1", "object": "chat.completion", "created": 1, "choices": [choice], "usage": usage})

    app = Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None))
    task = asyncio.create_task(server.serve())
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await task


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def mount(folder: Path) -> Path:
    """Make a disk in memory, which can be filled without harm."""
    folder.mkdir()
    folder.parent.chmod(0o755)  # the servers may run as another user
    subprocess.run(["/usr/bin/mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", folder], check=True)
    return folder


def databases(folder: Path, count: int) -> list[Part]:
    """Create the servers of the database: one, or a coordinator and its workers."""
    folder.chmod(0o755)  # the servers may run as another user
    programs, user = citus.pg_config("--bindir"), citus.server_user()
    parts = []
    for name in ["PostgreSQL"] if count == 1 else ["coordinator", "Citus worker 1", "Citus worker 2"]:
        data, port = folder / name.replace(" ", "-"), free_port()
        data.mkdir(mode=0o700)
        shutil.chown(data, user or os.geteuid())
        initdb = [programs / "initdb", "--auth=trust", "--username=postgres", "--encoding=utf8", data]
        subprocess.run(list(map(str, initdb)), user=user, cwd="/", check=True, stdout=subprocess.DEVNULL)
        with (data / "postgresql.conf").open("a") as settings:
            own = f"port = {port}\nunix_socket_directories = '{data}'\n"
            settings.write((SETTINGS if count == 1 else citus.SETTINGS) + own)
        parts.append(Part(name, port, [programs / "postgres", "-D", data], folder=folder, user=user))
    return parts


def execute(part: Part, statement: str, *values: str, database: str = "store") -> Any:
    """Run a statement on one server of the database, and return its first row."""
    with psycopg.connect(f"postgresql://postgres@127.0.0.1:{part.port}/{database}", autocommit=True) as connection:
        done = connection.execute(statement.encode(), values or None)
        return done.fetchone() if done.description else None


async def create(nodes: Sequence[Part]) -> None:
    """Start the database servers and connect them."""
    for node in nodes:
        await node.start()
        await answers(node)
        execute(node, "CREATE DATABASE store", database="postgres")
        for extension in ["vector"] if len(nodes) == 1 else ["citus", "vector"]:
            execute(node, f"CREATE EXTENSION {extension}")
        if platform.machine() == "aarch64":
            execute(node, PORTABLE_PRODUCT)
    if len(nodes) > 1:
        execute(nodes[0], f"SELECT citus_set_coordinator_host('127.0.0.1', {nodes[0].port})")
        for node in nodes[1:]:
            execute(nodes[0], f"SELECT citus_add_node('127.0.0.1', {node.port})")


async def answers(node: Part) -> None:
    """Wait until a database server has recovered."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            execute(node, "SELECT 1", database="postgres")
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.1)
        else:
            return


async def prepare(url: str, *, distributed: bool) -> dict[str, str]:
    """Create the rooms and a key of each tenant."""
    keys = {}
    async with connect(url) as database:
        if distributed:
            await database.distribute(shards=8)
        for tenant in TENANTS:
            for room in ROOMS:
                await database.tenant(tenant).put(Room(id=f"{room}-notes"))
            scopes = ["chat", "read", "write"]
            _, keys[tenant] = await database.api_keys(tenant).create(name="chaos", scopes=scopes, at=time.time())
        await database.limits(TENANTS[0]).set_own("user", "spender", {"tokens_per_month": ALLOWED})
    return keys


async def kill_all(parts: Sequence[Part], nodes: Sequence[Part], load: Load) -> None:
    """Kill each part, start it again, and print how long clients waited."""
    places = {} if len(nodes) == 1 else {tenant: execute(nodes[0], PLACE, tenant)[0] for tenant in TENANTS}
    while len(load.done) < 3 * len(TENANTS) * len(ROOMS):  # noqa: ASYNC110 - the first calls open everything
        await asyncio.sleep(0.1)
    for part in parts:
        await asyncio.sleep(STEADY)
        killed = time.monotonic()
        part.kill()
        await asyncio.sleep(DOWN)
        back = time.monotonic()
        await part.start()
        if part in nodes:
            await answers(part)
        ready = time.monotonic()
        await asyncio.sleep(STEADY)
        first = min((end for _, _, end in load.done if end > ready), default=math.inf) - ready
        waits = [end - begin for _, begin, end in load.done if end > killed]
        load.faults += [] if waits else [f"nobody was served after {part.name} was killed"]
        line = f"{part.name}: {len(waits)} calls since the kill, the first one {first:.1f} s after it was back"
        line += f", the slowest took {max(waits, default=0):.1f} s"
        if part in nodes[1:]:
            others = {tenant for tenant, place in places.items() if place != part.port}
            inside = [(who, end - begin) for who, begin, end in load.done if who in others and killed < end < back]
            line += f"; {len(inside)} calls of {len(others)} tenants elsewhere while it was down"
            line += f", the slowest took {max((wait for _, wait in inside), default=0):.1f} s"
            waited = others - {who for who, _ in inside}
            load.faults += [f"{tenant} was not served without {part.name}" for tenant in waited]
        print(line, flush=True)
        load.faults += [f"{other.name} ended when {part.name} was killed" for other in parts if not other.runs]


class Fault(NamedTuple):
    """Something that goes wrong for a few seconds."""

    name: str
    begin: Callable[[], object]
    end: Callable[[], Awaitable[object]]


def list_faults(parts: Sequence[Part], nodes: Sequence[Part], model: Model, disk: Path | None) -> list[Fault]:
    """Return the faults of a long run, in turn. The first server and the first worker are only stopped for a while."""

    async def recover(part: Part) -> None:
        await part.start()
        if part in nodes:
            await answers(part)

    async def resume(part: Part) -> None:
        part.send(signal.SIGCONT)
        await asyncio.sleep(0)

    async def make_fast() -> None:
        change_settings(nodes, "RESET ALL")
        await asyncio.sleep(0)

    async def free(ballast: Path) -> None:
        await asyncio.to_thread(ballast.unlink)
        for part in nodes:
            await recover(part)

    faults = [
        Fault("the model fails", lambda: model.fail(503), model.recover),
        Fault("the model is busy", lambda: model.fail(429), model.recover),
        Fault("the model does not answer", model.works.clear, model.recover),
        Fault("the disk is slow", lambda: change_settings(nodes, *(f"SET {each}" for each in SLOW_DISK)), make_fast),
    ]
    if disk is not None:
        ballast = disk / "ballast"
        faults.append(Fault("the disk is full", lambda: fill(ballast), lambda: free(ballast)))
    for part in parts:
        if not part.name.endswith(" 1"):
            faults.append(Fault(f"{part.name} is killed", part.kill, lambda part=part: recover(part)))
        faults.append(
            Fault(
                f"{part.name} stands still",
                lambda part=part: part.send(signal.SIGSTOP),
                lambda part=part: resume(part),
            )
        )
    return faults


def change_settings(nodes: Sequence[Part], *changes: str) -> None:
    """Change settings of the database servers while they run."""
    for node in nodes:
        for change in changes:
            execute(node, f"ALTER SYSTEM {change}")
        execute(node, "SELECT pg_reload_conf()")


def fill(file: Path) -> None:
    """Fill a disk with one file, in ever smaller pieces, since others write at the same time."""
    with file.open("wb") as ballast:
        length = 0
        for piece in (1 << 28, 1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(ballast.fileno(), length, piece)
                    length += piece


def measure(part: Part) -> tuple[float, int]:
    """Return the memory of a process in MB, and the number of its open files."""
    pages = int(Path(f"/proc/{part.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6, len(list(Path(f"/proc/{part.pid}/fd").iterdir()))


async def disturb(parts: Sequence[Part], nodes: Sequence[Part], load: Load, faults: list[Fault], requests: int) -> None:
    """Cause one fault after the other until there were so many requests. Print what the parts use in between."""
    steady = [part for part in parts if part.name in ("server 1", "worker 1")]
    print(
        "| requests | median | slowest | "
        + " | ".join(f"{part.name}: MB, files" for part in steady)
        + " | connections |"
    )
    print("|---" * (len(steady) + 4) + "|", flush=True)
    turns, seen, kinds = itertools.cycle(faults), 0, Counter[str]()
    usage: dict[str, list[tuple[float, int]]] = {part.name: [] for part in steady}
    for sample in range(1, SAMPLES + 1):
        while len(load.done) < requests * sample // SAMPLES:
            await asyncio.sleep(PAUSE)
            fault = next(turns)
            kinds[fault.name] += 1
            fault.begin()
            await asyncio.sleep(DOWN)
            await fault.end()
            load.faults += [f"{part.name} ended: {fault.name}" for part in parts if not part.runs]
        waits = [end - begin for _, begin, end in load.done[seen:]] or [0.0]
        seen = len(load.done)
        used = [measure(part) for part in steady]
        for part, row in zip(steady, used, strict=True):
            usage[part.name].append(row)
        connections = execute(nodes[0], "SELECT count(*) FROM pg_stat_activity WHERE datname = 'store'")[0] - 1
        cells = [f"{seen:,}", f"{1_000 * median(waits):.0f} ms", f"{max(waits):.1f} s"]
        cells += [f"{megabytes:.0f}, {files}" for megabytes, files in used]
        print(f"| {' | '.join([*cells, str(connections)])} |", flush=True)
    for name, rows in usage.items():
        for what, values in zip(("memory", "number of open files"), zip(*rows, strict=True), strict=True):
            load.faults += [f"the {what} of {name} grew: {values}"] if values[-1] > GROWTH * values[1] else []
    print(f"{kinds.total()} faults: " + ", ".join(f"{name} ({count})" for name, count in kinds.items()), flush=True)


async def check_limit(url: str, load: Load) -> None:
    """Check that the limited user was stopped at the limit, and that every answer was counted."""
    async with connect(url) as database:
        used = (await database.limits(TENANTS[0]).used("user", "spender", now=time.time()))["month"].tokens
    print(
        f"limit of {ALLOWED:,} tokens: {used:,} used, {load.spent:,} by {load.spent // BILLED:,} answers that arrived"
    )
    if not load.spent <= used <= ALLOWED:
        load.faults.append(f"the limit of {ALLOWED} does not hold: {used} used, {load.spent} by answers that arrived")


async def unfinished(database: Database) -> list[Job]:
    """Return jobs that embed or failed. Others come back again and again."""
    return [job for job in await database.list_jobs(limit=1_000) if job.kind == "embed" or job.error]


async def check(url: str, coordinator: Part, load: Load) -> int:
    """Compare the store with what was acknowledged, and return the number of messages there."""
    stored = 0
    async with connect(url) as database:
        for _ in range(int(PATIENCE)):
            if not (jobs := await unfinished(database)):
                break
            await asyncio.sleep(1)
        load.faults += [f"left to do: {job}" for job in jobs]
        load.faults += [finding.text for finding in await database.check() if finding.level == "error"]
        for (tenant, room), texts in load.acknowledged.items():
            found: list[str] = []
            before = None
            while page := await database.tenant(tenant).history(room, before=before, limit=1_000):
                found += [str(entry.message.content) for entry in page]
                before = page[-1].message.seq
            stored += len(found)
            counts = Counter(found)
            load.faults += [f"{tenant}/{room} has {counts[text]} times: {text}" for text in texts if counts[text] != 1]
            load.faults += [f"{tenant}/{room} has {text}" for text in found if foreign(text, tenant)]
    if missing := execute(coordinator, WITHOUT_VECTOR)[0]:
        load.faults.append(f"{missing} documents have no vector")
    return stored


def summarize(load: Load, stored: int, folder: Path) -> None:
    """Print what came of it."""
    acknowledged = sum(map(len, load.acknowledged.values()))
    print(f"{sum(load.requests.values())} requests: {dict(load.requests)}")
    print(f"{acknowledged} messages acknowledged, {stored} stored, {len(load.faults)} faults; logs: {folder}")
    print(*load.faults[:40], sep="\n")


async def main() -> int:
    """Run everything, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--citus", action="store_true", help="on a cluster of three")
    parser.add_argument("--requests", type=int, help="go on for so many requests; as root, the disk gets full, too")
    options = parser.parse_args()
    (citus.build if options.citus else citus.install)()
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin") or sys.exit("install pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="brimful-chaos-"))
    disk = mount(folder / "disk") if options.requests and os.geteuid() == 0 else None
    nodes = databases(disk or folder, 3 if options.citus else 1)
    port = free_port()
    url = f"postgresql://postgres@127.0.0.1:{port}/store"
    (folder / "pgbouncer.ini").write_text(POOLER.format(port=port, postgres=nodes[0].port))
    pooler = Part("PgBouncer", port, [program, folder / "pgbouncer.ini"], folder=folder, user=citus.server_user())
    brimful = [sys.executable, "-m", "brimful"]
    faults: list[str] = []
    parts = [pooler, *nodes]
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    try:
        model = Model()
        async with upstream(faults, model) as address:
            await create(nodes)
            await pooler.start()
            keys = await prepare(url, distributed=options.citus)
            ports = [free_port(), free_port()]
            for number, port in enumerate(ports, 1):
                config = folder / f"server{number}.toml"
                config.write_text(SERVER.format(port=port, store=url, upstream=address))
                command = [*brimful, "serve", "--config", str(config)]
                parts.insert(number - 1, Part(f"server {number}", port, command, folder=folder))
            workers = [Part(f"worker {each}", 0, [*brimful, "work", "--db", url], folder=folder) for each in (1, 2)]
            parts[2:2] = workers
            for part in parts[:4]:
                await part.start()
            plain = PLAIN if options.requests else 0
            load = Load([f"http://127.0.0.1:{port}" for port in ports], keys, faults, plain=plain)
            clients = asyncio.create_task(load.run())
            if options.requests:
                await disturb(parts, nodes, load, list_faults(parts, nodes, model, disk), options.requests)
            else:
                await kill_all(parts, nodes, load)
            load.running = False
            await asyncio.wait_for(clients, PATIENCE)
            stored = await check(url, nodes[0], load)
            await check_limit(url, load)
    finally:
        for part in parts:
            part.kill(signal.SIGKILL if part not in nodes else signal.SIGQUIT)
        if disk is not None:
            subprocess.run(["/usr/bin/umount", "--lazy", disk], check=True)  # noqa: ASYNC221 - nothing runs any more
    summarize(load, stored, folder)
    return 1 if load.faults else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
