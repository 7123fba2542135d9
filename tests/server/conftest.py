"""Fixtures: a fake upstream, and servers in front of it."""

import json
import logging
import shutil
from logging.handlers import QueueHandler
from queue import Queue

import httpx2
import pytest

from brimful.server.app import create_app
from brimful.server.config import parse_config
from brimful.server.connections import connection_settings
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
    yield lambda: json.loads(lines.get(timeout=60).getMessage())
    log.removeHandler(handler)
    log.setLevel(level)


@pytest.fixture
def start(upstream, empty_sqlite, tmp_path):
    """Return a function that starts a server before the fake upstream, and gives a client of it.

    Its `stop` stops all of them, when their work in the background has ended.
    """
    running, file = [], tmp_path / "brimful.db"

    def begin(environ=_NONE, **config):
        local = {"name": "local", "url": f"{upstream.address}/v1", "window": 8192} | config.pop("upstream", {})
        data = {"upstreams": [local], "store": f"sqlite:///{file}"} | config
        if not file.exists():
            shutil.copy(empty_sqlite, file)
        settings = parse_config(data, "brimful.toml")
        entered = serving(create_app(settings, environ=environ), **connection_settings(settings))
        address, _ = entered.__enter__()
        running.append(entered)
        client = httpx2.Client(base_url=address, timeout=120)
        running.append(client)
        return client

    def stop():
        while running:
            running.pop().__exit__(None, None, None)

    begin.stop = stop
    yield begin
    stop()
