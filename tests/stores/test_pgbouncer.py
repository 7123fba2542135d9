"""A store behind PgBouncer in transaction mode. `make pgbouncer` runs all tests of PostgreSQL behind it."""

import asyncio
from contextlib import suppress

import psycopg
import pytest

from brimful.errors import StoreUnavailable
from brimful.records.own_calls import SpendingLimit
from brimful.stores import connect
from brimful.stores.tables.own_calls import Charge
from stores.samples import make_message
from stores.test_connections import PREPARED
from stores.test_failures import no_new_connections

SESSION = "SELECT current_user::text, current_setting('brimful.tenant', true), current_setting('plan_cache_mode')"
TENANTS = ("acme", "other")


@pytest.fixture
def pooled_url(postgres_url, pgbouncer):
    return pgbouncer(postgres_url)


def test_more_clients_than_sessions_share_them(pooled_url, run):
    async def talk(database, tenant, room):
        store = database.tenant(tenant)
        for number in range(8):  # often enough for prepared statements
            await store.post([make_message(f"{room} {number}", room=room)])
            found = await store.history(room, limit=1)
            assert found[0].message.id == f"{room} {number}"

    async def story():
        async with connect(pooled_url) as one, connect(pooled_url) as two:
            rooms = [(database, tenant, f"{tenant} {n}") for n, database in enumerate((one, two)) for tenant in TENANTS]
            await asyncio.gather(*(talk(*each[:2], f"{each[2]} {n}") for each in rooms for n in range(3)))
            return await one.tenants(), await one.check()

    assert run(story()) == (["acme", "other"], [])


def test_servers_behind_a_pooler_share_one_limit_of_own_calls(pooled_url, run):
    limit, most = SpendingLimit(tokens_per_day=2_500), Charge(prompt=1_000)

    async def reserve(database):
        return (await database.tenant("acme").reserve_own_call("learn", most, limit, now=1.0)).admitted

    async def story():
        async with connect(pooled_url) as one, connect(pooled_url) as two:
            admitted = await asyncio.gather(*(reserve(database) for database in (one, two) * 6))
            return sum(admitted), await one.tenant("acme").own_spending(now=1.0)

    admitted, spent = run(story())
    assert (admitted, spent.reserved_tokens) == (3, 3_000)


def test_nothing_is_prepared_and_nothing_stays_in_a_session(pooled_url, run):
    async def story():
        async with connect(pooled_url) as database:
            for _ in range(10):
                ((count,),) = await database.driver.write("acme", lambda session: session.rows(PREPARED))
            return count

    assert run(story()) == 0
    with psycopg.connect(pooled_url) as connection:
        assert connection.execute(SESSION).fetchone() == ("postgres", "", "auto")


def test_a_server_that_is_down_behind_a_pooler_is_reported(pooled_url, directly, run):
    async def story():
        async with connect(pooled_url, wait=0.3) as database:
            store = database.tenant("acme")
            await store.post([make_message("m1")])
            with no_new_connections(directly(pooled_url)):
                with pytest.raises(StoreUnavailable) as caught:
                    await store.history("general")
                assert caught.value.retriable
            while True:  # the pooler tries again after a while
                with suppress(StoreUnavailable):
                    return len(await store.history("general"))

    assert run(story()) == 1


def test_a_new_database_is_migrated_and_optimized_through_a_pooler(pooled_url, run, tmp_path):
    with psycopg.connect(pooled_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")

    async def story():
        async with connect(pooled_url) as database:
            await database.tenant("acme").post([make_message("m1")])
            assert await database.driver.build_graph("acme", "static", 8)
            await database.backup(tmp_path / "copy.db")
            return await database.check()

    assert run(story()) == []
