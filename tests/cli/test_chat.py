"""`brimful chat` with a real model behind it."""

import json
import os
import re
import subprocess
import sys

import pytest

from brimful.cli.chat import CHAT_HELP


@pytest.fixture
def smol(llama):
    """The options that lead to a small model on this machine."""
    server = llama("smollm2")
    options = ("--provider", f"{server.address}/v1", "--window", 1024, "--completion", 8, "--embedder", "none")
    return ("--model", server.model, *options)


def test_one_message_is_answered_and_kept(run_json, smol):
    answer = run_json("chat", "send", "--room", "r", "--message", "Say hello.", "--sender", "Ada", *smol)
    data = run_json("message", "list", "--room", "r")
    assert [message["content"] for message in data] == ["Say hello.", answer["text"]]
    assert answer["text"]
    assert answer["counted"] >= answer["usage"]["prompt"] > 0
    assert answer["context"].startswith("ctx-")
    assert (answer["notices"], answer["finish"] in ("stop", "length")) == ([], True)


def test_a_conversation_in_a_terminal(run, run_json, smol):
    lines = ["Hello there.", "/context", "/remember Ada likes tea.", "/model", "/policy window", "/help", "/quit"]
    output = run("chat", "--room", "r", *smol, stdin="\n".join([*lines, "Never asked."])).stdout
    assert "Recent Messages" in output
    assert "added memory mem-" in output
    assert "policy: window" in output
    assert CHAT_HELP in output
    assert [message["role"] for message in run_json("message", "list", "--room", "r")] == ["user", "assistant"]
    assert [memory["content"] for memory in run_json("memory", "list")] == ["Ada likes tea."]


def test_why_and_what_was_seen_of_a_room_one_comes_back_to(run, smol):
    run("chat", "send", "--room", "r", "--message", "Say hello.", "--id", "m1", *smol)
    back = run("chat", "--room", "r", *smol, stdin="/why m1\n/why nothing\n/why\n/nonsense\n", code=1)
    assert back.stdout.startswith("user: Say hello.")
    assert "m1: kept (message-current)" in back.stdout
    assert "kept: required" in back.stdout
    assert "'nothing' was not a candidate" in back.stderr
    assert "there is no command /nonsense" in back.stderr


def test_a_remark_that_holds_for_most_turns_is_not_made_in_each(run, smol):
    result = run("chat", "--room", "r", *smol, stdin="Hello there.\n/context\n")
    assert "Token Counts: calibrated, not exact" in result.stdout
    assert "token counts" not in result.stderr


def test_a_persona_that_is_not_there_is_an_error_and_nothing_is_stored(run, smol, run_json):
    for command, stdin in ((("chat",), "Say hello.\n"), (("chat", "send", "--message", "Say hello."), None)):
        result = run(*command, "--room", "r", "--persona", "ghost", *smol, stdin=stdin, code=1)
        assert "persona: there is no 'ghost': create it with `brimful persona add`" in result.stderr
    assert run_json("room", "list") == []


def test_invalid_utf8_does_not_stop_a_chat(tmp_path):
    command = [sys.executable, "-m", "brimful", "chat", "--db", f"sqlite:///{tmp_path}/chat.db", "--embedder", "none"]
    strict = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    typed = b"/nonsense \xff\xfe\n/help\n"
    done = subprocess.run(command, input=typed, capture_output=True, env=strict, timeout=120, check=False)
    assert done.returncode == 1, "a command failed"
    assert CHAT_HELP in done.stdout.decode()


def test_a_greeting_comes_first(run, smol):
    run("persona", "add", "nova", "--name", "Nova", "--character", "greeting=Hello, {{user}}!")
    assert run("chat", "--persona", "nova", "--user", "Ada", *smol, stdin="/quit").stdout == "Nova: Hello, Ada!\n"


def test_a_room_without_contexts_is_reported(run, smol):
    assert "no context has been built in this room yet" in run("chat", *smol, stdin="/context", code=1).stderr


def test_a_dead_server_is_one_line_and_the_message_is_kept(run, run_json, fails):
    dead = ("--model", "smollm2-135m", "--provider", "http://127.0.0.1:9/v1", "--embedder", "none")
    assert "127.0.0.1:9" in fails("chat", "send", "--room", "r", "--message", "Hi", *dead)
    going_on = run("chat", "--room", "r", *dead, stdin="Hi again\n/quit", code=1)
    assert "127.0.0.1:9" in going_on.stderr
    assert [message["content"] for message in run_json("message", "list", "--room", "r")] == ["Hi", "Hi again"]


def test_a_message_with_an_id_stands_once(run, run_json, smol):
    for _ in range(2):
        run("chat", "send", "--room", "r", "--message", "Hi", "--id", "m1", *smol)
    assert [message["role"] for message in run_json("message", "list", "--room", "r")] == [
        "user",
        "assistant",
        "assistant",
    ]


def test_a_new_room_keeps_who_talks_and_its_user_speaks_under_the_own_name(run, run_json):
    dead = ("--model", "gpt-4o", "--provider", "openai:http://127.0.0.1:9/v1", "--embedder", "none")
    run("persona", "add", "Nova")
    run("chat", "--room", "den", "--persona", "Nova", "--user", "Ada", *dead, stdin="Hello.\n", code=1)
    room = run_json("room", "show", "den")
    assert (room["persona"], room["user"], room["created"] > 1e9) == ("Nova", "Ada", True)
    run("chat", "send", "--room", "den", "--message", "Again.", *dead, code=1)
    run("chat", "send", "--room", "den", "--message", "As nobody.", "--sender", "", *dead, code=1)
    assert [message["sender"] for message in run_json("message", "list", "--room", "den")] == ["Ada", "Ada", ""]
    output = run("export", "--format", "sillytavern", "--room", "den").stdout
    head, first = (json.loads(line) for line in output.splitlines()[:2])
    assert (head["user_name"], head["character_name"], first["name"]) == ("Ada", "Nova", "Ada")
    assert not head["create_date"].startswith("1970")


def test_a_user_with_a_name_speaks_under_it(run, run_json, write_lines):
    known = [{"record": "user", "id": "u1", "name": "Ada"}, {"record": "room", "id": "den", "user": "u1"}]
    run("import", write_lines("known.jsonl", known))
    dead = ("--model", "gpt-4o", "--provider", "openai:http://127.0.0.1:9/v1", "--embedder", "none")
    run("chat", "--room", "den", *dead, stdin="Hello.\n", code=1)
    assert [message["sender"] for message in run_json("message", "list", "--room", "den")] == ["Ada"]


def test_mentioned_personas_answer_after_their_names(run, run_json, smol):
    for id, name in (("nova", "Nova"), ("rex", "Rex")):
        run("persona", "add", id, "--name", name, "--prompt", f"You are {name}.")
    options = ("--room", "r", "--persona", "nova", *smol)
    both = run("chat", *options, stdin="@rex @nova Say hello.\nSay goodbye.\n").stdout
    assert re.search("(?s)^Rex: .*\nNova: ", both)
    assert both.count("Nova: ") == 1, "without a mention, the answer has no name"
    said = [message["sender"] for message in run_json("message", "list", "--room", "r")]
    assert said == ["", "Rex", "Nova", "", "Nova"]
    sent = ("chat", "send", "--room", "r", "--message", "@rex @nova Say hello.")
    data = run_json(*sent, *smol)
    assert [data["sender"], *(each["sender"] for each in data["others"])] == ["Rex", "Nova"]
    assert re.search("(?s)^Rex: .*\nNova: ", run(*sent, *smol).stdout)
