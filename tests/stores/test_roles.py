"""Roles in PostgreSQL: the owner of the tables, roles that may use them, and a superuser."""

import psycopg
import pytest
from psycopg import sql

from brimful.errors import StoreUnavailable
from brimful.stores import connect
from databases import EXTERNAL
from stores.samples import make_message


@pytest.fixture
def role(another_postgres):
    """Return a role that may do nothing, and how it is called in an address."""
    name = sql.Identifier(f"plain_{psycopg.conninfo.conninfo_to_dict(another_postgres)['dbname']}")
    with psycopg.connect(another_postgres, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(name))
    yield name
    with psycopg.connect(another_postgres, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(name))
        connection.execute(sql.SQL("DROP ROLE {}").format(name))


def addressed_as(url, role):
    return url.replace("//postgres:@", f"//{role.as_string()}@".replace('"', ""))


async def written(url, id):
    async with connect(url) as database:
        await database.tenant("acme").post([make_message(id)])
        return len(await database.tenant("acme").history("general")), await database.check()


def test_only_members_of_the_migration_role_can_use_the_store(another_postgres, role, run):
    with pytest.raises(StoreUnavailable, match="the role may not do this; grant it what it needs"):
        run(written(addressed_as(another_postgres, role), "m1"))
    with psycopg.connect(another_postgres) as connection:
        connection.execute(sql.SQL("GRANT brimful_app TO {}").format(role))
    assert run(written(addressed_as(another_postgres, role), "m1")) == (1, [])


@pytest.mark.skipif(EXTERNAL is not None, reason="another server's schema may hold more than our tables")
def test_a_superuser_uses_a_store_that_another_role_made(another_postgres, role, run):
    with psycopg.connect(another_postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute(sql.SQL("CREATE SCHEMA public AUTHORIZATION {}").format(role))
        connection.execute("CREATE EXTENSION vector")
    assert run(written(addressed_as(another_postgres, role), "m1")) == (1, [])
    count, (finding,) = run(written(another_postgres, "m2"))
    assert count == 2
    assert finding.text.startswith("the role bypasses row-level security")


GRANTS = (
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {}",
    "GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO {}",
)


def test_a_plain_role_with_grants_on_the_tables_uses_the_store_and_sees_one_tenant(another_postgres, role, run):
    with psycopg.connect(another_postgres) as connection:
        for grant in GRANTS:
            connection.execute(sql.SQL(grant).format(role))
    assert run(written(addressed_as(another_postgres, role), "m1")) == (1, [])
    with psycopg.connect(addressed_as(another_postgres, role)) as connection:
        (messages,) = connection.execute("SELECT count(*) FROM messages").fetchone()
    assert messages == 0  # no tenant is set


@pytest.mark.skipif(EXTERNAL is not None, reason="another server's schema may hold more than our tables")
def test_a_plain_role_owns_a_store_once_a_superuser_has_created_the_extension(another_postgres, role, run, tmp_path):
    with psycopg.connect(another_postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute(sql.SQL("CREATE SCHEMA public AUTHORIZATION {}").format(role))
        with pytest.raises(StoreUnavailable, match="as a superuser, run CREATE EXTENSION vector in this database once"):
            run(written(addressed_as(another_postgres, role), "m1"))
        connection.execute("CREATE EXTENSION vector")
    assert run(written(addressed_as(another_postgres, role), "m1")) == (1, [])

    async def maintained():
        async with connect(addressed_as(another_postgres, role)) as database:
            await database.optimize()
            await database.driver.build_graph("acme", "static", 8)
            await database.backup(tmp_path / "copy.db")
            return await database.tenants(), await database.check()

    assert run(maintained()) == (["acme"], [])
    with psycopg.connect(addressed_as(another_postgres, role)) as connection:
        (messages,) = connection.execute("SELECT count(*) FROM messages").fetchone()
    assert messages == 0  # policies bind the owner as well
