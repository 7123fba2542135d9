"""The plugin and the memory service of Google ADK, with a scripted model."""

import asyncio
import json
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest
from google.adk.agents import LlmAgent, ParallelAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.sessions import Session
from google.genai import types
from google.genai.types import Content, FunctionCall, FunctionResponse, Part
from hypothesis import given, settings

import brimful
from adapter_properties import Case, chats, check
from brimful.adapters.adk import BrimfulMemoryService, BrimfulPlugin
from brimful.core.chat_rules import OPENING
from brimful.errors import InvalidValue


class ScriptedModel(BaseLlm):
    """A model that answers by a function of the request and its number, and keeps the requests."""

    model: str = "gemini-2.5-flash"
    answer: object
    requests: list = []

    async def generate_content_async(self, llm_request, stream=False):
        self.requests.append(llm_request.model_copy(update={"contents": list(llm_request.contents)}))
        parts = self.answer(llm_request, len(self.requests))
        if stream:
            yield LlmResponse(content=Content(role="model", parts=parts), partial=True)
        characters = sum(len(content.model_dump_json(exclude_none=True)) for content in llm_request.contents)
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=characters // 4,
            cached_content_token_count=2,
            candidates_token_count=7,
            thoughts_token_count=3,
        )
        content = Content(role="model", parts=parts)
        yield LlmResponse(content=content, usage_metadata=usage, model_version="gemini-2.5-flash-001")


def get_order(order: str) -> dict:
    """Look up an order."""
    if order == "W13":
        return {"error": "no such order"}
    return {"order": order, "state": "fine", "notes": "Left at the door. " * 20}


def call(order):
    return Part(function_call=FunctionCall(name="get_order", args={"order": order}))


def look_at_orders(count):
    """Return an answer that calls the tool `count` times, sometimes twice at once."""

    def answer(_request, number):
        if number > count:
            return [Part(text="All are fine.")]
        return [Part(text="Hm.", thought=True), call(f"W{number}"), call(f"V{number}")][: 2 + (number % 5 == 0)]

    return answer


def say(text):
    return Content(role="user", parts=[Part(text=text)])


def make_runner(model, plugin, *, name="shop"):
    agent = LlmAgent(name=name, model=model, instruction="You are the assistant of a shop.", tools=[get_order])
    return InMemoryRunner(app=App(name="shop_app", root_agent=agent, plugins=[plugin]))


async def run_turns(runner, texts, *, user="mia", session="s1", stream=False):
    """Send messages in a session, and return the session."""
    service, key = runner.session_service, {"app_name": "shop_app", "user_id": user, "session_id": session}
    if await service.get_session(**key) is None:
        await service.create_session(**key)
    config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE, max_llm_calls=1_000)
    for text in texts:
        async for _ in runner.run_async(user_id=user, session_id=session, new_message=say(text), run_config=config):
            pass
    return await service.get_session(**key)


def find_names(contents, field):
    parts = [part for content in contents for part in content.parts]
    return [value.name for part in parts if (value := getattr(part, field)) is not None]


class Callback:
    """What the plugin sees of a callback's context."""

    invocation_id, branch, agent_name = "i1", None, "shop"

    def __init__(self, session="s1"):
        self.session = Session(id=session, app_name="shop_app", user_id="mia")


def hook(plugin, contents, *, session="s1", model="gemini-2.5-flash", **config):
    """Send contents through the plugin, and return what the model is given."""
    request = LlmRequest(model=model, config=types.GenerateContentConfig(**config))
    request.contents = contents  # an argument would be copied
    asyncio.run(plugin.before_model_callback(callback_context=Callback(session), llm_request=request))
    return request.contents


def talk(count):
    parts = ([Part(text=f"Message {n}. " + "word " * 20)] for n in range(count))
    return [Content(role="model" if n % 2 else "user", parts=each) for n, each in enumerate(parts)]


def test_a_request_that_fits_is_the_same_list():
    contents = talk(6)
    assert hook(BrimfulPlugin(), contents) is contents


def test_the_newest_messages_stay_as_the_same_objects():
    contents = talk(401)
    sent = hook(BrimfulPlugin(window=4_000, completion=500), contents)
    assert 10 < len(sent) < 200
    assert sent[0].role == "user"  # Gemini wants the user to begin
    assert all(mine is theirs for mine, theirs in zip(sent[1:], contents[1 - len(sent) :], strict=True))


