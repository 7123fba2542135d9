"""A command that fails never exits with 0, says why in one line, and changes nothing."""

import shutil
import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from brimful.cli.app import LazyCommands, app

NO_STORE = "sqlite:///missing/nothing.db"
FAILING = [
    *("api-key add --db {none}", "api-key list --db {none}", "api-key remove nope"),
    *("assemble --room nope", "inspect --room nope", "budget --completion 200000", "budget --policy nope"),
    *("chat send --room hall --message hi", "chat --room hall"),
    *("context export nope", "context list --db {none}", "context prune --db {none}", "context remove nope"),
    *("context show nope", "count --file nope.txt", "count hi --policy nope", "db backup missing/x"),
    *("db check --db {none}", "db encrypt --db {none}", "db export --db {none}", "db keys --tenant nope --db {none}"),
    *("db migrate --db {none}", "db restore nope", "db rotate --db {none}", "diff a.json b.json"),
    *("db distribute", "db isolate nope", "db tenants --db {none}"),
    *("embeddings list --db {none}", "embeddings try hi --embedder nope", "explain nope"),
    *(
        "export --room nope",
        "fill nope.jsonl",
        "fit nope.json",
        "help nope",
        "import nope",
        "index --db {none}",
        "janitor run nope",
    ),
    *("janitor status --db {none}", "janitor undo --db {none}"),
    *("limits list --db {none}", "limits set --key nope --tokens-per-day 5", "limits remove --user nope"),
    *("lorebook add --db {none} x", "lorebook edit nope --name x", "lorebook export nope", "lorebook import nope"),
    *("lorebook list --db {none}", "lorebook remove nope", "lorebook show nope", "lorebook try nope hi"),
    *("memory add hi --db {none}", "memory export --db {none}", "memory list --db {none}", "memory pin nope"),
    *("memory edit nope --pin", "recall nope", "memory learn nope.json --user ada", "memory unlearn"),
    *("memory remove nope", "memory search hi --db {none}", "memory show nope", "memory unpin nope"),
    *("message add hi --room hall --db {none}", "message edit nope hi", "message export --room nope"),
    *("message list --room nope", "message remove nope", "message show nope", "models nosuchmodel"),
    "mcp --db {none}",
    *("models --provider nope", "monitor --db {none}", "persona add x --db {none}", "persona edit nope --name x"),
    *("persona export nope", "persona list --db {none}", "persona remove nope", "persona show nope", "policies nope"),
    *("replay nope", "room add x --db {none}", "room edit nope --name x", "room export nope", "room list --db {none}"),
    *("room remove nope", "room show nope", "serve --config nope.toml", "stats --db {none}", "stats --room nope"),
    *("user add x --db {none}", "user edit nope --name x", "user export nope", "user list --db {none}"),
    *("user remove nope", "user show nope", "version --nope", "db tenants --db {none}", "work --db {none}"),
    *("sessions show nope", "sessions cache nope", "sessions lost nope", "sessions recall nope p1"),
    *("sessions list --program nope", "sessions import nope", "memory audit --db {none}", "install nope"),
    *("memory confirm nope", "memory reject --all nope"),
    *("bench nope", "hook --nope"),
    "doctor --config nope.toml",
]


def leaves(commands, path=()):
    for name, command in commands.items():
        nested = getattr(command, "commands", {})
        yield from leaves(nested, (*path, name)) if nested else [" ".join((*path, name))]


def test_every_command_is_tried():
    assert {each for each in leaves(LazyCommands()) if not any(line.startswith(each) for line in FAILING)} == set()


def records():
    tables = [
        "rooms",
        "messages",
        "memories",
        "snapshots",
        "personas",
        "users",
        "lorebooks",
        "lore_entries",
        "summaries",
        "api_keys",
    ]
    with closing(sqlite3.connect("brimful.db")) as base, base:
        return {name: base.execute(f"SELECT count(*) FROM {name}").fetchone() for name in tables}  # noqa: S608


@pytest.fixture(scope="module")
def store_with_a_message(tmp_path_factory):
    file = tmp_path_factory.mktemp("hall") / "brimful.db"
    done = CliRunner().invoke(app, ["message", "add", "Hello", "--room", "hall", "--db", str(file)])
    assert done.exit_code == 0, done.output
    return file


@pytest.mark.parametrize("line", FAILING)
def test_a_failure_is_no_success(line, store_with_a_message, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    shutil.copy(store_with_a_message, "brimful.db")
    before = records()
    args = [NO_STORE if each == "{none}" else each for each in line.split()]
    result = CliRunner().invoke(app, args, input="hi\n", prog_name="brimful")
    assert not isinstance(result.exception, Exception), result.exception
    assert result.exit_code in (1, 2), result.output
    assert "error: " in result.stderr
    assert result.stderr.rstrip().count("\n") <= 1
    assert records() == before
