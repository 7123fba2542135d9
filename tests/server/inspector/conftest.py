"""A server whose store contains messages, memories, contexts and answers."""

import asyncio
import shutil

import msgspec
import pytest

from brimful.engine import Engine
from brimful.records import Lorebook, LoreEntry, Message, Persona, Room, Usage

NOW = 1_794_000_000.0
ROOT = "/brimful/v1"


class Kept(msgspec.Struct):
    """What a test asks about."""

    first: str
    second: str


def store_of(tmp_path):
    return f"sqlite:///{tmp_path}/brimful.db"


async def tell_story(url, tenant="default", *, turns=60):
    """Let a room fill up, and build two contexts for it; the first is answered."""
    async with Engine(url, tenant=tenant, model="gpt-4o", embedder="none", clock=lambda: NOW) as engine:
        await engine.put(Room(id="tea/room", goal="Choose a tea.", user="ada"))
        await engine.put(Persona(id="nova", name="Nova", prompt="You are Nova, who knows tea.", lorebooks=("teas",)))
        await engine.put(Lorebook(id="teas", name="Teas"))
        await engine.write_lore([LoreEntry(id="teas/1", lorebook="teas", content="Sencha is green.", keys=("sencha",))])
        await engine.remember("Ada is allergic to hazelnut.", user="ada", pinned=True, id="nuts", at=NOW - 50)
        await engine.propose("Ada's bank is Evilbank.", user="ada", id="rumor", at=NOW - 45)
        await engine.remember("Ada drinks tea at four.", user="ada", id="four", at=NOW - 60)
        await engine.post_many(
            [
                Message(id=f"m{n}", room="tea/room", content=f"Turn {n}: about sencha. " * 12, at=NOW + n)
                for n in range(turns)
            ]
        )
        first = await engine.assemble(
            room="tea/room", persona="nova", message="Which sencha?", user="ada", window=2_500, completion=300
        )
        usage = Usage(prompt=first.tokens, cached=100, completion=9)
        told = {"usage": usage, "seconds": 1.5, "finish": "stop", "route": "local", "id": "first"}
        await engine.record_response(first, "Kabusecha.", **told)
        second = await engine.assemble(
            room="tea/room", persona="nova", message="And when?", user="ada", window=2_500, completion=300, now=NOW + 99
        )
    return Kept(first=first.id, second=second.id)


@pytest.fixture(scope="session")
def told(tmp_path_factory):
    """Return a folder with the store of the story, and what it is about."""
    folder = tmp_path_factory.mktemp("story")
    return folder, asyncio.run(tell_story(store_of(folder)))


@pytest.fixture
def kept(told, tmp_path):
    folder, kept = told
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return kept


@pytest.fixture
def client(start, kept):  # noqa: ARG001 - what it looks into
    return start(remember={"embedder": "none"})


@pytest.fixture
def reader(told, servers_of_file, shared):
    """Return a client of a server that the tests of a file share: they only look into its store."""
    servers, _ = servers_of_file
    if not servers.store.exists():
        shutil.copytree(told[0], servers.store.parent, dirs_exist_ok=True)
    return shared(remember={"embedder": "none"})


@pytest.fixture
def get(client):
    """Return a function that gets what is at a path, and wants it to be there."""

    def got(path, **query):
        answer = client.get(ROOT + path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return got
