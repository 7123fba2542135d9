"""Responses match the schemas of the OpenAPI description."""

import asyncio
import json

import jsonschema_rs

from brimful.server.inspector.operations import OPERATIONS
from brimful.server.openapi import openapi_document
from brimful.stores import connect
from server.inspector.conftest import ROOT, store_of
from server.inspector.test_access_control import ANSWERS, CHATS, KEYS, READS, WRITES
from server.upstream import chat_answer

DESCRIBED = json.loads(openapi_document())
PATHS = {
    "/contexts/{id}/items/nuts": "/contexts/{id}/items/{item}",
    "/contexts/{id}/find?q=sencha": "/contexts/{id}/find",
    "/contexts/{id}/recall?handle=nuts": "/contexts/{id}/recall",
    "/contexts/{id}/diff/{id}": "/contexts/{id}/diff/{other}",
    "/rooms/tea/room": "/rooms/{id}",
    "/rooms/tea/room/messages": "/rooms/{id}/messages",
    "/search?q=sencha": "/search",
    "/rooms/tea/room/respond": "/rooms/{id}/respond",
    "/rooms/tea/room/assemble": "/rooms/{id}/assemble",
    "/rooms/tea/room/inspect": "/rooms/{id}/inspect",
    "/rooms/tea/room/recall?query=tea": "/rooms/{id}/recall",
    "/rooms/tea/room/janitor": "/rooms/{id}/janitor",
    "/messages/m1": "/messages/{id}",
    "/answers/first/feedback": "/answers/{id}/feedback",
    "/personas/nova": "/personas/{id}",
    "/memories?prefix=none": "/memories",
    "/memories/nuts": "/memories/{id}",
    "/memories/four": "/memories/{id}",
    "/memories/nuts/chain": "/memories/{id}/chain",
    "/lorebooks/teas": "/lorebooks/{id}",
    "/lorebooks/teas/entries": "/lorebooks/{id}/entries",
    "/lorebooks/teas/entries/teas/1": "/lorebooks/{id}/entries/{entry}",
    "/keys/{key}": "/keys/{id}",
}


def operation(method, path):
    return DESCRIBED["paths"][ROOT + PATHS.get(path, path)][method.lower()]


def check(said, schema):
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "components": DESCRIBED["components"]} | schema
    jsonschema_rs.validator_for(whole).validate(said)


ADMIN = [("GET", "/tenants", None), ("GET", "/jobs", None), ("GET", "/status", None), ("POST", "/reload", None)]


LEARNS = [("POST", "/learn", {"messages": ["I live in Rome."], "user": "ada", "model": "gpt-4o"})]
LEARNS += [("POST", "/learn/undo", {})]


def test_responses_match_their_schemas(client, kept, upstream):
    upstream.answers = [chat_answer('{"facts": [{"text": "Ada lives in Rome.", "messages": [1]}]}')]
    for method, path, body in (*LEARNS, *READS, *CHATS, *ANSWERS, *ADMIN, *WRITES):
        answer = client.request(method, ROOT + path.replace("{id}", kept.first), json=body)
        data = operation(method, path)
        assert answer.status_code < 400, (path, answer.text)
        check(answer.json(), data["responses"][str(answer.status_code)]["content"]["application/json"]["schema"])
        if body is not None:
            check(body, data["requestBody"]["content"]["application/json"]["schema"])


def test_responses_about_keys_match_their_schemas(start, tmp_path):
    async def prepare():
        async with connect(store_of(tmp_path)) as database:
            return await database.api_keys("acme").create(name="x", scopes=["keys"], at=1.0)

    record, key = asyncio.run(prepare())
    client = start(require_keys=True)
    for method, path, body in KEYS:
        answer = client.request(
            method, ROOT + path.replace("{key}", record.id), json=body, headers={"x-brimful-key": key}
        )
        data = operation(method, path)
        check(answer.json(), data["responses"][str(answer.status_code)]["content"]["application/json"]["schema"])
        if body is not None:
            check(body, data["requestBody"]["content"]["application/json"]["schema"])


def test_all_operations_but_the_stream_are_tested():
    rows = (*LEARNS, *READS, *CHATS, *ANSWERS, *WRITES, *ADMIN, *KEYS)
    tried = {(method, PATHS.get(path, path)) for method, path, _ in rows}
    there = {(each.method, each.described_path.removeprefix(ROOT)) for each, _ in OPERATIONS}
    assert there - tried == {("GET", "/events")}


def test_errors_match_their_schema(client):
    answer = client.get(f"{ROOT}/contexts/none")
    schema = operation("GET", "/contexts/{id}")["responses"]["404"]["content"]["application/json"]["schema"]
    check(answer.json(), schema)
