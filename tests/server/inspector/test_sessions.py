"""Sessions of coding agents in the inspector: only for local use, and only by their ids."""

import asyncio
import os

import pytest

from brimful.errors import InvalidConfig
from brimful.server.access import Client
from brimful.server.config import parse_config
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import SessionsQuery
from brimful.server.inspector.sessions import Sessions
from server.inspector.conftest import ROOT
from sessions.session_files import PARA, ClaudeCode, all_programs


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder, which is that of this process, too."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(folder))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "HERMES_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def client(start, home):  # noqa: ARG001 - what it shows
    return start(sessions=True, remember={"embedder": "none"})


def listed(client, **query):
    answer = client.get(f"{ROOT}/sessions", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def shown(client, id):
    """Ask until the session is read, as the page does."""
    while True:
        answer = client.get(f"{ROOT}/sessions/{id}")
        assert answer.status_code == 200, answer.text
        if answer.json()["report"] is not None:
            return answer.json()
        assert 0 <= answer.json()["progress"] <= 1


def test_without_the_setting_there_is_no_such_path(start, home):
    all_programs(home)
    client = start()
    assert client.get(f"{ROOT}/features").json() == {
        "sessions": False,
        "upstreams": True,
        "chat": True,
        "admin": True,
        "keys": False,
        "limits": True,
    }
    assert client.get(f"{ROOT}/sessions").status_code == 404
    assert client.get(f"{ROOT}/sessions/5e55").status_code == 404


@pytest.mark.parametrize(
    "other",
    [
        {"require_keys": True},
        {"listen": "0.0.0.0:8080"},
        {"listen": "192.168.0.7:8080"},
        {"hosts": ["host.docker.internal"]},
        {"origins": ["http://localhost:3000"]},
        {"trusted_proxies": ["10.0.0.1"]},
    ],
)
def test_sessions_are_refused_if_others_can_reach_the_server(other):
    with pytest.raises(InvalidConfig, match="sessions: is for local use"):
        parse_config({"sessions": True, **other}, "brimful.toml")


def test_other_pages_and_names_are_refused(client):
    assert client.get(f"{ROOT}/sessions", headers={"origin": "http://localhost:3000"}).status_code == 403
    assert client.get(f"{ROOT}/sessions", headers={"host": "evil.example"}).status_code == 403


def test_sessions_of_all_programs_are_listed_and_shown(client, home):
    all_programs(home)
    assert client.get(f"{ROOT}/features").json()["sessions"]
    found = listed(client)
    assert found["programs"] == dict.fromkeys(
        ("claude-code", "codex", "opencode", "hermes", "gemini-cli", "qwen-code"), 1
    )
    assert str(home) not in str(found)
    for each in found["sessions"]:
        whole = shown(client, each["id"])
        assert whole["session"] == each
        assert whole["report"]["requests"] == len(whole["report"]["turns"]) > 0
    assert [each["program"] for each in listed(client, program="codex")["sessions"]] == ["codex"]
    assert len(listed(client, q="PAGE mentions")["sessions"]) >= 1
    assert listed(client, q="nothing like it")["sessions"] == []


def test_pages_have_each_session_once(client, home):
    all_programs(home)
    seen, after = [], ""
    while after is not None:
        page = listed(client, limit=2, after=after)
        seen += [each["id"] for each in page["sessions"]]
        after = page["next"]
    assert sorted(seen) == sorted({each["id"] for each in listed(client)["sessions"]})
    assert len(seen) == 6


@pytest.mark.parametrize("name", ["5e55", "last", "../../5e55.jsonl", "%2Fetc%2Fpasswd", "x" * 2_000])
def test_a_session_is_only_found_by_the_id_of_the_list(client, home, name):
    all_programs(home)
    assert client.get(f"{ROOT}/sessions/{name}").status_code == 404


def test_the_report_says_what_the_window_held_missed_and_lost(client, home):
    session = ClaudeCode(system=PARA * 200)
    first = session.call("Read", {"file_path": "orders-77120.csv"}, f"order ZX-77120 {PARA * 200}", written=2_000)
    session.time += 400
    session.call("Bash", {"command": "ls"}, "a b", written=2_000)
    session.compact("It read a file.")
    session.call("Read", {"file_path": "orders-77120.csv"}, "ZX-77120", read=100)
    session.write(home)
    (row,) = listed(client)["sessions"]
    report = shown(client, row["id"])["report"]
    assert report["requests"] == 3
    assert report["turns"][0]["prompt"] == first
    assert all(sum(turn["tokens"].values()) + turn["unseen"] >= turn["prompt"] * 0.99 for turn in report["turns"])
    assert report["turns"][1]["tokens"]["files"] > 1_000
    assert [miss["cause"] for miss in report["misses"]] == ["ttl_expired_5m", "compaction"]
    assert report["missed_tokens"] == sum(miss["tokens"] for miss in report["misses"])
    assert report["missed_cost"] == pytest.approx(sum(miss["cost"] for miss in report["misses"]))
    assert "hour" in report["misses"][0]["advice"]
    (loss,) = report["losses"]
    assert (report["compactions"], loss["turn"], loss["used_again"]) == (1, 2, len(loss["again"]))
    assert loss["again"][0]["is_call"]
    assert "orders-77120.csv" in loss["again"][0]["text"]
    assert loss["again"][0]["handle"].startswith("p")


def test_secrets_are_masked(client, home):
    session = ClaudeCode()
    session.call("Bash", {"command": "curl -H 'Authorization: Bearer abcdefghij0123456789'"}, "yes")
    session.compact("It called.")
    session.call("Bash", {"command": "curl -H 'Authorization: Bearer abcdefghij0123456789'"}, "yes")
    session.write(home)
    (row,) = listed(client)["sessions"]
    (loss,) = shown(client, row["id"])["report"]["losses"]
    assert "abcdefghij0123456789" not in str(loss)
    assert "[masked: bearer]" in loss["again"][0]["text"]


@pytest.fixture
def ask(home):
    """Return a function that gives the reports of all sessions, as the endpoints do."""

    def make(**settings):
        sessions = Sessions(home, {}, list_seconds=0.0, **settings)

        def call(query, **path):
            return Call(client=Client(tenant="acme"), path=path, headers={}, query=query)

        async def reports():
            page = await sessions.list_page(call(SessionsQuery()))
            found = []
            for row in page.sessions:
                while (view := await sessions.show(call(None, id=row.id))).report is None:
                    pass
                found.append(view.report)
            return found

        return lambda: asyncio.run(reports())

    return make


def test_a_file_is_read_once_until_it_changes(ask, home):
    session = ClaudeCode()
    session.call("Bash", {"command": "ls"}, "a b")
    path, read = session.write(home), ask()
    (report,) = read()
    path.write_bytes(b" " * path.stat().st_size)
    os.utime(path, (session.time, session.time))
    assert read()[0].requests == 0
    os.utime(path, ns=(0, 0))
    (empty,) = read()
    session.write(home)
    os.utime(path, ns=(0, 0))
    assert read() == [empty], "the same size and time: nothing was read"
    session.call("Bash", {"command": "pwd"}, "/work")
    session.write(home)
    assert [each.requests for each in (report, *read())] == [1, 2]


def test_a_file_that_cannot_be_read_is_an_error_that_says_so(client, home):
    all_programs(home)
    rows = {row["program"]: row["id"] for row in listed(client)["sessions"]}
    for path in home.rglob("opencode*.db"):
        path.write_bytes(b"no database" * 1_000)
    for path in home.rglob(".claude/projects/**/*.jsonl"):
        path.unlink()
    for program in ("opencode", "claude-code"):
        answer = client.get(f"{ROOT}/sessions/{rows[program]}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "session_unreadable")


def test_a_long_session_keeps_its_sums_and_shows_some_of_its_requests(ask, home):
    session = ClaudeCode()
    prompts = [session.call("Bash", {"command": f"ls {at}"}, "a b") for at in range(14)]
    session.write(home)
    (report,) = ask(max_turns=5)()
    assert (report.requests, report.prompt, report.largest) == (14, sum(prompts), max(prompts))
    assert [turn.number for turn in report.turns] == [1, 5, 9, 13, 14]
