"""Requests that are forwarded as they are: models, token counts, and paths that Brimful does not know."""

import asyncio
import json
import socket
import threading

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from brimful.providers.server_models import ServerModel, parse_server_models
from server.upstream import serving

HI = {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "Hello there, how are you today?"}]}
ANTHROPIC = {"anthropic-version": "2023-06-01"}


# -- models ------------------------------------------------------------------------------------------------------------


def test_models_are_listed_as_the_upstream_lists_them(start):
    client = start()
    assert client.get("/v1/models").json()["data"][0]["id"] == "gpt-4o"
    assert client.get("/v1/models", headers=ANTHROPIC).status_code == 200


def test_model_lists_of_several_upstreams_are_merged(start, upstream):
    local = {"name": "local", "url": f"{upstream.address}/v1"}
    dead = {"name": "dead", "url": "http://127.0.0.1:1/v1", "limits": {"max_attempts": 1}}
    client = start(upstreams=[local, local | {"name": "twin"}, dead])
    assert [row["id"] for row in client.get("/v1/models").json()["data"]] == ["gpt-4o"]
    assert start(upstreams=[dead]).get("/v1/models").status_code == 502


def anthropic_models(*ids, page=2):
    """Serve a list of models in pages, as Anthropic does."""

    async def list_models(request):
        first = ids.index(request.query_params["after_id"]) + 1 if "after_id" in request.query_params else 0
        rows = [{"id": id, "type": "model"} for id in ids[first : first + page]]
        more = first + page < len(ids)
        last = rows[-1]["id"] if rows else None
        return JSONResponse({"data": rows, "has_more": more, "first_id": rows[0]["id"], "last_id": last})

    return serving(Starlette(routes=[Route("/v1/models", list_models)]))


def test_lists_of_several_anthropic_upstreams_have_pages(start):
    with anthropic_models("a", "b", "c", "d", "e") as (one, _), anthropic_models("c", "x", "y") as (two, _):
        upstreams = [{"name": name, "url": url, "wires": ["anthropic"]} for name, url in (("one", one), ("two", two))]
        client = start(upstreams=upstreams)

        def page(query=""):
            return client.get(f"/v1/models{query}", headers=ANTHROPIC).json()

        def ids(answer):
            return "".join(row["id"] for row in answer["data"])

        assert ids(page()) == "abcdexy"
        first = page("?limit=3")
        assert (ids(first), first["has_more"], first["first_id"], first["last_id"]) == ("abc", True, "a", "c")
        rest = page("?limit=4&after_id=c")
        assert (ids(rest), rest["has_more"]) == ("dexy", False)
        before = page("?limit=2&before_id=d")
        assert (ids(before), before["has_more"]) == ("bc", True)
        assert page("?after_id=y") == {"data": [], "has_more": False, "first_id": None, "last_id": None}
        for wrong in ("?limit=0", "?limit=x", "?limit=1001", "?after_id=nope", "?before_id=nope"):
            assert page(wrong)["error"]["type"] == "invalid_request_error"


# -- token counts ------------------------------------------------------------------------------------------------------


def test_counts_come_from_the_upstream_or_from_us(start, upstream):
    client = start()
    assert 5 < client.post("/v1/messages/count_tokens", json=HI).json()["input_tokens"] < 40
    upstream.answers = [{"input_tokens": 7}]
    assert client.post("/v1/messages/count_tokens", json=HI).json() == {"input_tokens": 7}
    upstream.answers = [(500, {"error": {"message": "out of order"}})]
    assert client.post("/v1/messages/count_tokens", json=HI).status_code == 500


@pytest.mark.parametrize(
    ("row", "offer"),
    [
        ({"id": "a"}, ServerModel(id="a")),
        ({"id": "a", "max_model_len": 4096}, ServerModel(id="a", window=4096)),
        ({"id": "a", "context_length": 8192, "max_model_len": 4096}, ServerModel(id="a", window=4096)),
        (
            {"id": "a", "owned_by": "llamacpp", "meta": {"n_ctx": 512}},
            ServerModel(id="a", window=512, llama=True, only=True),
        ),
        ({"id": "a", "meta": None, "context_length": "long"}, ServerModel(id="a")),
    ],
)
def test_servers_report_their_windows(row, offer):
    assert parse_server_models(json.dumps({"data": [row]}).encode()) == (offer,)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"data": 7}', b'{"data": [7, {}, {"id": 7}]}', b"<html>"])
