"""Failures are reported clearly, lose nothing, and the store keeps working."""

import asyncio
import secrets
import sqlite3
import threading
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from brimful.engine import Engine
from brimful.errors import InvalidValue, StoreCorrupt, StoreError, StoreUnavailable
from brimful.stores import connect
from stores.samples import make_message


@pytest.fixture
def database(sqlite_url, run):
    database = run(connect(sqlite_url, wait=0.05).open())
    yield database
    run(database.close())


def path_of(url):
    return url.removeprefix("sqlite:///")


def on_last_connection(database, run, sql):
    """Run a statement on the connection that was used last, and so is used next."""
    return run(database.driver.read("acme", lambda session: session.rows(f"{sql} -- :tenant")))


def posted(run, database, *ids, text="Hello there"):
    return run(database.tenant("acme").post([make_message(id, text) for id in ids]))


def ids(run, database):
    return [each.message.id for each in run(database.tenant("acme").history("general", limit=10_000))]


def test_another_process_holds_the_lock(database, sqlite_url, run):
    posted(run, database, "m1")
    other = sqlite3.connect(path_of(sqlite_url), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="another process holds the lock; try again") as caught:
        posted(run, database, "m2")
    assert caught.value.retriable
    assert ids(run, database) == ["m1"]
    other.execute("ROLLBACK")
    other.close()
    assert posted(run, database, "m2")[0].seq == 2


