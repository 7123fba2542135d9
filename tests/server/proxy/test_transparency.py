"""What goes through the proxy unchanged: headers, queries, bodies and statuses; and what never does."""

import gzip
import json
import zlib

import pytest
from backports import zstd
from starlette.responses import JSONResponse, Response

from server.upstream import chat_answer, chat_events

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
HI = {"model": "gpt-4o", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
LIMITED = {"error": {"message": "slow down", "type": "rate_limit_error", "param": None, "code": None}}
LIMIT_HEADERS = {
    "retry-after": "7",
    "x-ratelimit-limit-requests": "500",
    "x-ratelimit-remaining-tokens": "0",
    "anthropic-ratelimit-tokens-reset": "2026-11-16T11:00:00Z",
    "request-id": "req_1",
    "x-request-id": "req_2",
    "x-should-retry": "false",
}


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [CHAT, MESSAGES, "/v1/embeddings", "/v1/messages/count_tokens"])
@pytest.mark.parametrize("status", [200, 400, 403, 429, 500, 529])
def test_headers_bodies_and_statuses_of_an_upstream_are_forwarded(shared, upstream, path, status):
    body = json.dumps(LIMITED, indent=3)
    upstream.answers = [Response(body, status_code=status, headers=LIMIT_HEADERS, media_type="application/json")]
    answer = shared(upstream={"limits": {"max_attempts": 1}}).post(path, json=HI)
    assert (answer.status_code, answer.text) == (status, body)
    assert LIMIT_HEADERS.items() <= dict(answer.headers).items()
    assert len(upstream.requests) == 1


def test_headers_about_the_upstreams_own_host_are_not_forwarded(start, upstream):
    private = {
        "set-cookie": "session=1",
        "alt-svc": 'h3=":443"',
        "strict-transport-security": "max-age=9",
        "access-control-allow-origin": "*",
        "x-brimful-context": "theirs",
        "connection": "keep-alive, x-hop",
        "x-hop": "1",
    }
    upstream.answers = [JSONResponse(chat_answer(), headers=private), JSONResponse(LIMITED, 400, headers=private)]
    client = start()
    for answer in (client.post(CHAT, json=HI), client.post(CHAT, json=HI)):
        assert not {name for name in private if answer.headers.get(name) == private[name]}


def test_an_error_without_a_body_stays_empty(start, upstream):
    upstream.answers = [Response(status_code=500, headers={"request-id": "req_1"})]
    answer = start().post(CHAT, json=HI)
    assert (answer.status_code, answer.content, answer.headers["request-id"]) == (500, b"", "req_1")


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("stream", [False, True])
def test_an_overflow_that_cannot_be_avoided_is_the_upstreams_own_error(start, upstream, path, stream):
    overflow = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}
    events = [f"event: error\ndata: {json.dumps(overflow)}\n\n"]
    upstream.answers = [events if stream else (400, overflow)]
    answer = start().post(path, json=HI | {"stream": stream})
    assert (answer.status_code, answer.json()) == (400, overflow)


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_an_upstream_that_takes_too_long_is_a_504(start, upstream, path):
    upstream.silent = True
    answer = start(upstream={"limits": {"read": 0.05}}).post(path, json=HI)
    assert answer.status_code == 504
    assert "no answer within 0.05 seconds" in answer.json()["error"]["message"]
    assert (answer.json()["error"]["type"] == "timeout_error") == (path == MESSAGES)


# -- requests ----------------------------------------------------------------------------------------------------------


