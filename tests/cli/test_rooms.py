"""brimful room, message and persona."""

import json
from pathlib import Path

import pytest

AT = "2026-11-01T12:00:00Z"


def test_a_room_is_added_changed_and_shown(run, run_json, fails):
    run("room", "add", "support", "--goal", "Solve it", "--header", "Be brief.", "--header", "Be kind.")
    run("room", "edit", "support", "--user", "ada", "--name", "Support", "--lorebook", "products")
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
    assert fails("room", "add", "support") == "room 'support' already exists; change it with `brimful room edit`"
    assert fails("room", "edit", "supprot", "--name", "Support") == "no room 'supprot'"


def test_a_room_is_removed_with_everything_in_it(run, run_json, fails):
    for room in ("den", "hall"):
        run("message", "add", "--room", room, "Hi", "--id", f"{room}-1")
        run("memory", "add", "It is warm here.", "--room", room, "--id", f"{room}-warm")
        run("assemble", "--room", room, "-m", "gpt-4o", "--embedder", "none")
    assert fails("room", "remove", "den") == (
        "this removes room 'den' with its 1 message, memories and contexts; confirm it with --yes"
    )
    assert [room["id"] for room in run_json("room", "list")] == ["den", "hall"]
    assert run_json("room", "remove", "den", "--yes") == {
        "id": "den",
        "removed": True,
        "counts": {"rooms": 1, "messages": 1, "memories": 1, "contexts": 1},
    }
    assert [room["id"] for room in run_json("room", "list")] == ["hall"]
    assert [memory["id"] for memory in run_json("memory", "list")] == ["hall-warm"]
    assert [context["room"] for context in run_json("context", "list")] == ["hall"]
    assert fails("message", "show", "den-1") == "no message 'den-1'"
    assert fails("room", "remove", "den", "--yes") == "no room 'den'"
    assert run("db", "check").stdout == "no problems found\n"


@pytest.mark.parametrize(
    "command",
    [
        ("assemble", "--room", "dne", "--message", "Hi", "-m", "gpt-4o"),
        ("inspect", "--room", "dne", "--message", "Hi"),
        ("lorebook", "try", "--room", "dne", "--message", "Hi"),
        ("message", "list", "--room", "dne"),
        ("memory", "search", "tea", "--room", "dne"),
        ("context", "list", "--room", "dne"),
        ("context", "export", "--room", "dne", "--out", "x.jsonl"),
        ("stats", "--room", "dne"),
        ("monitor", "--room", "dne"),
        ("replay", "--last", "1d", "--room", "dne"),
        ("janitor", "run", "--room", "dne"),
        ("export", "--room", "dne"),
    ],
    ids=" ".join,
)
def test_a_room_that_does_not_exist_is_an_error_and_saves_nothing(run, run_json, fails, command):
    run("message", "add", "--room", "den", "Hi")
    assert fails(*command) == "no room 'dne'"
    assert [room["id"] for room in run_json("room", "list")] == ["den"]
    assert run_json("context", "list") == []


def test_a_file_name_is_a_store(run, run_json):
    run("room", "add", "den", "--db", "notes.db")
    assert Path("notes.db").is_file()
    assert run_json("room", "list", "--db", "sqlite:///notes.db") == run_json("room", "list", "--db", "./notes.db")


def test_rooms_are_listed(run, run_json):
    for room, user in (("a", "ada"), ("b", "bob"), ("c", "ada")):
        run("room", "add", room, "--user", user)
    run("message", "add", "--room", "b", "Hi", "--at", AT)
    assert run("room", "list").stdout.splitlines()[2].split() == ["b", "bob", "1", "2026-11-01", "12:00:00"]
    assert [room["id"] for room in run_json("room", "list", "--after", "a", "--limit", 1)] == ["b"]
    assert {room["id"] for room in run_json("room", "list", "--user", "ada")} == {"a", "c"}
    run("room", "list", "--user", "ada", "--after", "a", code=2)


def test_a_room_counts_what_it_holds(run, run_json):
    for at in range(12):
        run("message", "add", "--room", "den", "Buy one of our excellent carpets today!", "--id", f"m{at}", "--at", AT)
    run("message", "add", "--room", "den", "Hm.", "--at", AT)
    run("message", "remove", "m3")
    assert run_json("room", "show", "den")["messages"] == 12
    run("janitor", "run")
    assert run_json("room", "show", "den")["messages"] == 12, "archived messages count"
    run("janitor", "run", "--purge")
    assert [room["messages"] for room in run_json("room", "list")] == [1]


def test_exported_records_are_whole_and_in_order(run):
    for at in range(3):
        run("message", "add", "--room", "den", f"Number {at}", "--id", f"m{at}", "--at", AT)
    run("message", "remove", "m1")
    rows = [json.loads(line) for line in run("export", "--room", "den").stdout.splitlines()]
    assert [(row["record"], row["id"]) for row in rows] == [("room", "den"), ("message", "m0"), ("message", "m2")]


