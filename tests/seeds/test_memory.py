"""What the seeds ask of memories, focus, summaries and the janitor, by the number of the requirement."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

import brimful
from brimful.cli.app import app
from brimful.engine import Engine
from brimful.errors import ContextOverflow, InvalidValue
from brimful.policies import load_policy, policy_names
from brimful.records import Memory, Message, Persona, Room, Summary
from brimful.testing import ScriptedProvider

NOW = 1_794_000_000.0
FACTS = (
    "Ada drinks green tea in the morning, two cups with honey.",
    "Ada drinks black tea in the afternoon, one cup with milk.",
    "Ada drinks white tea in the evening, one cup without sugar.",
)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/chat.db"


def with_engine(url, story, **options):
    """Run a story with an engine, and close it."""

    async def run():
        async with Engine(url, clock=lambda: NOW, embedder=None, model="gpt-4o", **options) as engine:
            return await story(engine)

    return asyncio.run(run())


def run_cli(*args):
    """Run a command that ends well."""
    result = CliRunner().invoke(app, list(args), prog_name="brimful")
    assert result.exit_code == 0, result.output
    return result


def package_of(context, id):
    return next(each for each in context.inputs.packages if each.id == id)


# -- 3-19: a memory has a cluster and can give way to a summary --------------------------------------------------------


async def remember_tea(engine):
    """Remember three facts of one cluster, and what they come to."""
    for n, text in enumerate(FACTS):
        await engine.remember(f"{text} {'Really. ' * 60}", id=f"tea-{n}", cluster="tea")
    await engine.remember("Ada drinks tea all day.", id="tea", cluster="tea", summary=True)


SMALL = {"policy": "pools", "completion": 3_000}


def test_3_19_memories_of_a_cluster_are_replaced_by_its_summary(url):
    """Each memory knows its cluster and may have a summary; when over budget, the summary replaces the members."""

    async def story(engine):
        await remember_tea(engine)
        roomy = await engine.assemble(room="den", message="Which tea does Ada drink?", window=16_000, **SMALL)
        tight = await engine.assemble(room="den", message="Which tea does Ada drink?", window=4_150, **SMALL)
        return roomy, tight

    roomy, tight = with_engine(url, story)
    members = [f"tea-{n}" for n in range(len(FACTS))]
    assert {roomy.decision(id).outcome for id in members} == {"kept"}
    assert package_of(roomy, "tea-0").cluster == package_of(roomy, "tea").cluster == "tea"
    assert {tight.decision(id).outcome for id in members} == {"replaced"}
    assert tight.decision("tea").outcome == "kept"


def test_3_19_the_summary_comes_along_even_if_only_its_members_are_found(url):
    async def story(engine):
        await remember_tea(engine)
        await engine.remember("A warm drink.", id="tea", cluster="tea", summary=True)
        await engine.remember("Of another user.", id="bob", user="bob", cluster="tea", summary=True)
        await engine.assemble(room="den", message="Which cups with honey?", window=4_150, **SMALL)
        context = await engine.assemble(room="den", message="Which cups with honey?", window=4_150, **SMALL)
        return context, (await engine.store.memories(ids=["tea"]))[0]

    context, summary = with_engine(url, story)
    ids = [each.id for each in context.inputs.packages]
    assert ids.count("tea") == 1
    assert "bob" not in ids
    assert context.decision("tea").outcome == "kept"
    assert package_of(context, "tea").relevance == max(package_of(context, f"tea-{n}").relevance for n in range(3)) > 0
    assert summary.accesses == 2


def test_3_19_clusters_are_exported_imported_and_edited(url, tmp_path):
    run_cli("memory", "add", "Ada drinks tea.", "--id", "a", "--cluster", "tea", "--db", url)
    run_cli("memory", "add", "Tea all day.", "--id", "s", "--cluster", "tea", "--summary", "--db", url)
    edited = json.loads(run_cli("memory", "edit", "a", "--cluster", "drinks", "--json", "--db", url).stdout)
    assert (edited["cluster"], edited["content"]) == ("drinks", "Ada drinks tea.")
    assert "cluster" in run_cli("memory", "show", "a", "--db", url).stdout
    (tmp_path / "all.jsonl").write_text(run_cli("memory", "export", "--db", url).stdout)
    other = f"sqlite:///{tmp_path}/other.db"
    run_cli("import", str(tmp_path / "all.jsonl"), "--db", other)

    async def story(engine):
        return {each.id: (each.cluster, each.summary) for each in await engine.store.memories()}

    assert with_engine(other, story) == {"a": ("drinks", False), "s": ("tea", True)}
    run_cli("memory", "edit", "a", "--cluster", "", "--db", url)
    assert with_engine(url, story)["a"] == (None, False)


def test_3_19_a_summary_needs_a_cluster():
    with pytest.raises(InvalidValue, match="summary: needs a cluster"):
        Memory(id="s", content="Tea all day.", summary=True)


# -- 0-24, 0-27: what packages carry -----------------------------------------------------------------------------------


def test_0_24_a_memory_carries_its_type_accesses_and_message(url):
    """metadata: source, memoryType, sourceMessageId, accessCount."""

    async def story(engine):
        await engine.post(room="den", id="m1", text="I drink tea.", sender="ada")
        await engine.remember("Ada drinks tea.", id="k", type="episodic", source_message="m1")
        contexts = [await engine.assemble(room="den", message="Does Ada drink tea?", now=NOW + n) for n in range(2)]
        return contexts, (await engine.store.memories(ids=["k"]))[0]

    contexts, memory = with_engine(url, story)
    facts = [package_of(context, "k").metadata for context in contexts]
    assert [(each["memory_type"], each["source_message"]) for each in facts] == [("episodic", "m1")] * 2
    assert facts[0]["accesses"] == 0
    assert memory.accesses == 2


def test_0_24_a_memory_outlives_its_message_and_says_that_it_is_gone(url):
    async def story(engine):
        await engine.post(room="den", id="m1", text="I drink tea.", sender="ada")
        with pytest.raises(InvalidValue, match="source_message: 'm2' is not a message in the store"):
            await engine.remember("Ada drinks tea.", id="k", source_message="m2")
        return await engine.remember("Ada drinks tea.", id="k", source_message="m1")

    with_engine(url, story)
    shown = run_cli("memory", "show", "k", "--db", url).stdout
    assert "m1" in shown
    assert "removed" not in shown
    run_cli("message", "remove", "m1", "--db", url)
    assert "m1 (removed)" in run_cli("memory", "show", "k", "--db", url).stdout
    assert json.loads(run_cli("memory", "show", "k", "--json", "--db", url).stdout)["source_removed"] is True
    run_cli("memory", "edit", "k", "--importance", "0.9", "--db", url)  # the old link stays


def test_0_27_a_message_carries_its_sender_and_the_type_of_it(url):
    """metadata: senderId, senderName, senderType."""

    async def story(engine):
        answer = Message(id="m2", room="den", content="With milk?", sender="Nova", persona="nova", role="assistant")
        await engine.post(room="den", id="m1", text="I drink tea.", sender="ada")
        await engine.post_many([answer])
        await engine.post(room="den", id="m3", text="No.", sender="ada")
        return [await engine.assemble(room="den", persona=persona) for persona in ("nova", "echo")]

    for context in with_engine(url, story):
        metadata = [package_of(context, id).metadata for id in ("m1", "m2", "m3")]
        assert [each["sender"] for each in metadata] == ["ada", "nova", "ada"]
        assert [each["sender_type"] for each in metadata] == ["user", "persona", "user"]
        assert package_of(context, "m2").name == "Nova"


# -- 3-25: a session has a focus ---------------------------------------------------------------------------------------


async def fill_room(engine, **more):
    """Post a message about the lake, and a hundred others that hide it."""
    await engine.put(Room(id="den", **more))
    await engine.post(room="den", id="lake", text="The boathouse by the lake needs a new roof.", sender="ada", at=NOW)
    for n in range(300):
        await engine.post(room="den", text=f"Number {n}: and so the day went on, hour by hour.", at=NOW + n)


@pytest.mark.parametrize("where", ["call", "room", "persona"])
def test_3_25_the_focus_is_one_more_query_and_on_the_record(url, where):
    """q4: the focus of the session, united with the other queries."""
    focus = "boathouse roof"

    async def story(engine):
        await fill_room(engine, focus=focus if where == "room" else "")
        await engine.put(Persona(id="nova", prompt="You are Nova.", focus=focus if where != "call" else ""))
        if where == "room":
            await engine.put(Persona(id="nova", focus="the room's focus comes first"))
        options = {"focus": focus} if where == "call" else {}
        context = await engine.assemble(room="den", persona="nova", message="Good evening.", window=2_000, **options)
        return context, (await engine.store.snapshot(context.id)).context

    context, stored = with_engine(url, story)
    assert package_of(context, "lake").metadata["search"]["query"] == "focus"
    assert context.inputs.focus == stored.inputs.focus == focus
    assert brimful.replay(stored) == context


def test_3_25_commands_set_and_show_the_focus(url):
    run_cli("room", "add", "den", "--focus", "boathouse", "--db", url)
    run_cli("persona", "add", "nova", "--focus", "lake", "--model", "gpt-4", "--db", url)
    build = ("--room", "den", "--persona", "nova", "--message", "Hello.", "--db", url)
    assert json.loads(run_cli("inspect", *build, "--json").stdout)["focus"] == "boathouse"
    assert "Focus: roof" in run_cli("inspect", *build, "--focus", "roof").stdout
    made = json.loads(run_cli("assemble", *build, "--focus", "roof", "--json").stdout)
    assert "Focus: roof" in run_cli("explain", made["id"], "--db", url).stdout
    assert "boathouse" in run_cli("room", "show", "den", "--db", url).stdout
    assert "lake" in run_cli("persona", "show", "nova", "--db", url).stdout


# -- 3-22: ephemeral summaries -----------------------------------------------------------------------------------------

EPHEMERAL = {"overrides": {"ephemeral_summaries": True}, "window": 2_000, "completion": 200, "message": "Hello?"}


class Writer:
    """A summarizer that writes one sentence, or fails, or never ends."""

    incremental = False

    def __init__(self, result="They talked about the day."):
        self.result = result
        self.digests = []

    async def summarize(self, digest):
        self.digests.append(digest)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def find_ephemeral(context):
    return [each for each in context.inputs.packages if each.metadata.get("ephemeral")]


def test_3_22_what_does_not_fit_is_summarized_for_this_context_alone(url):
    """If no summary exists: optionally create an ephemeral on-the-fly summary (only if you allow it)."""
    writer = Writer()

    async def story(engine):
        await fill_room(engine)
        plain = await engine.assemble(room="den", **{**EPHEMERAL, "overrides": {}})
        first = await engine.assemble(room="den", **EPHEMERAL)
        calls = len(writer.digests)
        second = await engine.assemble(room="den", **EPHEMERAL)
        assert len(writer.digests) == calls  # the same range is not summarized twice
        snapshot = await engine.store.snapshot(second.id)
        return plain, (first, second), snapshot.context, await engine.store.summaries("den")

    plain, (first, second), stored, summaries = with_engine(url, story, summarizer=writer)
    assert not find_ephemeral(plain)
    [summary] = find_ephemeral(first)
    assert first.decision(summary.id).outcome == "kept"
    assert "They talked about the day." in json.dumps(first.request)
    assert "made for this context" in first.explain(summary.id)
    kept = {each.position for each in first.inputs.packages if each.kind == "message-recent" and each.id in first.kept}
    count = sum(len(topic) for topic in writer.digests[-1].topics)
    assert summary.metadata["messages"] == count
    assert count == 200  # of 301 messages, and no gap before the history
    assert writer.digests[-1].topics[-1][0].text.startswith(f"Number {min(kept) - 3}:")
    assert find_ephemeral(second) == [summary]
    covered = [each for each in first.decisions if each.kind == "message-recent" and not each.included]
    assert {(each.outcome, each.reason, each.by) for each in covered} == {("replaced", "summary", summary.id)}
    assert f"covered by summary '{summary.id}'" in first.explain(covered[0].id)
    assert summaries == []
    assert brimful.replay(stored) == second


def test_3_22_without_a_summarizer_it_quotes_messages(url):
    async def story(engine):
        await fill_room(engine)
        return await engine.assemble(room="den", **EPHEMERAL)

    context = with_engine(url, story)
    [summary] = find_ephemeral(context)
    assert "and so the day went on" in summary.content
    assert not any(each.kind == "summarizer-failed" for each in context.inputs.degraded)


@pytest.mark.parametrize("problem", [ValueError("no"), TimeoutError()])
def test_3_22_a_summarizer_that_fails_does_not_fail_the_build(url, problem):
    writer = Writer(problem)

    async def story(engine):
        await fill_room(engine)
        return [await engine.assemble(room="den", **EPHEMERAL) for _ in range(5)]

    contexts = with_engine(url, story, summarizer=writer)
    for context in contexts:
        assert "and so the day went on" in find_ephemeral(context)[0].content
        assert [each.kind for each in context.inputs.degraded] == ["summarizer-failed"]
    assert len(writer.digests) == (1 if isinstance(problem, TimeoutError) else 3)  # the breaker opens


def test_3_22_a_long_summary_is_cut(url):
    async def story(engine):
        await fill_room(engine)
        return await engine.assemble(room="den", **EPHEMERAL)

    context = with_engine(url, story, summarizer=Writer("and on " * 3_000))
    [summary] = find_ephemeral(context)
    assert 160 < summary.tokens.upper <= 320
    assert context.decision(summary.id).outcome == "kept"


def test_3_22_nothing_is_summarized_that_fits_or_that_a_summary_covers(url):
    writer = Writer()

    async def story(engine):
        await fill_room(engine)
        roomy = await engine.assemble(room="den", **{**EPHEMERAL, "window": 60_000})
        whole = Summary(id="s", room="den", content="A long day.", cluster="day", first=1, last=301)
        await engine.write_summaries([whole])
        return roomy, await engine.assemble(room="den", **EPHEMERAL)

    for context in with_engine(url, story, summarizer=writer):
        assert not find_ephemeral(context)
    assert not writer.digests


def test_3_22_erasing_a_message_erases_the_summary_in_past_contexts(url):
    async def story(engine):
        await fill_room(engine)
        context = await engine.assemble(room="den", **EPHEMERAL)
        oldest = (await engine.store.history("den", before=120, limit=1))[0].message
        await engine.delete(oldest.id, erase=True)
        return context, (await engine.store.snapshot(context.id)).context

    context, stored = with_engine(url, story)
    assert find_ephemeral(context)[0].content
    assert find_ephemeral(stored)[0].content == ""


def test_3_22_the_summarizer_of_an_engine_is_a_model_or_a_summarizer(url):
    async def story(engine):
        await fill_room(engine)
        return await engine.assemble(room="den", **EPHEMERAL)

    provider = ScriptedProvider(["A day like any other."] * 9)
    context = with_engine(url, story, summarizer="gpt-4o-mini", provider=provider)
    assert find_ephemeral(context)[0].content.endswith("A day like any other.")
    with pytest.raises(InvalidValue, match="summarizer: must be the name of a model or a Summarizer, not 5"):
        with_engine(url, story, summarizer=5)


def test_3_22_no_built_in_policy_allows_it():
    assert not any(load_policy(name).ephemeral_summaries for name in policy_names())


# -- 3-34: the janitor works in a session with a context of its own ----------------------------------------------------

SESSION = "brimful-janitor/den"
DAY = 86_400


async def fill_day(engine, count=60):
    """Fill a room with a day of chatter, and what the janitor's focus is about on the day before."""
    spam = "Win a free phone: call the number below now!"
    await engine.post(room="den", id="spam", text=spam, sender="bot", at=NOW - 2 * DAY)
    for n in range(count):
        text = f"Report {n}: the pump in hall {n % 7} was checked, and the valve was replaced by {n} new ones."
        await engine.post(room="den", text=text, sender="ada", at=NOW - DAY + n)
    await engine.post(room="den", text="Anybody here?", sender="ada", at=NOW)


