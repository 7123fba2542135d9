"""The server's log: all of it as JSON, with the request that a line belongs to."""

import json
import logging
import signal
import socket
import subprocess
import sys

import pytest

from brimful.errors import InvalidConfig
from brimful.server.logs import AccessFormatter, JsonFormatter
from server.test_shutdown import CHAT, HI, running, stop
from server.upstream import OVERFLOW, chat_answer, chat_events

JSON_LOG = 'telemetry.log_format = "json"\ntelemetry.logs = true'
STREAM = HI | {"stream": True}
TRACE = "0af7651916cd43dd8448eb211c80319c"


class LoggedServer:
    """A server with its log as JSON."""

    def __init__(self, client, process):
        self.client = client
        self._process = process

    def read(self, *, requests, others=0):
        """Read the log up to the lines of so many requests, which come last, and of so many others without one."""
        lines = []
        while len(requests_in(lines)) < requests or sum(line["request_id"] is None for line in lines) < others:
            lines.append(json.loads(self._process.stdout.readline()))
        return lines


@pytest.fixture(scope="module")
def shared_server(upstream_server, tmp_path_factory):
    """Start one server for all tests. All that it writes is its log, on standard output."""
    folder = tmp_path_factory.mktemp("logged")
    with running(folder, upstream_server, settings=JSON_LOG) as (client, process):
        yield LoggedServer(client, process)
        stop(process)
        assert process.stdout.read() == ""
        assert process.wait(120) == -signal.SIGTERM
    assert (folder / "errors").read_text() == ""


@pytest.fixture
def server(shared_server, upstream):  # noqa: ARG001 - as if it were new
    return shared_server


def requests_in(lines):
    return [line for line in lines if line["logger"] == "brimful.access"]


def test_every_line_is_json_with_its_request(server):
    client = server.client
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "x-request-id": "mine-1"}
    answer = client.post(CHAT, json=HI, headers=headers)
    assert answer.headers["x-brimful-request"] == "mine-1"
    again = client.get("/nowhere", headers={"x-request-id": "not valid"})
    with socket.create_connection((client.base_url.host, client.base_url.port)) as raw:
        raw.sendall(b"nonsense\r\n\r\n")
        assert b"400" in raw.recv(1_000)
    lines = server.read(requests=2, others=1)
    assert all(
        {"time", "level", "logger", "message", "request_id", "trace_id", "tenant"} <= line.keys() for line in lines
    )
    assert all(line["time"].endswith("+00:00") for line in lines)
    served, unknown = requests_in(lines)
    (build,) = [line for line in lines if line["logger"] == "brimful.build"]
    for line in (served, build):
        assert (line["request_id"], line["trace_id"], line["tenant"]) == ("mine-1", TRACE, "default")
        assert line["level"] == "INFO"
    assert served["message"] == f"POST {CHAT} 200"
    assert build["components"]["current"] > 0
    assert build["used"] == sum(build["components"].values())
    assert (unknown["path"], unknown["status"], unknown["trace_id"]) == ("/nowhere", 404, None)
    assert unknown["request_id"] == again.headers["x-brimful-request"] != "not valid"
    assert [line["message"] for line in lines if line["logger"] == "uvicorn.error"] == [
        "Invalid HTTP request received."
    ]


def test_a_stream_that_breaks_off_says_who_cut_it(server, upstream):
    client = server.client
    upstream.answers = [list(chat_events("Thurs", "day."))]
    whole = client.post(CHAT, json=STREAM).content
    upstream.answers = [list(chat_events("Thurs", "day."))[:1]]
    broken = client.post(CHAT, json=STREAM).content
    upstream.answers, upstream.pause = [list(chat_events(*["more "] * 10_000))], 0.01
    with client.stream("POST", CHAT, json=STREAM) as answer:
        next(answer.iter_bytes())
    assert upstream.left.wait(60)
    ended, by_upstream, by_client = requests_in(server.read(requests=3))
    assert "cut_by" not in ended
    assert ended["bytes"] == len(whole)
    assert by_upstream["cut_by"] == "upstream"
    assert "broke off" in by_upstream["error"]
    assert by_upstream["bytes"] == len(broken)
    assert by_client["cut_by"] == "client"
    assert by_client["bytes"] > 0
    assert by_client["seconds"] >= 0


