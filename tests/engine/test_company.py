"""Several people and personas in one room: each persona sees itself as the assistant, and the others by name."""

from brimful import Text, ToolCall, ToolResult
from brimful.engine.company import as_seen
from brimful.records import Message, Persona

NOW = 1_794_000_000.0
NOVA = Persona(id="nova", name="Nova")
CALL = ToolCall(id="c1", name="weather", arguments='{"city":"Paris"}')


def said(at, sender, content, role="assistant"):
    return Message(id=f"m{at}", room="r", seq=at, sender=sender, content=content, role=role, at=NOW + at)


def test_ones_own_words_are_the_assistants_and_the_others_are_theirs():
    messages = [said(4, "", "Hm."), said(3, "nova", "Yes."), said(2, "Rex", "No."), said(1, "Nova", "Well.")]
    seen = as_seen(messages, NOVA)
    assert [(message.role, message.sender) for message in seen] == [
        ("assistant", ""),
        ("assistant", "nova"),
        ("user", "Rex"),
        ("assistant", "Nova"),
    ]
    assert as_seen(messages, None) == messages


def test_what_another_did_with_tools_is_told_in_words():
    result = ToolResult(id="c1", content="rain")
    theirs = [said(2, "", (result,), role="tool"), said(1, "Rex", (Text(text="Let me see."), CALL))]
    answer, asked = as_seen(theirs, NOVA)
    assert (answer.role, answer.sender, answer.content) == ("user", "Rex", "rain")
    assert (asked.role, asked.content) == ("user", 'Let me see.\n[called weather: {"city":"Paris"}]')
    own = [said(2, "", (result,), role="tool"), said(1, "Nova", (CALL,))]
    assert as_seen(own, NOVA) == own


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
