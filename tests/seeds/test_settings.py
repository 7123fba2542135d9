"""What the seeds ask of policies, settings, the report, logs and the registry, by the number of the requirement."""

import asyncio
import json
import logging
import re
import subprocess
import sys
import warnings

import msgspec
import pytest
from typer.testing import CliRunner

import brimful
from brimful.cli.app import app
from brimful.core.context import COMPONENTS
from brimful.errors import EmbeddingError
from brimful.models import resolve
from brimful.packagers import media, memory, message, package, summary
from brimful.policies import load_policy
from brimful.records import Message
from brimful.retrieval.breaker import Breaker
from brimful.testing import HashEmbedder, WordCounter
from strategies import COUNTER, NOW
from support import NO_FORMS, build, words

# -- 3-11: the order in which `pools` trims ----------------------------------------------------------------------------


def relateds(count, *, cluster=None, size=60):
    """Return related memories with falling scores, all of them above 0.5."""
    return [
        memory(f"fact {n} " + words(size), counter=COUNTER, id=f"r{n}", relevance=1 - n / 100, cluster=cluster)
        for n in range(count)
    ]


def recents(count, *, cluster=None, size=18):
    return [
        message(f"line {n} " + words(size), counter=COUNTER, id=f"m{n}", timestamp=NOW - 100 + n, cluster=cluster)
        for n in range(count)
    ]


def build_pools(packages, **overrides):
    """With 3,000 tokens for the answer and 1,024 for safety, 876 of 4,900 tokens are available."""
    context = build(packages, "pools", window=4_900, completion=3_000, overrides=overrides)
    assert context.budget.available == 876
    return context


SUMMARIES = (
    summary("the day in short", of="day", counter=COUNTER, id="s-day"),
    summary("the topic in short", of="topic", counter=COUNTER, id="s-topic"),
)


def test_3_11_related_content_with_the_lowest_score_goes_first():
    """If the context overflows, trim in this order: 1. related (drop lowest score)."""
    context = build_pools([*recents(10, cluster="day"), *relateds(20, cluster="topic"), *SUMMARIES])
    kept = [n for n in range(20) if f"r{n}" in context.kept]
    assert kept == list(range(len(kept)))
    assert {f"m{n}" for n in range(10)} <= set(context.kept)
    assert context.tokens > 876 - 80  # the next memory would not fit
    assert {each.outcome for each in context.decisions} == {"kept", "dropped"}
    assert context.decision("s-topic").reason == "verbatim"  # memories of its cluster represent it


@pytest.mark.parametrize("window", [4_400, 4_900, 7_000])
@pytest.mark.parametrize("policy", ["pools", "auction", "split"])
def test_3_11_a_summary_stands_in_before_the_last_of_its_cluster_is_dropped(policy, window):
    """2. swap clusters to summaries: of 60 memories in 6 clusters, all leave a trace."""
    facts = [
        memory(f"fact {n} " + words(100), counter=COUNTER, id=f"r{n}", relevance=1 - n / 100, cluster=f"c{n // 10}")
        for n in range(60)
    ]
    short = [summary(f"cluster {n} in short", of=f"c{n}", counter=COUNTER, id=f"s{n}") for n in range(6)]
    context = build([*facts, *short], policy, window=window, completion=3_000)
    kept = [n for n in range(60) if f"r{n}" in context.kept]
    assert kept == list(range(len(kept)))
    assert 3 <= len(kept) < 50
    lost = [n for n in range(6) if 10 * n >= len(kept)]
    assert [n for n in range(6) if f"s{n}" in context.kept] == lost
    assert {context.decision(f"r{n}").by for n in range(10 * lost[0], 60)} == {f"s{n}" for n in lost}
    assert {context.decision(f"r{n}").outcome for n in range(10 * lost[0], 60)} == {"replaced"}


