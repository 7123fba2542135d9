"""API keys over HTTP: made, listed and revoked by a key with the scope for it, and never able to do more than it."""

import asyncio
import time
from fnmatch import fnmatchcase
from itertools import product

import pytest

from brimful.server.access import KEY_CACHE_SECONDS, SCOPES
from brimful.server.inspector.keys import covers
from brimful.stores import connect
from server.inspector.conftest import ROOT, store_of

LATER = 4_000_000_000.0  # in the year 2096


@pytest.fixture
def make_client(start, tmp_path):
    """Return a function that gives a client with a key that was made on the command line."""

    def make(scopes=SCOPES, **limits):
        async def made():
            async with connect(store_of(tmp_path)) as database:
                return await database.api_keys("acme").create(name="mine", scopes=scopes, at=1.0, **limits)

        client = start(require_keys=True)
        client.headers["x-brimful-key"] = asyncio.run(made())[1]
        return client

    return make


def test_keys_are_made_listed_and_revoked(make_client, tmp_path):
    client = make_client()
    limits = {"expires": LATER, "models": ["gpt-4o*"], "policies": ["fit"], "user": "ada"}
    answer = client.post(f"{ROOT}/keys", json={"name": "bot", "scopes": ["chat"]} | limits)
    assert answer.status_code == 201
    made = answer.json()
    assert {name: made[name] for name in limits} == limits
    assert (made["name"], made["scopes"], made["tenant"]) == ("bot", ["chat"], "acme")
    listed = client.get(f"{ROOT}/keys")
    assert [each["name"] for each in listed.json()["keys"]] == ["mine", "bot"]
    assert listed.json()["keys"][1] == {name: value for name, value in made.items() if name != "key"}
    secret = made["key"].rpartition(".")[2]
    assert secret not in listed.text
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert secret.encode() not in stored
    request = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
    used = {"x-brimful-key": made["key"]}
    assert client.post("/v1/chat/completions", json=request, headers=used).status_code == 200
    assert client.delete(f"{ROOT}/keys/{made['id']}").json() == {"id": made["id"], "revoked": True}
    again = client.delete(f"{ROOT}/keys/{made['id']}")
    assert (again.status_code, again.json()["error"]["code"]) == (404, "key_not_found")
    assert client.get(f"{ROOT}/keys").json()["keys"][1]["revoked"] > made["created"]
    assert KEY_CACHE_SECONDS <= 5  # after which the key is rejected, as docs/access.md says


LIMITED = {
    "scopes": ["chat", "keys"],
    "expires": LATER,
    "models": ("gpt-4o*", "o3"),
    "policies": ("fit", "window"),
}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"scopes": ["chat", "read"]}, "scopes"),
        ({"scopes": ["admin"]}, "scopes"),
        ({}, "scopes"),  # of which chat and read are the default
        ({"scopes": ["chat"], "models": ["o3", "o4"]}, "models"),
        ({"scopes": ["chat"], "models": ["*"]}, "models"),
        ({"scopes": ["chat"], "models": ["gpt-4*"]}, "models"),
        ({"scopes": ["chat"], "policies": ["fit", "agent"]}, "policies"),
        ({"scopes": ["chat"], "expires": LATER + 1}, "expires"),
    ],
)
def test_a_key_makes_none_that_can_do_more(make_client, body, field):
    client = make_client(**LIMITED)
    refused = client.post(f"{ROOT}/keys", json={"name": "bot"} | body)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (403, "exceeds_own_key", field)
    assert len(client.get(f"{ROOT}/keys").json()["keys"]) == 1


def test_limits_missing_from_a_new_key_are_those_of_its_maker(make_client):
    client = make_client(**LIMITED)
    made = client.post(f"{ROOT}/keys", json={"name": "bot", "scopes": ["chat"]}).json()
    assert (made["expires"], made["models"], made["policies"]) == (LATER, ["gpt-4o*", "o3"], ["fit", "window"])
    less = {"models": ["gpt-4o-mini*"], "policies": ["window"], "expires": LATER - 1, "scopes": ["keys"]}
    made = client.post(f"{ROOT}/keys", json={"name": "bot"} | less).json()
    assert {name: made[name] for name in less} == less


