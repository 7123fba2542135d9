"""A Citus cluster of three servers: tables are distributed with their rows, tenants are moved, and workers stop.

`make citus` runs these tests. Everything else about stores is tested there by the tests of stores.
"""

import asyncio
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import httpx2
import numpy as np
import psycopg
import pytest

from brimful.embedding import StaticEmbedder
from brimful.engine import Engine
from brimful.errors import MigrationError, StoreError, StoreUnavailable
from brimful.records import Message
from brimful.server.app import create_app
from brimful.server.config import parse_config
from brimful.stores import connect
from brimful.stores.backends import citus
from brimful.stores.migrations import Migration, load_migrations
from brimful.stores.tuning import Tuning
from server.upstream import serving
from stores.samples import make_message, nearest

pytestmark = pytest.mark.skipif("BRIMFUL_TEST_CITUS" not in os.environ, reason="needs a cluster; run `make citus`")

TOOL = Path(__file__).parents[2] / "tools" / "citus.py"
TENANTS = [f"tenant-{number}" for number in range(8)]
ATTEMPTS = 50
WHERE = """
SELECT nodeport FROM citus_shards
WHERE table_name = 'tenants'::regclass AND shardid = get_shard_id_for_distribution_column('tenants', %s::text)
"""
OWN_SHARD = """
SELECT shardminvalue = shardmaxvalue FROM pg_dist_shard
WHERE shardid = get_shard_id_for_distribution_column('messages', %s::text)
"""
NOT_DISTRIBUTED = """
SELECT table_name FROM information_schema.columns
WHERE table_schema = 'public' AND column_name = 'tenant'
    AND table_name NOT IN (SELECT table_name::text FROM citus_tables) AND table_name NOT IN ('citus_tables')
"""
LOCAL_BYTES = "SELECT sum(pg_relation_size(logicalrelid)) FROM pg_dist_partition WHERE partmethod = 'h'"
NOTES = Migration(
    "9999_notes",
    """
    CREATE TABLE notes (tenant TEXT COLLATE "C" NOT NULL, id TEXT NOT NULL, PRIMARY KEY (tenant, id)); -- one; two
    ALTER TABLE rooms ADD COLUMN color TEXT;
    UPDATE rooms SET color = 'green';
    CREATE INDEX rooms_by_color ON rooms (tenant, color);
    """,
)
GRAPHS = r"""
SELECT sum(split_part(result, ' ', 1)::int) || ' ' || sum(split_part(result, ' ', 2)::int)
FROM run_command_on_workers($$SELECT count(*) || ' ' || coalesce(sum(idx_scan), 0) FROM pg_stat_user_indexes
    WHERE indexrelname LIKE 'vectors\_near\_%\_%'$$)  -- those of shards end with a number
"""
LATER = Tuning(migrations=lambda dialect: (*load_migrations(dialect), NOTES))


@pytest.fixture
def run():
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def nodes(databases):
    """Return the addresses of a database without tables: on the coordinator, and on each worker."""
    with databases.lend_without_tables() as addresses:
        yield addresses


@pytest.fixture
def plain_role(nodes):
    """Return the address of the same database for a role that owns it and has no other rights."""
    name = f"owner_{os.getpid()}"
    execute(nodes[0], f"CREATE ROLE {name} LOGIN")
    execute(nodes[0], f"GRANT ALL ON SCHEMA public TO {name}")
    yield nodes[0].replace("//postgres:@", f"//{name}@")
    execute(nodes[0], f"DROP OWNED BY {name} CASCADE")
    execute(nodes[0], f"DROP ROLE {name}")


def execute(url, statement, values=None):
    with psycopg.connect(url, autocommit=True) as connection:
        done = connection.execute(statement, values)
        return done.fetchall() if done.description else []


async def post(url, tenants, *ids, **options):
    async with connect(url, **options) as database:
        for tenant in tenants:
            await database.tenant(tenant).post([make_message(id, f"{id} of {tenant}") for id in ids])


async def look(url):
    async with connect(url) as database:
        found = {}
        for tenant in await database.tenants():
            history = await database.tenant(tenant).history("general", limit=10_000)
            found[tenant] = {each.message.id: each.message.content for each in history}
        return found, [finding for finding in await database.check() if finding.level == "error"]


async def distribute(url, *progress, shards=4):
    async with connect(url) as database:
        return await database.distribute(*progress, shards=shards)


async def isolate(url, tenant):
    async with connect(url) as database:
        return await database.isolate(tenant)


