"""What `brimful serve` costs: time added to each answer, streams at a time, memory over many requests."""

import asyncio
import http.client
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from conversations import with_tools
from proxy_parts import PAUSE, PIECES, THINKING
from tables import Section, duration, table

MESSAGES = 200
ROUNDS = 400
STREAMS = 200
REQUESTS = 10_000
AT_A_TIME = 16
PAUSE_BETWEEN = 0.06  # seconds: what one server still keeps is not to slow the next one down
SHORT = 20  # messages of the requests that memory is measured with
PATH = "/v1/chat/completions"
HEAD = f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
PARTS = Path(__file__).with_name("proxy_parts.py")

ABOUT = f"""An upstream that takes {THINKING * 1000:.0f} ms to respond is called directly, through a bare pass-through,
and through `brimful serve`, in turn, {ROUNDS} times, with a conversation of {MESSAGES} messages that continues from one
request to the next. The pass-through is built with the same libraries and does nothing; what it adds is the cost of one
more hop. "Fits" is a window of 128,000 tokens, where requests are forwarded byte for byte. "Trimmed" is a window that
holds about half of the messages. Every record is stored. Servers and client share the cores of one machine.

Then {STREAMS} concurrent streams of {PIECES} chunks each, one every {PAUSE * 1000:.0f} ms, and the memory of the server
over {REQUESTS:,} requests, {AT_A_TIME} at a time."""


