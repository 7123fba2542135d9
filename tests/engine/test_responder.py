"""Responses: the answer is posted in the room and linked to its context."""

import asyncio

import pytest

import brimful
from brimful import Text, ToolCall, ToolResult
from brimful.counting import counter_for
from brimful.engine.provider_pool import ProviderPool
from brimful.errors import ContextOverflow, InvalidValue, ProviderError, UnknownRecord
from brimful.models import default_registry
from brimful.providers.server_models import LOADED_SECONDS, RETRY_SECONDS
from brimful.records import Feedback, Message, Persona, Usage, User
from brimful.records.character import Character
from brimful.records.reply import Reply
from brimful.testing import ScriptedProvider
from brimful.wires import find_wire
from providers.serving import answer as answered
from providers.serving import serving

NOW = 1_794_000_000.0
MODEL = default_registry().resolve("gpt-4o")


def tokens(request) -> int:
    """Count a request as OpenAI would."""
    return counter_for(MODEL).prompt(find_wire("openai").parse(request)).tokens


async def history(engine, room):
    """What was said in a room, oldest first."""
    newest = await engine.store.history(room, limit=100)
    return [(entry.message.role, entry.message.sender, entry.message.content) for entry in reversed(newest)]


def test_an_answer_is_stored_with_its_context_and_usage(run, new_engine):
    provider = ScriptedProvider(["On Thursday."], tokens=tokens)

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            await engine.put(Persona(id="nova", name="Nova", prompt="You are Nova."))
            answer = await engine.respond("general", "When is the demo?", persona="nova", sender="Ada")
            [kept] = await engine.store.responses(context=answer.context.id)
            [seen] = await engine.store.usage_reports("gpt-4o", "scripted")
            return answer, kept, seen, await history(engine, "general")

    answer, kept, seen, said = run(story())
    assert answer.text == "On Thursday."
    assert [content for _, _, content in said] == ["When is the demo?", "On Thursday."]
    assert [(role, sender) for role, sender, _ in said] == [("user", "Ada"), ("assistant", "Nova")]
    assert provider.requests == [answer.context.request]
    assert kept == answer.response
    assert (kept.route, kept.finish, kept.message) == ("scripted", "stop", answer.message.id)
    assert kept.usage == Usage(prompt=answer.context.tokens, completion=2)
    assert (seen.counted, seen.reported, seen.context) == (answer.context.tokens, answer.context.tokens, kept.context)


def test_further_fields_are_sent_with_the_request(run, new_engine):
    provider = ScriptedProvider(["One."])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            await engine.respond("r", "First?", completion=20, fields={"temperature": 0})

    run(story())
    assert provider.requests == [
        {
            "model": "gpt-4o",
            "max_completion_tokens": 20,
            "messages": [{"role": "user", "content": "First?"}],
            "temperature": 0,
        }
    ]


def test_a_conversation_continues(run, new_engine):
    provider = ScriptedProvider(["One.", "Two."])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            await engine.respond("r", "First?")
            await engine.respond("r", "Second?")

    run(story())
    assert [message["content"] for message in provider.requests[1]["messages"]] == ["First?", "One.", "Second?"]


def test_an_unknown_option_is_rejected_before_anything_is_done(run, new_engine):
    provider = ScriptedProvider(["One."])

    async def story():
        async with new_engine(provider=provider) as engine:
            with pytest.raises(InvalidValue, match="at: is not an option; the options are completion"):
                await engine.respond("r", "First?", at=1.0)
            return await engine.store.history("r")

    assert run(story()) == []
    assert provider.requests == []


def test_an_answer_is_streamed(run, new_engine):
    provider = ScriptedProvider(["Tea at four."])

    async def story():
        async with (
            new_engine(model="gpt-4o", provider=provider) as engine,
            engine.stream("r", "When is tea?") as stream,
        ):
            with pytest.raises(brimful.errors.BrimfulError, match="not complete"):
                _ = stream.answer
            assert stream.context is None
            pieces = [(piece.text, stream.context.id) async for piece in stream]
            return pieces, stream.answer, await history(engine, "r")

    pieces, answer, said = run(story())
    assert [text for text, _ in pieces if text] == ["Tea ", "at ", "four."]
    assert {context for _, context in pieces} == {answer.response.context}
    assert answer.text == "Tea at four."
    assert said[-1][0] == "assistant"


