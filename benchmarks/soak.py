"""What stays the same in a long run of `brimful serve`: CPU per request, memory, and the cost of a remembered turn."""

import asyncio
import http.client
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from proxy import PARTS, PATH, Server, started
from tables import Section, duration, table
from texts import Texts

REQUESTS = 20_000
AT_A_TIME = 8
POINTS = 8  # at which memory is measured
TURNS = (20, 100, 500, 1_000, 2_000)  # of one room
MEASURED_TURNS = 10  # up to each of those
WINDOW = 4_000  # tokens, full after 20 turns
CACHE_MB = 64  # so that the caches are full early
SIZES = {"2 kB": (2_000, 200), "200 kB, seen before": (200_000, 1_000), "2 MB, trimmed": (2_000_000, 1_000)}
ROUNDS = {"2 kB": 200, "200 kB, seen before": 40, "2 MB, trimmed": 5}

ABOUT = f"""The first table has the CPU time of the server process, with an upstream that answers at once. Every
context is recorded in SQLite. The same conversation is sent repeatedly, each time with another question at its end.

The second table has the memory of one server over many mixed requests, {AT_A_TIME} at a time, with `cache_mb =
{CACHE_MB}`: short and long conversations, some trimmed, some streamed, some remembered in one of a thousand rooms,
with many model names, and some that are invalid.

The third table has the CPU time of a turn of one room in `remember` mode with a window of {WINDOW:,} tokens, for a
client that sends only its new message: the mean of {MEASURED_TURNS} turns. The cost rises until the window is full
and older turns are searched, and then stays the same."""


def report(*, quick: bool) -> Section:
    """Measure all of it."""
    requests, turns = (400, (20, 40)) if quick else (REQUESTS, TURNS)
    with ExitStack() as running, tempfile.TemporaryDirectory() as folder:
        upstream = running.enter_context(started(PARTS, "instant"))
        print("  soak: CPU", flush=True)
        cpu = _cpu_table(upstream, folder, quick=quick)
        print("  soak: memory", flush=True)
        memory = _memory_table(upstream, folder, requests)
        print("  soak: turns", flush=True)
        turn = _turns_table(upstream, folder, turns)
    return Section("The proxy in a long run", ABOUT, (cpu, memory, turn))


def _serve(upstream: Server, folder: str, name: str, settings: str = "") -> Any:
    config = Path(folder) / f"{name}.toml"
    config.write_text(
        f"""
        listen = "127.0.0.1:0"
        store = "sqlite:///{folder}/{name}.db"
        {settings}
        [[upstreams]]
        name = "upstream"
        url = "{upstream.address}/v1"
        {"window = " + str(WINDOW) if name == "turns" else ""}
        like = "gpt-4o"
        [limits]
        requests_per_minute = 1_000_000_000
        """,
        encoding="utf-8",
    )
    return started("-m", "brimful", "serve", "--config", config)


def cpu_seconds(server: Server) -> float:
    """Return the CPU time that a server has used so far."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Client:
    """A connection that waits for each answer."""

    def __init__(self, server: Server) -> None:
        """Connect when it is first used."""
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port)

    def ask(self, body: dict[str, Any], **headers: str) -> dict[str, Any]:
        """Send a request, and return the answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request("POST", PATH, json.dumps(body), {"content-type": "application/json"} | named)
        response = self._connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        if response.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{response.status}: {answer}")
        return answer