def test_a_key_bound_to_a_user_manages_no_keys(make_client):
    client = make_client(scopes=["chat", "read", "write"], user="ada")
    for method, path in (("GET", "/keys"), ("POST", "/keys"), ("DELETE", "/keys/x")):
        assert client.request(method, ROOT + path, json={"name": "x"}).status_code == 403
    maker = make_client()
    refused = maker.post(f"{ROOT}/keys", json={"name": "x", "user": "ada", "scopes": ["keys"]})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "scopes")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"name": ""}, "name"),
        ({"name": "x", "scopes": []}, "scopes"),
        ({"name": "x", "scopes": ["owner"]}, "scopes[0]"),
        ({"name": "x", "models": []}, "models"),
        ({"name": "x", "expires": 1.0}, "expires"),
        ({"name": "x", "expires": "30d"}, "expires"),
    ],
)
def test_invalid_keys_are_not_made(make_client, body, param):
    refused = make_client().post(f"{ROOT}/keys", json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


def test_a_server_without_keys_manages_none(client):
    for method, path in (("GET", "/keys"), ("POST", "/keys"), ("DELETE", "/keys/x")):
        refused = client.request(method, ROOT + path, json={"name": "x"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "no_api_key")


def test_a_pattern_covers_only_what_it_matches():
    """Compare all short patterns with what they match."""
    signs = [pattern for length in (1, 2, 3) for pattern in map("".join, product("ab*?", repeat=length))]
    patterns = [*signs, "[ab]", "[ab]*", "*[a]*", "a[ab]", "*a*"]
    names = ["".join(name) for length in (0, 1, 2, 3, 4) for name in product("abc", repeat=length)]
    matches = {pattern: {name for name in names if fnmatchcase(name, pattern)} for pattern in patterns}
    assert covers("*", "a?b")
    for wide, narrow in product(patterns, repeat=2):
        if covers(wide, narrow):
            assert matches[narrow] <= matches[wide], (wide, narrow)


def test_limits_are_listed_with_what_was_used(make_client, tmp_path):
    client = make_client()

    async def limit():
        async with connect(store_of(tmp_path)) as database:
            await database.limits("acme").set_own("user", "ada", {"requests_per_minute": 5, "dollars_per_day": None})

    asyncio.run(limit())
    request = {"model": "gpt-4o", "user": "ada", "messages": [{"role": "user", "content": "Hi"}]}
    assert client.post("/v1/chat/completions", json=request).status_code == 200
    found = client.get(f"{ROOT}/limits").json()
    assert found["defaults"]["key"]["tokens_per_day"] is None
    [own] = found["limits"]
    assert (own["kind"], own["name"]) == ("user", "ada")
    assert own["limits"] == {"requests_per_minute": 5, "dollars_per_day": None}
    assert own["used"]["minute"]["requests"] == 1


@pytest.mark.parametrize(("path", "name"), [("keys", "name"), ("limits", "name"), ("statistics", "key")])
def test_long_lists_come_in_pages(make_client, tmp_path, path, name):
    client, users = make_client(), ["ada", "bob", "eve"]

    async def fill():
        async with connect(store_of(tmp_path)) as database:
            for at, user in enumerate(users, 2):
                await database.limits("acme").set_own("user", user, {"tokens_per_day": 1_000_000})
                await database.api_keys("acme").create(name=user, scopes=("read",), at=at)

    def page(**query):
        by = {"by": "user"} if path == "statistics" else {}
        found = client.get(f"{ROOT}/{path}", params=by | query).json()
        return [each[name] for each in found[path]], found["next"]

    asyncio.run(fill())
    for user in users if path == "statistics" else ():
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "user": user}
        assert client.post("/v1/chat/completions", json=body).status_code == 200
    while len(page()[0]) < len(users):
        time.sleep(0.01)  # they are recorded after the answer
    names, _ = whole = page()
    assert whole == (["mine", *users] if path == "keys" else users, None)
    assert page(limit=2) == (names[:2], 2)
    assert page(limit=2, after=2) == (names[2:], None)
