"""API keys, scopes, tenants and rate limits."""

import asyncio
import threading

import httpx2
import pytest

from brimful.errors import InvalidConfig, InvalidValue
from brimful.records import Room
from brimful.server.access import KEY_CACHE_SECONDS, Client, FailedKeys, OwnAllowance, RateLimiter, SharedAllowance
from brimful.server.app import create_app
from brimful.server.config import parse_config, require_keys_or_loopback
from brimful.server.errors import ApiError
from brimful.stores import connect
from brimful.stores.admin.api_keys import parse_api_key
from server.upstream import OVERFLOW, chat_answer, chat_events, serving

CHAT = "/v1/chat/completions"
HI = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture
def make_key(tmp_path):
    """Return a function that makes a key for a tenant."""

    def make(tenant="acme", scopes=("chat", "read"), user=None, **limits):
        async def made():
            async with connect(f"sqlite:///{tmp_path}/brimful.db") as database:
                return await database.api_keys(tenant).create(name="test", scopes=scopes, at=1.0, user=user, **limits)

        return asyncio.run(made())

    return make


def bearer(key):
    return {"authorization": f"Bearer {key}"}


def test_requests_without_a_key_are_rejected(start, upstream):
    client = start(require_keys=True)
    refused = client.post(CHAT, json=HI)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert refused.json()["error"]["code"] == "invalid_api_key"
    named = [name for name in ("Authorization", "x-api-key", "api-key") if name in refused.json()["error"]["message"]]
    assert named == ["Authorization", "x-api-key", "api-key"]
    assert client.post("/v1/messages", json=HI).json()["error"]["type"] == "authentication_error"
    assert client.get("/health").status_code == 200
    assert upstream.requests == []


@pytest.mark.parametrize("key", ["sk-123", "bf-", "bf-YWNtZQ.0.x", "bf-!!.1.2", "bf-YWNtZQ.ünï.x", "bf-AA.1.2"])
def test_invalid_keys_are_rejected(shared, key):
    client = shared(require_keys=True)
    headers = {"authorization": f"Bearer {key}".encode()}
    refused = client.post(CHAT, json=HI, headers=headers)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")


def test_a_summary_is_written_for_one_tenant_only(start, upstream, make_key):
    fit = {"compaction": "model", "compaction_wait": 60}
    client = start(require_keys=True, upstream={"window": 1_000}, fit=fit)
    turns = [{"role": "user", "content": f"{n}: the tea is ready. " + "word " * 50} for n in range(20)]
    upstream.answers = [
        lambda sent: chat_answer("The tea is ready." if "You summarize" in str(sent["messages"][0]) else "Hello.")
    ]
    for tenant, times in (("acme", 1), ("acme", 1), ("other", 2)):
        key = make_key(tenant)[1]
        assert client.post(CHAT, json=HI | {"messages": turns}, headers=bearer(key)).status_code == 200
        asked = [each for each in upstream.bodies if "You summarize" in str(each["messages"][0])]
        assert sum("so far" not in str(each) for each in asked) == times


def test_a_window_is_learned_for_one_tenant_only(start, upstream, make_key):
    client = start(require_keys=True)
    keys = {tenant: make_key(tenant)[1] for tenant in ("acme", "other")}
    request = HI | {"messages": [{"role": "user", "content": f"{n}: " + "word " * 50} for n in range(20)]}
    upstream.answers = [(400, OVERFLOW), chat_answer()]

    def sent(tenant):
        assert client.post(CHAT, json=request, headers=bearer(keys[tenant])).status_code == 200
        return len(upstream.bodies[-1]["messages"])

    assert sent("acme") < 20
    assert sent("other") == 20
    assert sent("acme") < 20
    assert len(upstream.bodies) == 4


