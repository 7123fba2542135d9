"""Slow, idle and too many connections, through real sockets."""

import json
import socket
import subprocess
import sys
import threading

import pytest

from server.upstream import chat_events

HI = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
START = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
SOON = 0.2  # seconds


@pytest.fixture
def connect(start):
    """Return a function that starts a server with these limits, and one that connects to it."""
    opened = []

    def begin(**limits):
        client = start(limits=limits)

        def connected():
            opened.append(socket.create_connection((client.base_url.host, client.base_url.port), timeout=30))
            return opened[-1]

        return client, connected

    yield begin
    for each in opened:
        each.close()


def answer(connection, request):
    connection.sendall(request)
    return connection.recv(65_536)


def is_closed(connection):
    """Wait until the server closes a connection."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    return True


def test_headers_must_arrive_in_time(connect):
    client, connected = connect(header_timeout=SOON)
    silent, begun, reused = connected(), connected(), connected()
    begun.sendall(START)
    assert b"200 OK" in answer(reused, START + b"\r\n")
    reused.sendall(START)
    assert all(map(is_closed, (silent, begun, reused)))
    assert client.get("/health").status_code == 200


def test_drops_of_headers_do_not_extend_the_time(connect):
    _, connected = connect(header_timeout=1.0)
    slow, stop = connected(), threading.Event()
    slow.sendall(START)

    def drip():
        while not stop.wait(0.05):
            try:
                slow.sendall(b"a: b\r\n")
            except OSError:
                return

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        assert is_closed(slow)
    finally:
        stop.set()
        dripping.join()


def test_an_answer_may_take_longer_than_headers(connect, upstream):
    client, _ = connect(header_timeout=SOON)
    upstream.answers, upstream.pause = [list(chat_events("a", "b", "c"))], SOON
    assert client.post("/v1/chat/completions", json=HI | {"stream": True}).text.endswith("data: [DONE]\n\n")


def test_the_rest_of_a_rejected_body_must_arrive_in_time(connect):
    _, connected = connect(header_timeout=SOON)
    connection = connected()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 1000\r\n\r\n"
    assert b"403" in answer(connection, head)
    connection.sendall(b"x")
    assert is_closed(connection)


def test_idle_connections_keep_nobody_out(connect):
    client, connected = connect(max_connections=20)
    idle = [connected() for _ in range(50)]
    for connection in idle[20:]:
        connection.sendall(START)
    assert client.get("/health").status_code == 200
    assert is_closed(idle[0])


def test_too_many_busy_connections_are_refused(connect, upstream):
    _, connected = connect(max_connections=2)
    upstream.silent = True
    body = json.dumps(HI).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
    busy = [connected() for _ in range(2)]
    for connection in busy:
        connection.sendall(head + body)
    while len(upstream.requests) < 2:
        threading.Event().wait(0.01)
    refused = connected().recv(65_536)
    assert refused.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert json.loads(refused.partition(b"\r\n\r\n")[2])["error"]["message"] == "too many connections"


@pytest.mark.parametrize("request_", [b"nonsense\r\n\r\n", START + b"a: " + b"x" * 50_000 + b"\r\n\r\n"])
def test_malformed_requests_get_an_error(connect, request_):
    _, connected = connect(max_header_bytes=1_000)
    refused = answer(connected(), request_)
    assert refused.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    message = json.loads(refused.partition(b"\r\n\r\n")[2])["error"]["message"]
    assert message == "the request is not valid HTTP, or its headers are larger than 1,000 bytes"


def test_a_client_that_does_not_read_is_disconnected(connect, upstream):
    _, connected = connect(write_timeout=SOON)
    upstream.answers = [list(chat_events(*["x" * 100_000] * 500))]
    body = json.dumps(HI | {"stream": True}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
    connected().sendall(head + body)
    assert upstream.left.wait(30)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_connections_stay_below_the_limit_of_open_files(tmp_path):
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 264))\n"
        "from brimful.server.config import parse_config; from brimful.server.connections import connection_settings\n"
        "settings = connection_settings(parse_config({}, 'brimful.toml'))\n"
        "print(settings['http'].limits.max_connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert run.stdout.split() == ["100", "264"]
