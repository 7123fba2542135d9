"""Real llama.cpp servers for all tests of a run, one for each family of models.

def test_something(llama):
    server = llama("smollm2")  # real weights, slow; "qwen-2.5" and others: noise for weights, and quick
    httpx2.post(f"{server.address}/v1/chat/completions", json={"messages": [...], "max_tokens": 1})
"""

import os
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import NamedTuple

import httpx2
import pytest
from llama_server import LlamaUnavailable, address_of, command

from brimful.core.model import ModelInfo
from families import FAMILIES

try:
    import fcntl
except ImportError:  # in Windows, where the tests have no llama.cpp
    fcntl = None

SLOTS = 4
WINDOW = 4_096  # tokens for each of the slots


class Llama(NamedTuple):
    """A running server: OpenAI's and Anthropic's APIs are at `address` + "/v1"; `model` is its name in our registry."""

    address: str
    model: str
    window: int
    info: ModelInfo


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    """Return a function from the name of a family to its server; every worker of a run gets the same one."""
    if fcntl is None:
        pytest.skip("the servers of the tests need the file locks of POSIX")
    own = tmp_path_factory.getbasetemp()
    place = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with ExitStack() as servers:

        @cache
        def start(name):
            family = FAMILIES[name]
            try:
                address = servers.enter_context(shared(place / name, family.file()))
            except LlamaUnavailable as error:
                pytest.skip(str(error))
            return Llama(address, family.model, WINDOW, family.info(WINDOW))

        yield start


@contextmanager
def shared(place, model):
    """Serve the model for as long as anybody holds the pipe to the server: the system counts them, dead or alive."""
    pipe, address = (place.with_name(f"{place.name}.{kind}") for kind in ("pipe", "address"))
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = _join(pipe, address)
        if held is None:
            held = _begin(pipe, address, command(model, context=WINDOW, slots=SLOTS))
    yield address.read_text()
    os.close(held)


def _join(pipe, address):
    """Return an end of the pipe to a server that another worker started, if it is still there."""
    try:
        held = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)  # refused where nobody reads
    except OSError:
        return None
    try:
        httpx2.get(f"{address.read_text()}/health").raise_for_status()
    except httpx2.HTTPError:
        os.close(held)
        return None
    return held


def _begin(pipe, address, arguments):
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    theirs = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # waits for no writer
    held = os.open(pipe, os.O_WRONLY)
    os.set_blocking(theirs, True)
    # The shell leaves the server to the system: it may outlive the worker that started it.
    shell = ["sh", "-c", 'exec 3<&0; "$@" <&3 &', "sh", *arguments]
    with (
        tempfile.TemporaryFile("w+", errors="replace") as log,
        subprocess.Popen(shell, stdin=theirs, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        os.close(theirs)
        address.write_text(address_of(process, log))
    return held