def test_a_key_works_in_any_header_and_is_not_forwarded(start, upstream, make_key):
    client = start(require_keys=True)
    _, key = make_key()
    for headers in (bearer(key), {"x-api-key": key}, {"x-brimful-key": key}, {"api-key": key}):
        assert client.post(CHAT, json=HI, headers=headers).status_code == 200
    assert not [value for _, headers, _ in upstream.requests for value in headers.values() if key in value]


def test_a_key_bound_to_a_user_chats_only_for_that_user(start, make_key, upstream, tmp_path):
    client = start(require_keys=True, mode="remember")
    ada, bob = (bearer(make_key(user=user)[1]) for user in ("ada", "bob"))
    tea = {"x-brimful-conversation": "tea"}
    named = HI | {"user": "opaque-1"}  # many clients send an id of their own
    assert client.post(CHAT, json=named, headers=ada | tea).status_code == 200
    for headers in (bob | tea, ada | {"x-brimful-user": "bob"}):
        refused = client.post(CHAT, json=HI, headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "bound_key")
    assert client.post(CHAT, json=HI, headers=ada | tea | {"x-brimful-user": "ada"}).status_code == 200
    assert len(upstream.requests) == 2

    async def owner():
        async with connect(f"sqlite:///{tmp_path}/brimful.db") as database:
            return (await database.tenant("acme").get(Room, "tea")).user

    assert asyncio.run(owner()) == "ada"


@pytest.mark.parametrize("path", ["memories", "contexts", "rooms", "events", "search?query=tea"])
def test_a_key_bound_to_a_user_cannot_read_the_records_of_all(start, make_key, path):
    client = start(require_keys=True)
    _, key = make_key(scopes=("chat", "read", "write"), user="ada")
    refused = client.get(f"/brimful/v1/{path}", headers=bearer(key))
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "bound_key")


@pytest.mark.parametrize(("user", "scopes"), [("ada", ["chat", "admin"]), ("ada", ["metrics"]), ("", ["chat"])])
def test_a_key_bound_to_a_user_has_no_scope_for_all(make_key, user, scopes):
    with pytest.raises(InvalidValue, match=r"^(scopes: a key that is bound|user)"):
        make_key(user=user, scopes=scopes)


def test_a_key_is_stored_as_a_hash_and_names_its_tenant(make_key, tmp_path):
    caller, key = make_key()
    presented = parse_api_key(key)
    assert (presented.tenant, presented.id) == ("acme", caller.id)
    assert presented.secret not in repr(presented)
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert presented.secret.encode() not in stored


def test_a_key_is_unknown_to_other_tenants(make_key, tmp_path):
    _, key = make_key("acme")
    secret = parse_api_key(key)

    async def known(tenant):
        async with connect(f"sqlite:///{tmp_path}/brimful.db") as database:
            return await database.api_keys(tenant).verify(secret)

    assert asyncio.run(known("acme")) is not None
    assert asyncio.run(known("other")) is None


def test_a_revoked_key_is_rejected(start, make_key, tmp_path):
    caller, key = make_key()

    async def revoke():
        async with connect(f"sqlite:///{tmp_path}/brimful.db") as database:
            callers = database.api_keys("acme")
            return await callers.revoke(caller.id, at=2.0), await callers.revoke(caller.id, at=3.0)

    assert asyncio.run(revoke()) == (True, False)
    assert start(require_keys=True).post(CHAT, json=HI, headers=bearer(key)).status_code == 401


def test_a_revoked_key_is_slowed_down_like_a_wrong_one(tmp_path, make_key):
    now = [100.0]
    caller, key = make_key()
    url = f"sqlite:///{tmp_path}/brimful.db"
    config = {"store": url, "require_keys": True, "limits": {"failed_keys_per_minute": 2}}

    async def revoke():
        async with connect(url) as database:
            await database.api_keys("acme").revoke(caller.id, at=101.0)

    with serving(create_app(parse_config(config, "brimful.toml"), environ={}, clock=lambda: now[0])) as (address, _):

        def status():
            return httpx2.get(f"{address}/brimful/v1/rooms", headers=bearer(key)).status_code

        assert status() == 200
        asyncio.run(revoke())
        now[0] += KEY_CACHE_SECONDS
        assert [status() for _ in range(4)] == [401, 401, 429, 429]


