"""A real browser and a real `brimful serve`."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

import brimful.server
from brimful.server.app import create_app
from brimful.server.config import parse_config
from brimful.server.connections import connection_settings
from server.upstream import serving
from web import world

WEB = Path(__file__).parents[2] / "web"
PAGE = Path(brimful.server.__file__).parent / "static" / "index.html"
SIZE = {"width": 1280, "height": 900}
SHARED = {"shop", "site", "guarded", "operated"}
"""Fixtures of what many tests visit."""
PATIENCE = 30_000  # milliseconds until something that does not come is taken to fail
AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"

expect.set_options(timeout=PATIENCE)


def in_thread(coroutine):
    """Run a coroutine where no loop runs: the browser's own loop runs in this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


@contextmanager
def served_here(store, **settings):
    """Serve a store in a thread of this process, which starts faster, and yield the address."""
    upstream = {"name": "none", "url": "http://127.0.0.1:9/v1"}
    data = {"store": store, "upstreams": [upstream], "remember": {"embedder": "none"}} | settings
    config = parse_config(data, "brimful.toml")
    with serving(create_app(config, environ={}), **connection_settings(config)) as (address, _):
        yield address


@contextmanager
def served(folder, store, *, port=0):
    """Run `brimful serve` as a process of its own, and yield its address."""
    config = folder / "serve.toml"
    config.write_text(
        f'listen = "127.0.0.1:{port}"\nstore = "{store}"\n'
        '[[upstreams]]\nname = "none"\nurl = "http://127.0.0.1:9/v1"\n[remember]\nembedder = "none"\n'
    )
    command = [sys.executable, "-m", "brimful", "serve", "--config", str(config)]
    with (
        (folder / "errors").open("w+") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
        ) as process,
        ThreadPoolExecutor(1) as pool,
    ):
        try:
            output = process.stdout.readline()
            address = re.search(r"http://[\d.:]+", output)
            assert address, output + (folder / "errors").read_text()
            pool.submit(process.stdout.read)  # a full pipe would stop the server
            yield address[0]
        finally:
            process.kill()


class Chromium:
    """A browser for the tests of this folder, and the pages that they have left, by server and options.

    As long as it runs, this thread has an event loop, and no other test could start its own. So it ends with the last
    test of the folder, and starts again when a worker comes back.
    """

    def __init__(self):
        self.browser = None
        self.idle = defaultdict(list)
        self._running = ExitStack()

    def start(self, path):
        starting = self._running.enter_context(sync_playwright())
        self.browser = self._running.enter_context(
            starting.chromium.launch(executable_path=path, args=["--no-sandbox"])
        )

    def end(self):
        self._running.close()
        self.browser = None
        self.idle.clear()


CHROMIUM = Chromium()


@pytest.hookimpl(trylast=True)  # after the fixtures of the test
def pytest_runtest_teardown(nextitem):
    if nextitem is None or not nextitem.path.is_relative_to(Path(__file__).parent):
        CHROMIUM.end()


@pytest.fixture
def chromium():
    """A browser; where there is none, the reason why these tests are skipped."""
    found = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if found is None:
        pytest.skip("the browser's tests need chromium: apt-get install chromium-headless-shell")
    if not PAGE.is_file():
        pytest.skip("the page is not built: make web")
    if CHROMIUM.browser is None:
        CHROMIUM.start(found)
    return CHROMIUM


class Watched:
    """A page, and all that went wrong in it."""

    def __init__(self, page, address):
        self.page = page
        self.address = address
        self.faults = []
        self.allowed = ()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", self._asked)

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type}: {message.text}")

    def _asked(self, request):
        if not request.url.startswith((self.address, "blob:", "about:")):
            self.faults.append(f"asked elsewhere: {request.url}")

    def unexpected(self):
        return [fault for fault in self.faults if not any(word in fault for word in self.allowed)]

    def clear(self, context):
        """Make the page like a new one: empty, with nothing stored, nothing under the pointer, and its first size."""
        self.page.evaluate("localStorage.clear(), sessionStorage.clear()")
        self.page.goto("about:blank")
        self.page.mouse.move(0, 0)
        self.page.emulate_media(color_scheme=context.get("color_scheme", "light"))
        self.page.set_viewport_size(context.get("viewport", SIZE))
        self.faults.clear()


@pytest.fixture
def visit(request, chromium):
    """Open a page of a server; at the end nothing may have gone wrong in it.

    A new page takes the browser longer than most tests need it, so those of servers that more tests visit are used
    again. A test that changes more than `Watched.clear` undoes closes its page.
    """
    opened = []

    def open_page(address, path="/", *, allowed=(), **context):
        idle = chromium.idle[address, repr(context)]
        if not idle:
            new = chromium.browser.new_context(base_url=address, **({"viewport": SIZE} | context))
            new.set_default_timeout(PATIENCE)
            idle.append(Watched(new.new_page(), address))
        watched = idle.pop()
        watched.allowed = allowed
        opened.append((watched, idle, context))
        watched.page.goto(path)
        return watched.page

    yield open_page
    for watched, idle, context in opened:
        unexpected = watched.unexpected()
        if unexpected or watched.page.is_closed() or not SHARED.intersection(request.fixturenames):
            watched.page.context.close()
        else:
            watched.clear(context)
            idle.append(watched)
        assert unexpected == []


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """The address of a server whose store holds a support case, its store, and the ids of the contexts."""
    folder = tmp_path_factory.mktemp("shop")
    store = f"sqlite:///{folder}/brimful.db"
    contexts = in_thread(world.support(store))
    with served(folder, store) as address:
        yield address, store, contexts


@pytest.fixture(scope="session")
def small_shop(tmp_path_factory):
    """The folder of a store with a shorter case, and the ids of its contexts."""
    folder = tmp_path_factory.mktemp("small")
    return folder, in_thread(world.support(f"sqlite:///{folder}/brimful.db", turns=1))


@pytest.fixture
def own_shop(small_shop, tmp_path):
    """A server of such a store for one test alone, which may change what it likes."""
    folder, contexts = small_shop
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    store = f"sqlite:///{tmp_path}/brimful.db"
    with served_here(store) as address:
        yield address, store, contexts
