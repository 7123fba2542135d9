"""A large request does not block the event loop."""

import asyncio
import http.client
import json
import sys
import threading
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import uvicorn

from brimful.server.app import create_app
from brimful.server.config import parse_config

LONGEST = 6  # times what the yardstick takes, about 20 ms: for so long, the event loop may be held up
TRIES = 6  # what holds it up does so each time; the processor's other load slows it down only sometimes
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


def waits():
    """Return for each thread of this process how long it was ready to run while the machine ran something else."""
    found = {}
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError):  # the thread has ended
            found[int(path.parent.name)] = int(path.read_text().split()[1]) / 1e9
    return found


@asynccontextmanager
async def watched():
    """Yield a list that ends with the longest time that the event loop was held up by this process.

    Either the loop itself was at work, or another thread held the interpreter. For the latter, the time in which the
    loop's thread or another one waited for a processor does not count: a busy machine is no defect.
    """
    held_up, loop, over = [], threading.get_native_id(), asyncio.Event()

    async def beat():
        before, beats = waits(), 0
        while not over.is_set():
            begun, worked, own = time.perf_counter(), time.process_time(), time.thread_time()
            await asyncio.sleep(0.001)
            own, worked, took = time.thread_time() - own, time.process_time() - worked, time.perf_counter() - begun
            beats += 1
            if took > 0.05 or beats % 20 == 0:  # seldom: to read a file takes turns with other threads
                now = waits()
                more = {thread: wait - before.get(thread, wait) for thread, wait in now.items()}
                took -= more.pop(loop, 0.0) + max(more.values(), default=0.0)
                before = now
            held_up.append(max(own, min(took, worked) - own))

    beating = asyncio.create_task(beat())
    try:
        yield held_up
    finally:
        over.set()
        await beating
    held_up.sort()


def request(text):
    body = {"model": "acme-1", "max_tokens": 10, "messages": [{"role": "user", "content": text}]}
    return json.dumps(body, ensure_ascii=False).encode()


def post(port, body, conversation, path="/v1/chat/completions"):
    headers = {"content-type": "application/json", "x-brimful-conversation": conversation}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


async def longest(app, large, name, path="/v1/chat/completions"):
    """Return for how long a large request between small ones held up the loop, in times of what the yardstick takes."""
    async with serving_here(app) as port:
        await asyncio.to_thread(post, port, request("warm up"), "warm")
        before = yardstick()
        async with watched() as held_up:
            await _asked_for(port, large, name, path)
        return held_up[-1] / max(before, yardstick())


def yardstick():
    """Return how long half a million steps of the interpreter take now: a busy machine slows down everything."""
    begun = time.thread_time()
    for _ in range(500_000):
        pass
    return time.thread_time() - begun


async def _asked_for(port, large, name, path):
    asking = asyncio.create_task(asyncio.to_thread(post, port, large, f"large-{name}", path))
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
        if found[-1] < LONGEST:
            return
    pytest.fail(", ".join(f"{times:.1f} times" for times in found))


def test_a_large_request_to_fit_does_not_block_others(upstream, tmp_path):
    upstream.deaf = True
    local = {"name": "local", "url": f"{upstream.address}/v1", "window": 8192}
    found = []
    for attempt in range(TRIES):
        data = {"upstreams": [local], "store": f"sqlite:///{tmp_path}/{attempt}.db", "remember": {"embedder": "none"}}
        app = create_app(parse_config(data, "brimful.toml"), environ={})
        sentence = f"{attempt} {SENTENCES['ascii']}"
        messages = [{"role": "user", "content": sentence * 20} for _ in range(2_000)]
        large = json.dumps({"request": {"model": "gpt-4o", "messages": messages}}).encode()
        found.append(asyncio.run(longest(app, large, attempt, "/brimful/v1/fit")))
        if found[-1] < LONGEST:
            return
    pytest.fail(", ".join(f"{times:.1f} times" for times in found))
