"""`brimful explain` with the id of a stored context or message."""

import asyncio
import re

import pytest

from answered import ANSWER, QUESTION, answer_questions, engine, furnish, screenshot, shape
from brimful.records import Room

SEED = """\
┌─ BRIMFUL CONTEXT for message #abc123 ─┐
│ Persona: Helper AI
│ Room: general
│ Timestamp: 2025-01-24 11:30:15
│
│ CONTEXT COMPONENTS:
│
│ 1. SYSTEM PROMPT (1,234 tokens):
│    "You are Helper AI, a coding assistant..."
│
│ 3. RETRIEVED MEMORIES (5 items, 3,890 tokens):
│    Memory #1 (episodic, score: 0.82):
│    Memory #2 (semantic, score: 0.76):
│ 2. RECENT MESSAGES (20 msgs, 8,120 tokens):
│ 5. USER MESSAGE (245 tokens):
│    "How should I handle embedding timeouts?"
│
│ RESPONSE GENERATED:
│   Model: gpt-4o
│   Completion Tokens: 487
│   Total Tokens: 16,547
│   Duration: 3.2s
└──────────────────────────────────────┘
"""


@pytest.fixture
def answer():
    return answer_questions()[0]


def test_every_line_of_the_founding_document(run, answer):
    text = run("explain", answer.message.id).stdout
    said = {shape(line.replace(answer.message.id, "abc123")) for line in text.splitlines()}
    expected = {shape(line) for line in SEED.splitlines()}
    assert expected <= said, expected - said


def test_more_memories_than_are_shown_are_counted(run):
    async def story():
        async with engine() as opened:
            await furnish(opened)
            for number in range(9):
                await opened.remember(f"Embedding timeouts, note {number}: they come and go.", persona="helper-ai")
            return await opened.respond("general", QUESTION, persona="helper-ai")

    answer = asyncio.run(story())
    text = run("explain", answer.context.id).stdout
    assert re.search(r"\[\.\.\. \d+ more memories \.\.\.\]", text)
    assert re.search(r"\[\.\.\. \d+ earlier messages \.\.\.\]", text)
    whole = run("explain", answer.context.id, "--full").stdout
    assert "more memories" not in whole
    assert whole.count("they come and go.") == 9


def test_the_upstream_of_the_proxy_is_named(run):
    async def story():
        async with engine() as opened:
            await furnish(opened)
            context = await opened.assemble(room="general", message=QUESTION)
            await opened.record_response(context, "Retry.", route="openai:h", metadata={"upstream": "azure"})
            return context.id

    assert "│   Upstream: azure\n│   Route: openai:h\n" in run("explain", asyncio.run(story())).stdout


def test_the_context_the_question_and_the_answer_lead_to_the_same(run_json, answer):
    found = [run_json("explain", id) for id in (answer.context.id, "ask-0", answer.message.id, answer.response.id)]
    assert {each["id"] for each in found} == {answer.context.id}
    assert [each["message"] for each in found] == [None, "ask-0", answer.message.id, answer.response.id]


@pytest.mark.usefixtures("answer")
def test_result_as_data(run_json):
    data = run_json("explain", "ask-0")
    assert (data["persona"], data["room"]) == ("Helper AI", "general")
    [said] = data["answers"]
    assert said["usage"] == {"prompt": data["tokens"], "cached": 0, "completion": 487, "reasoning": 0}
    assert said["cost"] == pytest.approx(data["tokens"] * 2.5e-6 + 487 * 10e-6)
    names = [part["name"] for part in data["parts"]]
    assert names == ["system", "recent", "memories", "current"]
    assert data["parts"][-1]["entries"][0]["package"]["content"] == QUESTION


@pytest.mark.usefixtures("answer")
def test_parts_cost_what_their_candidates_cost(run_json):
    data = run_json("explain", "ask-0")
    kept = [row for row in data["candidates"] if row["outcome"] in ("kept", "shrunk")]
    assert sum(part["tokens"] for part in data["parts"]) == sum(row["cost"] for row in kept)
    assert sum(len(part["entries"]) for part in data["parts"]) == len(kept)


def small(answers=1):
    return answer_questions(questions=answers, window=500, completion=100)


def test_the_losers_stand_nearest_to_the_cut_first(run, run_json):
    [answer] = small()
    text = run("explain", answer.context.id).stdout
    table = text[text.index("LEFT OUT: ") :].splitlines()
    rows = [line.split() for line in table[2:]]
    below = [int(row[1]) for row in rows if row[1].startswith("+")]
    assert below == sorted(below) != []
    every = run_json("explain", answer.context.id)["candidates"]
    assert len(rows) == sum(row["outcome"] not in ("kept", "shrunk") for row in every)
    assert len(run("explain", answer.context.id, "--limit", 2).stdout.split("LEFT OUT: ")[1].splitlines()) == 4