def test_a_message_is_posted_listed_shown_edited_and_deleted(run, run_json, fails):
    assert (
        run("message", "add", "--room", "den", "Hi\nthere", "--sender", "Ada", "--id", "m1", "--at", AT).stdout
        == "m1\n"
    )
    run("message", "add", "--room", "den", "-", "--role", "assistant", "--id", "m2", "--at", AT, stdin="Hello\n")
    assert run("message", "list", "--room", "den").stdout.splitlines()[1:] == [
        "  1  2026-11-01 12:00:00  user       Ada     m1  Hi there",
        "  2  2026-11-01 12:00:00  assistant          m2  Hello",
    ]
    assert [each["id"] for each in run_json("message", "list", "--room", "den", "--before", 2)] == ["m1"]
    assert [each["id"] for each in run_json("message", "list", "--room", "den", "--limit", 1)] == ["m2"]
    assert run("message", "show", "m1").stdout.endswith("\n\nHi\nthere\n")
    assert run_json("message", "edit", "m1", "Bye", "--at", AT)["content"] == "Bye"
    assert "edited  2026-11-01 12:00:00" in run("message", "edit", "m1", "-", "--at", AT, stdin="So long").stdout
    assert run_json("message", "show", "m1")["content"] == "So long"
    assert run("message", "remove", "m1").stdout == "removed m1\n"
    assert fails("message", "show", "m1") == "no message 'm1'"
    assert run_json("message", "remove", "m2", "--erase") == {"id": "m2", "removed": True, "erased": True}
    assert run("message", "list", "--room", "den").stdout == "no messages\n"


def test_an_unknown_room_differs_from_an_empty_one(run, fails):
    run("room", "add", "den")
    assert run("message", "list", "--room", "den").stdout == "no messages\n"
    assert fails("message", "list", "--room", "dne") == "no room 'dne'"


def test_the_same_id_is_one_message(run_json):
    for text in ("Hi", "Something else"):
        assert run_json("message", "add", "--room", "den", text, "--id", "m1")["content"] == "Hi"
    assert len(run_json("message", "list", "--room", "den")) == 1


def test_a_used_id_is_reported(run, fails):
    assert run("message", "add", "--room", "den", "Hi", "--id", "m1", "--at", AT).stderr == ""
    assert run("message", "add", "--room", "den", "Hi", "--id", "m1").stderr == ""
    for there in (
        ("den", "Something else"),
        ("den", "Hi", "--sender", "Ada"),
        ("den", "Hi", "--role", "tool"),
    ):
        posted = run("message", "add", "--room", *there, "--id", "m1")
        assert posted.stderr == "brimful: warning: message 'm1' already exists and was not changed\n"
    assert "is the id of a message in room 'den'" in fails("message", "add", "--room", "attic", "Hi", "--id", "m1")
    run("message", "remove", "m1")
    assert "was removed, and its id cannot be used again" in fails(
        "message", "add", "--room", "den", "Hi", "--id", "m1"
    )


def test_control_characters_are_not_shown(run):
    run("message", "add", "--room", "den", "\x1b[31mred\nline", "--id", "m1")
    for command in (("list", "--room", "den"), ("show", "m1")):
        assert "\x1b" not in run("message", *command).stdout


def test_a_persona_is_made_changed_shown_and_removed(run, run_json, fails):
    Path("nova.txt").write_text("You are Nova.\nBe brief.\n", encoding="utf-8")
    run("persona", "add", "nova", "--prompt-file", "nova.txt", "--model", "gpt-4o", "--set", "max_messages=50")
    run("persona", "edit", "nova", "--name", "Nova", "--policy", "window", "--lorebook", "products")
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
    assert run("persona", "remove", "nova").stdout == "removed nova: 1 persona\n"
    assert fails("persona", "remove", "nova") == "no persona 'nova'"
    assert fails("persona", "show", "nova") == "no persona 'nova'"


def test_a_persona_that_could_not_be_used_is_refused(run, fails):
    assert fails("persona", "add", "nova", "--policy", "nonsense").startswith("no policy 'nonsense'; known: ")
    assert "unknown field `most`" in fails("persona", "add", "nova", "--set", "most=1")
    run("persona", "add", "nova", "--prompt", "a", "--prompt-file", "b", code=2)
    assert "warning: unknown model" in run("persona", "add", "nova", "--model", "nonsense-9").stderr.lower()


@pytest.mark.parametrize(
    "command",
    [
        ("room", "list"),
        ("room", "show", "x"),
        ("export", "--room", "x"),
        ("message", "list", "--room", "x"),
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
    expected = "sqlite:///brimful.db: there is no such store; create one with `brimful import` or `brimful room add`"
    assert fails(*command) == expected
    assert not Path("brimful.db").exists()


@pytest.mark.parametrize("group", ["room", "message", "memory", "persona"])
def test_a_group_alone_shows_its_commands_with_examples(run, group):
    text = run(group, "--help").stdout
    assert "Examples:" in text
    assert f"brimful {group} " in text


def test_an_unknown_room(run, fails):
    run("room", "add", "a")
    assert fails("room", "show", "b") == "no room 'b'"
    assert fails("export", "--room", "b", "--out", "b.jsonl") == "no room 'b'"
    assert not Path("b.jsonl").exists()


def test_a_file_that_is_no_store(fails):
    Path("brimful.db").write_text("nonsense " * 1000, encoding="utf-8")
    assert fails("room", "list").startswith("sqlite:///brimful.db: ")
