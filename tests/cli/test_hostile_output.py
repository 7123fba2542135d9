"""What strangers wrote reaches a terminal without commands for it, and JSON means the same as before."""

import json
from pathlib import Path

import pytest

from brimful.cli.output import escape_controls

EVIL = "a\x1b]0;owned\x07\x1b[2Jb\x9b31mc\u202ed\rbrimful: error: forgede"


@pytest.fixture
def store(run):
    """A store in which every text and name is hostile."""
    entries = {"0": {"uid": "0\x1b[1m", "key": [EVIL, "tea"], "content": EVIL, "comment": EVIL}}
    Path("world.json").write_text(json.dumps({"entries": entries}), encoding="utf-8")
    lines = [{"role": "user", "name": EVIL, "content": EVIL}, {"role": "assistant", "content": EVIL}]
    Path("chat\x1b[31m.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    run("lorebook", "import", "world.json")
    run("persona", "add", "nova", "--name", EVIL, "--prompt", EVIL)
    run("room", "add", "den", "--goal", EVIL, "--lorebook", "world", "--persona", "nova")
    run("message", "add", "--room", "den", "--sender", EVIL, EVIL)
    run("memory", "add", EVIL)


COMMANDS = [
    ("import", "chat\x1b[31m.jsonl"),
    ("room", "list"),
    ("room", "show", "den"),
    ("persona", "list"),
    ("persona", "show", "nova"),
    ("message", "list", "--room", "den"),
    ("memory", "list"),
    ("lorebook", "list"),
    ("lorebook", "show", "world"),
    ("lorebook", "try", "--room", "den", "--message", f"tea {EVIL}", "--embedder", "none"),
    ("assemble", "--room", "den", "--message", EVIL, "--embedder", "none", "--model", "gpt-4o"),
]


def assert_harmless(text):
    assert [mark for mark in text if not mark.isprintable() and mark not in "\n\t"] == []


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_no_command_for_the_terminal_is_printed(run, command):
    done = run(*command)
    assert_harmless(done.stdout + done.stderr)
    assert not [line for line in done.stdout.splitlines() if line.startswith("brimful: error")]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("command", [("message", "list", "--room", "den"), ("memory", "list")])
def test_json_keeps_every_character(run, command):
    done = run(*command, "--json")
    assert EVIL in {row["content"] for row in json.loads(done.stdout)}
    assert_harmless(escape_controls(done.stdout))
    assert json.loads(escape_controls(done.stdout)) == json.loads(done.stdout)


@pytest.mark.usefixtures("store")
def test_explanations_and_errors_are_harmless(run, run_json):
    built = run_json("assemble", "--room", "den", "--message", EVIL, "--embedder", "none", "--model", "gpt-4o")
    one = next(each["id"] for each in built["decisions"] if each["kind"] == "message-recent")
    good = [("explain", built["id"]), ("explain", built["id"], one, "--full"), ("monitor",), ("context", "list")]
    bad = [("explain", EVIL), ("room", "show", EVIL), ("explain", built["id"], EVIL), ("assemble", "--room", EVIL)]
    for done in [*(run(*command) for command in good), *(run(*command, code=1) for command in bad)]:
        assert_harmless(done.stdout + done.stderr)
