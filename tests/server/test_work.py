"""Tenants share the threads for CPU-bound work. Work that takes too long, or that nobody needs, is interrupted."""

import asyncio
import itertools
import subprocess
import sys
import threading
from importlib import import_module

import pytest

from brimful.server.background import BackgroundTasks
from brimful.server.config import ServerLimits
from brimful.server.errors import ApiError
from brimful.server.work import FairQueue, WorkPool
from brimful.threads import get_threads, run_in_thread, use_threads

LARGE = 600  # units of work of the attacker's requests
SMALL = 216  # of those of the others


class Processor:
    """Runs the work of a queue in steps. All that runs gets an equal share, as threads do that share a GIL."""

    def __init__(self, slots):
        self.queue = FairQueue(slots)
        self.now = 0.0
        self.running = []
        self.ended = {}

    def add(self, tenant, name, units):
        self.queue.add(tenant, [tenant, name, units, units])
        self._start()

    def run_until(self, name):
        """Run until this work has ended, and return when that was."""
        while name not in self.ended:
            self.step()
        return self.ended[name]

    def step(self):
        share = 1 / len(self.running)
        self.now += 1.0
        for job in list(self.running):
            job[3] -= share
            if job[3] <= 0:
                tenant, name, units, _ = job
                self.running.remove(job)
                self.ended[name] = self.now
                self.queue.end(tenant, cost=units)
        self._start()

    def _start(self):
        while (job := self.queue.start()) is not None:
            self.running.append(job)


@pytest.mark.parametrize("delay", [0, 1, 299, 600, 1_500])
def test_a_request_waits_at_most_five_times_as_long_as_on_an_idle_server(delay):
    slots = ServerLimits().threads
    idle = Processor(slots)
    idle.add("victim", "alone", SMALL)
    busy = Processor(slots)
    for number in range(8):
        busy.add("attacker", f"a{number}", LARGE)
    for _ in range(delay):
        busy.step()
    slowest = 0.0
    for number in range(5):
        arrived = busy.now
        busy.add("victim", f"v{number}", SMALL)
        slowest = max(slowest, busy.run_until(f"v{number}") - arrived)
    assert slowest <= 5 * idle.run_until("alone")


