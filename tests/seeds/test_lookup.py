"""Rows of the requirements about retrieval: fallback, limits, settings of a call, what is included."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

import brimful
from brimful.cli.app import app
from brimful.engine import Engine, Retrieval
from brimful.errors import InvalidValue
from brimful.records import Lorebook, LoreEntry, Memory, Message, Persona, Room
from brimful.testing import HashEmbedder, ScriptedProvider

NOW = 1_794_000_000.0
LAMPS = "How many lamps are in the hall?"


def run(story, **options):
    """Run a story with an engine on a store of its own. Nothing is embedded in the background."""

    async def whole():
        async with Engine("sqlite://", **{"model": "gpt-4o", "embedder": None, "indexing": False, **options}) as engine:
            return await story(engine)

    return asyncio.run(whole())


def memories(count, text="The hall has {} lamps.", **fields):
    return [Memory(id=f"m{n}", content=text.format(n), at=NOW - 60 * n, **fields) for n in range(count)]


def relevance_of(context):
    """Return the relevance of every retrieved memory, by id."""
    return {
        package.id: package.relevance
        for package in context.inputs.packages
        if package.kind.startswith("memory-") and "search" in package.metadata
    }


def down():
    """Return an embedder that cannot be reached."""
    embedder = HashEmbedder()
    embedder.fail_with = ConnectionError("connection refused")
    return embedder


# -- 0-9, 1-3: time and budget ---------------------------------------------------------------------------------------


def score_of(package):
    context = brimful.assemble([package], model="gpt-4o", policy="auction", now=NOW)
    return context.decisions[0].score


@pytest.mark.parametrize(
    ("kind", "options", "total"),
    [
        ("message-recent", {}, 0.4 * 0.9 + 0.3 * 0.5 + 0.2 * 0.5 + 0.1),
        ("memory-semantic", {"relevance": 0.9}, 0.4 * 0.8 + 0.3 * 0.5 + 0.2 * 0.9 + 0.1),
        ("memory-semantic", {"relevance": 0.9, "timestamp": NOW}, 0.4 * 0.8 + 0.3 * 0.5 + 0.2 * 0.9 + 0.1),
        ("media-image", {"content": "[Image]"}, 0.4 * 0.3 + 0.3 * 0.3 + 0.2 * 0.5 + 0.1),
    ],
)
def test_0_9_a_package_without_a_timestamp_is_as_new_as_now(kind, options, total):
    """The timestamp defaults to now, so that recency is 1 in the score of the auction."""
    package = brimful.package(kind, options.pop("content", "The hall has lamps."), model="gpt-4o", **options)
    assert score_of(package).recency == 1.0
    assert score_of(package).total == pytest.approx(total)


def test_0_9_of_messages_without_timestamps_the_newest_stay():
    """If nobody says when, the position does."""
    messages = [{"role": "user", "content": f"Message {n}: {'and so on ' * 20}"} for n in range(60)]
    packages = brimful.conversation(messages, model="gpt-4")
    context = brimful.assemble(packages, model="gpt-4", policy="auction", window=5_000, now=NOW)
    positions = sorted(package.position for package in packages if package.id in context.kept)
    assert 2 < len(positions) < 60
    assert positions == list(range(60 - len(positions), 60))


@pytest.mark.parametrize(
    ("model", "available", "target"), [("gpt-4", 4692, 3753), ("claude-3-sonnet", 196_500, 157_200)]
)
def test_1_3_the_budget_names_the_tokens_of_the_system_prompt_and_of_messages(model, available, target):
    """systemPromptTokens 500, availableForMessages 4,692, targetTokens 3,753."""
    budget = brimful.budget(model=model, policy="window", completion=3000)
    assert (budget.system_tokens, budget.available_for_messages, budget.target_tokens) == (500, available, target)


def test_1_3_the_command_line_shows_them():
    """`brimful budget` shows what it shows in Python."""
    shown = CliRunner().invoke(app, ["budget", "-m", "gpt-4", "-p", "window", "--completion", "3000"]).stdout
    rows = {line.split(":")[0].strip(): line.split(":")[1].split()[0] for line in shown.splitlines()[1:]}
    assert (rows["System"], rows["Messages"], rows["pool recent"]) == ("500", "4,692", "3,753")


# -- 2-27: the k most recent at .5 -----------------------------------------------------------------------------------


def test_2_27_after_a_failure_an_accidental_match_does_not_replace_the_recent_memories():
    """Fallback: the k most recent memories at relevance .5, if vector search fails."""

    async def story(engine):
        letters = (Memory(id=f"m{n}", content=f"{word} sleeps", at=NOW - n) for n, word in enumerate("abcdefgh"))
        await engine.remember_many([*letters, Memory(id="digit", content=f"7 {'on and on ' * 40}", at=NOW - 999)])
        return await engine.assemble(
            room="r", message="Where do I find row 7 of the old register?", retrieval={"max_memories": 8}, now=NOW
        )

    context = run(story, embedder=down())
    assert relevance_of(context) == dict.fromkeys((f"m{n}" for n in range(8)), 0.5)
    assert [each.kind for each in context.inputs.degraded][1:] == ["vector-search-failed", "recent-memories"]


@pytest.mark.parametrize("at", [NOW - 99_999, NOW])
def test_2_27_what_was_found_is_filled_up_to_k(at):
    """Memories that match stay, with their own relevance; the most recent others fill up."""

    async def story(engine):
        await engine.remember_many([*memories(9, "Note {}"), Memory(id="lamps", content=LAMPS, at=at)])
        return await engine.assemble(room="r", message=LAMPS, retrieval={"max_memories": 4}, now=NOW)

    found = relevance_of(run(story, embedder=down()))
    assert found.pop("lamps") > 0.5
    assert found == dict.fromkeys(("m0", "m1", "m2"), 0.5)


def test_2_27_memories_in_nearly_the_same_words_all_have_the_fallback_relevance():
    """Each of the most recent memories has .5, not .5, .25 and .125."""

    async def story(engine):
        await engine.remember_many(memories(5, "Backup {} is done."))
        return await engine.assemble(room="r", message="Hello there", now=NOW)

    assert set(relevance_of(run(story, embedder=down())).values()) == {0.5}


@pytest.mark.parametrize(
    ("fallback", "embedder", "expected"),
    [
        ("failure", None, 0),
        ("failure", down(), 10),
        ("always", None, 10),
        ("always", down(), 10),
        ("never", None, 0),
        ("never", down(), 0),
    ],
)
def test_2_27_the_fallback_is_a_setting(fallback, embedder, expected):
    """Irrelevant memories stay out unless there are few, search failed, or the setting asks for them."""

    async def story(engine):
        await engine.remember_many(memories(60))
        return await engine.assemble(room="r", message="Good morning", now=NOW)

    assert len(relevance_of(run(story, embedder=embedder, retrieval=Retrieval(fallback=fallback)))) == expected


def test_2_27_the_fallback_needs_no_words_to_search_for():
    """A message without text, such as a picture, gets the most recent memories where the setting says so."""

    async def story(engine):
        await engine.remember_many(memories(3))
        picture = [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]
        return await engine.assemble(
            room="r", message=picture, retrieval={"fallback": "always", "max_memories": 2}, now=NOW
        )

    assert relevance_of(run(story)) == {"m0": 0.5, "m1": 0.5}


def test_2_27_the_fallback_brings_only_memories_of_the_types_and_relevance_that_were_asked_for():
    """The settings of a call hold for the fallback, too."""

    async def story(engine):
        await engine.remember_many(memories(3, type="semantic"))
        await engine.remember("Episode", id="episode", type="episodic", at=NOW)
        settings = ({"types": ["episodic"]}, {"min_relevance": 0.6}, {"memories": False})
        return [
            relevance_of(await engine.assemble(room="r", message="Hello", retrieval=each, now=NOW)) for each in settings
        ]

    assert run(story, retrieval=Retrieval(fallback="always")) == [{"episode": 0.5}, {}, {}]


# -- 2-30: k that is k -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["max_results", "max_memories"])
@pytest.mark.parametrize("k", [0, 1, 2, 5])
def test_2_30_a_context_gets_at_most_k_memories(setting, k):
    """k = 5 memories by a setting."""

    async def story(engine):
        await engine.remember_many(memories(40))
        return await engine.assemble(room="r", message=LAMPS, now=NOW)

    assert len(relevance_of(run(story, retrieval=Retrieval(**{setting: k})))) == k


def test_2_30_the_best_k_are_chosen():
    """The k memories are the most relevant ones."""

    async def story(engine):
        await engine.remember_many([*memories(30), Memory(id="best", content=LAMPS, at=NOW - 99_999)])
        return await engine.assemble(room="r", message=LAMPS, retrieval={"max_memories": 1}, now=NOW)

    assert list(relevance_of(run(story))) == ["best"]


def test_2_30_pinned_memories_do_not_count():
    """They are in every context anyway, so k memories come on top of them."""

    async def story(engine):
        await engine.remember("How many lamps are in the hall? Two.", id="pin", pinned=True, at=NOW)
        await engine.remember_many(memories(3))
        return await engine.assemble(room="r", message=LAMPS, retrieval={"max_memories": 1}, now=NOW)

    context = run(story)
    assert len(relevance_of(context)) == 1
    assert context.decision("pin").included


# -- 2-29, 2-37: types and relevance, for an engine and for a call ---------------------------------------------------


def test_2_37_min_relevance_holds_for_an_engine_a_call_and_a_search():
    """Min relevance .3."""

    async def story(engine):
        await engine.remember_many([*memories(9, "Note {} of the hall"), Memory(id="best", content=LAMPS, at=NOW)])
        contexts = [
            await engine.assemble(room="r", message=LAMPS, retrieval=each, now=NOW)
            for each in (None, {"min_relevance": 0.0}, {"min_relevance": 0.999})
        ]
        searches = [await engine.search(LAMPS, min_relevance=each, now=NOW) for each in (None, 0.0)]
        return [len(relevance_of(each)) for each in contexts], [len(each) for each in searches]

    assert run(story, retrieval=Retrieval(min_relevance=0.05)) == ([1, 10, 0], [1, 10])
    assert run(story) == ([10, 10, 0], [10, 10])


def test_2_29_a_call_chooses_its_memory_types():
    """Memory types and min relevance of a call."""

    async def story(engine):
        for type in ("episodic", "semantic", "procedural"):
            await engine.remember(f"The hall has lamps ({type}).", id=type, type=type, at=NOW)
        settings = (None, {"types": ["semantic"]}, {"types": ["semantic", "episodic"]})
        contexts = [await engine.assemble(room="r", message=LAMPS, retrieval=each, now=NOW) for each in settings]
        answer = await engine.respond("r", LAMPS, retrieval={"types": ["procedural"]}, now=NOW)
        return [set(relevance_of(each)) for each in (*contexts, answer.context)]

    types = Retrieval(types=("procedural",))
    assert run(story, retrieval=types, provider=ScriptedProvider(["Two."])) == [
        {"procedural"},
        {"semantic"},
        {"semantic", "episodic"},
        {"procedural"},
    ]


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"types": ["tacit"]}, "types: must be among episodic, semantic, procedural, not 'tacit'"),
        ({"min_relevance": 3}, "min_relevance: must be a number from 0 to 1"),
        ({"timeout": 3}, "unknown field `timeout`"),
        ({"fallback": "sometimes"}, "fallback"),
        ({"max_memories": -1}, "max_memories: must be a number of memories, not -1"),
        (["semantic"], "must be a dict of retrieval settings"),
    ],
)
def test_2_29_wrong_settings_of_a_call_get_a_clear_error(settings, match):
    """Bad input is refused, with the name of the setting."""

    async def story(engine):
        await engine.assemble(room="r", message="Hi", retrieval=settings, now=NOW)

    with pytest.raises(InvalidValue, match=f"^retrieval: .*{match}"):
        run(story)


# -- 2-52: failures of vector search are seen ------------------------------------------------------------------------

DOWN = "openai:text-embedding-3-small@http://127.0.0.1:9/v1"


def inspect(url, embedder, *options, room="r"):
    arguments = ["inspect", "--room", room, "-m", "gpt-4o", "--embedder", embedder, "--db", url, *options]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_2_52_inspect_says_how_the_results_of_this_build_were_found(house):
    """Not "by words and meaning" if vectors were not used: they may be missing, off, or have failed."""
    assert "included, by words\n" in inspect(house, "none")
    assert "included, by words\n" in inspect(house, "static")  # nothing is embedded yet
    CliRunner().invoke(app, ["index", "--embedder", "static", "--db", house])
    assert "included, by words and meaning (static)\n" in inspect(house, "static")
    failed = inspect(house, DOWN)
    assert "included, by words\n" in failed
    assert "Fallback mode: no vector search in this build\n" in failed
    assert json.loads(inspect(house, DOWN, "--json"))["methods"] == ["words"]


def test_2_52_inspect_says_that_the_most_recent_memories_were_used(house):
    """The fallback is a way to find something, too."""
    assert "2 found, 2 included, by recency\n" in inspect(house, DOWN, room="quiet")


def test_2_52_a_new_process_sees_the_failures_of_the_ones_before(house):
    """After three failures, inspect shows that vector search is not used."""
    build = ["assemble", "--room", "r", "-m", "gpt-4o", "--db", house, "--embedder"]
    for _ in range(3):
        CliRunner().invoke(app, [*build, DOWN])
    line = "Fallback mode: no vector search in this build and in the last 3 saved contexts"
    assert line in inspect(house, DOWN)
    assert "Vector search failed in the last 3 saved contexts" in inspect(house, "static")
    CliRunner().invoke(app, [*build, "static"])
    assert "saved context" not in inspect(house, "static")


# -- 1-12: memories, lore, media: yes or no --------------------------------------------------------------------------


async def furnish(engine):
    """Write a memory, a pinned memory, and lore that all apply to the question."""
    await engine.put(Lorebook(id="house"))
    await engine.put(Room(id="r", lorebooks=("house",)))
    await engine.write_lore([LoreEntry(id="lore", lorebook="house", content="Lamps are lit at six.", keys=("lamps",))])
    await engine.remember_many([*memories(1), Memory(id="pin", content="Ada is the host.", pinned=True, at=NOW)])


def test_1_12_a_build_may_go_without_memories_or_lore():
    """Include memories, artifacts: yes or no, for each build."""

    async def story(engine):
        await furnish(engine)
        found = []
        for settings in ({}, {"memories": False}, {"lore": False}, {"memories": False, "lore": False}):
            context = await engine.assemble(room="r", message=LAMPS, retrieval=settings, now=NOW)
            notices = [each.facts for each in context.inputs.degraded if each.kind == "left-out"]
            found.append(({each.id for each in context.inputs.packages} - {"(current)"}, notices))
        return found

    assert run(story) == [
        ({"m0", "pin", "lore"}, []),
        ({"lore"}, [{"sources": ["memories"]}]),
        ({"m0", "pin"}, [{"sources": ["lore"]}]),
        (set(), [{"sources": ["memories", "lore"]}]),
    ]


def test_1_12_a_build_may_go_without_media():
    """A media item that was left out is on the record, but not in the request."""
    picture = brimful.Media(modality="image", url="https://example.com/a.png", width=512, height=512)

    async def story(engine):
        return [
            await engine.assemble(
                room="r", message="What is in the picture?", media=[picture], retrieval={"media": media}, now=NOW
            )
            for media in (True, False)
        ]

    shown, hidden = run(story)
    assert "example.com" in json.dumps(shown.request)
    assert "example.com" not in json.dumps(hidden.request)
    assert hidden.tokens < shown.tokens
    assert [each.reason for each in hidden.decisions if each.kind == "media-image"] == ["excluded"]


def test_1_12_without_media_no_picture_of_a_message_is_sent():
    """Neither those of older messages nor that of the message to answer."""
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}

    async def story(engine):
        for n in range(3):
            await engine.post(room="r", content=[{"type": "text", "text": f"Picture {n}"}, picture], at=NOW + n)
        return [await engine.assemble(room="r", retrieval={"media": media}, now=NOW + 9) for media in (True, False)]

    shown, hidden = run(story)
    assert "example.com/a.png" in json.dumps(shown.request)
    assert "example.com/a.png" not in json.dumps(hidden.request)
    assert "Picture 2" in json.dumps(hidden.request)
    assert hidden.component("media").tokens < 100 < shown.component("media").tokens  # a line is left of each


def test_1_12_explain_says_that_a_context_was_built_without_memories_or_lore(tmp_path):
    """Somebody who looks for a memory in such a context learns why it is not there."""
    url = f"sqlite:///{tmp_path}/chat.db"

    async def story():
        async with Engine(url, model="gpt-4o", embedder=None) as engine:
            await furnish(engine)
            return await engine.assemble(room="r", message=LAMPS, retrieval={"memories": False, "lore": False}, now=NOW)

    context = asyncio.run(story())
    for id, source in (("m0", "memories"), ("lore", "lore")):
        shown = CliRunner().invoke(app, ["explain", context.id, id, "--db", url]).output
        assert f"this context was built without {source}" in " ".join(shown.split())


@pytest.fixture
def house(tmp_path):
    """Return the URL of a store with a furnished room."""
    url = f"sqlite:///{tmp_path}/house.db"

    async def story():
        async with Engine(url, embedder=None) as engine:
            await furnish(engine)
            await engine.remember("The hall has lamps of brass.", id="brass", type="episodic", at=NOW)
            await engine.post(room="r", text=LAMPS, at=NOW)
            await engine.post(room="quiet", text="Good morning", at=NOW)

    asyncio.run(story())
    return url


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {"m0", "brass", "pin", "lore"}),
        (["--memory-type", "semantic"], {"m0", "pin", "lore"}),
        (["--memory-type", "semantic", "--memory-type", "episodic"], {"m0", "brass", "pin", "lore"}),
        (["--max-memories", "0"], {"pin", "lore"}),
        (["--min-relevance", "0.999"], {"pin", "lore"}),
        (["--no-memories", "--no-media"], {"lore"}),
        (["--no-lore", "--other-rooms", "3"], {"m0", "brass", "pin"}),
    ],
)
def test_2_29_and_1_12_the_command_line_has_the_settings_of_a_call(house, options, expected):
    """Memory types, min relevance, number of memories; memories, lore and media: yes or no."""
    arguments = ["assemble", "--room", "r", "-m", "gpt-4o", "--embedder", "none", "--db", house, "--json"]
    result = CliRunner().invoke(app, [*arguments, *options])
    assert result.exit_code == 0, result.output
    decisions = json.loads(result.stdout)["decisions"]
    assert {each["id"] for each in decisions if each["kind"].startswith(("memory", "lore"))} == expected


@pytest.mark.parametrize(("threshold", "found"), [("0", {"m0", "brass"}), ("0.999", set())])
def test_2_37_a_search_on_the_command_line_has_a_threshold(house, threshold, found):
    """Min relevance, for a search."""
    arguments = ["memory", "search", LAMPS, "--room", "r", "--embedder", "none", "--db", house, "--json"]
    result = CliRunner().invoke(app, [*arguments, "--min-relevance", threshold])
    assert {each["record"]["id"] for each in json.loads(result.stdout)["hits"]} == found


def test_2_29_inspect_and_chat_have_the_settings_of_a_call(house):
    """The commands share one set of options."""
    shared = ["--room", "r", "-m", "gpt-4o", "--embedder", "none", "--db", house, "--no-memories"]
    inspected = CliRunner().invoke(app, ["inspect", *shared, "--json"])
    assert json.loads(inspected.stdout)["memories"] == []
    wrong = ["chat", "send", *shared, "--message", "Hi", "--memory-type", "tacit"]
    assert "'tacit' is not one of episodic, semantic, procedural" in CliRunner().invoke(app, wrong).output


# -- 1-22: min, max and share of messages for a persona, under every policy ------------------------------------------

WORDS = "and so on and on it went "


def history(count, words=3):
    return [{"role": "user", "content": f"Message {n}: {WORDS * words}"} for n in range(count)]


def positions(context):
    """Return the positions of the messages that are in."""
    return sorted(each.position for each in context.inputs.packages if each.id in context.kept)


@pytest.mark.parametrize("policy", brimful.policy_names())
def test_1_22_a_persona_limits_the_number_of_messages_under_every_policy(policy):
    """maxMessages 10: the newest ten, whatever the policy."""
    packages = brimful.conversation(history(40), model="gpt-4o")
    limits = brimful.Overrides(max_messages=10)
    context = brimful.assemble(packages, model="gpt-4o", policy=policy, overrides=limits, now=NOW)
    assert positions(context) == list(range(30, 40))


@pytest.mark.parametrize("policy", ["default", "auction", "split", "pools"])
def test_1_22_the_maximum_is_for_history_and_search_hits_come_on_top(policy):
    """maxMessages caps what is loaded of the conversation, newest first; what search finds is retrieved content."""
    hits = [
        brimful.package("message-older", f"Long ago {n}: {WORDS}", model="gpt-4o", id=f"o{n}", relevance=0.9)
        for n in range(8)
    ]
    packages = [*brimful.conversation(history(40), model="gpt-4o"), *hits]
    limits = brimful.Overrides(max_messages=4)
    context = brimful.assemble(packages, model="gpt-4o", policy=policy, overrides=limits, now=NOW)
    kinds = [each.kind for each in context.decisions if each.included]
    assert (len(kinds), kinds.count("message-older")) == (12, 8)


@pytest.mark.parametrize("policy", ["auction", "window"])
def test_1_22_a_minimum_of_messages_may_use_the_margin(policy):
    """minMessages 12: even if they exceed the share of history."""
    packages = brimful.conversation(history(40, words=12), model="gpt-4")
    settings = {"model": "gpt-4", "policy": policy, "window": 5_000, "now": NOW}
    few = brimful.assemble(packages, **settings, overrides=brimful.Overrides(budget_share=0.2))
    many = brimful.assemble(packages, **settings, overrides=brimful.Overrides(budget_share=0.2, min_messages=18))
    assert len(positions(few)) < 18 <= len(positions(many))
    assert many.tokens <= many.budget.hard_limit
    assert positions(many) == list(range(40 - len(positions(many)), 40))


def test_1_22_a_share_of_messages_leaves_the_rest_of_the_auction_to_memories():
    """tokenBudgetPercent .3: history takes no more of the auction than that."""
    notes = [
        brimful.package("memory-semantic", f"Note {n}: {WORDS * 3}", model="gpt-4", id=f"n{n}", importance=0.1)
        for n in range(40)
    ]
    packages = [*brimful.conversation([*history(59), *history(1, words=15)], model="gpt-4"), *notes]
    settings = {"model": "gpt-4", "policy": "auction", "window": 5_000, "now": NOW}
    free = brimful.assemble(packages, **settings)
    limited = brimful.assemble(packages, **settings, overrides=brimful.Overrides(budget_share=0.3))
    assert not any(each.id.startswith("n") for each in free.decisions if each.included)
    messages = sum(each.cost for each in limited.decisions if each.kind.startswith("message"))
    assert 0.25 * limited.budget.available < messages <= 0.3 * limited.budget.available
    assert limited.component("memories").items > 10
    assert {each.reason for each in limited.decisions if each.kind == "message-recent" and not each.included} == {
        "pool-full"
    }


def test_1_22_explain_names_the_maximum_of_messages():
    """The record says why an older message is out."""
    packages = brimful.conversation(history(9), model="gpt-4o")
    context = brimful.assemble(
        packages, model="gpt-4o", policy="auction", overrides=brimful.Overrides(max_messages=3), now=NOW
    )
    oldest = min(packages, key=lambda each: each.position)
    assert "already holds its maximum of 3 messages" in context.explain(oldest.id)


def test_1_22_a_persona_of_an_engine_has_its_limits_in_a_long_room():
    """A stored persona's overrides hold under the policy it names, in a room of which most does not fit."""
    limits = {
        "free": {},
        "share": {"budget_share": 0.3},
        "min": {"budget_share": 0.3, "min_messages": 30},
        "max": {"budget_share": 0.3, "max_messages": 4},
    }

    async def story(engine):
        messages = [Message(id=f"m{n}", room="r", content=f"{n} {WORDS}", at=NOW + n, role="user") for n in range(400)]
        await engine.post_many(messages)
        for name, overrides in limits.items():
            await engine.put(Persona(id=name, policy="auction", overrides=overrides))
        return [
            await engine.assemble(room="r", persona=name, model="gpt-4", window=5_000, now=NOW + 500) for name in limits
        ]

    contexts = run(story)
    history = [
        [each for each in context.decisions if each.included and each.kind in ("message-recent", "message-current")]
        for context in contexts
    ]
    sent = dict(zip(limits, map(len, history), strict=True))
    assert sent["max"] == 4 < sent["share"] < sent["min"] == 30 < sent["free"] < 100
    available = contexts[0].budget.available
    costs = {name: sum(each.cost for each in kept) for name, kept in zip(limits, history, strict=True)}
    assert 0.2 * available < costs["share"] <= 0.3 * available < costs["min"]
    assert 0.9 * available < costs["free"] <= available
    assert all({each.id for each in kept} == {f"m{n}" for n in range(400 - len(kept), 400)} for kept in history)
    assert [context.left_out + len(context.kept) for context in contexts] == [400] * 4
