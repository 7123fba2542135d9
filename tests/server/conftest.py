"""Fixtures: a fake upstream, and servers in front of it."""

import json
import logging
import shutil
import time
from logging.handlers import QueueHandler
from queue import Queue

import httpx2
import pytest

from brimful.server.app import create_app
from brimful.server.config import parse_config
from brimful.server.connections import connection_settings
from brimful.server.logs import get_fields
from server.upstream import Upstream, serving

_NONE = {}  # an environment without anything in it


@pytest.fixture(scope="session")
def upstream_server():
    upstream = Upstream()
    with serving(upstream.app()) as (address, _):
        upstream.address = address
        yield upstream


@pytest.fixture
def upstream(upstream_server):
    upstream_server.reset()
    return upstream_server


@pytest.fixture
def next_log_line():
    """Return a function that waits for the next line of the access log; it comes after the answer."""
    lines, log = Queue(), logging.getLogger("brimful.access")
    handler, level = QueueHandler(lines), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield lambda: get_fields(lines.get(timeout=60))
    log.removeHandler(handler)
    log.setLevel(level)


class Servers:
    """Start servers before the fake upstream, with a store in a folder, and give clients of them."""

    def __init__(self, upstream, empty_store, folder):
        self._upstream = upstream
        self._empty = empty_store
        self.store = folder / "brimful.db"
        self._running = []

    def __call__(self, environ=_NONE, clock=time.time, **config):
        local = {"name": "local", "url": f"{self._upstream.address}/v1", "window": 8192} | config.pop("upstream", {})
        data = {"upstreams": [local], "store": f"sqlite:///{self.store}"} | config
        if not self.store.exists():
            shutil.copy(self._empty, self.store)
        settings = parse_config(data, "brimful.toml")
        entered = serving(create_app(settings, environ=environ, clock=clock), **connection_settings(settings))
        address, server = entered.__enter__()
        self._running.append((entered, server))
        client = httpx2.Client(base_url=address, timeout=120)
        self._running.append((client, server))
        return client

    def wait(self):
        """Wait until nothing is left to do for the requests so far: their lines in the log come after the answers."""
        while any(server.server_state.tasks for _, server in self._running):
            time.sleep(0.001)

    def stop(self):
        """Stop all servers, when their work in the background has ended."""
        while self._running:
            self._running.pop()[0].__exit__(None, None, None)


@pytest.fixture
def start(upstream, empty_sqlite, tmp_path):
    """Return a function that starts a server before the fake upstream, and gives a client of it."""
    servers = Servers(upstream, empty_sqlite, tmp_path)
    yield servers
    servers.stop()


@pytest.fixture(scope="module")
def servers_of_file(upstream_server, empty_sqlite, tmp_path_factory):
    servers = Servers(upstream_server, empty_sqlite, tmp_path_factory.mktemp("shared"))
    yield servers, {}
    servers.stop()


@pytest.fixture
def shared(servers_of_file, upstream):  # noqa: ARG001 - as if it were new
    """Return a function like `start`. The tests of a file share the servers, so they must not change them."""
    servers, clients = servers_of_file

    def find(**config):
        name = json.dumps(config)
        if name not in clients:
            clients[name] = servers(**config)
        return clients[name]

    yield find
    servers.wait()