def test_instruction_and_tools_and_the_limit_of_the_answer_take_their_part_of_the_window():
    contents = talk(401)
    plugin = BrimfulPlugin(window=4_000)
    plain = hook(plugin, contents, max_output_tokens=500)
    tools = [types.Tool(function_declarations=[types.FunctionDeclaration(name=f"f{n}")]) for n in range(60)]
    texts = [types.Part(text="Be kind. " * 100), "Be brief. " * 100]
    for instruction in ("Be kind. " * 300, Content(parts=[Part(text="Be kind. " * 300)]), texts):
        assert len(hook(plugin, contents, max_output_tokens=500, system_instruction=instruction)) < len(plain)
    assert len(hook(plugin, contents, max_output_tokens=500, tools=tools)) < len(plain)
    assert len(hook(plugin, contents, max_output_tokens=2_000)) < len(plain)


def test_the_model_of_the_plugin_takes_precedence():
    contents = talk(1_001)
    assert len(hook(BrimfulPlugin(), contents, model="some-model")) < 900
    assert hook(BrimfulPlugin(model="gemini-2.5-flash"), contents, model="some-model") is contents


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("policy", ["fit", "agent"])
def test_calls_stay_with_their_results(ids, policy):
    contents = [say("Look at my orders.")]
    for n in range(60):
        calls = [FunctionCall(id=f"c{n}{k}" if ids else None, name=k, args={"n": n}) for k in "ab"]
        results = [FunctionResponse(id=each.id, name=each.name, response={"result": "fine " * 30}) for each in calls]
        contents.append(
            Content(role="model", parts=[Part(function_call=each, thought_signature=b"x") for each in calls])
        )
        contents.append(Content(role="user", parts=[Part(function_response=each) for each in results]))
    sent = hook(BrimfulPlugin(window=4_000, completion=300, policy=policy), contents)
    calls, results = find_names(sent, "function_call"), find_names(sent, "function_response")
    assert calls == results
    assert 4 < len(calls) < 100
    assert sent[0] is contents[0] or policy == "fit"
    assert all(part.thought_signature == b"x" for content in sent for part in content.parts if part.function_call)


def test_a_large_result_is_shortened_in_a_copy():
    parts = [
        Part(function_response=FunctionResponse(id="1", name="get_order", response={"result": "row " * 9_000})),
        Part(function_response=FunctionResponse(id="2", name="get_order", response={"error": "no such order"})),
    ]
    calls = [Part(function_call=FunctionCall(id=id, name="get_order"), thought_signature=b"\xff") for id in "12"]
    contents = [say("Go."), Content(role="model", parts=calls), Content(role="user", parts=parts)]
    sent = hook(BrimfulPlugin(window=2_000, completion=300), contents)
    assert [mine is theirs for mine, theirs in zip(sent, contents, strict=True)] == [True, True, False]
    first, second = (part.function_response for part in sent[2].parts)
    assert (first.id, first.name, second) == ("1", "get_order", parts[1].function_response)
    assert len(first.response["result"]) < 8_000
    assert parts[0].function_response.response == {"result": "row " * 9_000}


def test_contents_of_other_kinds_are_counted_and_kept():
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">IIBBBBB", 1_024, 1_024, 8, 2, 0, 0, 0) + bytes(range(256))
    parts = [
        Part(inline_data=types.Blob(data=png, mime_type="image/png")),
        Part(inline_data=types.Blob(data=b"%PDF-1.4", mime_type="application/pdf")),
        Part(file_data=types.FileData(file_uri="gs://bucket/film.mp4", mime_type="video/mp4")),
        Part(executable_code=types.ExecutableCode(code="print(1)", language="PYTHON")),
        Part(code_execution_result=types.CodeExecutionResult(outcome="OUTCOME_OK", output="1")),
        Part(text="Let me think.", thought=True, thought_signature=b"\xfe"),
    ]
    contents = [Content(role="user", parts=parts[:3]), Content(role="model", parts=parts[3:]), Content(), *talk(1)]
    assert hook(BrimfulPlugin(), contents) is contents


def test_images_of_a_static_instruction_stay():
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">IIBBBBB", 200, 200, 8, 2, 0, 0, 0)
    logo = Content(parts=[Part(text="Our logo:"), Part(inline_data=types.Blob(data=png, mime_type="image/png"))])
    model = ScriptedModel(answer=lambda *_: [Part(text="word " * 100)], requests=[])
    agent = LlmAgent(name="shop", model=model, static_instruction=logo, instruction="Be kind.")
    plugin = BrimfulPlugin(window=3_000, completion=300)
    runner = InMemoryRunner(app=App(name="shop_app", root_agent=agent, plugins=[plugin]))
    asyncio.run(run_turns(runner, ["word " * 100] * 20))
    last = model.requests[-1].contents
    assert len(last) < 35
    assert last[0].parts[-1].inline_data.data == png


