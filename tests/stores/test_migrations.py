"""Migrations: applied once, and told apart from the future and the changed; both dialects have the same tables."""

import asyncio
import re
import sqlite3

import psycopg
import pytest

from brimful.errors import MigrationError
from brimful.stores import connect
from brimful.stores.migrations import load_migrations
from stores.samples import occurring, said

OWN_TABLES = re.compile(r"lexicon|embedded|sqlite_|postings")
"""How each of them searches."""


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


def test_both_databases_have_the_same_tables_and_columns(sqlite_url, postgres_url, run):
    run(_opened(sqlite_url))
    assert sqlite_columns(sqlite_url) == postgres_columns(postgres_url)


def test_every_table_but_one_has_a_tenant(sqlite_url, run):
    run(_opened(sqlite_url))
    without = {table for table, columns in sqlite_columns(sqlite_url).items() if "tenant" not in columns}
    assert without == {"migrations"}


def test_opening_again_keeps_everything(url, run):
    run(_opened(url, said("m1")))
    run(_opened(url, said("m2")))

    async def read():
        async with connect(url, migrate=False) as database:
            return [each.message.id for each in await database.tenant("acme").history("general")]

    assert run(read()) == ["m2", "m1"]


def test_a_database_that_needs_migrating_says_so(sqlite_url, run):
    with pytest.raises(MigrationError, match="needs migration 0001_initial; open it with migrate=True"):
        run(_opened(sqlite_url, migrate=False))


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


def test_terms_of_an_older_database_are_counted(url, run):
    """Two tenants and two rooms: a term of each counts on its own."""

    async def filled():
        async with connect(url) as database:
            for tenant, rooms in (("acme", ["one", "two"]), ("other", ["one"])):
                for room in rooms:
                    texts = ["tea", "more tea", "milk"]
                    await database.tenant(tenant).post([said(f"{room}{n}", text, room) for n, text in enumerate(texts)])

    async def found():
        async with connect(url) as database:
            wrong = [each.what for each in await database.check()]
            terms = ["tea", "milk", "gin"]
            return wrong, (await occurring(database.tenant("acme"), ["room:one", "room:two"], terms)).found

    run(filled())
    change(url, "DROP TABLE terms")
    change(url, "DELETE FROM migrations WHERE name LIKE '%_terms'")
    assert run(found()) == ([], (4, 2, 0))


def test_many_may_open_a_new_database_at_once(sqlite_url, run):
    async def together():
        databases = [connect(sqlite_url) for _ in range(5)]
        await asyncio.gather(*(database.open() for database in databases))
        for number, database in enumerate(databases):
            await database.tenant("acme").post([said(f"m{number}")])
            await database.close()

    run(together())


def test_migrations_are_numbered_without_gaps():
    for dialect in ("sqlite", "postgres"):
        names = [script.name for script in load_migrations(dialect)]
        assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))


async def _opened(url, *messages, migrate=True):
    async with connect(url, migrate=migrate) as database:
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
