"""brimful import, once and repeatedly."""

import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HI = {"role": "user", "name": "Ada", "content": "My lid is broken.", "timestamp": 1763200000}
HELLO = {"role": "assistant", "content": "A new one is on its way."}
ROBOT = {"role": "robot", "content": "beep"}


def contents(run_json, room, *more):
    return [message["content"] for message in run_json("message", "list", "--room", room, "--limit", 1000, *more)]


def test_the_report(run, write_lines):
    write_lines("chat.jsonl", [HI, HELLO, ROBOT, ROBOT])
    report = run("import", "chat.jsonl").stdout.splitlines()
    assert report[:3] == ["imported  2 messages (1 user, 1 assistant)", "rooms     1", "skipped   2"]
    reason = "role: must be one of system, developer, user, assistant, tool, not 'robot'"
    assert report[-1] == f"      2  {reason}  chat.jsonl:3, chat.jsonl:4"


def test_messages_come_as_they_were(run, run_json, write_lines):
    write_lines("chat.jsonl", [HI, HELLO])
    run("import", "chat.jsonl")
    first, second = run_json("message", "list", "--room", "chat")
    assert (first["content"], first["sender"], first["role"], first["at"], first["seq"]) == (
        "My lid is broken.",
        "Ada",
        "user",
        1763200000,
        1,
    )
    assert (second["content"], second["at"], second["seq"]) == ("A new one is on its way.", 1763200000, 2)


def test_the_same_file_twice_adds_nothing_and_a_longer_one_the_rest(run, run_json, write_lines):
    write_lines("chat.jsonl", [HI, HELLO])
    run("import", "chat.jsonl")
    again = run_json("import", "chat.jsonl")
    assert (again["records"], again["known"]) == ({}, 2)
    write_lines("chat.jsonl", [HI, HELLO, HI])
    assert run_json("import", "chat.jsonl")["records"] == {"message": 1}
    assert contents(run_json, "chat") == ["My lid is broken.", "A new one is on its way.", "My lid is broken."]


def test_batches_are_many_and_the_order_stays(run_json, write_lines):
    write_lines("long.jsonl", [{"role": "user", "content": f"Number {at}"} for at in range(1203)])
    assert run_json("import", "long.jsonl")["records"] == {"message": 1203}
    assert contents(run_json, "long") == [f"Number {at}" for at in range(203, 1203)]


def test_dry_run_writes_nothing(run, run_json, write_lines):
    write_lines("chat.jsonl", [HI, HELLO])
    assert "would import  2 messages" in run("import", "chat.jsonl", "--dry-run").stdout
    assert run_json("import", "chat.jsonl", "--dry-run")["roles"] == {"user": 1, "assistant": 1}
    assert not Path("brimful.db").exists()


def test_several_files_of_several_shapes(run_json, fails, write_lines):
    write_lines("train.jsonl", [{"messages": [HI]}, {"messages": [HI, HELLO]}])
    Path("packed.json.gz").write_bytes(gzip.compress(json.dumps([HI, HELLO]).encode()))
    assert fails("import", "train.jsonl", "packed.json.gz", "nowhere.json").startswith(
        "nowhere.json: no such file; noth"
    )
    assert not Path("brimful.db").exists()
    intake = run_json("import", "train.jsonl", "packed.json.gz", "nowhere.json", "--salvage")
    assert (intake["rooms"], intake["records"]) == (3, {"message": 5})
    assert intake["skipped"] == [{"reason": "no such file", "count": 1, "locations": ["nowhere.json"]}]
    assert [room["id"] for room in run_json("room", "list")] == ["packed", "train", "train/2"]


def test_standard_input_and_a_named_room(run, run_json):
    run("import", "-", "--room", "lobby", stdin=json.dumps([HI]))
    assert contents(run_json, "lobby") == ["My lid is broken."]