def test_3_11_then_clusters_of_recent_messages_give_way_to_summaries():
    """2. swap clusters to summaries (related first, then recent)."""
    tight = build_pools([*recents(43, size=15, cluster="day"), *relateds(10, cluster="topic"), SUMMARIES[1]])
    assert {tight.decision(f"r{n}").outcome for n in range(10)} == {"replaced"}
    assert tight.decision("s-topic").outcome == "kept"
    both = build_pools([*recents(50, cluster="day"), *relateds(10, cluster="topic"), *SUMMARIES])
    assert {both.decision(f"m{n}").outcome for n in range(50)} == {"replaced"}
    assert {f"r{n}" for n in range(10)} <= set(both.kept)  # summaries saved more than was needed


def test_3_11_a_related_cluster_gives_way_to_its_summary_before_a_recent_one_does():
    """(related first, then recent): related content is dropped first, so this shows where some of it is spared."""
    pile = [*recents(30, size=15, cluster="day"), *relateds(10, cluster="topic"), *SUMMARIES]
    context = build_pools(pile, **{"pools.related.min_items": 10})
    assert {context.decision(f"r{n}").by for n in range(10)} == {"s-topic"}
    assert {context.decision(f"m{n}").outcome for n in range(30)} == {"kept"}


def test_3_11_what_is_left_of_a_day_and_its_summary_tell_of_all_of_it():
    """If a part of a day is outside its pool, its summary is in, and still is when more of the day is trimmed."""
    day = recents(40, size=40, cluster="day")
    facts = relateds(30)
    for window in (5_000, 5_800):
        context = build([*day, *facts, SUMMARIES[0]], "pools", window=window, completion=3_000)
        kept = [n for n in range(40) if f"m{n}" in context.kept]
        assert 15 < len(kept) < 40
        assert kept == list(range(40 - len(kept), 40))
        assert context.decision("s-day").outcome == "kept"
        assert {context.decision(f"m{n}").by for n in range(40 - len(kept))} == {"s-day"}


def test_3_11_then_recent_messages_go_and_persistent_content_only_if_the_policy_allows_it():
    """3. trim recent (last resort) 4. trim persistent only if policy allows (generally: no)."""
    pinned = memory("pin " + words(500), counter=COUNTER, id="pin", pinned=True)
    pile = [*recents(50), *relateds(5), pinned]
    context = build_pools(pile)
    assert {context.decision(f"r{n}").reason for n in range(5)} == {"trimmed"}
    assert context.decision("m0").reason == "trimmed"
    assert "pin" in context.kept
    assert "m49" in context.kept
    required = message(words(500), counter=COUNTER, id="now", current=True, timestamp=NOW)
    full = build_pools([*pile, required])
    assert full.kept == ("now", "pin")
    assert full.decision("pin").form == "full"
    assert full.remaining < 0  # it may even use the margin
    steps = [{"drop": "related"}, {"drop": "persistent"}, {"drop": "recent"}]
    allowed = build_pools(pile, trim=steps, **NO_FORMS)
    assert allowed.decision("pin").reason == "trimmed"
    assert allowed.decision("m20").included


# -- 4-1, 4-3: environment variables -----------------------------------------------------------------------------------

SEED_VARIABLES = {
    "CONTEXT_TOTAL_TOKEN_LIMIT": "100000",
    "CONTEXT_RECENT_HISTORY_TOKEN_BUDGET": "70000",
    "CONTEXT_RAG_TOKEN_BUDGET": "30000",
}


@pytest.mark.parametrize("prefix", ["", "BRIMFUL_"])
def test_4_1_the_environment_sets_the_limits_with_and_without_our_prefix(prefix, monkeypatch):
    """CONTEXT_TOTAL_TOKEN_LIMIT, CONTEXT_RECENT_HISTORY_TOKEN_BUDGET and CONTEXT_RAG_TOKEN_BUDGET."""
    for name, value in SEED_VARIABLES.items():
        monkeypatch.setenv(prefix + name, value)
    budget = brimful.budget(model="gpt-4o", policy="split")
    assert (budget.hard_limit, budget.limit("recent"), budget.limit("related")) == (100_000, 70_000, 30_000)


