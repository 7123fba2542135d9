"""A directory of stores: tenants in several databases, and moves between them."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from brimful.cli.app import app
from brimful.errors import InvalidValue, StoreUnavailable
from brimful.stores import connect
from brimful.stores.admin.move import move_tenant
from brimful.stores.backends.directory import DirectoryDriver
from brimful.stores.encryption.keyring import Keyring
from stores.samples import make_message
from stores.test_integrity import alike, state, worked


@pytest.fixture
def make_directory(tmp_path, postgres_url, another_postgres):
    """Return a function that returns the URL of a directory with two PostgreSQL stores and a SQLite file."""

    def make(home="eu1"):
        file = tmp_path / f"{home}.toml"
        file.write_text(
            f"""
            home = "{home}"
            [stores]
            eu1 = "{postgres_url}"
            eu2 = "{another_postgres}"
            file = "sqlite:///{tmp_path}/file.db"
            """
        )
        return f"directory:///{file}"

    return make


async def post(database, tenant, *numbers):
    await database.tenant(tenant).post([make_message(f"m{number}") for number in numbers])


async def read(database, tenant):
    return sorted(entry.message.id for entry in await database.tenant(tenant).history("general", limit=1_000))


async def rows_of(url, tenant):
    """Return the tenants of a store, and the messages of one of them."""
    async with connect(url) as database:
        return await database.tenants(), await read(database, tenant)


@pytest.mark.parametrize("home", ["eu1", "file"])
def test_a_tenant_is_moved_with_everything_it_has(make_directory, home, run, postgres_url, another_postgres):
    async def go():
        async with connect(make_directory(home)) as database, connect(make_directory(home)) as server:
            await post(database, "acme", 1, 2)
            await post(database, "zeta", 1)
            assert await read(server, "acme") == ["m1", "m2"]
            for to in ("eu2", "eu1", "eu2"):
                await database.move("acme", to)
                await database.move("acme", to)  # it is there already
                assert await read(server, "acme") == await read(database, "acme")
                assert await server.tenants() == ["acme", "zeta"]
                await post(server, "acme", 3)  # the server did not know that the tenant was moved
            await post(database, "acme", 4)
            async with connect(make_directory(home)) as fresh:
                return await read(fresh, "acme"), await read(fresh, "zeta")

    assert run(go()) == (["m1", "m2", "m3", "m4"], ["m1"])
    assert run(rows_of(another_postgres, "acme")) == (["acme"], ["m1", "m2", "m3", "m4"])
    assert run(rows_of(postgres_url, "acme")) == (["zeta"] if home == "eu1" else [], [])


def test_vectors_contexts_and_the_index_move_too(make_directory, run, keys):
    async def go():
        async with connect(make_directory("file"), keys=keys) as database:
            await worked(database)
            stores = [database.tenant(name) for name in ("acme", "other")]
            before = [await state(store) for store in stores]
            await database.move("acme", "eu1")
            after = [await state(store) for store in stores]
            return before, after, await database.check()

    before, after, problems = run(go())
    for one, other in zip(before, after, strict=True):
        alike(one, other)
    assert problems == []


def test_nothing_is_lost_while_a_tenant_is_moved(make_directory, run):
    acknowledged, refused = [], []

    async def write(server, enough, stop):
        while not stop.is_set():
            number = len(acknowledged) + 1
            try:
                await post(server, "acme", number)
                acknowledged.append(f"m{number}")
            except StoreUnavailable as error:
                refused.append(error)
            if len(acknowledged) % 5 == 0:
                enough.set()

    async def go():
        enough, stop = asyncio.Event(), asyncio.Event()
        async with connect(make_directory()) as database, connect(make_directory()) as server:
            writer = asyncio.create_task(write(server, enough, stop))
            for to in ("eu2", "eu1", "eu2"):
                enough.clear()
                await enough.wait()
                await database.move("acme", to)
            stop.set()
            await writer
            return await read(database, "acme")

    assert run(go()) == sorted(acknowledged)
    assert len(acknowledged) >= 15
    assert all(error.retriable and "is being moved" in str(error) for error in refused)


class Dying:
    """A driver of a process that is killed before its n-th write transaction, or whose disk is full."""

    def __init__(self, driver, left, full=()):
        self._driver = driver
        self._left = left
        self._full = full

    def __getattr__(self, name):
        return getattr(self._driver, name)

    async def write(self, tenant, function):
        self._left.pop()
        return await self._driver.write(tenant, function)

    def write_now(self, tenant, function):
        for error in self._full:
            raise error
        return self._driver.write_now(tenant, function)


async def move_and_die(urls, left, full=()):
    """Move a tenant from the first to the second store; return whether that failed."""
    make = {name: lambda url=url: Dying(connect(url).driver, left, full) for name, url in urls.items()}
    directory = DirectoryDriver("directory:///x", "eu1", make)
    await directory.open(migrate=True)
    try:
        await move_tenant(directory, Keyring(None), "acme", "eu2", lambda: None)
    except (IndexError, OSError):
        return True
    finally:
        await directory.close()
    return False


@pytest.mark.parametrize("step", range(8))
def test_an_interrupted_move_can_be_repeated(make_directory, run, step, postgres_url, another_postgres):
    url = make_directory()

    async def go():
        async with connect(url) as database:
            await post(database, "acme", 1, 2)
        died = await move_and_die({"eu1": postgres_url, "eu2": another_postgres}, [None] * step)
        async with connect(url) as database:
            before = await read(database, "acme")
            await database.move("acme", "eu2")
            await post(database, "acme", 3)
            return died, before, await read(database, "acme"), await database.tenants()

    died, before, after, tenants = run(go())
    assert died == (step < 6)
    assert before == ["m1", "m2"]
    assert after == ["m1", "m2", "m3"]
    assert tenants == ["acme"]
    assert run(rows_of(postgres_url, "acme")) == ([], [])


def test_a_move_that_fails_leaves_the_tenant_where_it_was(make_directory, run, postgres_url, another_postgres):
    async def go():
        async with connect(make_directory()) as database:
            await post(database, "acme", 1)
            urls = {"eu1": postgres_url, "eu2": another_postgres}
            assert await move_and_die(urls, [None] * 100, [OSError("disk full")])
            await post(database, "acme", 2)
            return await read(database, "acme")

    assert run(go()) == ["m1", "m2"]
    assert run(rows_of(another_postgres, "acme")) == ([], [])


def test_without_one_store_the_tenants_of_the_others_are_served(tmp_path, postgres_url, run, caplog):
    file = tmp_path / "stores.toml"
    lines = ['home = "eu1"', "[stores]", f'eu1 = "{postgres_url}"', 'eu2 = "postgresql://127.0.0.1:9/none?wait=1"']
    file.write_text("\n".join(lines))

    async def go():
        async with connect(f"directory:///{file}") as database:
            await post(database, "acme", 1)
            await database.ping()
            with pytest.raises(StoreUnavailable):
                await database.move("acme", "eu2")
            await post(database, "acme", 2)
            return await read(database, "acme")

    assert run(go()) == ["m1", "m2"]
    assert "the tenants in store eu2 cannot be served" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file"),
        ("home = 1", "Expected `str`"),
        ('home = "a"\nstores = {b = "sqlite:///x.db"}', "home must be one of the stores, not 'a'"),
        ('home = "a"\nstores = {a = "sqlite://"}', "stores.a must be a PostgreSQL database or a SQLite file"),
        ('home = "a"\nstores = {a = "directory:///x"}', "stores.a must be a PostgreSQL database or a SQLite file"),
        ('home = "a"\nstores = {a = "mysql://x"}', "must be one of"),
    ],
)
def test_a_list_of_stores_that_is_wrong_is_explained(tmp_path, text, message):
    file = tmp_path / "stores.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InvalidValue, match=message):
        connect(f"directory:///{file}")


def test_moves_that_are_impossible_are_explained(make_directory, sqlite_url, run):
    async def go():
        async with connect(make_directory()) as database, connect(sqlite_url) as one:
            await post(database, "acme", 1)
            for to, message in (("eu3", "must be one of eu1, eu2, file"), ("file", "PostgreSQL stores only")):
                with pytest.raises(InvalidValue, match=message):
                    await database.move("acme", to)
            with pytest.raises(InvalidValue, match="is one store"):
                await one.move("acme", "eu2")
            return await read(database, "acme")

    assert run(go()) == ["m1"]


def test_the_command_moves_a_tenant(make_directory, run):
    url = make_directory()

    async def begin():
        async with connect(url) as database:
            await post(database, "acme", 1)

    run(begin())
    moved = CliRunner().invoke(app, ["db", "move", "acme", "--to", "eu2", "--db", url, "--json"])
    assert json.loads(moved.stdout) == {"tenant": "acme", "store": "eu2"}
    assert run(rows_of(url, "acme")) == (["acme"], ["m1"])
