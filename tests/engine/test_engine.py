"""The engine: rooms, memories, personas and contexts on a real store."""

import asyncio
import uuid

import pytest

import brimful
from brimful import Text, ToolCall, ToolResult
from brimful.engine import Engine, Event, Retrieval
from brimful.errors import BrimfulError, InvalidValue, UnknownRecord
from brimful.records import Lorebook, LoreEntry, Memory, Message, Persona, Room, Summary, Usage, User
from brimful.records.character import Character

NOW = 1_794_000_000.0
DAY = 86_400.0


def texts(context) -> str:
    """All that the model sees, as one text."""
    return "\n".join(
        message["content"] if isinstance(message["content"], str) else str(message["content"])
        for message in context.request["messages"]
    )


async def chat(engine: Engine, count: int, *, room: str = "general", start: float = NOW - DAY) -> None:
    await engine.post_many(
        [
            Message(
                id=f"{room}-{number}",
                room=room,
                content=f"Message number {number} in {room} about the weather and lunch.",
                sender="Ada" if number % 2 else "",
                role="user" if number % 2 else "assistant",
                at=start + number,
            )
            for number in range(1, count + 1)
        ]
    )


def test_the_readme_example(run, new_engine):
    async def story():
        async with new_engine() as engine:
            await engine.post(room="general", sender="Ada", text="The demo is on Thursday.")
            return await engine.assemble(room="general", persona="helper", message="When is the demo?", model="gpt-4o")

    context = run(story())
    assert "The demo is on Thursday." in texts(context)
    assert context.request["messages"][-1]["content"] == "When is the demo?"
    assert context.tokens <= context.budget.hard_limit


def test_an_engine_opened_without_async_says_how_to_open_it(new_engine):
    with (
        pytest.raises(BrimfulError, match=r"use `async with` in an `async def` function, or `with brimful.SyncEngine"),
        new_engine(),
    ):
        pass


def test_an_id_of_another_room_creates_no_room(run, new_engine):
    async def story():
        async with new_engine() as engine:
            await engine.post(room="a", text="Hello", id="m1", at=NOW)
            with pytest.raises(InvalidValue, match="is the id of a message in room 'a'"):
                await engine.post(room="b", text="Hello", id="m1", at=NOW)
            return await engine.store.get(Room, "a"), await engine.store.get(Room, "b")

    room, other = run(story())
    assert room is not None
    assert other is None


def test_a_message_posted_twice_is_stored_once(run, new_engine):
    async def story():
        async with new_engine() as engine:
            first = await engine.post(room="r", text="Hello", id="m1", at=NOW)
            again = await engine.post(room="r", text="Hello again", id="m1", at=NOW + 1)
            return first, again, await engine.store.history("r")

    first, again, history = run(story())
    assert first == again
    assert [entry.message.content for entry in history] == ["Hello"]


def test_an_id_of_another_room_is_rejected_after_the_others_are_stored(run, new_engine):
    async def story():
        async with new_engine() as engine:
            await engine.post(room="r", text="Hello", id="1", at=NOW)
            with pytest.raises(InvalidValue, match="'1' is the id of a message in room 'r', so it cannot be"):
                await engine.post_many(
                    [Message(id=id, room="q", content=f"Message {id}", at=NOW) for id in ("1", "2", "3")]
                )
            return [[entry.message.id for entry in await engine.store.history(room)] for room in ("r", "q")]

    assert run(story()) == [["1"], ["3", "2"]]


