"""The databases that every test of a store runs on, and how a test waits."""

import asyncio

import pytest

from brimful.stores import connect
from stores.sealed import kek


@pytest.fixture
def url(tmp_path):
    """Return the address of an empty database."""
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def run():
    """Wait for a coroutine, all of them in one loop."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(params=["clear", "sealed"])
def keys(request):
    """Return no keys, or some: whatever holds of a store holds of an encrypted one."""
    return kek() if request.param == "sealed" else None


@pytest.fixture
def database(url, run, keys):
    database = run(connect(url, keys=keys).open())
    yield database
    run(database.close())


@pytest.fixture
def store(database):
    return database.tenant("acme")