def test_an_expired_key_is_rejected_at_once(tmp_path, make_key):
    now = [100.0]
    _, key = make_key(expires=102.0)
    config = parse_config({"store": f"sqlite:///{tmp_path}/brimful.db", "require_keys": True}, "brimful.toml")
    with serving(create_app(config, environ={}, clock=lambda: now[0])) as (address, _):
        assert httpx2.get(f"{address}/brimful/v1/rooms", headers=bearer(key)).status_code == 200
        now[0] = 102.0
        refused = httpx2.get(f"{address}/brimful/v1/rooms", headers=bearer(key))
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert refused.json()["error"]["code"] == "expired_api_key"
    assert refused.json()["error"]["message"] == "this API key expired on 1970-01-01 at 00:01:42 UTC"


def test_the_last_use_of_a_key_is_stored(tmp_path, make_key):
    now = [100.0]
    _, key = make_key()
    make_key()
    url = f"sqlite:///{tmp_path}/brimful.db"
    config = parse_config({"store": url, "require_keys": True}, "brimful.toml")
    with serving(create_app(config, environ={}, clock=lambda: now[0])) as (address, _):
        for now[0] in (100.0, 159.0, 161.0, 170.0):
            httpx2.get(f"{address}/brimful/v1/rooms", headers=bearer(key))

    async def uses():
        async with connect(url) as database:
            return {each.used for each in await database.api_keys("acme").list_keys()}

    assert asyncio.run(uses()) == {161.0, None}


FORBIDDEN = [
    ("POST", "/v1/chat/completions", HI | {"model": "o3"}),
    ("POST", "/v1/chat/completions", HI | {"models": ["gpt-4o", "o3"]}),
    ("POST", "/v1/messages", HI | {"model": "o3", "max_tokens": 9}),
    ("POST", "/v1/messages/count_tokens", HI | {"model": "o3"}),
    ("POST", "/v1/responses", {"model": "o3", "input": "Hi"}),
    ("POST", "/v1/responses", {"model": "o3", "input": "Hi", "previous_response_id": "r1"}),
    ("POST", "/v1beta/models/o3:generateContent", {"contents": []}),
    ("POST", "/v1beta/models/o3:embedContent", {"model": "gpt-4o"}),
    ("POST", "/openai/deployments/o3/chat/completions", HI),
    ("POST", "/v1/embeddings", {"model": "o3", "input": "Hi"}),
    ("POST", "/v1/audio/speech", {"model": "o3", "input": "Hi"}),
    ("POST", "/v1/completions", {"model": "gpt-4o", "models": ["gpt-4o", "o3"], "prompt": "Hi"}),
    ("GET", "/v1/models/o3", None),
    ("POST", "/brimful/v1/fit", {"request": HI | {"model": "o3"}}),
    ("POST", "/brimful/v1/fit", {"request": HI, "model": "o3"}),
    ("POST", "/brimful/v1/rooms/hall/respond", {"content": "Hi", "model": "o3"}),
]


@pytest.fixture
def limited(start, make_key):
    """Return a client whose key allows some models and policies only."""
    _, key = make_key(scopes=("chat", "read", "write"), models=("gpt-4o*", "gpt-5"), policies=("fit", "window"))
    client = start(require_keys=True)
    client.headers["x-brimful-key"] = key
    client.post("/brimful/v1/rooms", json={"id": "hall"})
    return client


@pytest.mark.parametrize(("method", "path", "body"), FORBIDDEN)
def test_a_key_may_use_only_its_models(limited, upstream, method, path, body):
    refused = limited.request(method, path, json=body)
    assert refused.status_code == 403
    assert "does not allow the model 'o3'; it allows gpt-4o*, gpt-5" in refused.text
    assert upstream.requests == []


