"""brimful db keys, rotate and encrypt."""

import base64

import pytest

from brimful.stores import Keys

OLD, NEW = bytes(range(1, 33)), bytes(range(101, 133))


@pytest.fixture
def give(monkeypatch):
    """Put keys into the environment: the current one, and perhaps a previous one."""

    def given(current, previous=None):
        monkeypatch.setenv("BRIMFUL_KEY", base64.b64encode(current).decode())
        monkeypatch.setenv("BRIMFUL_KEY_PREVIOUS", base64.b64encode(previous).decode() if previous else "")

    return given


@pytest.fixture(autouse=True)
def _clear(run):
    """Make a store in the clear."""
    run("message", "add", "--room", "den", "The vault is behind the painting.", "--id", "m1")


def test_a_store_in_the_clear_has_no_keys(run, run_json):
    assert run("db", "keys").stdout == "nothing is encrypted; see `brimful db encrypt`\n"
    assert [(key["number"], key["rows"]) for key in run_json("db", "keys")] == [(None, 3)]


def test_a_store_is_encrypted_and_then_wants_its_key(run, run_json, fails, give, monkeypatch):
    assert "openssl rand -base64 32, and set BRIMFUL_KEY" in fails("db", "encrypt")
    give(OLD)
    assert run("db", "encrypt").stdout.splitlines()[-1].endswith("current")
    assert [(key["number"], key["rows"], key["kek"]) for key in run_json("db", "keys")] == [
        (0, 0, Keys(OLD).id),
        (1, 3, Keys(OLD).id),
    ]
    assert "painting" in run("message", "list", "--room", "den").stdout
    monkeypatch.delenv("BRIMFUL_KEY")
    assert "no key was given; set BRIMFUL_KEY" in fails("message", "list", "--room", "den")
    assert "current" in run("db", "keys").stdout


def test_keys_are_wrapped_by_a_new_key(run, run_json, fails, give):
    give(OLD)
    run("db", "encrypt")
    give(NEW)
    assert f"is wrapped by key {Keys(OLD).id}" in fails("db", "rotate")
    give(NEW, OLD)
    run("db", "rotate")
    give(NEW)
    assert {key["kek"] for key in run_json("db", "keys")} == {Keys(NEW).id}
    assert "painting" in run("message", "list", "--room", "den").stdout


def test_the_key_of_the_data_is_changed(run, give):
    give(OLD)
    run("db", "encrypt")
    run("db", "rotate", "--data-key")
    states = [line.split()[-1] for line in run("db", "keys").stdout.splitlines()[1:]]
    assert states == ["hashes", "retired", "current"]
    assert "painting" in run("message", "list", "--room", "den").stdout


def test_a_store_that_is_not_there_is_not_made(fails):
    for command in ("keys", "rotate", "encrypt"):
        assert "there is no such store" in fails("db", command, "--db", "sqlite:///other.db")


@pytest.mark.parametrize("command", ["keys", "rotate", "encrypt"])
def test_an_unknown_tenant_is_not_reported_as_encrypted(run_json, fails, give, command):
    give(OLD)
    assert fails("db", command, "--tenant", "defualt") == "there is no tenant 'defualt'; tenants are 'default'"
    assert [key["number"] for key in run_json("db", "keys")] == [None]


def test_half_encrypted_is_shown_as_such(run, give):
    give(OLD)
    run("message", "add", "--room", "den", "Said since then.")
    lines = run("db", "keys").stdout.splitlines()
    assert lines[1].split()[:2] == ["default", "none"]
    assert lines[1].endswith("not encrypted")


def test_all_tenants_at_once(run, run_json, give):
    run("message", "add", "--room", "den", "A second secret.", "--tenant", "acme")
    give(OLD)
    run("db", "encrypt", "--all")
    give(NEW, OLD)
    run("db", "rotate", "--all")
    found = run_json("db", "keys", "--all")
    assert [(key["tenant"], key["number"], key["kek"]) for key in found] == [
        (tenant, number, Keys(NEW).id) for tenant in ("acme", "default") for number in (0, 1)
    ]
    assert [line.split()[0] for line in run("db", "keys", "--all").stdout.splitlines()[1:]] == ["acme"] * 2 + [
        "default"
    ] * 2
