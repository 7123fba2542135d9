"""The whole program: version, help, completion, exit codes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import brimful
from brimful.cli import app as table
from brimful.cli.app import load_commands

COMMANDS = ("fill", "explain", "diff", "replay", "count", "budget", "models", "policies")


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)])
def test_help_teaches_by_example(command, flag, run):
    text = run(*command, flag).stdout
    examples = text.partition("Examples:")[2]
    assert re.search(rf"^ *brimful {command[0] if command else ''}", examples, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_fit_into_80_columns(command, run):
    examples = run(command, "-h").stdout.partition("Examples:")[2].split("\n")
    assert [line for line in examples if line.strip() and "brimful" not in line] == []


def test_help_lists_every_command(run):
    text = run("--help").stdout
    assert len(text.splitlines()) <= 42
    names = set(re.findall(r"[\w-]+", text.partition("Start:")[2].partition("Examples:")[0]))
    assert set(table.COMMANDS) - names == set(table.ALIASES)
    described = run("help", "all").stdout
    assert {name for name in table.COMMANDS if not re.search(rf"^  {name} ", described, re.MULTILINE)} == set(
        table.ALIASES
    )


@pytest.mark.parametrize("name", ["records", "Records"])
def test_help_of_a_group_describes_its_commands(name, run):
    listed = re.findall(r"^  ([\w-]+)  ", run("help", name).stdout, re.MULTILINE)
    assert listed == list(table.GROUPS["Records"])


def test_another_name_of_a_command_works_but_is_not_listed(run):
    run("message", "add", "--room", "general", "Green tea, please.")
    preview = run("inspect", "--room", "general", "--embedder", "none").stdout
    dry = run("assemble", "--dry-run", "--room", "general", "--embedder", "none").stdout
    assert "BRIMFUL INSPECTION" in preview
    assert re.sub(r"\d\.\d\d s", "", preview) == re.sub(r"\d\.\d\d s", "", dry)


def test_the_table_names_every_command_with_its_module_and_summary():
    loaded = {module: load_commands(module) for module in {entry.module for entry in table.COMMANDS.values()}}
    registered = {
        name: (module, command.get_short_help_str(100))
        for module, commands in loaded.items()
        for name, command in commands.items()
    }
    assert registered == table.COMMANDS
    folder = Path(brimful.__file__).parent / "cli"
    registering = {file.stem for file in folder.glob("*.py") if "def register(app: typer.Typer)" in file.read_text()}
    assert registering == set(loaded)


@pytest.mark.parametrize("args", [("version",), ("-V",), ("--version",)])
def test_version(args, run):
    assert run(*args).stdout == f"brimful {brimful.__version__}\n"


def test_help_of_a_command(run):
    assert run("help").stdout == run("--help").stdout
    assert run("help", "count").stdout == run("count", "--help").stdout
    assert run("help", "room", "list").stdout == run("room", "list", "--help").stdout
    assert "No such command 'cuont'. Did you mean 'count'" in run("help", "cuont", code=2).stderr
    assert "no subcommands" in run("help", "count", "words", code=2).stderr


def test_a_flag_is_shown_as_a_flag(run):
    text = run("memory", "list", "--help").stdout
    assert re.search(r"^  --json  +\w", text, re.MULTILINE)
    assert "<bool>" not in text


@pytest.mark.parametrize(
    ("command", "unneeded"),
    [
        ("--version", {"asyncio", "msgspec", "splintr", "brimful.core", "brimful.cli.memories"}),
        ("--help", {"asyncio", "msgspec", "splintr", "brimful.core", "brimful.cli.memories"}),
        ("count x", {"numpy", "asyncio", "sqlite3", "tomllib", "jinja2", "brimful.assembly", "brimful.records"}),
        ("stats", {"numpy", "splintr", "brimful.providers.connection", "brimful.janitor", "brimful.cli.count"}),
        ("inspect --room general --message tea", {"numpy.ma", "brimful.providers.connection"}),
    ],
)
def test_a_command_loads_what_it_needs_and_no_more(command, unneeded, run):
    run("message", "add", "--room", "general", "Green tea, please.")
    code = (
        "import atexit, sys\nfrom brimful.cli import main\n"
        f"sys.argv = ['brimful', *{command.split()!r}]\n"
        "atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr))\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"rich", "pydantic", *unneeded} & set(done.stderr.splitlines())


def test_no_command_shows_help(run):
    assert "Usage: brimful" in run(code=2).output


@pytest.mark.parametrize(
    "args", [("bogus",), ("count", "--bogus"), ("fill", "x.jsonl"), ("count", "x", "--method", "guess"), ("explain",)]
)
def test_wrong_usage(args, run):
    result = run(*args, code=2)
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("brimful: error: ")
    assert line.endswith(" --help")


@pytest.mark.parametrize("setting", ["novalue", "=5", ""])
def test_a_setting_that_is_none(setting, run):
    assert "KEY=VALUE" in run("budget", "--set", setting, code=2).stderr


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("pools.nope.max_items=5", "window.toml: pools.nope.max_items: policy 'window' has no such key or pool"),
        ("pools.recent.max_items=many", "window.toml: pools.recent.max_items: Expected `int | null`, got `str`"),
        ("pools.recent.min_items=-1", "window.toml: pools.recent.min_items: must be at least 0, not -1"),
    ],
)
def test_a_setting_that_the_policy_does_not_take(setting, complaint, fails):
    assert fails("budget", "-p", "window", "--set", setting) == complaint


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell, run, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert "_BRIMFUL_COMPLETE" in run("--show-completion", shell).stdout
