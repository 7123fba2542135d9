"""Import a SillyTavern folder with one command, and build a request from it."""

import base64
import json
import os
from pathlib import Path

import pytest

from formats import sillytavern_samples as world
from formats.conftest import lay_out


@pytest.fixture
def tavern():
    return lay_out(Path("tavern"), world.folder())


def request_of(run, room, message, *more):
    words = ("--room", room, "--message", message, "-m", "gpt-4o", "--embedder", "none", "--request")
    return json.loads(run("assemble", *words, *more).stdout)["messages"]


def test_one_command_and_everything_reaches_the_model(run, tavern):
    run("import", str(tavern))
    messages = request_of(run, world.CHAT, "Is a storm over the forest, and where is my sister? Is that the law?")
    texts = [each["content"] for each in messages]
    whole = "\n".join(texts)
    assert "{{" not in whole
    assert "<BOT>" not in whole
    assert texts[0] == "You are Nova."
    assert "Ada flies with Nova." in whole  # whom he plays in this chat
    assert "Ada is an engineer." not in whole  # and not the other one of that name
    for told in (
        "Eldoria is a forest that Ada knows.",  # of the character
        "Storms last three days.",  # of the chat
        "Her sister is Mira.",  # of whom he plays
        "Nobody lies.",  # open everywhere
    ):
        assert told in whole
    lines = [
        text for text in texts if not text.startswith(("You are", "Description:", "How Nova", "<pinned", "<context"))
    ]
    assert lines == [
        "Welcome aboard, Ada. I am Nova.",
        "Nova hides a map from Ada.",  # three messages from the end
        "Where is the forest?",
        "A storm is near Ada.",  # two
        "Below us.",
        "Is a storm over the forest, and where is my sister? Is that the law?",
        "Stay calm, Nova.",  # last of all
    ]
    roles = {each["content"]: each["role"] for each in messages}
    assert roles["Nova hides a map from Ada."] == "user"
    assert roles["Stay calm, Nova."] == "system"


def test_an_almost_empty_chat_and_a_group_without_chats_can_be_continued(run, tavern):
    run("import", str(tavern))
    texts = [each["content"] for each in request_of(run, world.GREETED, "Hello!")]
    assert "Hello, Ada!" in texts
    assert "Write in the past tense." in texts
    assert any("Ada is an engineer." in text for text in texts)
    texts = [each["content"] for each in request_of(run, world.MEETING, "Anybody?", "--persona", "Luna")]
    assert any("Luna is a pilot." in text for text in texts)


def test_the_persona_can_be_another(run, tavern):
    run("import", str(tavern))
    messages = request_of(run, world.CHAT, "Hm.", "--user", "Eve")
    at = [each["content"] for each in messages].index("Eve is silent.")
    assert (messages[at]["role"], messages[at + 1]["content"]) == ("user", "Hm.")
    assert "flies with" not in json.dumps(messages)


def test_the_record_tells_of_every_note(run, run_json, tavern):
    run("import", str(tavern))
    words = ("--room", world.CHAT, "--message", "Hm.", "-m", "gpt-4o", "--embedder", "none")
    shown = run("assemble", *words).stdout
    assert "Notes:" in shown
    output = run("explain", run_json("context", "list")[0]["id"]).stdout
    assert "NOTES" in output
    assert "Stay calm, Nova." in output


@pytest.mark.parametrize("kept_in", ["sqlite", "encrypted", "postgres"])
def test_a_round_trip_keeps_all_of_it(run, tavern, request, monkeypatch, kept_in):
    run("import", str(tavern))
    run("export", "--out", "all.jsonl")
    if kept_in == "encrypted":
        monkeypatch.setenv("BRIMFUL_KEY", base64.b64encode(os.urandom(32)).decode())
    url = request.getfixturevalue("postgres_url") if kept_in == "postgres" else "sqlite:///other.db"
    run("import", "all.jsonl", "--db", url)
    assert run("export", "--db", url).stdout == Path("all.jsonl").read_text(encoding="utf-8")
    if kept_in == "encrypted":
        assert b"A storm is near" not in Path("other.db").read_bytes()
    question = "Is a storm near?"
    there = request_of(run, world.CHAT, question, "--db", url)
    monkeypatch.delenv("BRIMFUL_KEY", raising=False)
    assert there == request_of(run, world.CHAT, question)