def test_client_headers_are_forwarded(start, upstream):
    sent = {
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "tracestate": "a=1",
        "user-agent": "OpenAI/Python 3.49.0",
        "openai-organization": "org-1",
        "anthropic-beta": "context-1m-2025-08-07",
        "anthropic-version": "2024-01-01",
        "idempotency-key": "i1",
        "x-stainless-retry-count": "0",
        "x-anything": "new",
    }
    start().post(MESSAGES, json=HI, headers=sent)
    [(_, headers, _)] = upstream.requests
    assert sent.items() <= headers.items()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_header_bytes_are_forwarded(shared, upstream, encoding):
    shared().post(CHAT, json=HI, headers=[("x-title", "Café".encode(encoding)), ("x-twice", "a"), ("x-twice", "b")])
    [(_, headers, _)] = upstream.requests
    assert headers["x-title"].encode("latin-1") == "Café".encode(encoding)
    assert headers["x-twice"] == "a, b"


def test_headers_about_the_client_are_not_forwarded(start, upstream):
    private = {
        "cookie": "session=1",
        "x-forwarded-for": "203.0.113.7",
        "x-real-ip": "203.0.113.7",
        "forwarded": "for=203.0.113.7",
        "authorization": "Bearer sk-mine",
        "api-key": "mine",
        "x-brimful-user": "ada",
        "connection": "keep-alive, x-hop",
        "x-hop": "1",
        "te": "trailers",
        "if-none-match": '"etag"',
        "referer": "http://127.0.0.1:8080/secret",
        "accept-encoding": "gzip",
    }
    start().post(CHAT, json=HI, headers=private)
    [(_, headers, _)] = upstream.requests
    assert not {name for name in private if headers.get(name) == private[name]}
    assert headers["accept-encoding"] == "identity"
    assert headers["host"] == upstream.address.removeprefix("http://")


@pytest.mark.parametrize("path", [CHAT, MESSAGES, "/v1/embeddings", "/v1/messages/count_tokens"])
def test_queries_are_forwarded(shared, upstream, path):
    upstream.answers = [chat_answer()]
    shared().post(f"{path}?beta=true&name=a%2Fb", json=HI)
    assert upstream.targets == [f"POST {path}?beta=true&name=a%2Fb"]


def test_the_query_of_an_upstream_url_is_merged(start, upstream):
    client = start(upstream={"url": f"{upstream.address}/v1?api-version=2024-10-21&x=1"})
    client.post(f"{CHAT}?beta=true&API-Version=mine", json=HI)
    client.get("/v1/models/gpt-4o?y=2")
    client.post(MESSAGES, json=HI)
    assert upstream.targets == [
        f"POST {CHAT}?beta=true&api-version=2024-10-21&x=1",
        "GET /v1/models/gpt-4o?y=2&api-version=2024-10-21&x=1",
        f"POST {MESSAGES}?api-version=2024-10-21&x=1",
    ]


def test_the_query_of_an_upstream_url_is_in_no_error(start):
    client = start(upstream={"url": "http://127.0.0.1:1/v1?key=secret", "limits": {"max_attempts": 1}})
    answer = client.post(CHAT, json=HI)
    assert answer.status_code == 502
    assert "secret" not in answer.text


# -- compressed bodies -------------------------------------------------------------------------------------------------


def raw_deflate(data):
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


@pytest.mark.parametrize(
    ("coding", "compress"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
        ("zstd", zstd.compress),
        ("Gzip, identity, ZSTD", lambda data: zstd.compress(gzip.compress(data))),
        ("identity", bytes),
    ],
)
def test_a_compressed_body_is_decompressed(shared, upstream, coding, compress):
    body = compress(json.dumps(HI).encode())
    answer = shared().post(CHAT, content=body, headers={"content-encoding": coding})
    assert answer.status_code == 200
    [(_, headers, received)] = upstream.requests
    assert received == HI
    assert "content-encoding" not in headers


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress])
def test_the_size_limit_holds_after_decompression(shared, upstream, compress):
    bomb = compress(b" " * 20_000_000)
    coding = "gzip" if compress is gzip.compress else "zstd"
    client = shared(limits={"max_body_bytes": 1_000_000})
    assert len(bomb) < 1_000_000
    assert client.post(CHAT, content=bomb, headers={"content-encoding": coding}).status_code == 413
    assert upstream.requests == []


