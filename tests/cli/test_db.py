"""brimful db: a store as a whole."""

import json
from pathlib import Path

import pytest

from brimful.engine import outflow


def test_migrate_makes_a_store_and_changes_nothing_the_second_time(run, run_json):
    assert run("db", "migrate").stdout == "the tables are up to date now\n"
    assert run("db", "migrate").stdout == "the tables were up to date\n"
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


@pytest.mark.parametrize("page", [1, 3, 500])
def test_all_records_are_exported_and_come_back(run, run_json, write_lines, monkeypatch, page):
    monkeypatch.setattr(outflow, "PAGE", page)
    run("import", write_lines("all.jsonl", RECORDS))
    run("db", "export", "--out", "out.jsonl")
    exported = [json.loads(line) for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sorted(row["id"] for row in exported) == sorted(row["id"] for row in RECORDS)
    printed = run("db", "export").stdout
    assert [json.loads(line) for line in printed.splitlines()] == exported
    monkeypatch.setenv("BRIMFUL_DB", "sqlite:///copy.db")
    run("import", "-", stdin=printed)
    assert run("db", "export").stdout == printed
    assert run_json("import", "out.jsonl")["known"] == len(RECORDS)


def test_another_tenant_is_not_in_it(run, write_lines):
    run("import", write_lines("all.jsonl", RECORDS), "--tenant", "acme")
    assert run("db", "export").stdout == ""


def test_no_store_to_export(fails):
    assert fails("db", "export").startswith("sqlite:///brimful.db: there is no such store")
