"""Open WebUI itself, from PyPI (more than 5 GB), with the filter that `brimful install` puts in."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import repeat
from urllib.request import Request, urlopen

import pytest

import brimful
from brimful.testing import ScriptedServer, find_violations
from server.upstream import serving

WINDOW = 3_000
QUESTION = "Which page mentions the lighthouse of Porto?"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


class Models:
    """A scripted model, and the list of models that Open WebUI asks for."""

    def __init__(self):
        self.server = ScriptedServer(repeat("Page 7 does."))

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or not scope["path"].endswith("/models"):
            await self.server(scope, receive, send)
            return
        body = json.dumps({"object": "list", "data": [{"id": "gpt-4o", "object": "model"}]}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@contextmanager
def serve_open_webui(folder, upstream) -> Iterator[str]:
    """Run Open WebUI with a new database; yield its address."""
    environ = {
        "DATA_DIR": str(folder / "data"),
        "HOME": str(folder),
        "ENABLE_OLLAMA_API": "False",
        "OPENAI_API_BASE_URL": f"{upstream}/v1",
        "OPENAI_API_KEY": "x",
        "OFFLINE_MODE": "true",
        "RAG_EMBEDDING_ENGINE": "openai",
        "WEBUI_SECRET_KEY": "secret",
        "PYTHONUNBUFFERED": "1",
        "PATH": os.environ["PATH"],
    }
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [f"{sys.prefix}/bin/open-webui", "serve", "--host", "127.0.0.1", "--port", port]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder, env=environ)
    try:
        while not answers(f"http://127.0.0.1:{port}/health"):
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
                pytest.fail((folder / "log").read_text()[-3_000:])
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def answers(url):
    try:
        with urlopen(url, timeout=10) as response:
            return response.status == 200
    except OSError:
        return False


class Client:
    def __init__(self, url):
        self.url, self.token = url, ""
        account = {"name": "Ada", "email": "ada@example.org", "password": "a-long-password"}
        self.token = self.send("/api/v1/auths/signup", account)["token"]

    def send(self, path, body):
        headers = {"content-type": "application/json", "authorization": f"Bearer {self.token}"}
        with urlopen(Request(f"{self.url}{path}", json.dumps(body).encode(), headers), timeout=120) as response:
            return json.loads(response.read())

    def install(self, *arguments):
        command = [sys.executable, "-m", "brimful", "install", "open-webui", "--url", self.url, "--token", self.token]
        return subprocess.run([*command, *arguments], capture_output=True, text=True, check=True).stdout

    def chat(self, messages):
        return self.send("/api/chat/completions", {"model": "gpt-4o", "messages": messages, "stream": False})


@pytest.fixture(scope="module")
def models():
    return Models()


@pytest.fixture(scope="module")
def client(tmp_path_factory, models):
    with serving(models) as (upstream, _), serve_open_webui(tmp_path_factory.mktemp("webui"), upstream) as url:
        yield Client(url)


def make_chat(turns):
    messages = []
    for number in range(turns):
        messages.append({"role": "user", "content": f"Page {number}: {'the harbour and the ships. ' * 20}"})
        messages.append({"role": "assistant", "content": f"I have read page {number}."})
    return [*messages, {"role": "user", "content": [{"type": "text", "text": QUESTION}, IMAGE]}]


def test_a_long_chat_is_trimmed_and_the_image_stays_until_the_filter_is_removed(client, models):
    requests = models.server.requests
    client.chat(make_chat(40))
    assert len(requests[-1]["messages"]) == 81
    assert "installed" in client.install("--yes")
    assert "already installed" in client.install()
    client.send("/api/v1/functions/id/brimful/valves/update", {"window": WINDOW})
    answer = client.chat(make_chat(40))
    assert answer["choices"][0]["message"]["content"] == "Page 7 does."
    sent = requests[-1]
    count = brimful.fit({"model": "gpt-4o", "messages": sent["messages"]}, window=1_000_000).tokens
    assert count <= WINDOW
    assert len(sent["messages"]) < 81
    assert find_violations(sent, "openai") == []
    assert sent["messages"][-1]["content"] == [{"type": "text", "text": QUESTION}, IMAGE]
    client.send("/api/v1/functions/id/brimful/valves/update", {"window": WINDOW, "policy": "no-such-policy"})
    client.chat(make_chat(40))
    assert len(requests[-1]["messages"]) == 81
    client.install("--undo", "--yes")
    client.chat(make_chat(40))
    assert len(requests[-1]["messages"]) == 81