def test_tenants_get_equal_processor_time_whatever_the_size_of_their_work():
    sizes, used = {"large": 100, "small": 1}, {"large": 0, "small": 0}
    queue = FairQueue(slots=1)  # for which the two compete
    for tenant, size in sizes.items():
        for _ in range(10_000 // size):
            queue.add(tenant, tenant)
    for _ in range(1_000):
        tenant = queue.start()
        used[tenant] += sizes[tenant]
        queue.end(tenant, cost=sizes[tenant])
    assert abs(used["large"] - used["small"]) <= 100


def test_a_tenant_cannot_save_up_time_while_it_is_idle():
    queue = FairQueue(slots=1)
    queue.add("busy", "b")
    for _ in range(100):
        queue.add("busy", "b")
        assert queue.start() == "b"
        queue.end("busy", cost=1.0)
    for _ in range(3):
        queue.add("new", "n")
    started = []
    for _ in range(4):
        started.append(queue.start())
        queue.end({"b": "busy", "n": "new"}[started[-1]], cost=1.0)
        queue.add("busy", "b")
    assert started.count("b") == 2


def endless():
    for _ in itertools.count():
        pass


def serve(story):
    """Run a story with a pool in which a tenant has one thread."""

    async def run():
        pool = WorkPool(threads=2)
        try:
            return await story(pool)
        finally:
            await pool.close()

    return asyncio.run(run())


def test_work_over_its_limit_is_interrupted_and_its_thread_goes_on():
    async def story(pool):
        with pytest.raises(ApiError) as refused:
            await pool.share("a", 0.05).run(endless)
        return refused.value, await pool.share("a", 60.0).run(lambda: "next")

    error, following = serve(story)
    assert (error.status, error.code) == (413, "processor_time_exceeded")
    assert "more than 0.05 seconds of processor time" in error.message
    assert following == "next"


def test_the_limit_is_for_all_work_of_a_request_and_not_for_what_comes_after_it():
    async def story(pool):
        share = pool.share("a", 0.05)
        with pytest.raises(ApiError):
            await share.run(endless)
        await pool.share("a", 60.0).run(int)  # the slot is free again, so the time is known
        with pytest.raises(ApiError, match="processor time"):
            await share.run(lambda: "again")
        tasks, done = BackgroundTasks(), []

        async def record():
            done.append(await run_in_thread(lambda: "recorded"))

        with use_threads(share):
            assert get_threads() is share
            tasks.start(record(), "recording")
        await tasks.drain()
        return done

    assert serve(story) == ["recorded"]


def test_work_that_nobody_waits_for_is_interrupted():
    began = threading.Event()

    def work():
        began.set()
        endless()

    async def story(pool):
        first = asyncio.create_task(pool.share("a", 3600.0).run(work))
        await asyncio.to_thread(began.wait)
        first.cancel()
        return await pool.share("a", 3600.0).run(lambda: "second")

    assert serve(story) == "second"


TRACED = """
import asyncio, contextlib, itertools, sys
from brimful.server.errors import ApiError
from brimful.server.work import WorkPool

async def work():
    pool = WorkPool(threads=2)
    await pool.share("a", 60.0).run(int)
    for seconds in (1e-9,) * 20 + (0.05,):
        with contextlib.suppress(ApiError):
            await pool.share("a", seconds).run(lambda: sum(itertools.islice(itertools.count(), int(1e9 * seconds))))
    await pool.close()

asyncio.run(work())
sys.settrace(lambda *_: None)
(lambda: None)()
"""


def test_no_exception_for_a_thread_is_left_behind():
    """While one is, CPython 3.11 cannot trace any call: debuggers and coverage would hang."""
    subprocess.run([sys.executable, "-c", TRACED], check=True, timeout=120)


def test_work_that_waits_is_dropped_if_nobody_waits_for_it():
    held, done = threading.Event(), []

    async def story(pool):
        first = asyncio.create_task(pool.share("a", 60.0).run(held.wait))
        waiting = [asyncio.create_task(pool.share("a", 60.0).run(lambda n=n: done.append(n))) for n in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.gather(waiting[1], return_exceptions=True)
        held.set()
        await asyncio.gather(first, *waiting, return_exceptions=True)

    serve(story)
    assert done == [0, 2]


@pytest.mark.parametrize("name", ["brimful.cache", "weakref"])
def test_no_exception_is_raised_where_it_could_leave_a_lock_held_or_be_lost(name):
    steps, leave = [0], []
    module = {"__name__": name, "steps": steps, "leave": leave}
    exec("def in_cache():\n    while not leave:\n        steps[0] += 1", module)  # noqa: S102 - a function of that module
    left = []

    def work():
        module["in_cache"]()
        left.append(True)
        endless()

    async def story(pool):
        first = asyncio.create_task(pool.share("a", 3600.0).run(work))
        while not steps[0]:  # noqa: ASYNC110 - the thread cannot set an event there
            await asyncio.sleep(0)
        first.cancel()
        seen = steps[0]
        while steps[0] < seen + 1_000_000:  # noqa: ASYNC110 - it goes on
            await asyncio.sleep(0)
        leave.append(True)
        assert await pool.share("a", 3600.0).run(lambda: "second") == "second"
        return left

    assert serve(story) == [True]


SLOW_MODULE = """
leave = []
steps = 0
while not leave:
    steps += 1
whole = True
"""


def test_an_import_is_not_interrupted(tmp_path, monkeypatch):
    """A module that was imported halfway would lack names for as long as the process runs."""
    (tmp_path / "slow_module.py").write_text(SLOW_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    left = []

    def work():
        left.append(import_module("slow_module").whole)
        endless()

    async def story(pool):
        first = asyncio.create_task(pool.share("a", 3600.0).run(work))
        while not hasattr(module := sys.modules.get("slow_module"), "steps"):  # noqa: ASYNC110 - set by the import
            await asyncio.sleep(0)
        first.cancel()
        seen = module.steps
        while module.steps < seen + 1_000_000:  # noqa: ASYNC110 - it goes on
            await asyncio.sleep(0)
        module.leave.append(True)
        assert await pool.share("a", 3600.0).run(lambda: "second") == "second"
        return left

    try:
        assert serve(story) == [True]
    finally:
        sys.modules.pop("slow_module", None)


def test_errors_of_work_are_raised_and_free_the_slot():
    async def story(pool):
        with pytest.raises(ZeroDivisionError):
            await pool.share("a", 60.0).run(lambda: 1 / 0)
        return await pool.share("a", 60.0).run(lambda: "next")

    assert serve(story) == "next"


HI = {"model": "acme-1", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi, " * 400}]}
SMALL_REQUESTS = {
    "chat": ("/v1/chat/completions", HI, {"x-brimful-max-prompt-tokens": "500"}),
    "messages": ("/v1/messages", HI, {"x-brimful-max-prompt-tokens": "500"}),
    "responses": ("/v1/responses", {"model": "m", "input": "Hi, " * 400}, {"x-brimful-max-prompt-tokens": "500"}),
    "remember": ("/v1/chat/completions", HI, {"x-brimful-mode": "remember"}),
    "count": ("/v1/messages/count_tokens", HI, {}),
    "fit": ("/brimful/v1/fit", {"request": HI}, {}),
    "assemble": ("/brimful/v1/rooms/tea/assemble", {"model": "gpt-4o", "content": "Hi"}, {}),
    "post": ("/brimful/v1/rooms/tea/messages", {"content": "Hi"}, {}),
}


@pytest.mark.parametrize("name", SMALL_REQUESTS)
def test_the_work_of_small_requests_is_limited_and_off_the_event_loop_as_well(start, upstream, name):
    upstream.answers = [(404, {})]  # it cannot count
    assert start().post("/brimful/v1/rooms", json={"id": "tea"}).status_code == 201
    client = start(limits={"processor_seconds": 1e-6})
    path, body, headers = SMALL_REQUESTS[name]
    answer = client.post(path, json=body, headers=headers)
    assert answer.status_code == 413, answer.text
    error = answer.json()["error"]
    assert error["message"].startswith("this request takes more than 1e-06 seconds of processor time: send less")
    if path.startswith("/v1/messages"):
        assert error["type"] == "request_too_large"
    else:
        assert error["code"] == "processor_time_exceeded"
    assert client.get("/health").status_code == 200