@pytest.mark.parametrize("owner", ["superuser", "plain role"])
def test_tables_are_distributed_with_their_rows_by_whoever_owns_them(nodes, owner, request, run):
    url = nodes[0] if owner == "superuser" else request.getfixturevalue("plain_role")
    run(post(url, TENANTS, "m1", "m2"))
    before = run(look(url))
    steps = []
    done = run(distribute(url, lambda at, total: steps.append((at, total))))
    assert (done.shards, done.servers) == (4, 2)
    assert {"tenants", "messages", "rooms", "contents"} <= set(done.tables)
    assert steps == [(number + 1, len(done.tables)) for number in range(len(done.tables))]
    assert run(look(url)) == before
    assert execute(nodes[0], NOT_DISTRIBUTED) == []
    assert execute(nodes[0], LOCAL_BYTES) == [(0,)]  # an erased message leaves nothing behind
    again = run(distribute(url))
    assert (again.tables, again.shards) == ([], 4)
    with pytest.raises(StoreError, match=r"has 4 shards; to change that, run SELECT alter_distributed_table"):
        run(distribute(url, shards=8))
    run(post(url, TENANTS, "m3"))
    assert all(set(messages) == {"m1", "m2", "m3"} for messages in run(look(url))[0].values())


def test_a_later_migration_distributes_its_tables(postgres_url, run):
    run(post(postgres_url, TENANTS, "m1"))
    run(post(postgres_url, TENANTS, "m2", tuning=LATER))
    assert execute(postgres_url, NOT_DISTRIBUTED) == []
    assert execute(postgres_url, "SELECT count(*) FROM rooms WHERE color = 'green'") == [(len(TENANTS),)]
    assert execute(postgres_url, "SELECT count(*) FROM citus_tables WHERE table_name = 'notes'::regclass") == [(1,)]


def test_jobs_of_all_servers_are_done_by_one_worker(postgres_url, run):
    async def queue():
        async with connect(postgres_url) as database:
            for tenant in TENANTS:
                async with Engine(database, tenant=tenant, indexing="elsewhere") as engine:
                    await engine.post_many(
                        [Message(id=id, room="general", content="tea", at=1.0) for id in ("m1", "m2")]
                    )

    async def waiting():
        async with connect(postgres_url) as database:
            return {
                tenant: (await database.tenant(tenant).index_progress(StaticEmbedder.id)).waiting for tenant in TENANTS
            }

    run(queue())
    assert run(waiting()) == dict.fromkeys(TENANTS, 2)
    done = subprocess.run(
        [sys.executable, "-m", "brimful", "work", "--once", "--json", "--db", postgres_url],
        check=True,
        capture_output=True,
    )
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(each["tenant"] for each in reports if each["kind"] == "embed") == TENANTS
    assert run(waiting()) == dict.fromkeys(TENANTS, 0)


def test_the_graph_of_a_tenant_is_built_on_all_shards_and_used(postgres_url, run):
    vectors = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)

    async def fill():
        async with connect(postgres_url) as database:
            store = database.tenant("acme")
            await store.use_embedder("e")
            await store.post([make_message(f"m{at}", f"text {at}") for at in range(200)])
            documents = await store.backlog("e", limit=999)
            await store.save_vectors("e", [each.doc for each in documents], vectors)

    async def search():
        async with connect(postgres_url, tuning=Tuning(hnsw_threshold=100)) as database:
            await database.update_graph("acme", "e")
            return await nearest(database.tenant("acme"), ["room:general"], "e", vectors[0], limit=5)

    run(fill())
    name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
    execute(postgres_url, f"ALTER DATABASE {name} SET enable_sort = off")  # of few rows, sorting is faster
    assert run(search())[0].similarity == pytest.approx(1.0, abs=1e-3)
    assert execute(postgres_url, GRAPHS) == [("4 1",)]


def test_a_setting_that_does_not_reach_the_workers_is_noticed(postgres_url):
    statement = citus.READ_BACK.replace(":tenant", "'acme'").encode()
    for setting, wanted in (("SELECT 1", None), (citus.PROPAGATE, "acme")):
        with psycopg.connect(postgres_url) as connection:
            connection.execute(setting.encode())
            connection.execute("SET LOCAL brimful.tenant = 'acme'")
            assert (connection.execute(statement).fetchone()[1] or None) == wanted


def test_a_role_that_may_not_log_in_is_named(postgres_url, run):
    execute(postgres_url, "ALTER ROLE brimful_app NOLOGIN")
    try:
        with pytest.raises(StoreUnavailable, match="must be able to log in on every server") as caught:
            run(post(postgres_url, TENANTS, "m1"))
    finally:
        execute(postgres_url, "ALTER ROLE brimful_app LOGIN")
    assert not caught.value.retriable
    run(post(postgres_url, TENANTS, "m1"))


