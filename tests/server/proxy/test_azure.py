"""Azure OpenAI as an upstream, and its clients: deployments with their `api-version`, and the v1 API."""

import json

import openai
import pytest

from brimful.testing import FakeAzure
from server.upstream import chat_answer, serving

CHAT = "/v1/chat/completions"
HI = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
KEY = "azure-secret"


@pytest.fixture
def azure():
    """A fake Azure and its address."""
    fake = FakeAzure("gpt-4o", key=KEY)
    with serving(fake, lifespan="off") as (address, _):
        yield fake, address


def through(start, url, **more):
    upstream = {"url": url, "wires": ["openai"], "key": "AZURE_KEY", "key_header": "api-key"} | more
    return start(upstream=upstream, environ={"AZURE_KEY": KEY})


@pytest.mark.parametrize(
    "path", ["/openai/deployments/gpt-4o?api-version=2024-10-21", "/openai/v1", "/openai/v1/?api-version=preview"]
)
def test_azure_works_as_an_upstream(start, azure, path):
    fake, address = azure
    answer = through(start, address + path).post(f"{CHAT}?api-version=2020-01-01", json=HI)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == "Hello."
    assert answer.headers["apim-request-id"] == "r1"
    assert fake.requests == [HI]


def test_azures_errors_are_forwarded(start, azure):
    _, address = azure
    no_version = through(start, f"{address}/openai/deployments/gpt-4o").post(CHAT, json=HI)
    assert (no_version.status_code, no_version.json()["error"]["message"]) == (404, "Resource not found")
    assert no_version.headers["apim-request-id"] == "r1"
    deployment = f"{address}/openai/deployments/gpt-4o?api-version=2024-10-21"
    wrong_header = through(start, deployment, key_header="authorization").post(CHAT, json=HI)
    assert wrong_header.status_code == 502
    assert "rejected this server's API key" in wrong_header.json()["error"]["message"]
    other = through(start, f"{address}/openai/v1").post(CHAT, json=HI | {"model": "other"})
    assert other.json()["error"]["code"] == "DeploymentNotFound"


def test_a_client_may_send_its_own_key(start, azure):
    fake, address = azure
    client = through(start, f"{address}/openai/v1", authorization="client")
    assert client.post(CHAT, json=HI, headers={"api-key": KEY}).status_code == 200
    assert client.post(CHAT, json=HI, headers={"api-key": "wrong"}).status_code == 401
    assert len(fake.requests) == 1


# -- clients -----------------------------------------------------------------------------------------------------------


def make_client(client, **options):
    url = str(client.base_url)
    return openai.AzureOpenAI(
        azure_endpoint=url, api_key="none", api_version="2024-10-21", max_retries=0, timeout=120, **options
    )


@pytest.mark.parametrize("mode", ["fit", "remember"])
@pytest.mark.parametrize("options", [{}, {"azure_deployment": "gpt-4o"}])
def test_azures_client_works_with_any_upstream(start, upstream, mode, options):
    upstream.answers = [chat_answer("Hello.")]
    headers = {"x-brimful-conversation": "general"}
    with make_client(start(mode=mode), default_headers=headers, **options) as client:
        model = "another" if options else "gpt-4o"
        answer = client.chat.completions.create(model=model, messages=HI["messages"])
    assert answer.choices[0].message.content == "Hello."
    assert upstream.targets == ["POST /v1/chat/completions"]
    assert upstream.bodies[0]["model"] == "gpt-4o"


def test_azures_client_uses_other_paths(start, upstream):
    upstream.answers = [{"object": "list", "data": [{"embedding": [0.5], "index": 0}], "model": "m"}]
    with make_client(start()) as client:
        assert client.embeddings.create(model="a b", input="tea", encoding_format="float").data[0].embedding == [0.5]
        assert [model.id for model in client.models.list()] == ["gpt-4o"]
    assert upstream.bodies == [{"model": "a b", "input": "tea", "encoding_format": "float"}]


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/openai/deployments/gpt-4o/chat/completions/?api-version=2024-10-21", b'{ "messages":%s}'),
        ("/openai/v1/chat/completions?api-version=preview", b'{ "model":"gpt-4o", "messages":%s}'),
    ],
)
def test_the_body_need_not_have_a_model_on_azures_paths(start, upstream, path, sent):
    upstream.answers = [chat_answer("Hello.")]
    raw = sent % json.dumps(HI["messages"]).encode()
    assert start().post(path, content=raw, headers={"content-type": "application/json"}).status_code == 200
    assert (upstream.targets, upstream.bodies) == (["POST /v1/chat/completions"], [HI])


def test_azures_paths_cannot_reach_others(start, upstream):
    client = start()
    assert client.get("/openai/v1/%2e%2e/admin").status_code == 404
    assert client.get("/openai/deployments/a/%2e%2e/admin").status_code == 404
    assert upstream.requests == []
