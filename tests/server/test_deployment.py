"""The programs of deploy/compose.yaml as processes: nginx, one server with two workers, a job worker, PostgreSQL.

`make pgbouncer` runs this with PgBouncer as well.
"""

import asyncio
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from brimful.stores import connect
from server.test_reverse_proxies import NGINX, free_port, read_in_step, running
from server.test_shutdown import CHAT, HI
from server.upstream import chat_events, in_step

DEPLOY = Path(__file__).parents[2] / "deploy"
KEYS = 8


def configure_server(folder, upstream):
    """Write the configuration of the servers for this machine and return its path."""
    text = (DEPLOY / "brimful.toml").read_text()
    for old, new in (
        ("0.0.0.0:8080", "127.0.0.1:0"),
        ("172.30.99.0/24", "127.0.0.1/32"),
        ("https://api.openai.com/v1", f"{upstream.address}/v1"),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "brimful.toml").write_text(text)
    return folder / "brimful.toml"


def configure_nginx(folder, server, port):
    """Write the configuration of nginx for this machine and return its path."""
    text = (DEPLOY / "nginx.conf").read_text()
    for old, new in (
        ("serve:8080 resolve", server),
        ("listen 8080", f"listen 127.0.0.1:{port}"),
        ("/dev/stdout", f"{folder}/access.log"),
        ("/dev/stderr", f"{folder}/error.log"),
        ("/tmp/", f"{folder}/"),  # noqa: S108 - replaced
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "nginx.conf").write_text(text)
    return folder / "nginx.conf"


@contextmanager
def process(folder, environ, *args):
    """Run a command of Brimful and yield its process, whose output can be read."""
    with (
        (folder / f"{args[0]}.errors").open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "brimful", *args],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | environ,
        ) as started,
    ):
        try:
            yield started
        finally:
            started.terminate()


@contextmanager
def deployment(folder, upstream, store):
    """Run nginx, the server and the worker, and yield the address of nginx."""
    environ = {"BRIMFUL_DB": store, "OPENAI_API_KEY": "sk-test"}
    config, heartbeat, port = configure_server(folder, upstream), folder / "alive", free_port()
    with (
        process(folder, environ, "serve", "--config", str(config), "--workers", "2") as server,
        process(folder, environ, "work", "--retention", "30d", "--heartbeat", str(heartbeat)) as worker,
    ):
        address = re.search(r"http://([\d.:]+\d)", server.stdout.readline())
        assert address, (folder / "serve.errors").read_text()
        nginx = configure_nginx(folder, address[1], port)
        command = [NGINX, "-e", str(folder / "error.log"), "-g", "daemon off;", "-c", str(nginx)]
        with running(command, port):
            yield f"http://127.0.0.1:{port}"
        while not heartbeat.exists():
            assert worker.poll() is None, (folder / "work.errors").read_text()


def client_at(url, address):
    """Return a client with an address of its own."""
    return httpx2.Client(base_url=url, timeout=120, transport=httpx2.HTTPTransport(local_address=address))


@pytest.mark.skipif(sys.platform != "linux", reason="clients have addresses of their own only on Linux")
def test_clients_are_told_apart_and_streams_are_not_buffered(tmp_path, upstream, postgres_url):
    async def make_keys():
        async with connect(postgres_url) as database:
            keys = database.api_keys("acme")
            return [(await keys.create(name="x", scopes=["chat"], at=1.0))[1] for _ in range(KEYS)]

    keys = [{"authorization": f"Bearer {key}"} for key in asyncio.run(make_keys())]
    with (
        deployment(tmp_path, upstream, postgres_url) as url,
        client_at(url, "127.0.0.2") as stranger,
        client_at(url, "127.0.0.3") as friend,
    ):
        assert friend.get("/ready").json()["status"] == "ready"
        wrong = {"authorization": "Bearer bf-wrong", "x-forwarded-for": "192.0.2.1"}
        answers = [stranger.post(CHAT, json=HI, headers=wrong) for _ in range(60)]  # by one worker or the other
        refused = [answer for answer in answers if answer.status_code == 429]
        assert {answer.status_code for answer in answers} == {401, 429}
        assert refused[0].json()["error"]["message"] == "too many wrong API keys from 127.0.0.2"
        assert [friend.post(CHAT, json=HI, headers=key).status_code for key in keys] == [200] * KEYS

        stream, arrived = in_step(list(chat_events("Thurs", "day.")))
        upstream.answers = [stream]
        with friend.stream("POST", CHAT, json=HI | {"stream": True}, headers=keys[0]) as answer:
            assert read_in_step(answer, arrived) == "".join(chat_events("Thurs", "day."))
    sent = {headers["authorization"] for _, headers, _ in upstream.requests}
    assert sent == {"Bearer sk-test"}
