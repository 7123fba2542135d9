"""JSON bodies from clients: their depth, size and keys are checked in the same way in every mode and by every route."""

import json

import pytest

CHAT = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
MESSAGES = CHAT | {"max_tokens": 100}
ROUTES = [
    ("/v1/chat/completions", {"x-brimful-mode": "fit"}, CHAT),
    ("/v1/chat/completions", {"x-brimful-mode": "remember"}, CHAT),
    ("/v1/messages", {"x-brimful-mode": "fit"}, MESSAGES),
    ("/v1/messages", {"x-brimful-mode": "remember"}, MESSAGES),
    ("/v1/messages/count_tokens", {}, MESSAGES),
    ("/v1/embeddings", {}, {"model": "text-embedding-3-small", "input": "Hi"}),
    ("/brimful/v1/rooms", {}, {"id": "tea"}),
]
EVERYWHERE = pytest.mark.parametrize(("path", "headers", "body"), ROUTES)


def post(client, path, headers, body):
    return client.post(path, headers={"content-type": "application/json", **headers}, content=body)


def error_message(answer, path):
    body = answer.json()
    assert ("type" in body) == path.startswith("/v1/messages")
    return body["error"]["message"]


@EVERYWHERE
@pytest.mark.parametrize("depth", [128, 700, 100_000])
def test_deep_nesting_is_rejected(shared, upstream, path, headers, body, depth):
    nested = json.dumps(body)[:-1] + ', "extra": ' + "[" * depth + "]" * depth + "}"
    answer = post(shared(), path, headers, nested)
    assert answer.status_code == 400
    assert error_message(answer, path) == "the body is nested more than 128 levels deep"
    assert upstream.requests == []


@EVERYWHERE
def test_duplicate_keys_are_rejected(shared, upstream, path, headers, body):
    first = next(iter(body))
    answer = post(shared(), path, headers, json.dumps(body)[:-1] + f', "{first}": "other"}}')
    assert answer.status_code == 400
    assert error_message(answer, path) == f"the body has the key {first!r} more than once in one object"
    assert upstream.requests == []


@EVERYWHERE
def test_large_bodies_are_rejected(shared, upstream, path, headers, body):
    client = shared(limits={"max_body_bytes": 1_000})
    answer = post(client, path, headers, json.dumps(body | {"extra": "x" * 1_000}))
    assert answer.status_code == 413
    assert error_message(answer, path) == "the body is larger than 1,000 bytes"
    assert upstream.requests == []


@pytest.mark.parametrize("mode", ["fit", "remember"])
def test_the_deepest_request_has_a_record(start, mode):
    client = start()
    nested = json.dumps(CHAT)[:-1] + ', "extra": ' + "[" * 127 + "]" * 127 + "}"
    headers = {"x-brimful-mode": mode, "x-brimful-conversation": "tea"}
    answer = post(client, "/v1/chat/completions", headers, nested)
    assert answer.status_code == 200
    sent = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}/request")
    assert sent.json()["extra"] == json.loads(nested)["extra"]


@EVERYWHERE
@pytest.mark.parametrize("values", ["[],", "0,"])
def test_many_small_values_are_rejected(shared, upstream, path, headers, body, values):
    answer = post(shared(), path, headers, json.dumps(body)[:-1] + ', "extra": [' + values * 500_000 + "0]}")
    assert answer.status_code == 413
    assert error_message(answer, path) == "the body has more than 500,000 values"
    assert upstream.requests == []
