"""A large request does not block the event loop."""

import asyncio
import http.client
import json
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager

import pytest
import uvicorn

from brimful.server.app import create_app
from brimful.server.config import parse_config

LONGEST = 0.050  # seconds that the event loop may be held up
TRIES = 6  # a busy machine holds it up as well, but not each time
SENTENCES = {
    "ascii": "The quick brown fox jumps over the lazy dog near the river bank. ",
    "scripts": "Größe über Äpfel, 日本語のテキストと絵文字 🎉 на русском. ",
}


@pytest.fixture(autouse=True)
def as_the_server_runs():
    """Let threads take turns as they do under `brimful serve`."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.001)
    yield
    sys.setswitchinterval(before)


@asynccontextmanager
async def serving_here(app):
    """Serve an app in this very event loop; yield its port."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False))
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - it tells in no other way
        await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def watched():
    """Yield a list that ends with the longest time that the event loop was held up.

    No longer than this process was at work: while the machine gave it no time at all, nothing of it was in the way.
    """
    held_up = []

    async def beat():
        while True:
            begun, worked = time.perf_counter(), time.process_time()
            await asyncio.sleep(0.001)
            held_up.append(min(time.perf_counter() - begun - 0.001, time.process_time() - worked))

    beating = asyncio.create_task(beat())
    try:
        yield held_up
    finally:
        beating.cancel()
    held_up.sort()


def request(text):
    body = {"model": "acme-1", "max_tokens": 10, "messages": [{"role": "user", "content": text}]}
    return json.dumps(body, ensure_ascii=False).encode()


def post(port, body, conversation):
    headers = {"content-type": "application/json", "x-brimful-conversation": conversation}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/v1/chat/completions", body, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


IDLER = """
import select, sys, time
longest = 0.0
begun = time.perf_counter()
while not select.select([sys.stdin], [], [], 0.001)[0]:
    longest, begun = max(longest, time.perf_counter() - begun - 0.001), time.perf_counter()
print(longest)
"""


@contextmanager
def idler():
    """Run a process that only waits; yield a function that ends it, and tells how long the machine held it up."""
    with subprocess.Popen(
        [sys.executable, "-c", IDLER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as idle:
        yield lambda: float(idle.communicate("\n")[0])


async def longest(app, large, name):
    """Return how long a large request between small ones held up the loop, beyond what the machine did by itself."""
    async with serving_here(app) as port:
        await asyncio.to_thread(post, port, request("warm up"), "warm")
        with idler() as machine:
            async with watched() as held_up:
                await _asked_for(port, large, name)
            return held_up[-1], machine()


async def _asked_for(port, large, name):
    asking = asyncio.create_task(asyncio.to_thread(post, port, large, f"large-{name}"))
    statuses = []
    while not asking.done():
        statuses.append(await asyncio.to_thread(post, port, request("small"), f"small-{len(statuses)}"))
    assert {*statuses, await asking} == {200}
    assert len(statuses) > 1


@pytest.mark.parametrize(
    ("mode", "window"),
    [
        ("fit", 100_000_000),  # it surely fits, and is counted when it is under way
        ("fit", 4_000_000),  # it is counted before it goes out
        ("remember", 10_000_000),
    ],
)
@pytest.mark.parametrize("script", SENTENCES)
def test_a_large_message_does_not_block_others(upstream, tmp_path, mode, window, script):
    upstream.deaf = True  # it shares the interpreter with the server, and would hold it up
    sentence = SENTENCES[script]
    local = {"name": "local", "url": f"{upstream.address}/v1", "window": window}
    found = []
    for attempt in range(TRIES):
        data = {"upstreams": [local], "store": f"sqlite:///{tmp_path}/{attempt}.db", "mode": mode}
        app = create_app(parse_config(data, "brimful.toml"), environ={})
        large = request(f"{attempt} " + sentence * (5_000_000 // len(sentence.encode())))  # what was counted is known
        found.append(asyncio.run(longest(app, large, attempt)))
        if found[-1][0] - found[-1][1] < LONGEST:
            return
    pytest.fail("; ".join(f"{ours * 1000:.0f} ms, the machine {idle * 1000:.0f} ms" for ours, idle in found))
