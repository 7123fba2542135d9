"""Commands print the same on PostgreSQL as on SQLite."""

import pytest

AT = "2026-11-01T12:00:00Z"
CHAT = [
    {"role": "user", "name": "Ada", "content": "My bicycle is called Rosinante.", "timestamp": AT},
    {"role": "assistant", "content": "A fine name."},
    {"role": "robot", "content": "beep"},
]
STORY = (
    ("import", "chat.jsonl"),
    ("import", "chat.jsonl"),
    ("room", "edit", "chat", "--user", "ada", "--goal", "Ride"),
    ("room", "list"),
    ("message", "add", "--room", "chat", "Where is it?", "--id", "m1", "--at", AT),
    ("message", "edit", "m1", "Where is my bicycle?", "--at", AT),
    ("memory", "add", "Ada is allergic to hazelnut.", "--user", "ada", "--id", "nut", "--at", AT),
    ("memory", "add", "The shop closes at six.", "--pin", "--id", "shop", "--at", AT),
    ("memory", "list", "--json"),
    ("persona", "add", "nova", "--prompt", "You are Nova.", "--model", "gpt-4o"),
    ("index",),
    ("memory", "search", "Is she allergic?", "--user", "ada", "--limit", 1),
    ("assemble", "--room", "chat", "--persona", "nova", "--now", AT),
    ("memory", "show", "nut"),
    ("lorebook", "add", "world", "It has a bell.", "--key", "bicycle", "--id", "bell"),
    ("lorebook", "edit", "world", "bell", "--set", "sticky=4"),
    ("lorebook", "list"),
    ("room", "edit", "chat", "--lorebook", "world"),
    ("lorebook", "try", "--room", "chat", "--message", "My bicycle?"),
    ("lorebook", "export", "world", "--format", "v2"),
    ("lorebook", "remove", "world"),
    ("message", "remove", "m1"),
    ("export", "--room", "chat"),
    ("persona", "remove", "nova"),
)


@pytest.fixture
def told(run, write_lines, monkeypatch):
    """Run the story on a store, and return what each command said, and how each failure ended."""
    write_lines("chat.jsonl", CHAT)

    def tell(url):
        monkeypatch.setenv("BRIMFUL_DB", url)
        said = [run(*command).stdout for command in STORY]
        return [*said, run("message", "show", "m1", code=1).stderr]

    return tell


def test_the_same_story(told, postgres_url):
    assert told(postgres_url) == told("sqlite:///chat.db")


def test_a_server_out_of_reach_is_one_line(fails):
    line = fails("room", "list", "--db", "postgresql://ada:secret@127.0.0.1:9/chat?connect_timeout=1")
    assert line.startswith("postgresql://ada@127.0.0.1:9/chat: ")
    assert "secret" not in line


def test_a_store_moves_by_backup_and_by_export(run, run_json, told, postgres_url):
    told(postgres_url)
    exported = run("export").stdout
    run("db", "backup", "copy.backup")
    assert run("export", "--db", "sqlite:///copy.backup").stdout == exported
    assert run_json("db", "check") == run_json("db", "check", "--db", "sqlite:///copy.backup") == []
    run("import", "-", "--db", "sqlite:///text.db", stdin=exported)
    assert run("export", "--db", "sqlite:///text.db").stdout == exported
    run("db", "restore", "copy.backup", "--db", "sqlite:///third.db")
    assert run("export", "--db", "sqlite:///third.db").stdout == exported