def test_a_key_may_use_its_models(limited):
    assert limited.post(CHAT, json=HI | {"model": "gpt-4o-mini"}).status_code == 200
    assert limited.post("/v1/embeddings", json={"model": "gpt-5", "input": "Hi"}).status_code == 200
    assert limited.get("/v1/models/gpt-4o").status_code == 404  # the upstream's answer


def test_a_request_that_names_no_model_could_run_any(limited, upstream):
    upstream.answers = [{"ok": True}]
    files = {"file": ("speech.mp3", b"...")}
    for refused in (
        limited.post("/v1/batches", json={"input_file_id": "f1"}),
        limited.post("/v1/audio/transcriptions", files=files, data={"model": "gpt-4o"}),
    ):
        assert refused.status_code == 403
        assert refused.json()["error"]["code"] == "model_not_allowed"
        assert "does not allow requests that name no model" in refused.json()["error"]["message"]
    assert upstream.requests == []
    assert limited.get("/v1/files/f1").status_code == 200
    assert limited.delete("/v1/files/f1").status_code == 200


def test_models_that_a_key_does_not_allow_are_not_listed(limited, upstream):
    upstream.pages["/v1/models"] = {"object": "list", "data": [{"id": "gpt-4o"}, {"id": "o3"}]}
    upstream.pages["/v1beta/models"] = {"models": [{"name": "models/o3"}, {"name": "models/gpt-5"}]}
    assert limited.get("/v1/models").json() == {"object": "list", "data": [{"id": "gpt-4o"}]}
    assert limited.get("/v1beta/models").json() == {"models": [{"name": "models/gpt-5"}]}
    upstream.answers = [{"models": [{"name": "o3"}, {"name": "gpt-4o-mini"}]}]
    assert limited.get("/api/tags").json() == {"models": [{"name": "gpt-4o-mini"}]}
    listed = {each["id"] for each in limited.get("/brimful/v1/models").json()["models"]}
    assert "gpt-4o" in listed
    assert all(name.startswith(("gpt-4o", "gpt-5")) for name in listed)


def test_models_of_several_upstreams_are_limited_as_well(start, make_key, upstream):
    _, key = make_key(models=("gpt-4o*",))
    upstream.pages["/v1/models"] = {"object": "list", "data": [{"id": "gpt-4o"}, {"id": "o3"}]}
    two = [{"name": name, "url": f"{upstream.address}/v1"} for name in "ab"]
    client = start(require_keys=True, upstreams=two)
    assert [each["id"] for each in client.get("/v1/models", headers=bearer(key)).json()["data"]] == ["gpt-4o"]


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        (CHAT, HI, {"x-brimful-policy": "agent"}),
        ("/brimful/v1/fit", {"request": HI, "policy": "agent"}, {}),
        ("/brimful/v1/rooms/hall/respond", {"content": "Hi", "model": "gpt-4o", "policy": "agent"}, {}),
    ],
)
def test_a_key_may_use_only_its_policies(limited, upstream, path, body, headers):
    refused = limited.post(path, json=body, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "policy_not_allowed")
    assert "does not allow the policy 'agent'; it allows fit, window" in refused.json()["error"]["message"]
    assert upstream.requests == []


@pytest.mark.parametrize("mode", ["fit", "remember"])
def test_a_request_that_names_no_policy_gets_the_first_of_its_key(start, make_key, mode):
    _, key = make_key(policies=("window", "fit"))
    client = start(require_keys=True, mode=mode)
    client.headers["x-brimful-key"] = key
    answer = client.post(CHAT, json=HI, headers={"x-brimful-conversation": "tea"})
    context = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}")
    assert context.json()["policy"] == "window"
    assert [each["name"] for each in client.get("/brimful/v1/policies").json()["policies"]] == ["fit", "window"]
    fitted = client.post("/brimful/v1/fit", json={"request": HI})
    assert fitted.json()["policy"] == "window"


