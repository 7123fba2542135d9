"""`brimful mcp` as clients start it: one JSON message per line on standard input and output."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from brimful.mcp.handshake import answer_handshake
from brimful.mcp.stdio import Pipe

BRIMFUL = [sys.executable, "-m", "brimful"]
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes of POSIX")
CLIENT = {"name": "test", "version": "1"}
META = "io.modelcontextprotocol/"


@pytest.fixture
def filled(url, context_id):  # noqa: ARG001 - fills the store
    return url


def initialize(version="2025-11-25", id=1):
    params = {"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": CLIENT}
    return {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}


def discover(id=1):
    envelope = {"protocolVersion": "2026-07-28", "clientInfo": CLIENT, "clientCapabilities": {}}
    params = {"_meta": {META + name: value for name, value in envelope.items()}}
    return {"jsonrpc": "2.0", "id": id, "method": "server/discover", "params": params}


def request(method, id, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
HANDSHAKES = [initialize("2025-06-18"), initialize("2025-11-25", id="first"), discover(), discover(id="x")]


def lines(*messages):
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


async def ask_sdk(server, message):
    async with create_client_server_memory_streams() as (client, served), anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: server.run(*served, server.create_initialization_options()))
        await client[1].send(SessionMessage(jsonrpc_message_adapter.validate_python(message)))
        answer = (await client[0].receive()).message
        tasks.cancel_scope.cancel()
    return answer.model_dump(by_alias=True, exclude_unset=True, mode="json")


@pytest.mark.parametrize("handshake", HANDSHAKES, ids=json.dumps)
def test_the_early_answer_is_that_of_the_sdk(new_server, handshake):
    answer = answer_handshake(lines(handshake))
    assert answer.id == handshake["id"]
    assert json.loads(answer.line) == asyncio.run(ask_sdk(new_server(), handshake))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello",
        b"[]",
        b"\xff\xfe",
        lines(INITIALIZED),
        lines(request("tools/list", 1)),
        lines(initialize("1999-01-01")),
        lines(initialize() | {"id": None}),
        lines(initialize() | {"params": {}}),
        lines(discover() | {"params": {"_meta": {}}}),
    ],
)
def test_the_sdk_answers_everything_else(line):
    assert answer_handshake(line) is None


def read_all(source):
    sink = io.BytesIO()
    pipe = Pipe(io.BytesIO(source), sink)
    pipe.start()
    return pipe, list(iter(pipe.next_line, b"")), sink


def test_a_handshake_is_answered_once_and_still_reaches_the_sdk():
    handshake, listing = lines(initialize()), lines(request("tools/list", 2))
    pipe, received, sink = read_all(b"\n" + handshake + listing)
    assert received == [handshake, listing]
    pipe.write(1, b"the answer of the SDK to the handshake")
    pipe.write(1, b"another answer with this id")
    first, second = sink.getvalue().splitlines()
    assert json.loads(first)["result"]["serverInfo"]["name"] == "brimful"
    assert second == b"another answer with this id"


def test_only_the_first_request_is_a_handshake():
    _, received, sink = read_all(lines(request("ping", 1), initialize(id=2)))
    assert len(received) == 2
    assert sink.getvalue() == b""


@contextmanager
def running(*args):
    pipe = subprocess.PIPE
    with subprocess.Popen([*BRIMFUL, "mcp", *args], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        yield process


def talk(*messages, args):
    with running(*args) as process:
        out, err = process.communicate(lines(*messages), timeout=300)
    return process.returncode, [json.loads(line) for line in out.splitlines()], err


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_of_the_sdk_can_use_it(url, context_id, mode):
    async def story():
        command, *args = BRIMFUL
        params = StdioServerParameters(
            command=command,
            args=[*args, "mcp", "--db", url, "--write", "--embedder", "none", "--untrusted", "trust"],
            env=dict(os.environ),
        )
        async with Client(params, mode=mode) as client:
            assert len((await client.list_tools()).tools) == 9
            await client.call_tool("remember", {"text": "The attic is dry.", "id": "mem-attic"})
            recalled = await client.call_tool("recall", {"query": "Is the attic dry?"})
            report = await client.read_resource(f"brimful://contexts/{context_id}")
            return recalled.content[0].text, report.contents[0].text

    recalled, report = asyncio.run(story())
    assert "The attic is dry." in recalled
    assert report.startswith(f"[context {context_id}]")


def test_requests_are_answered_even_if_the_client_closes_its_end_at_once(filled):
    call = request("tools/call", 3, name="fetch", arguments={"id": "m2"})
    code, answers, err = talk(initialize(), INITIALIZED, request("tools/list", 2), call, args=["--db", filled])
    assert (code, err) == (0, b"")
    assert [answer["id"] for answer in answers] == [1, 2, 3]
    assert "The ladder cost 80 euros." in answers[-1]["result"]["content"][0]["text"]


def test_a_cancelled_request_does_not_keep_the_server_running(filled):
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    call = request("tools/call", 2, name="memories", arguments={})
    code, answers, _ = talk(initialize(), INITIALIZED, call, cancelled, args=["--db", filled])
    assert code == 0
    assert answers[0]["id"] == 1


def test_lines_that_are_no_messages_get_an_error(filled):
    with running("--db", filled) as process:
        out, _ = process.communicate(b"hello\n[1]\n\xff\n" + lines(initialize()), timeout=300)
    *errors, answer = map(json.loads, out.splitlines())
    assert [error["error"]["code"] for error in errors] == [-32700] * 3
    assert answer["result"]["serverInfo"]["name"] == "brimful"


def test_a_missing_store_is_an_error_unless_it_may_be_written(tmp_path):
    code, answers, err = talk(initialize(), args=["--db", f"{tmp_path}/none.db"])
    assert (code, answers) == (1, [])
    assert b"there is no such store" in err
    call = request("tools/call", 2, name="remember", arguments={"text": "New."})
    code, answers, _ = talk(initialize(), INITIALIZED, call, args=["--db", f"{tmp_path}/new.db", "--write"])
    assert code == 0
    assert answers[-1]["result"]["content"][0]["text"].startswith("Proposed as ")


def test_a_store_that_is_gone_is_an_error_of_the_call(filled, tmp_path):
    with running("--db", filled) as process:
        process.stdin.write(lines(initialize(), INITIALIZED))
        process.stdin.flush()
        process.stdout.readline()
        (tmp_path / "chat.db").write_bytes(b"not a store any more")
        out, _ = process.communicate(lines(request("tools/call", 2, name="memories", arguments={})), timeout=300)
    result = json.loads(out)["result"]
    assert result["isError"]
    assert "chat.db" in result["content"][0]["text"]


@POSIX
def test_ctrl_c_ends_it_quietly(filled):
    with running("--db", filled) as process:
        process.stdin.write(lines(initialize(), INITIALIZED, request("tools/list", 2)))
        process.stdin.flush()
        for _ in range(2):
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=120)  # its input stays open until then: the end of it would end the program, too
        assert (code, process.stdout.read(), process.stderr.read()) == (130, b"", b"")


@POSIX
def test_a_client_that_is_gone_ends_it_quietly(filled):
    with running("--db", filled) as process:
        process.stdin.write(lines(initialize(), INITIALIZED))
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(lines(request("tools/list", 2)))
        process.stdin.flush()
        assert process.wait(timeout=120) == 0
        assert process.stderr.read() == b""


@POSIX
def test_closed_input_is_an_error(filled):
    command = f'"{sys.executable}" -m brimful mcp --db {filled} <&-'
    done = subprocess.run(command, shell=True, capture_output=True, check=False)  # noqa: S602
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.startswith(b"brimful: error: standard input is closed")