def test_a_store_is_opened_and_read_while_another_process_writes(database, sqlite_url, run):
    posted(run, database, "m1")
    other = sqlite3.connect(path_of(sqlite_url), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def read():
        async with connect(sqlite_url, wait=0.0) as mine:
            return len(await mine.tenant("acme").history("general"))

    assert run(read()) == 1
    other.close()


def test_sequential_work_needs_one_connection_and_concurrent_work_several(database, run):
    async def in_turn():
        for number in range(5):
            await database.tenant("acme").post([make_message(f"m{number}")])
            await database.tenant("acme").history("general", limit=10)

    async def at_once():
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            met = threading.Barrier(2)
            for _ in range(2):
                group.create_task(database.driver.read("acme", lambda _: met.wait(120)))

    run(in_turn())
    assert database.driver.open_connections == 1
    run(at_once())
    assert database.driver.open_connections == 2
    on_last_connection(database, run, "CREATE TEMP TABLE mine (x)")  # which no other connection knows
    run(in_turn())
    assert on_last_connection(database, run, "SELECT * FROM mine") == []
    assert database.driver.open_connections == 2


def test_a_program_may_go_to_another_folder(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def story():
        async with connect("sqlite:///store.db") as database:
            await database.tenant("acme").post([make_message("m1")])
            (tmp_path / "elsewhere").mkdir()
            monkeypatch.chdir(tmp_path / "elsewhere")
            met = threading.Barrier(2)

            def found(session):
                met.wait(120)  # so that each has a connection of its own
                return session.row("SELECT count(*) FROM messages WHERE tenant = :tenant")

            return await asyncio.gather(*(database.driver.read("acme", found) for _ in range(2)))

    assert run(story()) == [(1,), (1,)]


def test_two_open_a_new_file_at_once(new_sqlite_url, run):
    other = sqlite3.connect(path_of(new_sqlite_url), isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")

    async def opened():
        opening = asyncio.create_task(connect(new_sqlite_url, wait=120.0).open())
        await asyncio.wait([opening], timeout=0.1)
        assert not opening.done()
        other.execute("ROLLBACK")
        return await opening

    database = run(opened())
    assert posted(run, database, "m1")[0].seq == 1
    run(database.close())
    other.close()


def test_a_new_file_that_another_never_lets_go(new_sqlite_url, run):
    other = sqlite3.connect(path_of(new_sqlite_url), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="another process holds the lock; try again") as caught:
        run(connect(new_sqlite_url, wait=0.05).open())
    assert caught.value.retriable
    other.close()


def test_the_disk_is_full(database, run):
    kept = []
    pages = on_last_connection(database, run, "PRAGMA page_count")[0][0]
    on_last_connection(database, run, f"PRAGMA max_page_count = {pages + 40}")

    def fill():
        for number in range(10_000):
            posted(run, database, f"m{number}", text=f"text {number} " * 200)
            kept.append(f"m{number}")

    with pytest.raises(StoreUnavailable, match="the disk is full; make room and try again") as caught:
        fill()
    assert not caught.value.retriable
    assert ids(run, database) == kept[::-1]
    assert run(database.check()) == []
    on_last_connection(database, run, "PRAGMA max_page_count = 1000000")
    assert posted(run, database, "later")[0].seq == len(kept) + 1
    assert run(database.check()) == []


def test_the_file_may_not_be_written(database, run):
    posted(run, database, "m1")
    on_last_connection(database, run, "PRAGMA query_only = ON")
    with pytest.raises(StoreUnavailable, match="may not be written; check the rights of the file"):
        posted(run, database, "m2")
    assert ids(run, database) == ["m1"]
    on_last_connection(database, run, "PRAGMA query_only = OFF")
    posted(run, database, "m2")


def test_a_missing_folder_is_an_error(tmp_path, run):
    with pytest.raises(StoreUnavailable, match="cannot be opened; check that the folder exists"):
        run(connect(f"sqlite:///{tmp_path}/nowhere/store.db").open())


def test_the_file_is_no_database(tmp_path, run):
    (tmp_path / "letter.db").write_text("Dear Ada, " * 500)
    with pytest.raises(StoreCorrupt, match=r"not a database, or a damaged one .*; restore a backup"):
        run(connect(f"sqlite:///{tmp_path}/letter.db").open())


def test_the_file_was_cut_off(tmp_path, run):
    path = tmp_path / "cut.db"

    async def filled():
        async with connect(f"sqlite:///{path}") as database:
            await database.tenant("acme").post(
                [make_message(f"m{number}", "some text " * 100) for number in range(500)]
            )

    run(filled())
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    with pytest.raises(StoreCorrupt, match="not a database, or a damaged one"):
        run(filled())


def test_a_store_that_could_not_be_opened_is_let_go(tmp_path, run):
    """Whoever puts a backup in its place, in the same process, meets no lock of the attempt that failed."""
    path = tmp_path / "store.db"
    url = f"sqlite:///{path}"

    async def opened():
        async with Engine(url, embedder="static", model="gpt-4o") as engine:
            await engine.post(room="r", text="some text " * 100, id="m1")
            return len(await engine.store.history("r"))

    assert run(opened()) == 1
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    engine = Engine(url, embedder="static", model="gpt-4o")
    for attempt in (engine.open, connect(url).open):
        with suppress(StoreCorrupt):
            run(attempt())
            pytest.fail("a file that was cut off was opened")
        assert not [each for each in _open_files() if each.startswith(str(path))]
    path.write_bytes(whole)
    run(engine.open())
    run(engine.close())


def _open_files():
    return [str(link.readlink()) for link in Path("/proc/self/fd").glob("*") if link.is_symlink()]


@pytest.mark.parametrize("length", [6_000, 60_000])
def test_an_id_that_is_too_long_for_an_index_is_not_taken_for_a_lost_connection(postgres_url, run, length):
    async def written():
        async with connect(postgres_url) as database:
            await database.tenant("acme").post([make_message(secrets.token_hex(length // 2), "hi")])

    with pytest.raises(StoreError, match="too long for the server's index; give shorter ones") as caught:
        run(written())
    assert not isinstance(caught.value, StoreUnavailable)


def test_a_call_that_fails_half_way_changes_nothing(database, run):
    posted(run, database, "m1")
    with pytest.raises(InvalidValue, match="lone surrogate"):
        run(database.tenant("acme").save_counts("t", {"a": 1, "b\ud800": 2}))
    assert run(database.tenant("acme").counts("t", ["a"])) == {}
    posted(run, database, "m2")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_store_in_memory_forgets(run, url):
    async def story():
        async with connect(url) as database:
            await database.tenant("acme").post([make_message("m1")])
            assert await database.check() == []
            return len(await database.tenant("acme").history("general"))

    assert run(story()) == run(story()) == 1


def test_a_file_name_is_answered_with_its_url():
    with pytest.raises(InvalidValue, match=r"'chat.db' is not a store URL. Did you mean sqlite:///chat.db\?"):
        connect("chat.db")


@pytest.mark.parametrize("url", ["", "mysql://localhost/chat", "sqlite:chat.db", "sqlite://chat.db", 7])
def test_a_url_that_means_nothing_shows_those_that_do(url):
    with pytest.raises(InvalidValue, match=r"sqlite:///chat.db.*postgresql://user@host/name"):
        connect(url)


# -- PostgreSQL ------------------------------------------------------------------------------------------------------


# Of this database alone: other tests use the same server at the same time, and wait for locks of their own.
WAITING = """
FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE NOT granted AND datname = current_database()
"""


def end_connections(url):
    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid()"
        )


@contextmanager
def no_new_connections(url):
    """End all connections to a database, and refuse new ones."""
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with psycopg.connect(url.replace(f"/{name}?", "/postgres?"), autocommit=True) as server:
        server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
        server.execute("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s", [name])
        yield
        server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())


def test_no_error_and_no_repr_tells_a_password(run):
    database = connect("postgresql://ada:swordfish@localhost:1/chat?sslpassword=swordfish", wait=1.0)
    with pytest.raises(
        StoreUnavailable, match="cannot be reached; check the address, the user and the password"
    ) as caught:
        run(database.open())
    shown = "".join(traceback.format_exception(caught.value)) + repr(database) + repr(caught.value)
    assert "postgresql://ada@localhost:1/chat" in shown
    assert "swordfish" not in shown
    run(database.close())


def test_lost_connections_are_restored_before_a_request(postgres_url, run):
    async def story():
        async with connect(postgres_url) as database:
            store = database.tenant("acme")
            await asyncio.gather(*(store.post([make_message(f"m{number}")]) for number in range(8)))
            end_connections(postgres_url)
            await store.post([make_message("later")])
            return len(await store.history("general"))

    assert run(story()) == 9


def test_calls_succeed_soon_after_a_long_outage(postgres_url, directly, run):
    async def story():
        async with connect(directly(postgres_url), wait=0.5) as database:  # a pooler would have a pause of its own
            store = database.tenant("acme")
            await store.post([make_message("m1")])
            with no_new_connections(postgres_url):
                for _ in range(8):  # each waits for a connection: more than three seconds in all
                    with pytest.raises(StoreUnavailable):
                        await store.history("general")
            for _ in range(3):
                with suppress(StoreUnavailable):
                    return len(await store.history("general"))
            return None

    assert run(story()) == 1


def test_a_lost_connection_is_reported_and_the_next_call_works(postgres_url, run):
    async def story():
        async with connect(postgres_url) as database:
            store = database.tenant("acme")
            await store.post([make_message("m1")])
            with psycopg.connect(postgres_url) as other:
                other.execute("LOCK TABLE messages")
                waiting = asyncio.create_task(store.post([make_message("m2")]))
                while not other.execute(f"SELECT pid {WAITING}").fetchone():  # noqa: ASYNC110 - only the server knows
                    await asyncio.sleep(0.01)
                other.execute(f"SELECT pg_terminate_backend(pid) {WAITING}")
                with pytest.raises(StoreUnavailable, match="the connection is lost; call again") as caught:
                    await waiting
                assert caught.value.retriable
            assert [message.seq for message in await store.post([make_message("m2")])] == [2]
            return await database.check()

    assert run(story()) == []


def test_an_exhausted_pool_is_reported(postgres_url, directly, run):
    async def story():
        async with connect(directly(postgres_url), wait=0.3) as database:
            store = database.tenant("acme")
            await store.post([make_message("m1")])
            with no_new_connections(postgres_url):
                with pytest.raises(StoreUnavailable, match=r"too busy, or out of reach; .* URL: \?wait=30") as caught:
                    await store.history("general")
                assert caught.value.retriable
            while True:  # the pool tries again after a while
                with suppress(StoreUnavailable):
                    return len(await store.history("general"))

    assert run(story()) == 1
