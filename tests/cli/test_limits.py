"""`brimful limits`: limits of single keys and users."""

import json

import pytest
from typer.testing import CliRunner

from brimful.cli.app import app


def limits(*words):
    return CliRunner().invoke(app, ["limits", *words])


def test_limits_are_set_listed_and_removed():
    assert limits("set", "--user", "ada", "--dollars-per-month", "20", "--tokens-per-day", "200_000").exit_code == 0
    changed = limits("set", "--user", "ada", "--tokens-per-day", "none", "--json")
    (ada,) = json.loads(changed.stdout)
    assert (ada["kind"], ada["name"]) == ("user", "ada")
    assert ada["limits"] == {"dollars_per_month": 20, "tokens_per_day": None}
    assert ada["used"]["day"] == {"requests": 0, "tokens": 0, "dollars": 0.0}
    lines = limits("list").stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["for", "user ada", "user ada"]
    assert lines[1].split()[:7] == ["user", "ada", "tokens", "per", "day", "no", "limit"]
    assert lines[2].split()[5:7] == ["$20.00", "$0.00"]
    assert json.loads(limits("list", "--user", "bob", "--json").stdout)[0]["limits"] == {}
    assert limits("remove", "--user", "ada").stdout == "removed the limits of the user ada\n"
    assert limits("list", "--json").stdout.strip() == "[]"


def test_a_key_is_limited_by_its_id():
    added = CliRunner().invoke(app, ["api-key", "add", "--name", "bot", "--json"])
    id = json.loads(added.stdout)["id"]
    (found,) = json.loads(limits("set", "--key", id, "--requests-per-minute", "5", "--json").stdout)
    assert (found["kind"], found["name"], found["limits"]) == ("key", id, {"requests_per_minute": 5})
    other = limits("set", "--key", id, "--requests-per-minute", "5", "--tenant", "other")
    assert (other.exit_code, f"there is no API key '{id}'" in other.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["--user", "ada"], 2, "name a limit"),
        (["--user", "ada", "--key", "k", "--tokens-per-day", "5"], 2, "name one of them"),
        (["--tokens-per-day", "5"], 2, "name one of them"),
        (["--user", "ada", "--tokens-per-day", "many"], 2, "'many' is not a number"),
        (["--user", "ada", "--tokens-per-day", "1.5"], 1, "tokens_per_day: must be a whole number from 0"),
        (["--user", "ada", "--requests-per-minute", "0"], 1, "requests_per_minute: must be a whole number from 1"),
        (["--user", "ada", "--dollars-per-day", "inf"], 1, "dollars_per_day: must be an amount of US dollars"),
    ],
)
def test_wrong_limits_are_refused(words, code, problem):
    refused = limits("set", *words)
    assert (refused.exit_code, problem in refused.stderr) == (code, True)