def test_an_answer_is_rated(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", provider=ScriptedProvider(["At four."])) as engine:
            answer = await engine.respond("r", "When is tea?")
            rated = await engine.rate(answer.response, "bad", note="It is at five.", at=NOW)
            assert rated.feedback == Feedback(rating="bad", note="It is at five.", at=NOW)
            assert await engine.store.responses() == [rated]
            assert (await engine.rate(rated.id, "good", at=NOW)).feedback == Feedback(rating="good", at=NOW)
            assert (await engine.rate(rated.id, None)).feedback is None
            for wrong, error in (
                ({"response": "none", "rating": "good"}, brimful.errors.UnknownRecord),
                ({"response": rated, "rating": "fine"}, brimful.errors.InvalidValue),
                ({"response": rated, "rating": None, "note": "x"}, brimful.errors.InvalidValue),
            ):
                with pytest.raises(error):
                    await engine.rate(**wrong)

    run(story())


@pytest.mark.parametrize("streaming", [False, True])
def test_a_smaller_window_is_learned_from_an_overflow(run, new_engine, streaming):
    provider = ScriptedProvider(["Yes.", "Yes again."], tokens=tokens, window=2_000)
    events = []

    async def ask(engine, text):
        if not streaming:
            return await engine.respond("r", text, completion=200)
        async with engine.stream("r", text, completion=200) as stream:
            async for _ in stream:
                pass
            return stream.answer

    async def story():
        async with new_engine(model="gpt-4o", provider=provider, hooks=[events.append], embedder="none") as engine:
            await engine.post_many(
                [Message(id=f"m{n}", room="r", content="Words and more words. " * 20, at=NOW + n) for n in range(60)]
            )
            first = await ask(engine, "Well?")
            second = await ask(engine, "And?")
        async with new_engine(model="gpt-4o", provider=provider, embedder="none") as engine:
            third = await engine.assemble(room="r", message="So?", route="scripted")
        return first, second, third

    first, second, third = run(story())
    assert [tokens(request) > 2_000 for request in provider.requests] == [True, False, False]
    assert first.context.budget.window == 2_000
    assert any(each.kind == "overflowed" and each.facts["window"] == 2_000 for each in first.context.warnings)
    assert second.context.budget.window == third.budget.window == 2_000
    assert not any(each.kind == "overflowed" for each in second.context.warnings)
    assert [event.facts["window"] for event in events if event.name == "overflowed"] == [2_000]


@pytest.mark.parametrize("factor", [1, 2])
def test_the_server_counts_a_request_near_the_limit(run, new_engine, factor):
    provider = ScriptedProvider(["Yes."], tokens=lambda request: factor * tokens(request))
    limit = 4_000 - 200

    async def story():
        async with new_engine(model="acme-1", provider=provider, embedder="none") as engine:
            await engine.post_many(
                [Message(id=f"m{n}", room="r", content="Words and more words. " * 20, at=NOW + n) for n in range(60)]
            )
            full = {"price": "full"}
            return await engine.respond("r", "Well?", window=4_000, completion=200, overrides=full)

    answer = run(story())
    [request] = provider.requests
    assert factor * tokens(request) <= limit
    rebuilt = [each.text for each in answer.context.warnings if each.kind == "overflowed"]
    assert len(rebuilt) == (factor == 2)


def test_a_second_overflow_is_raised(run, new_engine):
    refusal = ContextOverflow("scripted", "too long", status=400)
    provider = ScriptedProvider([refusal, refusal])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            with pytest.raises(ContextOverflow):
                await engine.respond("r", "Hi")
            return await history(engine, "r")

    assert run(story()) == [("user", "", "Hi")]


def test_a_failed_call_can_be_repeated_with_the_same_message(run, new_engine):
    provider = ScriptedProvider([ProviderError("scripted", "no"), "Hello."])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            with pytest.raises(ProviderError):
                await engine.respond("r", "Hi", id="m1")
            await engine.respond("r", "Hi", id="m1")
            return [content for _, _, content in await history(engine, "r")]

    assert run(story()) == ["Hi", "Hello."]


@pytest.mark.parametrize("before", [[], ["Hello, everybody."]])
def test_a_message_can_be_answered_again(run, new_engine, before):
    provider = ScriptedProvider(["The demo is on Thursday.", "In the garden.", "On Friday."])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            for text in before:
                await engine.post(room="r", text=text)
            await engine.respond("r", "When is the demo?", id="m1")
            await engine.respond("r", "And where is the demo?", id="m2")
            await engine.wait_indexed()
            again = await engine.respond("r", "When is the demo?", id="m1")
            return again, await history(engine, "r")

    again, said = run(story())
    assert [message["content"] for message in again.context.request["messages"]] == [*before, "When is the demo?"]
    assert [content for _, _, content in said][-1] == "On Friday."


def test_a_new_answer_supersedes_only_the_first_one(run, new_engine):
    call = ToolCall(id="c1", name="look", arguments="{}")
    provider = ScriptedProvider([Reply(parts=(call,)), "Seen.", "To Bo.", "On Friday.", "Yes."])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider, embedder="none") as engine:
            await engine.respond("r", "When is the demo?", id="m1", sender="Ada")
            await engine.post(room="r", content=(ToolResult(id="c1", content="a calendar"),), role="tool")
            await engine.respond("r")
            await engine.respond("r", "And the lunch?", id="m2", sender="Bo")
            await engine.respond("r", "When is the demo?", id="m1", sender="Ada")
            last = await engine.respond("r", "Sure?", sender="Bo")
            found = await engine.search("Seen", room="r")
            entries = await engine.store.history("r", limit=100)
            return last, found, [entry.message for entry in reversed(entries)]

    last, found, said = run(story())
    texts = [message["content"] for message in last.context.request["messages"]]
    assert [text.rpartition(": ")[2] for text in texts] == [
        *("When is the demo?", "And the lunch?", "To Bo.", "On Friday.", "Sure?")
    ]
    assert [(message.hidden, message.superseded) for message in said[1:4]] == [(True, True)] * 3
    assert not any(message.hidden for message in (said[0], *said[4:]))
    assert found.hits == ()


