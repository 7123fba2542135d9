"""The chat service: two personas in one room, over HTTP.

Serves a scripted model, runs `brimful serve` before it, and then does what any program could do with an HTTP client:
create personas and a room, ask both of them, stream an answer, and see what the model saw and did not see. Needs no API
key and no network. Run it with `python examples/service.py`.
"""

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console

ROOM = "/brimful/v1/rooms/kitchen"
ANSWERS = {"cook": "Leek soup: it is ready in half an hour.", "guest": "Soup sounds good to me."}
START_SECONDS = 60


class ScriptedModel(BaseHTTPRequestHandler):
    """A server with OpenAI's API whose answer depends on the model's name."""

    def do_POST(self) -> None:
        """Answer a chat completion, whole or as a stream."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message, streams = self.answer(request), request.get("stream")
        choice = {"index": 0, "finish_reason": "stop", "delta" if streams else "message": message}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "model": request["model"], "choices": [choice]}
        body = json.dumps(answer)
        body = f"data: {body}\n\ndata: [DONE]\n\n" if streams else body
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streams else "application/json")
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the message that answers a request."""
        return {"role": "assistant", "content": ANSWERS[request["model"]]}

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""


@contextmanager
def scripted_model(model: type[ScriptedModel] = ScriptedModel) -> Iterator[str]:
    """Serve the model, and yield its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()


@contextmanager
def service(upstream: str, db: str, *more: str) -> Iterator[httpx2.Client]:
    """Run `brimful serve`, and yield a client of it once it is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--upstream", upstream, "--db", db, "--listen", f"127.0.0.1:{port}", *more]
    command = [sys.executable, "-m", "brimful", "serve", *options]
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process,  # noqa: S603 - ourselves
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=START_SECONDS) as client,
    ):
        try:
            wait_ready(client)
            yield client
        finally:
            process.terminate()


def wait_ready(client: httpx2.Client) -> None:
    """Wait until the server answers."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            client.get("/ready").raise_for_status()
        except httpx2.HTTPError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("brimful serve did not start")


def post(client: httpx2.Client, path: str, **body: Any) -> dict[str, Any]:
    """Send JSON, and return the answer."""
    answer: dict[str, Any] = client.post(path, json=body).raise_for_status().json()
    return answer


def chat(client: httpx2.Client, console: Console) -> None:
    """Talk to two personas, and look at what they saw."""
    for name in ANSWERS:
        post(client, "/brimful/v1/personas", id=name, prompt=f"You are the {name}.", model=name)
    post(client, "/brimful/v1/rooms", id="kitchen", persona="cook")
    post(client, f"{ROOM}/messages", content="There are leeks in the cellar.", sender="Ada", id="leeks")

    question = "@cook @guest what shall we have for dinner?"
    console.print(f"[bold]Ada:[/] {question}")
    answered = post(client, f"{ROOM}/respond", content=question, sender="Ada")
    for each in answered["answers"]:
        console.print(
            f"[bold]{each['sender']}:[/] {each['text']}  [dim]{each['tokens']} tokens in, {each['context']}[/]"
        )

    console.print("[bold]Ada:[/] And tomorrow?")
    with client.stream("POST", f"{ROOM}/respond", json={"content": "And tomorrow?", "stream": True}) as stream:
        events = [line.removeprefix("event: ") for line in stream.iter_lines() if line.startswith("event: ")]
    console.print(f"streamed: {', '.join(events)}")

    seen = client.get(f"/brimful/v1/contexts/{answered['answers'][1]['context']}/request").json()["messages"]
    console.print(f"The guest saw the question before the cook's answer: {[each['content'] for each in seen[-2:]]}")
    recalled = client.get(f"{ROOM}/recall", params={"handle": "leeks"}).json()
    console.print(f"recall leeks: {recalled['text']}")
    console.print(f"GET {ROOM}/respond: {client.get(f'{ROOM}/respond').json()['error']['message']}")


def main() -> None:
    """Run the service, and chat."""
    console = Console(highlight=False, soft_wrap=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        scripted_model() as upstream,
        service(upstream, f"sqlite:///{Path(folder) / 'chat.db'}") as client,
    ):
        chat(client, console)


if __name__ == "__main__":
    main()
