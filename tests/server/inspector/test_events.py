"""Event streams."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from brimful.engine import Engine
from brimful.errors import StoreUnavailable
from brimful.records import Response
from brimful.records.contexts import LogPage
from brimful.server.errors import ApiError
from brimful.server.inspector.events import BATCH_SIZE, EventStream, Feed
from server.inspector.conftest import ROOT, store_of
from server.test_shutdown import running, stop

EVENTS = f"{ROOT}/events"
WRITER = """
import asyncio, sys
from brimful.engine import Engine

async def write():
    async with Engine(sys.argv[1], model="gpt-4o", embedder="none") as engine:
        for number in range(int(sys.argv[2])):
            context = await engine.assemble(room=f"r{number}", message="Hi")
            await engine.record_response(context, "Hello")

asyncio.run(write())
"""


def write(tmp_path, times=1):
    """Let another process build and answer."""
    command = [sys.executable, "-c", WRITER, store_of(tmp_path), str(times)]
    subprocess.run(command, check=True, env=os.environ)


@contextmanager
def listening(client, **headers):
    """Yield an iterator of events: pairs of name and data; what has no data is the stream's own."""
    with client.stream("GET", EVENTS, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield events(answer.iter_lines())


def events(lines):
    event = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
        else:
            yield event
            event = {}


def test_events_of_other_processes_are_streamed(client, tmp_path):
    with listening(client) as stream:
        assert next(stream)["retry"] == "2000"
        write(tmp_path)
        context, answer = next(stream), next(stream)
    assert (context["event"], answer["event"]) == ("context", "answer")
    row, said = json.loads(context["data"]), json.loads(answer["data"])
    assert row["room"] == "r0"
    assert row["id"] == said["context"]
    assert said["text"] == "Hello"
    assert client.get(f"{ROOT}/contexts", params={"limit": 1}).json()["contexts"][0] == row | {"answer": "Hello"}


def test_a_stream_is_resumed_with_last_event_id(client, tmp_path):
    with listening(client) as stream:
        begin = next(stream)["id"]
    write(tmp_path, 3)
    with listening(client, **{"last-event-id": begin}) as stream:
        next(stream)
        rows = [next(stream) for _ in range(6)]
    assert [json.loads(event["data"])["room"] for event in rows] == ["r0", "r0", "r1", "r1", "r2", "r2"]
    write(tmp_path)
    with listening(client, **{"last-event-id": rows[-1]["id"]}) as stream:
        next(stream)
        assert json.loads(next(stream)["data"])["room"] == "r0"


@pytest.mark.parametrize("cursor", ["nonsense", "-1", "9" * 300, "1 OR 1=1"])
def test_an_invalid_last_event_id_is_rejected(client, cursor):
    assert client.get(EVENTS, headers={"last-event-id": cursor}).status_code == 400


def test_many_listeners_get_the_same_events(client, tmp_path):
    heard, ready = [], threading.Barrier(21)

    def listen():
        with listening(client) as stream:
            next(stream)
            ready.wait(30)
            heard.append([next(stream)["event"], next(stream)["event"]])

    threads = [threading.Thread(target=listen) for _ in range(20)]
    for thread in threads:
        thread.start()
    ready.wait(30)
    write(tmp_path)
    for thread in threads:
        thread.join(30)
    assert heard == [["context", "answer"]] * 20


def test_event_streams_end_when_the_server_stops(tmp_path, upstream):
    with running(tmp_path, upstream, grace=60.0) as (client, process), listening(client) as stream:
        next(stream)
        started = time.monotonic()
        stop(process)
        assert list(stream) == []
        process.wait(30)
        assert time.monotonic() - started < 30


class Log:
    """A log that a test appends to. It counts reads that returned events."""

    tenant = "t"

    def __init__(self):
        self.entries = []
        self.deliveries = 0
        self.broken = False

    def add(self, many=1):
        for _ in range(many):
            number = len(self.entries)
            self.entries.append(Response(id=f"a{number}", context="c", room="r", at=float(number)))

    async def follow(self, cursor="", *, limit=100):
        await asyncio.sleep(0)
        if self.broken:
            raise StoreUnavailable("log", "is locked")
        if not cursor:
            return LogPage(cursor=str(len(self.entries)))
        found = tuple(self.entries[int(cursor) : int(cursor) + limit])
        self.deliveries += bool(found)
        return LogPage(cursor=str(int(cursor) + len(found)), events=found)


async def receive(feed, cursor, many):
    ids = []
    while len(ids) < many:
        found = await feed.after(cursor)
        cursor = found.cursor
        ids += [event.id for event in found.events]
    return ids


def test_the_store_is_polled_once_for_all_listeners():
    async def story():
        log = Log()
        feed = Feed(log, poll_seconds=0.001)
        ends = [await feed.join() for _ in range(50)]
        listeners = [asyncio.create_task(receive(feed, end, 500)) for end in ends]
        for _ in range(5):
            log.add(100)
            await asyncio.sleep(0)
        received = await asyncio.gather(*listeners)
        for _ in range(50):
            await feed.leave()
        return received, log.deliveries, feed.listeners, len(asyncio.all_tasks())

    received, deliveries, listeners, tasks = asyncio.run(story())
    assert all(ids == [f"a{n}" for n in range(500)] for ids in received)
    assert deliveries == 5  # 50 listeners that read the store themselves would need 250
    assert (listeners, tasks) == (0, 1)  # nobody polls anymore


def test_a_slow_listener_gets_every_event_once():
    async def story():
        log = Log()
        feed = Feed(log, poll_seconds=0.001)
        await feed.join()
        log.add(3 * BATCH_SIZE + 7)
        late = asyncio.create_task(receive(feed, "0", 4 * BATCH_SIZE + 7))
        await asyncio.sleep(0)
        log.add(BATCH_SIZE)
        result = await late
        await feed.leave()
        return result

    assert asyncio.run(story()) == [f"a{n}" for n in range(4 * BATCH_SIZE + 7)]


def test_a_feed_restarts_after_everybody_left():
    async def story():
        log = Log()
        feed = Feed(log, poll_seconds=0.001)
        await feed.join()
        await feed.leave()
        log.add(5)
        end = await feed.join()
        log.add(2)
        result = await receive(feed, end, 2)
        await feed.leave()
        return result

    assert asyncio.run(story()) == ["a5", "a6"]


def test_two_simultaneous_listeners_share_one_poll():
    async def story():
        log = Log()
        feed = Feed(log, poll_seconds=10)
        await asyncio.gather(*(feed.join() for _ in range(9)))
        tasks = len(asyncio.all_tasks())
        for _ in range(9):
            await feed.leave()
        return tasks

    assert asyncio.run(story()) == 2


def test_a_store_that_fails_at_first_blocks_nobody():
    async def story():
        log = Log()
        log.broken = True
        feed = Feed(log, poll_seconds=0.001)
        with pytest.raises(StoreUnavailable):
            await feed.join()
        return feed.listeners

    assert asyncio.run(story()) == 0


def test_heartbeats_are_sent_until_the_client_leaves():
    async def story():
        log, sent, gone = Log(), [], asyncio.Event()
        feed = Feed(log, poll_seconds=0.001)

        async def write(events):
            return [("answer", b"{}") for _ in events]

        async def let():
            pass

        stream = EventStream(feed, "", write, let, asyncio.Event(), heartbeat=0.0)

        async def send(message):
            sent.append(message.get("body", b""))
            if len(sent) == 5:
                gone.set()

        async def receive():
            await gone.wait()
            return {"type": "http.disconnect"}

        await stream({"type": "http"}, receive, send)
        return sent, feed.listeners, len(asyncio.all_tasks())

    sent, listeners, tasks = asyncio.run(story())
    assert sent[2:5] == [b": heartbeat\n\n"] * 3
    assert (listeners, tasks) == (0, 1)


def test_a_client_with_a_revoked_key_gets_no_more_events():
    async def story():
        log, sent, revoked = Log(), [], asyncio.Event()
        feed = Feed(log, poll_seconds=0.001)

        async def write(events):
            return [("answer", event.id.encode()) for event in events]

        async def let():
            if revoked.is_set():
                raise ApiError("invalid_key", "unknown or revoked API key")

        async def send(message):
            sent.append(message)
            if b"a0" in message.get("body", b""):
                revoked.set()
                log.add()
            elif b"retry" in message.get("body", b""):
                log.add()

        async def receive():
            await asyncio.Event().wait()

        await asyncio.wait_for(EventStream(feed, "", write, let, asyncio.Event())({"type": "http"}, receive, send), 20)
        return sent, feed.listeners

    sent, listeners = asyncio.run(story())
    assert [b"a1" in message.get("body", b"") for message in sent] == [False] * 4
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert listeners == 0


def test_events_of_this_process_are_streamed(client, tmp_path):
    async def build():
        async with Engine(store_of(tmp_path), model="gpt-4o", embedder="none") as engine:
            await engine.assemble(room="here", message="Hi")

    with listening(client) as stream:
        next(stream)
        asyncio.run(build())
        assert json.loads(next(stream)["data"])["room"] == "here"
