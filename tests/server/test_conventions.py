"""Headers and paths that are the same for all endpoints."""

import pytest

HI = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/chat/completions", HI),
        ("POST", "/v1/chat/completions", HI | {"stream": True}),
        ("POST", "/v1/chat/completions", {}),
        ("GET", "/v1/models", None),
        ("GET", "/brimful/v1/rooms", None),
        ("GET", "/brimful/v1/nonsense", None),
        ("DELETE", "/v1/chat/completions", None),
        ("GET", "/openapi.json", None),
        ("GET", "/health", None),
    ],
)
def test_answers_are_neither_cached_nor_sniffed(shared, method, path, body):
    answer = shared().request(method, path, json=body)
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_page_is_cached(start):
    assert start().get("/").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/chat/completions", "POST"),
        ("/brimful/v1/rooms", "GET, HEAD, POST"),
        ("/brimful/v1/rooms/tea", "DELETE, GET, HEAD, PUT"),
    ],
)
def test_a_wrong_method_is_answered_with_the_right_ones(shared, path, methods):
    answer = shared(unknown_paths="refuse").patch(path, json={})
    assert answer.status_code == 405
    assert answer.headers["allow"] == methods
    assert answer.json()["error"]["message"] == f"{path} does not support PATCH: use {methods}"


@pytest.mark.parametrize(
    ("method", "path", "methods"),
    [
        ("GET", "rooms/tea/respond", "POST"),
        ("GET", "rooms/tea/assemble", "POST"),
        ("DELETE", "rooms/tea/janitor", "POST"),
        ("DELETE", "rooms/tea/recall", "GET, HEAD"),
        ("GET", "lorebooks/world/entries/cup", "DELETE, PUT"),
    ],
)
def test_a_wrong_method_below_an_id_is_answered_with_the_right_ones(start, method, path, methods):
    client = start()
    assert client.post("/brimful/v1/rooms", json={"id": "tea"}).status_code == 201
    answer = client.request(method, f"/brimful/v1/{path}")
    assert (answer.status_code, answer.headers["allow"]) == (405, methods)
    assert answer.json()["error"]["message"].endswith(f"does not support {method}: use {methods}")


def test_a_room_whose_name_looks_like_an_operation_is_found(start):
    client = start()
    assert client.post("/brimful/v1/rooms", json={"id": "tea/respond"}).status_code == 201
    assert client.get("/brimful/v1/rooms/tea/respond").json()["id"] == "tea/respond"
    assert client.get("/brimful/v1/rooms/coffee").status_code == 404


@pytest.mark.parametrize("path", ["/v1/chat/completions/", "/v1/messages/"])
def test_a_slash_at_the_end_of_a_path_is_ignored(shared, upstream, path):
    answer = shared().post(path, json=HI | {"max_tokens": 9}, follow_redirects=False)
    assert answer.status_code == 200
    assert answer.headers["x-brimful-context"]
    assert [asked for asked, _, _ in upstream.requests] == [path.rstrip("/")]


def test_a_slash_that_belongs_to_a_name_is_not_ignored(start):
    client = start()
    assert client.post("/brimful/v1/rooms", json={"id": "tea/"}).status_code == 201
    assert client.get("/brimful/v1/rooms/tea%2F").json()["id"] == "tea/"
    assert client.post("/brimful/v1/rooms/", json={}, follow_redirects=False).status_code == 405
