"""brimful sessions: list, show, cache, lost, recall and import."""

import asyncio

import pytest

import brimful
from sessions.session_files import PARA, ClaudeCode, all_programs, codex


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "HERMES_HOME", "QWEN_HOME", "QWEN_RUNTIME_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    return all_programs(tmp_path / "home")


@pytest.mark.usefixtures("home")
def test_sessions_are_listed(run, run_json):
    assert {each["program"] for each in run_json("sessions", "list")} == {
        *("claude-code", "codex", "gemini-cli", "hermes", "opencode", "qwen-code")
    }
    assert [each["id"] for each in run_json("sessions", "list", "--program", "codex")] == ["c0de"]
    assert "Which page mentions 1882?" in run("sessions", "list").stdout
    assert "must be one of" in run("sessions", "list", "--program", "vi", code=1).stderr


def test_without_sessions_it_says_so(run, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "no sessions of" in run("sessions", "list").stdout


@pytest.mark.usefixtures("home")
def test_a_window_is_drawn_by_category(run, run_json):
    shown = run("sessions", "show", "c0de").stdout
    assert "requests" in shown
    assert "largest prompt  2,400 of 258,400 tokens" in shown
    assert "1 × a line of type 'surprise'" in shown
    assert "compacted" in shown
    assert "F  files read" in run("sessions", "show", "5e55", "--all").stdout
    data = run_json("sessions", "show", "c0de")
    assert [turn["call"]["uncached"] + turn["call"]["read"] for turn in data["turns"]] == [2_000, 2_400, 1_900]
    assert data["turns"][-1]["compacted"]


def test_misses_have_a_cause_a_cost_and_an_advice(run, run_json, home):
    session = ClaudeCode(system="Be terse. " * 900)
    prompt = session.call("Read", {"file_path": "a"}, PARA * 200, written=2_000)
    session.call("Read", {"file_path": "b"}, PARA * 200, read=prompt)
    session.tools.append("Grep")
    session.call("Read", {"file_path": "c"}, PARA * 20)
    session.write(home)
    shown = run("sessions", "cache", "5e55").stdout
    assert "tools_changed: Definitions of tools come first" in shown
    assert "1 miss, $0.0" in shown
    [miss] = run_json("sessions", "cache", "5e55")
    assert (miss["cause"], miss["turn"]) == ("tools_changed", 3)
    assert float(miss["cost"]) > 0
    codex(home, compacted=False)
    assert "no miss in codex" in run("sessions", "cache", "c0de").stdout


@pytest.mark.usefixtures("home")
def test_texts_lost_by_a_compaction_can_be_recalled(run, run_json):
    shown = run("sessions", "lost", "c0de").stdout
    assert "called again in request 3" in shown
    [loss] = run_json("sessions", "lost", "c0de")
    handle = f"p{loss['again'][0]['place']}"
    assert "a-4417" in run("sessions", "recall", "c0de", handle).stdout
    assert "Mia Reis" in run("sessions", "recall", "c0de", "--query", "keeper of the lighthouse").stdout
    assert "no compaction" in run("sessions", "lost", "5e55").stdout
    assert "nothing matches" in run("sessions", "recall", "c0de", "--query", "zebra").stdout
    assert "either a HANDLE or --query" in run("sessions", "recall", "c0de", code=2).stderr


def test_sessions_become_rooms_once_and_without_secrets(run, run_json, home, tmp_path):
    secret = "ghp_" + "a1B2" * 9
    session = ClaudeCode()
    session.call("Bash", {"command": "env"}, f"GITHUB={secret}")
    session.write(home)
    db = f"sqlite:///{tmp_path}/s.db"
    first = run_json("sessions", "import", "--all", "--db", db)
    assert first["sessions"] == 6
    assert first["masked github-token"] == 1
    again = run_json("sessions", "import", "--all", "--db", db)
    assert (again["sessions without anything new"], again.get("messages", 0)) == (6, 0)
    session.call("Bash", {"command": "ls"}, "new.txt")
    session.write(home)
    grown = run_json("sessions", "import", "5e55", "--db", db, "--user", "ada")
    assert (grown["sessions"], grown["messages"]) == (1, 2)
    assert "either sessions or --all" in run("sessions", "import", code=2).stderr
    for file in tmp_path.glob("s.db*"):
        assert secret.encode() not in file.read_bytes()

    async def search():
        async with brimful.Engine(db) as engine:
            return await engine.search("Who was the keeper?", room="codex/c0de")

    assert any("Mia Reis" in str(hit.record.content) for hit in asyncio.run(search()))
