"""The databases that every store test runs on."""

import asyncio

import pytest

from brimful.stores import connect
from brimful.stores.tuning import DEFAULT_TUNING
from stores.encrypted import kek

ANY_STORE = {
    "test_backups",
    "test_durability",
    "test_janitor",
    "test_jobs",
    "test_statistics",
    "test_log",
    "test_retention",
    "test_integrity",
    "test_memories",
    "test_migrations",
    "test_passages",
    "test_tenants",
    "test_messages",
    "test_usage",
    "test_entities",
    "test_postings",
    "test_room_counts",
    "test_rotation",
    "test_snapshots",
    "test_vectors",
}


@pytest.fixture
def url(request):
    """Return the address of an empty database: of each sort, where a test is about any store."""
    return request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_url")


def pytest_generate_tests(metafunc):
    if "url" in metafunc.fixturenames and metafunc.module.__name__.rpartition(".")[2] in ANY_STORE:
        metafunc.parametrize("url", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def run():
    """Wait for a coroutine, all of them in one loop."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(params=["plain", "encrypted"])
def keys(request):
    """Return no keys, or some: whatever holds of a store holds of an encrypted one."""
    return kek(search="vectors") if request.param == "encrypted" else None


@pytest.fixture
def tuning():
    """Return the sizes and thresholds of the store; a test may override them."""
    return DEFAULT_TUNING


@pytest.fixture
def database(url, run, keys, tuning):
    database = run(connect(url, keys=keys, tuning=tuning).open())
    yield database
    run(database.close())


@pytest.fixture
def store(database):
    return database.tenant("acme")
