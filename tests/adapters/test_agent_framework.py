"""The middleware, tokenizer and memories of Microsoft Agent Framework, with a scripted client."""

import asyncio
import json
import struct
from concurrent.futures import ThreadPoolExecutor

import agent_framework as maf
import pytest
from agent_framework import Agent, ChatResponse, ChatResponseUpdate, Content, Message
from agent_framework.exceptions import ChatClientException
from hypothesis import given, settings

import brimful
from adapter_properties import Case, chats, check
from brimful.adapters.agent_framework import BrimfulContextProvider, BrimfulMiddleware, BrimfulTokenizer
from brimful.errors import BudgetExceeded, InvalidValue

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


class ScriptedClient(maf.FunctionInvocationLayer, maf.ChatMiddlewareLayer, maf.BaseChatClient):
    """A client that answers by a function of the messages, and keeps the requests."""

    def __init__(self, answer, **options):
        super().__init__(**options)
        self.answer = answer
        self.requests = []
        self.model = "gpt-4o"

    def _inner_get_response(self, *, messages, stream, options, **_kwargs):
        self.requests.append((list(messages), dict(options)))

        async def respond():
            return self.answer(messages, len(self.requests))

        async def updates():
            response = await respond()
            for message in response.messages:
                yield ChatResponseUpdate(role=message.role, contents=message.contents, message_id="m")
            yield ChatResponseUpdate(contents=[Content.from_usage(response.usage_details)], message_id="m")

        return maf.ResponseStream(updates(), finalizer=ChatResponse.from_updates) if stream else respond()


def reply(contents, messages):
    """Answer with contents, and report a usage of one token for every four characters."""
    characters = sum(len(json.dumps(message.to_dict())) for message in messages)
    usage = {"input_token_count": characters // 4, "output_token_count": 7, "cache_read_input_token_count": 2}
    return ChatResponse(messages=[Message("assistant", contents)], usage_details=usage, model="gpt-4o-2024")


def call(id, order):
    return Content.from_function_call(call_id=id, name="get_order", arguments=json.dumps({"order": order}))


@maf.tool
def get_order(order: str) -> str:
    """Look up an order."""
    if order == "W13":
        raise ValueError("no such order")
    return json.dumps({"order": order, "state": "fine", "notes": "Left at the door. " * 20})


def make_png(width, height):
    """Return an image without pixels: its size is all that counts."""
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)


def talk(count):
    return [Message("assistant" if n % 2 else "user", [f"Message {n}. " + "word " * 20]) for n in range(count)]


async def send(middleware, messages, *, session=None, stream=False, **options):
    """Send messages through the middleware, and return what the client is given."""
    client = ScriptedClient(lambda sent, _: reply(["Fine."], sent))
    context = maf.ChatContext(client, messages, options, stream=stream, session=session)
    sent = []

    async def call_next():
        sent.append(list(context.messages))

    await middleware.process(context, call_next)
    return sent[0]


def hook(middleware, messages, **options):
    return asyncio.run(send(middleware, messages, **options))


def test_a_request_that_fits_is_not_changed():
    messages = talk(6)
    sent = hook(BrimfulMiddleware(), messages, model="gpt-4o")
    assert all(mine is theirs for mine, theirs in zip(sent, messages, strict=True))


def test_the_newest_messages_stay_as_the_same_objects():
    messages = talk(400)
    sent = hook(BrimfulMiddleware(window=4_000, completion=500), messages, model="gpt-4o")
    assert 10 < len(sent) < 200
    assert all(mine is theirs for mine, theirs in zip(sent, messages[-len(sent) :], strict=True))


def test_instructions_and_tools_and_the_limit_of_the_answer_take_their_part_of_the_window():
    messages = talk(400)
    middleware = BrimfulMiddleware(window=4_000)
    plain = hook(middleware, messages, model="gpt-4o", max_tokens=500)
    assert len(hook(middleware, messages, model="gpt-4o", max_tokens=500, instructions="Be kind. " * 300)) < len(plain)
    assert len(hook(middleware, messages, model="gpt-4o", max_tokens=500, tools=[get_order] * 20)) < len(plain)
    assert len(hook(middleware, messages, model="gpt-4o", max_tokens=2_000)) < len(plain)


