"""The official clients cannot tell the proxy from its upstream: same objects, same errors, same headers."""

import io
from contextlib import contextmanager

import anthropic
import openai
import pytest
from starlette.responses import JSONResponse, Response

from server.upstream import chat_answer, chat_events, message_answer, message_events

OWN_HEADERS = {
    "cache-control",
    "content-length",
    "content-security-policy",
    "date",
    "server",
    "transfer-encoding",
    "x-brimful-context",
    "x-brimful-dropped",
    "x-brimful-request",
    "x-brimful-upstream",
    "x-content-type-options",
}
"""Headers of answers that the proxy adds or changes, as docs/endpoints.md says."""
RATE_LIMITS = {
    "x-ratelimit-remaining-requests": "0",
    "retry-after": "7",
    "x-request-id": "req_1",
    "request-id": "req_1",
}
ASK = {"model": "gpt-4o", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"q":"tea"}'}}
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
FILE = {
    "id": "file-1",
    "object": "file",
    "bytes": 3,
    "created_at": 1,
    "filename": "a.jsonl",
    "purpose": "batch",
    "status": "processed",
}


def error(status, kind, **headers):
    body = {"type": "error", "error": {"type": kind, "message": f"no: {kind}", "param": None, "code": kind}}
    return JSONResponse(body, status, headers=RATE_LIMITS | headers)


def text(status, body):
    return Response(body, status, headers=RATE_LIMITS, media_type="text/html")


