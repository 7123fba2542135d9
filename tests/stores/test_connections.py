"""Connections to PostgreSQL: what a transaction sets, and that it ends with it; prepared statements; the pool."""

import asyncio

import psycopg
import pytest
from psycopg import sql

from brimful.stores import connect
from databases import EXTERNAL
from stores.samples import make_message

SETTINGS = """
SELECT current_user::text, current_setting('brimful.tenant'), current_setting('synchronous_commit'),
       current_setting('hnsw.iterative_scan', true), current_setting('transaction_isolation'),
       current_setting('transaction_read_only') WHERE :tenant::text <> ''
"""
READS = ("off", "strict_order", "repeatable read", "on")
WRITES = ("on", "off", "read committed", "off")
TENANT = r"""acme's "own"; \ SELECT 1 -- é"""
IS_CITUS = """
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
VALUES (99999, 'citus', 10, 'public'::regnamespace, false, '1')
"""


@pytest.fixture(params=["together", "one by one"])
def defaults_url(request, another_postgres, directly):
    """Return a database whose defaults are other ones than ours, also with Citus, to which settings go one by one."""
    url = directly(another_postgres)  # a session has the defaults of the time when it began
    with psycopg.connect(url, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        for setting in ("synchronous_commit = off", "hnsw.iterative_scan = off"):
            connection.execute(sql.SQL("ALTER DATABASE {} SET {}").format(name, sql.SQL(setting)))
        if request.param == "one by one" and EXTERNAL is None:
            connection.execute(IS_CITUS)
            connection.execute("CREATE TABLE pg_dist_partition (logicalrelid regclass)")  # nothing is distributed
            connection.execute("CREATE FUNCTION citus_is_coordinator() RETURNS bool RETURN true")
    return url


def test_every_transaction_has_its_own_settings(defaults_url, run):
    async def settings():
        async with connect(defaults_url) as database:
            read, write = database.driver.read, database.driver.write
            return [
                await function(tenant, lambda session: session.row(SETTINGS))
                for tenant in (TENANT, "other")
                for function in (write, read, write, read)
            ]

    assert run(settings()) == [
        ("brimful_app", tenant, *expected) for tenant in (TENANT, "other") for expected in (WRITES, READS) * 2
    ]


def test_tenants_stay_apart_on_one_connection(defaults_url, run):
    async def used():
        async with connect(defaults_url) as database:
            await database.tenant(TENANT).post([make_message("m1")])
            await database.tenant("other").post([make_message("m2")])
            rows = "SELECT id FROM messages WHERE :tenant <> ''"  # of all tenants, but for row-level security
            found = [await database.driver.read(each, lambda s: s.rows(rows)) for each in (TENANT, "other", "no one")]
            return await database.tenants(), found

    assert run(used()) == ([TENANT, "other"], [[("m1",)], [("m2",)], []])


OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = ''
"""
PREPARED = "SELECT count(*) FROM pg_prepared_statements WHERE :tenant::text <> ''"


@pytest.mark.parametrize(("settings", "prepares"), [("", True), ("&prepare=on", True), ("&prepare=off", False)])
def test_statements_are_prepared_unless_the_url_says_otherwise(postgres_url, directly, run, settings, prepares):
    async def prepared():
        async with connect(f"{directly(postgres_url)}{settings}&connections=1") as database:
            for _ in range(10):
                ((count,),) = await database.driver.read("acme", lambda session: session.rows(PREPARED))
            return count

    assert bool(run(prepared())) is prepares


def test_more_callers_than_connections_wait_for_their_turn(postgres_url, run):
    async def posted():
        async with connect(f"{postgres_url}&connections=4") as database:
            store = database.tenant("acme")
            await asyncio.gather(*(store.post([make_message(f"m{number}")]) for number in range(32)))
            with psycopg.connect(postgres_url) as connection:
                (connections,) = connection.execute(OTHERS).fetchone()
            return connections, len(await store.history("general"))

    connections, messages = run(posted())
    assert 1 <= connections <= 4
    assert messages == 32