def test_each_prompt_that_is_too_long_is_one_warning(server, upstream):
    client = server.client
    long = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"{n} words " * 20} for n in range(41)]
    upstream.answers = [(400, OVERFLOW), chat_answer()]
    assert client.post(CHAT, json=HI | {"messages": long, "max_tokens": 20}).status_code == 200
    upstream.answers = [(400, OVERFLOW)]
    assert client.post("/v1/embeddings", json={"model": "m", "input": "tea"}).status_code == 400
    tight = {"x-brimful-max-prompt-tokens": "1"}
    said = [{"role": "user", "content": "hazelnut"}]
    assert client.post(CHAT, json=HI | {"messages": said}, headers=tight).status_code == 400
    lines = server.read(requests=3)
    rebuilt, forwarded, refused = [line for line in lines if line["level"] == "WARNING"]
    for line, request in zip((rebuilt, forwarded, refused), requests_in(lines), strict=True):
        assert line["message"].startswith("context_length_exceeded ")
        assert line["request_id"] == request["request_id"]
        assert line["tenant"] == "default"
    assert rebuilt["rebuilt"] is True
    assert (rebuilt["rejected_by"], rebuilt["tokens"], rebuilt["limit"]) == ("upstream", 631, 256)
    assert (forwarded["rejected_by"], forwarded["upstream"]) == ("upstream", "local")
    assert refused["rejected_by"] == "brimful"
    assert refused["tokens"] > refused["limit"]
    assert "hazelnut" not in json.dumps(lines)


def test_the_access_log_has_the_same_time_as_text():
    record = logging.makeLogRecord({"created": 1_763_545_271.042, "at": 1_763_545_270.5, "path": "/mcp"})
    time = json.loads(JsonFormatter().format(record))["time"]
    line = AccessFormatter().format(record)
    assert time == "2025-11-19T09:41:11.042+00:00"
    assert line == f'{{"time":"{time}","at":1763545270.5,"path":"/mcp"}}'


def test_warnings_and_tracebacks_are_json():
    code = """
import logging, threading, warnings
from brimful.server.config import TelemetryConfig
from brimful.server.logs import configure_logging

configure_logging(TelemetryConfig(log_format="json"))
warnings.warn("old")
try:
    raise OSError("full")
except OSError:
    logging.getLogger("uvicorn.error").exception("failed")
thread = threading.Thread(target=lambda: [][0])
thread.start()
thread.join()
logging.getLogger("anything").info("too detailed")
raise ValueError("the end")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert (result.returncode, result.stderr) == (1, "")
    assert [(line["level"], line["logger"]) for line in lines] == [
        ("WARNING", "py.warnings"),
        ("ERROR", "uvicorn.error"),
        ("CRITICAL", "brimful.server"),
        ("CRITICAL", "brimful.server"),
    ]
    assert "old" in lines[0]["message"]
    for line, error in zip(lines[1:], ("OSError: full", "IndexError", "ValueError: the end"), strict=True):
        assert line["traceback"].startswith("Traceback")
        assert error in line["traceback"]


@pytest.mark.parametrize("text", ["a\nb", "\ud800", '"', "\x1b[31m"])
def test_any_text_is_one_line_of_json(text):
    record = logging.LogRecord("brimful", logging.WARNING, "f.py", 1, "said %s", (text,), None)
    record.value = object
    line = JsonFormatter().format(record)
    assert line.isprintable()
    assert json.loads(line)["message"] == f"said {text}"


def test_the_format_is_text_or_json(start):
    with pytest.raises(InvalidConfig, match=r"telemetry\.log_format: must be 'text' or 'json', not 'xml'"):
        start(telemetry={"log_format": "xml"})
