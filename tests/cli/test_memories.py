"""brimful memory, assemble and index."""

import json
import re
from pathlib import Path

import pytest

import brimful
from server.upstream import Upstream, chat_answer, serving

NOW = 1_763_211_000
AT = "2025-11-15T12:00:00Z"


@pytest.fixture
def known(run):
    """Three memories, of Ada, of all, and of Nova alone."""
    run("memory", "add", "Ada is allergic to hazelnut.", "--user", "ada", "--id", "nut", "--at", AT)
    run("memory", "add", "The shop closes at six.", "--type", "procedural", "--id", "shop", "--pin", "--at", AT)
    run(
        "memory",
        "add",
        "-",
        "--persona",
        "nova",
        "--id",
        "nova",
        "--source",
        "notes",
        "--at",
        AT,
        stdin="Nova is shy.\n",
    )


def ids(memories):
    return [memory["id"] for memory in memories]


@pytest.mark.usefixtures("known")
def test_memories_are_listed_by_whose_they_are(run, run_json):
    assert sorted(ids(run_json("memory", "list"))) == ["nova", "nut", "shop"]
    assert sorted(ids(run_json("memory", "list", "--user", "ada"))) == ["nut", "shop"]
    assert sorted(ids(run_json("memory", "list", "--user", "bob", "--persona", "nova"))) == ["nova", "shop"]
    assert ids(run_json("memory", "list", "--pinned")) == ["shop"]
    assert ids(run_json("memory", "list", "--type", "procedural")) == ["shop"]
    assert sorted(ids(run_json("memory", "list", "--not-pinned"))) == ["nova", "nut"]
    line = next(line for line in run("memory", "list").stdout.splitlines() if line.startswith("shop"))
    assert re.split(r"\s{2,}", line) == [
        "shop",
        "procedural",
        "2025-11-15 12:00:00",
        "pinned",
        "The shop closes at six.",
    ]


@pytest.mark.usefixtures("known")
def test_a_memory_is_shown_pinned_and_removed(run, run_json, fails):
    assert run("memory", "show", "nova").stdout.endswith("\n\nNova is shy.\n")
    assert run("memory", "pin", "nut").stdout == "pinned nut\n"
    assert run_json("memory", "show", "nut")["pinned"] is True
    assert run_json("memory", "unpin", "nut") == {"id": "nut", "pinned": False}
    assert run("memory", "remove", "nut").stdout == "removed nut\n"
    assert run_json("memory", "remove", "shop", "--erase") == {"id": "shop", "removed": True, "erased": True}
    for command in ("show", "pin", "unpin", "remove"):
        assert fails("memory", command, "nut") == "no memory 'nut'"


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("embedder", ["none", "static"])
def test_memories_are_found(run, run_json, embedder):
    arguments = ("memory", "search", "Is she allergic?", "--user", "ada", "--embedder", embedder)
    hits = run_json(*arguments)["hits"]
    assert hits[0]["record"]["id"] == "nut"
    assert "Ada is allergic to hazelnut." in run(*arguments).stdout
    assert [hit["record"]["id"] for hit in run_json(*arguments, "--limit", 1)["hits"]] == ["nut"]


@pytest.mark.usefixtures("known")
def test_nothing_is_found(run, run_json):
    assert run("memory", "search", "zeppelin", "--embedder", "none").stdout == "no memories found\n"
    assert run_json("memory", "search", "zeppelin", "--embedder", "none") == {"hits": [], "degraded": []}


def test_importance_has_its_range(run):
    assert "--importance" in run("memory", "add", "x", "--importance", 2, code=2).stderr


# -- contexts --------------------------------------------------------------------------------------------------------


@pytest.fixture
def room(run, known, write_lines):  # noqa: ARG001 - the memories are there
    """A room that is longer than its window, and a persona to answer in it."""
    messages = [{"role": "user", "content": "My bicycle is called Rosinante.", "timestamp": NOW - 9000}]
    messages += [
        {"role": "assistant" if at % 2 else "user", "content": f"Number {at}: " + "and so the day went on. " * 20}
        for at in range(40)
    ]
    run("import", write_lines("den.jsonl", messages))
    run("persona", "add", "nova", "--prompt", "You are Nova.", "--model", "gpt-4o")


