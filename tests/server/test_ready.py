"""Readiness, and the list of tenants."""

import asyncio

import psycopg

from brimful.records import User
from brimful.stores import connect


def test_a_missing_database_file_makes_the_server_unready(start, tmp_path):
    client, file = start(), tmp_path / "brimful.db"
    assert client.get("/ready").json()["status"] == "ready"
    file.rename(tmp_path / "elsewhere.db")
    answer = client.get("/ready")
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "not_ready"
    assert client.get("/health").status_code == 200
    (tmp_path / "elsewhere.db").rename(file)
    assert client.get("/ready").status_code == 200


def test_a_store_in_memory_has_no_file(start):
    assert start(store="sqlite://").get("/ready").status_code == 200


def test_readiness_reads_no_tenants(start, postgres_url):
    client = start(store=postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("INSERT INTO tenants SELECT 't' || n FROM generate_series(1, 200000) n")
        connection.execute("ALTER TABLE tenants RENAME TO elsewhere")  # whoever reads it fails
        assert client.get("/ready").status_code == 200
        connection.execute("ALTER TABLE elsewhere RENAME TO tenants")


def test_tenants_are_listed_in_pages_for_administrators(start, tmp_path):
    url = f"sqlite:///{tmp_path}/brimful.db"

    async def prepare():
        async with connect(url) as database:
            for name in ("beta", "acme", "corp"):
                await database.tenant(name).put(User(id="ada", name="Ada"))
            keys = database.api_keys("acme")
            return [(await keys.create(name="k", scopes=[scope], at=1.0))[1] for scope in ("admin", "read")]

    admin, reader = asyncio.run(prepare())
    client = start(require_keys=True)
    pages = [
        client.get("/brimful/v1/tenants", params=query, headers={"x-api-key": admin}).json()
        for query in ({"limit": 2}, {"limit": 2, "after": "beta"})
    ]
    assert pages == [{"tenants": ["acme", "beta"], "next": "beta"}, {"tenants": ["corp"], "next": None}]
    assert client.get("/brimful/v1/tenants", headers={"x-api-key": reader}).status_code == 403