def test_3_34_the_janitor_has_contexts_of_its_own_within_the_models_window(url):
    """The janitor session gets an assembled context with related content, and its inclusion is logged."""
    provider = ScriptedProvider(f"Minutes, part {n}." for n in range(100))

    async def story(engine):
        await fill_day(engine)
        summarizer = engine.make_summarizer("gpt-4o", provider=provider, window=1_200)
        await engine.run_janitor("den", summarizer=summarizer, focus="win a free phone")
        builds = await engine.store.builds(room=SESSION, limit=100)
        contexts = [(await engine.store.snapshot(each.id)).context for each in builds]
        return builds, contexts, await engine.store.summaries("den")

    builds, contexts, summaries = with_engine(url, story)
    assert len(builds) == len(provider.requests) > 2
    assert {each.persona for each in builds} == {"brimful-janitor"}
    for context in contexts:
        assert context.tokens <= context.budget.hard_limit < 1_200
        assert context.inputs.focus == "win a free phone"
        assert brimful.replay(context) == context
        assert not context.warnings
    assert any(each.content.endswith("Minutes, part 0.") for each in summaries)
    related = [package_of(context, "spam") for context in contexts if "spam" in context.decisions_by_id]
    assert {each.metadata["search"]["query"] for each in related} == {"focus"}
    assert "Focus: win a free phone" in run_cli("explain", contexts[0].id, "--db", url).stdout