def test_two_sessions_do_not_share_where_their_history_begins():
    contents = {name: talk(301) for name in ("a", "b")}
    alone = {name: BrimfulPlugin(window=3_000, completion=300) for name in contents}
    together = BrimfulPlugin(window=3_000, completion=300)
    for count in range(201, 301, 10):
        for name, listed in contents.items():
            some = listed[: count + 2 * (name == "b")]
            assert hook(together, some, session=name) == hook(alone[name], some, session=name)


def test_two_threads_at_once():
    plugin, contents = BrimfulPlugin(window=3_000, completion=300), talk(301)
    expected = hook(plugin, contents)
    with ThreadPoolExecutor(4) as pool:
        for sent in pool.map(lambda _: hook(plugin, contents), range(8)):
            assert sent == expected


def from_openai(messages):
    """Return messages of OpenAI as contents. Results of parallel calls are one content."""
    made, names = [], {}
    for message in messages:
        if message["role"] == "tool":
            id = message["tool_call_id"]
            part = Part(
                function_response=FunctionResponse(id=id, name=names[id], response={"result": message["content"]})
            )
            if made[-1].parts[0].function_response:
                made[-1].parts.append(part)
            else:
                made.append(Content(role="user", parts=[part]))
            continue
        parts = [Part(text=message["content"])] if message["content"] else []
        for each in message.get("tool_calls", ()):
            names[each["id"]] = each["function"]["name"]
            arguments = json.loads(each["function"]["arguments"])
            parts.append(Part(function_call=FunctionCall(id=each["id"], name=names[each["id"]], args=arguments)))
        made.append(Content(role="model" if message["role"] == "assistant" else "user", parts=parts))
    return made


def to_openai(content):
    results = [part.function_response for part in content.parts if part.function_response]
    if results:
        return [{"role": "tool", "tool_call_id": each.id, "content": each.response["result"]} for each in results]
    calls = [part.function_call for part in content.parts if part.function_call]
    functions = [{"name": each.name, "arguments": json.dumps(each.args)} for each in calls]
    written = [
        {"id": each.id, "type": "function", "function": function}
        for each, function in zip(calls, functions, strict=True)
    ]
    text = "".join(part.text or "" for part in content.parts) or None
    role = "assistant" if content.role == "model" else "user"
    return [{"role": role, "content": text} | ({"tool_calls": written} if written else {})]


def make_sender(options):
    plugin = BrimfulPlugin(**options)

    def send(contents, id):
        sent = hook(plugin, contents, session=id)
        return [content for content in sent if content.parts[0].text != OPENING]  # Gemini wants the user to begin

    return send


@settings(max_examples=30, deadline=None, derandomize=True)
@given(chats(), chats())
def test_every_conversation(messages, other):
    check(Case(make=from_openai, sender=make_sender, wire=to_openai), messages, other)


@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_goes_200_steps_past_its_window(stream):
    model, window = ScriptedModel(answer=look_at_orders(200), requests=[]), 8_000
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        runner = make_runner(model, BrimfulPlugin(engine=engine, window=window, completion=500))
        session = asyncio.run(run_turns(runner, ["Look at all orders."], stream=stream))
        room = "shop_app/mia/s1/shop"
        builds = engine.run(engine.store.builds(room=room, limit=300))
        responses = engine.run(engine.store.responses(room=room, limit=300))
    assert len(model.requests) == len(builds) == len(responses) == 201
    assert all(build.tokens <= window - 500 for build in builds)
    assert {response.model for response in responses} == {"gemini-2.5-flash-001"}
    assert all((response.usage.completion, response.usage.reasoning) == (10, 3) for response in responses)
    for request in model.requests:
        assert find_names(request.contents, "function_call") == find_names(request.contents, "function_response")
        assert request.contents[0].parts[0].text == "Look at all orders."
        assert request.config.system_instruction.startswith("You are the assistant of a shop.")
    assert max(len(request.contents) for request in model.requests) < 150
    assert "<history" in model.requests[-1].contents[1].parts[0].text
    assert len(session.events) == 402
    assert not any("<history" in event.model_dump_json() for event in session.events)