def test_4_1_the_name_with_the_prefix_takes_precedence():
    environ = dict.fromkeys(SEED_VARIABLES, "5000") | {f"BRIMFUL_{name}": "6000" for name in SEED_VARIABLES}
    policy = load_policy("split", environ=environ)
    limits = (policy.total_tokens, policy.pool("recent").limit.tokens, policy.pool("related").limit.tokens)
    assert limits == (6000, 6000, 6000)


@pytest.mark.parametrize(
    ("policy", "unused"),
    [
        ("default", []),
        ("pools", []),
        ("split", []),
        ("window", ["related"]),
        ("fit", ["related"]),
        ("auction", ["recent", "related"]),
    ],
)
@pytest.mark.parametrize("prefix", ["", "BRIMFUL_"])
def test_4_3_a_variable_that_the_policy_has_no_use_for_is_named_and_the_build_goes_on(
    policy, unused, prefix, monkeypatch
):
    for name, value in SEED_VARIABLES.items():
        monkeypatch.setenv(prefix + name, value)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        context = brimful.assemble(
            [brimful.package("message-current", "Hi.", model="gpt-4o", id="now")], model="gpt-4o", policy=policy, now=0
        )
    assert context.kept == ("now",)
    assert context.budget.hard_limit == 100_000
    variables = {"recent": "CONTEXT_RECENT_HISTORY_TOKEN_BUDGET", "related": "CONTEXT_RAG_TOKEN_BUDGET"}
    assert [str(each.message) for each in caught] == [
        f"{prefix}{variables[pool]} has no effect: policy {policy!r} has no pool {pool!r}" for pool in unused
    ]


def test_4_3_a_number_that_cannot_be_read_is_an_error_under_every_policy():
    with pytest.raises(brimful.errors.InvalidPolicy, match="CONTEXT_RAG_TOKEN_BUDGET"):
        load_policy("auction", environ={"CONTEXT_RAG_TOKEN_BUDGET": "many"})


# -- 0-21: the report by type ------------------------------------------------------------------------------------------


def build_typed(window=2_000):
    kinds = ("semantic", "episodic", "procedural", "semantic")
    return build(
        [
            package("system-prompt", words(20), counter=COUNTER, id="sys"),
            *(memory(f"{n} " + words(9), type=kind, counter=COUNTER, id=f"mem{n}") for n, kind in enumerate(kinds)),
            *recents(5),
            media(brimful.Media(modality="image", url="https://example.org/a.png"), counter=COUNTER, id="pic"),
            message("so?", counter=COUNTER, id="now", current=True, timestamp=NOW),
        ],
        window=window,
    )


def test_0_21_the_report_has_tokens_and_items_by_type_and_what_is_available():
    """Context Window, Available, content by type (memory-semantic: 1450 tokens, 2 items), Reserved, Remaining."""
    context = build_typed()
    kinds = {each.name: each for each in context.kinds}
    assert {name: each.items for name, each in kinds.items()} == {
        "system-prompt": 1,
        "memory-semantic": 2,
        "memory-episodic": 1,
        "memory-procedural": 1,
        "message-recent": 5,
        "media-image": 1,
        "message-current": 1,
    }
    report = context.report()
    assert f"│ Available: {context.budget.available:,} tokens\n" in report
    rows = dict(re.findall(r"^│ +(\w+-\w+): +([\d,]+ \(\d+ items?\))$", report, re.MULTILINE))
    assert rows == {
        name: f"{each.tokens:,} ({each.items} item{'s' if each.items > 1 else ''})"
        for name, each in kinds.items()
        if name.startswith(("memory-", "media-"))
    }