def test_an_answer_to_a_superseded_message_is_hidden(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", embedder="none") as engine:
            asked = await engine.post(room="r", text="First?")
            context = await engine.assemble(room="r", message=asked)
            await engine.supersede([asked.id])
            response = await engine.record_response(context, "Late.")
            return (await engine.store.messages([response.message]))[0]

    answer = run(story())
    assert (answer.hidden, answer.superseded) == (True, True)


def test_the_text_comes_after_the_room_and_an_unknown_persona_is_an_error(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", provider=ScriptedProvider(["Thursday."])) as engine:
            with pytest.raises(UnknownRecord, match="no persona 'nova'"):
                await engine.respond("r", "When is the demo?", persona="nova")
            with pytest.raises(UnknownRecord, match="no persona 'nova'"):
                async with engine.stream("r", "When is the demo?", persona="nova") as stream:
                    [piece async for piece in stream]
            with pytest.raises(TypeError):
                await engine.respond("r", "nova", "When is the demo?")
            await engine.respond("r", "When is the demo?")
            return await history(engine, "r")

    assert run(story()) == [("user", "", "When is the demo?"), ("assistant", "", "Thursday.")]


def test_a_second_persona_sees_the_first_ones_answer(run, new_engine):
    provider = ScriptedProvider(["Nova says Thursday.", "Rex says Friday."])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            await engine.put(Persona(id="nova", name="Nova"))
            await engine.put(Persona(id="rex", name="Rex"))
            await engine.respond("r", "When is the demo?", persona="nova", id="m1", sender="Ada")
            return await engine.respond("r", "When is the demo?", persona="rex", id="m1", sender="Ada")

    received = [message["content"] for message in run(story()).context.request["messages"]]
    assert "Nova says Thursday." in received


def test_an_abandoned_stream_is_recorded_as_far_as_it_came(run, new_engine):
    provider = ScriptedProvider(["One two three."])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            async with engine.stream("r", "Count!") as stream:
                async for _ in stream:
                    break
            [kept] = await engine.store.responses(room="r")
            return kept, await history(engine, "r")

    kept, said = run(story())
    assert kept.finish == "broken-off"
    assert said[-1] == ("assistant", "", "One ")
    assert provider.aborted == 1


def test_a_cancelled_stream_is_recorded_as_far_as_it_came(run, new_engine):
    provider = ScriptedProvider(["One two three."])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            received = asyncio.Event()

            async def listen():
                async with engine.stream("r", "Count!") as stream:
                    async for _ in stream:
                        provider.hold()
                        received.set()

            listening = asyncio.create_task(listen())
            await received.wait()
            listening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await listening
            return await history(engine, "r")

    assert run(story())[-1] == ("assistant", "", "One ")


def test_an_agent_calls_tools_and_continues(run, new_engine):
    call = ToolCall(id="c1", name="weather", arguments='{"city":"Paris"}')
    provider = ScriptedProvider([Reply(parts=(call,), finish="tool-calls"), "Rain."])
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            first = await engine.respond("r", "How is the weather in Paris?", tools=[tool])
            results = tuple(ToolResult(id=each.id, content="rain, 12°") for each in first.calls)
            await engine.post(room="r", content=results, role="tool")
            return first, await engine.respond("r", tools=[tool])

    first, second = run(story())
    assert first.calls == (call,)
    assert second.text == "Rain."
    assert [message["role"] for message in provider.requests[1]["messages"]] == ["user", "assistant", "tool"]


def test_usage_calibrates_counts_if_the_tokenizer_is_not_public(run, new_engine):
    def billed(request):
        return int(tokens({**request, "model": "gpt-4o"}) * 1.7)

    provider = ScriptedProvider(iter(lambda: "Fine.", None), tokens=billed)

    async def story():
        async with new_engine(model="nobody-knows-this", provider=provider, embedder="none") as engine:
            for n in range(20):
                await engine.respond("r", f"Question {n}: " + "why? " * (n + 1))
            return await engine.store.usage_reports("nobody-knows-this", "scripted")

    seen = run(story())
    assert abs(seen[-1].error) > 0.1
    assert max(abs(each.error) for each in seen[:5]) < 0.02
    assert all(each.counted + each.margin >= each.reported for each in seen[:5])


def test_a_truncated_prompt_is_noted_on_the_response(run, new_engine):
    provider = ScriptedProvider([Reply(parts=(Text(text="Hm?"),), usage=Usage(prompt=120, completion=2))])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            answer = await engine.respond("r", "A long story. " * 400)
            [seen] = await engine.store.usage_reports("gpt-4o", "scripted")
            return answer, seen

    answer, seen = run(story())
    assert seen.kind == "cut"
    assert [notice.kind for notice in answer.response.notices] == ["prompt-truncated"]


def test_expected_and_actual_cached_tokens_are_stored(run, new_engine):
    replies = [Reply(parts=(Text(text="Yes."),), usage=Usage(prompt=9_000, cached=at)) for at in (0, 4_000)]
    provider = ScriptedProvider(replies)

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            for question in ("A long story. " * 900, "And then?"):
                await engine.respond("r", question)
            return await engine.store.usage_reports("gpt-4o", "scripted")

    later, first = run(story())
    assert (first.expected_cached, first.cached) == (0, 0)
    assert later.cached == 4_000
    assert 2_000 < later.expected_cached <= tokens(provider.requests[0])


def test_a_greeting_is_posted_once_in_an_empty_room(run, new_engine):
    character = Character(greeting="Hello, {{user}}! I am {{char}}.")

    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.put(Persona(id="nova", name="Nova", character=character))
            await engine.put(User(id="ada", name="Ada"))
            greetings = [await engine.greet("r", "nova", user="ada") for _ in range(2)]
            return greetings, await engine.greet("r2", "nobody"), await history(engine, "r")

    (first, second), nobody, said = run(story())
    assert said == [("assistant", "Nova", "Hello, Ada! I am Nova.")]
    assert first is not None
    assert (second, nobody) == (None, None)


def test_models_of_one_maker_may_run_at_different_providers(monkeypatch):
    monkeypatch.setenv("GROQ_API_KEY", "none")
    providers = ProviderPool("", lambda: NOW)
    places = [
        providers.find(None, None, default_registry().resolve(name)).route
        for name in ("llama3.1:8b", "groq/llama-3.1-8b-instant", "llama3.1:8b")
    ]
    assert places[0] == places[2] != places[1]


def test_a_provider_is_found_by_name_and_closed_with_the_engine(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            await engine.put(Persona(id="odd", provider="carrier-pigeon"))
            with pytest.raises(InvalidValue, match="provider"):
                await engine.respond("r", "Hi", persona="odd")
            return await history(engine, "r")

    assert run(story()) == []


def test_a_usage_smaller_than_any_count_is_harmless(run, new_engine):
    replies = [Reply(parts=(Text(text="Hello."),), usage=Usage(prompt=1)) for _ in range(6)]

    async def story():
        async with new_engine(model="smollm2-135m", provider=ScriptedProvider(replies), embedder="none") as engine:
            return [(await engine.respond("r", "Hi")).context.tokens for _ in replies]

    assert all(count > 0 for count in run(story()))


def test_a_question_does_not_find_itself(run, new_engine):
    provider = ScriptedProvider(["Fine."])

    async def story():
        async with new_engine(model="gpt-4o", provider=provider) as engine:
            question = (Text(text="Please sum up"), Text(text="the report on roses"))
            return (await engine.respond("r", question)).context

    context = run(story())
    assert len(context.request["messages"]) == len(context.decisions) == 1


@pytest.mark.parametrize(
    ("asking", "field"),
    [
        ({"focus": 5}, "focus"),
        ({"user": b"x"}, "user"),
        ({"model": 5}, "model"),
        ({"provider": 5}, "provider"),
        ({"overrides": [1]}, "overrides"),
        ({"window": "x"}, "window"),
        ({"completion": 2.5}, "completion"),
        ({"media": [5]}, "media"),
        ({"message": ""}, "message"),
        ({"message": 5}, "message"),
    ],
)
def test_invalid_arguments_are_named_in_the_error(run, new_engine, asking, field):
    async def story():
        async with new_engine(model="gpt-4o", provider=ScriptedProvider(["Fine."])) as engine:
            with pytest.raises(InvalidValue) as refused:
                await engine.respond("r", **{"message": "Hi", **asking})
            return refused.value.field

    assert run(story()).startswith(field)


def test_an_id_cannot_be_used_for_two_messages(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", provider=ScriptedProvider(["Fine.", "Fine."])) as engine:
            await engine.respond("r", "Hi \ud800", id="m1")
            await engine.respond("r", "Hi \ud800", id="m1")
            with pytest.raises(InvalidValue, match="the id of another message"):
                await engine.respond("r", "Ho", id="m1")

    run(story())


def test_closing_an_engine_records_its_open_streams(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o", provider=ScriptedProvider(["One two three."])) as engine:
            pieces = aiter(engine.stream("r", "Count!"))
            await anext(pieces)
        async with new_engine(model="gpt-4o") as engine:
            return await history(engine, "r")

    assert run(story())[-1] == ("assistant", "", "One ")


def test_usage_may_be_a_mapping(run, new_engine):
    async def story():
        async with new_engine(model="gpt-4o") as engine:
            context = await engine.assemble(room="r", message="Hi")
            for wrong in ({"prompt": "many"}, 5):
                with pytest.raises(InvalidValue, match="usage"):
                    await engine.record_response(context, "Hello.", usage=wrong)
            with pytest.raises(InvalidValue, match="context"):
                await engine.record_response(None, "Hello.")
            return await engine.record_response(context, "Hello.", usage={"prompt": 8, "completion": 2})

    assert run(story()).usage == Usage(prompt=8, completion=2)


def listed(**row):
    return answered({"data": [{"id": "qwen2.5-7b-instruct-q4_k_m.gguf", **row}]})


SAYS_HI = answered({"choices": [{"message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]})


@pytest.mark.parametrize(
    ("row", "model", "runtime", "window"),
    [
        ({"owned_by": "llamacpp", "meta": {"n_ctx": 4_096}}, "qwen2.5-7b", "llama.cpp", 4_096),
        ({"owned_by": "llamacpp", "meta": {"n_ctx": 4_096}}, "whatever", "llama.cpp", 4_096),
        ({"owned_by": "vllm", "max_model_len": 4_096}, "qwen2.5-7b-instruct-q4_k_m.gguf", "transformers", 4_096),
        ({"owned_by": "vllm", "max_model_len": 4_096}, "qwen2.5-7b", "transformers", 128_000),
        ({"owned_by": "llamacpp", "meta": {"n_ctx": 10**6}}, "qwen2.5-7b", "llama.cpp", 128_000),
    ],
)
def test_a_self_hosted_server_reports_its_runtime_and_window(run, new_engine, row, model, runtime, window):
    async def story():
        async with (
            serving(listed(**row), SAYS_HI, SAYS_HI) as server,
            new_engine(model=model, provider=f"{server.url}/v1", embedder="none") as engine,
        ):
            answers = [await engine.respond("r", "Hello!") for _ in range(2)]
            return [asked.line for asked in server.asked], answers

    lines, answers = run(story())
    assert lines == ["GET /v1/models HTTP/1.1", *["POST /v1/chat/completions HTTP/1.1"] * 2]  # it is asked once
    for each in answers:
        used = each.context.inputs.model
        assert (used.id, used.tokenizer, used.runtime, each.context.budget.window) == (model, "qwen2", runtime, window)


def test_a_server_that_lists_no_models_is_used_anyway(run, new_engine):
    async def story():
        async with (
            serving(answered(b"no such page", status=404), SAYS_HI) as server,
            new_engine(model="qwen2.5-7b", provider=f"{server.url}/v1", embedder="none") as engine,
        ):
            return await engine.respond("r", "Hello!", window=2_000)

    answer = run(story())
    assert answer.text == "Hi."
    assert (answer.context.inputs.model.runtime, answer.context.budget.window) == ("transformers", 2_000)


def test_a_server_that_was_too_busy_to_tell_its_window_is_asked_again(run, new_engine):
    now, name, busy = [NOW], "qwen2.5-7b-instruct-q4_k_m.gguf", answered(b"", status=500)

    async def story():
        async with (
            serving(busy, SAYS_HI, busy, SAYS_HI, SAYS_HI, listed(max_model_len=4_096), SAYS_HI) as server,
            new_engine(model=name, provider=f"{server.url}/v1", embedder="none", clock=lambda: now[0]) as engine,
        ):
            answers = []
            for _ in range(4):  # it is asked after 10 seconds, and after 20 more
                answers.append(await engine.respond("r", "Hello!"))
                now[0] += RETRY_SECONDS
            return answers

    assert [answer.context.budget.window for answer in run(story())] == [128_000, 128_000, 128_000, 4_096]


def test_ollama_is_asked_again_once_it_has_loaded_the_model(run, new_engine):
    now, listing = [NOW], answered({"data": [{"id": "qwen2.5:latest", "owned_by": "library"}]})
    idle, loaded = (
        {"models": [{"model": name, "context_length": 4_096}]} for name in ("llama3.2:3b", "qwen2.5:latest")
    )

    async def story():
        async with (
            serving(listing, answered(idle), SAYS_HI, listing, answered(loaded), SAYS_HI) as server,
            new_engine(model="qwen2.5", provider=f"{server.url}/v1", embedder="none", clock=lambda: now[0]) as engine,
        ):
            answers = []
            for _ in range(2):
                answers.append(await engine.respond("r", "Hello!"))
                now[0] += LOADED_SECONDS
            return answers

    assert [answer.context.budget.window for answer in run(story())] == [128_000, 4_096]


@pytest.mark.parametrize(
    ("row", "window", "kinds"), [({}, 8_192, ["unknown-model"]), ({"max_model_len": 32_768}, 32_768, [])]
)
def test_an_unknown_model_says_whether_its_window_was_told(run, new_engine, row, window, kinds):
    page = answered({"data": [{"id": "acme-1", **row}]})
    missing = [] if row else [answered(b"", status=404)]

    async def story():
        async with (
            serving(page, *missing, SAYS_HI) as server,
            new_engine(model="acme-1", provider=f"{server.url}/v1", embedder="none") as engine,
        ):
            return await engine.respond("r", "Hello!")

    context = run(story()).context
    assert context.budget.window == window
    assert [notice.kind for notice in context.warnings if notice.kind == "unknown-model"] == kinds
