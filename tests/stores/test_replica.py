"""A replica of PostgreSQL: what is read from it, and what happens when it lags or is down."""

import asyncio
import logging
import time

import psycopg
import pytest

from brimful.errors import InvalidValue, StoreUnavailable
from brimful.records import Message, Room, Snapshot
from brimful.stores import connect
from brimful.stores.backends.driver import Driver
from brimful.stores.backends.postgres import PostgresDriver
from brimful.stores.backends.replica import COOLDOWN, Replica
from brimful.stores.urls import parse_url
from stores.samples import make_message
from stores.test_snapshots import pile
from stores.test_usage import seen
from support import build

CAUGHT_UP = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
WARNING = "because the replica cannot be used"


@pytest.fixture
def replica_url(postgres_url, standby, directly):
    """Return the address of the database on the server that follows, which has all there was."""
    primary = directly(postgres_url)
    address = primary.replace(psycopg.conninfo.conninfo_to_dict(primary)["host"], str(standby))
    catch_up(postgres_url, address)
    yield address
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SELECT pg_wal_replay_resume()")


def catch_up(primary, replica):
    with psycopg.connect(primary) as connection:
        (end,) = connection.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
    # The database may not be there yet.
    with psycopg.connect(replica, dbname="postgres", autocommit=True) as connection:
        while not connection.execute(CAUGHT_UP, [end]).fetchone()[0]:
            time.sleep(0.01)


def pause(replica):
    """Let the replica fall behind."""
    with psycopg.connect(replica, autocommit=True) as connection:
        connection.execute("SELECT pg_wal_replay_pause()")
        while connection.execute("SELECT pg_get_wal_replay_pause_state()").fetchone()[0] != "paused":
            time.sleep(0.01)


async def read_all(database, path):
    """Return the ids of messages that each read finds that may go to the replica, and of those that may not."""
    store = database.tenant("acme")
    await database.backup(path)
    async with connect(f"sqlite:///{path}") as copy:
        backup = await copy.tenant("acme").history("general")
    exported = [record.id async for record in store.export_records() if isinstance(record, Message)]
    listed = await store.replica.history("general")
    newest = await store.history("general")
    return [[each.message.id for each in found] for found in (backup, listed, newest)] + [exported]


@pytest.mark.parametrize("max_lag", [60, 0])
def test_reads_that_need_no_newest_write_go_to_the_replica_unless_it_lags(
    postgres_url, replica_url, run, tmp_path, caplog, max_lag
):
    async def story():
        async with connect(postgres_url, replica=f"{replica_url}&max_lag={max_lag}") as database:
            await database.tenant("acme").post([make_message("old")])
            catch_up(postgres_url, replica_url)
            pause(replica_url)
            await database.tenant("acme").post([make_message("new")])
            return await read_all(database, tmp_path / "copy.db")

    old, both = ["old"], ["new", "old"]
    caplog.set_level(logging.WARNING, "brimful")
    backup, listed, newest, exported = run(story())
    assert newest == both
    if max_lag:
        assert (backup, listed, exported) == (old, old, old)
        assert not caplog.records
    else:
        assert (backup, listed, sorted(exported)) == (both, both, both)
        assert len([each for each in caplog.records if "lags behind by" in each.getMessage()]) == 1


def test_statistics_and_lists_come_from_the_replica(postgres_url, another_postgres, run):
    async def story():
        async with connect(postgres_url, replica=another_postgres) as database:  # one that never has anything
            store = database.tenant("acme")
            await store.put(Room(id="general"))
            await store.save_context(Snapshot(id="s1", room="general", at=0.0, context=build(pile())))
            await store.save_usage(seen("o1"))
            lists = [
                [*await each.list_records(Room), *await each.builds(), *await each.usage_reports()]
                for each in (store, store.replica)
            ]
            return *map(len, lists), await store.accuracy(), (await store.statistics())[0].contexts

    assert run(story()) == (3, 0, [], 0)


def test_a_replica_that_is_down_is_replaced_by_the_primary(postgres_url, run, tmp_path, caplog):
    caplog.set_level(logging.WARNING, "brimful")

    async def story():
        async with connect(postgres_url, replica=f"postgresql:///chat?host={tmp_path}&wait=1") as database:
            await database.tenant("acme").post([make_message("m1")])
            return await read_all(database, tmp_path / "copy.db")

    assert run(story()) == [["m1"]] * 4
    assert [WARNING in each.getMessage() for each in caplog.records] == [True]


def test_a_replica_that_fails_during_a_read_is_replaced_by_the_primary(
    postgres_url, another_postgres, run, tmp_path, caplog
):
    caplog.set_level(logging.WARNING, "brimful")

    async def story():
        async with connect(postgres_url, replica=another_postgres) as database:
            await database.tenant("acme").post([make_message("m1")])
            with psycopg.connect(another_postgres) as connection:
                connection.execute("DROP TABLE contents CASCADE")
            return await read_all(database, tmp_path / "copy.db")

    assert run(story()) == [["m1"]] * 4
    assert [each.getMessage().partition(",")[0] for each in caplog.records] == [
        "the backup starts again on the primary",
        "reading from the primary for 30 s",
    ]


def test_a_replica_is_tried_again_after_a_while(postgres_url, run):
    attempts = []

    def make() -> Driver:
        attempts.append(now)
        return PostgresDriver(parse_url(postgres_url if now else "postgresql:///chat?host=/nowhere"), wait=1.0)

    async def read(replica, primary):
        return await replica.read(primary, "acme", lambda session: session.row("SELECT :tenant::text"))

    async def story():
        nonlocal now
        async with connect(postgres_url) as database:
            replica = Replica(make, "replica", max_lag=1.0, clock=lambda: now)
            rows = [await read(replica, database.driver)]
            assert await replica.choose(database.driver) is database.driver
            rows.append(await read(replica, database.driver))
            now += COOLDOWN
            rows += await asyncio.gather(*(read(replica, database.driver) for _ in range(3)))
            assert await replica.choose(database.driver) is not database.driver
            await replica.close()
            return rows

    now = 0.0
    assert run(story()) == [("acme",)] * 5
    assert attempts == [0.0, COOLDOWN]


def test_a_replica_by_itself_is_a_store_that_can_only_be_read(postgres_url, replica_url, run):
    async def story():
        async with connect(postgres_url) as database:
            await database.tenant("acme").post([make_message("m1")])
        catch_up(postgres_url, replica_url)
        async with connect(replica_url) as database:
            assert database.read_only
            with pytest.raises(StoreUnavailable, match="the server can only be read: it is a replica"):
                await database.tenant("acme").post([make_message("m2")])
            return len(await database.tenant("acme").history("general")), await database.check()

    assert run(story()) == (1, [])


@pytest.mark.parametrize(
    ("url", "replica", "reason"),
    [
        ("sqlite://", "postgresql://db/chat", "must be the URL of a PostgreSQL server, and so must that of the store"),
        ("postgresql://db/chat", "sqlite://", "must be the URL of a PostgreSQL server, and so must that of the store"),
        ("postgresql://db/chat", "postgresql://db/chat?max_lag=x", "max_lag must be a number of seconds, not 'x'"),
    ],
)
def test_a_replica_that_cannot_be_one_is_refused(url, replica, reason):
    with pytest.raises(InvalidValue, match=f"replica: {reason}"):
        connect(url, replica=replica)
