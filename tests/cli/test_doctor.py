"""`brimful doctor`."""

import json
import sqlite3
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

import brimful


def parts(result):
    return {each["part"]: each for each in json.loads(result.stdout)}


@pytest.fixture(autouse=True)
def no_programs(tmp_path, monkeypatch):
    """Check none of the programs of the user who runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "")


@pytest.fixture
def models_server():
    """Yield the URL of a server that lists two models."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            found = self.path == "/v1/models"
            body = b'{"data": [{"id": "a"}, {"id": "b"}]}' if found else b"{}"
            self.send_response(200 if found else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            del args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def test_a_sound_installation(run, models_server):
    run("room", "add", "hall")
    found = parts(run("doctor", "--provider", models_server, "--json"))
    assert found["brimful"]["result"].startswith(brimful.__version__)
    assert "server" in found["extras"]["result"]
    assert "langchain" in found["extras"]["advice"]
    assert found["counts"] == {
        "state": "ok",
        "part": "counts",
        "result": "gpt-4o: window of 128,000, o200k_base, exact",
        "advice": "",
    }
    assert found["embedder"]["result"].endswith("256 dimensions")
    assert found["store"]["result"] == "sqlite:///brimful.db: tenant 'default'"
    assert found["server"]["result"].endswith(": 2 models")
    assert {each["state"] for each in found.values()} <= {"ok", "note"}


def test_nothing_is_created_and_the_store_of_a_newer_version_is_named(run, tmp_path):
    found = parts(run("doctor", "--json"))
    assert (found["store"]["state"], found["store"]["advice"]) == ("note", "`brimful import` creates one")
    assert not (tmp_path / "brimful.db").exists()
    run("room", "add", "hall")
    with closing(sqlite3.connect(tmp_path / "brimful.db", isolation_level=None)) as database:
        database.execute("INSERT INTO migrations VALUES ('9999_later', '')")
    found = parts(run("doctor", "--json", code=1))
    assert found["store"]["state"] == "failed"
    assert "newer version of Brimful" in found["store"]["result"]


def test_broken_parts_are_named(run):
    nowhere = "http://127.0.0.1:9/v1"
    result = run("doctor", "--provider", nowhere, "--db=postgresql://ada@127.0.0.1:9/chat", "--json", code=1)
    found = parts(result)
    assert "cannot be reached" in found["store"]["result"]
    assert found["server"]["state"] == "failed"
    assert parts(run("doctor", "--model=no-such-model", "--json"))["counts"]["state"] == "note"
    assert "by words only" in run("doctor", "--embedder=none").stdout


def test_a_configuration_is_followed(run, tmp_path, models_server):
    config = tmp_path / "brimful.toml"
    config.write_text(
        f'store = "sqlite:///other.db"\n[remember]\nembedder = "none"\n'
        f'[[upstreams]]\nname = "mine"\nurl = "{models_server}"\n',
        encoding="utf-8",
    )
    found = parts(run("doctor", "--config", str(config), "--json"))
    assert found["store"]["result"].startswith("sqlite:///other.db")
    assert found["embedder"]["state"] == "note"
    assert found["server"]["state"] == "ok"
    config.write_text("stores = 1\n", encoding="utf-8")
    assert "stores" in run("doctor", "--config", str(config), code=1).stderr
