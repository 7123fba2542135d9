"""Several server processes on one database."""

import asyncio
import os
import re
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from brimful.errors import InvalidConfig
from brimful.server.config import Config, parse_config
from brimful.server.runner import Supervisor, bind_socket
from brimful.stores import connect
from server.test_shutdown import HI, running
from server.upstream import chat_answer

CHAT = "/v1/chat/completions"
TALK = {"x-brimful-conversation": "tea"}
PAUSE = 0.02  # seconds between two looks at other processes, which need the processor


def says(role, text):
    return {"role": role, "content": text}


def test_nothing_is_lost_or_stored_twice(start, upstream, postgres_url):
    upstream.answers = [lambda sent: chat_answer("To " + sent["messages"][-1]["content"])]
    clients = [start(mode="remember", store=postgres_url) for _ in range(2)]

    def ask(number, *messages):
        request = {"model": "gpt-4o", "messages": list(messages)}
        return clients[number % 2].post(CHAT, json=request, headers=TALK).json()["choices"][0]["message"]["content"]

    questions = [f"Question {number}?" for number in range(8)]
    history = [says("user", "First?"), says("assistant", "To First?"), says("user", "Last?")]
    with ThreadPoolExecutor(8) as pool:
        assert ask(0, says("user", "First?")) == "To First?"
        answers = list(pool.map(lambda number: ask(number, says("user", questions[number])), range(8)))
        again = list(pool.map(lambda number: ask(number, *history), range(4)))

    async def read():
        async with connect(postgres_url) as database:
            return [entry.message for entry in await database.tenant("default").history("tea", limit=100)]

    said = asyncio.run(read())
    assert answers == [f"To {question}" for question in questions]
    assert again == ["To Last?"] * 4
    assert sorted(message.content for message in said if message.role == "user") == sorted(
        ["First?", "Last?", *questions]
    )
    assert len(said) == 10 + 1 + 8 + 4
    assert len({message.seq for message in said}) == len(said)


def workers_of(process):
    """Return the ids of all worker processes. Another child of the supervisor tracks semaphores."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return {int(child) for child in children if b"spawn_main" in command_of(child)}


def command_of(process):
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""  # it has just ended


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers in /proc")
def test_workers_share_all_are_replaced_and_end_with_their_supervisor(tmp_path, upstream):
    settings = "workers = 2\ntelemetry.metrics = true"
    with running(tmp_path, upstream, settings=settings, limits="stall_seconds = 10") as (client, process):
        workers = workers_of(process)
        assert len(workers) == 2
        assert_all_are_served(client)
        os.kill(min(workers), signal.SIGKILL)
        wait_until_replaced(client, process, min(workers))
        assert_all_are_served(client)
        assert_metrics_are_shared(client)
        stopped = max(workers)
        os.kill(stopped, signal.SIGSTOP)
        wait_until_replaced(client, process, stopped)
        assert client.post(CHAT, json=HI).status_code == 200
        workers = workers_of(process)
        errors = (
            (tmp_path / "errors").read_text().splitlines()
        )  # before Python's own process says what was not cleaned up
        process.kill()
        process.wait()
        while any(Path(f"/proc/{worker}").exists() and not is_zombie(worker) for worker in workers):
            time.sleep(PAUSE)
    replaced = "WARNING a worker ended with exit code -9 and is replaced"
    assert errors == [replaced, "ERROR a worker stands still and is killed", replaced]


def assert_all_are_served(client):
    """Send 40 requests at once, each on a connection of its own, so that both workers get some."""
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post(CHAT, json=HI, headers={"connection": "close"}), range(40)))
    assert {answer.status_code for answer in answers} == {200}


def wait_until_replaced(client, process, worker):
    """Wait until two other workers run; all requests are answered meanwhile."""
    while len(workers_of(process) - {worker}) < 2:
        assert client.get("/health", headers={"connection": "close"}).status_code == 200
        time.sleep(PAUSE)


def assert_metrics_are_shared(client):
    shown = client.get("/metrics", headers={"connection": "close"}).text.splitlines()
    (counted,) = [line for line in shown if line.startswith("brimful_contexts_total{")]
    assert float(counted.rpartition(" ")[2]) >= 80
    (limit,) = [line for line in shown if line.startswith("brimful_cache_limit_bytes ")]
    each = 3 * 256 * 2**20
    assert float(limit.rpartition(" ")[2]) in (each, 2 * each)  # the new worker may not serve yet


def is_zombie(process):
    try:
        return ") Z " in Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return True


def test_workers_that_cannot_start_end_the_server(tmp_path, capfd):
    config = Config(listen="127.0.0.1:0", store=f"sqlite:///{tmp_path}/x.db", models="missing.toml", workers=2)
    with (
        bind_socket(config, "brimful.toml") as listening,
        pytest.raises(InvalidConfig, match=r"workers: a worker ended with exit code 1 before it was ready"),
    ):
        Supervisor(config, str(tmp_path / "brimful.toml"), listening, pytest.fail).run(pytest.fail)
    assert "missing.toml" in capfd.readouterr().err


def test_the_server_waits_for_postgres(tmp_path, upstream, postgres_url):
    folder = re.search("host=(/[^&]+)", postgres_url)
    if folder is None:
        pytest.skip("connects through a socket that comes to exist")
    with tempfile.TemporaryDirectory() as short:  # the path of a socket has at most 107 characters
        link = Path(short, "socket")

        def begin():
            while "waiting up to 600 seconds for postgresql://" not in (tmp_path / "errors").read_text():
                time.sleep(PAUSE)
            link.symlink_to(folder[1])

        (tmp_path / "errors").touch()
        with ThreadPoolExecutor(1) as pool:
            begun = pool.submit(begin)
            store = postgres_url.replace(folder[1], str(link))
            with running(tmp_path, upstream, store=store, limits="store_wait = 600") as (client, _):
                assert client.post(CHAT, json=HI).status_code == 200
            begun.result()
    (line,) = (tmp_path / "errors").read_text().splitlines()
    assert "No such file or directory" in line


def test_workers_need_a_store_that_they_can_share():
    with pytest.raises(InvalidConfig, match=r"workers: several workers need a store on disk"):
        parse_config({"store": "sqlite://", "workers": 2}, "brimful.toml")