def test_files_come_back_as_they_were(run, tavern):
    run("import", str(tavern))
    lines = run("export", "--room", world.CHAT, "--format", "sillytavern").stdout.splitlines()
    assert list(map(json.loads, lines)) == world.chat()
    assert json.loads(run("export", "--persona", "Nova", "--format", "card").stdout) == world.card()
    book = json.loads(run("lorebook", "export", "Storms").stdout)
    assert book == json.loads(world.folder()["worlds/Storms.json"])


def test_changes_are_written_back(run, tavern):
    run("import", str(tavern))
    run("persona", "edit", "Nova", "--note", "0=Be short.", "--note", "5=She limps.", "--character", "greetings=Hm?")
    run("room", "edit", world.CHAT, "--note", "1=The storm is over.")
    card = json.loads(run("export", "--persona", "Nova", "--format", "card").stdout)["data"]
    assert card["post_history_instructions"] == "Be short."
    assert card["extensions"]["depth_prompt"] == {"prompt": "She limps.", "depth": 5, "role": "system"}
    assert card["extensions"]["world"] == "Eldoria"
    assert card["alternate_greetings"] == ["Hm?"]
    head = json.loads(run("export", "--room", world.CHAT, "--format", "sillytavern").stdout.splitlines()[0])
    assert head["chat_metadata"] == {
        **world.chat()[0]["chat_metadata"],
        "note_prompt": "The storm is over.",
        "note_depth": 1,
    }


def test_a_chat_may_begin_with_another_greeting(run, tavern):
    run("import", str(tavern))
    words = ("chat", "--persona", "Nova", "--user", "Eve", "-m", "gpt-4o", "--embedder", "none")
    assert "Nova: Ahoy, Eve!" in run(*words, "--room", "new", "--greeting", "1", stdin="/quit\n").stdout
    assert "0 to 2, not 3" in run(*words, "--room", "newer", "--greeting", "3", stdin="/quit\n", code=1).stderr


def test_notes_of_our_own(run):
    assert (
        "note      head=It rains." in run("room", "add", "den", "--note", "4=Hush.", "--note", "head=It rains.").stdout
    )
    assert "note      4=Hush." in run("room", "show", "den").stdout
    for wrong in ("Hush.", "x=Hush.", "-1=Hush.", "4=", "20000=Hush."):
        assert "--note" in run("room", "add", "den", "--note", wrong, code=2).stderr
    assert [each["content"] for each in request_of(run, "den", "Hm.")] == ["It rains.", "Hush.", "Hm."]


def test_a_book_of_a_persona_or_a_user_can_be_tried(run, tavern):
    run("import", str(tavern))
    shown = run("lorebook", "try", "--room", world.CHAT, "--message", "my sister", "--embedder", "none", "-m", "gpt-4o")
    assert "Sisters/0" in shown.stdout


def test_a_folder_twice_adds_nothing(run_json, tavern):
    run_json("import", str(tavern))
    again = run_json("import", str(tavern))
    assert again["records"] == {}


def test_settings_that_come_after_the_chats_are_reported(run, tavern):
    run("import", str(tavern / "chats"))
    again = run("import", str(tavern / "chats"))
    later = run("import", str(tavern))
    stays = "it exists and was not changed; the file differs in: "
    assert stays not in again.stdout + again.stderr
    output = later.stdout + later.stderr
    assert f"{stays}owner, lorebooks" in output  # a chat that is locked to another persona
