"""brimful stats: statistics of contexts and answers."""

import asyncio
import re
import sys
import time

import pytest

from brimful import Engine
from brimful.cli.stats import NO_CONTEXTS
from brimful.core.notice import Notice
from brimful.records import Persona, Response, Snapshot, Usage
from brimful.records.own_calls import SpendingLimit
from brimful.records.usage import UsageReport
from brimful.stores import connect
from brimful.stores.tables.own_calls import Charge
from stores.test_snapshots import pile
from stores.test_statistics import CONTEXTS
from support import build

NOW = time.time()


@pytest.fixture
def keep(run):
    """Write builds and answers into the store of this directory."""
    run("room", "add", "general")

    def read_records(*records):
        async def write():
            async with connect("sqlite:///brimful.db") as database:
                store = database.tenant("default")
                await store.save_records(records)

        asyncio.run(write())

    return read_records


def built(id, context=CONTEXTS[1], **more):
    return Snapshot(**{"id": id, "room": "general", "persona": "helper", "at": NOW - 60, "context": context} | more)


def answered(id, context, **more):
    usage = Usage(prompt=1000, cached=600, completion=50, reasoning=20)
    return Response(
        **{"id": id, "context": context, "room": "general", "at": NOW - 50, "usage": usage, "seconds": 2.0} | more
    )


def test_an_empty_store_says_what_to_do(run, run_json):
    run("room", "add", "general")
    assert run("stats").stdout.strip() == NO_CONTEXTS
    assert run("stats", "--last", "1h").stdout.strip() == "no contexts match"
    [empty] = run_json("stats")
    assert (empty["contexts"], empty["cost"]) == (0, None)
    assert run_json("stats", "--by", "day") == []


LINES = (
    r"Statistics for helper \(last 24 hours\):",
    r"Total Contexts Built: +3",
    r"Average Token Usage: +[\d,]+ tokens \([\d.]+ % of all budgets together\)",
    r"Max Token Usage: +[\d,]+ tokens \(at most [\d.]+ % of a budget\)",
    r"Min Token Usage: +[\d,]+ tokens \(at least [\d.]+ % of a budget\)",
    r"COMPONENT BREAKDOWN \(average\):",
    r"  System Prompt: +[\d,]+ tokens \([\d.]+ %",
    r"  Memories: +[\d,]+ tokens \([\d.]+ %",
    r"  Recent Messages: +[\d,]+ tokens \([\d.]+ %",
    r"  Media: +[\d,]+ tokens \([\d.]+ %",
    r"MEMORY RETRIEVAL:",
    r"  Total Memories Retrieved: +[\d,]+",
    r"  Average per Context: +[\d.]+",
    r"  Top Memory Types: +semantic \(\d+%\)",
    r"  Average Relevance Score: +40 %",
    r"WARNINGS:",
    r"  Over-budget: +0 times",
    r"  >80% usage: +(once|\d+ times)",
    r"  No memories retrieved: +(once|\d+ times)",
    r"  Breaker opened: +once, vector search available for 33\.3 % of contexts",
    r"ANSWERS:",
    r"  Answers: +2, 1 of them with usage",
    r"  Prompt tokens: +1,000 \(60\.0 % cached, 0\.0 % expected\)",
    r"  Completion tokens: +50 \(20 reasoning\)",
    r"  Count error: +[+-][\d.]+ % compared with reported usage",
    r"  Average time: +2\.0 s",
    r"  Tokens of everything: +[\d,]+; [\d,]+ were sent \([\d.]+ % less\)",
)


@pytest.mark.parametrize("line", LINES)
def test_every_line_of_the_sample_can_be_had(run, keep, line):
    keep(
        *(built(f"s{n}", CONTEXTS[n + 1]) for n in range(3)),
        built("theirs", persona="other"),
        answered("a1", "s0"),
        answered("a2", "s1", usage=None, seconds=None),
    )
    text = run("stats", "--last", "24h", "--persona", "helper").stdout
    assert re.search(f"^{line}", text, re.MULTILINE), text


def test_summaries_by_a_model_have_a_line_of_their_own(run, keep):
    route = {"model": "gpt-4o", "route": "r", "at": NOW - 40, "kind": "summary"}
    keep(built("s0"), *(UsageReport(id=id, reported=900, completion=40, **route) for id in "ab"))
    assert re.search(r"Summaries by a model: +2, 1,800 prompt and 80 completion tokens", run("stats").stdout)


