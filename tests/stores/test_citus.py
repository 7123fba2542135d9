"""A store outside a cluster says so, and errors of servers are told apart. `make citus` tests clusters."""

import psycopg
import pytest
from psycopg import errors

from brimful.errors import InvalidValue, MigrationError, StoreError, StoreUnavailable
from brimful.stores import connect
from brimful.stores.backends.postgres import raise_store_errors
from databases import EXTERNAL


async def distribute(url, **options):
    async with connect(url) as database:
        return await database.distribute(**options)


async def isolate(url, tenant):
    async with connect(url) as database:
        await database.tenant("acme").post([])
        return await database.isolate(tenant)


@pytest.mark.skipif(EXTERNAL is not None, reason="the server may have Citus")
def test_a_server_without_citus_cannot_distribute(postgres_url, run):
    with pytest.raises(StoreError, match="has no Citus; install it on every server"):
        run(distribute(postgres_url))
    with pytest.raises(StoreError, match="is not distributed; run `brimful db distribute` first"):
        run(isolate(postgres_url, "acme"))


def test_a_file_cannot_be_distributed(sqlite_url, run):
    for call in (distribute(sqlite_url), isolate(sqlite_url, "acme")):
        with pytest.raises(StoreError, match="a SQLite file cannot be distributed; use PostgreSQL with Citus"):
            run(call)


@pytest.mark.parametrize("shards", [0, -1, 2.5, True, "8"])
def test_a_wrong_number_of_shards_is_refused(sqlite_url, run, shards):
    with pytest.raises(InvalidValue, match="shards: must be a whole number from 1"):
        run(distribute(sqlite_url, shards=shards))


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (
            errors.FeatureNotSupported('extension "vector" is not available'),
            MigrationError,
            "pgvector must be installed",
        ),
        (errors.UndefinedFile('could not open the control file of extension "vector"'), MigrationError, "pgvector"),
        (
            errors.FeatureNotSupported("non-IMMUTABLE functions are not allowed in the RETURNING clause"),
            StoreError,
            r"the server does not support a statement \(non-IMMUTABLE",
        ),
    ],
)
def test_only_a_missing_pgvector_is_called_so(error, kind, reason):
    with pytest.raises(kind, match=reason) as caught, raise_store_errors("store"):
        raise error
    assert type(caught.value) is kind


def test_a_role_that_may_not_log_in_is_no_lost_connection():
    message = 'connection to the remote node brimful_app@w1:5432 failed: FATAL: role "x" is not permitted to log in'
    with (
        pytest.raises(StoreUnavailable, match="must be able to log in on every") as caught,
        raise_store_errors("store"),
    ):
        raise psycopg.OperationalError(message)
    assert not caught.value.retriable
