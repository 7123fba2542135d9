"""Access to the inspector API: keys, scopes, tenants and origins."""

import asyncio
import shutil

import httpx2
import pytest

from brimful.server.access import KEY_CACHE_SECONDS
from brimful.server.app import create_app
from brimful.server.config import parse_config
from brimful.stores import connect
from server.inspector.conftest import ROOT, store_of, tell_story
from server.upstream import serving

READS = [
    ("GET", "/contexts", None),
    ("GET", "/contexts/{id}", None),
    ("GET", "/contexts/{id}/request", None),
    ("GET", "/contexts/{id}/messages", None),
    ("GET", "/contexts/{id}/items/nuts", None),
    ("GET", "/runs/{id}", None),
    ("GET", "/contexts/{id}/find?q=sencha", None),
    ("GET", "/contexts/{id}/recall?handle=nuts", None),
    ("GET", "/contexts/{id}/diff/{id}", None),
    ("POST", "/contexts/{id}/what-if", {"window": 3_000}),
    ("GET", "/statistics", None),
    ("GET", "/search?q=sencha", None),
    ("GET", "/models", None),
    ("GET", "/policies", None),
    ("POST", "/count", {"text": "x"}),
    ("GET", "/rooms", None),
    ("GET", "/rooms/tea/room", None),
    ("GET", "/rooms/tea/room/messages", None),
    ("GET", "/personas", None),
    ("GET", "/personas/nova", None),
    ("GET", "/memories", None),
    ("GET", "/memories/nuts", None),
    ("GET", "/memories/nuts/chain", None),
    ("GET", "/audit", None),
    ("GET", "/features", None),
    ("GET", "/served-models", None),
    ("GET", "/lorebooks", None),
    ("GET", "/lorebooks/teas", None),
    ("GET", "/lorebooks/teas/entries", None),
    ("GET", "/rooms/tea/room/recall?query=tea", None),
    ("GET", "/rooms/tea/room/inspect", None),
    ("POST", "/rooms/tea/room/assemble", {"content": "x", "model": "gpt-4o"}),
    ("GET", "/janitor", None),
]
CHATS = [
    ("POST", "/rooms/tea/room/respond", {"content": "x", "model": "gpt-4o"}),
    ("POST", "/fit", {"request": {"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}]}}),
    ("POST", "/contexts/{id}/usage", {"prompt": 9}),
]
ANSWERS = [("POST", "/contexts/{id}/answer", {"window": 3_000})]
WRITES = [
    ("POST", "/rooms", {"id": "x"}),
    ("POST", "/rooms/tea/room/messages", {"content": "x"}),
    ("POST", "/rooms/tea/room/janitor", {"dry_run": False}),
    ("POST", "/janitor/undo", None),
    ("POST", "/audit", {"ids": ["four"]}),
    ("POST", "/memories/review", {"reject": ["rumor"]}),
    ("PUT", "/rooms/tea/room", {"name": "x"}),
    ("PUT", "/messages/m1", {"content": "x"}),
    ("POST", "/answers/first/feedback", {"rating": "good"}),
    ("DELETE", "/messages/m1", None),
    ("POST", "/personas", {"id": "x"}),
    ("PUT", "/personas/nova", {"name": "x"}),
    ("POST", "/memories", {"id": "x", "content": "x"}),
    ("PUT", "/memories/nuts", {"pinned": False}),
    ("DELETE", "/memories/four", None),
    ("DELETE", "/memories?prefix=none", None),
    ("POST", "/lorebooks", {"id": "x"}),
    ("PUT", "/lorebooks/teas", {"name": "x"}),
    ("POST", "/lorebooks/teas/entries", {"id": "x", "content": "x"}),
    ("PUT", "/lorebooks/teas/entries/teas/1", {"name": "x"}),
    ("DELETE", "/lorebooks/teas/entries/teas/1", None),
    ("DELETE", "/lorebooks/teas", None),
    ("DELETE", "/personas/nova", None),
    ("DELETE", "/rooms/tea/room", None),
]


KEYS = [
    ("GET", "/keys", None),
    ("GET", "/limits", None),
    ("POST", "/keys", {"name": "x", "scopes": ["keys"]}),
    ("DELETE", "/keys/{key}", None),
]


@pytest.fixture(scope="module")
def keyed_store(tmp_path_factory):
    """Return a folder with two tenants' stories, the stories, keys for them, and the id of a spare key."""
    folder = tmp_path_factory.mktemp("keyed")

    async def prepare():
        stories = {tenant: await tell_story(store_of(folder), tenant) for tenant in ("acme", "other")}
        async with connect(store_of(folder)) as database:
            made = {}
            acme = [("acme", [scope]) for scope in ("read", "write", "chat", "admin", "keys")]
            for tenant, scopes in (*acme, ("other", ["read"]), ("other", ["keys"])):
                _, made[tenant, scopes[0]] = await database.api_keys(tenant).create(name="x", scopes=scopes, at=1.0)
            spare, _ = await database.api_keys("acme").create(name="spare", scopes=["chat"], at=1.0)
            return stories, made, spare.id

    return folder, *asyncio.run(prepare())


@pytest.fixture
def keyed(start, keyed_store, tmp_path):
    """Return a function that asks a server that needs keys."""
    folder, stories, keys, spare = keyed_store
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    client = start(require_keys=True, remember={"embedder": "none"})

    def ask(who, method, path, body=None):
        headers = {} if who is None else {"authorization": f"Bearer {keys[who]}"}
        where = ROOT + path.replace("{id}", stories["acme"].first).replace("{key}", spare)
        return client.request(method, where, json=body, headers=headers)

    return ask


@pytest.fixture
def keyed_client(start, tmp_path):
    """Return a client with a key that it always sends."""

    async def prepare():
        async with connect(store_of(tmp_path)) as database:
            return (await database.api_keys("acme").create(name="x", scopes=["read"], at=1.0))[1]

    client = start(require_keys=True)
    client.headers["x-brimful-key"] = asyncio.run(prepare())
    return client


def test_every_operation_needs_a_key(keyed):
    for method, path, body in (*READS, *CHATS, *ANSWERS, *WRITES, *KEYS, ("GET", "/events", None)):
        answer = keyed(None, method, path, body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key"), path


def test_reading_needs_the_scope_read(keyed):
    for method, path, body in READS:
        assert keyed(("acme", "read"), method, path, body).status_code == 200, path
        for scope in ("write", "chat"):
            assert keyed(("acme", scope), method, path, body).status_code == 403, path


def test_answers_need_the_scope_chat(keyed):
    for method, path, body in CHATS:
        assert keyed(("acme", "chat"), method, path, body).status_code == 200, path
        for scope in ("read", "write"):
            assert keyed(("acme", scope), method, path, body).status_code == 403, path


def test_changing_needs_the_scope_write(keyed):
    for method, path, body in WRITES:
        for scope in ("read", "chat"):
            assert keyed(("acme", scope), method, path, body).status_code == 403, path
    for method, path, body in WRITES:
        assert keyed(("acme", "write"), method, path, body).status_code in (200, 201), path


def test_managing_keys_needs_the_scope_keys(keyed):
    for method, path, body in KEYS:
        for scope in ("read", "write", "chat", "admin"):
            assert keyed(("acme", scope), method, path, body).status_code == 403, path
    assert keyed(("other", "keys"), "DELETE", "/keys/{key}").status_code == 404
    assert len(keyed(("other", "keys"), "GET", "/keys").json()["keys"]) == 2
    for method, path, body in KEYS:
        assert keyed(("acme", "keys"), method, path, body).status_code in (200, 201), path


def test_answering_again_needs_the_scopes_chat_and_read(keyed, start, tmp_path):
    [(method, path, body)] = ANSWERS
    for scope in ("read", "write", "chat"):
        assert keyed(("acme", scope), method, path, body).status_code == 403, scope

    async def prepare():
        async with connect(store_of(tmp_path)) as database:
            return (await database.api_keys("acme").create(name="both", scopes=["read", "chat"], at=1.0))[1]

    headers = {"authorization": f"Bearer {asyncio.run(prepare())}"}
    [row, *_] = keyed(("acme", "read"), "GET", "/contexts").json()["contexts"]
    client = start(require_keys=True, remember={"embedder": "none"})
    where = ROOT + path.replace("{id}", row["id"])
    assert client.request(method, where, json=body, headers=headers).status_code == 200


LEARN = {"messages": ["I love tea."], "user": "ada", "model": "gpt-4o"}


@pytest.mark.parametrize(
    ("path", "scope", "body", "status"),
    [
        ("/learn", "read", LEARN, 403),
        ("/learn", "chat", LEARN, 403),
        ("/learn", "write", LEARN, 403),
        ("/learn/undo", "chat", {}, 403),
        ("/learn/undo", "write", {}, 404),
    ],
)
def test_learning_needs_the_scopes_write_and_chat(keyed, path, scope, body, status):
    assert keyed(("acme", scope), "POST", path, body).status_code == status


def test_a_tenant_sees_only_its_own(keyed):
    who, mine = ("other", "read"), ("acme", "write")
    keyed(mine, "POST", "/memories", {"id": "secret", "content": "of acme alone"})
    keyed(mine, "POST", "/rooms", {"id": "secret"})
    keyed(mine, "POST", "/personas", {"id": "secret"})
    keyed(mine, "POST", "/lorebooks", {"id": "secret"})
    kinds = ("/memories", "/rooms", "/personas", "/lorebooks")
    for path in (*(f"{kind}/secret" for kind in kinds), "/rooms/secret/messages"):
        assert keyed(who, "GET", path).status_code == 404, path
    for path in (*kinds, "/contexts", "/statistics"):
        assert "secret" not in keyed(who, "GET", path).text, path


def test_contexts_of_other_tenants_are_not_found(start, tmp_path):
    url = store_of(tmp_path)

    async def prepare():
        story = await tell_story(url, "acme")
        async with connect(url) as database:
            _, key = await database.api_keys("other").create(name="x", scopes=["read", "write"], at=1.0)
            return story, key

    story, key = asyncio.run(prepare())
    client = start(require_keys=True)
    for method, path, body in READS:
        if "{id}" in path:
            answer = client.request(
                method, ROOT + path.replace("{id}", story.first), json=body, headers={"x-brimful-key": key}
            )
            assert answer.status_code == 404, path


def test_the_page_itself_is_public(start):
    client = start(require_keys=True)
    assert client.get("/").status_code == 200
    assert client.get("/openapi.json").status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://["])
def test_other_sites_are_rejected(client, origin):
    answer = client.post(f"{ROOT}/memories", json={"content": "x"}, headers={"origin": origin})
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "other_origin"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_sec_fetch_site_is_trusted(client, site):
    assert client.get(f"{ROOT}/rooms", headers={"sec-fetch-site": site}).json()["error"]["code"] == "other_origin"


def test_the_own_page_is_allowed(client):
    own = str(client.base_url).rstrip("/")
    assert client.get(f"{ROOT}/rooms", headers={"origin": own}).status_code == 200
    behind_a_proxy = {"origin": "https://inspector.example", "sec-fetch-site": "same-origin"}
    assert client.get(f"{ROOT}/rooms", headers=behind_a_proxy).status_code == 200


def test_with_keys_any_origin_is_allowed(keyed_client):
    headers = {"origin": "https://inspector.example", "host": "inspector.example"}
    assert keyed_client.get(f"{ROOT}/contexts", headers=headers).status_code == 200


def test_without_keys_other_host_names_are_rejected(client):
    answer = client.get(f"{ROOT}/contexts", headers={"host": "evil.example:8080"})
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "other_host"
    assert client.get(f"{ROOT}/contexts", headers={"host": "localhost:1"}).status_code == 200


def test_an_event_stream_ends_when_its_key_is_revoked(tmp_path):
    url = store_of(tmp_path)

    async def with_callers(work):
        async with connect(url) as database:
            return await work(database.api_keys("acme"))

    caller, key = asyncio.run(with_callers(lambda callers: callers.create(name="n", scopes=["read"], at=1.0)))
    now = [100.0]
    config = parse_config({"store": url, "require_keys": True, "upstreams": []}, "brimful.toml")
    with serving(create_app(config, environ={}, clock=lambda: now[0])) as (address, _):
        headers = {"x-brimful-key": key}
        with httpx2.stream("GET", f"{address}{ROOT}/events", headers=headers, timeout=120) as answer:
            lines = answer.iter_lines()
            assert next(lines) == "retry: 2000"
            assert asyncio.run(with_callers(lambda callers: callers.revoke(caller.id, at=2.0)))
            now[0] += KEY_CACHE_SECONDS
            assert [line for line in lines if line.startswith("event")] == []
        assert httpx2.get(f"{address}{ROOT}/events", headers=headers).status_code == 401