@pytest.mark.parametrize("mode", ["fit", "remember"])
def test_usage_is_counted_by_user_and_by_key(start, make_key, tmp_path, mode):
    (ada, key), (bob, other) = make_key(), make_key(user="bob")
    client = start(require_keys=True, mode=mode)
    for headers in (bearer(key) | {"x-brimful-user": "ada"}, bearer(other)):
        assert client.post(CHAT, json=HI, headers=headers).status_code == 200
    client.post("/brimful/v1/fit", json={"request": HI}, headers=bearer(key))
    start.stop()  # records are written after the answers

    async def count(by):
        async with connect(f"sqlite:///{tmp_path}/brimful.db") as database:
            found = await database.tenant("acme").statistics(by=by)
            return {each.key: (each.contexts, each.answers.prompt) for each in found}

    assert asyncio.run(count("user")) == {"ada": (1, 12), "bob": (1, 12)}
    assert asyncio.run(count("key")) == {ada.id: (2, 12), bob.id: (1, 12)}
    later = start(require_keys=True)
    [found] = later.get("/brimful/v1/statistics?user=bob", headers=bearer(key)).json()["statistics"]
    assert found["contexts"] == 1


def test_in_fit_mode_a_bound_key_speaks_for_its_user_only(start, make_key, upstream):
    _, key = make_key(user="ada")
    refused = start(require_keys=True).post(CHAT, json=HI, headers=bearer(key) | {"x-brimful-user": "bob"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "bound_key")
    assert upstream.requests == []


def test_scopes_limit_a_key(start, make_key):
    client = start(require_keys=True)
    _, chats = make_key(scopes=["chat"])
    _, reads = make_key(scopes=["read"])
    answer = client.post(CHAT, json=HI, headers=bearer(chats))
    context = f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}"
    assert client.get(context, headers=bearer(chats)).status_code == 403
    assert client.get(context, headers=bearer(reads)).status_code == 200
    assert client.post(CHAT, json=HI, headers=bearer(reads)).status_code == 403


def test_a_tenant_sees_only_its_own_contexts(start, make_key):
    client = start(require_keys=True)
    _, acme = make_key("acme")
    _, other = make_key("other")
    answer = client.post(CHAT, json=HI, headers=bearer(acme))
    context = f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}"
    assert client.get(context, headers=bearer(acme)).status_code == 200
    assert client.get(context, headers=bearer(other)).status_code == 404


def test_the_clients_key_is_forwarded_only_if_configured(start, upstream, make_key):
    _, key = make_key()
    mine = {"authorization": "Bearer sk-mine", "x-brimful-key": key, "openai-organization": "org-1"}
    start(require_keys=True).post(CHAT, json=HI, headers=mine)
    start(require_keys=True, upstream={"authorization": "client"}).post(CHAT, json=HI, headers=mine)
    (_, kept_back, _), (_, passed_on, _) = upstream.requests
    assert "authorization" not in kept_back
    assert passed_on["authorization"] == "Bearer sk-mine"
    assert passed_on["openai-organization"] == "org-1"
    assert "x-brimful-key" not in passed_on


def test_our_own_keys_are_never_forwarded(start, upstream, make_key):
    client = start(require_keys=True, upstream={"authorization": "client"})
    _, key = make_key()
    for headers in (
        bearer(key),
        {"x-api-key": key},
        {"x-api-key": key, "authorization": "Bearer sk-mine"},
        {"x-brimful-key": key, "authorization": f"bearer  {key}"},
        bearer(key) | {"x-note": f"key={key}, for Ada"},
    ):
        assert client.post(CHAT, json=HI, headers=headers).status_code == 200
    assert not [value for _, headers, _ in upstream.requests for value in headers.values() if key in value]
    assert upstream.requests[2][1]["authorization"] == "Bearer sk-mine"


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example:8080", "http://[", ""]
)
@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/embeddings", "/v1/messages/count_tokens"])
def test_without_keys_other_sites_are_rejected(shared, upstream, path, origin):
    refused = shared().post(path, json=HI, headers={"origin": origin, "content-type": "text/plain"})
    assert refused.status_code == 403
    assert upstream.requests == []


