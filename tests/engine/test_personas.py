"""Several people and personas in one room: each persona sees itself as the assistant, and the others by name."""

from brimful import Text, ToolCall, ToolResult
from brimful.engine.personas import as_seen_by
from brimful.records import Message, Persona, Room
from brimful.records.character import Character
from brimful.testing import ScriptedProvider

NOW = 1_794_000_000.0
NOVA = Persona(id="nova", name="Nova")
CALL = ToolCall(id="c1", name="weather", arguments='{"city":"Paris"}')


def make_message(at, sender, content, role="assistant"):
    return Message(id=f"m{at}", room="r", seq=at, sender=sender, content=content, role=role, at=NOW + at)


def test_own_messages_are_the_assistants_and_others_are_user_messages():
    messages = [
        make_message(4, "", "Hm."),
        make_message(3, "nova", "Yes."),
        make_message(2, "Rex", "No."),
        make_message(1, "Nova", "Well."),
    ]
    seen = as_seen_by(messages, NOVA)
    assert [(message.role, message.sender) for message in seen] == [
        ("assistant", ""),
        ("assistant", "nova"),
        ("user", "Rex"),
        ("assistant", "Nova"),
    ]
    assert as_seen_by(messages, None) == messages


def test_tool_calls_of_other_personas_become_text():
    result = ToolResult(id="c1", content="rain")
    theirs = [make_message(2, "", (result,), role="tool"), make_message(1, "Rex", (Text(text="Let me see."), CALL))]
    answer, asked = as_seen_by(theirs, NOVA)
    assert (answer.role, answer.sender, answer.content) == ("user", "Rex", "rain")
    assert (asked.role, asked.content) == ("user", 'Let me see.\n[called weather: {"city":"Paris"}]')
    own = [make_message(2, "", (result,), role="tool"), make_message(1, "Nova", (CALL,))]
    assert as_seen_by(own, NOVA) == own


def test_two_personas_and_two_people_share_a_room(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.put(NOVA)
            await engine.put(Persona(id="rex", name="Rex"))
            for role, sender, text in [
                ("user", "Ada", "Who can help?"),
                ("assistant", "Nova", "I can."),
                ("assistant", "Rex", "So can I."),
                ("user", "Bob", "Both of you?"),
                ("assistant", "Rex", "Nova, you first."),
            ]:
                await engine.post(room="r", text=text, sender=sender, role=role)
            return [await engine.assemble(room="r", persona=persona, now=NOW) for persona in ("nova", "rex")]

    for context, name in zip(run(story()), ("Nova", "Rex"), strict=True):
        seen = [(message["role"], message["content"]) for message in context.request["messages"]]
        theirs = [text for role, text in seen if role == "assistant"]
        assert theirs == {"Nova": ["I can."], "Rex": ["So can I.", "Nova, you first."]}[name]
        assert ("user", "Both of you?") in seen
    nova = run(story())[0].request["messages"]
    assert nova[-1] == {"role": "user", "name": "Rex", "content": "Nova, you first."}


def test_record_response_keeps_two_personas_apart(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.put(NOVA)
            await engine.post(room="r", text="Who can help?", sender="Ada", at=NOW)
            for persona, text in (("nova", "I can."), ("rex", "So can I.")):
                context = await engine.assemble(room="r", persona=persona, now=NOW + 1)
                await engine.record_response(context, text, at=NOW + 2)
            await engine.post(room="r", text="Both?", sender="Ada", at=NOW + 3)
            return [await engine.assemble(room="r", persona=persona, now=NOW + 4) for persona in ("nova", "rex", None)]

    nova, rex, nobody = [context.request["messages"] for context in run(story())]
    assert nova[1:3] == [
        {"role": "assistant", "content": "I can."},
        {"role": "user", "name": "rex", "content": "So can I."},
    ]
    assert rex[1:3] == [
        {"role": "user", "name": "Nova", "content": "I can."},
        {"role": "assistant", "content": "So can I."},
    ]
    assert [message["role"] for message in nobody] == ["user", "assistant", "assistant", "user"]


def test_a_renamed_persona_recognizes_its_own_messages(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", provider=ScriptedProvider(["It rains."])) as engine:
            await engine.put(Persona(id="nova", name="Nova", character=Character(greeting="Hello!")))
            await engine.greet("r", "nova")
            await engine.respond("r", "How is the weather?", persona="nova", now=NOW)
            await engine.put(Persona(id="nova", name="Nora"))
            await engine.put(Persona(id="twin", name="Nova"))
            return [
                await engine.assemble(room="r", persona=persona, message="Thanks!", now=NOW + 1)
                for persona in ("nova", "twin")
            ]

    own, twin = [[message["role"] for message in context.request["messages"]] for context in run(story())]
    assert own == ["assistant", "user", "assistant", "user"]
    assert twin == ["user", "user", "user", "user"]


def test_the_persona_of_a_room_answers_by_default(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", provider=ScriptedProvider(["Hello, Ada."])) as engine:
            await engine.put(Persona(id="nova", name="Nova", prompt="You are Nova."))
            await engine.put(Persona(id="rex", name="Rex", prompt="You are Rex."))
            await engine.put(Room(id="r", persona="nova"))
            own = await engine.assemble(room="r", message="Hi", now=NOW)
            other = await engine.assemble(room="r", persona="rex", message="Hi", now=NOW)
            answer = await engine.respond("r", "Hi", now=NOW)
            builds = await engine.store.builds(room="r")
            return own, other, answer, [build.persona for build in builds]

    own, other, answer, personas = run(story())
    assert own.request["messages"][0]["content"] == "You are Nova."
    assert other.request["messages"][0]["content"] == "You are Rex."
    assert answer.message.sender == "Nova"
    assert personas == ["nova", "rex", "nova"]


def test_hidden_messages_are_stored_but_in_no_context(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder=None) as engine:
            await engine.post(room="r", text="The password is swordfish.", hidden=True)
            for number in range(30):
                await engine.post(room="r", text=f"Number {number} is of the day.", sender="Ada")
            await engine.post(room="r", text="(a note)", hidden=True)
            result = await engine.assemble(room="r", message="What is the password, swordfish?", now=NOW)
            last = await engine.assemble(room="r", now=NOW)
            return result, last, await engine.store.history("r", limit=100)

    told, last, history = run(story())
    assert "swordfish." not in str(told.request)
    assert "a note" not in str(last.request)
    assert last.request["messages"][-1]["content"] == "Number 29 is of the day."
    assert len(history) == 32