def test_an_invalid_model_list_is_ignored(body):
    assert parse_server_models(body) == ()


# -- paths that Brimful does not know ----------------------------------------------------------------------------------


def test_embeddings_are_forwarded(start, upstream):
    answer = {"object": "list", "data": [{"embedding": [0.25, 1e-9], "index": 0}], "model": "m"}
    upstream.answers = [answer]
    request = {"model": "m", "input": ["tea"], "dimensions": 2}
    assert start().post("/v1/embeddings", json=request).json() == answer
    assert upstream.bodies == [request]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/completions"),
        ("POST", "/v1/responses/compact"),
        ("GET", "/v1/responses/resp_1?include=x"),
        ("DELETE", "/v1/files/file-1"),
        ("GET", "/v1/files/file%201/content"),
        ("PUT", "/v1/things/1"),
        ("PATCH", "/v1/things/1"),
        ("POST", "/v1/batches/b1/cancel"),
        ("GET", "/v1/chat/completions"),
        ("GET", "/v1/chat/completions/chatcmpl-1/messages"),
        ("DELETE", "/v1/models/ft:gpt-4o:me"),
        ("POST", "/v1/messages/batches"),
        ("GET", "/v1/messages/batches/b1/results"),
    ],
)
def test_unknown_paths_are_forwarded(start, upstream, next_log_line, method, path):
    upstream.answers = [Response(b'{ "ok":true}', 201, {"x-request-id": "r1"}, "application/json")]
    sent = {"json": {"model": "m", "input": 1}} if method in ("POST", "PUT", "PATCH") else {}
    answer = start().request(method, path, headers={"openai-beta": "x"}, **sent)
    assert (answer.status_code, answer.content, answer.headers["x-request-id"]) == (201, b'{ "ok":true}', "r1")
    [(_, headers, body)] = upstream.requests
    assert upstream.targets == [f"{method} {path}"]
    assert body == sent.get("json")
    assert headers["openai-beta"] == "x"
    line = next_log_line()
    assert (line["method"], line["status"], line["mode"], line["upstream"]) == (method, 201, "forward", "local")


def test_bodies_of_unknown_paths_are_forwarded_byte_for_byte(start):
    received = []

    async def record(request):
        received.append((request.headers.get("content-type"), await request.body()))
        return PlainTextResponse("ok")

    raw = b'{ "model":"m",\n "n":1.0, "text":"\\u00e9" }'
    with serving(Starlette(routes=[Route("/v1/{path:path}", record, methods=["POST"])])) as (address, _):
        client = start(upstream={"url": f"{address}/v1"})
        client.post("/v1/audio/speech", content=raw, headers={"content-type": "application/json; charset=utf-8"})
        client.post("/v1/batches/b1/cancel")
    assert received == [("application/json; charset=utf-8", raw), (None, b"")]


def test_unknown_paths_need_a_key_and_count_against_its_limits(start, upstream):
    assert start(require_keys=True).get("/v1/files").status_code == 401
    client = start(limits={"requests_per_minute": 1})
    upstream.answers = [{"data": []}]
    assert [client.get("/v1/files").status_code for _ in range(2)] == [200, 429]
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_web_pages_cannot_use_unknown_paths_without_keys(shared, upstream, method):
    answer = shared().request(method, "/v1/files", headers={"origin": "https://evil.example"}, content=b"x")
    assert answer.status_code == 403
    assert upstream.requests == []


