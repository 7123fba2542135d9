"""brimful fit: a request goes in, and the part of it that fits comes out."""

import json
from pathlib import Path

import pytest

import brimful

TURNS = [
    {"role": role, "content": f"{role} {at}: " + "word " * 30} for at in range(10) for role in ("user", "assistant")
]
REQUEST = {"model": "gpt-4o", "max_tokens": 50, "messages": [*TURNS, {"role": "user", "content": "And now?"}]}


@pytest.fixture
def file():
    Path("request.json").write_text(json.dumps(REQUEST))
    return "request.json"


def fitted(run, file, *args):
    return json.loads(run("fit", file, "--window", 400, "--now", 0, *args, "--json").stdout)


def test_the_request_alone_is_what_the_library_returns(run, file):
    printed = run("fit", file, "--window", 400, "--now", 0, "--request").stdout
    assert json.loads(printed) == brimful.fit(REQUEST, window=400, now=0).request


def test_a_request_from_standard_input_stays_as_it_is_if_it_fits(run):
    assert json.loads(run("fit", "-", "--request", stdin=json.dumps(REQUEST)).stdout) == REQUEST


def test_json_has_the_positions_and_is_a_context(run, file):
    shown = fitted(run, file, "--out", "written.json")
    context = brimful.Context.from_json(json.dumps(shown))
    assert context == brimful.Context.from_json(Path("written.json").read_bytes())
    assert shown["positions"] == list(context.positions)
    assert shown["shortened"] == []
    assert shown["positions"][-1] == 20


def test_pins_and_ties(run, file):
    assert {0, 1}.isdisjoint(fitted(run, file)["positions"])
    assert 0 in fitted(run, file, "--pin", 0)["positions"]
    assert {0, 1} <= set(fitted(run, file, "--pin", 0, "--tie", "0,1")["positions"])


def test_the_report_names_the_messages_that_stay(run, file):
    assert run("fit", file, "--window", 400, "--pin", 1).stdout.splitlines()[-1] == "Messages that stay: 1, 13-20"


def test_the_report_names_the_messages_that_were_shortened(run):
    last = {"role": "user", "content": " ".join(f"Sentence {at} is here." for at in range(200))}
    text = run("fit", "-", "--window", 400, stdin=json.dumps({**REQUEST, "messages": [last]})).stdout
    assert text.splitlines()[-1] == "Messages that stay: 0 (0 shortened)"


def test_a_policy_a_model_and_a_previous_context(run, file):
    first = fitted(run, file, "--out", "a.json", "--policy", "window", "--model", "gpt-4")
    again = fitted(run, file, "--previous", "a.json", "--policy", "window", "--model", "gpt-4")
    assert first["inputs"]["model"]["id"] == "gpt-4"
    assert first["inputs"]["policy"]["name"] == "window"
    assert first["request"] == again["request"]


@pytest.mark.parametrize(
    ("args", "code", "reason"),
    [
        (("--pin", 99), 1, "pin: must be indices of the request's messages, from 0 to 20, not 99"),
        (("--pin", -1), 2, "--pin"),
        (("--tie", "3"), 1, "ties[0]: must have at least two messages, such as (3, 4)"),
        (("--tie", "a,b"), 2, "'a,b' is not a list of indices, such as 3,4"),
        (("--wire", "nope"), 2, "'nope' is not one of"),
    ],
)
def test_wrong_options_are_named(run, file, args, code, reason):
    assert reason in run("fit", file, *args, code=code).stderr


@pytest.mark.parametrize(
    ("wire", "model", "request_"),
    [
        ("anthropic", "claude-sonnet-4-5", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}),
        ("gemini", "gemini-3-pro-preview", {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
    ],
)
def test_every_wire_is_read(run, wire, model, request_):
    args = ("fit", "-", "--wire", wire, "--model", model, "--request")
    assert json.loads(run(*args, stdin=json.dumps(request_)).stdout) == request_
