"""Errors have the format that the client expects."""

import json

import pytest
from starlette.responses import HTMLResponse, JSONResponse, Response

from brimful.server.errors import to_api_error
from brimful.wires import find_wire
from brimful.wires.errors import ErrorSource, make_provider_error
from server.upstream import chat_answer, chat_events, message_events

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
HI = {"model": "gpt-4o", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}


def is_told(answer, path):
    """Whether an answer is an error in the dialect of its endpoint."""
    data = answer.json()
    assert answer.headers["content-type"].startswith("application/json")
    assert isinstance(data["error"]["message"], str)
    assert data["error"]["message"]
    if path == MESSAGES:
        assert data["type"] == "error"
        assert set(data) == {"type", "error"}
    else:
        assert {"message", "type", "param", "code"} <= set(data["error"])
    return True


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"7", b"\xff\xfe", b"[" * 5000, b'{"model": "m"}', b'{"messages": []}', b'{"messages": [7]}'],
)
def test_invalid_requests(shared, path, content):
    answer = shared().post(path, content=content)
    assert answer.status_code == 400
    assert is_told(answer, path)


@pytest.mark.parametrize("path", ["/nothing", "/v1", "/v1/completions", "/v1/messages/batches"])
def test_unknown_paths_and_methods_are_refused(shared, upstream, path):
    client = shared(unknown_paths="refuse")
    answer = client.post(path, json=HI)
    assert answer.status_code == 404
    assert is_told(answer, MESSAGES if path.startswith(MESSAGES) else path)
    assert client.delete(CHAT).status_code == 405
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/chat/completions", "add /v1 to the client's base URL"),
        ("/responses", "add /v1 to the client's base URL"),
        ("/messages", "add /v1 to the client's base URL"),
        ("/v1/v1/messages", "remove /v1 from the client's base URL"),
        ("/v1/v1/chat/completions", "remove /v1 from the client's base URL"),
        ("/v1/v1beta/models/gemini-2.5-pro:generateContent", "remove /v1 from the client's base URL"),
        ("/v1/api/chat", "remove /v1 from the client's base URL"),
    ],
)
def test_a_wrong_base_url_is_answered_with_the_right_one(start, upstream, next_log_line, path, advice):
    headers = {"anthropic-version": "2023-06-01"} if path.endswith("messages") else {}
    answer = start().post(path, json=HI, headers=headers)
    assert answer.status_code == 404
    assert is_told(answer, MESSAGES if headers else path)
    assert answer.json()["error"]["message"] == f"POST {path} not found: {advice}"
    assert upstream.requests == []
    line = next_log_line()
    assert (line["method"], line["path"], line["status"]) == ("POST", path, 404)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nothing", 404), ("PATCH", "/brimful/v1/rooms", 405)])
def test_requests_that_no_endpoint_serves_are_logged(start, next_log_line, method, path, status):
    assert start().request(method, f"{path}?key=sk-secret").status_code == status
    line = next_log_line()
    assert (line["method"], line["path"], line["status"]) == (method, path, status)
    assert "sk-secret" not in str(line)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_non_ascii_upstream_headers_are_forwarded(start, upstream, encoding):
    note = ("日 é" if encoding == "utf-8" else "é").encode(encoding)
    answer = JSONResponse(chat_answer())
    answer.raw_headers.append((b"x-note", note))
    upstream.answers = [answer]
    response = start().post(CHAT, json=HI)
    assert response.status_code == 200
    assert (b"x-note", note) in response.headers.raw


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_required_parts_that_do_not_fit(shared, path):
    rules = "word " * 9000
    prompt = (
        {"messages": [{"role": "system", "content": rules}, *HI["messages"]]} if path == CHAT else {"system": rules}
    )
    answer = shared().post(path, json=HI | prompt)
    assert answer.status_code == 400
    assert is_told(answer, path)
    if path == CHAT:
        assert answer.json()["error"]["code"] == "context_length_exceeded"
        assert answer.json()["error"]["param"] == "messages"
    else:
        assert answer.json()["error"]["message"].startswith("prompt is too long: ")


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("status", [400, 404, 422, 500])
def test_an_upstreams_error_keeps_its_status_and_message(shared, upstream, path, status):
    upstream.answers = [
        (status, {"error": {"message": "no such thing as tea", "type": "t", "param": None, "code": None}})
    ]
    answer = shared().post(path, json=HI)
    assert answer.status_code == status
    assert answer.json() == upstream.answers[0][1]


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_an_html_error_page_is_forwarded_without_its_scripts(shared, upstream, path):
    upstream.answers = [HTMLResponse("<script>steal()</script>", status_code=502)]
    answer = shared().post(path, json=HI)
    assert (answer.status_code, answer.text) == (502, "<script>steal()</script>")
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"] == "sandbox"


