"""The files of plugins: that they are in the wheel, and say the same as the code."""

import json
import subprocess
import sys
import tomllib
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest
import typer

import brimful
from brimful.cli.app import app
from brimful.plugins.hooks import Program, answer_event

ROOT = Path(__file__).parents[2]
CLAUDE_CODE, CODEX = (ROOT / "src" / "brimful" / "plugins" / name for name in ("claude-code", "codex"))


def read(file):
    return json.loads(file.read_text(encoding="utf-8"))


def hooks_of(file):
    """Return all hooks of a file, with their events."""
    return [
        (event, hook) for event, groups in read(file)["hooks"].items() for group in groups for hook in group["hooks"]
    ]


def test_a_wheel_contains_the_plugins(tmp_path):
    pytest.importorskip("hatchling", reason="a wheel is built by hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    [wheel] = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    found = [file for folder in (CLAUDE_CODE, CODEX) for file in folder.rglob("*") if file.is_file()]
    assert len(found) >= 6
    assert {file.relative_to(ROOT / "src").as_posix() for file in found} <= inside


def test_the_plugin_for_claude_code_has_the_version_of_the_package():
    plugin = read(CLAUDE_CODE / ".claude-plugin" / "plugin.json")
    [listed] = read(CLAUDE_CODE / ".claude-plugin" / "marketplace.json")["plugins"]
    assert plugin["version"] == brimful.__version__
    assert (listed["name"], listed["description"]) == (plugin["name"], plugin["description"])


@pytest.mark.parametrize(
    ("file", "program"), [(CLAUDE_CODE / "hooks" / "hooks.json", "claude-code"), (CODEX / "hooks.json", "codex")]
)
def test_hooks_start_the_command_for_events_that_it_answers(file, program, tmp_path):
    assert program in Program.__args__
    for event, hook in hooks_of(file):
        assert hook["command"] == f"brimful hook --program {program}"
        answer_event({"hook_event_name": event}, program, tmp_path, 2_000)
    assert {event for event, _ in hooks_of(file)} >= {"SessionStart", "UserPromptSubmit", "PostToolUse", "SessionEnd"}


def test_codex_gives_the_end_of_a_session_three_seconds():
    assert dict(hooks_of(CODEX / "hooks.json"))["SessionEnd"]["timeout"] <= 3


def test_servers_are_started_with_options_that_exist():
    servers = [
        read(CLAUDE_CODE / ".mcp.json")["mcpServers"]["brimful"],
        tomllib.loads((CODEX / "config.toml").read_text(encoding="utf-8"))["mcp_servers"]["brimful"],
    ]
    for server in servers:
        assert (server["command"], server["args"]) == ("brimful", ["mcp", "--plugin"])
    options = [option for param in typer.main.get_command(app).commands["mcp"].params for option in param.opts]
    assert "--plugin" in options


def test_the_package_finds_its_plugins():
    assert (files("brimful") / "plugins" / "claude-code" / ".claude-plugin" / "plugin.json").is_file()