def test_cost_and_savings_use_real_prices(run, run_json):
    async def talked():
        async with Engine("sqlite:///brimful.db", model="gpt-4o", embedder="none") as engine:
            await engine.store.put(Persona(id="helper", prompt="Be brief."))
            for number in range(40):
                await engine.post(room="general", text=f"Message {number}: " + "we spoke of timeouts. " * 30)
            context = await engine.assemble(room="general", persona="helper", message="Well?", window=4000)
            usage = Usage(prompt=context.tokens, cached=1000, completion=100)
            await engine.record_response(context, text="Yes.", usage=usage)
            return context

    context = asyncio.run(talked())
    [figures] = run_json("stats")
    left = figures["naive"] - context.tokens
    assert left > 0
    assert figures["saved"] == pytest.approx(left * 2.5e-6)  # $2.50 a million tokens of a prompt
    assert figures["saved_by_cache"] == pytest.approx(1000 * 1.25e-6)
    assert figures["cost"] == pytest.approx((context.tokens - 1000) * 2.5e-6 + 1000 * 1.25e-6 + 100 * 1e-5)
    text = run("stats").stdout
    assert re.search(r"Cost: +\$0\.\d{4}\n", text)
    assert re.search(r"Saved: +\$0\.\d{4} \([\d.]+ %\) less than sending everything", text)


def test_without_a_price_list_the_rest_is_shown(run, run_json, keep, monkeypatch):
    keep(built("s1"), answered("a1", "s1"))
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    reason = "the cost of a request needs an optional dependency: pip install 'brimful[prices]'"
    assert f"unknown: {reason}" in run("stats").stdout
    assert run_json("stats")[0]["cost"] is None


def test_models_without_a_price_are_named(run, keep):
    keep(built("s1"), answered("a1", "s1"))
    assert "unknown: no prices for these models" in run("stats").stdout


@pytest.mark.parametrize(
    ("by", "keys"),
    [("model", ["m"]), ("policy", ["auction", "default"]), ("persona", ["helper", "other"])],
)
def test_statistics_are_grouped(run, run_json, keep, by, keys):
    keep(built("s1"), built("s2", CONTEXTS[0], persona="other"), answered("a1", "s1"))
    assert [each["key"] for each in run_json("stats", "--by", by)] == keys
    lines = run("stats", "--by", by).stdout.splitlines()
    assert [line.split()[0] for line in lines] == [by, *keys]


def test_usage_by_user_and_by_api_key(run, run_json, keep):
    key = run_json("api-key", "add", "--name", "the bot")["id"]
    keep(built("s1", user="ada", key=key), built("s2", user="bob", key="gone"), built("s3"), answered("a1", "s1"))
    by_user = run_json("stats", "--by", "user")
    assert [(each["key"], each["contexts"], each["answers"]["prompt"]) for each in by_user] == [
        ("ada", 1, 1000),
        ("bob", 1, 0),
    ]
    assert {(each["key"], each["name"]) for each in run_json("stats", "--by", "key")} == {
        (key, "the bot"),
        ("gone", ""),
    }
    assert f"the bot ({key})" in run("stats", "--by", "key").stdout
    [ada] = run_json("stats", "--user", "ada")
    assert (ada["contexts"], "own_calls" in ada) == (1, False)
    assert run("stats", "--key", key).stdout.startswith(f"Statistics for the bot ({key}) (all time):")
    assert run("stats", "--user", "eve").stdout == "no contexts match\n"


def test_days_and_hours_follow_each_other(run_json, keep):
    keep(*(built(f"s{n}", at=float(86_400 * n + 7)) for n in (9, 0, 3)))
    assert [each["key"] for each in run_json("stats", "--by", "day")] == ["1970-01-01", "1970-01-04", "1970-01-10"]
    assert run_json("stats", "--by", "hour")[-1]["key"] == "1970-01-10T00:00Z"
    assert run_json("stats", "--by", "day")[1]["begin"] == 3 * 86_400


def test_a_room_and_a_time_are_chosen(run_json, keep):
    keep(built("s1"), built("s2", room="other"), built("s3", at=NOW - 7200))
    assert run_json("stats", "--room", "general")[0]["contexts"] == 2
    assert run_json("stats", "--last", "1h")[0]["contexts"] == 2
    assert run_json("stats", "--last", "1h", "--room", "other")[0]["contexts"] == 1