def test_the_model_is_that_of_the_options_or_of_the_client():
    messages = talk(2_000)
    assert len(hook(BrimfulMiddleware(), messages)) == 2_000  # gpt-4o, as the client says
    assert len(hook(BrimfulMiddleware(), messages, model="some-model")) < 1_000
    assert len(hook(BrimfulMiddleware(model="gpt-4o"), messages, model="some-model")) == 2_000


def test_calls_stay_with_their_results():
    messages = [Message("user", ["Look at my orders."])]
    for n in range(60):
        ids = [f"c{n}a", f"c{n}b"]
        messages.append(Message("assistant", [call(id, f"W{n}") for id in ids]))
        messages.append(Message("tool", [Content.from_function_result(id, result="fine " * 30) for id in ids]))
    for policy in ("fit", "agent"):
        sent = hook(BrimfulMiddleware(window=3_000, completion=300, policy=policy), messages, model="gpt-4o")
        calls = [each.call_id for message in sent for each in message.contents if each.type == "function_call"]
        results = [each.call_id for message in sent for each in message.contents if each.type == "function_result"]
        assert calls == results
        assert 4 < len(calls) < 100
        assert sent[0] is messages[0] or policy == "fit"


def test_a_large_result_is_shortened_in_a_copy():
    large = Content.from_function_result("c1", result=[Content.from_text("row " * 9_000), Content.from_uri(PIXEL)])
    messages = [Message("user", ["Go."]), Message("assistant", [call("c1", "W1")]), Message("tool", [large])]
    sent = hook(BrimfulMiddleware(window=2_000, completion=300), messages, model="gpt-4o")
    assert sent[:2] == messages[:2]
    (result,) = sent[2].contents
    assert result.call_id == "c1"
    assert len(result.result) < 8_000
    assert result.items[0].text == result.result
    assert result.items[1] is large.items[1]
    assert large.items[0].text == "row " * 9_000


def test_an_image_is_sent_in_a_lower_resolution_if_that_makes_it_fit():
    large = Content.from_data(make_png(1_024, 1_024), "image/png", additional_properties={"openai": {"file": "x"}})
    messages = [Message("user", ["Look.", large, "Well?"])]
    sent = hook(BrimfulMiddleware(window=600, completion=100), messages, model="gpt-4o")
    image = sent[0].contents[1]
    assert image.additional_properties["openai"] == {"file": "x", "image_detail": "low"}
    assert (image.uri, sent[0].contents[2]) == (large.uri, messages[0].contents[2])
    assert large.additional_properties == {"openai": {"file": "x"}}


def test_reasoning_stays_with_the_message_that_follows_it():
    messages = [Message("user", ["Go."])]
    for n in range(80):
        messages.append(Message("assistant", [Content.from_text_reasoning(id=f"r{n}", text="Let me think. " * 5)]))
        messages.append(Message("assistant", [call(f"c{n}", f"W{n}")]))
        messages.append(Message("tool", [Content.from_function_result(f"c{n}", result="fine " * 20)]))
    sent = hook(BrimfulMiddleware(window=3_000, completion=300), messages, model="gpt-4o")
    assert 10 < len(sent) < 200
    for at, message in enumerate(sent):
        if message.contents[0].type == "text_reasoning":
            assert messages[messages.index(message) + 1] is sent[at + 1]


def test_contents_of_other_kinds_are_counted_and_kept():
    contents = [
        Content.from_error(message="overloaded", error_code="529"),
        Content.from_hosted_file("file-1"),
        Content.from_uri("https://example.com/a.mp3", media_type="audio/mpeg"),
        Content.from_uri("https://example.com/a.mp4", media_type="video/mp4"),
        Content.from_data(b"%PDF-1.4", "application/pdf"),
        Content.from_text_reasoning(protected_data="opaque"),
        Content.from_usage({"input_token_count": 1}),
        Content("function_call"),
        Content("function_result", result={"no": "id"}),
    ]
    messages = [Message("user", ["Hi."]), Message("assistant", contents), Message("assistant", []), *talk(4)]
    sent = hook(BrimfulMiddleware(), messages, model="gpt-4o")
    assert all(mine is theirs for mine, theirs in zip(sent, messages, strict=True))


