"""How the server starts, listens, and ends if it is blocked."""

import asyncio
import logging
import socket
import subprocess
import sys

import pytest

from brimful.errors import StoreUnavailable
from brimful.server.config import Config
from brimful.server.logs import TextFormatter
from brimful.server.runner import bind_socket, wait_for_store


def test_small_answers_are_sent_at_once():
    """Each connection that comes in has Nagle's algorithm turned off, by asyncio, which must know what it is."""

    async def accepted():
        result = asyncio.get_running_loop().create_future()

        async def meet(_, writer):
            result.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with bind_socket(Config(listen="127.0.0.1:0"), "brimful.toml") as listening:
            async with await asyncio.start_server(meet, sock=listening):
                _, writer = await asyncio.open_connection(*listening.getsockname()[:2])
                found = await result
                writer.close()
        return found

    assert asyncio.run(accepted())


def test_a_message_cannot_forge_a_line_of_the_log():
    record = logging.LogRecord(
        "brimful", logging.WARNING, "", 0, "failed: %s", ("x\nERROR \x1b[31mforged\r\x9bdone",), None
    )
    shown = TextFormatter("%(levelname)s %(message)s").format(record)
    assert shown == "WARNING failed: x\n    ERROR [31mforged\n    done"


BLOCKED = """
import asyncio, ctypes, time
from brimful.server.runner import Heartbeat

async def serve():
    heartbeat = Heartbeat(2.0, ctypes.c_ulonglong())
    heartbeat.start()
    {}
    heartbeat.stop()

asyncio.run(serve())
"""


def run_blocked(statement):
    command = [sys.executable, "-c", BLOCKED.format(statement)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_process_with_a_blocked_event_loop_ends_with_a_traceback():
    ended = run_blocked("time.sleep(100)")
    assert ended.returncode == 1
    assert "Timeout (0:00:02)!" in ended.stderr
    assert 'File "<string>", line 8 in serve' in ended.stderr


def test_a_call_that_holds_the_interpreter_ends_the_process_as_well():
    ended = run_blocked("import re; re.fullmatch('(a|aa)+', 'a' * 100 + 'b')")
    assert (ended.returncode, "Timeout (0:00:02)!" in ended.stderr) == (1, True)


def test_a_process_that_stops_is_not_ended():
    assert run_blocked("await asyncio.sleep(0)").returncode == 0


class StartingStore:
    """A store that can be used after some attempts, with a clock that only sleeping advances."""

    def __init__(self, failures, *, retriable=True):
        self.failures = failures
        self.retriable = retriable
        self.attempts = 0
        self.now = 0.0

    async def check(self):
        self.attempts += 1
        if self.attempts <= self.failures:
            raise StoreUnavailable("postgresql://db/chat", "cannot be reached", retriable=self.retriable)

    async def sleep(self, seconds):
        self.now += seconds

    def wait(self, seconds):
        asyncio.run(wait_for_store(self.check, seconds, clock=lambda: self.now, sleep=self.sleep))


def test_the_server_waits_for_a_store_that_is_starting(caplog):
    store = StartingStore(failures=5)
    store.wait(30.0)
    assert store.attempts == 6
    assert caplog.messages == ["waiting up to 30 seconds for postgresql://db/chat: cannot be reached"]


@pytest.mark.parametrize(
    ("seconds", "retriable", "attempts", "message"),
    [
        (2.0, True, 5, "postgresql://db/chat: after 2 seconds, cannot be reached"),
        (0.0, True, 1, "postgresql://db/chat: cannot be reached"),
        (30.0, False, 1, "postgresql://db/chat: cannot be reached"),
    ],
)
def test_waiting_for_the_store_ends_at_its_limit_and_at_lasting_errors(seconds, retriable, attempts, message):
    store = StartingStore(failures=100, retriable=retriable)
    with pytest.raises(StoreUnavailable) as caught:
        store.wait(seconds)
    assert (store.attempts, str(caught.value)) == (attempts, message)
