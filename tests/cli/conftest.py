"""Commands run in this process, and files as users write them."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brimful.cli.app import app

NOW = 1_763_211_000


def chat_lines():
    """Forty turns, three memories and a copy of one, an image, and a question: more than 3,000 tokens."""
    yield {"kind": "system-prompt", "id": "sys", "content": "You are Helper AI, a coding assistant. Be brief."}
    for at in range(40):
        yield {
            "kind": "message-recent",
            "id": f"m{at:02d}",
            "role": "assistant" if at % 2 else "user",
            "content": f"Message number {at}: " + "we talked about embeddings and timeouts. " * 8,
            "timestamp": 1_763_200_000 + 60 * at,
        }
    memories = {
        "mem-episodic": "Discussed vector search performance with Joel.",
        "mem-semantic": "Joel prefers TypeScript over JavaScript.",
        "mem-procedural": "When testing, run npm start first.",
    }
    for id, content in memories.items():
        kind = id.replace("mem-", "memory-")
        yield {"kind": kind, "id": id, "content": content, "relevance": 0.7, "timestamp": "2025-11-01T00:00:00Z"}
    yield {"kind": "memory-semantic", "id": "mem-copy", "content": "joel prefers  typescript over javascript."}
    image = {"type": "media", "modality": "image", "url": "https://x.example/a.png", "width": 1024, "height": 1024}
    yield {"kind": "media-image", "id": "img", "content": [image]}
    yield {"kind": "message-current", "id": "ask", "role": "user", "content": "How do I handle timeouts?"}


@pytest.fixture(autouse=True)
def at_home(tmp_path, monkeypatch):
    """Every test stands in a directory of its own, with none of the caller's settings."""
    monkeypatch.chdir(tmp_path)
    ours = [name for name in os.environ if name.startswith("BRIMFUL_")]
    for variable in (*ours, "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("_TYPER_FORCE_DISABLE_TERMINAL", "1")  # a CI that asks for colours would get them in help


@pytest.fixture
def run():
    """Run a command; it ends well unless `code` says otherwise."""

    def run_command(*args, code=0, stdin=None):
        result = CliRunner().invoke(app, [str(arg) for arg in args], input=stdin, prog_name="brimful")
        assert not isinstance(result.exception, Exception), result.exception
        assert result.exit_code == code, result.output
        return result

    return run_command


@pytest.fixture
def run_json(run):
    """Run a command with --json: standard output is JSON and nothing else."""
    return lambda *args, **how: json.loads(run(*args, "--json", **how).stdout)


@pytest.fixture
def fails(run):
    """Run a command that fails, and return its one line of complaint."""

    def failing(*args, stdin=None):
        result = run(*args, code=1, stdin=stdin)
        assert result.stdout == ""
        [line] = result.stderr.splitlines()
        assert line.startswith("brimful: error: ")
        return line.removeprefix("brimful: error: ")

    return failing


@pytest.fixture
def write_lines():
    """Write JSON lines, and return the name of their file."""

    def write(name, rows):
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return name

    return write


@pytest.fixture
def chat(write_lines):
    """The path of a file of packages."""
    return write_lines("chat.jsonl", chat_lines())


@pytest.fixture
def context(chat, run):
    """The path of a record: the chat in a window that is too small for all of it."""
    run("fill", chat, "-m", "gpt-4-turbo", "--now", NOW, "--window", 3000, "--completion", 500, "--out", "context.json")
    return "context.json"