def test_local_origins_are_allowed_and_others_need_a_key(start, make_key):
    client = start()
    for origin in ("http://localhost:3000", "http://127.0.0.1", "app://notes", "chrome-extension://abc"):
        assert client.post(CHAT, json=HI, headers={"origin": origin}).status_code == 200
    _, key = make_key()
    site = {"origin": "https://chat.example"}
    assert start(require_keys=True).post(CHAT, json=HI, headers=bearer(key) | site).status_code == 200


SITE = {"origin": "https://chat.example", "sec-fetch-site": "cross-site"}


def test_pages_of_allowed_origins_may_use_the_server(start):
    client = start(origins=["https://chat.example"])
    answer = client.post(CHAT, json=HI, headers=SITE)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://chat.example"
    assert "X-Brimful-Context" in answer.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in answer.headers
    assert client.get("/brimful/v1/rooms", headers=SITE).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "https://chat.example.evil.example", "null"])
def test_pages_of_other_origins_stay_out(shared, origin):
    client = shared(origins=["https://chat.example"])
    for refused in (
        client.post(CHAT, json=HI, headers=SITE | {"origin": origin}),
        client.get("/brimful/v1/rooms", headers=SITE | {"origin": origin}),
    ):
        assert refused.status_code == 403
        assert refused.json()["error"]["code"] == "other_origin"
        assert "access-control-allow-origin" not in refused.headers


def test_browsers_are_told_what_allowed_pages_may_send(start):
    asking = SITE | {
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type, x-brimful-mode",
    }
    answer = start(origins=["https://chat.example"]).options(CHAT, headers=asking)
    assert answer.status_code == 200
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert "x-brimful-mode" in answer.headers["access-control-allow-headers"]
    assert "access-control-allow-origin" not in start().options(CHAT, headers=asking).headers


def test_an_allowed_page_still_needs_a_key_where_keys_are_required(start, make_key):
    client = start(require_keys=True, origins=["https://chat.example"])
    refused = client.post(CHAT, json=HI, headers=SITE)
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "https://chat.example")
    _, key = make_key()
    assert client.post(CHAT, json=HI, headers=SITE | bearer(key)).status_code == 200


def test_a_body_that_is_too_large_is_rejected(start, upstream):
    client = start(limits={"max_body_bytes": 1000})
    long = {"model": "m", "messages": [{"role": "user", "content": "x" * 2000}]}
    refused = client.post(CHAT, json=long)
    assert refused.status_code == 413
    assert refused.json()["error"]["code"] == "request_too_large"
    unsized = client.post("/v1/messages", content=iter([b"x" * 800, b"x" * 800]))
    assert unsized.status_code == 413
    assert unsized.json()["error"]["type"] == "request_too_large"
    assert upstream.requests == []


