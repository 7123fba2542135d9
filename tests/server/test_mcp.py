"""`/mcp` of the server: the same keys, scopes, tenants and limits as everything else."""

import asyncio
import gzip
import json
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from brimful.engine import Engine
from brimful.errors import InvalidConfig
from brimful.mcp.tools import TOOLS
from brimful.server.config import parse_config
from brimful.stores import connect

MODES = ("auto", "legacy")
WRITING = {"remember", "forget", "pin"}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture
def make_key(tmp_path):
    def make(tenant, *scopes, user=None):
        async def create():
            async with connect(f"sqlite:///{tmp_path}/brimful.db") as database:
                return (await database.api_keys(tenant).create(name="test", scopes=scopes, at=1.0, user=user))[1]

        return asyncio.run(create())

    return make


@pytest.fixture
def remember(tmp_path):
    """Return a way to write memories for a tenant."""

    def write(tenant, *texts, **options):
        async def story():
            async with Engine(f"sqlite:///{tmp_path}/brimful.db", tenant=tenant, embedder="none") as engine:
                for text in texts:
                    await engine.remember(text, **options)

        asyncio.run(story())

    return write


@asynccontextmanager
async def connected(server, mode="auto", **headers):
    async with httpx2.AsyncClient(headers=headers, timeout=120) as http:
        transport = streamable_http_client(str(server.base_url.join("/mcp")), http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


def ask(server, work, *, mode="auto", **headers):
    async def story():
        async with connected(server, mode, **headers) as client:
            return await work(client)

    return asyncio.run(story())


def bearer(key):
    return {"authorization": f"Bearer {key}"}


async def list_tools(client):
    return {tool.name for tool in (await client.list_tools()).tools}


async def recall_office(client):
    return (await client.call_tool("recall", {"query": "When does the office close?"})).content[0].text


def post(client, message, **headers):
    return client.post("/mcp", json=message, headers=HEADERS | headers)


def initialize(version="2025-11-25"):
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def test_a_client_without_keys_may_read_and_write(start, mode):
    async def story(client):
        assert await list_tools(client) == set(TOOLS) - {"pin"}
        await client.call_tool("remember", {"text": "The office closes at six."})
        pinned = (await client.read_resource("brimful://memories/pinned")).contents[0].text
        prompt = await client.get_prompt("recall", {"topic": "office"})
        return await recall_office(client), pinned, prompt.messages[0].content.text

    recalled, pinned, prompt = ask(start(remember={"untrusted": "trust"}), story, mode=mode)
    assert "The office closes at six." in recalled
    assert pinned == "Nothing found."
    assert "The office closes at six." in prompt


def test_a_key_without_the_scope_cannot_write(start, make_key, mode):
    server, key = start(require_keys=True, mcp_tools=list(TOOLS)), make_key("acme", "read")

    async def story(client):
        assert await list_tools(client) == set(TOOLS) - WRITING
        return [await client.call_tool(name, {"id": "x", "text": "x"}) for name in sorted(WRITING)]

    for refused in ask(server, story, mode=mode, **bearer(key)):
        assert refused.is_error
        assert refused.content[0].text == "this API key lacks the scope 'write'"
    assert ask(server, list_tools, mode=mode, **bearer(make_key("acme", "read", "write"))) == set(TOOLS)


@pytest.mark.parametrize("scopes", [("chat",), ("metrics",), ("write",)])
def test_a_key_without_the_scope_cannot_read(start, make_key, scopes):
    server = start(require_keys=True)
    refused = post(server, initialize(), **bearer(make_key("acme", *scopes)))
    assert (refused.status_code, refused.json()["error"]["message"]) == (403, "this API key lacks the scope 'read'")


def test_without_a_key_nothing_is_answered(start):
    refused = post(start(require_keys=True), initialize())
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")


def test_tenants_never_see_one_another(start, make_key, remember, mode):
    remember("acme", "The office closes at six.", id="mem-office", pinned=True)
    server = start(require_keys=True, mcp_tools=list(TOOLS))
    acme, other = (bearer(make_key(tenant, "read", "write")) for tenant in ("acme", "other"))

    async def look(client):
        results = [
            await recall_office(client),
            (await client.call_tool("memories", {})).content[0].text,
            (await client.call_tool("search", {"query": "office"})).content[0].text,
            (await client.call_tool("fetch", {"id": "mem-office"})).content[0].text,
            (await client.call_tool("history", {})).content[0].text,
            (await client.call_tool("explain", {})).content[0].text,
            (await client.read_resource("brimful://memories/pinned")).contents[0].text,
        ]
        with pytest.raises(MCPError, match="no memory or message"):
            await client.read_resource("brimful://memories/mem-office")
        return results

    async def harm(client):
        return [(await client.call_tool(name, {"id": "mem-office"})).content[0].text for name in ("forget", "pin")]

    assert not [text for text in ask(server, look, mode=mode, **other) if "closes at six" in text]
    assert ask(server, harm, mode=mode, **other) == ["no memory 'mem-office'"] * 2
    assert "closes at six" in ask(server, recall_office, mode=mode, **acme)


def test_clients_of_two_tenants_at_once(start, make_key, remember):
    remember("acme", "The office closes at six.")
    remember("other", "The office closes at nine.")
    server = start(require_keys=True)
    keys = [make_key(tenant, "read") for tenant in ("acme", "other")]

    async def one(key):
        async with connected(server, **bearer(key)) as client:
            return [await recall_office(client) for _ in range(3)]

    async def both():
        return await asyncio.gather(*(one(keys[at % 2]) for at in range(6)))

    for at, texts in enumerate(asyncio.run(both())):
        assert all(("at six", "at nine")[at % 2] in text for text in texts)
        assert not any(("at nine", "at six")[at % 2] in text for text in texts)


def test_a_header_names_the_user(start, remember):
    remember("default", "Ada's office closes at noon.", user="ada")
    server = start()
    assert "noon" not in ask(server, recall_office)
    assert "noon" in ask(server, recall_office, **{"x-brimful-user": "ada"})


def test_a_key_bound_to_a_user_is_a_fence(start, make_key, remember):
    remember("acme", "Ada's office closes at noon.", user="ada", id="mem-ada")
    remember("acme", "Bob's office closes at nine.", user="bob", id="mem-bob")
    server, key = start(require_keys=True), bearer(make_key("acme", "read", "write", user="ada"))

    async def story(client):
        calls = (
            ("recall", {"query": "office", "user": "bob"}),
            ("fetch", {"id": "mem-bob"}),
            ("forget", {"id": "mem-bob"}),
        )
        refused = [await client.call_tool(name, arguments) for name, arguments in calls]
        return await recall_office(client), refused

    recalled, refused = ask(server, story, **key)
    assert "noon" in recalled
    assert "nine" not in recalled
    assert all(each.is_error for each in refused)
    assert "noon" in ask(server, recall_office, **key, **{"x-brimful-user": "ada"})
    other = post(server, initialize() | {"method": "tools/list"}, **key, **{"x-brimful-user": "bob"})
    assert (other.status_code, other.json()["error"]["code"]) == (403, "bound_key")


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}])
def test_web_pages_and_rebound_names_are_refused(shared, headers):
    assert post(shared(), initialize(), **headers).status_code == 403