def test_openings_of_the_breaker_come_from_the_engine(run_json, run):
    """What an engine notes when it gives up its embedder is what is counted."""

    class Broken:
        id = "broken"

        async def embed(self, texts, purpose):
            del texts, purpose
            raise OSError("gone")

        async def close(self):
            pass

    async def talked():
        async with Engine("sqlite:///brimful.db", model="gpt-4o", embedder=Broken()) as engine:
            for number in range(40):  # too many for the window, so the room is searched
                await engine.post(room="general", text=f"Tea at {number}? " + "Or later? " * 20)
            for number in range(5):
                await engine.assemble(room="general", message=f"Well, {number}?", window=1_000, completion=100)

    asyncio.run(talked())
    [figures] = run_json("stats")
    assert figures["breaker_openings"] == 1
    assert sum(figures["warnings"].get(kind, 0) for kind in ("vector-search-failed", "vector-search-off")) == 5
    assert figures["vector_uptime"] == 0.0
    assert figures["memories"]["missing_without_vectors"] == figures["warnings"]["vector-search-off"]
    assert "Breaker opened:           once" in run("stats").stdout


@pytest.mark.parametrize(
    ("off", "on", "told"),
    [
        (2, 0, "2 times (circuit breaker)"),
        (1, 2, "3 times (circuit breaker: 1)"),
        (0, 2, "2 times"),
        (1, 0, "once (circuit breaker)"),
    ],
)
def test_missing_memories_are_reported_with_the_breaker(run, keep, off, on, told):
    vectors_off = Notice(kind="vector-search-off", text="vector search is off")
    notes = [(vectors_off,)] * off + [()] * on
    forgetful = [build(pile()[3:], degraded=note) for note in notes]
    remembering = build(pile(), degraded=(vectors_off,))
    keep(*(built(f"s{n}", context) for n, context in enumerate([remembering, *forgetful])))
    assert f"No memories retrieved:    {told}\n" in run("stats").stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--by", "week"], "--by"),
        (["--model", "gpt-4o"], "needs --counts"),
        (["--counts", "--by", "day"], "cannot be combined with --counts"),
        (["--user", "ada", "--room", "general"], "only one of --room, --user and --key"),
        (["--last", "soon"], "is not a duration such as 90m, 24h or 7d"),
    ],
)
def test_conflicting_options_are_refused(run, keep, options, said):
    keep()
    assert said in run("stats", *options, code=2).stderr


def test_texts_of_a_store_do_not_steer_the_terminal(run, keep):
    keep(built("s1", build(pile()), persona="\x1b[31mred"))
    assert "\x1b" not in run("stats", "--persona", "\x1b[31mred").stdout
    assert "\x1b" not in run("stats", "--by", "persona").stdout


def test_own_calls_of_models_are_shown_by_kind_with_the_limit(run, run_json):
    run("room", "add", "general")
    limit = SpendingLimit(tokens_per_day=50_000, dollars_per_day=5)

    async def spend():
        async with connect("sqlite:///brimful.db") as database:
            store, most = database.tenant("default"), Charge(prompt=9_000)
            for kind, billed in (
                ("learn", Charge(prompt=8_000, completion=500, nanodollars=2_000_000)),
                ("learn", Charge(prompt=100, nanodollars=None)),
                ("summary", Charge(prompt=400, nanodollars=1_000_000_000)),
            ):
                made = await store.reserve_own_call(kind, most, SpendingLimit(), now=time.time())
                await store.settle_own_call(kind, made.day, most, billed)
            await store.reserve_own_call("compact", most, limit, now=time.time())
            await store.reserve_own_call("embed", most, SpendingLimit(), now=1.0)  # long ago

    asyncio.run(spend())
    shown = run("stats", "--last", "1h").stdout
    lines = [" ".join(line.split()) for line in shown.partition("OWN CALLS OF MODELS:\n")[2].splitlines()]
    assert lines == [
        "Summary: 1 call, 400 tokens, $1.00",
        "Learn: 2 calls, 8,600 tokens, $0.0020, 1 without a price",
        "Compact: 0 calls, 0 tokens, $0.00",
        "Limit today: 9,000 of 50,000 tokens spent, $1.00 of $5.00 spent; 9,000 tokens reserved",
    ]
    assert "Embed" in run("stats").stdout
    [data] = run_json("stats")
    assert data["own_calls"]["tokens_today"] == 9_000
    [data] = run_json("stats", "--room", "general")
    assert "own_calls" not in data
