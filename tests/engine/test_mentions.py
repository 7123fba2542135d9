"""`@name` in a message decides which personas answer it."""

import pytest

from brimful import Media, Text, ToolCall, ToolResult
from brimful.engine.mentions import find_mentions, find_persona
from brimful.errors import ProviderError
from brimful.records import Persona, Room
from brimful.records.reply import Reply
from brimful.testing import ScriptedProvider

GPT = Persona(id="gpt", name="GPT", prompt="You are GPT.")
MINI = Persona(id="p2", name="GPT mini", prompt="You are small.")
ADA = Persona(id="p3", name="Ada Lovelace", prompt="You are Ada.")
MING = Persona(id="p4", name="小明", prompt="你是小明。")
EVERYBODY = (GPT, MINI, ADA, MING)


@pytest.mark.parametrize(
    ("text", "mentioned"),
    [
        ("@gpt What do you think?", ["gpt"]),
        ("What do you think, @GPT?", ["gpt"]),
        ("(@gpt) and *@gpt*, _@gpt_: @gpt's turn", ["gpt"]),
        ("@gpt-mini first, then @gpt.", ["p2", "gpt"]),
        ("@GPT_Mini", ["p2"]),
        ("@GPT mini", ["p2"]),
        ('@"Ada Lovelace" and @"gpt"', ["p3", "gpt"]),
        ("@“ada lovelace”!", ["p3"]),
        ("@ada-lovelace @p3 @Ada Lovelace", ["p3"]),
        ("你好@gpt你好", ["gpt"]),
        ("@小明你好", ["p4"]),
        ("@gpt\n@gpt", ["gpt"]),
        ("a ` is not closed, @gpt", ["gpt"]),
        ("`one` @gpt `two`", ["gpt"]),
    ],
)
def test_names_are_found_wherever_they_stand(text, mentioned):
    assert list(find_mentions(text, EVERYBODY)) == mentioned


@pytest.mark.parametrize(
    "text",
    [
        "no one",
        "@nobody, hello",
        "@ gpt",
        "mail me@gpt.com or first.last+x@gpt",
        "@gpt.com",
        "@gpt-5 is another model",
        "@gpt5",
        "@gpt/core is a package",
        "@gpt@example.social",
        "https://example.com/@gpt",
        "`@gpt`",
        "``a ` @gpt``",
        "```py\n@gpt\ndef f(): ...\n```",
        "~~~\n@gpt",
        '@"Ada Lovelace',
        "@Ada",
    ],
)
def test_code_addresses_and_unknown_names_mention_nobody(text):
    assert not find_mentions(text, EVERYBODY)


def test_a_fence_ends_where_it_is_closed():
    assert find_mentions("~~~\ncode\n~~~\n@gpt", EVERYBODY) == ("gpt",)


def test_an_id_counts_before_the_name_of_another_persona():
    twin = Persona(id="a", name="gpt")
    assert find_mentions("@gpt", [twin, GPT]) == ("gpt",)
    assert find_mentions("@GPT", [twin, Persona(id="b", name="gpt")]) == ("a",)


def test_the_persona_that_is_mentioned_answers(run, new_engine):
    provider = ScriptedProvider(["Blue.", "I am the host."])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            await put_all(engine)
            first = await engine.respond("general", "@gpt, which colour?", sender="Bo")
            second = await engine.respond("general", "@nobody, and you?", sender="Bo")
            stored = [entry.message for entry in await engine.store.history("general", limit=10)]
            return first, second, stored

    first, second, stored = run(story())
    assert (first.text, first.message.persona, first.others) == ("Blue.", "gpt", ())
    assert second.message.persona == "p3"
    assert stored[-1].content == "@gpt, which colour?"
    assert provider.requests[0]["messages"][0]["content"] == "You are GPT."


def test_several_personas_answer_in_order_and_see_each_other(run, new_engine):
    provider = ScriptedProvider(["Blue.", "Red."])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            await put_all(engine)
            return await engine.respond("general", "@gpt-mini @gpt which colour?", sender="Bo", id="q")

    answer = run(story())
    assert [(each.text, each.message.persona) for each in (answer, *answer.others)] == [
        ("Blue.", "p2"),
        ("Red.", "gpt"),
    ]
    question, earlier = provider.requests[1]["messages"][-2:]
    assert question["content"] == "@gpt-mini @gpt which colour?"
    assert earlier == {"role": "user", "content": "GPT mini: Blue."}


