"""brimful lorebook: write, import, export and try lorebooks."""

import json
from pathlib import Path

import pytest

WORLD_INFO = {
    "entries": {
        "0": {"uid": 0, "key": ["Eldoria"], "content": "A forest by the Moonwell.", "order": 100, "theirs": {"a": 1}},
        "1": {"uid": 1, "key": ["moonwell"], "content": "It heals.", "order": 90, "sticky": 4},
        "2": {"uid": 2, "key": ["forest"], "content": "Rain.", "group": "weather"},
        "3": {"uid": 3, "key": ["forest"], "content": "Fog.", "group": "weather", "groupOverride": True},
    }
}


@pytest.fixture
def world(run):
    """A room that looks into a book that came from SillyTavern."""
    Path("Eldoria.json").write_text(json.dumps(WORLD_INFO), encoding="utf-8")
    output = run("lorebook", "import", "Eldoria.json").stdout
    run("room", "add", "tavern", "--lorebook", "Eldoria")
    return output


def test_a_book_comes_in_is_tried_and_given_back(run, run_json, world):
    assert world.splitlines()[0] == "Eldoria: 4 entries (sillytavern)"
    tried = run_json("lorebook", "try", "--room", "tavern", "--message", "To Eldoria's forest!", "--embedder", "none")
    assert {row["id"]: row["why"] for row in tried["included"]} == {
        "Eldoria/0": "keyword 'Eldoria' in the current message",
        "Eldoria/1": "keyword 'moonwell' in entry 'Eldoria/0'",
        "Eldoria/3": "keyword 'forest' in the current message",
    }
    (lost,) = tried["left_out"]
    assert (lost["id"], lost["reason"]) == ("Eldoria/2", "excluded")
    assert lost["why"] == "group: 'Eldoria/3' won group 'weather'"
    assert lost["lore"]["keyword"] == "forest"
    run("lorebook", "export", "Eldoria", "--out", "again.json")
    assert json.loads(Path("again.json").read_text(encoding="utf-8")) == WORLD_INFO


@pytest.mark.usefixtures("world")
def test_trying_leaves_no_trace_and_shows_tokens(run):
    output = run("lorebook", "try", "--room", "tavern", "--message", "moonwell", "--embedder", "none").stdout
    assert output.splitlines()[0].startswith("included: 1 entry, ")
    assert output.splitlines()[-1] == "left out: nothing"
    assert "Eldoria/1" not in run("explain", "ctx-1", code=1).output


@pytest.mark.usefixtures("world")
def test_the_same_file_again_replaces_what_it_brought_and_nothing_else(run, run_json):
    run("lorebook", "add", "Eldoria", "Mine.", "--key", "mine", "--id", "mine")
    smaller = {"entries": {"1": {**WORLD_INFO["entries"]["1"], "content": "It heals all."}}}
    Path("Eldoria.json").write_text(json.dumps(smaller), encoding="utf-8")
    assert run_json("lorebook", "import", "Eldoria.json") == {
        "id": "Eldoria",
        "format": "sillytavern",
        "entries": 1,
        "removed": 3,
    }
    entries = run_json("lorebook", "show", "Eldoria")["entries"]
    assert {entry["id"]: entry["content"] for entry in entries} == {"Eldoria/1": "It heals all.", "mine": "Mine."}


def test_entries_are_added_changed_shown_and_removed(run, run_json):
    add = (
        "lorebook",
        "add",
        "world",
        "-",
        "--key",
        "queen",
        "--secondary",
        "age",
        "--logic",
        "not-any",
        "--name",
        "Queen",
    )
    assert run(*add, "--id", "q", "--order", 7, "--set", "sticky=3", stdin="She is old.\n").stdout == "q\n"
    entry = run_json("lorebook", "show", "world", "q")
    assert (entry["content"], entry["keys"], entry["logic"], entry["sticky"]) == (
        "She is old.",
        ["queen"],
        "not-any",
        3,
    )
    changed = run_json(
        *("lorebook", "edit", "world", "q", "--set", 'keys=["king"]', "--set", "probability=0.5", "--text", "He.")
    )
    assert (changed["keys"], changed["probability"], changed["sticky"], changed["content"]) == (["king"], 0.5, 3, "He.")
    shown = run("lorebook", "show", "world", "q").stdout
    assert "keys         king\n" in shown
    assert shown.endswith("\nHe.\n")
    assert run_json("lorebook", "edit", "world", "--set", "budget=90")["budget"] == 90
    assert run("lorebook", "list").stdout.splitlines()[1].split() == ["world", "1", "5", "0", "90"]
    assert run_json("lorebook", "list")[0]["entries"] == 1
    assert run("lorebook", "remove", "world", "q").stdout == "removed q\n"
    removed = {"id": "world", "removed": True, "counts": {"lorebooks": 1}}
    assert run_json("lorebook", "remove", "world") == removed
    assert run_json("lorebook", "list") == []


