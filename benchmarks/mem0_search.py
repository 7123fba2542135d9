"""mem0 on the same room: its vector store holds every message, and a turn is one search.

Its language model is never asked (`infer=False` is how mem0 keeps texts as they are), and its embedder is a local
server. Where time is measured, that server hashes, as fast as a server can be. Messages go into its Qdrant in bulk,
since `add` takes one at a time.
"""

import hashlib
import json
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from statistics import median
from typing import Any

Embed = Callable[[Sequence[str]], list[list[float]]]

DIMENSIONS = 256
USER = "ada"
BULK = 1_000
FINDS = 100
QUIET = {"MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "none", "DO_NOT_TRACK": "1"}


def load() -> None:
    """Import mem0, quietly and in a folder of its own."""
    os.environ.update(QUIET, MEM0_DIR=tempfile.mkdtemp())
    import_module("mem0")


def time_search(texts: Sequence[str], questions: Sequence[str]) -> tuple[float, float]:
    """Return the median wall clock and CPU seconds of a search among these texts."""
    search = open_search(texts, lambda texts: list(map(_vector, texts)), FINDS)
    spent = [_time(search, question) for question in questions]
    return median(wall for wall, _ in spent), median(cpu for _, cpu in spent)


def open_search(texts: Sequence[str], embed: Embed, finds: int) -> Callable[[str], list[str]]:
    """Return a function that searches these texts and returns those that it finds, best first."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Embeddings,), {"embed": staticmethod(embed)}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    dimensions = len(embed(texts[:1])[0])
    memory = _memory(f"http://127.0.0.1:{server.server_port}/v1", tempfile.mkdtemp(), dimensions)
    for start in range(0, len(texts), BULK):
        _insert(memory, texts[start : start + BULK], embed)
    return lambda question: [
        found["memory"] for found in memory.search(question, filters={"user_id": USER}, top_k=finds)["results"]
    ]


def _memory(url: str, folder: str, dimensions: int) -> Any:
    return import_module("mem0").Memory.from_config(
        {
            "llm": {"provider": "openai", "config": {"model": "gpt-4o", "openai_base_url": url}},
            "embedder": {
                "provider": "openai",
                "config": {"model": "any", "openai_base_url": url, "embedding_dims": dimensions},
            },
            "vector_store": {"provider": "qdrant", "config": {"path": folder, "embedding_model_dims": dimensions}},
            "history_db_path": f"{folder}/history.db",
        }
    )


def _insert(memory: Any, texts: Sequence[str], embed: Embed) -> None:
    memory.vector_store.insert(
        vectors=embed(texts),
        payloads=[{"data": text, "hash": hashlib.md5(text.encode()).hexdigest(), "user_id": USER} for text in texts],  # noqa: S324 - mem0's own
        ids=[str(uuid.uuid4()) for _ in texts],
    )


def _time(search: Callable[[str], list[str]], question: str) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    search(question)
    return time.perf_counter() - wall, time.process_time() - cpu


def _vector(text: str) -> list[float]:
    digest = hashlib.shake_128(text.encode()).digest(DIMENSIONS)
    return [byte / 127.5 - 1 for byte in digest]


class _Embeddings(BaseHTTPRequestHandler):
    """An OpenAI-compatible `/v1/embeddings`."""

    embed: Embed

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer with one vector a text."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
        texts = [asked] if isinstance(asked, str) else asked
        vectors = enumerate(self.embed(list(map(str, texts))))
        rows = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in vectors]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        body = json.dumps({"object": "list", "data": rows, "model": "any", "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