def test_the_upstream_of_an_unknown_path(start, upstream):
    def named(name, **more):
        return {"name": name, "url": f"{upstream.address}/{name}/v1"} | more

    upstreams = [
        named("a", models=["gpt-*"], wires=["openai"]),
        named("b", models=["qwen-*"], wires=["openai"]),
        named("c", wires=["anthropic"]),
    ]
    client = start(upstreams=upstreams)
    upstream.answers = [{}]

    def target(*args, **kwargs):
        upstream.targets.clear()
        assert client.request(*args, **kwargs).status_code == 200
        return upstream.targets[0]

    assert target("POST", "/v1/completions", json={"model": "qwen-3"}) == "POST /b/v1/completions"
    assert target("DELETE", "/v1/models/qwen-3/tuned") == "DELETE /b/v1/models/qwen-3/tuned"
    assert target("GET", "/v1/files") == "GET /a/v1/files"
    assert target("GET", "/v1/files", headers={"x-brimful-upstream": "b"}) == "GET /b/v1/files"
    model_first = {"headers": {"x-brimful-upstream": "a"}, "json": {"model": "qwen-3"}}
    assert target("POST", "/v1/completions", **model_first) == "POST /b/v1/completions"
    assert target("GET", "/v1/files", headers=ANTHROPIC) == "GET /c/v1/files"
    assert target("GET", "/v1/messages/batches") == "GET /c/v1/messages/batches"
    wrong = client.get("/v1/files", headers={"x-brimful-upstream": "c"})
    assert wrong.status_code == 400
    assert "there are: a, b" in wrong.json()["error"]["message"]
    assert client.post("/v1/completions", json={"model": "llama"}).status_code == 404


def test_without_an_upstream_nothing_is_forwarded(start):
    answer = start(upstreams=[]).get("/v1/files")
    assert answer.status_code == 404
    assert "no upstreams" in answer.json()["error"]["message"]


def test_web_sockets_are_refused(start, upstream):
    headers = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-key": "a"}
    answer = start().get("/v1/realtime?model=gpt-realtime", headers=headers)
    assert answer.status_code == 501
    assert "WebSocket connections" in answer.json()["error"]["message"]
    elsewhere = start().get("/v1/responses", headers=headers)  # as Codex tries first
    assert (elsewhere.status_code, elsewhere.headers["upgrade"]) == (426, "HTTP/1.1")
    assert "send the request over HTTP" in elsewhere.json()["error"]["message"]
    assert upstream.requests == []


# -- paths that lead elsewhere -----------------------------------------------------------------------------------------


