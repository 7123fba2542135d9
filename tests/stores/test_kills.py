"""A process that is killed while it migrates, backs up, restores or encrypts leaves a store that works."""

import asyncio
import signal
import sys

import pytest

from brimful.errors import StoreError
from brimful.stores import connect
from brimful.stores.migrations import Migration, load_migrations
from brimful.stores.tuning import Tuning
from stores.encrypted import kek
from stores.samples import make_message

SECOND = Migration("9999_colors", "ALTER TABLE rooms ADD COLUMN color TEXT;\nUPDATE rooms SET color = 'green';\n")
LATER = Tuning(migrations=lambda dialect: (*load_migrations(dialect), SECOND))
MESSAGES = [f"m{number}" for number in range(40)]
TENANTS = ("acme", "globex")

CHILD = """
import asyncio, os, signal, sys
from brimful.stores import connect
from brimful.stores.encryption.keys import Keys
from brimful.stores.migrations import Migration, load_migrations
from brimful.stores.tuning import Tuning

task, url, path = sys.argv[1:]
left = 1

def die(*_):
    global left
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1

class Deadly(Migration, frozen=True):
    @property
    def statements(self):
        for statement in super().statements:
            yield statement
            die()

def migrations(dialect):
    scripts = load_migrations(dialect)
    if task == "create":
        return [Deadly(script.name, script.text) for script in scripts]
    text = "ALTER TABLE rooms ADD COLUMN color TEXT;\\nUPDATE rooms SET color = 'green';\\n"
    return [*scripts, Deadly("9999_colors", text)]

async def main():
    keys = Keys(bytes(range(1, 33))) if task in ("encrypt", "rotate") else None
    scripts = migrations if task in ("create", "migrate") else load_migrations
    async with connect(url, keys=keys, tuning=Tuning(migrations=scripts, backup_pages=1, copy_rows=1)) as database:
        match task:
            case "backup":
                await database.backup(path, die)
            case "restore":
                await database.restore(path, die)
            case "encrypt":
                await database.encryption("acme").encrypt(die)
            case "rotate":
                await database.encryption("acme").rotate_data_key(die)
    print("done")

asyncio.run(main())
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request):
    return request.getfixturevalue(f"{request.param}_url")


async def post(url, keys=None):
    async with connect(url, keys=keys) as database:
        for tenant in TENANTS:
            await database.tenant(tenant).post([make_message(f"{tenant}-{id}") for id in MESSAGES])


async def read(database, tenant="acme"):
    found = await database.tenant(tenant).history("general", limit=100)
    return [each.message.id for each in reversed(found)]


def expected(tenant="acme"):
    return [f"{tenant}-{id}" for id in MESSAGES]


async def kill(task, url, path=""):
    """Run a task in a process that kills itself in the middle of it."""
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD, task, url, str(path))
    assert await child.wait() == -signal.SIGKILL


def test_while_it_creates_a_store(new_sqlite_url, run):
    async def story():
        await kill("create", new_sqlite_url)
        await post(new_sqlite_url)
        async with connect(new_sqlite_url) as database:
            return await read(database), await database.check()

    assert run(story()) == (expected(), [])


def test_while_it_migrates(url, run):
    async def story():
        await post(url)
        await kill("migrate", url)
        async with connect(url, migrate=False) as database:  # this version still works
            before = await read(database)
        async with connect(url, tuning=LATER) as database:
            return before, await read(database), await database.check()

    assert run(story()) == (expected(), expected(), [])


def test_while_it_backs_up(url, run, tmp_path):
    copy = tmp_path / "copy.db"

    async def story():
        await post(url)
        await kill("backup", url, copy)
        assert not copy.exists()
        async with connect(url) as database:
            await database.backup(copy)
        async with connect(f"sqlite:///{copy}") as database:
            return [await read(database, tenant) for tenant in TENANTS], await database.check()

    assert run(story()) == ([expected(tenant) for tenant in TENANTS], [])


def test_while_it_restores(url, run, tmp_path):
    copy = tmp_path / "copy.db"

    async def story():
        source = f"sqlite:///{tmp_path}/source.db"
        await post(source)
        async with connect(source) as database:
            await database.backup(copy)
        await kill("restore", url, copy)
        async with connect(url) as database:
            if half := await database.tenants():  # in PostgreSQL, each tenant is a transaction
                assert [await read(database, tenant) for tenant in half] == [expected(tenant) for tenant in half]
                with pytest.raises(StoreError, match=r"interrupted.* drop it, create it again, and restore again"):
                    await database.restore(copy)
                return expected("globex")
            await database.restore(copy)
            return await read(database, "globex")

    assert run(story()) == expected("globex")


@pytest.mark.parametrize("task", ["encrypt", "rotate"])
def test_while_it_encrypts(url, run, task):
    async def story():
        await post(url, keys=None if task == "encrypt" else kek())
        await kill(task, url)
        async with connect(url, keys=kek()) as database:
            before = await read(database)
            encryption = database.encryption("acme")
            await (encryption.encrypt() if task == "encrypt" else encryption.rotate_data_key())
            return (
                before,
                await read(database),
                [key.rows > 0 for key in await encryption.keys()],
                await database.check(),
            )

    before, after, used, problems = run(story())
    assert (before, after, problems) == (expected(), expected(), [])
    assert sum(used) == 1  # everything has one key
