"""`brimful user`, and notes on the command line."""

import pytest


def test_a_user_is_made_changed_shown_listed_and_removed(run, run_json, fails):
    run("user", "add", "ada", "--lorebook", "family", "--note", "head=It rains.")
    changed = run_json("user", "edit", "ada", "--name", "Ada")
    assert (changed["name"], changed["lorebooks"], len(changed["notes"])) == ("Ada", ["family"], 1)
    assert run_json("user", "show", "ada") == changed
    assert run_json("user", "list") == [changed]
    assert run("user", "show", "ada").stdout.splitlines()[-1].split(maxsplit=1) == ["note", "head=It rains."]
    assert run("user", "list").stdout.splitlines()[1].split() == ["ada", "Ada", "family", "1"]
    assert run_json("user", "remove", "ada", "--yes") == {"id": "ada", "removed": True, "counts": {"users": 1}}
    assert "no user 'ada'" in fails("user", "show", "ada")
    assert "no user 'ada'" in fails("user", "remove", "ada", "--yes")


def test_a_user_without_a_record_is_removed_with_what_is_theirs(run, run_json, fails):
    for user in ("ada", "bob"):
        run("memory", "add", f"{user} likes tea.", "--user", user, "--id", user)
        run("api-key", "add", "--name", user, "--user", user)
    assert fails("user", "remove", "ada").startswith(
        "this removes user 'ada' with their memories, contexts and API keys, and all of their rooms; confirm"
    )
    assert run("user", "remove", "ada", "--yes").stdout == "removed ada: 1 memory, 1 API key\n"
    assert run_json("user", "remove", "bob", "--yes")["counts"] == {"memories": 1, "api_keys": 1}
    assert run_json("api-key", "list") == []


@pytest.mark.parametrize("kind", ["room", "persona", "user"])
def test_a_note_is_set_shown_and_removed(run, run_json, kind):
    said = ["4:assistant:every-3=I am = late.", "0:every-2=Be brief.", "1:user=Hm.", "head=It rains."]
    made = run_json(kind, "add", "den", *(word for note in said for word in ("--note", note)))
    assert [(each["text"], each.get("depth", 0), each.get("role"), each.get("every")) for each in made["notes"]] == [
        ("I am = late.", 4, "assistant", 3),
        ("Be brief.", 0, "system", 2),
        ("Hm.", 1, "user", 1),
        ("It rains.", None, "system", 1),
    ]
    shown = [line.split(maxsplit=1)[1] for line in run(kind, "show", "den").stdout.splitlines() if "note" in line]
    assert shown == said
    run(kind, "edit", "den", "--name", "Den")
    assert run_json(kind, "show", "den")["notes"] == made["notes"]
    assert run_json(kind, "edit", "den", "--note", "")["notes"] == []
    assert run_json(kind, "show", "den")["notes"] == []


@pytest.mark.parametrize(
    "said",
    ["4:=x", "4:narrator=x", "4:every-=x", "4:every-0=x", "4:user:user=x", "head:user=x", ":4=x", "4:user=", "x"],
)
def test_a_note_that_is_none_is_one_line(run, said):
    assert "'--note'" in run("user", "add", "ada", "--note", said, code=2).stderr


def test_explain_says_the_depth_of_a_note(run):
    run("room", "add", "den", "--note", "4=It rains.")
    arguments = ("--message", "Hi", "-m", "gpt-4o", "--embedder", "none", "--dry-run", "--out", "context.json")
    run("assemble", "--room", "den", *arguments)
    output = run("explain", "context.json", "room/den/note-1").stdout
    assert "it is a note at depth 4" in output
