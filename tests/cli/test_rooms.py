"""brimful room, message, persona: what is written is shown, in every form."""

import json
from pathlib import Path

import pytest

AT = "2026-11-01T12:00:00Z"


def test_a_room_is_made_changed_and_shown(run, run_json):
    run("room", "create", "support", "--goal", "Solve it", "--header", "Be brief.", "--header", "Be kind.")
    run("room", "create", "support", "--user", "ada", "--name", "Support", "--lorebook", "products")
    room = run_json("room", "show", "support")
    assert {key: room[key] for key in ("name", "user", "goal", "headers", "lorebooks", "messages", "last")} == {
        "name": "Support",
        "user": "ada",
        "goal": "Solve it",
        "headers": ["Be brief.", "Be kind."],
        "lorebooks": ["products"],
        "messages": 0,
        "last": None,
    }
    text = run("room", "show", "support").stdout
    assert "goal       Solve it" in text
    assert "header     Be kind." in text


def test_rooms_are_listed(run, run_json):
    for room, user in (("a", "ada"), ("b", "bob"), ("c", "ada")):
        run("room", "create", room, "--user", user)
    run("message", "post", "b", "Hi", "--at", AT)
    assert run("room", "list").stdout.splitlines()[2].split() == ["b", "bob", "1", "2026-11-01", "12:00:00"]
    assert [room["id"] for room in run_json("room", "list", "--after", "a", "--limit", 1)] == ["b"]
    assert {room["id"] for room in run_json("room", "list", "--user", "ada")} == {"a", "c"}
    run("room", "list", "--user", "ada", "--after", "a", code=2)


def test_a_room_counts_what_it_holds(run, run_json):
    for at in range(12):
        run("message", "post", "den", "Buy one of our excellent carpets today!", "--id", f"m{at}", "--at", AT)
    run("message", "post", "den", "Hm.", "--at", AT)
    run("message", "delete", "m3")
    assert run_json("room", "show", "den")["messages"] == 12
    run("janitor", "run")
    assert run_json("room", "show", "den")["messages"] == 12, "what is set aside is there"
    run("janitor", "run", "--purge")
    assert [room["messages"] for room in run_json("room", "list")] == [1]


def test_exported_records_are_whole_and_in_order(run):
    for at in range(3):
        run("message", "post", "den", f"Number {at}", "--id", f"m{at}", "--at", AT)
    run("message", "delete", "m1")
    rows = [json.loads(line) for line in run("export", "--room", "den").stdout.splitlines()]
    assert [(row["record"], row["id"]) for row in rows] == [("room", "den"), ("message", "m0"), ("message", "m2")]


def test_a_message_is_posted_listed_shown_edited_and_deleted(run, run_json, fails):
    assert run("message", "post", "den", "Hi\nthere", "--sender", "Ada", "--id", "m1", "--at", AT).stdout == "m1\n"
    run("message", "post", "den", "-", "--role", "assistant", "--id", "m2", "--at", AT, stdin="Hello\n")
    assert run("message", "list", "den").stdout.splitlines()[1:] == [
        "  1  2026-11-01 12:00:00  user       Ada     m1  Hi there",
        "  2  2026-11-01 12:00:00  assistant          m2  Hello",
    ]
    assert [each["id"] for each in run_json("message", "list", "den", "--before", 2)] == ["m1"]
    assert [each["id"] for each in run_json("message", "list", "den", "--limit", 1)] == ["m2"]
    assert run("message", "show", "m1").stdout.endswith("\n\nHi\nthere\n")
    assert run_json("message", "edit", "m1", "Bye", "--at", AT)["content"] == "Bye"
    assert "edited  2026-11-01 12:00:00" in run("message", "edit", "m1", "-", "--at", AT, stdin="So long").stdout
    assert run_json("message", "show", "m1")["content"] == "So long"
    assert run("message", "delete", "m1").stdout == "deleted m1\n"
    assert fails("message", "show", "m1") == "no message 'm1'"
    assert run_json("message", "delete", "m2", "--erase") == {"id": "m2", "deleted": True, "erased": True}
    assert run("message", "list", "den").stdout.splitlines()[1:] == []


def test_a_room_that_there_is_not_is_told_from_one_in_which_nothing_was_said(run, fails):
    run("room", "create", "den")
    assert run("message", "list", "den").stdout.splitlines()[1:] == []
    assert fails("message", "list", "dne") == "no room 'dne'"


