"""`export` writes every record of a kind, and `import` reads it again."""

import json

import pytest

MADE = {
    "memory": ("memory", "add", "Ada likes tea.", "--id", "k1"),
    "persona": ("persona", "add", "nova", "--prompt", "You are Nova."),
    "room": ("room", "add", "support", "--goal", "Help."),
    "message": ("message", "add", "--room", "support", "Hello", "--id", "m1"),
    "user": ("user", "add", "ada", "--name", "Ada"),
}


@pytest.mark.parametrize("kind", MADE)
def test_exports_are_read_again(run, kind):
    for words in MADE.values():
        run(*words)
    run(kind, "export", "--out", "all.jsonl")
    lines = run(kind, "export").stdout.splitlines()
    assert [json.loads(line)["record"] for line in lines] == [kind]
    run("import", "all.jsonl", "--db", "sqlite:///copy.db")
    assert run(kind, "export", "--db", "sqlite:///copy.db").stdout.splitlines() == lines


def test_a_store_is_written_out_as_a_whole(run):
    for words in MADE.values():
        run(*words)
    run("db", "export", "--out", "all.jsonl")
    lines = run("db", "export").stdout.splitlines()
    assert lines == run("export").stdout.splitlines()
    assert sorted(json.loads(line)["record"] for line in lines) == ["memory", "message", "persona", "room", "user"]
    run("import", "all.jsonl", "--db", "sqlite:///copy.db")
    assert run("db", "export", "--db", "sqlite:///copy.db").stdout.splitlines() == lines
