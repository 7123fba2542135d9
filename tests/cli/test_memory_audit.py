"""brimful memory audit: what is not worth having, and a clean-up that can be undone."""

import pytest


@pytest.fixture
def filled(run, tmp_path):
    db = f"sqlite:///{tmp_path}/m.db"
    for id, text in {
        "one": "Ada plays the violin in Porto.",
        "two": "Ada plays the violin in Porto!",
        "three": "As an AI language model, I cannot play.",
        "four": "Bo repairs bicycles in Graz.",
    }.items():
        run("memory", "add", text, "--id", id, "--db", db)
    return db


def test_an_audit_changes_nothing_unless_told_to(run, run_json, filled):
    shown = run("memory", "audit", "--db", filled).stdout
    assert "near-duplicate  1" in shown
    assert "--apply archives duplicates and junk" in shown
    assert len(run_json("memory", "list", "--db", filled)) == 4


def test_duplicates_and_junk_are_archived_and_come_back(run, run_json, filled):
    assert "to undo it, run `brimful janitor undo`" in run("memory", "audit", "--apply", "--db", filled).stdout
    assert {each["id"] for each in run_json("memory", "list", "--db", filled)} == {"two", "four"}
    assert run_json("memory", "audit", "--db", filled)["findings"] == []
    run("janitor", "undo", "--db", filled)
    assert len(run_json("memory", "list", "--db", filled)) == 4


def test_a_wrong_age_is_an_error(run, filled):
    assert "unused_for" in run("memory", "audit", "--unused-for", "soon", "--db", filled, code=1).stderr
