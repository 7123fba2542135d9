"""The inspector on PostgreSQL, where many processes share a store."""

import asyncio
import json

import pytest

from brimful.engine import Engine
from brimful.records import Memory
from server.inspector.conftest import ROOT, tell_story
from server.inspector.test_events import listening


@pytest.fixture
def postgres(start, postgres_url):
    kept = asyncio.run(tell_story(postgres_url))
    return start(store=postgres_url, remember={"embedder": "none"}), kept, postgres_url


def test_contexts_items_and_what_if(postgres):
    client, kept, _ = postgres
    rows = client.get(f"{ROOT}/contexts").json()["contexts"]
    assert [row["id"] for row in rows] == [kept.second, kept.first]
    seen = client.get(f"{ROOT}/contexts/{kept.first}").json()
    assert sum(band["tokens"] for band in seen["bands"]) == seen["window"]
    assert client.get(f"{ROOT}/contexts/{kept.first}/items/nuts").json()["builds"]
    assert client.post(f"{ROOT}/contexts/{kept.first}/what-if", json={"window": 9_000}).json()["entered"]
    assert client.get(f"{ROOT}/contexts/{kept.first}/diff/{kept.second}").status_code == 200
    assert client.get(f"{ROOT}/statistics", params={"by": "day"}).json()["statistics"][0]["contexts"] == 2


def test_events_of_two_writers_are_received(postgres):
    client, _, url = postgres

    async def write(name):
        async with Engine(url, model="gpt-4o", embedder="none") as engine:
            for number in range(10):
                await engine.assemble(room=f"{name}-{number}", message="Hi")

    async def both():
        await asyncio.gather(write("a"), write("b"))

    with listening(client) as stream:
        next(stream)
        asyncio.run(both())
        rooms = [json.loads(next(stream)["data"])["room"] for _ in range(20)]
    assert sorted(rooms) == sorted(f"{name}-{number}" for name in "ab" for number in range(10))


def test_pages_of_memories(postgres):
    client, _, url = postgres

    async def remember():
        async with Engine(url, embedder="none") as engine:
            names = ["A", "a", "B", "b", "é", "z", "_"]
            await engine.remember_many([Memory(id=name, content=f"Fact {name}", at=5.0) for name in names])

    asyncio.run(remember())
    seen, before = [], ""
    while before is not None:
        page = client.get(f"{ROOT}/memories", params={"limit": 2, "before": before}).json()
        seen += [each["id"] for each in page["memories"]]
        before = page["next"]
    assert sorted(seen) == sorted(["A", "a", "B", "b", "é", "z", "_", "nuts", "four"])


def test_records_are_created_updated_and_removed(postgres):
    client, _, _ = postgres
    made = client.post(f"{ROOT}/memories", json={"content": "Ada rides a bicycle.", "user": "ada"}).json()
    assert client.put(f"{ROOT}/memories/{made['id']}", json={"pinned": True}).json()["pinned"] is True
    assert client.delete(f"{ROOT}/memories/{made['id']}", params={"erase": True}).status_code == 200
    assert client.delete(f"{ROOT}/rooms/tea/room").status_code == 200
    assert client.get(f"{ROOT}/contexts").json()["contexts"] == []