def test_the_same_id_is_one_message(run_json):
    for text in ("Hi", "Something else"):
        assert run_json("message", "post", "den", text, "--id", "m1")["content"] == "Hi"
    assert len(run_json("message", "list", "den")) == 1


def test_an_id_that_is_taken_is_said_to_be(run, fails):
    assert run("message", "post", "den", "Hi", "--id", "m1", "--at", AT).stderr == ""
    assert run("message", "post", "den", "Hi", "--id", "m1").stderr == ""
    for there in (
        ("den", "Something else"),
        ("den", "Hi", "--sender", "Ada"),
        ("den", "Hi", "--role", "tool"),
    ):
        posted = run("message", "post", *there, "--id", "m1")
        assert posted.stderr == "brimful: warning: message 'm1' is there already, and stays as it is\n"
    assert "is that of a message in room 'den'" in fails("message", "post", "attic", "Hi", "--id", "m1")
    run("message", "delete", "m1")
    assert "was deleted, and its id cannot be used again" in fails("message", "post", "den", "Hi", "--id", "m1")


def test_what_steers_a_terminal_is_not_shown(run):
    run("message", "post", "den", "\x1b[31mred\nline", "--id", "m1")
    for command in (("list", "den"), ("show", "m1")):
        assert "\x1b" not in run("message", *command).stdout


def test_a_persona_is_made_changed_shown_and_removed(run, run_json, fails):
    Path("nova.txt").write_text("You are Nova.\nBe brief.\n", encoding="utf-8")
    run("persona", "create", "nova", "--prompt-file", "nova.txt", "--model", "gpt-4o", "--set", "max_messages=50")
    run("persona", "create", "nova", "--name", "Nova", "--policy", "window", "--lorebook", "products")
    persona = run_json("persona", "show", "nova")
    assert {key: persona[key] for key in ("name", "prompt", "model", "policy", "overrides", "lorebooks")} == {
        "name": "Nova",
        "prompt": "You are Nova.\nBe brief.",
        "model": "gpt-4o",
        "policy": "window",
        "overrides": {"max_messages": 50},
        "lorebooks": ["products"],
    }
    assert run("persona", "show", "nova").stdout.endswith("\n\nYou are Nova.\nBe brief.\n")
    assert run("persona", "list").stdout.splitlines()[1] == "nova     Nova  gpt-4o  window  You are Nova. Be brief."
    assert run("persona", "remove", "nova").stdout == "removed nova\n"
    assert fails("persona", "remove", "nova") == "no persona 'nova'"
    assert fails("persona", "show", "nova") == "no persona 'nova'"


def test_a_persona_that_could_not_be_used_is_refused(run, fails):
    assert fails("persona", "create", "nova", "--policy", "nonsense").startswith("no policy 'nonsense'; known: ")
    assert "unknown field `most`" in fails("persona", "create", "nova", "--set", "most=1")
    run("persona", "create", "nova", "--prompt", "a", "--prompt-file", "b", code=2)
    assert "warning: unknown model" in run("persona", "create", "nova", "--model", "nonsense-9").stderr.lower()


@pytest.mark.parametrize(
    "command",
    [
        ("room", "list"),
        ("room", "show", "x"),
        ("export", "--room", "x"),
        ("message", "list", "x"),
        ("message", "edit", "x", "y"),
        ("memory", "list"),
        ("memory", "search", "x"),
        ("persona", "remove", "x"),
        ("assemble", "--room", "x"),
        ("index", "--status"),
    ],
    ids=" ".join,
)
def test_a_question_makes_no_store(fails, command):
    expected = "sqlite:///brimful.db: there is no such store; `brimful import` or `brimful room create` makes one"
    assert fails(*command) == expected
    assert not Path("brimful.db").exists()


@pytest.mark.parametrize("group", ["room", "message", "memory", "persona"])
def test_a_group_alone_shows_its_commands_with_examples(run, group):
    text = run(group, "--help").stdout
    assert "Examples:" in text
    assert f"brimful {group} " in text


def test_an_unknown_room(run, fails):
    run("room", "create", "a")
    assert fails("room", "show", "b") == "no room 'b'"
    assert fails("export", "--room", "b", "--out", "b.jsonl") == "no room 'b'"
    assert not Path("b.jsonl").exists()


def test_a_file_that_is_no_store(fails):
    Path("brimful.db").write_text("nonsense " * 1000, encoding="utf-8")
    assert fails("room", "list").startswith("sqlite:///brimful.db: ")