def test_a_body_that_cannot_be_decompressed(start, upstream):
    client = start()
    damaged = client.post(CHAT, content=b"{}", headers={"content-encoding": "gzip"})
    assert damaged.status_code == 400
    assert "cannot be decompressed (gzip)" in damaged.json()["error"]["message"]
    unknown = client.post(CHAT, content=b"{}", headers={"content-encoding": "lzw"})
    assert unknown.status_code == 415
    assert "gzip" in unknown.headers["accept-encoding"]
    assert upstream.requests == []


# -- sizes of answers --------------------------------------------------------------------------------------------------


def limited(start, **limits):
    return start(upstream={"limits": limits})


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("compressed", [False, True])
def test_an_answer_that_is_too_large_is_a_502(start, upstream, next_log_line, status, compressed):
    large = json.dumps(chat_answer("x" * 2_000_000)).encode()
    headers = {"content-encoding": "gzip"} if compressed else {}
    body = gzip.compress(large) if compressed else large
    upstream.answers = [Response(body, status_code=status, headers=headers, media_type="application/json")]
    answer = limited(start, max_response_bytes=1_000_000).post(CHAT, json=HI)
    assert answer.status_code == 502
    message = answer.json()["error"]["message"]
    assert "the answer is larger than 1,000,000 bytes (limits.max_response_bytes)" in message
    assert next_log_line()["error"] == message


@pytest.mark.parametrize("mode", ["fit", "remember"])
@pytest.mark.parametrize("end", ["\n\n", ""])
def test_an_event_that_is_too_large_ends_the_stream(start, upstream, mode, end):
    pieces = list(chat_events("x" * 30_000))
    first = next(chat_events("Thurs"))
    upstream.answers = [[first, *(f"data: {'y' * 60_000}" for _ in range(9)), end, *pieces]]
    client = start(mode=mode, upstream={"limits": {"max_response_bytes": 100_000}})
    with client.stream("POST", CHAT, json=HI | {"stream": True, "user": "ada"}) as answer:
        text = answer.read().decode()
    assert text.startswith(first)
    assert len(text) < 200_000
    last = json.loads(text.strip().rpartition("data: ")[2])
    assert "an event of the stream is larger than 100,000 bytes" in last["error"]["message"]


def test_a_stream_that_is_too_long_is_ended(start, upstream):
    upstream.answers = [[next(chat_events("word " * 100)) for _ in range(1_000)]]
    with limited(start, max_stream_bytes=100_000).stream("POST", CHAT, json=HI | {"stream": True}) as answer:
        text = answer.read().decode()
    assert len(text) < 101_000
    assert "the answer is larger than 100,000 bytes" in text.rpartition("data: ")[2]


# -- what was left out -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_says_what_was_left_out(start, upstream, stream):
    messages = [{"role": "user", "content": f"{turn} " + "word " * 100} for turn in range(40)]
    client = start(upstream={"window": 2048})
    answer = client.post(CHAT, json=HI | {"messages": messages, "stream": stream})
    sent = len(upstream.bodies[-1]["messages"])
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    tokens = sum(each["tokens"] for each in record["decisions"] if each["outcome"] == "dropped")
    assert 0 < sent < 40
    assert answer.headers["x-brimful-dropped"] == f"messages={40 - sent} tokens={tokens}"
    assert "x-brimful-dropped" not in client.post(CHAT, json=HI).headers


def test_a_shortened_message_counts_as_tokens(start, upstream):
    long = [{"role": "user", "content": "word " * 3_000}, {"role": "user", "content": "Hi"}]
    client = start(upstream={"window": 2048}, fit={"min_tokens": 100})
    answer = client.post(CHAT, json=HI | {"messages": long})
    dropped, tokens = (int(part.partition("=")[2]) for part in answer.headers["x-brimful-dropped"].split())
    assert dropped == 0
    assert 0 < tokens < 3_000
    assert len(upstream.bodies[-1]["messages"]) == 2
