"""brimful import and brimful export: a whole history, imported and exported again."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from formats import samples
from formats.conftest import lay_out, packed

CHAT = "Nova/Nova - 2024-1-5 @14h 56m 50s 682ms"
GROUP = "group/2024-2-1 @10h 00m 00s 000ms"


@pytest.fixture
def tavern():
    return lay_out(Path("tavern"), samples.tavern_folder())


def request_of(run, room, message, *more):
    result = run(
        "assemble", "--room", room, "--message", message, "-m", "gpt-4o", "--embedder", "none", "--request", *more
    )
    return result.stdout


# -- a SillyTavern user's folder -------------------------------------------------------------------------------------


def test_one_command_imports_a_folder_and_its_chats_can_be_continued(run, tavern):
    report = run("import", str(tavern)).stdout
    assert "2 personas" in report
    assert "3 lorebooks" in report
    assert "7 messages (5 assistant, 2 user)" in report
    assert "already there" not in report
    request = request_of(run, CHAT, "Tell me more about the forest.")
    assert "You are Nov." in request  # the persona is the room's own, and her nickname is put in
    assert "Nov is a pilot." in request
    assert "Ada is an engineer." in request
    assert "Eldoria is a forest." in request
    assert "Where is the forest?" in request
    assert "nobody is to see" not in request


def test_lore_is_included_once_its_keyword_appears(run, tavern):
    run("import", str(tavern))
    assert "Eldoria is a forest." not in request_of(run, GROUP, "What is for dinner?")
    assert "Eldoria is a forest." in request_of(run, GROUP, "How far is Eldoria?", "--persona", "Luna")


def test_a_chat_goes_on_where_it_ended(run, tavern):
    run("import", str(tavern))
    shown = run("chat", "--room", CHAT, "-m", "gpt-4o", "--embedder", "none", stdin="/quit\n").stdout
    assert "Nova: Below us." in shown


def test_a_folder_twice_adds_nothing_and_a_chat_that_has_grown_the_rest(run_json, tavern):
    run_json("import", str(tavern))
    assert run_json("import", str(tavern))["records"] == {}
    chat = tavern / "chats/Nova" / f"{CHAT.partition('/')[2]}.jsonl"
    with chat.open("ab") as file:
        file.write(samples.lines([samples.tavern_message("Ada", "And the sea?", "2024-01-06T00:00:00Z", user=True)]))
    assert run_json("import", str(tavern))["records"] == {"message": 1}


def test_the_folder_and_its_archive_are_the_same(run, tavern):
    run("import", str(tavern))
    packed(Path("tavern.zip"), samples.tavern_folder())
    run("import", "tavern.zip", "--db", "sqlite:///other.db")
    assert without_times(run("export").stdout) == without_times(run("export", "--db", "sqlite:///other.db").stdout)


def test_both_sorts_of_stores_hold_the_same(run, tavern, postgres_url):
    run("import", str(tavern))
    run("import", str(tavern), "--db", postgres_url)
    assert run("export").stdout == run("export", "--db", postgres_url).stdout


def without_times(text):
    """Lines without the time of the file, where that stands for one that nobody told."""
    rows = map(json.loads, text.splitlines())
    return [{**row, "at": None} if row["record"] == "memory" else row for row in rows]


def test_a_second_card_with_the_same_name_is_reported(run_json):
    Path("a.json").write_bytes(samples.written(samples.v2_card()))
    Path("b.json").write_bytes(samples.written({**samples.v2_card(), "create_date": "later"}))
    run_json("import", "a.json")
    intake = run_json("import", "b.json")
    assert [skips["reason"].partition(";")[0] for skips in intake["skipped"]] == [
        "a persona of this name came from another card"
    ]


def test_an_existing_lorebook_stays_and_a_differing_one_is_reported(run, run_json):
    Path("Eldoria.json").write_bytes(samples.written(samples.world_info()))
    run("import", "Eldoria.json")
    assert run_json("import", "Eldoria.json")["skipped"] == []
    other = samples.world_info()
    other["entries"]["0"]["content"] = "Eldoria is a sea."
    Path("Eldoria.json").write_bytes(samples.written(other))
    assert run_json("import", "Eldoria.json")["skipped"][0]["locations"] == ["Eldoria.json: Eldoria/0"]
    assert "forest" in run("lorebook", "export", "Eldoria").stdout


# -- killed, damaged, hostile ----------------------------------------------------------------------------------------

KILLED = """
import os, signal
from brimful.engine import Engine
from brimful.cli.app import main
load, left = Engine.load, [{after}]
async def load_and_die(*args, **options):
    await load(*args, **options)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
