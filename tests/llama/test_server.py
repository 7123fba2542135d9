"""The server itself: it answers, is shared, and stops when nobody needs it."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from llama_server import LlamaServer, LlamaUnavailable, command, smollm2

from llama import shared

HI = {"messages": [{"role": "user", "content": "Hi!"}], "max_tokens": 4, "temperature": 0}


def test_smollm2_answers(llama):
    smol = llama("smollm2")
    answer = httpx2.post(f"{smol.address}/v1/chat/completions", json=HI, timeout=120).json()
    assert answer["choices"][0]["message"]["content"]
    assert answer["usage"]["completion_tokens"] == 4


def test_all_workers_share_a_server_and_the_last_one_ends_it(tmp_path):
    with ExitStack() as first, ExitStack() as second:
        address = first.enter_context(shared(tmp_path / "one", smollm2()))
        assert second.enter_context(shared(tmp_path / "one", smollm2())) == address
        first.close()
        httpx2.get(f"{address}/health").raise_for_status()
    pipe = os.open(tmp_path / "one.pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert os.read(pipe, 1) == b""  # nobody holds it
    os.close(pipe)
    with shared(tmp_path / "one", smollm2()) as another:
        httpx2.get(f"{another}/health").raise_for_status()


def test_a_server_ends_with_its_owner():
    with LlamaServer(smollm2(), context=256) as server:
        assert httpx2.get(f"{server.address}/health").json() == {"status": "ok"}
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{server.address}/health")


def test_a_server_ends_with_an_owner_that_is_killed():
    owner = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE); time.sleep(99)"
    arguments = [sys.executable, "-c", owner, *command(smollm2(), context=256)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        address = process.stdout.readline().strip()
        httpx2.get(f"{address}/health").raise_for_status()
        process.kill()
        assert process.stdout.read() == ""  # returns when the last process that could write to it has ended
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{address}/health")


@pytest.mark.parametrize("content", [None, b"", b"GGUF of no kind"])
def test_an_invalid_model_is_reported(tmp_path, content):
    file = tmp_path / "model.gguf"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(LlamaUnavailable, match="cannot load"), LlamaServer(Path(os.fspath(file))):
        pass
