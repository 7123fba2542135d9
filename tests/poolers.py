"""PgBouncer in transaction mode, in front of the server of the tests.

`make pgbouncer` sends all tests of PostgreSQL through it; `make test` only a few.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest

PATIENCE = 60
PREFIX = "brimful-pgbouncer-"
# Few sessions, so that clients take turns. Tests end sessions, so each one is checked before it is used.
SETTINGS = """
[databases]
* = host={server}
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
logfile = {folder}/log
pool_mode = transaction
default_pool_size = 4
query_wait_timeout = 10
max_client_conn = 1000
server_check_delay = 0
server_login_retry = 1
auth_type = trust
auth_file = {folder}/users
auth_user = postgres
auth_query = SELECT rolname::text, ''::text FROM pg_roles WHERE rolname = $1
"""


def pytest_collection_modifyitems(config, items):
    """Leave out what needs no PostgreSQL, if all tests of PostgreSQL run behind the pooler."""
    if not os.environ.get("BRIMFUL_TEST_PGBOUNCER"):
        return
    chosen = [item for item in items if any("postgres" in name for name in (item.name, *item.fixturenames))]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


@pytest.fixture(scope="session")
def directly(server):
    """Return a function from the address of a database to one that leads around the pooler, where there is one."""
    host = psycopg.conninfo.conninfo_to_dict(server)["host"]
    return lambda address: re.sub(rf"host=[^&]*{PREFIX}[^&]*&port=6432", f"host={host}", address)


@pytest.fixture(scope="session")
def pgbouncer(server, server_user):
    """Start PgBouncer, and return a function from the address of a database to one that leads through it."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if os.environ.get("BRIMFUL_TEST_POSTGRES"):
        pytest.skip("only the server of the tests has a pooler")
    if program is None:
        pytest.skip("PgBouncer is not installed (apt-get install pgbouncer)")
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    host = psycopg.conninfo.conninfo_to_dict(server)["host"]
    (folder / "settings.ini").write_text(SETTINGS.format(server=host, folder=folder))
    (folder / "users").write_text('"postgres" ""\n')
    folder.chmod(0o755)
    if server_user:
        shutil.chown(folder, server_user)

    def through(address):
        return address.replace(f"host={host}", f"host={folder}&port=6432")

    process = subprocess.Popen([program, "--quiet", folder / "settings.ini"], user=server_user)
    try:
        _wait(through(server), process)
        yield through
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def _wait(address, process):
    until = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(address).close()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return