def test_two_sessions_do_not_share_where_their_history_begins():
    messages = {name: talk(300) for name in ("a", "b")}
    alone, together = (
        {name: BrimfulMiddleware(window=3_000, completion=300) for name in messages},
        BrimfulMiddleware(window=3_000, completion=300),
    )
    for count in range(200, 300, 10):
        for name, listed in messages.items():
            session = maf.AgentSession(session_id=name)
            shared = hook(together, listed[: count + len(name)], session=session, model="gpt-4o")
            assert shared == hook(alone[name], listed[: count + len(name)], session=session, model="gpt-4o")


def test_two_threads_at_once():
    middleware, messages = BrimfulMiddleware(window=3_000, completion=300), talk(300)
    expected = hook(middleware, messages, model="gpt-4o")
    with ThreadPoolExecutor(4) as pool:
        for sent in pool.map(lambda _: hook(middleware, messages, model="gpt-4o"), range(8)):
            assert sent == expected


def from_openai(messages):
    """Return messages of OpenAI as the framework's own."""
    made = []
    for message in messages:
        calls = [
            Content.from_function_call(each["id"], each["function"]["name"], arguments=each["function"]["arguments"])
            for each in message.get("tool_calls", ())
        ]
        if message["role"] == "tool":
            calls = [Content.from_function_result(message["tool_call_id"], result=message["content"])]
        made.append(Message(message["role"], calls or [message["content"]]))
    return made


def to_openai(message):
    calls = [each for each in message.contents if each.type == "function_call"]
    results = [each for each in message.contents if each.type == "function_result"]
    if results:
        return [{"role": "tool", "tool_call_id": each.call_id, "content": each.result} for each in results]
    functions = [{"name": each.name, "arguments": each.arguments} for each in calls]
    written = [
        {"id": each.call_id, "type": "function", "function": function}
        for each, function in zip(calls, functions, strict=True)
    ]
    return [{"role": message.role, "content": message.text or None} | ({"tool_calls": written} if written else {})]


def make_sender(options):
    middleware = BrimfulMiddleware(**options)
    return lambda messages, name: hook(middleware, messages, session=maf.AgentSession(session_id=name))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(chats(), chats())
def test_every_conversation(messages, other):
    check(Case(make=from_openai, sender=make_sender, wire=to_openai), messages, other)


def run_agent(client, middleware, steps=("Look at all orders.",), *, stream=False, **options):
    """Run an agent with a session of its own, and return the session."""

    async def run():
        agent = Agent(client, "You are the assistant of a shop.", tools=[get_order], middleware=[middleware], **options)
        session = agent.create_session(session_id="s1")
        for step in steps:
            if stream:
                async for _ in agent.run(step, session=session, stream=True):
                    pass
            else:
                await agent.run(step, session=session)
        return session

    return asyncio.run(run())


def look_at_orders(count):
    """Return an answer that calls the tool `count` times, sometimes twice at once."""

    def answer(messages, number):
        if number > count:
            return reply(["All are fine."], messages)
        calls = [call(f"c{number}", f"W{number}"), call(f"d{number}", f"V{number}")]
        return reply(["Next.", *calls[: 1 + (number % 5 == 0)]], messages)

    return answer


def make_client(count):
    limits = {"max_iterations": count + 1, "max_consecutive_errors_per_request": 9}
    return ScriptedClient(look_at_orders(count), function_invocation_configuration=limits)


@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_goes_200_steps_past_its_window(stream):
    client, window = make_client(200), 6_000
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        session = run_agent(client, BrimfulMiddleware(engine=engine, window=window, completion=500), stream=stream)
        builds = engine.run(engine.store.builds(room="s1", limit=300))
        responses = engine.run(engine.store.responses(room="s1", limit=300))
    assert len(client.requests) == len(builds) == len(responses) == 201
    assert all(build.tokens <= window - 500 for build in builds)
    assert all(response.usage.prompt > 0 and response.usage.cached == 2 for response in responses)
    for messages, options in client.requests:
        contents = [content for message in messages for content in message.contents]
        calls = [each.call_id for each in contents if each.type == "function_call"]
        assert calls == [each.call_id for each in contents if each.type == "function_result"]
        assert messages[0].text == "Look at all orders."
        assert options["instructions"] == "You are the assistant of a shop."
    assert max(len(messages) for messages, _ in client.requests) < 150
    assert "<history" in client.requests[-1][0][1].text
    stored = session.state["in_memory"]["messages"]
    assert len(stored) == 402
    assert not any("_excluded" in message.additional_properties for message in stored)
    assert not any("<history" in message.text for message in stored)


