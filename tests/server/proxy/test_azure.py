"""Azure OpenAI as an upstream: deployments with their `api-version`, and the v1 API."""

import pytest

from brimful.testing import FakeAzure
from server.upstream import serving

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
