"""Migrations: applied once, in order, and refused if newer or changed; both dialects have the same tables."""

import asyncio
import re
import sqlite3

import psycopg
import pytest

from brimful.errors import MigrationError
from brimful.stores import connect
from brimful.stores.migrations import Migration, load_migrations, split_statements
from brimful.stores.tuning import DEFAULT_TUNING, Tuning
from stores.samples import make_message

OWN_TABLES = re.compile(r"text_index|vector_log|vector_blocks|sqlite_|postings|term_|citus_")
"""How each of them searches, and views of an extension."""


def sqlite_columns(url):
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {
        table: {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        for table in tables
        if not OWN_TABLES.match(table)
    }
    connection.close()
    return found


def postgres_columns(url):
    found = {}
    with psycopg.connect(url) as connection:
        for table, column in connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
        ):
            if not OWN_TABLES.match(table):
                found.setdefault(table, set()).add(column)
    return found


def test_both_databases_have_the_same_tables_and_columns(new_sqlite_url, postgres_url, run):
    run(_opened(new_sqlite_url))
    expected = postgres_columns(postgres_url)
    expected["vectors"].add("number")  # by which a file refers to vectors
    assert sqlite_columns(new_sqlite_url) == expected


def test_every_table_but_one_has_a_tenant(new_sqlite_url, run):
    run(_opened(new_sqlite_url))
    without = {table for table, columns in sqlite_columns(new_sqlite_url).items() if "tenant" not in columns}
    assert without == {"migrations"}


KEYS = """
SELECT c.relname, i.indisprimary, i.indisunique, array(SELECT attname::text
    FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number ORDER BY place)
FROM pg_class c LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisunique
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND c.relname <> 'migrations'
"""


def test_every_key_starts_with_the_tenant_and_every_table_has_a_primary_key(postgres_url):
    keys = rows(postgres_url, KEYS)
    assert len(keys) > 30
    assert [(table, columns) for table, _, unique, columns in keys if unique and columns[0] != "tenant"] == []
    assert {table for table, *_ in keys} == {table for table, primary, *_ in keys if primary}


FOREIGN_KEYS = (
    "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f' AND connamespace = 'public'::regnamespace"
)


def test_no_table_has_a_foreign_key(postgres_url):
    """Each row that is written would look one up, which takes as long as writing it. Rows in use are locked instead."""
    assert rows(postgres_url, FOREIGN_KEYS) == []


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        ("-- nothing; at all\n/* ; */", []),
        ("SELECT 1 -- the end", ["SELECT 1 -- the end"]),
        ("SELECT 1;;SELECT 2 ;\n", ["SELECT 1", "SELECT 2"]),
        ("SELECT 'a;''b', \"c;d\"; SELECT 3;", ["SELECT 'a;''b', \"c;d\"", "SELECT 3"]),
        ("SELECT 1 /* ; */ - 2; -- it's; done\nSELECT 3;", ["SELECT 1 /* ; */ - 2", "-- it's; done\nSELECT 3"]),
        ("DO $$ a; $x$ b; $$; DO $x$ $$; $x$;", ["DO $$ a; $x$ b; $$", "DO $x$ $$; $x$"]),
        ("SELECT 4 / 2 - 1; SELECT $1;", ["SELECT 4 / 2 - 1", "SELECT $1"]),
    ],
)
def test_a_script_is_split_into_statements(text, statements):
    assert split_statements(text) == statements


def test_opening_again_keeps_everything(url, run):
    run(_opened(url, make_message("m1")))
    run(_opened(url, make_message("m2")))

    async def read():
        async with connect(url, migrate=False) as database:
            return [each.message.id for each in await database.tenant("acme").history("general")]

    assert run(read()) == ["m2", "m1"]


def test_a_database_that_needs_migrating_says_so(new_sqlite_url, run):
    with pytest.raises(MigrationError, match="needs migration 0001_initial; open it with migrate=True"):
        run(_opened(new_sqlite_url, migrate=False))


def test_a_database_from_the_future_is_refused(url, run):
    run(_opened(url))
    change(url, "INSERT INTO migrations (name, checksum) VALUES ('9999_later', 'x')")
    with pytest.raises(MigrationError, match="written by a newer version of Brimful"):
        run(_opened(url))


def test_a_migration_that_was_changed_is_refused(url, run):
    run(_opened(url))
    change(url, "UPDATE migrations SET checksum = 'x' WHERE name = '0001_initial'")
    with pytest.raises(MigrationError, match="migration 0001_initial is not the one that was applied"):
        run(_opened(url))


SECOND = Migration("9999_colors", "ALTER TABLE rooms ADD COLUMN color TEXT;\nUPDATE rooms SET color = 'green';\n")
LATER = Tuning(migrations=lambda dialect: (*load_migrations(dialect), SECOND))


def test_a_second_migration_is_applied_once_to_a_store_with_data(url, run):
    run(_opened(url, make_message("m1")))
    with pytest.raises(MigrationError, match="needs migration 9999_colors; open it with migrate=True"):
        run(_opened(url, migrate=False, tuning=LATER))
    run(_opened(url, make_message("m2"), tuning=LATER))
    run(_opened(url, make_message("m3", room="other"), tuning=LATER))
    assert sorted(rows(url, "SELECT id, color FROM rooms"), key=str) == [("general", "green"), ("other", None)]
    with pytest.raises(MigrationError, match=r"written by a newer version of Brimful \(migration 9999_colors\)"):
        run(_opened(url))


def test_a_backup_of_an_older_version_is_migrated_when_it_is_restored(url, tmp_path, run):
    async def backed_up():
        async with connect(f"sqlite:///{tmp_path}/old.db") as database:
            await database.tenant("acme").post([make_message("m1")])
            await database.backup(tmp_path / "copy.db")

    async def restored():
        async with connect(url, tuning=LATER) as database:
            await database.restore(tmp_path / "copy.db")
            return [each.message.id for each in await database.tenant("acme").history("general")]

    run(backed_up())
    assert run(restored()) == ["m1"]
    assert rows(url, "SELECT count(*) FROM migrations") == [(len(load_migrations("sqlite")) + 1,)]


def test_many_may_open_a_new_database_at_once(new_sqlite_url, run):
    async def together():
        databases = [connect(new_sqlite_url) for _ in range(5)]
        await asyncio.gather(*(database.open() for database in databases))
        for number, database in enumerate(databases):
            await database.tenant("acme").post([make_message(f"m{number}")])
            await database.close()

    run(together())


def test_migrations_are_numbered_without_gaps():
    for dialect in ("sqlite", "postgres"):
        names = [script.name for script in load_migrations(dialect)]
        assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))


async def _opened(url, *messages, migrate=True, tuning=DEFAULT_TUNING):
    async with connect(url, migrate=migrate, tuning=tuning) as database:
        if messages:
            await database.tenant("acme").post(list(messages))


def change(url, sql):
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.execute(sql)
        connection.commit()
        connection.close()
    else:
        with psycopg.connect(url) as connection:
            connection.execute(sql)


def rows(url, sql):
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        found = connection.execute(sql).fetchall()
        connection.close()
        return found
    with psycopg.connect(url) as connection:
        return connection.execute(sql).fetchall()
