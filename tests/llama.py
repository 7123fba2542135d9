"""Real llama.cpp servers for all tests of a run, one for each family of models.

def test_something(llama):
    smol = llama("smollm2")
    httpx2.post(f"{smol.address}/v1/chat/completions", json={"messages": [...], "max_tokens": 1})
"""

import fcntl
import os
import subprocess
import tempfile
import urllib.request
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import NamedTuple

import pytest
from llama_server import LlamaUnavailable, address_of, command, smollm2

SLOTS = 4


class Llama(NamedTuple):
    """A running server: OpenAI's and Anthropic's APIs are at `address` + "/v1"; `model` is its name in our registry."""

    address: str
    model: str
    window: int  # tokens for each of the slots


class Family(NamedTuple):
    """A model that can be served."""

    model: str
    window: int
    file: object


FAMILIES = {
    "smollm2": Family("smollm2-135m", 2_048, smollm2),
}


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    """Return a function from the name of a family to its server; every worker of a run gets the same one."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with ExitStack() as servers:

        @cache
        def start(family):
            model, window, file = FAMILIES[family]
            try:
                path = file()
            except LlamaUnavailable as error:
                pytest.skip(str(error))
            return Llama(servers.enter_context(_shared(shared / family, path, window)), model, window)

        yield start


@contextmanager
def _shared(place, model, window):
    """Serve the model for as long as any worker holds the pipe to the server: the system counts them, dead or alive."""
    pipe, address = place.with_suffix(".pipe"), place.with_suffix(".address")
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = _join(pipe, address) or _begin(pipe, address, command(model, context=window, slots=SLOTS))
    yield address.read_text()
    os.close(held)


def _join(pipe, address):
    """Return an end of the pipe to a server that another worker started."""
    try:
        held = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)  # refused where nobody reads
        urllib.request.urlopen(f"{address.read_text()}/health", timeout=10).close()
    except OSError:
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