def send_raw(address, line):
    with socket.create_connection((address.host, address.port), timeout=120) as connection:
        connection.sendall(f"{line}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode("latin-1"))
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize(
    "name", ["../files/f1/content", "%2e%2e/admin", "%2e%2e%2fadmin", "a/../../admin", "a//b", "..\\admin"]
)
def test_a_model_name_cannot_reach_other_paths(shared, upstream, name):
    answer = send_raw(shared().base_url, f"GET /v1/models/{name} HTTP/1.1")
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert upstream.requests == []


@pytest.mark.parametrize(
    "target",
    [
        "/v1/../admin",
        "/v1/a/../../admin",
        "/v1/%2e%2e/admin",
        "/v1/%2E%2e%2fadmin",
        "/v1/%252e%252e/admin",
        "/v1/..%5cadmin",
        "/v1/..\\admin",
        "/v1/.%2e/admin",
        "/v1/a/./b",
        "/v1//evil.example/x",
        "/v1/files//f1",
        "//evil.example/v1/files",
        "http://evil.example/v1/files",
        "/%76%31/files",
        "/v1/files%00",
        "/v1/a%0d%0aX-Evil:1",
        "/v1/%ff%2e%2e/x%2f..",
        "/v1/.. /admin",
        "/v1/%20../..%20/admin",
    ],
)
def test_no_path_leads_to_another_host_or_folder(shared, upstream, target):
    client = shared(upstream={"url": f"{upstream.address}/team/v1"})
    answer = send_raw(client.base_url, f"GET {target} HTTP/1.1")
    assert answer.split(b" ")[1] in (b"400", b"404")
    assert upstream.requests == []


def test_a_fragment_in_a_query_is_encoded(start, upstream):
    upstream.answers = [{}]
    send_raw(start().base_url, "GET /v1/files?a=1#b HTTP/1.1")
    assert upstream.targets in ([], ["GET /v1/files?a=1%23b"])


# -- bodies that are not read ------------------------------------------------------------------------------------------


@pytest.fixture
def slow_upstream():
    """An upstream that reads and writes bodies piece by piece."""
    state = {"first": threading.Event(), "left": threading.Event(), "headers": {}}

    async def receive(request):
        state["headers"] = dict(request.headers)
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            state["first"].set()
        return JSONResponse({"size": size}, headers={"x-request-id": "r1"})

    async def download(_):
        async def pieces():
            try:
                yield b"\0" * 1000
                await asyncio.Event().wait()
            finally:
                state["left"].set()

        return StreamingResponse(pieces(), media_type="application/octet-stream")

    async def whole(_):
        return Response(bytes(range(256)) * 40, media_type="audio/mpeg")

    async def broken(request):
        async def pieces():
            yield b"data: 1\n\n"
            raise RuntimeError("the upstream died")

        return StreamingResponse(pieces(), media_type=request.query_params["type"])

    routes = [
        Route("/v1/files", receive, methods=["POST"]),
        Route("/v1/download", download),
        Route("/v1/audio", whole, methods=["GET"]),
        Route("/v1/broken", broken),
    ]
    with serving(Starlette(routes=routes)) as (address, _):
        state["url"] = f"{address}/v1"
        yield state


def test_an_upload_is_forwarded_as_it_arrives(start, slow_upstream):
    client = start(upstream={"url": slow_upstream["url"]})

    def pieces():
        yield b"x" * 100_000
        assert slow_upstream["first"].wait(60), "the first piece was not forwarded"
        yield b"y" * 100_000

    answer = client.post("/v1/files", content=pieces(), headers={"content-type": "multipart/form-data; boundary=b"})
    assert answer.json() == {"size": 200_000}
    assert slow_upstream["headers"]["content-type"] == "multipart/form-data; boundary=b"
    files = {"file": ("a.jsonl", b"z" * 5000, "application/jsonl")}
    whole = client.post("/v1/files", files=files, data={"purpose": "batch"})
    assert whole.json()["size"] > 5000
    assert slow_upstream["headers"]["content-length"] == str(whole.json()["size"])


@pytest.mark.parametrize("declared", [True, False])
def test_an_upload_that_is_too_large_is_refused(start, slow_upstream, declared):
    client = start(upstream={"url": slow_upstream["url"]}, limits={"max_upload_bytes": 10_000})
    body = b"x" * 50_000
    answer = client.post(
        "/v1/files", content=body if declared else iter([body]), headers={"content-type": "application/octet-stream"}
    )
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "request_too_large"


def test_binary_answers_are_forwarded_with_their_length(start, slow_upstream):
    client = start(upstream={"url": slow_upstream["url"]})
    answer = client.get("/v1/audio")
    assert answer.content == bytes(range(256)) * 40
    assert answer.headers["content-length"] == str(256 * 40)
    assert answer.headers["content-type"] == "audio/mpeg"
    head = client.head("/v1/audio")
    assert (head.status_code, head.content) == (200, b"")


def test_a_client_that_leaves_ends_the_request_to_the_upstream(start, slow_upstream):
    client = start(upstream={"url": slow_upstream["url"]})
    with client.stream("GET", "/v1/download") as answer:
        assert next(answer.iter_bytes()) == b"\0" * 1000
    assert slow_upstream["left"].wait(60)


def test_an_answer_that_breaks_off_is_not_complete(start, slow_upstream):
    client = start(upstream={"url": slow_upstream["url"]})
    with pytest.raises(httpx2.RemoteProtocolError):
        client.get("/v1/broken?type=audio/mpeg")
    events = client.get("/v1/broken?type=text/event-stream").text
    assert events.startswith("data: 1\n\n")
    assert "broke off" in json.loads(events.rpartition("data: ")[2])["error"]["message"]


def test_a_forwarded_answer_that_is_too_long_is_cut_off(start, slow_upstream, next_log_line):
    client = start(upstream={"url": slow_upstream["url"], "limits": {"max_stream_bytes": 5_000}})
    with pytest.raises(httpx2.RemoteProtocolError):
        client.get("/v1/audio")
    assert "larger than 5,000 bytes" in next_log_line()["error"]