def test_stores_and_tenants_are_apart(run, run_json, fails, write_lines, monkeypatch):
    write_lines("chat.jsonl", [HI])
    run("import", "chat.jsonl", "--db", "sqlite:///other.db", "--tenant", "acme")
    assert not Path("brimful.db").exists()
    monkeypatch.setenv("BRIMFUL_DB", "sqlite:///other.db")
    assert fails("message", "list", "--room", "chat") == "no room 'chat'"
    monkeypatch.setenv("BRIMFUL_TENANT", "acme")
    assert contents(run_json, "chat") == ["My lid is broken."]


def test_tools_stay_with_the_room_and_a_room_stays_as_it_is(run, run_json):
    tools = [{"type": "function", "function": {"name": "search"}}]
    Path("r.json").write_text(json.dumps({"messages": [HI], "tools": tools}), encoding="utf-8")
    assert run_json("import", "r.json")["records"] == {"room": 1, "message": 1}
    run("room", "edit", "r", "--goal", "Tea")
    assert run_json("import", "r.json")["known"] == 2
    room = run_json("room", "show", "r")
    assert (room["goal"], room["metadata"]) == ("Tea", {"tools": tools})


def test_an_id_that_says_something_else_is_skipped(run_json, write_lines):
    write_lines("a.jsonl", [{**HI, "id": 1}, {**HI, "id": 1}, {**HELLO, "id": 1}])
    intake = run_json("import", "a.jsonl")
    assert (intake["records"], intake["known"]) == ({"message": 1}, 1)
    assert intake["skipped"] == [{"reason": "another message has this id", "count": 1, "locations": ["a.jsonl:3: a/1"]}]


def test_edited_and_deleted_records_stay_so(run, run_json, write_lines):
    write_lines("a.jsonl", [{**HI, "id": 1}, {**HELLO, "id": 2}])
    run("import", "a.jsonl")
    run("message", "edit", "a/1", "My lid is whole.")
    run("message", "remove", "a/2")
    intake = run_json("import", "a.jsonl")
    assert (intake["records"], intake["known"]) == ({}, 1)
    assert intake["skipped"] == [{"reason": "it was deleted before", "count": 1, "locations": ["a.jsonl:2: a/2"]}]
    assert contents(run_json, "a") == ["My lid is whole."]


def test_a_room_that_only_messages_name_belongs_to_the_named_user(run, run_json, write_lines):
    write_lines("chat.jsonl", [HI, HELLO])
    write_lines("known.jsonl", [HI])
    run("room", "add", "known", "--user", "bob")
    run("import", "chat.jsonl", "known.jsonl", "--user", "mia")
    assert {room["id"]: room["user"] for room in run_json("room", "list")} == {"chat": "mia", "known": "bob"}


def test_a_room_comes_back_as_it_went(run, run_json, write_lines, monkeypatch):
    write_lines("chat.jsonl", [HI, HELLO, HI])
    run("import", "chat.jsonl")
    run("room", "edit", "chat", "--goal", "Tea", "--user", "ada")
    run("export", "--room", "chat", "--out", "out.jsonl")
    printed = run("export", "--room", "chat").stdout
    assert printed == Path("out.jsonl").read_text(encoding="utf-8")
    monkeypatch.setenv("BRIMFUL_DB", "sqlite:///copy.db")
    assert run_json("import", "out.jsonl")["records"] == {"room": 1, "message": 3}
    assert run("export", "--room", "chat").stdout == printed
    assert run_json("import", "-", stdin=printed)["known"] == 4