class JoiningCounter(WordCounter):
    """Counts a whole request as half of its parts."""

    def prompt(self, prompt):
        count = super().prompt(prompt)
        return msgspec.structs.replace(count, tokens=count.tokens // 2)


@pytest.mark.parametrize("counter", [COUNTER, JoiningCounter()])
def test_0_21_types_add_up_to_components(counter):
    large = memory(words(5_000), counter=counter, id="large")
    context = build([*recents(3), *relateds(3), large], counter=counter, overrides=NO_FORMS)
    assert not context.decision("large").included
    for component in context.components:
        kinds = [each for each in context.kinds if COMPONENTS[each.name] == component.name]
        assert (sum(each.tokens for each in kinds), sum(each.items for each in kinds)) == (
            (component.tokens, component.items) if component.name != "format" else (0, 0)
        )


def test_0_21_the_command_line_has_types_and_what_is_available(tmp_path):
    path = tmp_path / "context.json"
    context = build_typed()
    path.write_bytes(context.to_json())
    data = json.loads(CliRunner().invoke(app, ["explain", str(path), "--json"]).stdout)
    assert data["available"] == context.budget.available
    assert {each["name"]: each["tokens"] for each in data["kinds"]} == {
        each.name: each.tokens for each in context.kinds
    }
    assert f"Available: {context.budget.available:,} tokens" in CliRunner().invoke(app, ["explain", str(path)]).stdout


# -- 1-10, 1-25, 2-43, 2-44: logs --------------------------------------------------------------------------------------


def build_in_room(
    tmp_path, message="Where is my parcel?", *, count=40, model="gpt-4", hooks=(), embedder=None, **options
):
    """Build a context of a room with 40 messages, of which some do not fit in a small window."""

    async def story():
        url = f"sqlite:///{tmp_path / 'chat.db'}"
        async with brimful.Engine(url, model=model, embedder=embedder, hooks=hooks, indexing=False) as engine:
            text = "word " * 50
            messages = [
                Message(id=f"m{n:03d}", room="my room", content=f"secret {n} {text}", sender="ada", at=n)
                for n in range(count)
            ]
            await engine.post_many(messages)
            return await engine.assemble(room="my room", message=message, now=1_000.0, **options)

    return asyncio.run(story())


@pytest.mark.parametrize("policy", brimful.policy_names())
def test_1_10_one_line_a_build_has_the_budget_what_was_loaded_and_where_it_stopped(policy, tmp_path, caplog):
    """Log the token budget, "Loaded N messages using X/Y tokens" and where the budget was reached."""
    events = []
    with caplog.at_level(logging.INFO, logger="brimful.build"):
        context = build_in_room(tmp_path, count=200, hooks=[events.append], policy=policy, window=5_000)
    [record] = [each for each in caplog.records if each.name == "brimful.build"]
    assert record.levelno == logging.INFO
    sent = [id for id in context.kept if re.fullmatch(r"m\d+", id)]
    recent, budget = context.component("recent"), context.budget
    fields = {
        "context": context.id,
        "tenant": "default",
        "room": "my room",
        "persona": None,
        "model": "gpt-4",
        "policy": policy,
        "window": 5_000,
        "available": budget.available,
        "used": context.tokens,
        "target": budget.target_tokens,
        "stopped_at": min(sent),
        "kept": len(context.kept),
        "dropped": len(context.decisions) - len(context.kept),
        "left_out": 200 - len(sent),
        "degraded": [],
    }
    assert 10 < len(sent) < 100
    assert {name: getattr(record, name) for name in fields} == fields
    has_ledger = any(pool.ledger for pool in context.inputs.policy.pools)  # its lines stand for what is left out
    assert len(sent) <= record.loaded <= (200 if has_ledger else 199)
    assert (record.components["recent"], record.items["recent"]) == (recent.tokens, len(sent))
    assert record.naive == context.tokens + sum(each.saved for each in context.decisions) + context.inputs.unread.tokens
    assert record.ms >= 0
    line = record.getMessage()
    assert line.startswith("build context=ctx-")
    assert f' room="my room" model=gpt-4 policy={policy} window=5000 available={budget.available} used=' in line
    assert f" stopped_at={min(sent)} " in line
    assert "\n" not in line
    facts = {name: getattr(record, name) for name in ("stopped_at", "loaded", "left_out", "naive", "components")}
    assert {name: events[-1].facts[name] for name in facts} == facts


def test_1_25_a_build_whose_history_fits_did_not_stop(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="brimful.build"):
        build_in_room(tmp_path)
    [record] = [each for each in caplog.records if each.name == "brimful.build"]
    assert (record.loaded, record.stopped_at, record.dropped, record.left_out) == (40, None, 0, 0)
    assert record.naive == record.used


def test_2_43_a_build_logs_its_components_what_is_required_and_what_was_cached(tmp_path, caplog):
    """A detailed report of each build in the log: tokens and items of each component, as the event has them."""
    events = []
    with caplog.at_level(logging.INFO, logger="brimful.build"):
        context = build_in_room(tmp_path, hooks=[events.append], system="You help. " * 9)
        build_in_room(tmp_path, hooks=[events.append], system="You help. " * 9)
    first, second = (each for each in caplog.records if each.name == "brimful.build")
    components = {each.name: each for each in context.components}
    assert {"system", "memories", "recent", "media", "current", "format"} == components.keys()
    assert first.components == {name: each.tokens for name, each in components.items()}
    assert sum(first.components.values()) == first.used
    assert first.items == {"system": 1, "recent": 40, "current": 1}
    assert first.required == components["system"].tokens + components["current"].tokens > 0
    assert first.required_items == 2
    listed = ",".join(f"{name}:{each.tokens}" for name, each in components.items())
    assert f" components={listed} items=system:1,recent:40,current:1 required={first.required} " in first.getMessage()
    assert (first.cached, first.tokenized > 0, second.tokenized) == (False, True, 0)
    names = ("components", "items", "required", "required_items", "cached", "tokenized", "search_errors")
    assembled = [each.facts for each in events if each.name == "assembled"]
    assert [{name: each[name] for name in names} for each in assembled] == [
        {name: getattr(each, name) for name in names} for each in (first, second)
    ]


def test_2_43_results_of_a_search_that_come_from_the_cache_are_logged_as_such(tmp_path, caplog):
    async def story():
        async with brimful.Engine(f"sqlite:///{tmp_path}/chat.db", model="gpt-4o", embedder=None) as engine:
            await engine.remember("The parcel is in Hamburg.", room="r")
            for _ in range(2):
                await engine.assemble(room="r", message="Where is my parcel?", now=1_000.0)

    with caplog.at_level(logging.INFO, logger="brimful.build"):
        asyncio.run(story())
    assert [each.cached for each in caplog.records if each.name == "brimful.build"] == [False, True]


class QuotingEmbedder(HashEmbedder):
    """An embedder whose server refuses a text and quotes it."""

    async def embed(self, texts, purpose):
        raise EmbeddingError(self.id, f"cannot embed {texts} as {purpose}", status=503)


def test_2_43_why_a_search_failed_is_logged_without_content(tmp_path, caplog):
    events = []
    with caplog.at_level(logging.INFO, logger="brimful.build"):
        build_in_room(
            tmp_path,
            "my secret question",
            count=200,
            window=5_000,
            embedder=QuotingEmbedder(dims=16),
            hooks=[events.append],
        )
    [record] = [each for each in caplog.records if each.name == "brimful.build"]
    assert record.search_errors == {"vector-search-failed": "EmbeddingError 503"}
    assert events[-1].facts["search_errors"] == record.search_errors
    assert record.getMessage().endswith('search_errors="vector-search-failed:EmbeddingError 503"')
    assert "secret" not in caplog.text


def test_2_43_logs_have_no_content_and_quote_names(tmp_path, caplog):
    with caplog.at_level(logging.DEBUG, logger="brimful"):
        build_in_room(tmp_path, message="my secret question", persona='no\nva="x"')
    assert "secret" not in caplog.text
    [record] = [each for each in caplog.records if each.name == "brimful.build"]
    assert r' persona="no\nva=\"x\"" ' in record.getMessage()
    assert record.degraded == ["unknown-persona"]


def test_2_43_nothing_is_printed_unless_the_application_configures_logging(tmp_path):
    script = f"""
import asyncio, brimful
async def main():
    async with brimful.Engine("sqlite:///{tmp_path}/chat.db", model="gpt-4", embedder=None) as engine:
        await engine.assemble(room="r", message="Hi.")
        for _ in range(3):
            engine.breaker.failed(0.0)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_2_43_one_switch_turns_logs_off(tmp_path, caplog):
    with caplog.at_level(logging.INFO), caplog.at_level(logging.CRITICAL, logger="brimful"):
        build_in_room(tmp_path)
        breaker = Breaker(now=0.0, failures=1)
        breaker.failed(1.0)
        breaker.succeeded(2.0)
    assert [each for each in caplog.records if each.name.startswith("brimful")] == []


def test_2_44_the_breaker_logs_when_it_opens_and_when_it_closes(caplog):
    """Memory circuit breaker OPENED (3 failures); CLOSED (cooldown complete)."""
    breaker = Breaker(now=0.0, failures=3, cooldown=60.0)
    with caplog.at_level(logging.INFO, logger="brimful.breaker"):
        breaker.succeeded(0.5)
        for now in (1.0, 2.0, 3.0):
            breaker.failed(now)
        assert breaker.allow(70.0)
        breaker.failed(70.0)  # a failed probe: it stays open
        assert breaker.allow(140.0)
        breaker.succeeded(140.0)
        breaker.succeeded(141.0)
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", "breaker state=open failures=3 timed_out=False cooldown=60"),
        ("INFO", "breaker state=closed"),
    ]
    opened, closed = caplog.records
    assert (opened.state, opened.failures, opened.timed_out, opened.cooldown) == ("open", 3, False, 60.0)
    assert closed.state == "closed"


# -- 2-35: LLaVA, Qwen2-VL and other open models that see --------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "window", "tokens"),
    [
        ("llava llava:7b llava:latest ollama/llava llava:7b-v1.6", 32_768, 2928),
        ("llava-hf/llava-v1.6-mistral-7b-hf llava:7b-v1.6-mistral-q4_0", 32_768, 2928),
        ("llava:13b llava:13b-v1.6-vicuna-q8_0 llava-v1.6-vicuna-13b", 4_096, 2928),
        ("llava:34b llava-hf/llava-v1.6-34b-hf", 4_096, 2928),
        ("llava-hf/llava-1.5-7b-hf llava-v1.5-7b llava:7b-v1.5-q4_0", 4_096, 576),
        ("llava-llama3 xtuner/llava-llama-3-8b-v1_1", 8_192, 576),
        ("bakllava", 8_192, 576),
        ("qwen2-vl-7b Qwen/Qwen2-VL-7B-Instruct qwen/qwen-2-vl-7b-instruct", 32_768, 1369),
        ("Qwen/Qwen2-VL-72B-Instruct-AWQ openrouter/qwen/qwen-2-vl-72b-instruct", 32_768, 1369),
        ("qwen2.5vl:7b Qwen/Qwen2.5-VL-7B-Instruct qwen/qwen2.5-vl-7b-instruct:free", 128_000, 1369),
        ("mistralai/Pixtral-12B-2409 pixtral-12b", 128_000, 4160),
        ("llama3.2-vision meta-llama/Llama-3.2-11B-Vision-Instruct", 128_000, 6404),
        ("gemma3:4b google/gemma-3-4b-it", 131_072, 256),
        ("minicpm-v openbmb/MiniCPM-V-2_6 minicpm-v:8b-2.6-q4_K_M", 32_768, 448),
        ("OpenGVLab/InternVL3-8B OpenGVLab/InternVL3-8B-hf", 32_768, 2560),
    ],
)
def test_2_35_open_models_that_see_are_known_with_their_rule_for_images(names, window, tokens):
    """LLaVA: 256 tokens an image, Qwen2-VL by its resolution: as they are really counted, for 1024 x 1024 pixels."""
    for name in names.split():
        model = resolve(name)
        assert (model.known, model.window) == (True, window), name
        assert "image" in model.modalities
        picture = brimful.Media(modality="image", url="https://example.org/a.png", width=1024, height=1024)
        assert brimful.counter(name).media(picture).tokens == tokens, name


def test_2_35_the_seeds_256_tokens_are_a_rule_by_name():
    model = msgspec.structs.replace(resolve("llava"), image_rule="seed-llava")
    picture = brimful.Media(modality="image", url="https://example.org/a.png", width=1024, height=1024)
    assert brimful.counter(model).media(picture).tokens == 256


def test_2_35_qwen2_vl_renders_its_own_default_system_prompt():
    question = brimful.package("message-current", "hi", model="qwen2-vl-7b", id="now")
    context = brimful.assemble([question], model="qwen2-vl-7b", now=0)
    assert context.verification.basis == "exact"
    system = ["<|im_start|>", "system", "\n", "You", " are", " a", " helpful", " assistant", ".", "<|im_end|>", "\n"]
    user = ["<|im_start|>", "user", "\n", "hi", "<|im_end|>", "\n"]
    assert context.tokens == len([*system, *user, "<|im_start|>", "assistant", "\n"])


# -- 2-48: inspect within a second -------------------------------------------------------------------------------------

INSPECT = """
import atexit, sys, threading
from collections import Counter
from brimful.cli import main
class Loud:
    def __del__(self, write=sys.stderr.write):  # when modules are torn down, their names are gone
        write("torn down\\n")
loud = Loud()
work = Counter()
def note(frame, event, called):
    if event == "call" and "brimful" in frame.f_code.co_filename:
        work["calls"] += 1
    elif event == "c_call" and called.__name__ in ("execute", "encode_batch_flat"):
        work[called.__name__] += 1
def report():
    print("work", work["calls"], work["execute"], work["encode_batch_flat"], file=sys.stderr)
    print(*sys.modules, sep="\\n", file=sys.stderr)
atexit.register(report)
sys.argv = ["brimful", "inspect", "--room", "my room", "--message", "How?", "--db", "sqlite:///chat.db"]
sys.argv += ["--price", "full"]
threading.setprofile(note)
sys.setprofile(note)
main()
"""


def inspect_in_process(tmp_path, count):
    """Return the preview of a room, the modules that were loaded for it, and the work that was done."""
    build_in_room(tmp_path, count=count, model="gpt-4o", window=5_000)
    done = subprocess.run([sys.executable, "-c", INSPECT], capture_output=True, text=True, check=True, cwd=tmp_path)
    [work] = re.findall(r"^work (\d+) (\d+) (\d+)$", done.stderr, re.MULTILINE)
    return done.stdout, done.stderr.splitlines(), list(map(int, work))


def test_2_48_inspect_loads_no_more_than_it_needs_and_ends_at_once(tmp_path):
    """`inspect` answers within a second: benchmarks/inspector.py measures it, and this is what it takes."""
    shown, lines, _ = inspect_in_process(tmp_path, 40)
    assert "BRIMFUL INSPECTION" in shown
    assert "torn down" not in lines
    unneeded = ("rich", "pydantic", "httpx", "httpx2", "jinja2", "uvicorn", "brimful.server", "brimful.formats")
    assert "brimful.engine" in lines
    assert not set(unneeded) & set(lines)


def test_2_48_inspect_of_a_full_window_does_little_for_each_message(tmp_path):
    """The work that is a second of processor time: function calls of ours, statements, and texts to tokenize."""
    shown, _, (calls, statements, tokenized) = inspect_in_process(tmp_path, 3_000)
    loaded = int(re.search(r"Recent Messages: .*\(([\d,]+) msgs\)", shown)[1].replace(",", ""))
    assert loaded > 2_000
    assert "TOTAL USED:        123,209 tokens (100.0%)" in shown
    assert calls < 350 * loaded
    assert statements < 100
    assert tokenized == 1  # to load the tokenizer
