"""brimful db."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest


def test_migrate_makes_a_store_and_changes_nothing_the_second_time(run, run_json):
    assert run("db", "migrate").stdout == "migrated\n"
    assert run("db", "migrate").stdout == "already up to date\n"
    assert run_json("db", "migrate") == {"migrated": False}
    assert run_json("room", "list") == []


def test_a_file_that_is_no_store(fails):
    Path("brimful.db").write_text("nonsense " * 1000, encoding="utf-8")
    assert "not a database" in fails("db", "migrate")


RECORDS = [
    {"record": "user", "id": "ada", "name": "Ada"},
    {"record": "persona", "id": "nova", "prompt": "You are Nova."},
    {"record": "lorebook", "id": "book"},
    {"record": "lore-entry", "id": "e", "lorebook": "book", "content": "Tea is brown.", "keys": ["tea"]},
    {"record": "room", "id": "den", "goal": "Tea", "user": "ada"},
    *({"record": "message", "id": f"m{at}", "room": "den", "content": f"Number {at}", "at": at} for at in range(9)),
    {"record": "summary", "id": "s", "room": "den", "content": "They met.", "cluster": "c", "covers": ["m1"]},
    *({"record": "memory", "id": f"k{at}", "content": f"Fact {at}", "at": at // 4} for at in range(13)),
]


def test_all_records_are_exported_and_come_back(run, run_json, write_lines, monkeypatch):
    run("import", write_lines("all.jsonl", RECORDS))
    run("export", "--out", "out.jsonl")
    exported = [json.loads(line) for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sorted(row["id"] for row in exported) == sorted(row["id"] for row in RECORDS)
    printed = run("export").stdout
    assert [json.loads(line) for line in printed.splitlines()] == exported
    monkeypatch.setenv("BRIMFUL_DB", "sqlite:///copy.db")
    run("import", "-", stdin=printed)
    assert run("export").stdout == printed
    assert run_json("import", "out.jsonl")["known"] == len(RECORDS)


def test_another_tenant_is_not_in_it(run, write_lines):
    run("import", write_lines("all.jsonl", RECORDS), "--tenant", "acme")
    assert run("export").stdout == ""


def test_contexts_gaps_and_edits_come_back(run, run_json, write_lines, monkeypatch):
    run("import", write_lines("all.jsonl", RECORDS))
    run("message", "remove", "m3")
    run("message", "edit", "m4", "Changed", "--at", 99)
    context = run_json("assemble", "--room", "den", "--message", "Tea?", "-m", "gpt-4o", "--now", 100)
    printed = run("export").stdout
    monkeypatch.setenv("BRIMFUL_DB", "sqlite:///copy.db")
    assert run_json("import", "-", stdin=printed)["records"]["snapshot"] == 1
    assert run("export").stdout == printed
    assert context["id"] in printed
    assert [message["seq"] for message in run_json("message", "list", "--room", "den")] == [1, 2, 3, 5, 6, 7, 8, 9]


def test_a_room_of_several_pages_is_exported_in_order(run, write_lines):
    run("import", write_lines("den.jsonl", [{"role": "user", "content": str(at)} for at in range(1_100)]))
    records = [json.loads(line) for line in run("export", "--room", "den").stdout.splitlines()]
    assert [each["content"] for each in records if each["record"] == "message"] == [str(at) for at in range(1_100)]


def test_check(run, run_json, write_lines):
    run("import", write_lines("all.jsonl", RECORDS))
    assert run("db", "check").stdout == "no problems found\n"
    assert run_json("db", "check") == []
    with closing(sqlite3.connect("brimful.db")) as connection, connection:
        connection.execute("DELETE FROM contents")
    connection.close()
    lines = run("db", "check", code=1).stdout.splitlines()
    assert lines[0].split() == ["level", "what"]
    assert lines[1].startswith("error")
    assert json.loads(run("db", "check", "--json", code=1).stdout)[0]["level"] == "error"


def test_backup_and_restore(run, run_json, fails, write_lines):
    run("import", write_lines("all.jsonl", RECORDS))
    printed = run("export").stdout
    assert run("db", "backup", "copy.backup").stdout.startswith("wrote copy.backup, ")
    assert fails("db", "backup", "copy.backup") == "copy.backup: already exists; overwrite it with --force"
    assert run_json("db", "backup", "copy.backup", "--force")["file"] == "copy.backup"
    assert run("db", "restore", "copy.backup", "--db", "sqlite:///again.db").stdout == "restored copy.backup: default\n"
    for url in ("sqlite:///again.db", "sqlite:///copy.backup"):
        assert run("export", "--db", url).stdout == printed
    assert "is not empty" in fails("db", "restore", "copy.backup")
    assert fails("db", "restore", "nowhere") == "nowhere: no such file"
    assert run_json("db", "restore", "copy.backup", "--db", "sqlite:///third.db") == {"tenants": ["default"]}


@pytest.mark.parametrize("command", [("db", "check"), ("db", "backup", "x.backup"), ("export",)], ids=" ".join)
def test_no_store(fails, command):
    assert fails(*command).startswith("sqlite:///brimful.db: there is no such store")
    assert not Path("brimful.db").exists()


@pytest.mark.parametrize("command", [("db", "check"), ("room", "list"), ("export",)], ids=" ".join)
@pytest.mark.parametrize("tables", [(), ("CREATE TABLE bookmarks (url TEXT)",)], ids=["empty", "another program's"])
def test_a_question_leaves_a_file_without_a_store_as_it_is(fails, run, write_lines, command, tables):
    connection = sqlite3.connect("places.db")
    for statement in ("CREATE TABLE t (x)", "DROP TABLE t", *tables):
        connection.execute(statement)
    connection.close()
    before = Path("places.db").read_bytes()
    error = fails(*command, "--db", "sqlite:///places.db")
    assert error.startswith("sqlite:///places.db: this file is not a store; create one with `brimful import`")
    run("import", write_lines("all.jsonl", RECORDS), "--dry-run", "--db", "sqlite:///places.db")
    assert Path("places.db").read_bytes() == before
    run("message", "add", "--room", "den", "Hi", "--db", "sqlite:///places.db")
    assert "den" in run("room", "list", "--db", "sqlite:///places.db").stdout


def test_tenants_are_listed_in_pages(run, run_json, write_lines):
    lines = write_lines("all.jsonl", RECORDS)
    for tenant in ("beta", "acme", "corp"):
        run("import", lines, "--tenant", tenant)
    assert run("db", "tenants").stdout == "acme\nbeta\ncorp\n"
    assert run_json("db", "tenants", "--limit", 2) == {"tenants": ["acme", "beta"], "after": "beta"}
    assert run_json("db", "tenants", "--after", "beta") == {"tenants": ["corp"], "after": None}
    page = run("db", "tenants", "--limit", 1)
    assert (page.stdout, page.stderr) == ("acme\n", "brimful: warning: there are more; see them with --after acme\n")
