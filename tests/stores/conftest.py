"""The databases that every store test runs on."""

import asyncio

import pytest

from brimful.stores import connect
from brimful.stores.tuning import DEFAULT_TUNING
from stores.encrypted import kek

# Tests of tables and of the index run on every sort of store, plain and encrypted. For the others, a pair covers both.
EVERY_STORE = {
    "test_agent_runs",
    "test_entities",
    "test_log",
    "test_memories",
    "test_messages",
    "test_passages",
    "test_postings",
    "test_room_counts",
    "test_snapshots",
    "test_usage",
    "test_vectors",
}
PAIR_OF_STORES = {
    "test_api_keys",
    "test_backups",
    "test_durability",
    "test_integrity",
    "test_janitor",
    "test_jobs",
    "test_limits",
    "test_migrations",
    "test_retention",
    "test_rotation",
    "test_statistics",
    "test_tenants",
}
PAIR = [("sqlite", "plain"), ("postgres", "encrypted")]


@pytest.fixture
def url(request):
    """Return the address of an empty database: of each sort, where a test is about any store."""
    return request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_url")


def pytest_generate_tests(metafunc):
    module, used = metafunc.module.__name__.rpartition(".")[2], metafunc.fixturenames
    if module in PAIR_OF_STORES and {"url", "keys"} <= set(used):
        metafunc.parametrize(("url", "keys"), PAIR, indirect=True)
        return
    if module in EVERY_STORE | PAIR_OF_STORES and "url" in used:
        metafunc.parametrize("url", ["sqlite", "postgres"], indirect=True)
    if "keys" in used:
        metafunc.parametrize("keys", ["plain", "encrypted"], indirect=True)


@pytest.fixture
def run():
    """Wait for a coroutine, all of them in one loop."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
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