def test_too_many_requests_per_minute_are_rejected(start):
    client = start(limits={"requests_per_minute": 2})
    answers = [client.post(CHAT, json=HI) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 31
    assert answers[-1].json()["error"]["type"] == "rate_limit_error"


def test_too_many_concurrent_requests_are_rejected(start, upstream):
    client = start(limits={"concurrency": 1})
    upstream.answers = [list(chat_events(*["word "] * 100)), chat_answer()]
    upstream.pause = 600  # the stream lasts until it is left
    with client.stream("POST", CHAT, json=HI | {"stream": True}) as answer:
        chunks = answer.iter_bytes()  # held: a generator that is dropped leaves the stream
        next(chunks)
        refused = client.post(CHAT, json=HI)
        chunks.close()
    assert refused.status_code == 429
    assert refused.headers["retry-after"]
    assert upstream.left.wait(120)
    settled = threading.Event()
    for _ in range(100):
        if client.post(CHAT, json=HI).status_code == 200:
            break
        settled.wait(0.05)
    else:
        pytest.fail("a stream that was left still counts")


def start_requests(limiter, name, count, now):
    """Start and end some requests of a key, and return the error of the last one, if any."""

    async def go():
        for _ in range(count):
            async with limiter.limit(Client(tenant="acme", key=name), now=now):
                pass

    try:
        asyncio.run(go())
    except ApiError as refused:
        return refused
    return None


def test_the_rate_limiter_recovers():
    limiter = RateLimiter(OwnAllowance(60), concurrency=5)
    assert start_requests(limiter, "ada", 60, now=0.0) is None
    refused = start_requests(limiter, "ada", 1, now=0.0)
    assert refused.message == "rate limit: 60 requests per minute"
    assert refused.retry_after == pytest.approx(1.0)
    assert start_requests(limiter, "bob", 1, now=0.0) is None
    assert start_requests(limiter, "ada", 1, now=1.01) is None


@pytest.mark.parametrize("per_minute", [3, 120, 1_200])
def test_servers_of_one_database_share_the_limit_of_a_key(sqlite_url, per_minute):
    async def serve():
        async with connect(sqlite_url) as one, connect(sqlite_url) as two:
            servers = [SharedAllowance(per_minute, database, time_limit=600) for database in (one, two)]
            other = await servers[0].take(Client(tenant="acme", key="bob"), now=100.0)
            waits = await asyncio.gather(
                *(servers[at % 2].take(Client(tenant="acme", key="ada"), now=100.0) for at in range(3 * per_minute))
            )
            later = [await server.take(Client(tenant="acme", key="ada"), now=160.0) for server in servers]
            return other, waits, later

    other, waits, later = asyncio.run(serve())
    assert other == 0.0
    assert waits.count(0.0) == per_minute
    assert max(waits) == pytest.approx(60 / per_minute)
    assert later == [0.0, 0.0]


def test_requests_that_a_server_took_and_did_not_use_are_lost(sqlite_url):
    async def serve():
        async with connect(sqlite_url) as database:
            allowance, ada = SharedAllowance(180, database), Client(tenant="acme", key="ada")
            waits = [await allowance.take(ada, now=0.0)]  # it takes three at once
            left = await database.shared_state("acme").take_requests("ada", count=1_000, per_minute=180, now=0.0)
            waits += [await allowance.take(ada, now=now) for now in (0.2, 1.0, 1.0)]
            return waits, left.requests

    waits, left = asyncio.run(serve())
    assert left == 177
    assert waits[:3] == [0.0, 0.0, 0.0]  # the second one is from those three, the third one new


def test_a_server_without_its_database_counts_alone(sqlite_url, caplog):
    async def serve():
        database = await connect(sqlite_url).open()
        allowance = SharedAllowance(1, database)
        await database.close()
        ada = Client(tenant="acme", key="ada")
        return [await allowance.take(ada, now=now) for now in (0.0, 0.0, 30.0, 60.0)]

    assert asyncio.run(serve()) == [0.0, 60.0, 30.0, 0.0]
    assert caplog.text.count("looking up a rate limit") == 3  # not again within ten seconds


def test_two_servers_of_a_database_share_their_limits(start, postgres_url):
    clients = [start(store=postgres_url, limits={"requests_per_minute": 3}) for _ in range(2)]
    answers = [clients[at % 2].post(CHAT, json=HI).status_code for at in range(8)]
    assert answers == [200] * 3 + [429] * 5


@pytest.mark.parametrize(
    ("listen", "keys", "allowed"),
    [
        ("127.0.0.1:8080", False, True),
        ("localhost:8080", False, True),
        ("[::1]:8080", False, True),
        ("0.0.0.0:8080", False, False),
        ("192.168.1.5:8080", False, False),
        ("example.org:8080", False, False),
        ("0.0.0.0:8080", True, True),
    ],
)
def test_without_keys_only_loopback_addresses_are_allowed(listen, keys, allowed):
    upstreams = [{"name": "local", "url": "http://127.0.0.1:1/v1"}]
    config = parse_config({"listen": listen, "require_keys": keys, "upstreams": upstreams}, "brimful.toml")
    if allowed:
        require_keys_or_loopback(config, "brimful.toml")
    else:
        with pytest.raises(InvalidConfig, match=r"brimful\.toml: listen: .* is reachable from other machines"):
            require_keys_or_loopback(config, "brimful.toml")


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/gpt-4o", "/brimful/v1/rooms"])
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"host": "evil.example"}, "other_host"),
        ({"host": "127.0.0.1.evil.example:8080"}, "other_host"),
        ({"sec-fetch-site": "cross-site"}, "other_origin"),
        ({"origin": "https://evil.example"}, "other_origin"),
    ],
)
def test_without_keys_web_pages_cannot_read(shared, path, headers, code):
    refused = shared().get(path, headers=headers)
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == code


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/embeddings"])
def test_without_keys_requests_to_other_hosts_are_rejected(shared, upstream, path):
    refused = shared().post(path, json=HI, headers={"host": "evil.example"})
    assert refused.status_code == 403
    assert upstream.requests == []