def test_a_worker_is_not_opened_as_a_store(nodes, run):
    run(distribute(nodes[0]))
    with pytest.raises(MigrationError, match="is a worker of a Citus cluster; connect to its coordinator"):
        run(post(nodes[1], TENANTS, "m1"))


def test_a_role_that_cannot_see_all_rows_may_not_move_them(nodes, plain_role, run):
    run(distribute(plain_role))
    run(post(plain_role, ["acme"], "m1"))
    with pytest.raises(StoreError, match="this needs a superuser"):
        run(isolate(plain_role, "acme"))
    assert run(isolate(nodes[0], "acme"))
    assert set(run(look(plain_role))[0]["acme"]) == {"m1"}


def test_an_unknown_tenant_is_not_moved(postgres_url, run):
    with pytest.raises(StoreError, match="has no tenant 'nobody'"):
        run(isolate(postgres_url, "nobody"))


def test_a_tenant_is_moved_to_a_shard_of_its_own_while_it_is_written(postgres_url, run):
    tenants = ["acme", "globex"]
    acknowledged = {tenant: [] for tenant in tenants}

    async def write(database, tenant, moved):
        for number in itertools.count():
            await database.tenant(tenant).post([make_message(f"m{number}", f"m{number} of {tenant}")])
            acknowledged[tenant].append(f"m{number}")
            if moved.is_set():
                return

    async def story():
        moved = asyncio.Event()
        async with connect(postgres_url) as database, asyncio.TaskGroup() as group:
            for tenant in tenants:
                await database.tenant(tenant).post([make_message("first", f"first of {tenant}")])
                group.create_task(write(database, tenant, moved))
            assert await database.isolate("acme")
            moved.set()
        return await look(postgres_url), await isolate(postgres_url, "acme")

    (found, damage), again = run(story())
    assert not again
    assert damage == []
    assert execute(postgres_url, OWN_SHARD, ["acme"]) == [(True,)]
    for tenant in tenants:
        assert len(acknowledged[tenant]) > 1
        assert found[tenant] == {id: f"{id} of {tenant}" for id in ["first", *acknowledged[tenant]]}


def control(action, number):
    subprocess.run([sys.executable, TOOL, action, str(number)], check=True)


def test_only_tenants_of_a_stopped_worker_wait_for_it(postgres_url, run):
    run(post(postgres_url, TENANTS, "m1"))
    ports = {tenant: execute(postgres_url, WHERE, [tenant])[0][0] for tenant in TENANTS}
    first = min(ports.values())
    stopped = [tenant for tenant in TENANTS if ports[tenant] == first]
    others = [tenant for tenant in TENANTS if ports[tenant] != first]
    assert stopped
    assert others

    async def story(database):
        control("stop-worker", 1)
        try:
            for tenant in stopped:
                with pytest.raises(StoreUnavailable) as caught:
                    await database.tenant(tenant).history("general")
                assert caught.value.retriable
                with pytest.raises(StoreUnavailable):
                    await database.tenant(tenant).post([make_message("lost")])
            for tenant in others:
                await database.tenant(tenant).post([make_message("m2", f"m2 of {tenant}")])
            await post(postgres_url, others, "m3")  # a program that starts now
        finally:
            control("start-worker", 1)
        for tenant in stopped:
            await again(lambda tenant=tenant: database.tenant(tenant).post([make_message("m4", f"m4 of {tenant}")]))

    async def opened():
        async with connect(postgres_url) as database:
            await story(database)

    run(opened())
    found, damage = run(look(postgres_url))
    assert damage == []
    assert [set(found[tenant]) for tenant in stopped] == [{"m1", "m4"}] * len(stopped)
    assert [set(found[tenant]) for tenant in others] == [{"m1", "m2", "m3"}] * len(others)


def test_a_server_is_ready_while_a_worker_is_down(postgres_url):
    upstream = {"name": "local", "url": "http://127.0.0.1:9/v1", "window": 8192}
    config = parse_config({"upstreams": [upstream], "store": postgres_url}, "brimful.toml")
    control("stop-worker", 1)
    try:
        with serving(create_app(config, environ={})) as (address, _):
            assert httpx2.get(f"{address}/ready", timeout=60).json()["status"] == "ready"
    finally:
        control("start-worker", 1)


async def again(call):
    """Call until it succeeds: connections of the coordinator to the worker are found lost one by one."""
    for _ in range(ATTEMPTS):
        try:
            return await call()
        except StoreUnavailable:
            continue
    return await call()