def test_usage_calibrates_later_requests():
    client = ScriptedClient(lambda messages, _: reply(["Fine."], messages))
    client.model = "some-model"
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        run_agent(client, BrimfulMiddleware(engine=engine), [f"Message {n}. " + "word " * 50 for n in range(30)])
        reports = engine.run(engine.store.usage_reports(limit=100))
    assert len(reports) == 30
    assert {report.model for report in reports} == {"some-model"}


def test_an_async_engine_records_requests_too():
    async def run():
        async with brimful.Engine("sqlite:///:memory:") as engine:
            agent = Agent(make_client(3), tools=[get_order], middleware=[BrimfulMiddleware(engine=engine)])
            await agent.run("Go.", session=agent.create_session(session_id="s1"))
            return await engine.store.responses(room="s1")

    assert [response.model for response in asyncio.run(run())] == ["gpt-4o-2024"] * 4


class TooLong(ChatClientException):
    """What a provider raises."""


def refuse_over(messages_limit):
    def answer(messages, _number):
        if len(messages) > messages_limit:
            raise TooLong("This model's maximum context length is 3000 tokens. However, your messages resulted in 9000")
        return reply(["Fine."], messages)

    return answer


def test_a_request_that_is_refused_as_too_long_is_made_smaller():
    client = ScriptedClient(refuse_over(150))
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        middleware = BrimfulMiddleware(engine=engine, window=9_000, completion=300)
        messages = talk(301)
        asyncio.run(client.get_response(messages, client_kwargs={"middleware": [middleware]}))
        assert len(engine.run(engine.store.responses(limit=10))) == 1
    first, second = (len(sent) for sent, _ in client.requests)
    assert first > 150 > second > 5


def test_other_errors_and_a_second_refusal_are_raised():
    def fail(_messages, _number):
        raise ChatClientException("no such key")

    for answer, tries in ((fail, 1), (refuse_over(0), 2)):
        client = ScriptedClient(answer)
        middleware = BrimfulMiddleware(window=9_000, completion=300)
        with pytest.raises(ChatClientException):
            asyncio.run(client.get_response(talk(301), client_kwargs={"middleware": [middleware]}))
        assert len(client.requests) == tries


def test_instructions_that_do_not_fit_are_an_error():
    with pytest.raises(BudgetExceeded, match="required"):
        hook(BrimfulMiddleware(window=1_000), talk(3), model="gpt-4o", max_tokens=100, instructions="word " * 5_000)


def test_wrong_options_are_an_error():
    with pytest.raises(InvalidValue, match="windw"):
        BrimfulMiddleware(windw=1_000)
    with pytest.raises(InvalidValue, match="engine"):
        BrimfulMiddleware(engine="store.db")


def test_tokens_are_counted_exactly():
    tokenizer = BrimfulTokenizer("gpt-4o")
    assert isinstance(tokenizer, maf.TokenizerProtocol)
    assert tokenizer.count_tokens("Fill the window to the brim.") == 7


@pytest.mark.parametrize("kind", [brimful.SyncEngine, brimful.Engine])
def test_memories_are_added_for_what_the_user_says(kind):
    client = ScriptedClient(lambda messages, _: reply(["Tea."], messages))

    async def run(engine, remember):
        await remember("Mia likes green tea.", user="mia")
        await remember("Bob likes black coffee.", user="bob")
        agent = Agent(client, context_providers=[BrimfulContextProvider(engine, user="mia")])
        await agent.run("What should I drink, tea or coffee?")
        await agent.run([])

    if kind is brimful.SyncEngine:
        with brimful.SyncEngine("sqlite:///:memory:") as engine:
            asyncio.run(run(engine, lambda *args, **options: engine.wait(engine.engine.remember(*args, **options))))
    else:

        async def with_engine():
            async with brimful.Engine("sqlite:///:memory:") as engine:
                await run(engine, engine.remember)

        asyncio.run(with_engine())
    texts = [message.text for message in client.requests[0][0]]
    assert "- Mia likes green tea." in texts[0]
    assert "coffee" not in texts[0]
    assert texts[1] == "What should I drink, tea or coffee?"
    assert client.requests[1][0] == []