def test_bodies_have_the_limit_of_the_server(start):
    server = start(limits={"max_body_bytes": 1_000})
    assert post(server, initialize()).status_code == 200
    assert post(server, initialize() | {"padding": "x" * 1_000}).status_code == 413


def test_requests_count_towards_the_rate_limit(start):
    server = start(limits={"requests_per_minute": 1})
    assert post(server, initialize()).status_code == 200
    assert post(server, initialize()).status_code == 429


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_are_no_streams_or_sessions(shared, method):
    refused = shared().request(method, "/mcp", headers=HEADERS)
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("body", [b"", b"hello", b"[]", b"{}", b"\xff", b'{"jsonrpc": "2.0"}', b"[" * 10_000])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28", "1999-01-01"])
def test_bodies_that_are_no_messages_are_refused(shared, body, version):
    refused = shared().post("/mcp", content=body, headers=HEADERS | {"mcp-protocol-version": version})
    assert 400 <= refused.status_code < 500
    assert refused.json()["error"]["message"]


def test_bodies_must_be_declared_as_json(shared):
    refused = shared().post("/mcp", content=b"{}", headers={"content-type": "text/plain"})
    assert (refused.status_code, "application/json" in refused.json()["error"]["message"]) == (415, True)


def test_errors_do_not_tell_where_the_store_is(start, tmp_path):
    server = start()

    async def story(client):
        for file in tmp_path.glob("brimful.db*"):
            file.write_bytes(b"broken")
        return await client.call_tool("memories", {})

    result = ask(server, story)
    assert result.is_error
    assert str(tmp_path) not in result.content[0].text


def test_the_configuration_chooses_tools(start):
    assert ask(start(mcp_tools=["recall", "forget"]), list_tools) == {"recall", "forget"}
    with pytest.raises(InvalidConfig, match="mcp_tools: there is no tool 'said'"):
        parse_config({"mcp_tools": ["said"]}, "brimful.toml")


def test_calls_are_in_the_access_log(start, next_log_line):
    post(start(), initialize())
    line = next_log_line()
    assert (line["path"], line["status"], line["tenant"]) == ("/mcp", 200, "default")


def test_compressed_bodies_are_read(shared):
    body = gzip.compress(json.dumps(initialize()).encode())
    answer = shared().post("/mcp", content=body, headers=HEADERS | {"content-encoding": "gzip"})
    assert answer.json()["result"]["serverInfo"]["name"] == "brimful"