def test_retry_after_is_forwarded(start, upstream):
    busy = json.dumps({"error": {"message": "slow down", "type": "rate_limit_error", "param": None, "code": None}})
    upstream.answers = [Response(busy, status_code=429, headers={"retry-after": "17"}, media_type="application/json")]
    answer = start().post(CHAT, json=HI)
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "17"


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_a_rejected_server_key_is_hidden_from_the_client(start, upstream, path, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "sk-very-secret-key")
    upstream.answers = [(401, {"error": {"message": "Incorrect API key provided: sk-very-secret-key"}})]
    answer = start(upstream={"key": "SECRET_KEY"}, environ=None).post(path, json=HI)
    assert answer.status_code == 502
    assert is_told(answer, path)
    assert "sk-very" not in answer.text
    assert "rejected this server's API key" in answer.text


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_a_missing_server_key_is_named(start, upstream, path):
    upstream.answers = [(401, {"error": {"message": "Missing bearer authentication in header"}})]
    answer = start().post(path, json=HI, headers={"authorization": "Bearer sk-of-a-client"})
    assert answer.status_code == 502
    assert is_told(answer, path)
    message = answer.json()["error"]["message"]
    assert "'local' wants an API key, but BRIMFUL_PROVIDER_KEY is not set" in message
    assert 'the keys of clients are not forwarded: set it, or set authorization = "client"' in message
    assert "rejected" not in message


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_an_unreachable_upstream(start, path):
    client = start(upstream={"url": "http://127.0.0.1:1/v1", "limits": {"max_attempts": 1}})
    answer = client.post(path, json=HI)
    assert answer.status_code == 502
    assert is_told(answer, path)


class Dying(Response):
    """A stream that ends in the middle."""

    async def __call__(self, scope, receive, send):
        del scope, receive
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        first = next(chat_events("Thurs")).encode()
        await send({"type": "http.response.body", "body": first, "more_body": True})
        raise RuntimeError("the upstream died")


def test_an_interrupted_stream_ends_with_an_error(start, upstream):
    upstream.answers = [Dying()]
    with start().stream("POST", CHAT, json=HI | {"stream": True}) as answer:
        text = answer.read().decode()
    assert "Thurs" in text
    last = json.loads(text.strip().rpartition("data: ")[2])
    assert "broke off" in last["error"]["message"]


@pytest.mark.parametrize("mode", ["fit", "remember"])
@pytest.mark.parametrize(("path", "events"), [(CHAT, chat_events), (MESSAGES, message_events)])
@pytest.mark.parametrize("ended", ["\n\n", ""])
def test_a_stream_that_ends_early_ends_with_an_error(shared, upstream, mode, path, events, ended):
    pieces = list(events("Thurs", "day."))[: 2 if path == CHAT else 4]
    pieces[-1] = pieces[-1].removesuffix("\n\n") + ended
    upstream.answers = [pieces]
    with shared(mode=mode).stream("POST", path, json=HI | {"stream": True, "user": "ada"}) as answer:
        text = answer.read().decode()
    *came, last = [event for event in text.split("\n\n") if event]
    assert came == [piece.strip() for piece in pieces]
    assert "broke off" in json.loads(last.partition("data: ")[2])["error"]["message"]
    assert last.startswith("event: error\n") == (path == MESSAGES)


@pytest.mark.parametrize("mode", ["fit", "remember"])
def test_an_error_within_a_stream_is_sent_once(start, upstream, mode):
    upstream.answers = [[next(chat_events("Thurs")), 'data: {"error": {"message": "on fire"}}\n\n']]
    with start(mode=mode).stream("POST", CHAT, json=HI | {"stream": True, "user": "ada"}) as answer:
        assert answer.read().decode() == "".join(upstream.answers[0])


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("status", [302, 304])
def test_a_redirecting_upstream(shared, upstream, path, status):
    upstream.answers = [Response(status_code=status, headers={"location": "/"})]
    answer = shared().post(path, json=HI)
    assert answer.status_code == 502
    assert is_told(answer, path)
    assert str(status) in answer.json()["error"]["message"]


@pytest.mark.parametrize("status", [-1, 0, 100, 200, 600, 699, 2013])
def test_an_invalid_http_status(status):
    result = to_api_error(
        make_provider_error(ErrorSource(route="local"), status, b'{"error": {"message": "no"}}'), find_wire("openai")
    )
    assert result.status == 502
    assert result.message.startswith(f"local: answered {status}")


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "said",
    [
        HTMLResponse("<h1>Hi</h1>"),
        JSONResponse([1]),
        JSONResponse({"choices": "no"}),
        Response(),
        Response(status_code=204),
    ],
)
def test_a_success_without_an_answer(shared, upstream, path, stream, said):
    upstream.answers = [said]
    client, request = shared(), HI | {"stream": stream}
    passed_on = client.post(path, json=request)
    assert (passed_on.status_code, passed_on.content) == (said.status_code, said.body)
    refused = client.post(path, json=request | {"user": "ada"}, headers={"x-brimful-mode": "remember"})
    assert refused.status_code == 502
    assert is_told(refused, path)


def test_no_upstream_serves_the_model(start, upstream):
    client = start(upstream={"models": ["qwen-*"]})
    answer = client.post(CHAT, json=HI)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"
    assert upstream.requests == []


def test_requests_are_not_translated(start):
    answer = start(upstream={"wires": ["openai"]}).post(MESSAGES, json=HI)
    assert answer.status_code == 404
    assert is_told(answer, MESSAGES)
    assert "only speaks openai, and requests are not translated" in answer.json()["error"]["message"]
