"""`brimful assemble --dry-run` previews the next context and changes nothing."""

import asyncio
import re
import sqlite3
from contextlib import closing

import pytest

from answered import QUESTION, answer_questions, engine, screenshot, shape
from brimful.cli.assemble import Inspection

SEED = """\
┌─ BRIMFUL INSPECTION: Helper AI in general ─┐
│ Model: gpt-4o
│ Context Window: 128,000 tokens
│
│ COMPONENTS:
│   System Prompt:    1,245 tokens
│   Memories:         3,890 tokens (5 items)
│     - episodic: "Discussed vector search performance..." (score: 0.82)
│   Recent Messages:  8,120 tokens (20 msgs)
│   Media:            2,560 tokens (0 items)
│   Current Message:    245 tokens
│   ─────────────────────────────────────
│   TOTAL USED:      16,060 tokens (12.5%)
│
│   Reserved:        13,000 tokens (completion + safety)
│   ─────────────────────────────────────
│   REMAINING:       98,940 tokens
│
└──────────────────────────────────────────┘
"""
"""The founding document's inspection, under our names; its numbers stand for any."""


def inspect(run, *args):
    return run(
        "assemble", "--dry-run", "--persona", "helper-ai", "--room", "general", *args, "--embedder", "none"
    ).stdout


def test_every_line_of_the_founding_document(run):
    answer_questions()
    said = {shape(line) for line in inspect(run, "--message", QUESTION).splitlines()}
    assert {shape(line) for line in SEED.splitlines()} <= said


def test_memories_by_type_and_score_and_what_is_left(run):
    answer_questions()
    text = inspect(run, "--message", QUESTION)
    memories = re.findall(r'^│     - (\w+): "(.+)" \(score: (\d\.\d+)\)$', text, re.MULTILINE)
    assert ("procedural", "When testing embedding timeouts, run npm start first.") in {each[:2] for each in memories}
    assert [float(score) for *_, score in memories] == sorted((float(score) for *_, score in memories), reverse=True)
    assert re.search(r"STATUS: [\d,]+ of [\d,]+ tokens used \(", text)
    assert "RETRIEVAL: " in text
    assert "Breaker: closed" in text


def test_the_numbers_add_up(run_json):
    answer_questions()
    data = run_json("inspect", "--persona", "helper-ai", "--room", "general", "--embedder", "none")
    assert sum(each["tokens"] for each in data["components"]) == data["tokens"]
    assert data["window"] - data["tokens"] - data["reserved"] == data["remaining"]
    assert {memory["kind"] for memory in data["memories"]} == {
        "memory-episodic",
        "memory-semantic",
        "memory-procedural",
    }
    assert data["breaker"] == "closed"
    assert data["last"]["id"].startswith("ctx-")


def dump():
    with closing(sqlite3.connect("brimful.db")) as base, base:
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        names = sorted(name for (name,) in base.execute(tables))
        return {name: sorted(base.execute(f'SELECT * FROM "{name}"'), key=repr) for name in names}  # noqa: S608


def test_nothing_is_kept_and_no_access_is_counted(run):
    answer_questions()
    inspect(run, "--message", "Something that was never counted before: quixotic zephyrs.")
    before = dump()
    for args in ((), ("--message", "Something that was never counted before: quixotic zephyrs.")):
        inspect(run, *args)
    assert dump() == before


def test_media_by_their_names():
    async def story():
        async with engine() as opened:
            media = [screenshot("screenshot"), screenshot("diagram")]
            return await opened.assemble(
                room="general", message="Look at this screenshot.", media=media, model="gpt-4o"
            )

    context = asyncio.run(story())
    looked = Inspection(
        context=context, persona="", room="general", seconds=0.1, breaker="open", embedder="static", last=None
    )
    text = looked.text()
    assert re.search(r"^│   Media: +[\d,]+ tokens \(2 images\)$", text, re.MULTILINE)
    assert re.search(r"^│     - screenshot.png \([\d,]+ tokens\)$", text, re.MULTILINE)
    assert "Breaker: open" in text