def test_3_34_the_janitors_persona_can_be_changed(url):
    provider = ScriptedProvider(["Notes."] * 10)

    async def story(engine):
        await fill_day(engine, 5)
        await engine.put(Persona(id="brimful-janitor", prompt="You list open orders.", focus="orders", completion=333))
        await engine.run_janitor("den", summarizer=engine.make_summarizer("gpt-4o", provider=provider))
        builds = await engine.store.builds(room=SESSION)
        return (await engine.store.snapshot(builds[0].id)).context

    context = with_engine(url, story, policies={"window": "window"}, policy="window")
    assert context.inputs.degraded == ()
    assert "You list open orders." in json.dumps(context.request)
    assert (context.inputs.focus, context.budget.completion, context.budget.policy) == ("orders", 333, "default")


def test_3_34_a_request_that_the_provider_finds_too_long_is_made_smaller(url):
    """Its context never overflows, even if the model's window is smaller than everybody thought."""

    class Small(ScriptedProvider):
        async def send(self, request):
            if len(json.dumps(request)) > 4_000:
                raise ContextOverflow("scripted:test", "too long", window=1_500, prompt=0)
            return await super().send(request)

    provider = Small(f"Minutes, part {n}." for n in range(100))

    async def story(engine):
        await fill_day(engine)
        report = await engine.run_janitor("den", summarizer=engine.make_summarizer("gpt-4o", provider=provider))
        return report, await engine.store.summaries("den")

    report, summaries = with_engine(url, story)
    assert report.rooms[0].notes == ()
    assert all("Minutes" in each.content for each in summaries)