def test_agents_that_run_in_parallel_have_conversations_of_their_own():
    models = {name: ScriptedModel(answer=look_at_orders(5), requests=[]) for name in ("one", "two")}
    agents = [LlmAgent(name=name, model=model, tools=[get_order]) for name, model in models.items()]
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        plugin = BrimfulPlugin(engine=engine)
        both = ParallelAgent(name="both", sub_agents=agents)
        runner = InMemoryRunner(app=App(name="shop_app", root_agent=both, plugins=[plugin]))
        asyncio.run(run_turns(runner, ["Go."]))
        for name in models:
            assert len(engine.run(engine.store.responses(room=f"shop_app/mia/s1/{name}"))) == 6


def test_users_with_sessions_of_the_same_id_have_rooms_of_their_own():
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        runner = make_runner(ScriptedModel(answer=look_at_orders(0), requests=[]), BrimfulPlugin(engine=engine))
        for user in ("mia", "bob/x"):
            asyncio.run(run_turns(runner, ["Go."], user=user))
        for room in ("shop_app/mia/s1/shop", "shop_app/bob%2Fx/s1/shop"):
            assert len(engine.run(engine.store.responses(room=room))) == 1


def test_an_async_engine_records_requests_too():
    async def run():
        async with brimful.Engine("sqlite:///:memory:") as engine:
            runner = make_runner(ScriptedModel(answer=look_at_orders(3), requests=[]), BrimfulPlugin(engine=engine))
            await run_turns(runner, ["Go."])
            return await engine.store.responses(room="shop_app/mia/s1/shop")

    assert len(asyncio.run(run())) == 4


def refuse_over(limit):
    def answer(request, _number):
        if len(request.contents) > limit:
            raise RuntimeError("400 The input token count (9000) exceeds the maximum number of tokens allowed (3000).")
        return [Part(text="word " * 100)]

    return answer


def test_a_request_that_is_refused_as_too_long_is_made_smaller():
    model = ScriptedModel(answer=refuse_over(50), requests=[])
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        runner = make_runner(model, BrimfulPlugin(engine=engine, window=9_000, completion=300))
        session = asyncio.run(run_turns(runner, ["word " * 100] * 27))
        responses = engine.run(engine.store.responses(room="shop_app/mia/s1/shop"))
    sizes = [len(request.contents) for request in model.requests]
    assert sizes[25] == 51
    assert sizes[26] < 50
    assert len(responses) == 27
    assert len(session.events) == 54


def test_other_errors_and_a_second_refusal_are_raised():
    def fail(_request, _number):
        raise RuntimeError("no such key")

    def refuse_all(request, number):
        return refuse_over(0 if number > 10 else 99)(request, number)

    for answer, tries in ((fail, 1), (refuse_all, 12)):
        model = ScriptedModel(answer=answer, requests=[])
        with pytest.raises(RuntimeError, match=r"no such key|exceeds the maximum"):
            asyncio.run(run_turns(make_runner(model, BrimfulPlugin()), ["word " * 100] * 11))
        assert len(model.requests) == tries


def test_wrong_options_are_an_error():
    with pytest.raises(InvalidValue, match="windw"):
        BrimfulPlugin(windw=1_000)
    with pytest.raises(InvalidValue, match="engine"):
        BrimfulPlugin(engine="store.db")
    with pytest.raises(InvalidValue, match="system_instruction"):
        hook(BrimfulPlugin(), talk(1), system_instruction=types.File(name="files/1"))


# -- memory ------------------------------------------------------------------------------------------------------------


def make_session(*texts, app="shop_app", user="mia", id="s1"):
    events = [
        Event(id=f"e{n}", author="user", content=say(text), timestamp=1_700_000_000 + n) for n, text in enumerate(texts)
    ]
    return Session(id=id, app_name=app, user_id=user, events=events)


def with_service(check, **options):
    """Run a check with a service over each kind of engine."""

    async def asynchronous():
        async with brimful.Engine("sqlite:///:memory:") as engine:
            await check(BrimfulMemoryService(engine, **options))

    asyncio.run(asynchronous())
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        asyncio.run(check(BrimfulMemoryService(engine, **options)))


async def find(service, query, *, app="shop_app", user="mia"):
    found = await service.search_memory(app_name=app, user_id=user, query=query)
    return [memory.content.parts[0].text for memory in found.memories]


