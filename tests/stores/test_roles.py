"""Roles in PostgreSQL: the owner of the tables, a role that may use them, and a superuser."""

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


def test_who_may_act_as_the_role_of_the_migrations_uses_the_store_and_another_does_not(another_postgres, role, run):
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
