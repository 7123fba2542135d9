"""brimful count."""

import json
from pathlib import Path

import pytest

import brimful

MESSAGES = [
    {"role": "system", "content": "You are brief."},
    {"role": "user", "content": "What is in this picture?", "name": "joel"},
]


def test_a_text(run):
    assert run("count", "Fill the window to the brim.").stdout.splitlines() == [
        "tokens  basis  tokenizer   source",
        "     7  exact  o200k_base  TEXT",
    ]


def test_json(run_json):
    assert run_json("count", "Fill the window to the brim.") == {
        "model": "gpt-4o",
        "method": "hybrid",
        "tokens": 7,
        "margin": 0,
        "basis": "exact",
        "tokenizer": "o200k_base",
        "counts": [{"source": "TEXT", "tokens": 7, "margin": 0, "basis": "exact"}],
    }


def test_words_are_joined_by_spaces(run_json):
    assert run_json("count", "Fill", "the", "window") == run_json("count", "Fill the window")


def test_files_and_their_total(run, run_json):
    Path("a.txt").write_text("one two three", encoding="utf-8")
    Path("b.txt").write_text("four", encoding="utf-8")
    lines = run("count", "-f", "a.txt", "-f", "b.txt").stdout.splitlines()
    assert [line.split()[-1] for line in lines] == ["source", "a.txt", "b.txt", "total"]
    data = run_json("count", "--file", "a.txt", "--file", "b.txt")
    assert data["tokens"] == sum(row["tokens"] for row in data["counts"])


@pytest.mark.parametrize("args", [(), ("-",), ("--file", "-")])
def test_standard_input(args, run_json):
    data = run_json("count", *args, stdin="Fill the window to the brim.")
    assert (data["tokens"], data["counts"][0]["source"]) == (7, "<stdin>")


def test_line_ends_count_as_they_are_and_a_byte_order_mark_does_not(run_json):
    Path("dos.txt").write_bytes(b"\xef\xbb\xbfa\r\nb")
    assert run_json("count", "-f", "dos.txt")["tokens"] == brimful.count("a\r\nb", model="gpt-4o").tokens


def test_a_count_that_may_miss_shows_its_bound(run, run_json):
    lines = run("count", "Fill the window to the brim.", "--model", "claude-3-opus").stdout.splitlines()
    assert "at most" in lines[0]
    assert "calibrated" in lines[1]
    assert run_json("count", "Fill the window.", "--model", "claude-3-opus")["margin"] > 0


@pytest.mark.parametrize("method", ["hybrid", "exact", "approximate", "calibrated"])
def test_methods(method, run_json):
    data = run_json("count", "Fill the window to the brim.", "--method", method)
    assert data["tokens"] == brimful.count("Fill the window to the brim.", model="gpt-4o", method=method).tokens


def test_an_unknown_model_with_a_tokenizer_needs_no_warning(run):
    assert "unknown model" in run("count", "Hello", "-m", "acme-1").stderr
    counted = run("count", "Hello", "-m", "acme-1", "--tokenizer", "cl100k_base")
    assert (counted.stderr, counted.stdout.split()[-4:]) == ("", ["1", "exact", "cl100k_base", "TEXT"])


def test_exact_where_no_tokenizer_is_public(fails):
    assert fails("count", "x", "-m", "claude-3-opus", "--method", "exact").startswith("no exact tokenizer")


@pytest.mark.parametrize("form", ["list", "request"])
def test_messages_count_with_their_overheads(form, run_json):
    data = MESSAGES if form == "list" else {"model": "gpt-4o", "messages": MESSAGES}
    counted = run_json("count", "--messages", "-", stdin=json.dumps(data))["tokens"]
    texts = sum(brimful.count(message["content"], model="gpt-4o").tokens for message in MESSAGES)
    # OpenAI's cookbook: 3 a message, the role (1), 1 and the name's tokens for a name, 3 to prime the answer.
    name = 1 + brimful.count("joel", model="gpt-4o").tokens
    assert counted == texts + 2 * (3 + 1) + name + 3


def test_tools_of_a_request_count(run_json):
    tool = {"type": "function", "function": {"name": "search", "description": "Find.", "parameters": {}}}
    plain = run_json("count", "--messages", json.dumps({"messages": MESSAGES}))
    tooled = run_json("count", "--messages", json.dumps({"messages": MESSAGES, "tools": [tool]}))
    assert tooled["tokens"] > plain["tokens"]


def test_an_unknown_model_is_warned_of_beside_the_result(run):
    result = run("count", "hello", "--model", "acme-1", "--json")
    assert result.stderr.startswith("brimful: warning: unknown model 'acme-1': assuming a window of 8,192 tokens")
    assert json.loads(result.stdout)["model"] == "acme-1"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("5", "TEXT: must be a list of messages or a request, not int"),
        ("[", "TEXT: is not JSON: "),
        ('[{"role": "king", "content": "x"}]', "TEXT: messages[0].role: must be one of"),
    ],
)
def test_messages_that_are_none(text, complaint, fails):
    assert fails("count", "--messages", text).startswith(complaint)
