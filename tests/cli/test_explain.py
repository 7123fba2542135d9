"""brimful explain."""

import json
import re
from pathlib import Path

import pytest


def rows(text):
    """The table below the report, as lists of words."""
    lines = text.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("outcome"))
    return [line.split() for line in lines[at + 1 :]]


def test_report_and_table(run, context):
    text = run("explain", context).stdout
    assert text.startswith("┌─ BRIMFUL: gpt-4-turbo ─")
    header = next(line for line in text.splitlines() if line.startswith("outcome")).split()
    assert header == [
        *("outcome", "reason", "id", "kind", "pool", "rank/cut", "tokens"),
        *("score", "priority", "importance", "relevance", "recency"),
    ]
    assert len(rows(text)) == len(json.loads(Path(context).read_bytes())["decisions"])


def test_dropped_items_follow_included_ones_nearest_to_the_cut_first(run_json, context):
    candidates = run_json("explain", context)["candidates"]
    is_in = [row["outcome"] in ("kept", "shrunk") for row in candidates]
    assert is_in == sorted(is_in, reverse=True)
    below = [row["rank"] - row["cut"] for row in candidates if row["outcome"] == "dropped"]
    assert below == sorted(below)


def test_schema(run_json, context):
    data = run_json("explain", context)
    assert {key: type(value) for key, value in data.items()} == {
        **dict.fromkeys(("id", "model", "policy", "focus", "stopped_at"), str),
        **dict.fromkeys(("window", "available", "reserved", "tokens", "remaining", "left_out", "naive"), int),
        "percent": float,
        **dict.fromkeys(("components", "kinds", "pools", "warnings", "candidates"), list),
    }
    assert {"id", "kind", "outcome", "reason", "tokens", "cost", "pool", "score", "line"} <= data["candidates"][
        0
    ].keys()


@pytest.mark.parametrize(
    ("args", "holds"),
    [
        (("--outcome", "dropped"), lambda row: row["outcome"] == "dropped"),
        (("--pool", "related"), lambda row: row["pool"] == "related"),
        (("--kind", "memory-*"), lambda row: row["kind"].startswith("memory-")),
        (("--kind", "media-image", "--outcome", "shrunk"), lambda row: row["id"] == "img"),
    ],
)
def test_filters(args, holds, run_json, context):
    every = run_json("explain", context)["candidates"]
    some = run_json("explain", context, *args)["candidates"]
    assert some == [row for row in every if holds(row)] != []


def test_limit(run, context):
    assert len(rows(run("explain", context, "--limit", 3).stdout)) == 3


def test_none_left(run, context):
    assert run("explain", context, "--kind", "weather").stdout.endswith("no candidates match\n")


def test_a_dropped_item_is_explained(run, context):
    first, window, _, *facts = run("explain", context, "m00").stdout.splitlines()
    assert first.startswith("dropped: older than the history that fits in pool 'recent'")
    assert "ranks below the cut" in first
    assert re.fullmatch(r"smallest window that includes it: [\d,]+ tokens \(the window was 3,000\)", window)
    named = dict(line.split(maxsplit=1) for line in facts)
    assert named["reason"] == "older"
    assert named["date"] == "2025-11-15"
    assert named["text"].startswith("Message number 0: we talked about")


def test_a_copy_names_what_it_copies(run, context):
    text = run("explain", context, "mem-copy").stdout
    assert text.startswith("duplicate: same text as 'mem-semantic'")


def test_an_item_is_explained_as_json(run_json, context):
    data = run_json("explain", context, "img")
    assert data["line"].startswith("shrunk: fits in pool 'media' (85/625 tokens)")
    assert data["decision"]["id"] == data["package"]["id"] == "img"


def test_nobody_of_that_name(fails, context):
    assert fails("explain", context, "mem-sematic").endswith("did you mean mem-semantic, mem-episodic?")


def test_from_standard_input(run, context):
    text = Path(context).read_text(encoding="utf-8")
    assert run("explain", "-", stdin=text).stdout == run("explain", context).stdout


def test_content_cannot_steer_the_terminal(run):
    line = {"kind": "message-current", "id": "e\x1b[31m", "content": "\x1b]0;title\x07 and\nmore"}
    Path("p.jsonl").write_text(json.dumps(line), encoding="utf-8")
    run("fill", "p.jsonl", "-m", "gpt-4o", "-o", "c.json")
    for command in (("explain", "c.json"), ("explain", "c.json", line["id"])):
        assert "\x1b" not in run(*command).stdout


def test_an_outcome_that_is_none_is_wrong_usage(run, context):
    run("explain", context, "--outcome", "lost", code=2)


def test_one_candidate_with_filters_is_wrong_usage(run, context):
    run("explain", context, "m00", "--outcome", "kept", code=2)


def test_a_context_of_a_store_is_explained_by_its_id(run, run_json, fails):
    run("message", "add", "--room", "den", "The vault is behind the painting.", "--id", "m1")
    built = run_json("assemble", "--room", "den", "--message", "Where is the vault?", "--model", "gpt-4o")
    id = built["id"]
    assert "Where is the vault?" in run("explain", id).stdout
    assert run_json("explain", id, "m1")["decision"]["outcome"] == "kept"
    assert fails("explain", "ctx-nobody").startswith("no context 'ctx-nobody'")
    assert "no store sqlite:///other.db to look up an id in" in fails("explain", id, "--db", "sqlite:///other.db")