def conversation(texts: Texts, size: int, each: int) -> list[dict[str, str]]:
    """Return messages of about `each` characters, `size` characters together."""
    turns = max(1, size // each // 2)
    return [{"role": role, "content": texts.prose(each)} for _ in range(turns) for role in ("user", "assistant")]


def _question(history: Sequence[dict[str, str]], number: int) -> dict[str, Any]:
    message = {"role": "user", "content": f"And then, question {number}?"}
    return {"model": "gpt-4o", "max_tokens": 500, "messages": [*history, message]}


# -- CPU -------------------------------------------------------------------------------------------------------------


def _cpu_table(upstream: Server, folder: str, *, quick: bool) -> str:
    texts, rows = Texts(3), []
    with _serve(upstream, folder, "cpu") as server:
        client = Client(server)
        for name, (size, each) in SIZES.items():
            history, rounds = conversation(texts, size, each), 2 if quick else ROUNDS[name]
            for number in range(3):
                client.ask(_question(history, number))
            begun = cpu_seconds(server)
            for number in range(rounds):
                client.ask(_question(history, 3 + number))
            asyncio.run(asyncio.sleep(0.5))  # what is recorded in the background counts, too
            rows.append([name, f"{len(history):,}", duration((cpu_seconds(server) - begun) / rounds)])
    return table(["request", "messages", "CPU time"], rows)


# -- memory ----------------------------------------------------------------------------------------------------------


def _memory_table(upstream: Server, folder: str, requests: int) -> str:
    part, found = requests // POINTS, []
    with _serve(upstream, folder, "memory", f"cache_mb = {CACHE_MB}") as server:
        texts, chance = Texts(4), random.Random(4)
        for point in range(POINTS):
            asyncio.run(_ask_mixed(server, texts, chance, part))
            found.append((f"{(point + 1) * part:,}", f"{server.memory():.0f}"))
    return table(["requests", *(count for count, _ in found)], [["memory, MB", *(memory for _, memory in found)]])


async def _ask_mixed(server: Server, texts: Texts, chance: random.Random, count: int) -> None:
    waiting = iter(range(count))

    async def one() -> None:
        for number in waiting:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            body, headers, allowed = _mixed(texts, chance, number)
            head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            length = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
            writer.write(f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\n{length}{head}\r\n".encode() + body)
            result = await reader.read(-1)
            writer.close()
            status = re.match(rb"HTTP/1.1 (\d+)", result)
            if status is None or int(status[1]) not in allowed:
                raise RuntimeError(result[:500].decode(errors="replace"))

    await asyncio.gather(*(one() for _ in range(AT_A_TIME)))


def _mixed(texts: Texts, chance: random.Random, number: int) -> tuple[bytes, dict[str, str], tuple[int, ...]]:
    """Return a body, headers, and the statuses that may come."""
    kind = chance.random()
    if kind < 0.3:
        room = {"x-brimful-mode": "remember", "x-brimful-conversation": f"room-{chance.randrange(1_000)}"}
        turn = {"role": "user", "content": texts.prose(chance.randrange(50, 500))}
        return _encode([turn], "gpt-4o", stream=kind < 0.1), room, (200,)
    if kind < 0.32:
        return b'{"messages": 7}', {}, (400, 404)
    size = 400_000 if kind > 0.995 else int(2_000 * 10 ** (chance.random() * 1.5))
    history = conversation(texts, size, 50 if kind < 0.5 else 1_000)
    model = f"made-up-{number}" if kind < 0.4 else "gpt-4" if kind < 0.45 else "gpt-4o"
    message = {"role": "user", "content": f"Question {chance.random()}?"}
    return _encode([*history, message], model, stream=kind > 0.8), {}, (200,)


def _encode(messages: Sequence[dict[str, str]], model: str, *, stream: bool) -> bytes:
    return json.dumps({"model": model, "max_tokens": 50, "messages": messages, "stream": stream}).encode()


# -- turns -----------------------------------------------------------------------------------------------------------


def _turns_table(upstream: Server, folder: str, turns: Sequence[int]) -> str:
    texts, cells, begun = Texts(5), [], 0.0
    with _serve(upstream, folder, "turns", 'mode = "remember"') as server:
        client = Client(server)
        for turn in range(1, max(turns) + 1):
            if turn + MEASURED_TURNS - 1 in turns:
                begun = cpu_seconds(server)
            message = {"role": "user", "content": f"Turn {turn}: {texts.prose(200)}"}
            client.ask({"model": "gpt-4o", "max_tokens": 100, "messages": [message]}, x_brimful_conversation="room")
            if turn in turns:
                cells.append(duration((cpu_seconds(server) - begun) / MEASURED_TURNS))
    return table(["turn", *(f"{turn:,}" for turn in turns)], [["CPU time", *cells]])


if __name__ == "__main__":
    print(report(quick="--quick" in sys.argv).markdown())
