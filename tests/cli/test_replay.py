"""`brimful replay --last`, and diff and replay of stored contexts."""

import asyncio
import json
import sqlite3
import zlib
from contextlib import closing

import pytest

import brimful
from answered import answer_questions, engine
from brimful.cli import compare
from brimful.cli.compare import Span, replay_all, select_contexts


@pytest.fixture
def answers():
    return answer_questions(questions=6)


LONG = ("replay", "--last", "9999w")


@pytest.mark.usefixtures("answers")
def test_contexts_that_would_lose_something_are_counted(run, run_json):
    same = run_json(*LONG)
    assert (same["contexts"], same["replayed"], same["losing"], same["unfit"]) == (6, 6, 0, 0)
    small = run_json(*LONG, "--window", 450, "--completion", 100)
    assert small["losing"] == 6
    assert small["lost_tokens"] == pytest.approx(small["mean_lost"] * 6, abs=1)
    assert [loss["tokens"] for loss in small["worst"]] == sorted((x["tokens"] for x in small["worst"]), reverse=True)
    worst = small["worst"][0]
    lost = run_json("replay", worst["id"], "--window", 450, "--completion", 100)["left"]
    costs = {each["id"]: each["cost"] for each in run_json("explain", worst["id"])["candidates"]}
    assert sum(costs[change["id"]] for change in lost) == worst["tokens"]
    assert len(lost) == worst["items"]
    text = run(*LONG, "--window", 450, "--completion", 100).stdout
    assert "lose something  6 (100.0%)" in text
    assert worst["id"] in text


def test_contexts_that_were_not_recorded_are_listed_and_no_more(run, run_json, fails, tmp_path):
    [answer] = answer_questions(questions=1, record_share=0.0)
    id, out = answer.context.id, tmp_path / "contexts.jsonl"
    assert [each["recorded"] for each in run_json("context", "list")] == [False]
    assert fails("explain", id).startswith(f"context '{id}' was not recorded, only its summary")
    data = run_json(*LONG)
    assert (data["contexts"], data["replayed"], data["unrecorded"]) == (1, 0, 1)
    assert "unrecorded" in run(*LONG).stdout
    run("context", "export", "--out", out)
    row = json.loads(out.read_text())
    assert (row["recorded"], row["decisions"], len(row["answers"])) == (False, [], 1)


def test_contexts_that_would_not_fit_are_listed(run, run_json, answers):
    data = run_json(*LONG, "--window", 120, "--completion", 100)
    assert (data["unfit"], data["losing"], data["mean_lost"]) == (6, 6, 0)
    assert data["unfit_ids"] == sorted(answer.context.id for answer in answers)
    assert "would not fit   6 (100.0%): ctx-" in run(*LONG, "--window", 120, "--completion", 100).stdout


@pytest.mark.usefixtures("answers")
def test_only_a_room_a_persona_a_time(run, run_json):
    assert run_json(*LONG, "--room", "general", "--persona", "helper-ai")["contexts"] == 6
    run("room", "add", "den")
    assert run_json(*LONG, "--room", "den")["contexts"] == 0
    assert "no contexts in this period" in run("replay", "--last", "1s").stdout


def test_a_sample_is_always_the_same(run_json, answers):
    def chosen():
        async def ask():
            async with engine() as opened:
                return await select_contexts(opened.store, Span(), 3)

        return asyncio.run(ask())

    assert chosen() == chosen()
    assert chosen()[0] == 3
    assert set(chosen()[1]) < {answer.context.id for answer in answers}
    assert run_json(*LONG, "--sample", 3)["contexts"] == 3
    assert run_json(*LONG, "--sample", 100)["contexts"] == 6


class SmallPages:
    """A store that lists at most two contexts at once."""

    def __init__(self, store):
        self.builds = lambda **filters: store.builds(**filters | {"limit": 2})
        self.snapshot = store.snapshot


@pytest.mark.usefixtures("answers")
def test_pages_make_no_difference():
    async def ask():
        async with engine() as opened:
            reports = []
            outcome = await replay_all(SmallPages(opened.store), Span(), None, lambda context: context, reports.append)
            return outcome.replayed, reports

    assert asyncio.run(ask()) == (6, [1, 2, 3, 4, 5, 6])


@pytest.mark.usefixtures("answers")
def test_erased_and_unreadable_contexts_are_counted(run, run_json):
    run("memory", "remove", "m-start", "--erase")
    data = run_json(*LONG)
    assert (data["contexts"], data["replayed"], data["erased"]) == (6, 0, 6)
    assert "erased          6, not replayed" in run(*LONG).stdout


@pytest.mark.parametrize("body", [b"", b"\x00\xff", zlib.compress(b"[]"), zlib.compress(b"no JSON")])
def test_damage_is_counted_and_reported_in_one_line(run_json, fails, answers, body):
    with closing(sqlite3.connect("brimful.db")) as base, base:
        base.execute("UPDATE snapshots SET body = ? WHERE id = ?", (body, answers[1].context.id))
    data = run_json(*LONG)
    assert (data["contexts"], data["replayed"], data["unreadable"]) == (6, 5, 1)
    assert fails("explain", "ask-1").startswith("context: ")


def test_a_context_or_a_range_and_not_both(run, answers):
    assert "name a context, or use --last for all of a period" in run("replay", code=2).stderr
    both = run("replay", answers[0].context.id, "--last", "1h", code=2).stderr
    assert "cannot be combined with --last" in both
    run("replay", answers[0].context.id, "--room", "general", code=2)
    run("replay", "--last", "1h", "--out", "x.json", code=2)
    run("replay", "--last", "soon", code=2)


def test_diff_of_contexts_in_a_store(run, run_json, answers):
    first, second = answers[0].context.id, answers[1].context.id
    data = run_json("diff", first, second)
    assert (data["before"], data["after"]) == (first, second)
    assert data == run_json("diff", "ask-0", "ask-1")
    run("replay", first, "--out", "first.json")
    assert run_json("diff", "first.json", first)["entered"] == []
    assert run_json("diff", first, "first.json")["prefix_share"] == 1.0


def test_a_shortened_item_is_lost_in_part():
    messages = [
        brimful.package(
            "message-recent", f"Turn {n}. " + "A word or two. " * 30, model="gpt-4o", position=n, min_tokens=20
        )
        for n in range(4)
    ]
    now = brimful.package("message-current", "And now?", model="gpt-4o", position=9)
    before = brimful.assemble([*messages, now], model="gpt-4o", window=1_000, completion=50, now=0.0)
    after = brimful.replay(before, window=550)
    shrunk = [each for each in after.decisions if each.outcome == "shrunk"]
    removed = [each for each in before.decisions if not after.decision(each.id).included]
    tally = compare.ReplayTally()
    tally.replayed(before, lambda context: brimful.replay(context, window=550))
    part = sum(before.decision(each.id).cost - each.cost for each in shrunk)
    assert part > 0
    assert tally.outcome().lost_tokens == part + sum(each.cost for each in removed)