OPENAI_CALLS = {
    "chat": (chat_answer(), lambda client: client.chat.completions.create(**ASK)),
    "tools": (
        chat_answer(None, tool_calls=[CALL]),
        lambda client: client.chat.completions.create(**ASK, tools=[TOOL]),
    ),
    "stream": (
        list(chat_events("Thurs", "day.")),
        lambda client: list(client.chat.completions.create(**ASK, stream=True)),
    ),
    "error in a stream": (
        [next(chat_events("Thurs")), 'data: {"error": {"message": "on fire", "type": "server_error"}}\n\n'],
        lambda client: list(client.chat.completions.create(**ASK, stream=True)),
    ),
    "embeddings": (
        {"object": "list", "data": [{"object": "embedding", "embedding": [0.5], "index": 0}], "model": "m"},
        lambda client: client.embeddings.create(model="m", input="tea", encoding_format="float"),
    ),
    "upload": (FILE, lambda client: client.files.create(file=("a.jsonl", io.BytesIO(b"{}\n")), purpose="batch")),
    "download": (
        Response(b"\0\xff" * 99, media_type="application/octet-stream"),
        lambda client: client.files.content("file-1").read(),
    ),
    "delete": ({"id": "file-1", "object": "file", "deleted": True}, lambda client: client.files.delete("file-1")),
    "models": (None, lambda client: list(client.models.list())),
    "completions": (
        {"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": []},
        lambda client: client.completions.create(model="m", prompt="Hi"),
    ),
    "responses": (
        {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": [], "status": "completed"},
        lambda client: client.responses.create(model="m", input="Hi"),
    ),
    "moderations": ({"id": "m", "model": "m", "results": []}, lambda client: client.moderations.create(input="Hi")),
    "speech": (
        Response(b"ID3\0", media_type="audio/mpeg"),
        lambda client: client.audio.speech.create(model="m", voice="alloy", input="Hi").read(),
    ),
}
ANTHROPIC_CALLS = {
    "messages": (message_answer(), lambda client: client.messages.create(**ASK)),
    "beta": (message_answer(), lambda client: client.beta.messages.create(**ASK, betas=["context-1m-2025-08-07"])),
    "stream": (
        list(message_events("Thurs", "day.")),
        lambda client: list(client.messages.create(**ASK, stream=True)),
    ),
    "count": (
        {"input_tokens": 7},
        lambda client: client.messages.count_tokens(model="gpt-4o", messages=ASK["messages"]),
    ),
    "batches": (
        {"data": [], "has_more": False, "first_id": None, "last_id": None},
        lambda client: list(client.messages.batches.list()),
    ),
    "files": (
        {
            "id": "file_1",
            "type": "file",
            "filename": "a",
            "mime_type": "text/plain",
            "size_bytes": 1,
            "created_at": "2026-11-16T00:00:00Z",
        },
        lambda client: client.beta.files.upload(file=("a.txt", b"x", "text/plain")),
    ),
}
ERRORS = {
    "rate limit": error(429, "rate_limit_error"),
    "invalid": error(400, "invalid_request_error"),
    "not found": error(404, "not_found_error"),
    "forbidden": error(403, "permission_error"),
    "overloaded": error(529, "overloaded_error"),
    "broken": error(500, "api_error"),
    "gateway": text(502, "<h1>Bad gateway</h1>"),
    "empty": Response(status_code=503, headers=RATE_LIMITS),
}


@contextmanager
def make_client(library, url):
    """Make the official client of a library; `seen` are the status and headers of each answer."""
    make, path = (openai.OpenAI, "/v1") if library is openai else (anthropic.Anthropic, "")
    seen = []
    hooks = {"response": [lambda answer: seen.append((answer.status_code, answer.headers))]}
    http_client = library.DefaultHttpxClient(event_hooks=hooks)
    with make(base_url=url + path, api_key="none", max_retries=0, http_client=http_client) as client:
        yield client, seen


def observe(library, url, call):
    """Return all that a program can see of a call: its result or error, and the headers of the answer."""
    with make_client(library, url) as (client, seen):
        try:
            result = call(client)
        except library.APIError as failed:
            result = (type(failed).__name__, str(failed), getattr(failed, "body", None))
    headers = [
        (status, {name: value for name, value in headers.items() if name not in OWN_HEADERS})
        for status, headers in seen
    ]
    return plain(result), headers


def plain(result):
    if isinstance(result, list):
        return [plain(each) for each in result]
    return result.model_dump() if hasattr(result, "model_dump") else result


def compare(shared, upstream, library, answer, call):
    proxy = str(shared(upstream={"limits": {"max_attempts": 1}}).base_url)
    observed = []
    for url in (upstream.address, proxy):
        upstream.reset()
        upstream.answers = [] if answer is None else [answer]
        observed.append((observe(library, url, call), list(upstream.targets), list(upstream.requests)))
    (direct, direct_targets, direct_requests), (proxied, targets, requests) = observed
    assert proxied == direct
    assert targets == direct_targets
    for (_, sent, sent_body), (_, received, received_body) in zip(direct_requests, requests, strict=True):
        changed = {name for name, value in sent.items() if received.get(name) != value}
        if sent.get("content-type", "").startswith("multipart/"):  # each time with a boundary of its own
            assert len(received_body) == len(sent_body)
            changed -= {"content-type"}
        else:
            assert received_body == sent_body
        assert changed <= {"host", "accept-encoding", "authorization", "x-api-key"}
    return direct


@pytest.mark.parametrize("name", OPENAI_CALLS)
def test_openais_client_cannot_tell_the_difference(shared, upstream, name):
    answer, call = OPENAI_CALLS[name]
    compare(shared, upstream, openai, answer, call)


@pytest.mark.parametrize("name", ANTHROPIC_CALLS)
def test_anthropics_client_cannot_tell_the_difference(shared, upstream, name):
    answer, call = ANTHROPIC_CALLS[name]
    compare(shared, upstream, anthropic, answer, call)


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("library", [openai, anthropic])
def test_errors_are_the_same(shared, upstream, library, name):
    call = (OPENAI_CALLS["chat"] if library is openai else ANTHROPIC_CALLS["messages"])[1]
    (kind, _, _), headers = compare(shared, upstream, library, ERRORS[name], call)
    assert kind.endswith("Error")
    assert headers[0][1]["retry-after"] == "7"