ASK = ("assemble", "--room", "den", "--now", NOW, "--window", 3000, "--completion", 500)


@pytest.mark.usefixtures("room")
def test_the_report_and_what_was_found(run):
    text = run(*ASK, "--persona", "nova", "--user", "ada", "--message", "What is my bicycle called?").stdout
    assert text.startswith("┌─ BRIMFUL: gpt-4o ─")
    found = [line.split() for line in text.split("└")[1].splitlines()[2:]]
    assert found[0] == ["outcome", "reason", "relevance", "parts", "query", "id", "text"]
    [line] = [line for line in found if line[-1] == "Rosinante."]
    assert line[:2] == ["kept", "fits"]


@pytest.mark.usefixtures("room")
def test_the_record_is_that_of_the_library(run, run_json):
    arguments = (*ASK, "-m", "gpt-4o", "--message", "Is Ada allergic?", "--user", "ada", "--out", "context.json")
    context = brimful.Context.from_json(run(*arguments, "--json").stdout)
    assert context == brimful.Context.from_json(Path("context.json").read_bytes())
    assert context.tokens <= context.budget.hard_limit
    assert context.decision("shop").outcome == "kept"
    assert context.decision("nut").outcome == "kept"
    assert "candidates" in run_json("explain", "context.json")
    assert "no change" in run("replay", "context.json").stdout or "same" in run("replay", "context.json").stdout


@pytest.mark.usefixtures("room")
def test_the_request_and_standard_input(run):
    request = json.loads(run(*ASK, "-m", "gpt-4o", "--message", "-", "--request", stdin="And now?\n").stdout)
    assert request["messages"][-1]["content"].endswith("And now?")


@pytest.mark.usefixtures("room")
def test_the_room_may_end_with_the_question(run):
    run("message", "add", "--room", "den", "Which number was the last?")
    request = json.loads(run(*ASK, "-m", "gpt-4o", "--request").stdout)
    assert request["messages"][-1]["content"] == "Which number was the last?"


@pytest.mark.usefixtures("room")
def test_no_save_leaves_no_trace(run, run_json):
    run(*ASK, "-m", "gpt-4o", "--message", "Is Ada allergic?", "--user", "ada", "--dry-run")
    assert run_json("memory", "show", "nut")["accesses"] == 0
    run(*ASK, "-m", "gpt-4o", "--message", "Is Ada allergic?", "--user", "ada")
    assert run_json("memory", "show", "nut")["accesses"] == 1


@pytest.mark.usefixtures("room")
def test_settings_and_policies(run):
    arguments = (*ASK, "-m", "gpt-4o", "--message", "So?", "-p", "window", "--json")
    context = brimful.Context.from_json(
        run(*arguments, "--set", "pools.recent.min_items=1", "--set", "pools.recent.max_items=3").stdout
    )
    assert context.budget.policy == "window"
    assert [pool.items for pool in context.pools if pool.name == "recent"] == [3]


@pytest.mark.usefixtures("room")
def test_a_missing_embedder_is_reported(run):
    away = "ollama:nomic-embed-text@http://127.0.0.1:9"
    text = run(*ASK, "-m", "gpt-4o", "--message", "Is Ada allergic?", "--user", "ada", "--embedder", away).stdout
    assert "vector search" in text


@pytest.mark.usefixtures("room")
def test_builds_that_fail_say_why(fails):
    assert fails(*ASK, "--message", "Hi").startswith("model: is not set: ")
    assert fails("assemble", "--room", "hall", "-m", "gpt-4o") == "no room 'hall'"
    assert fails(*ASK[:5], "-m", "gpt-4o", "--message", "word " * 90, "--window", 60).startswith("required parts need ")
    assert fails(*ASK, "-m", "gpt-4o", "--message", "Hi", "--embedder", "magic").startswith("embedder: must be one of ")