def test_a_later_persona_gets_the_question_before_the_answers_to_it(run, new_engine, clock):
    provider = ScriptedProvider(["Blue. " * 300, "Red.", "Green.", "Grey."])
    picture = Media(modality="image", url="https://example.org/cup.png", width=64, height=64)

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            await put_all(engine)
            await engine.remember("Bo's cup is white.", id="cup")
            await engine.post(room="general", text="Before.", sender="Bo")
            asked = "@gpt-mini @gpt @ada-lovelace what about the cup?"
            answer = await engine.respond("general", asked, sender="Bo", id="q", now=clock() + 60, media=[picture])
            await engine.respond("general", "And then?", persona="p3", sender="Bo")
            return answer

    answer = run(story())
    for count, request in enumerate(provider.requests[:3]):
        said = [each for each in request["messages"] if each["role"] != "system"]
        at = next(at for at, each in enumerate(said) if isinstance(each["content"], list))
        assert "what about the cup?" in str(said[at]), "the picture is in the question"
        assert [each["content"][:15] for each in said[at + 1 :]] == ["GPT mini: Blue.", "Red."][:count]
    last = answer.others[-1].context
    assert last.decision("q").region == "current"
    assert last.decision("cup").included, "the question is searched for, not the answers"
    texts = [str(each["content"]) for each in provider.requests[3]["messages"]]
    texts = [text for text in texts if not text.startswith("<context")]
    assert [text[:5] for text in texts[-5:]] == ["@gpt-", "GPT m", "Red.", "Green", "And t"]


def test_a_stream_says_who_speaks(run, new_engine):
    provider = ScriptedProvider(["Deep blue.", "Red."])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            await put_all(engine)
            async with engine.stream("general", "@gpt-mini @gpt which colour?") as stream:
                said = [(stream.speaker, chunk.text) async for chunk in stream if chunk.text]
            return said, stream.answer

    said, answer = run(story())
    assert said == [("GPT mini", "Deep "), ("GPT mini", "blue."), ("GPT", "Red.")]
    assert [answer.text, *(each.text for each in answer.others)] == ["Deep blue.", "Red."]


def test_an_answer_that_was_given_before_a_failure_stays_in_the_room(run, new_engine, clock):
    provider = ScriptedProvider(["Blue.", ProviderError("scripted", "is down"), "Blue again.", "Red."])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            await put_all(engine)
            with pytest.raises(ProviderError):
                await engine.respond("general", "@gpt-mini @gpt which colour?", id="q")
            first = await texts(engine)
            clock.now += 1
            await engine.respond("general", "@gpt-mini @gpt which colour?", id="q")
            return first, await texts(engine)

    first, second = run(story())
    assert first == ["@gpt-mini @gpt which colour?", "Blue."]
    assert second == ["@gpt-mini @gpt which colour?", "Blue again.", "Red."]


def test_an_explicit_persona_wins(run, new_engine):
    provider = ScriptedProvider(["Yes?"])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            await put_all(engine)
            return await engine.respond("general", "@gpt, which colour?", persona="p3")

    assert run(story()).message.persona == "p3"


def test_contexts_are_built_for_the_persona_that_is_mentioned(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await put_all(engine)
            passed = await engine.assemble(room="general", message=(Text(text="@gpt"), Text(text="hello")))
            await engine.post(room="general", text="@gpt-mini, hello")
            return passed, await engine.assemble(room="general")

    passed, last = run(story())
    assert passed.request["messages"][0]["content"] == "You are GPT."
    assert last.request["messages"][0]["content"] == "You are small."


def test_the_persona_that_called_a_tool_goes_on_after_its_result(run, new_engine):
    call = ToolCall(id="c1", name="weather", arguments="{}")
    provider = ScriptedProvider([Reply(parts=(call,), finish="tool-calls"), "It rains.", "Indeed."])
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            await put_all(engine)
            await engine.respond("general", "@gpt how is the weather?", tools=tools)
            await engine.post(room="general", content=(ToolResult(id="c1", content="rain"),), role="tool")
            answer = await engine.respond("general", tools=tools)
            await engine.post(room="general", text="And you?")
            return answer, await engine.respond("general")

    answer, host = run(story())
    assert (answer.text, answer.message.persona) == ("It rains.", "gpt")
    assert host.message.persona == "p3"


def test_the_last_message_may_mention_several(run, new_engine):
    provider = ScriptedProvider(["Blue.", "Red."])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            await put_all(engine)
            await engine.post(room="general", text="@gpt @gpt-mini which colour?")
            return await engine.respond("general")

    answer = run(story())
    assert [each.message.persona for each in (answer, *answer.others)] == ["gpt", "p2"]


def test_personas_are_found_by_id_or_name(run, new_engine):
    async def story():
        async with new_engine() as engine:
            await put_all(engine)
            names = ("p3", "ADA lovelace", "ada_lovelace", "nobody", "")
            return [await find_persona(engine.store, name) for name in names]

    assert run(story()) == [ADA, ADA, ADA, None, None]


async def put_all(engine):
    for persona in EVERYBODY:
        await engine.put(persona)
    await engine.put(Room(id="general", persona="p3"))


async def texts(engine):
    newest = await engine.store.history("general", limit=10)
    return [entry.message.content for entry in reversed(newest) if not entry.message.hidden]