def test_an_item_is_explained_with_the_window_that_it_needs(run, run_json):
    small(answers=3)
    data = run_json("explain", "ask-1", "old-00")
    assert data["decision"]["reason"] == "older"
    assert [each["outcome"] for each in data["builds"]] == ["dropped"] * 3
    text = run("explain", "ask-1", "old-00").stdout
    assert "recent builds" in text
    assert data["window_for"] > 500
    assert f"smallest window that includes it: {data['window_for']:,} tokens" in text
    body = run_json("explain", "ask-2", "m-start")
    assert 0 < body["window_for"] <= 500
    less = body["window_for"] - 1
    content = f"smallest window that includes it: {less + 1:,} tokens (the window was 500)"
    assert content in run("explain", "ask-2", "m-start").stdout


def test_the_first_build_tells_the_window(run, run_json):
    small()
    data = run_json("explain", "ask-0", "old-00")
    window = data["window_for"]
    assert window > 500
    text = f"smallest window that includes it: {window:,} tokens (the window was 500)"
    assert text in run("explain", "ask-0", "old-00").stdout
    context = data["builds"][0]["snapshot"]
    for size, there in ((window, "kept"), (window - 1, "dropped")):
        run("replay", context, "--window", size, "--out", f"{size}.json")
        assert run_json("explain", f"{size}.json", "old-00")["decision"]["outcome"] == there


def test_an_id_that_fits_several_contexts_says_so(run, answer):
    async def again():
        async with engine() as opened:
            [asked] = await opened.store.messages(["ask-0"])
            return await opened.assemble(room="general", persona="helper-ai", message=asked, window=9000)

    context = asyncio.run(again())
    result = run("explain", "ask-0")
    assert "'ask-0' refers to 2 contexts" in result.stderr
    assert context.id in result.stdout
    assert answer.context.id in result.stderr


def test_media_by_their_names(run):
    async def story():
        async with engine() as opened:
            await furnish(opened)
            media = [screenshot("screenshot"), screenshot("diagram")]
            await opened.respond("general", "Look at these.", persona="helper-ai", id="look", media=media)

    asyncio.run(story())
    text = run("explain", "look").stdout
    assert re.search(r"^│ \d\. MEDIA \(2 images, [\d,]+ tokens\):$", text, re.MULTILINE)
    for name in ("screenshot", "diagram"):
        assert re.search(rf"^│    - {name}\.png \([\d,]+ tokens\)$", text, re.MULTILINE)
    assert re.search(
        r"^│   Media: +[\d,]+ tokens", run("inspect", "--room", "general", "--embedder", "none").stdout, re.MULTILINE
    )


@pytest.mark.usefixtures("answer")
def test_a_message_that_was_deleted_still_leads_to_its_context(run):
    run("message", "remove", "ask-0")
    assert "CONTEXT for message #ask-0" in run("explain", "ask-0").stdout


@pytest.mark.usefixtures("answer")
def test_erased_content_is_reported(run):
    run("memory", "remove", "m-start", "--erase")
    text = run("explain", "ask-0").stdout
    assert "(erased)" in text
    assert "npm start" not in text


@pytest.mark.usefixtures("answer")
def test_nobody_of_that_name(fails):
    assert (
        fails("explain", "nobody")
        == "nobody: there is no such file, and no context or answered message with this id in the store"
    )
    assert fails("explain", "old-03").startswith("old-03: there is no such file, and no context")
    assert fails("explain", "ctx-nobody").startswith("no context 'ctx-nobody'")
    assert fails("explain", "ask-0", "m-strat").endswith("did you mean m-start?")


@pytest.mark.usefixtures("answer")
def test_filters_give_a_table(run):
    text = run("explain", "ask-0", "--kind", "memory-*").stdout
    assert "RESPONSE GENERATED" not in text
    assert sum(line.startswith(("kept", "dropped")) for line in text.splitlines()) == 5


@pytest.mark.usefixtures("answer")
def test_the_answer_is_not_part_of_the_context(run):
    """The answer itself came after the context: it is in the room, and not in what the model saw."""
    assert ANSWER not in run("explain", "ask-0", "--full").stdout


def test_a_memory_that_was_no_candidate_says_why(fails, run, answer):
    run("memory", "add", "Bob keeps bees.", "--user", "bob", "--id", "bees", "--at", 1)
    error = fails("explain", answer.context.id, "bees")
    assert error.startswith(f"'bees' was not a candidate of {answer.context.id}: it belongs to the user 'bob'")


def test_a_room_goes_by_its_name_and_a_single_loser_is_one(run, run_json):
    async def story():
        async with engine() as opened:
            await opened.put(Room(id="r-1", name="The kitchen"))
            await opened.remember("timeouts " + "word " * 280, room="r-1")
            return await opened.respond("r-1", "What of timeouts?", window=300, completion=50)

    context = asyncio.run(story()).context.id
    text = run("explain", context).stdout
    assert "│ Room: The kitchen (r-1)\n" in text
    assert "LEFT OUT: 1 candidate, nearest to the cut first" in text
    data = run_json("explain", context)
    assert (data["room"], data["room_name"]) == ("r-1", "The kitchen")
