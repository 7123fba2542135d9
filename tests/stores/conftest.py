"""The databases that every test of a store runs on, and how a test waits."""

import asyncio

import pytest

from brimful.stores import connect


@pytest.fixture
def url(tmp_path):
    """Return the address of an empty database."""
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def run():
    """Wait for a coroutine, all of them in one loop."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def database(url, run):
    database = run(connect(url).open())
    yield database
    run(database.close())


@pytest.fixture
def store(database):
    return database.tenant("acme")
