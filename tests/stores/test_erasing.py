"""Erased texts are gone from the files of a database."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from brimful.packagers import message
from brimful.records import Response, Room, Snapshot, User
from brimful.stores import connect
from stores.encrypted import files
from stores.samples import known, make_message
from strategies import COUNTER
from support import build

ADDRESS = "Zanzibar, 7741 Larkspur Avenue"
LONG = f"{ADDRESS} " + "and on. " * 20_000  # over several pages
PATHS = """
SELECT c.relname, pg_read_binary_file(pg_relation_filepath(c.oid)) FROM pg_class c
WHERE c.relkind IN ('r', 't') AND c.relpersistence = 'p' AND pg_relation_filepath(c.oid) IS NOT NULL
"""


def seen(id, **more):
    return Snapshot(id=id, context=build([message(ADDRESS, counter=COUNTER, id="m1", current=True)]), **more)


async def write(store):
    """Write the text wherever people write, also into contexts."""
    await store.put(Room(id="general", user="ada"))
    await store.post([make_message("m1", ADDRESS), make_message("m2", "Other talk", room="hall")])
    await store.post([make_message("m3", LONG, room="hall")])
    await store.save_memories([known("k1", ADDRESS, user="ada")])
    await store.save_context(seen("c1", room="general", user="ada"))
    await store.save_context(seen("c2", room="lobby", user="ada"))
    await store.save_response(Response(id="a1", context="c2", room="lobby"))


async def erase_one_by_one(store):
    await store.delete("m1", erase=True)
    await store.remove_memory("k1", erase=True)
    await store.delete("m3", erase=True)


async def remove_user(store):
    await store.delete("m3", erase=True)
    await store.remove(User, "ada")


@pytest.mark.parametrize("erase", [erase_one_by_one, remove_user])
def test_erased_texts_are_in_no_file_of_sqlite(run, sqlite_url, erase):
    async def story():
        async with connect(sqlite_url) as database:
            store = database.tenant("acme")
            await write(store)
            before = files(sqlite_url)
            await erase(store)
            after = files(sqlite_url)  # while the store is open
            return before, after, await database.check()

    before, after, problems = run(story())
    assert ADDRESS.encode() in before
    assert ADDRESS.encode() not in after
    assert b"and on. and on." not in after
    assert b"Other talk" in after
    assert problems == []


def test_a_log_that_somebody_reads_is_emptied_later(run, sqlite_url):
    async def story():
        async with connect(sqlite_url) as database:
            store = database.tenant("acme")
            await write(store)
            with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as reader:
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM contents").fetchone()
                await erase_one_by_one(store)
                while_read = files(sqlite_url)
            await store.post([make_message("m9", "More talk", room="hall")])
            return while_read, files(sqlite_url)

    while_read, after = run(story())
    assert ADDRESS.encode() in while_read
    assert ADDRESS.encode() not in after


def heap(url):
    """Return the files of all tables of a PostgreSQL database, with what is stored out of line."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        return b"".join(data for _, data in connection.execute(PATHS).fetchall())


@pytest.mark.parametrize("erase", [erase_one_by_one, remove_user])
def test_erased_texts_are_in_no_heap_after_a_full_vacuum(run, postgres_url, directly, erase):
    async def story():
        async with connect(postgres_url) as database:
            store = database.tenant("acme")
            await write(store)
            before = heap(directly(postgres_url))
            await erase(store)
            with psycopg.connect(directly(postgres_url), autocommit=True) as connection:
                connection.execute("VACUUM (FULL, ANALYZE)")
            return before, heap(directly(postgres_url))

    before, after = run(story())
    assert ADDRESS.encode() in before
    assert ADDRESS.encode() not in after
