"""A store with something in it, and clients of the SDK."""

import asyncio
import shutil

import pytest

from brimful.engine import Engine
from brimful.mcp.server import LazyEngine, Session, create_server
from brimful.mcp.tools import select_tools
from brimful.records import Room

NOW = 1_794_000_000.0


async def fill_store(url):
    """Write two rooms, a few memories, and a context with its answer. Return the id of the context."""
    async with Engine(url, model="gpt-4o", embedder="none", clock=lambda: NOW) as engine:
        await engine.put(Room(id="kitchen", name="Kitchen", user="ada"))
        for at, text in enumerate(["The kettle is green.", "The ladder cost 80 euros.", "Tea is at four."], start=1):
            await engine.post(room="kitchen", text=text, sender="Ada", id=f"m{at}", at=NOW - 100 + at)
        await engine.post(room="kitchen", text="A secret note.", id="hidden", hidden=True, at=NOW - 50)
        await engine.post(room="attic", text="The trunk is locked.", sender="Bob", id="m9", at=NOW - 900)
        await engine.remember("Ada prefers green tea.", id="mem-tea", user="ada", at=NOW - 30)
        await engine.remember("The office closes at six.", id="mem-office", pinned=True, at=NOW - 20)
        await engine.remember("Bob collects stamps.", id="mem-stamps", user="bob", at=NOW - 10)
        context = await engine.assemble(room="kitchen", message="When is tea?", model="gpt-4o")
        await engine.record_response(context, "At four.", id="answer")
        return context.id


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/chat.db"


@pytest.fixture(scope="session")
def filled_store(tmp_path_factory):
    """Return a folder with a filled store, to be copied, and the id of its context."""
    folder = tmp_path_factory.mktemp("filled")
    return folder, asyncio.run(fill_store(f"sqlite:///{folder}/chat.db"))


@pytest.fixture
def context_id(filled_store, tmp_path):
    folder, id = filled_store
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return id


@pytest.fixture
def others_context(url, context_id):  # noqa: ARG001 - fills the store
    """Write a context of another user with its answer, and a memory of that user's room. Return the context's id."""

    async def write():
        async with Engine(url, model="gpt-4o", embedder="none", clock=lambda: NOW) as engine:
            await engine.remember("The key of the trunk is in the clock.", id="mem-attic", room="attic")
            context = await engine.assemble(room="attic", user="bob", message="Who has the key?", model="gpt-4o")
            await engine.record_response(context, "Bob has.", id="answer-bob")
            return context.id

    return asyncio.run(write())


@pytest.fixture
def new_server(url):
    """Return a way to make servers over the store."""

    def make(*, tools=None, untrusted="trust", **session):
        engine = LazyEngine(session.pop("db", url), embedder="none", untrusted=untrusted)
        served = Session(engine=engine.open, **session)
        return create_server(lambda _: served, tools=select_tools(tools), on_close=engine.close)

    return make