@pytest.mark.parametrize("format", ["sillytavern", "v2", "v3"])
def test_a_book_of_ours_goes_out_in_every_format_and_comes_back(run, run_json, format):
    run("lorebook", "add", "world", "She is old.", "--key", "queen", "--set", "importance=0.9", "--id", "world/0")
    run("lorebook", "export", "world", "--format", format, "--out", "out.json")
    before = run_json("lorebook", "show", "world", "world/0")
    run("lorebook", "remove", "world")
    assert run_json("lorebook", "import", "out.json", "--id", "world")["format"] == format
    after = run_json("lorebook", "show", "world")["entries"][0]
    assert {**after, "id": 0, "settings": {}} == {**before, "id": 0, "settings": {}}


def test_the_book_of_a_character_card_is_taken(run, run_json):
    card = {"spec": "chara_card_v2", "data": {"name": "Nova", "character_book": {"entries": [{"keys": ["a"]}]}}}
    Path("card.json").write_text(json.dumps(card), encoding="utf-8")
    assert run_json("lorebook", "import", "card.json", "--name", "Nova's") == {
        "id": "card",
        "format": "v2",
        "entries": 1,
        "removed": 0,
    }
    assert run_json("lorebook", "list")[0]["name"] == "Nova's"
    Path("card.json").write_text(json.dumps({"spec": "chara_card_v2", "data": {}}), encoding="utf-8")
    assert "has no lorebook" in run("lorebook", "import", "card.json", code=1).stderr


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("show", "nope"), "no lorebook 'nope'"),
        (("show", "Eldoria", "nope"), "no lore entry 'nope'"),
        (("remove", "Eldoria", "nope"), "no lore entry 'nope'"),
        (
            ("edit", "Eldoria", "--set", "scan=3"),
            "there is no field 'scan'; the fields are name, description, scan_depth",
        ),
        (("edit", "Eldoria", "Eldoria/1", "--set", "sticky=-1"), "sticky: must be a whole number from 0"),
        (("edit", "Eldoria", "Eldoria/1", "--set", "keys=4"), "Expected `array`, got `int` - at `$.keys`"),
        (("add", "other", "x", "--id", "Eldoria/1"), "'Eldoria/1' is an entry of another lorebook"),
        (("import", "nope.json"), "nope.json: no such file"),
        (("try", "--room", "hall", "--message", "x"), "no room 'hall'"),
    ],
)
def test_errors_are_one_line(run, command, told):
    errors = run("lorebook", *command, code=1).stderr
    assert told in errors
    assert len(errors.splitlines()) == 1


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    "command", [("edit", "Eldoria"), ("edit", "Eldoria", "--text", "x"), ("edit", "Eldoria", "--set", "sticky")]
)
def test_a_usage_error_is_reported(run, command):
    run("lorebook", *command, code=2)


def test_a_damaged_file_leaves_the_store_as_it_was(run, run_json):
    run("lorebook", "add", "world", "x", "--id", "world/0")
    Path("world.json").write_text('{"entries": {"0": {"key": ["a"], "content": "y"}, "1": 7}}', encoding="utf-8")
    assert "entries[1]: must be a JSON object" in run("lorebook", "import", "world.json", code=1).stderr
    assert [entry["content"] for entry in run_json("lorebook", "show", "world")["entries"]] == ["x"]


def test_an_entry_with_an_expression_over_a_limit_is_skipped_with_a_warning(run):
    bad = {"uid": 4, "key": ["/(?:a{1000}){100000}/"], "content": "\x1b[31mBoom."}
    Path("Eldoria.json").write_text(json.dumps({"entries": {**WORLD_INFO["entries"], "4": bad}}), encoding="utf-8")
    done = run("lorebook", "import", "Eldoria.json")
    assert done.stdout.splitlines()[0] == "Eldoria: 4 entries (sillytavern)"
    assert done.stderr == (
        "brimful: warning: skipped Eldoria/4: the regular expression '/(?:a{1000}){100000}/' unrolls to 100,100,000 "
        "elements; the limit is 20,000\n"
    )
    assert "the limit is 20,000" in run("lorebook", "add", "Eldoria", "Boom.", "--key", "/a{99999}/", code=1).stderr