def test_a_memory_that_fell_out_of_the_window_comes_back_by_retrieval(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4") as engine:
            await engine.post(
                room="general", id="key", sender="Ada", text="My bicycle is called Rosinante.", at=NOW - 9 * DAY
            )
            await chat(engine, 900)
            await engine.wait_indexed()
            return await engine.assemble(room="general", message="What is the name of my bicycle?", now=NOW)

    context = run(story())
    assert "Rosinante" in texts(context)
    decision = context.decision("key")
    assert (decision.kind, decision.outcome) == ("message-older", "kept")
    package = next(package for package in context.inputs.packages if package.id == "key")
    assert package.metadata["search"]["query"] == "event"
    assert package.metadata["search"]["parts"]["words"] > 0


def test_memories_are_visible_to_their_owners_only(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.remember("Tea is served at four o'clock.", id="all", at=NOW)
            await engine.remember("Ada takes her tea without milk.", id="ada", user="ada", at=NOW)
            await engine.remember("Bob takes his tea with rum.", id="bob", user="bob", at=NOW)
            await engine.remember("The butler pours tea from the left.", id="butler", persona="butler", at=NOW)
            await engine.remember("In this room tea is forbidden.", id="elsewhere", room="library", at=NOW)
            await engine.wait_indexed()
            return await engine.assemble(room="r", user="ada", persona="butler", message="How about tea?", now=NOW)

    context = run(story())
    found = {package.id for package in context.inputs.packages if package.kind.startswith("memory-")}
    assert found == {"all", "ada", "butler"}


def test_a_pinned_memory_is_included_until_it_is_unpinned_or_forgotten(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.remember("The door code is 4711.", id="code", at=NOW)

            async def seen():
                context = await engine.assemble(room="r", message="zzz", now=NOW)
                return [package.pinned for package in context.inputs.packages if package.id == "code"]

            await engine.pin("code")
            pinned = await seen()
            await engine.pin("code", pinned=False)
            loose = await seen()
            await engine.pin("code")
            await engine.forget("code")
            return pinned, loose, await seen()

    pinned, loose, gone = run(story())
    assert (pinned, True in loose, gone) == ([True], False, [])


def test_persona_room_and_their_overrides_shape_the_context(run, new_engine):
    async def story():
        async with new_engine() as engine:
            await engine.put(Persona(id="nova", prompt="You are Nova.", model="gpt-4", overrides={"max_messages": 4}))
            await engine.put(Room(id="general", goal="Ship the demo", headers=("Be brief.",)))
            await chat(engine, 40)
            return await engine.assemble(room="general", persona="nova", message="So?", now=NOW)

    context = run(story())
    system = [message["content"] for message in context.request["messages"] if message["role"] == "system"]
    assert "\n".join(system).startswith("You are Nova.")
    assert "Be brief." in texts(context)
    assert "Ship the demo" in texts(context)
    assert context.inputs.model.id == "gpt-4"
    assert sum(decision.included for decision in context.decisions if decision.kind == "message-recent") == 3


def test_a_character_has_its_name_and_reserves_its_completion(run, new_engine):
    character = Character(description="{{char}} flies with {{user}}.", greeting="Hello, {{user}}!")
    nova = Persona(id="nova", name="Nova", prompt="You are {{char}}.", character=character, completion=321)

    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.put(nova)
            await engine.put(User(id="ada", name="Ada"))
            return [
                await engine.assemble(room="r", persona="nova", message="Hi", user=user, system=system, now=NOW)
                for user, system in [("ada", None), (None, None), ("ada", "Be {{char}} the {{user}}.")]
            ]

    to_ada, to_somebody, overridden = run(story())
    assert "You are Nova." in texts(to_ada)
    assert "Nova flies with Ada." in texts(to_ada)
    assert "Nova flies with User." in texts(to_somebody)
    assert "Be Nova the Ada." in texts(overridden)
    assert "You are Nova." not in texts(overridden)
    assert to_ada.budget.completion == 321


def test_a_system_prompt_of_the_call_comes_first_without_a_persona(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.put(Room(id="r", headers=("Be brief.",)))
            return await engine.assemble(room="r", message="Hi", system="Be kind.", now=NOW)

    lines = [message["content"] for message in run(story()).request["messages"]]
    assert lines[:2] == ["Be kind.", "Be brief."]


def test_a_context_warns_about_an_unknown_persona(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            return await engine.assemble(room="r", persona="nobody", message="Hi", now=NOW)

    assert any("'nobody' is not in the store" in warning.text for warning in run(story()).warnings)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda engine: engine.assemble(room="r", message="Hi"), InvalidValue, "model"),
        (lambda engine: engine.assemble(room="r", model="gpt-4o"), InvalidValue, "nothing to answer"),
        (lambda engine: engine.assemble(room="r", model="gpt-4o", message=7), InvalidValue, "message"),
        (lambda engine: engine.assemble(room="r", model="gpt-4o", message="Hi", window=-1), InvalidValue, "window"),
        (
            lambda engine: engine.assemble(room="r", model="gpt-4o", message=Message(id="m", room="x", content="Hi")),
            InvalidValue,
            "room",
        ),
        (lambda engine: engine.assemble(room="r", message="Hi", now=1.8e12), InvalidValue, "now: .* milliseconds"),
        (lambda engine: engine.search("Hi", now="today"), InvalidValue, "now: must be a finite number"),
        (lambda engine: engine.respond("r", "Hi", model="gpt-4o", now=1.8e12), InvalidValue, "now: "),
        (lambda engine: engine.post(room="", text="Hi"), InvalidValue, "room"),
        (lambda engine: engine.post(room="r"), InvalidValue, "text"),
        (lambda engine: engine.post(room="r", text="Hi", at=float("nan")), InvalidValue, "at"),
        (lambda engine: engine.remember("x", importance=3), InvalidValue, "importance"),
        (lambda engine: engine.forget("nothing"), UnknownRecord, "nothing"),
        (lambda engine: engine.pin("nothing"), UnknownRecord, "nothing"),
        (lambda engine: engine.delete("nothing"), UnknownRecord, "nothing"),
        (lambda engine: engine.edit("nothing", "x"), UnknownRecord, "nothing"),
        (lambda engine: engine.record_response("nothing", "x"), UnknownRecord, "nothing"),
    ],
)
def test_wrong_calls_get_a_clear_error(run, new_engine, call, error, match):
    async def story():
        async with new_engine() as engine:
            await call(engine)

    with pytest.raises(error, match=match):
        run(story())


@pytest.mark.parametrize(
    ("option", "match"),
    [
        ({"retrieval": {"max_results": 3}}, "retrieval: must be a Retrieval"),
        ({"embedder": 3}, "embedder: must be one of static, .*, or have `id`, `embed` and `close`"),
        ({"hooks": print}, "hooks: must be a list"),
        ({"hooks": [print, "print"]}, r"hooks\[1\]: must be a function that takes an Event, not 'print'"),
    ],
)
def test_wrong_options_get_a_clear_error(option, match):
    with pytest.raises(InvalidValue, match=match):
        Engine("sqlite://", **option)


@pytest.mark.parametrize(("field", "value"), [("cache_size", 0), ("cache_ttl", -1.0), ("cache_ttl", "long")])
def test_an_invalid_setting_is_named_in_the_error(field, value):
    with pytest.raises(InvalidValue, match=f"^{field}: must be"):
        Retrieval(**{field: value})


def test_an_engine_that_is_not_open_says_so(run, new_engine):
    with pytest.raises(brimful.errors.BrimfulError, match="async with"):
        run(new_engine().post(room="r", text="Hi"))


def test_an_answer_is_linked_to_the_context_that_produced_it(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.post(room="r", text="When is the demo?", at=NOW)
            context = await engine.assemble(room="r", now=NOW)
            usage = Usage(prompt=context.tokens, completion=5)
            response = await engine.record_response(context, "On Thursday.", usage=usage, seconds=0.4, at=NOW + 1)
            history = await engine.store.history("r")
            return context, response, history, await engine.store.responses(context=context.id)

    context, response, history, responses = run(story())
    assert responses == [response]
    assert (response.context, response.usage.prompt, response.model) == (context.id, context.tokens, "gpt-4o")
    newest = history[0].message
    assert (newest.id, newest.role, newest.content) == (response.message, "assistant", "On Thursday.")


def test_the_snapshot_gives_the_context_back_with_every_decision(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await chat(engine, 30)
            await engine.remember("Lunch is at noon.", id="lunch", at=NOW)
            context = await engine.assemble(room="general", message="When is lunch?", now=NOW)
            snapshot = await engine.store.snapshot(context.id)
            dry = await engine.assemble(room="general", message="And dinner?", now=NOW, save=False)
            memory = (await engine.store.memories(ids=["lunch"]))[0]
            return context, snapshot, await engine.store.snapshot(dry.id), memory

    context, snapshot, dry, memory = run(story())
    assert snapshot.context.to_json() == context.to_json()
    assert snapshot.context.explain("lunch") == context.explain("lunch")
    assert dry is None
    assert (memory.accesses, memory.accessed) == (1, NOW)


def test_without_a_message_the_last_one_is_answered(run, new_engine):
    call = ToolCall(id="c1", name="weather", arguments='{"city": "Paris"}')

    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await chat(engine, 10)
            await engine.post(room="general", text="Will it rain?", id="ask", at=NOW - 3)
            await engine.post(room="general", content=(Text(text="Let me look."), call), role="assistant", at=NOW - 2)
            await engine.post(room="general", content=(ToolResult(id="c1", content="Rain."),), role="tool", at=NOW - 1)
            return await engine.assemble(room="general", now=NOW)

    context = run(story())
    roles = [message["role"] for message in context.request["messages"]]
    assert roles[-3:] == ["user", "assistant", "tool"]
    assert context.decision("ask").reason == "required"


def test_the_last_user_message_comes_last_and_is_the_query(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.remember("Demos begin at noon.", id="noon", at=NOW - 9)
            await engine.post(room="r", text="Hi", at=NOW - 2)
            await engine.post(room="r", text="When do demos begin?", id="ask", at=NOW - 1)
            return await engine.assemble(room="r", now=NOW)

    context = run(story())
    assert texts(context).endswith("\nWhen do demos begin?")
    assert context.decision("ask").kind == "message-current"
    assert context.decision("noon").outcome == "kept"


def test_an_empty_room_has_nothing_to_answer_even_with_memories(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.remember("Demos begin at noon.", pinned=True, at=NOW - 9)
            await engine.assemble(room="r", now=NOW)

    with pytest.raises(InvalidValue, match="there is nothing to answer"):
        run(story())


def test_a_posted_current_message_is_included_once(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.post(room="r", text="Hi", at=NOW - 2)
            question = await engine.post(room="r", text="When is the demo?", at=NOW - 1)
            return question, await engine.assemble(room="r", message=question, now=NOW)

    question, context = run(story())
    assert texts(context).count("When is the demo?") == 1
    assert context.decision(question.id).kind == "message-current"


def test_edits_and_deletes_are_seen_by_the_next_context(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.post(room="r", text="The demo is on Monday.", id="m1", at=NOW - 3)
            await engine.post(room="r", text="Unrelated.", id="m2", at=NOW - 2)
            await engine.edit("m1", "The demo is on Friday.", at=NOW - 1)
            await engine.delete("m2")
            return await engine.assemble(room="r", message="When is the demo?", now=NOW)

    context = run(story())
    assert "Friday" in texts(context)
    assert "Monday" not in texts(context)
    assert "Unrelated" not in texts(context)


def test_lore_is_added_when_its_keyword_appears(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await engine.put(Lorebook(id="world", name="Eldoria"))
            await engine.put(Room(id="r", lorebooks=("world",)))
            await engine.write_lore(
                [
                    LoreEntry(id="forest", lorebook="world", content="It is an old wood.", keys=("the forest",)),
                    LoreEntry(id="sea", lorebook="world", content="It is salt.", keys=("the sea",)),
                    LoreEntry(id="law", lorebook="world", content="Never lie.", constant=True),
                    LoreEntry(id="off", lorebook="world", content="Hidden.", constant=True, enabled=False),
                ]
            )
            return await engine.assemble(room="r", message="Take me to The Forest!", now=NOW)

    context = run(story())
    assert {"forest", "law"} <= set(context.kept)
    assert not {"sea", "off"} & set(context.kept)
    assert 'source="Eldoria"' in texts(context)


def test_a_summary_replaces_history_that_does_not_fit(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4") as engine:
            await chat(engine, 600)
            summary = Summary(
                id="s1", room="general", content="They spoke of lunch.", cluster="morning", first=1, last=420, at=NOW
            )
            await engine.write_summaries([summary])
            return await engine.assemble(room="general", message="So?", now=NOW)

    context = run(story())
    assert "They spoke of lunch." in texts(context)
    assert context.decision("s1").included


@pytest.mark.parametrize(("rooms", "expected"), [(0, set()), (5, {"mine"})])
def test_other_rooms_of_the_user_are_searched_if_enabled(run, new_engine, rooms, expected):
    async def story():
        async with new_engine(model="gpt-4o", retrieval=Retrieval(other_rooms=rooms)) as engine:
            for room, user in (("here", "ada"), ("there", "ada"), ("foreign", "bob")):
                await engine.put(Room(id=room, user=user))
            await engine.post(room="here", text="Good morning.", at=NOW - 60)
            await engine.post(room="there", text="The zebra is in the garage.", id="mine", at=NOW - DAY)
            await engine.post(room="foreign", text="The zebra is at the bank.", id="theirs", at=NOW - DAY)
            return await engine.assemble(room="here", message="Where is the zebra?", now=NOW)

    context = run(story())
    assert {"mine", "theirs"} & {package.id for package in context.inputs.packages} == expected
    assert (" in there]\nuser: The zebra" in texts(context)) is bool(expected)


def test_records_with_the_same_id_get_different_package_ids(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.post(room="r", text="I like green tea.", id="x", at=NOW - 1)
            await engine.remember("Ada likes black tea.", id="x", at=NOW - 1)
            return await engine.assemble(room="r", message="Which tea?", now=NOW)

    context = run(story())
    assert {"x", "memory/x"} <= set(context.kept)


def test_tenants_are_isolated(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", tenant="one") as engine:
            await engine.post(room="r", text="The secret is 42.", at=NOW - 1)
            await engine.remember("The secret is 42.", pinned=True, at=NOW - 1)
        async with new_engine(model="gpt-4o", tenant="two") as engine:
            return await engine.assemble(room="r", message="What is the secret?", now=NOW)

    assert len(run(story()).inputs.packages) == 1


def test_messages_keep_the_order_of_the_room_whatever_their_timestamps(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.post(room="r", id="m1", text="First.", at=NOW + DAY)
            await engine.assemble(room="r", message="So?", now=NOW + DAY)
            await engine.post(room="r", id="m2", text="Second.", at=NOW - DAY)
            await engine.post(room="r", id="m3", text="Third.", at=NOW)
            return await engine.assemble(room="r", message="And?", now=NOW + DAY)

    assert [message["content"] for message in run(story()).request["messages"]] == [
        "First.",
        "Second.",
        "Third.",
        "And?",
    ]


def test_hooks_are_called_and_a_failing_hook_is_ignored(run, new_engine, caplog):
    reports: list[Event] = []

    async def slow(event: Event) -> None:
        await asyncio.sleep(0)
        reports.append(event)

    def broken(event: Event) -> None:
        raise RuntimeError(event.name)

    async def story():
        async with new_engine(model="gpt-4o", hooks=[broken, slow]) as engine:
            await engine.post(room="r", text="Hi", at=NOW)
            context = await engine.assemble(room="r", now=NOW)
            await engine.record_response(context, "Hello!", at=NOW)
            return context

    context = run(story())
    assert [event.name for event in reports] == ["posted", "assembled", "posted", "responded"]
    assert reports[1].facts["context"] == context.id
    assert "a hook failed on event assembled" in caplog.text


def test_no_text_is_tokenized_twice(run, new_engine):
    tokenized: list[int] = []
    room = f"room-{uuid.uuid4()}"  # texts that no test before has counted in this process

    def note(event: Event) -> None:
        if event.name == "assembled":
            tokenized.append(event.facts["tokenized"])

    async def story():
        async with new_engine(hooks=[note]) as engine:  # no model is known when the messages are written
            await engine.put(Persona(id="nova", prompt=f"You are Nova of {room}."))
            await chat(engine, 50, room=room)
            for _ in range(2):
                await engine.assemble(room=room, persona="nova", message="So?", model="gpt-4o", now=NOW)
            await engine.post(room=room, text="Now written after the model was known.", at=NOW)
            await engine.assemble(room=room, persona="nova", message="So?", model="gpt-4o", now=NOW + 1)
        async with new_engine(hooks=[note]) as engine:  # another process would find all counts in the store
            await engine.assemble(room=room, persona="nova", message="So?", model="gpt-4o", now=NOW + 2)
            await engine.assemble(room=room, persona="nova", message="So?", model="claude-sonnet-4-5", now=NOW + 3)

    run(story())
    assert tokenized == [51, 0, 0, 0, 0]


def test_a_restart_keeps_the_prefix_of_a_conversation(run, new_engine):
    async def story():
        contexts = []
        for _ in range(2):
            async with new_engine(model="gpt-4", embedder="none") as engine:
                await chat(engine, 700)
                for turn in range(2):
                    moment = NOW + len(contexts)
                    contexts.append(await engine.assemble(room="general", message=f"Turn {turn}", now=moment))
                    await engine.post(room="general", text=f"Turn {turn}", id=f"t{len(contexts)}", at=moment)
        return contexts

    contexts = run(story())
    assert [context.inputs.previous for context in contexts[1:]] == [context.history for context in contexts[:-1]]
    assert len({context.history.first for context in contexts[1:]}) == 1  # the first may have borrowed, and gave back


def test_one_unusual_build_does_not_shorten_the_next(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await chat(engine, 700)
            for unusual in ({"window": 8192}, {"overrides": {"max_messages": 5}}):
                for save in (False, True):
                    await engine.assemble(room="general", message="So?", now=NOW, save=save, **unusual)
            return await engine.assemble(room="general", message="So?", now=NOW + 1)

    context = run(story())
    assert sum(decision.included for decision in context.decisions if decision.kind == "message-recent") == 700


def test_a_context_warns_about_an_unknown_room(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            return await engine.assemble(room="genreal", message="Hi", now=NOW)

    assert any("'genreal' is not in the store" in warning.text for warning in run(story()).warnings)


def test_two_rooms_with_the_same_messages_have_different_contexts(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            contexts = [await engine.assemble(room=room, message="hi", now=NOW) for room in ("ada", "bob")]
            parted = [("a/b", None), ("a", "b")]  # names that hold what could part them
            contexts += [await engine.assemble(room=room, persona=who, message="hi", now=NOW) for room, who in parted]
            await engine.record_response(contexts[1], "For Bob alone.", at=NOW)
            return contexts, await engine.store.history("ada"), await engine.store.history("bob")

    contexts, ada, bob = run(story())
    assert len({context.id for context in contexts}) == 4
    assert len({context.inputs.origin for context in contexts}) == 4
    assert (len(ada), [entry.message.content for entry in bob]) == (0, ["For Bob alone."])


@pytest.mark.parametrize("window", [500, 700, 900, 1000, 1400, 1500, 8000])
def test_many_agent_steps_leave_the_question_and_complete_tool_chains(run, new_engine, window):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await engine.post(room="loop", text="Do it.", id="ask", at=NOW - 100)
            for step in range(12):
                call, result = ToolCall(id=f"k{step}", name="f"), ToolResult(id=f"k{step}", content="word " * 60)
                await engine.post(room="loop", role="assistant", content=(call,), at=NOW - 50 + step)
                await engine.post(room="loop", role="tool", content=(result,), at=NOW - 50 + step)
            return await engine.assemble(room="loop", window=window, completion=50, now=NOW)

    context = run(story())
    messages = context.request["messages"]
    assert messages[0] == {"role": "user", "content": "Do it."}
    called = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert called == [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert called[-1] == "k11"


def test_a_room_whose_last_result_was_deleted_can_still_be_built(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await engine.post(room="r", text="Do it.", at=NOW - 3)
            await engine.post(room="r", role="assistant", content=(ToolCall(id="k", name="f"),), at=NOW - 2)
            await engine.post(room="r", role="tool", content=(ToolResult(id="k", content="x"),), id="res", at=NOW - 1)
            await engine.delete("res")
            return await engine.assemble(room="r", now=NOW)

    assert run(story()).request["messages"] == [{"role": "user", "content": "Do it."}]


def test_memories_of_other_rooms_do_not_crowd_out_those_of_this_one(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await engine.remember("The pin of this room.", room="r", pinned=True, id="pin", at=NOW - 9)
            await engine.remember("The zebra sleeps here.", room="r", id="zebra", at=NOW - 9)
            await engine.remember_many(
                [
                    Memory(id=f"o{n}", content=f"Zebra zebra {n}", room="other", pinned=n % 2 == 0, at=NOW - 8)
                    for n in range(600)
                ]
            )
            return await engine.assemble(room="r", message="Where is the zebra?", now=NOW)

    assert {"pin", "zebra"} <= set(run(story()).kept)


def test_an_engine_can_be_reopened(run, new_engine):
    async def story():
        engine = new_engine(model="gpt-4o")
        await engine.open()
        store = engine.store
        await engine.close()
        with pytest.raises(brimful.errors.StoreUnavailable, match="closed"):
            await store.history("r")
        await engine.open()
        await engine.post(room="r", text="Hi", at=NOW)
        await engine.close()

    run(story())


def test_an_answer_id_of_another_context_is_rejected(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            first = await engine.assemble(room="a", message="one?", now=NOW)
            second = await engine.assemble(room="b", message="two?", now=NOW)
            said = await engine.record_response(first, "one", id="res", at=NOW)
            again = await engine.record_response(first, "one", id="res", usage=Usage(prompt=9), at=NOW + 1)
            with pytest.raises(InvalidValue, match="another context"):
                await engine.record_response(second, "two", id="res", at=NOW)
            return said, again

    said, again = run(story())
    assert said == again


def test_a_removed_room_that_is_written_again_is_a_new_room(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await engine.post(room="r", id="a1", sender="Ada", text="Hello world", at=NOW - 2)
            await engine.assemble(room="r", message="hi", now=NOW)
            await engine.store.remove(Room, "r")
            await engine.post(room="r", id="b1", sender="Bob", text="Hello world", at=NOW - 1)
            return await engine.assemble(room="r", message="hi", now=NOW)

    context = run(story())
    assert "b1" in context.kept
    assert context.request["messages"][0]["name"] == "Bob"


def test_a_search_limits_messages_and_memories_separately(run, new_engine):
    async def story():
        async with new_engine() as engine:
            for number in range(6):
                await engine.remember(f"Tea of day {number}", id=f"mem-{number}", at=NOW)
                await engine.post(room="r", text=f"Tea again, day {number}", id=f"msg-{number}", at=NOW)
            return [await engine.search("tea", room="r", limit=limit) for limit in (0, 1, 4)]

    for limit, found in zip((0, 1, 4), run(story()), strict=True):
        sorts = [type(hit.record) for hit in found]
        assert (sorts.count(Memory), sorts.count(Message)) == (limit, limit)
        assert len(found) == 2 * limit


@pytest.mark.parametrize("types", ["semantic", ("semantic", "tacit"), 3])
def test_a_search_for_unknown_types_is_rejected(run, new_engine, types):
    async def story():
        async with new_engine() as engine:
            await engine.search("tea", types=types)

    with pytest.raises(InvalidValue, match=r"types: must be .* episodic, semantic, procedural, not "):
        run(story())
    with pytest.raises(InvalidValue, match=r"types: must be .* episodic, semantic, procedural, not "):
        Retrieval(types=types)


def test_types_may_be_a_list(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", retrieval=Retrieval(types=["episodic"])) as engine:
            await engine.remember("Tea at four", id="habit", type="procedural", at=NOW)
            await engine.remember("Tea was had", id="event", type="episodic", at=NOW)
            context = await engine.assemble(room="r", message="Tea?", now=NOW)
            found = [await engine.search("tea", types=types) for types in ([], ["procedural"])]
            return context.kept, [[hit.record.id for hit in each.hits] for each in found]

    assert run(story()) == (("(current)", "event"), [["event"], ["habit"]])


def test_search_results_stay_the_same_during_a_tool_loop(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.remember("Ada takes her tea without milk.", id="tea", at=NOW)
            await engine.post(room="r", text="Good morning!", sender="Ada", at=NOW)
            await engine.post(room="r", text="A cup of something hot?", sender="Ada", at=NOW)
            await engine.wait_indexed()
            first = await engine.assemble(room="r", now=NOW + 1)
            call = ToolCall(id="c1", name="kettle")
            await engine.record_response(first, content=(call,), at=NOW + 2)
            await engine.post(room="r", content=(ToolResult(id="c1", content="It boils."),), role="tool", at=NOW + 3)
            await engine.wait_indexed()
            return first, await engine.assemble(room="r", now=NOW + 4)

    first, second = [
        next(package for package in context.inputs.packages if package.id == "tea") for context in run(story())
    ]
    assert "words" not in first.metadata["search"]["parts"]  # by its meaning alone
    assert (second.relevance, second.matches) == (first.relevance, first.matches)
    assert "search" not in second.metadata  # there was none


@pytest.mark.parametrize(("pins", "too_many"), [(200, False), (201, True)])
def test_a_context_warns_about_too_many_pins(run, new_engine, pins, too_many):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            memories = [Memory(id=f"p{at}", content=f"Fact {at}.", pinned=True, at=NOW + at) for at in range(pins)]
            await engine.remember_many(memories)
            return await engine.assemble(room="r", message="Hello!", now=NOW)

    context = run(story())
    assert len([id for id in context.kept if id.startswith("p")]) == 200
    assert ("p0" in context.kept) is not too_many
    assert any("more than 200 memories are pinned" in warning.text for warning in context.warnings) is too_many


def test_an_access_is_counted_for_a_memory_with_the_id_of_a_message(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.post(room="r", text="Tea is ready.", id="tea", at=NOW)
            await engine.remember("Ada takes tea without milk.", id="tea", at=NOW)
            await engine.remember("Nobody asks for this.", id="memory/other", at=NOW)
            context = await engine.assemble(room="r", message="Tea, and what nobody asks for?", now=NOW)
            return context.kept, await engine.store.memories(limit=10)

    kept, memories = run(story())
    assert {"tea", "memory/tea", "memory/other"} <= set(kept)
    assert {memory.id: memory.accesses for memory in memories} == {"tea": 1, "memory/other": 1}


def test_messages_that_will_be_in_the_window_are_not_searched(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            await chat(engine, 30)
            return await engine.assemble(room="general", message="What of message number 17?", now=NOW)

    assert {package.kind for package in run(story()).inputs.packages} == {"message-recent", "message-current"}


def test_the_number_of_hits_is_limited_by_the_budget(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4", embedder="none") as engine:
            long = "zebra " * 400
            await engine.remember_many([Memory(id=f"z{n}", content=f"{n} {long}", at=NOW - n) for n in range(40)])
            return await engine.assemble(room="r", message="Where is the zebra?", now=NOW)

    memories = [package for package in run(story()).inputs.packages if package.kind == "memory-semantic"]
    assert 1 < len(memories) < 20


def test_near_duplicates_are_found_by_full_text(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4", embedder="none") as engine:
            notes = {
                "dog": "A dog named Rex",
                "tax": "The tax form",
                "train": "Trains run late",
                "pot": "A pot of basil",
            }
            filler = {f"f{n}": f"Nothing of note on page {n}" for n in range(20)}
            texts = (notes | filler).items()
            await engine.remember_many([Memory(id=id, content=text, at=NOW) for id, text in texts])
            return await engine.search("Which pet?"), await engine.search("Which dog?")

    asked_by_another_word, asked = ({hit.record.id: hit for hit in found.hits} for found in run(story()))
    assert set(asked_by_another_word) == set(asked) == {"dog"}
    assert 0 < asked_by_another_word["dog"].parts.words < asked["dog"].parts.words