@dataclass(frozen=True, slots=True)
class Server:
    """A process that listens."""

    address: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        """Its port on this machine."""
        return int(self.address.rpartition(":")[2])

    def memory(self) -> float:
        """Return what it holds in memory, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


def report(*, quick: bool) -> Section:
    """Measure all of it."""
    rounds, streams, requests = (20, 20, 200) if quick else (ROUNDS, STREAMS, REQUESTS)
    with ExitStack() as running, tempfile.TemporaryDirectory() as folder:
        upstream = running.enter_context(started(PARTS, "upstream"))
        servers = {
            "directly": upstream,
            "bare pass-through": running.enter_context(started(PARTS, "pass-through", f"{upstream.address}/v1")),
            "brimful, fits": running.enter_context(_proxy(upstream, folder, "fits", 128_000)),
            "brimful, trimmed": running.enter_context(_proxy(upstream, folder, "trimmed", 8_500)),
        }
        print("  proxy: latency", flush=True)
        latency = _latency_table(_latencies(servers, rounds))
        print("  proxy: streams", flush=True)
        flowing = _streams_table(
            {name: asyncio.run(_streams(servers[name], streams)) for name in ("bare pass-through", "brimful, fits")}
        )
        print("  proxy: memory", flush=True)
        memory = _memory_table(_memory(servers["brimful, fits"], requests))
    return Section("The proxy", ABOUT, (latency, flowing, memory))


# -- servers ---------------------------------------------------------------------------------------------------------


@contextmanager
def started(*command: object) -> Iterator[Server]:
    """Run a Python program until it says where it listens, and end it when it is no longer needed."""
    arguments = [sys.executable, *map(str, command)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        try:
            output = process.stdout.readline() if process.stdout else ""
            address = re.search(r"http://[\d.:]+", output)
            if address is None:
                raise RuntimeError(f"{arguments} did not start")
            Thread(target=_drain, args=(process,), daemon=True).start()
            yield Server(address[0], process)
        finally:
            process.terminate()


def _drain(process: subprocess.Popen[str]) -> None:
    """Read its log, so that it never waits for us."""
    for _ in process.stdout or ():
        pass


def _proxy(upstream: Server, folder: str, name: str, window: int) -> Any:
    options = [
        "--listen",
        "127.0.0.1:0",
        "--like",
        "gpt-4o",
        "--window",
        window,
        "--db",
        f"sqlite:///{folder}/{name}.db",
    ]
    return started("-m", "brimful", "serve", "--upstream", f"{upstream.address}/v1", *options)


# -- latency ---------------------------------------------------------------------------------------------------------


def _latencies(servers: dict[str, Server], rounds: int) -> dict[str, list[float]]:
    """Ask all of them in turn, so that a noisy moment hits each; the first rounds are not counted."""
    history = with_tools(turns=MESSAGES).messages
    connections = {name: http.client.HTTPConnection("127.0.0.1", server.port) for name, server in servers.items()}
    found: dict[str, list[float]] = {name: [] for name in servers}
    warm_up = 5
    for turn in range(rounds + warm_up):
        length = MESSAGES - 10 + 2 * (turn % 10)  # one conversation that grows, and begins again
        body = _body(history, length)
        for name, connection in connections.items():
            begun = time.perf_counter()
            connection.request("POST", PATH, body, {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.HTTPStatus.OK:
                raise RuntimeError(f"{name} answered {answer.status}")
            if turn >= warm_up:
                found[name].append(time.perf_counter() - begun)
            time.sleep(PAUSE_BETWEEN)
    return found


def _body(history: Sequence[Any], length: int, *, stream: bool = False) -> bytes:
    messages = [*history[: length - 1], {"role": "user", "content": "And now?"}]
    return json.dumps({"model": "gpt-4o", "max_tokens": 500, "messages": messages, "stream": stream}).encode()


def _latency_table(found: dict[str, list[float]]) -> str:
    direct = found["directly"]
    rows = []
    for name, seconds in found.items():
        added = [mine - theirs for mine, theirs in zip(seconds, direct, strict=True)]
        shown = ["", ""] if name == "directly" else [duration(_quantile(added, 0.5)), duration(_quantile(added, 0.99))]
        rows.append([name, duration(_quantile(seconds, 0.5)), duration(_quantile(seconds, 0.99)), *shown])
    return table(["way", "p50", "p99", "added, p50", "added, p99"], rows)


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


# -- streams ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Flow:
    """Streams at a time: how many came to their end, and how long the slowest took."""

    streams: int
    whole: int
    slowest: float


async def _streams(server: Server, count: int) -> Flow:
    body = _body(with_tools(turns=40).messages, 40, stream=True)

    async def one() -> tuple[bool, float]:
        begun = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = f"{HEAD}content-length: {len(body)}\r\n"
        writer.write(f"{head}connection: close\r\n\r\n".encode() + body)
        data = await reader.read(-1)
        writer.close()
        whole = data.startswith(b"HTTP/1.1 200") and data.count(b"data: ") == PIECES + 2 and b"[DONE]" in data
        return whole, time.perf_counter() - begun

    ends = await asyncio.gather(*(one() for _ in range(count)))
    return Flow(count, sum(whole for whole, _ in ends), max(seconds for _, seconds in ends))


def _streams_table(found: dict[str, Flow]) -> str:
    least = THINKING + PIECES * PAUSE
    rows = [
        [name, f"{flow.streams}", f"{flow.streams - flow.whole}", duration(flow.slowest), duration(least)]
        for name, flow in found.items()
    ]
    return table(["way", "streams at a time", "errors", "slowest", "the upstream's own time"], rows)


# -- memory ----------------------------------------------------------------------------------------------------------


def _memory(server: Server, requests: int) -> list[tuple[int, float]]:
    """Return what the server holds after so many requests, each of another conversation."""
    history = with_tools(turns=SHORT).messages
    found = []
    for part in range(5):
        asyncio.run(_ask_questions(server, history, part, requests // 5))
        found.append(((part + 1) * (requests // 5), server.memory()))
    return found


async def _ask_questions(server: Server, history: Sequence[Any], part: int, count: int) -> None:
    waiting = iter(range(count))

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for at in waiting:
            message = {"role": "user", "content": f"Question {part}-{at}."}
            messages = [message, *history[: SHORT - 2], message]
            body = json.dumps({"model": "gpt-4o", "max_tokens": 50, "messages": messages}).encode()
            head = f"{HEAD}content-length: {len(body)}"
            writer.write(f"{head}\r\n\r\n".encode() + body)
            result = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(re.findall(rb"(?i)content-length: (\d+)", result)[0]))
            if not result.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(result.decode())
        writer.close()

    await asyncio.gather(*(one() for _ in range(AT_A_TIME)))


def _memory_table(found: Sequence[tuple[int, float]]) -> str:
    return table(
        ["requests", *(f"{count:,}" for count, _ in found)], [["memory, MB", *(f"{mb:.0f}" for _, mb in found)]]
    )


if __name__ == "__main__":
    print(report(quick="--quick" in sys.argv).markdown())