def test_retrieval_failures_are_reported(run):
    answer_questions()
    dead = ("--embedder", "openai:text-embedding-3-small@http://127.0.0.1:9/v1")
    text = run("inspect", "--persona", "helper-ai", "--room", "general", "--message", QUESTION, *dead).stdout
    assert "vector search failed" in text
    assert "WARNINGS:" in text


def test_the_singular_is_used_for_one(run):
    run("message", "add", "--room", "den", "Tea?", "--at", 5)
    run("memory", "add", "Tea is at four.", "--id", "tea", "--at", 4)
    text = run("inspect", "--room", "den", "--message", "When is tea?", "--embedder", "none").stdout
    assert re.search(r"Memories: +\d+ tokens \(1 item\)$", text, re.MULTILINE)
    assert re.search(r"Recent Messages: +\d+ tokens \(1 msg\)$", text, re.MULTILINE)


@pytest.mark.parametrize("now", ["nan", "inf", "1e15"])
def test_an_invalid_time_is_reported_with_its_option(run, now):
    [line] = run("inspect", "--room", "general", "--now", now, code=2).stderr.splitlines()
    assert "'--now'" in line
    assert "seconds" in line


def test_another_model_and_policy(run_json):
    answer_questions()
    data = run_json("inspect", "--room", "general", "-m", "gpt-4", "-p", "window", "--embedder", "none")
    assert (data["model"], data["policy"], data["window"]) == ("gpt-4", "window", 8192)


def test_no_store_no_room(run, fails):
    assert "there is no such store" in fails("inspect", "--room", "general")
    answer_questions()
    run("room", "add", "silent")
    assert fails("inspect", "--room", "nowhere", "--embedder", "none") == "no room 'nowhere'"
    assert fails("inspect", "--room", "silent", "--embedder", "none").startswith("room: 'silent' is empty")


def test_names_cannot_steer_the_terminal(run):
    answer_questions()
    run("room", "add", "gen\x1b[31meral")
    text = run("inspect", "--room", "gen\x1b[31meral", "--message", "hi", "-m", "gpt-4o", "--embedder", "none").stdout
    assert "\x1b" not in text


def notices(run_json, *args):
    data = run_json("inspect", "--room", "general", "--embedder", "none", *args)
    return {each["kind"]: each for each in data["notices"]}


def test_a_context_that_is_nearly_full_is_a_warning(run, run_json):
    answer_questions()
    args = ("--persona", "helper-ai", "--message", QUESTION)
    assert "nearly-full" not in notices(run_json, *args)
    tokens = run_json("inspect", "--room", "general", "--embedder", "none", *args)["tokens"]
    tight = (*args, "--max-prompt-tokens", str(tokens * 10 // 9), "--set", "margin.tokens=0", "--set", "margin.share=0")
    [notice] = [each for kind, each in notices(run_json, *tight).items() if kind == "nearly-full"]
    assert notice["facts"]["tokens"] > 0.8 * notice["facts"]["available"]
    assert f"│   {notice['text']}\n" in inspect(run, *tight[2:])


def test_a_context_without_memories_is_a_warning_if_they_were_asked_for(run_json):
    answer_questions()
    with_some = ("--persona", "helper-ai", "--message", QUESTION)
    assert "no-memories" not in notices(run_json, *with_some)
    without = ("--message", QUESTION)
    assert notices(run_json, *without)["no-memories"]["text"] == "no memories are in this context: none was found"
    assert "no-memories" not in notices(run_json, *without, "--no-memories")
    assert "no-memories" not in notices(run_json, *without, "--policy", "window")
    left_out = notices(run_json, *with_some, "--set", "pools.related.limit.tokens=1")["no-memories"]
    assert left_out["facts"]["left_out"] > 0
    assert "left out" in left_out["text"]
