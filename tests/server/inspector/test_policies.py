"""Clients name policies from a list. They can neither name files nor find out about them."""

import asyncio

import pytest

from brimful.engine import Engine
from brimful.errors import InvalidConfig
from brimful.records import Persona, Room
from brimful.server.app import create_app
from brimful.server.config import parse_config

ROOT = "/brimful/v1"
SUPPORT = 'name = "support"\n[[pools]]\nname = "recent"\nkinds = ["*"]\n'


def ask(client, room):
    headers = {"x-brimful-mode": "remember", "x-brimful-conversation": room}
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Which sencha?"}]}
    return client.post("/v1/chat/completions", headers=headers, json=body)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "secret.toml").write_text('password = "hunter2"')
    return [str(tmp_path / "secret.toml"), str(tmp_path / "missing.toml"), "nonsense"]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_persona_cannot_name_a_file(start, files, at):
    client = start()
    for method, path in (("POST", "/personas"), ("PUT", "/personas/nova")):
        answer = client.request(method, ROOT + path, json={"policy": files[at]})
        assert answer.status_code == 400
        message = answer.json()["error"]["message"]
        assert message.startswith("policy: must be one of agent, auction, default, fit, ")
        assert "password" not in message
        assert client.post(ROOT + "/personas", json={"id": "nova", "policy": "window"}).status_code in (201, 409)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_stored_persona_that_names_a_file_is_rejected(start, files, tmp_path, at):
    async def prepare():
        async with Engine(f"sqlite:///{tmp_path}/brimful.db", embedder="none") as engine:
            await engine.put(Persona(id="nova", policy=files[at]))
            await engine.put(Room(id="tea", persona="nova"))

    asyncio.run(prepare())
    answer = ask(start(), "tea")
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("policy: must be one of agent, auction, default, ")
    assert answer.json()["error"]["param"] == "policy"


def test_overrides_that_no_context_could_use_are_rejected(start):
    answer = start().post(ROOT + "/personas", json={"policy": "window", "overrides": {"pools.none.limit": 3}})
    assert answer.status_code == 400
    assert "pools.none" in answer.json()["error"]["message"]


def test_configured_policies_can_be_named(start, tmp_path):
    (tmp_path / "support.toml").write_text(SUPPORT)
    client = start(policies=[str(tmp_path / "support.toml")])
    assert "support" in {each["name"] for each in client.get(ROOT + "/policies").json()["policies"]}
    assert client.post(ROOT + "/personas", json={"id": "nova", "policy": "support"}).status_code == 201
    assert client.post(ROOT + "/rooms", json={"id": "tea", "persona": "nova"}).status_code == 201
    answer = ask(client, "tea")
    context = f"{ROOT}/contexts/{answer.headers['x-brimful-context']}"
    assert client.get(context).json()["policy"] == "support"
    rebuilt = client.post(f"{context}/what-if", json={"policy": "window"})
    assert rebuilt.json()["context"]["policy"] == "window"
    assert client.post(f"{context}/what-if", json={"policy": "support.toml"}).status_code == 400


def test_configured_policies_have_names_of_their_own(tmp_path):
    (tmp_path / "default.toml").write_text(SUPPORT.replace("support", "default"))
    config = parse_config({"policies": [str(tmp_path / "default.toml")]}, "brimful.toml")
    with pytest.raises(InvalidConfig, match="policies: there are two policies named 'default'"):
        create_app(config)
