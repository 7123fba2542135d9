"""Requests that are passed through, and the limits that upstreams report."""

import json
import socket

import pytest

from brimful.providers.server_models import ServerModel, parse_server_models

HI = {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "Hello there, how are you today?"}]}


def test_models_are_listed_as_the_upstream_lists_them(start):
    client = start()
    assert client.get("/v1/models").json()["data"][0]["id"] == "gpt-4o"
    assert client.get("/v1/models", headers={"anthropic-version": "2023-06-01"}).status_code == 200


def test_model_lists_of_several_upstreams_are_merged(start, upstream):
    local = {"name": "local", "url": f"{upstream.address}/v1"}
    dead = {"name": "dead", "url": "http://127.0.0.1:1/v1", "limits": {"max_attempts": 1}}
    client = start(upstreams=[local, local | {"name": "twin"}, dead])
    assert [row["id"] for row in client.get("/v1/models").json()["data"]] == ["gpt-4o"]
    assert start(upstreams=[dead]).get("/v1/models").status_code == 502


def test_embeddings_are_forwarded(start, upstream):
    answer = {"object": "list", "data": [{"embedding": [0.25, 1e-9], "index": 0}], "model": "m"}
    upstream.answers = [answer]
    request = {"model": "m", "input": ["tea"], "dimensions": 2}
    assert start().post("/v1/embeddings", json=request).json() == answer
    assert upstream.bodies == [request]


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


@pytest.mark.parametrize(
    "name", ["../files/f1/content", "%2e%2e/admin", "%2e%2e%2fadmin", "a/../../admin", "a//b", "..\\admin"]
)
def test_a_model_name_cannot_reach_other_paths(start, name):
    address = start().base_url
    with socket.create_connection((address.host, address.port), timeout=120) as line:  # as it is: clients tidy paths up
        line.sendall(f"GET /v1/models/{name} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: line.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"not found" in answer  # says the server itself, and asks nobody