def test_other_names_of_the_machine_can_be_configured(start):
    client = start(hosts=["host.docker.internal"])
    assert client.get("/v1/models", headers={"host": "Host.Docker.Internal:8080"}).status_code == 200
    assert client.get("/v1/models", headers={"host": "evil.example"}).status_code == 403


def test_wrong_keys_are_slowed_down_and_counted(start, make_key):
    client = start(require_keys=True, limits={"failed_keys_per_minute": 3}, telemetry={"metrics": True})
    _, known = make_key(scopes=("chat", "metrics"))
    _, unused = make_key()
    assert client.post(CHAT, json=HI, headers=bearer(known)).status_code == 200
    answers = [client.post(CHAT, json=HI, headers=bearer(f"bf-{at}")) for at in range(5)]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 429, 429]
    assert answers[-1].json()["error"]["code"] == "too_many_failed_keys"
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 21
    assert client.post(CHAT, json=HI, headers=bearer(known)).status_code == 200
    metrics = client.get("/metrics", headers=bearer(known)).text
    assert 'brimful_rejected_requests_total{kind="invalid_key"} 3.0' in metrics
    assert 'brimful_rejected_requests_total{kind="too_many_failed_keys"} 2.0' in metrics
    forwarded = {"x-forwarded-for": "192.0.2.1"}  # no reason to believe it
    assert client.post(CHAT, json=HI, headers=bearer(unused) | forwarded).status_code == 429


def test_addresses_with_wrong_keys_are_forgotten_after_many_others():
    failed = FailedKeys(per_minute=1)
    for at in range(20_000):
        failed.add(f"10.0.{at // 256}.{at % 256}", now=0.0)
    failed.check("10.0.0.0", now=0.0)
    with pytest.raises(ApiError, match=r"too many wrong API keys from 10\.0\.78\.31"):
        failed.check("10.0.78.31", now=0.0)


def test_one_network_of_ipv6_addresses_counts_as_one():
    failed = FailedKeys(per_minute=1)
    failed.add("2001:db8::1", now=0.0)
    with pytest.raises(ApiError):
        failed.check("2001:db8::2", now=0.0)
    failed.check("2001:db8:0:1::2", now=0.0)


def test_wrong_keys_count_for_the_address_that_a_trusted_proxy_names(start):
    client = start(require_keys=True, limits={"failed_keys_per_minute": 1}, trusted_proxies=["127.0.0.1"])

    def status(address):
        return client.post(CHAT, json=HI, headers=bearer("bf-0") | {"x-forwarded-for": address}).status_code

    assert [status(address) for address in ("192.0.2.1", "192.0.2.1", "192.0.2.2")] == [401, 429, 401]