# -- vectors ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("known")
def test_index(run, run_json, fails):
    assert run("index", "--status").stdout == "no embedder is in use\n"
    [standing] = run_json("index")
    assert (standing["done"], standing["waiting"]) == (3, 0)
    run("memory", "add", "Something else.")
    assert run("index", "--status").stdout.split() == ["embedder", "done", "waiting", standing["embedder"], "3", "1"]
    assert run_json("index", "--status")[0]["waiting"] == 1
    assert run("index").stdout.splitlines()[1].split() == [standing["embedder"], "4", "0"]
    assert fails("index", "--drop", "magic").startswith("embedder 'magic' is not in use; in use: static")
    assert run_json("index", "--drop", standing["embedder"]) == []
    assert fails("index", "--embedder", "none") == "embedder: is 'none', so nothing can be embedded"
    run("index", "--status", "--drop", "x", code=2)


@pytest.mark.usefixtures("known")
def test_memories_are_searched_by_prefix_and_metadata(run, run_json):
    def found(*options):
        hits = run_json("memory", "search", "Is she allergic?", "--embedder", "none", *options)["hits"]
        return [hit["record"]["id"] for hit in hits]

    assert "nut" in found("--user", "ada")
    assert found("--user-prefix", "a") == ["nut"]
    assert found("--user", "ada", "--prefix", "x") == []
    assert found("--user", "ada", "--metadata", '{"a": 1}') == []
    run("memory", "search", "nuts", "--metadata", "[1]", code=2)


@pytest.mark.usefixtures("known")
def test_memories_are_listed_by_prefix_and_metadata_and_page_by_page(run_json):
    assert sorted(ids(run_json("memory", "list", "--prefix", "n"))) == ["nova", "nut"]
    assert ids(run_json("memory", "list", "--user-prefix", "a")) == ["nut"]
    assert ids(run_json("memory", "list", "--metadata", '{"a": 1}')) == []
    first = ids(run_json("memory", "list", "--limit", "1"))
    rest = ids(run_json("memory", "list", "--after", first[0]))
    assert first + rest == ids(run_json("memory", "list"))


@pytest.fixture
def model():
    """Return the options for a model, and the list of its answers."""
    upstream = Upstream()
    with serving(upstream.app()) as (address, _):
        yield ("--user", "ada", "--model", "gpt-4o", "--provider", f"openai:{address}/v1"), upstream.answers


def fact(text, **more):
    return chat_answer(json.dumps({"facts": [{"text": text, "messages": [1], **more}]}))


def test_memories_are_learned_from_a_file_and_unlearned(run, run_json, model):
    options, answers = model
    answers += [fact("Ada lives in Rome.")] * 2
    Path("said.json").write_text('[{"role": "user", "content": "I live in Rome."}]', encoding="utf-8")
    learned = run("memory", "learn", "said.json", *options).stdout
    assert learned.splitlines()[0] == "+ Ada lives in Rome."
    assert run("memory", "learn", "said.json", *options).stdout.strip() == "nothing new"
    (memory,) = run_json("memory", "list")
    assert run("janitor", "status").stdout.splitlines()[1].split()[:3] == ["1", "learning", "done"]
    assert run_json("memory", "unlearn")["state"] == "undone"
    assert run_json("memory", "list") == []
    again = run_json("memory", "learn", "said.json", *options)
    assert again["changes"][0]["memory"]["content"] == memory["content"]


@pytest.mark.usefixtures("known")
def test_memories_that_a_room_supersedes_are_archived(run, run_json, model):
    options, answers = model
    answers += [fact("Ada has a cat."), fact("Ada has a dog.", replaces="k2")]
    run("message", "add", "I have a cat.", "--room", "hall", "--sender", "ada")
    run("memory", "learn", "--room", "hall", *options)
    run("message", "add", "I have a dog now.", "--room", "hall", "--sender", "ada")
    assert "~ Ada has a dog." in run("memory", "learn", "--room", "hall", *options).stdout
    assert [each["content"] for each in run_json("memory", "list", "--archived")] == ["Ada has a cat."]
