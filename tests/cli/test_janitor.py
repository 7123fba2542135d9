"""`brimful janitor`."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("flooded")

SPAM = "Cheap watches, cheap watches, buy ten of them today at http://watches.example/{n}"


@pytest.fixture
def flooded(run, write_lines):
    """Return a store with a flooded room, and a quiet one."""
    messages = [{"role": "user", "name": "Ada", "content": "The demo is on Thursday, in the blue room."}]
    messages += [{"role": "user", "name": "bot", "content": SPAM.format(n="shop" * (n % 3))} for n in range(30)]
    messages += [{"role": "user", "name": "Bo", "content": "Thanks, I will bring the projector."}]
    rows = [row | {"timestamp": f"2026-11-01T10:00:{at:02d}Z"} for at, row in enumerate(messages)]
    run("import", write_lines("busy.jsonl", rows))
    run("import", write_lines("quiet.jsonl", rows[:1]))


def test_a_dry_run_says_what_a_run_does_and_undo_takes_it_back(run, run_json):
    dry = run_json("janitor", "run", "--dry-run")
    assert (dry["run"], dry["dry_run"]) == (None, True)
    assert run_json("janitor", "status") == {"runs": [], "archived": {"messages": 0, "memories": 0}}
    before = run("export").stdout
    shown = run("janitor", "run").stdout.splitlines()
    assert shown[0].split() == ["room", "floods", "summaries", "archived", "notes"]
    assert shown[1].split() == ["busy", "1", "2", "30"]
    assert shown[2].startswith("  30 near-identical messages from bot, 10:00, e.g. “Cheap watches")
    assert shown[3] == "run 1 is done; to undo it, run `brimful janitor undo`"
    assert "Cheap" not in run("message", "list", "--room", "busy").stdout
    assert run("export", "--room", "busy", "--format", "openai").stdout.count("Cheap") == 30
    status = run_json("janitor", "status")
    assert status["archived"] == {"messages": 30, "memories": 0}
    assert status["runs"][0]["facts"]["floods"] == 1
    assert run("janitor", "run").stdout == "nothing to do\n"
    assert run("janitor", "run", "--dry-run").stdout == "nothing to do\n"
    assert run("janitor", "undo").stdout == "run 1 is undone\n"
    assert run("export").stdout == before
    assert "undone" in run("janitor", "status").stdout


def test_only_a_room_and_deleted_messages(run, run_json):
    done = run_json("janitor", "run", "--room", "busy", "--older-than", "1d")
    assert [room["room"] for room in done["rooms"]] == ["busy"]
    assert run_json("janitor", "run", "--purge")["purged"] == 30
    records = [json.loads(line) for line in run("export").stdout.splitlines()]
    assert sum(record["record"] == "message" for record in records) == 3
    assert run("janitor", "status").stdout.splitlines()[-1] == "archived: 0 messages, 0 memories"


def test_a_failure_is_one_line(run, fails):
    assert fails("janitor", "run", "--room", "nowhere") == "no room 'nowhere'"
    assert fails("janitor", "undo") == "there is no run to undo"
    assert "cannot be combined with --dry-run" in run("janitor", "run", "--dry-run", "--purge", code=2).stderr
    assert "is not a duration" in run("janitor", "run", "--older-than", "long", code=2).stderr
    assert "no such store" in fails("janitor", "status", "--db", "sqlite:///none.db")


def test_at_the_limit_of_own_calls_days_stay_pending_and_dollars_need_a_price(run_json, fails, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("BRIMFUL_TOKENS_PER_DAY", "0")
    done = run_json("janitor", "run", "--model", "gpt-4o-mini")
    assert sum(room["pending"] for room in done["rooms"]) > 0
    assert "the daily limit of own calls is reached: 0 of 0 tokens" in done["rooms"][0]["notes"][0]
    wrong = ("--model", "home-made", "--provider", "openai", "--dollars-per-day", "1")
    assert "own_calls.dollars_per_day: the price of 'home-made' is not known" in fails("janitor", "run", *wrong)
    assert "set own_calls.tokens_per_day instead" in fails("work", "--once", "--kinds", "summarize", *wrong)
