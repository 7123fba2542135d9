"""The whole program: version, help, completion, exit codes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import brimful
from brimful.cli.app import MODULES, load_commands

COMMANDS = ("fill", "explain", "diff", "replay", "count", "budget", "models", "policies")


def test_version(run):
    assert run("--version").stdout == f"brimful {brimful.__version__}\n"


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
    assert all(re.search(rf"│ {name} ", text) for name in COMMANDS)


def test_every_command_is_in_the_module_that_the_table_names():
    tabled = {module: [name for name in MODULES if MODULES[name] == module] for module in MODULES.values()}
    assert {module: list(load_commands(module)) for module in tabled} == tabled
    folder = Path(brimful.__file__).parent / "cli"
    registering = {file.stem for file in folder.glob("*.py") if "def register(app: typer.Typer)" in file.read_text()}
    assert registering == set(tabled)


@pytest.mark.parametrize(
    ("command", "unneeded"),
    [
        ("--version", {"numpy", "asyncio", "sqlite3", "splintr", "brimful.engine", "brimful.cli.memories"}),
        ("count x", {"numpy", "asyncio", "sqlite3", "brimful.engine", "brimful.cli.memories"}),
        ("stats", {"numpy", "splintr", "brimful.providers.connection", "brimful.janitor", "brimful.cli.count"}),
        ("inspect --room general --message tea", {"numpy.ma", "brimful.providers.connection"}),
    ],
)
def test_a_command_loads_what_it_needs_and_no_more(command, unneeded, run):
    run("message", "post", "general", "Green tea, please.")
    code = (
        "import sys\nfrom brimful.cli import main\n"
        f"sys.argv = ['brimful', *{command.split()!r}]\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules, sep='\\n', file=sys.stderr)"
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
        ("pools.nope.most=5", "window.toml: pools.nope.most: policy 'window' has no such key or pool"),
        ("pools.recent.most=many", "window.toml: pools.recent.most: Expected `int | null`, got `str`"),
        ("pools.recent.least=-1", "window.toml: pools.recent.least: must be a whole number of at least 0, not -1"),
    ],
)
def test_a_setting_that_the_policy_does_not_take(setting, complaint, fails):
    assert fails("budget", "-p", "window", "--set", setting) == complaint


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell, run, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert "_BRIMFUL_COMPLETE" in run("--show-completion", shell).stdout
