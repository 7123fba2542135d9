"""brimful serve and brimful api-key, from the command line."""

import socket

import pytest

from brimful.cli import serve
from brimful.server.access import SCOPES

LOCAL = '[[upstreams]]\nname = "local"\nurl = "http://127.0.0.1:1/v1"\n'


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--window", "9"], "needs --upstream"),
        (["--config", "a.toml", "--upstream", "http://127.0.0.1:1/v1"], "cannot be combined with --upstream"),
        (["--config", "a.toml", "--window", "9"], "belongs in the configuration file"),
    ],
)
def test_wrong_usage(run, arguments, complaint):
    done = run("serve", *arguments, code=2)
    assert complaint in done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--upstream", "nowhere"], "brimful serve: upstreams.upstream.url: must be an http or https URL"),
        (["--upstream", "http://127.0.0.1:1/v1", "--listen", "8080"], "brimful serve: listen: must be HOST:PORT"),
        (
            ["--upstream", "http://127.0.0.1:1/v1", "--mode", "forget"],
            "brimful serve: mode: must be 'fit' or 'remember'",
        ),
        (
            ["--upstream", "http://127.0.0.1:1/v1", "--listen", "0.0.0.0:0"],
            "brimful serve: listen: 0.0.0.0 is reachable",
        ),
        (["--upstream", "http://127.0.0.1:1/v1", "--db", "mysql://x"], "brimful serve: store: must be one of sqlite"),
        (["--upstream", "http://127.0.0.1:1/v1", "--db", "sqlite:////no/such/folder/x.db"], "x.db: "),
        (["--config", "none.toml"], "none.toml: cannot be read"),
        (["--config", "typo.toml"], "typo.toml: lisen: unknown key"),
        (["--config", "open.toml"], "open.toml: listen: 0.0.0.0 is reachable from other machines"),
        (["--config", "models.toml"], "missing.toml: cannot be read"),
    ],
)
def test_a_server_failure_is_one_line(fails, tmp_path, arguments, complaint):
    (tmp_path / "typo.toml").write_text('lisen = "x"\n' + LOCAL)
    (tmp_path / "open.toml").write_text('listen = "0.0.0.0:0"\n' + LOCAL)
    (tmp_path / "models.toml").write_text('models = "missing.toml"\n' + LOCAL)
    assert complaint in fails("serve", *arguments)


def test_an_address_that_is_taken(fails):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        complaint = fails("serve", "--upstream", "http://127.0.0.1:1/v1", "--listen", address)
    host, port = address.split(":")
    assert complaint == (
        f"brimful serve: listen: cannot listen on {address}: Address already in use. "
        f"Another port: --listen {host}:{int(port) + 1}, or :0 for any free one"
    )


@pytest.mark.parametrize(
    ("upstream", "key", "is_warned"),
    [
        ("https://api.openai.com/v1", "", True),
        ("https://api.openai.com/v1", "sk-1", False),
        ("http://127.0.0.1:1/v1", "", False),
    ],
)
def test_a_missing_key_of_a_known_provider_is_named(run, monkeypatch, upstream, key, is_warned):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    done = run("serve", "--upstream", upstream, "--listen", "0.0.0.0:0", code=1)
    warning = "the upstream 'upstream' (openai) needs an API key, but OPENAI_API_KEY is not set"
    assert (warning in done.stderr) == is_warned
    assert ("the keys of clients are not forwarded" in done.stderr) == is_warned


def test_keys_are_made_listed_and_revoked(run, run_json, fails):
    made = run_json("api-key", "add", "--name", "the bot", "--tenant", "acme", "--scopes", "chat")
    assert made["key"].startswith("bf-")
    assert made["scopes"] == ["chat"]
    (listed,) = run_json("api-key", "list", "--tenant", "acme")
    assert listed == {key: value for key, value in made.items() if key != "key"}
    assert run_json("api-key", "list") == []
    assert "the bot" in run("api-key", "list", "--tenant", "acme").stdout
    assert run("api-key", "remove", made["id"], "--tenant", "acme").stdout == f"revoked {made['id']}\n"
    assert "revoked 20" in run("api-key", "list", "--tenant", "acme").stdout
    assert fails("api-key", "remove", made["id"], "--tenant", "acme").startswith(
        f"there is no active key '{made['id']}'"
    )


def test_a_key_with_limits(run, run_json):
    made = run_json(
        *("api-key", "add", "--name", "a trial", "--expires", "2100-01-02", "--model", "gpt-4o*", "--model", "o3"),
        *("--policy", "agent"),
    )
    limits = {"expires": 4102531200.0, "models": ["gpt-4o*", "o3"], "policies": ["agent"], "used": None}
    assert {name: made[name] for name in limits} == limits
    listed = run("api-key", "list").stdout
    assert all(each in listed for each in ("gpt-4o*, o3", "agent", "2100-01-02 00:00:00", "active"))


def test_a_key_may_expire_after_a_duration(run_json):
    made = run_json("api-key", "add", "--name", "a trial", "--expires", "30d")
    assert made["expires"] - made["created"] == pytest.approx(30 * 86_400, abs=60)


@pytest.mark.parametrize(
    ("expires", "problem", "code"),
    [("30x", "not a duration", 2), ("soon", "not a time", 2), ("2020-01-01", "must be in the future", 1)],
)
def test_wrong_expiry(run, expires, problem, code):
    assert problem in run("api-key", "add", "--name", "x", "--expires", expires, code=code).stderr


def test_every_scope_of_the_server_can_be_given(run_json):
    assert serve.SCOPES == SCOPES
    made = run_json("api-key", "add", "--name", "the page", "--scopes", ",".join(SCOPES))
    assert made["scopes"] == list(SCOPES)


def test_a_key_is_printed_alone(run):
    done = run("api-key", "add", "--name", "x")
    assert done.stdout.strip().startswith("bf-")
    assert len(done.stdout.split()) == 1
    assert "the key is shown only once" in done.stderr


@pytest.mark.parametrize("scopes", ["", "chat,owner", ","])
def test_scopes_that_there_are_not(run, scopes):
    done = run("api-key", "add", "--name", "x", "--scopes", scopes, code=2)
    assert "scopes are chat, read" in done.stderr


def test_a_question_makes_no_store(fails):
    assert "there is no such store" in fails("api-key", "list")