def test_texts_of_sessions_are_found():
    async def check(service):
        session = make_session("I like green tea.", "My dog is called Rex.")
        session.events.append(Event(author="shop", content=Content(role="model", parts=[call("W1")])))
        session.events.append(
            Event(author="shop", content=Content(role="model", parts=[Part(text="Rex!", thought=True)]))
        )
        await service.add_session_to_memory(session)
        found = await service.search_memory(app_name="shop_app", user_id="mia", query="green tea")
        memory = found.memories[0]
        assert memory.content == say("I like green tea.")
        assert (memory.id, memory.author, memory.timestamp) == ("e0", "user", "2023-11-14T22:13:20+00:00")
        assert memory.custom_metadata == {"session": "s1"}
        texts = await find(service, "Rex the dog")
        assert texts[0] == "My dog is called Rex."
        assert "Rex!" not in texts

    with_service(check)


def test_apps_and_users_never_mix():
    async def check(service):
        for app, user in (("a", "b"), ("a", "c"), ("d", "b"), ("a:b", ""), ("a", "b:")):
            if user:
                await service.add_session_to_memory(make_session(f"The code of {app} {user} is 1.", app=app, user=user))
        for app, user in (("a", "b"), ("a", "c"), ("d", "b"), ("a", "b:")):
            assert await find(service, "code", app=app, user=user) == [f"The code of {app} {user} is 1."]
        assert await find(service, "code", app="a", user="x") == []
        await service.delete_memory(app_name="d", user_id="c", memory_id="e0")
        assert await find(service, "code", app="d", user="b")
        for app, user in (("", "b"), ("a", "")):
            with pytest.raises(InvalidValue):
                await find(service, "code", app=app, user=user)
            with pytest.raises(InvalidValue):
                await service.add_session_to_memory(make_session("Hi.", app=app, user=user))

    with_service(check)


def test_a_session_is_added_once_and_what_was_deleted_stays_deleted():
    async def check(service):
        session = make_session(*(f"Fact number {n} about tea." for n in range(700)))
        for _ in range(2):
            await service.add_session_to_memory(session)
        assert len(await find(service, "tea")) == 10
        await service.delete_memory(app_name="shop_app", user_id="mia", memory_id="e7")
        await service.delete_memory(app_name="shop_app", user_id="mia", memory_id="e7")
        await service.delete_memory(app_name="shop_app", user_id="mia", memory_id="no such memory")
        await service.delete_memory(app_name="shop_app", user_id="mia")
        await service.add_session_to_memory(session)
        assert "Fact number 7 about tea." not in await find(service, "Fact number 7 about tea")
        assert "(deleted)" not in await find(service, "deleted")
        await service.add_events_to_memory(app_name="shop_app", user_id="mia", events=session.events[:1])

    with_service(check)


def test_memories_can_be_added_directly():
    async def check(service):
        entries = [
            MemoryEntry(
                content=say("Mia likes tea."), custom_metadata={"topic": "drinks"}, timestamp="2026-01-02T03:04:05Z"
            ),
            MemoryEntry(id="m1", content=say("Mia has a dog."), author="shop"),
        ]
        await service.add_memory(app_name="shop_app", user_id="mia", memories=entries, custom_metadata={"by": "test"})
        found = (await service.search_memory(app_name="shop_app", user_id="mia", query="Mia likes tea")).memories[0]
        assert found.custom_metadata == {"topic": "drinks", "by": "test"}
        assert found.timestamp == "2026-01-02T03:04:05+00:00"
        assert await find(service, "dog")
        await service.delete_memory(app_name="shop_app", user_id="mia", memory_id=found.id)
        assert await find(service, "Mia likes tea") == ["Mia has a dog."]
        for entry in (MemoryEntry(content=Content()), MemoryEntry(content=say("x"), timestamp="yesterday")):
            with pytest.raises(InvalidValue, match=r"memories|timestamp"):
                await service.add_memory(app_name="shop_app", user_id="mia", memories=[entry])

    with_service(check)


def test_memories_of_the_engine_are_found_too():
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        engine.remember("The shop is closed on Sundays.", persona="shop_app", id="m1", metadata={"by": "us"})
        service = BrimfulMemoryService(engine)
        found = asyncio.run(service.search_memory(app_name="shop_app", user_id="mia", query="Sundays")).memories
    assert [(memory.id, memory.author, memory.custom_metadata) for memory in found] == [("m1", None, {"by": "us"})]