def test_3_34_erasing_a_message_or_removing_the_room_removes_what_the_janitor_read(url):
    async def story(engine):
        await fill_day(engine, 5)
        provider = ScriptedProvider(["Notes."] * 20)
        counts = []
        for remove in (lambda: engine.delete("spam", erase=True), lambda: engine.store.remove(Room, "den")):
            await engine.post(room="den", text="And so on.", sender="ada")
            await engine.run_janitor("den", summarizer=engine.make_summarizer("gpt-4o", provider=provider))
            before = len(await engine.store.builds(room=SESSION))
            await remove()
            counts.append((before > 0, len(await engine.store.builds(room=SESSION))))
        return counts

    assert with_engine(url, story) == [(True, 0), (True, 0)]


def test_3_25_without_a_model_the_focus_weighs_in_what_is_quoted(url):
    async def story(engine):
        await engine.post(room="den", text="The boathouse roof leaks.", at=NOW - DAY)
        for n in range(40):
            text = f"Ferry{n} carried cargo{n} from harbour{n} to island{n} with captain{n} and sailor{n}."
            await engine.post(room="den", text=text, at=NOW - DAY + n)
        await engine.post(room="den", text="Good night.", at=NOW)
        plain = await engine.run_janitor("den")
        quotes = [each.content for each in await engine.store.summaries("den")]
        await engine.undo_janitor()
        await engine.run_janitor("den", focus="boathouse roof")
        assert plain.run
        return quotes, [each.content for each in await engine.store.summaries("den")]

    plain, focused = with_engine(url, story)
    assert "boathouse" not in str(plain)
    assert "boathouse" in str(focused)
