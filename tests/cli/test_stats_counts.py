"""brimful stats --counts: our counts, reported usage and calibrations."""

import asyncio
import time

import msgspec
import pytest

from brimful.cli.stats import NO_USAGE
from brimful.records.usage import UsageReport
from brimful.stores import connect
from hidden_models import HIDDEN, ROUTE, mixed, online, truth

BILLED = {name: truth(name).prompt for name in ("qwen3:8b", "llama3.1:8b")}


@pytest.fixture
def keep(run):
    """Write observations into the store of this directory."""
    run("room", "add", "general")

    def read_records(observations, tenant="default"):
        async def write():
            async with connect("sqlite:///brimful.db") as database:
                for each in observations:
                    await database.tenant(tenant).save_usage(each)

        asyncio.run(write())

    return read_records


def hidden(count=20):
    return online(mixed("stats", count), lambda prompt: BILLED["qwen3:8b"](prompt).tokens)


def seen(id, at, **fields):
    return UsageReport(
        **{"id": id, "at": at, "model": "gpt-4o", "route": "openai", "counted": 100, "reported": 100} | fields
    )


def test_an_empty_store_says_what_to_do(run, run_json):
    run("room", "add", "general")
    assert run("stats", "--counts").stdout.strip() == NO_USAGE
    assert "brimful chat" in NO_USAGE
    assert run_json("stats", "--counts") == []


def test_counts_and_what_was_learned_stand_side_by_side(run, run_json, keep):
    keep(msgspec.structs.replace(each, model=HIDDEN.id) for each in hidden())
    [row] = run_json("stats", "--counts")
    assert (row["model"], row["route"], row["requests"]) == (HIDDEN.id, ROUTE, 20)
    assert (row["learned_from"], row["drift"], row["learned_window"]) == (20, None, None)
    assert row["prior"]["source"] == f"learned from 20 requests on {ROUTE}"
    assert 0 < row["learned_error"] < 0.05
    text = run("stats", "--counts").stdout
    assert f"o200k_base × 1.1 ± 15.0 % → × {row['prior']['factor']:g} ± " in text
    assert ", from 20" in text


def test_drift_learned_windows_and_wrong_exact_counts_are_reported(run, run_json, keep):
    prompts = mixed("drift", 40)
    bills = iter([round(BILLED["qwen3:8b"](p).tokens * (1.3 if at >= 20 else 1)) for at, p in enumerate(prompts)])
    keep(msgspec.structs.replace(each, model=HIDDEN.id) for each in online(prompts, lambda _: next(bills)))
    keep([seen("over", 50.0, kind="overflow", window=8192), seen("cut", 51.0, kind="cut")])
    keep(seen(f"x{n}", 52.0 + n, reported=140) for n in range(3))
    text = run("stats", "--counts").stdout
    assert f"{HIDDEN.id} on {ROUTE}: the server has counted +" in text
    assert "differently since 1970-01-01 00:00:20; 20 older reports are ignored" in text
    assert "gpt-4o on openai: the server reported a window of 8,192 tokens" in text
    assert "gpt-4o on openai: counted by its own tokenizer, and still -28.6 % off" in text
    exact = next(row for row in run_json("stats", "--counts") if row["model"] == "gpt-4o")
    assert (exact["overflows"], exact["cuts"], exact["requests"], exact["learned_window"]) == (1, 1, 3, 8192)


def test_implausible_reports_are_mentioned(run, run_json, keep):
    keep(msgspec.structs.replace(each, model=HIDDEN.id) for each in online(mixed("odd", 12), lambda _: 8_000))
    assert "the reported usage is ignored" in run("stats", "--counts").stdout
    [row] = run_json("stats", "--counts")
    assert (row["plausible"], row["learned_from"]) == (False, 0)


def test_cached_tokens_are_a_share_of_the_prompts(run, keep):
    keep([seen("o1", 1.0, cached=50, expected_cached=75)])
    assert run("stats", "--counts").stdout.splitlines()[1].split()[-8:-4] == ["50.0", "%", "75.0", "%"]


def test_a_time_a_model_and_a_tenant_are_chosen(run, run_json, keep):
    keep([seen("old", time.time() - 7200), seen("new", time.time() - 600, model="claude-sonnet-4-5")])
    keep([seen("theirs", time.time())], tenant="acme")
    assert [row["model"] for row in run_json("stats", "--counts", "--last", "1h")] == ["claude-sonnet-4-5"]
    assert [row["model"] for row in run_json("stats", "--counts", "--last", "1d")] == ["claude-sonnet-4-5", "gpt-4o"]
    assert [row["model"] for row in run_json("stats", "--counts", "-m", "anthropic/claude-sonnet-4-5")] == [
        "claude-sonnet-4-5"
    ]
    assert [row["requests"] for row in run_json("stats", "--counts", "--tenant", "acme")] == [1]
    assert "no usage matches" in run("stats", "--counts", "--last", "1m").stdout


@pytest.mark.parametrize("text", ["soon", "24", "-1h", "1y", "9999999999h", "nan"])
def test_a_time_that_is_none_is_refused(run, keep, text):
    keep([])
    assert "is not a duration such as 90m, 24h or 7d" in run("stats", "--last", text, code=2).stderr