Engine.load = load_and_die
main()
"""


@pytest.mark.parametrize("after", [1, 3, 5])
def test_an_import_that_is_killed_goes_on_when_it_is_run_again(run, tavern, after):
    done = subprocess.run([sys.executable, "-c", KILLED.format(after=after), "import", str(tavern)], check=False)
    assert done.returncode == -signal.SIGKILL
    run("import", str(tavern))
    run("import", str(tavern), "--db", "sqlite:///whole.db")
    assert run("export").stdout == run("export", "--db", "sqlite:///whole.db").stdout


HOSTILE = {
    "names.zip": lambda path: packed(path, {"a.jsonl": b'{"role": "user", "content": "Hi"}', "../b.jsonl": b"{}"}),
    "bomb.zip": lambda path: packed(
        path, {"a.jsonl": b'{"role": "user", "content": "Hi"}', "b.jsonl": b"\0" * (65 * 2**20)}
    ),
    "cut.zip": lambda path: path.write_bytes(b"PK\x03\x04" + b"\0" * 100),
    "bomb.png": lambda path: path.write_bytes(
        samples.png(samples.chunk(b"zTXt", b"chara\0\0" + samples.zlib.compress(b"A" * (65 * 2**20))))
    ),
    "cut.png": lambda path: path.write_bytes(samples.png(samples.text_chunk("chara", samples.v2_card()))[:90]),
    "deep.json": lambda path: path.write_bytes(b'{"spec": "chara_card_v2", "data": ' + b"[" * 200_000),
    "wide.jsonl": lambda path: path.write_bytes(b'{"mes": "' + b"x" * (65 * 2**20)),
    "utf16.jsonl": lambda path: path.write_bytes('{"mes": "x", "is_user": true}'.encode("utf-16")),
    "book.json": lambda path: path.write_bytes(b'{"entries": {"0": {"key": ["a"], "content": "x"}, "1": 7}}'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_leave_the_store_unchanged(run, fails, name):
    Path("ok.jsonl").write_text('{"role": "user", "content": "Hi"}\n', encoding="utf-8")
    run("import", "ok.jsonl")
    before = run("export").stdout
    HOSTILE[name](Path(name))
    assert fails("import", name).startswith(name)
    assert run("export").stdout == before


def test_skipped_records_are_reported_by_reason_and_location(run, tavern):
    (tavern / "chats/Nova/broken.jsonl").write_bytes(
        samples.lines(samples.tavern_chat())[:-30] + b"\n" + b'{"mes": 7}\n'
    )
    report = run("import", str(tavern), "--salvage").stdout
    assert "is not JSON: Input data was truncated" in report
    assert "broken.jsonl:5" in report.replace("\n", "")
    assert "is in a backup folder" in report


# -- and back --------------------------------------------------------------------------------------------------------


def test_a_chat_comes_back_line_by_line(run, tavern):
    run("import", str(tavern))
    lines = run("export", "--room", CHAT, "--format", "sillytavern").stdout.splitlines()
    assert list(map(json.loads, lines)) == samples.tavern_chat()


@pytest.mark.parametrize("card", [samples.v1_card, samples.v2_card, samples.v3_card])
def test_a_card_comes_back_field_by_field(run, card):
    Path("nova.json").write_bytes(samples.written(card()))
    run("import", "nova.json")
    assert json.loads(run("export", "--persona", "Nova", "--format", "card").stdout) == card()


def test_changes_are_written_to_the_card(run):
    Path("nova.json").write_bytes(samples.written(samples.v2_card()))
    run("import", "nova.json")
    run("persona", "edit", "Nova", "--character", "scenario=On the moon.")
    card = json.loads(run("export", "--persona", "Nova", "--format", "card").stdout)
    expected = samples.v2_card()
    expected["data"]["scenario"] = "On the moon."
    assert card == expected


def test_a_lorebook_comes_back_entry_by_entry(run):
    Path("Eldoria.json").write_bytes(samples.written(samples.world_info()))
    run("import", "Eldoria.json")
    output = json.loads(run("lorebook", "export", "Eldoria").stdout)
    assert output["entries"] == samples.world_info()["entries"]


def test_a_persona_of_ours_becomes_a_card(run):
    run("persona", "add", "luna", "--name", "Luna", "--prompt", "You are Luna.")
    card = json.loads(run("export", "--persona", "luna", "--format", "card").stdout)
    assert (card["spec"], card["data"]["name"], card["data"]["system_prompt"]) == (
        "chara_card_v3",
        "Luna",
        "You are Luna.",
    )
    Path("luna.json").write_text(json.dumps(card), encoding="utf-8")
    run("import", "luna.json", "--db", "sqlite:///other.db")
    assert (
        json.loads(run("export", "--persona", "Luna", "--format", "card", "--db", "sqlite:///other.db").stdout) == card
    )


def test_a_room_becomes_a_conversation_that_can_be_read_again(run):
    packed(Path("chatgpt.zip"), samples.chatgpt_export())
    run("import", "chatgpt.zip")
    run("export", "--room", "chatgpt/c-1", "--format", "openai", "--out", "conversation.jsonl")
    run("import", "conversation.jsonl", "--db", "sqlite:///other.db")
    rows = [json.loads(line) for line in run("export", "--db", "sqlite:///other.db").stdout.splitlines()]
    ours = [json.loads(line) for line in run("export", "--room", "chatgpt/c-1").stdout.splitlines()]
    fields = ("role", "content", "at")
    messages = [{key: row[key] for key in fields if key in row} for row in ours if row["record"] == "message"]
    assert [{key: row[key] for key in fields if key in row} for row in rows if row["record"] == "message"] == messages


def test_parts_of_a_store_as_records(run, tavern):
    run("import", str(tavern))

    def kinds(*words):
        return [json.loads(line)["record"] for line in run("export", *words).stdout.splitlines()]

    assert kinds("--persona", "Nova") == ["persona", "lorebook", "lore-entry", "lorebook", "lore-entry", "lore-entry"]
    assert kinds("--lorebook", "Eldoria") == ["lorebook", "lore-entry"]
    assert kinds("--room", CHAT) == ["room", *["message"] * 4]


def test_wrong_usage(run, fails):
    run("room", "add", "den")
    assert "cannot be combined" in run("export", "--room", "a", "--persona", "b", code=2).stderr
    assert "'morse' is not one of records, " in run("export", "--format", "morse", code=2).stderr
    assert "card needs --persona" in run("export", "--room", "den", "--format", "card", code=2).stderr
    assert "openai needs --room" in run("export", "--format", "openai", code=2).stderr
    assert fails("export", "--persona", "nobody") == "no persona 'nobody'"
    assert fails("export", "--lorebook", "none", "--out", "x.json") == "no lorebook 'none'"
    assert not Path("x.json").exists()