def test_other_records_come_too_and_stay_as_they_are(run, run_json, write_lines):
    rows = [
        {"record": "user", "id": "ada"},
        {"record": "persona", "id": "nova", "prompt": "You are Nova."},
        {"record": "lorebook", "id": "book"},
        {"record": "lore-entry", "id": "e", "lorebook": "book", "content": "Tea is brown.", "keys": ["tea"]},
        {"record": "memory", "id": "k", "content": "Ada likes tea."},
        {"record": "message", "id": "m", "room": "r", "content": "Hi"},
        {"record": "summary", "id": "s", "room": "r", "content": "They met.", "cluster": "c", "covers": ["m"]},
    ]
    write_lines("all.jsonl", rows)
    text = run("import", "all.jsonl").stdout
    assert "1 user, 1 persona, 1 lorebook, 1 lore entry, 1 message (1 user), 1 summary, 1 memory" in text
    run("memory", "pin", "k")
    assert run_json("import", "all.jsonl")["known"] == 7
    assert run_json("memory", "show", "k")["pinned"] is True


# -- what cannot be read ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "x.json: is empty"),
        (b"nonsense", "x.json:1: is not JSON: JSON is malformed: invalid character"),
        (b'{"a": 1}', "x.json: has an unknown format; name it with `--format`"),
        (b"[" * 100_000, "x.json[0]: the file ends in the middle of its array"),
        (
            '[{"role": "ü"}]'.encode("utf-16"),
            "x.json: is UTF-16, not UTF-8: convert it first (iconv -f UTF-16 -t UTF-8)",
        ),
        ('{"role": "user", "content": "ü"}'.encode("latin-1"), "x.json:1: is not UTF-8 text: invalid start byte"),
        (b'{"role": "user"', "x.json:1: is not JSON: Input data was truncated"),
        (b'{"messages": []}', "x.json: nothing to import"),
        (
            b'[{"role": "user", "content": 1}, 2, 3]',
            "x.json[1]: must be a JSON object, not a number; 2 more were skipped",
        ),
    ],
    ids=["empty", "nonsense", "unknown", "deep", "utf-16", "latin-1", "truncated", "nothing", "many"],
)
def test_nothing_could_be_read(fails, data, reason):
    Path("x.json").write_bytes(data)
    assert fails("import", "x.json").startswith(reason)
    assert fails("import", "x.json", "--json").startswith(reason)


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 100_000, b"nonsense", b"\0" * 100, b"[[[]]]"])
def test_whatever_it_is_it_ends_in_one_line(fails, data):
    Path("x.json").write_bytes(data)
    assert fails("import", "x.json", "--format", "openai").startswith("x.json")


def test_no_file_makes_no_store(fails):
    Path("folder").mkdir()
    assert fails("import", "nowhere.json") == "nowhere.json: no such file"
    assert fails("import", "folder") == "folder: nothing to import"
    assert not Path("brimful.db").exists()


def test_wrong_usage(run, write_lines):
    write_lines("chat.jsonl", [HI])
    assert "'morse' is not one of records, markdown" in run("import", "chat.jsonl", "--format", "morse", code=2).stderr
    run("import", code=2)


def test_no_such_store(fails, write_lines):
    write_lines("chat.jsonl", [HI])
    assert fails("import", "chat.jsonl", "--db", "mysql://x").startswith("url: must be one of sqlite:///chat.db, ")
    assert "nowhere/chat.db" in fails("import", "chat.jsonl", "--db", "sqlite:///nowhere/chat.db")


def test_a_killed_import_goes_on_when_it_is_run_again(run_json, tmp_path):
    rows = [json.dumps({"role": "user", "content": f"Number {at}"}) + "\n" for at in range(5_700)]
    Path("long.jsonl").write_text("".join(rows), encoding="utf-8")
    code = (
        "import os, signal\n"
        "from brimful.engine import Engine\n"
        "from brimful.cli.app import main\n"
        "load = Engine.load\n"
        "async def load_and_die(*args, **options):\n"
        "    await load(*args, **options)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "Engine.load = load_and_die\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "import", "long.jsonl"], check=False, cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL
    intake = run_json("import", "long.jsonl")
    assert (intake["known"], intake["records"]) == (5_000, {"message": 700})
    assert contents(run_json, "long") == [f"Number {at}" for at in range(4_700, 5_700)]
