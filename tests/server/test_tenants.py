"""Engines of idle tenants are let go, and a worker does the background work of all tenants."""

import asyncio
import time

import pytest

from brimful.embedding import embedder_for
from brimful.server.config import RememberConfig
from brimful.server.tenants import Tenants
from brimful.stores import connect


class Clock:
    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def tenants_of(database, clock, **limits):
    limits = {"max_open": 3, "idle": 100.0} | limits
    embedder = embedder_for("static")
    return Tenants(database, RememberConfig(), embedder=embedder, policies={}, clock=clock, **limits)


def story(clock, work, **limits):
    async def run():
        async with connect("sqlite://") as database:
            tenants = tenants_of(database, clock, **limits)
            result = await work(tenants)
            await tenants.close()
            return result

    return asyncio.run(run())


def test_only_so_many_engines_stay_open(clock):
    async def work(tenants):
        counts = []
        for number in range(200):
            engine = await tenants.engine(f"t{number}")
            await engine.post(room="den", text="hello")
            del engine
            counts.append(tenants.engines)
        return counts

    assert max(story(clock, work)) == 3


def test_an_idle_engine_is_let_go_and_opened_again(clock):
    async def work(tenants):
        engine = await tenants.engine("acme")
        await engine.post(room="den", text="hello")
        before = id(engine.store)
        del engine
        clock.now += 101.0
        tenants.store("beta")
        gone = tenants.engines
        history = await (await tenants.engine("acme")).store.history("den")
        return before, gone, [each.message.content for each in history]

    _, gone, history = story(clock, work)
    assert (gone, history) == (0, ["hello"])


def test_an_engine_in_use_stays_the_engine_of_its_tenant(clock):
    async def work(tenants):
        engine = await tenants.engine("acme")
        for number in range(10):
            await tenants.engine(f"t{number}")
        await engine.post(room="den", text="still here")  # a long request
        return engine is await tenants.engine("acme"), tenants.engines

    assert story(clock, work) == (True, 3)


def test_a_tenant_that_is_used_stays(clock):
    async def work(tenants):
        first = tenants.store("acme")
        for number in range(10):
            tenants.store(f"t{number}")
            tenants.store("acme")
        return first is tenants.store("acme")

    assert story(clock, work)


def test_there_is_no_task_for_a_tenant(clock):
    async def work(tenants):
        before = len(asyncio.all_tasks())
        for number in range(20):
            await tenants.engine(f"t{number}")
        return len(asyncio.all_tasks()) - before

    assert story(clock, work, max_open=100) == 0


def admin(client, path, **query):
    return client.get(f"/brimful/v1/{path}", params=query).json()


def test_new_messages_are_embedded_by_the_server(start):
    client = start()
    client.post("/brimful/v1/rooms", json={"id": "den"})
    client.post("/brimful/v1/rooms/den/messages", json={"content": "The garden fence is green."})
    end = time.monotonic() + 60
    while any(job["kind"] == "embed" for job in admin(client, "jobs")["jobs"]):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert {job["kind"] for job in admin(client, "jobs")["jobs"]} == {"janitor", "retention"}
    status = admin(client, "status")
    assert (status["engines"], status["max_engines"]) == (1, 1_000)
    assert status["memory_bytes"] > status["cache_bytes"]
    assert admin(client, "jobs", failed=True) == {"jobs": []}


def test_a_server_can_leave_the_work_to_others(start):
    client = start(background_work=False, janitor_interval="1h")
    client.post("/brimful/v1/rooms", json={"id": "den"})
    client.post("/brimful/v1/rooms/den/messages", json={"content": "The garden fence is green."})
    jobs = admin(client, "jobs")["jobs"]
    assert {job["kind"]: (job["attempts"], job["worker"]) for job in jobs} == dict.fromkeys(
        ("embed", "janitor", "retention"), (0, "")
    )
