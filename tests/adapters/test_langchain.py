"""LangChain: middleware, token counters and the retriever, with the real framework and scripted models."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from langchain.agents import create_agent
from langchain.agents.middleware import ContextEditingMiddleware, ModelRequest, ModelResponse, SummarizationMiddleware
from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain_core.documents import Document
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    trim_messages,
)
from langchain_core.messages.utils import convert_to_messages
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables.config import set_config_context
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, ValidationError

import brimful
from adapter_properties import Case, chats, check
from brimful.adapters.langchain import BrimfulMiddleware, BrimfulRetriever, to_openai, token_counter
from brimful.errors import BudgetExceeded, InvalidValue

MODEL = "gpt-4o"
SYSTEM = "You are the assistant of a shop."
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@tool
def get_order(order: str) -> str:
    """Return an order of the shop."""
    return f"order {order}: " + "left at the door, " * 25


class ScriptedModel(BaseChatModel):
    """Calls a tool in every step, then answers. Refuses what is longer than its window, and reports usage.

    `requests` are those of each task, which is the first message of a user.
    """

    window: int = 4_000
    steps: int = 3
    parallel: int = 1
    model_name: str = MODEL
    requests: dict[str, list[list[BaseMessage]]] = defaultdict(list)
    refused: list[int] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _generate(self, messages: list[BaseMessage], *_: Any, tools: Any = (), **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.answer(messages, tools))])

    def _stream(
        self, messages: list[BaseMessage], *_: Any, tools: Any = (), **__: Any
    ) -> Iterator[ChatGenerationChunk]:
        answer = self.answer(messages, tools)
        chunks = [
            {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": at}
            for at, call in enumerate(answer.tool_calls)
        ]
        fields = {"content": answer.content, "usage_metadata": answer.usage_metadata}
        yield ChatGenerationChunk(message=AIMessageChunk(**fields, tool_call_chunks=chunks))

    def answer(self, messages: list[BaseMessage], tools: Any) -> AIMessage:
        tokens = token_counter(MODEL, tools=tools)(messages)
        if tokens > self.window:
            self.refused.append(tokens)
            limit = f"This model's maximum context length is {self.window} tokens."
            raise ContextOverflowError(f"{limit} However, your messages resulted in {tokens} tokens.")
        task = next(message.text for message in messages if isinstance(message, HumanMessage))
        self.requests[task].append(list(messages))
        step = len(self.requests[task])
        usage = {"input_tokens": tokens, "output_tokens": 20, "total_tokens": tokens + 20}
        if step >= self.steps:
            return AIMessage("All of them are fine.", usage_metadata=usage)
        calls = [
            {"name": "get_order", "args": {"order": f"W{step}-{at}"}, "id": f"c{step}-{at}"}
            for at in range(self.parallel)
        ]
        return AIMessage("", tool_calls=calls, usage_metadata=usage)


def make_agent(model, *middleware, **options):
    return create_agent(model, tools=[get_order], system_prompt=SYSTEM, middleware=middleware, **options)


def thread(name):
    return {"configurable": {"thread_id": name}, "recursion_limit": 2_000}


def ask(agent, task, name="t"):
    return agent.invoke({"messages": [("user", task)]}, thread(name))["messages"]


def assert_whole(messages):
    """Every result follows its call, and every call has its result."""
    open_calls: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in open_calls
            open_calls.remove(message.tool_call_id)
        else:
            assert not open_calls
        if isinstance(message, AIMessage):
            open_calls = {call["id"] for call in message.tool_calls}
    assert not open_calls


def run(request: ModelRequest, middleware: BrimfulMiddleware):
    """Call a middleware outside of an agent; return what it sends."""
    sent = []

    def handler(request):
        sent.append(request)
        return ModelResponse(result=[AIMessage("Yes.")])

    middleware.wrap_model_call(request, handler)
    return sent[-1]


def chat(turns, words=40):
    return [
        message
        for turn in range(turns)
        for message in (HumanMessage(f"Question {turn}. " + "word " * words, id=f"q{turn}"), AIMessage("Yes."))
    ] + [HumanMessage("And now?")]


def request_for(messages, model=None, **fields):
    return ModelRequest(model=model or ScriptedModel(), messages=messages, **fields)


# -- an agent far past its window --------------------------------------------------------------------------------------


def test_an_agent_goes_200_steps_past_its_window_in_two_threads(tmp_path):
    model = ScriptedModel(steps=200)
    tasks = {name: f"I am {name}_li_3668. Which of my orders are broken?" for name in ("mia", "noah")}
    with brimful.SyncEngine(f"sqlite:///{tmp_path}/chat.db", indexing=False) as engine:
        middleware = BrimfulMiddleware(engine=engine, window=model.window, completion=200)
        agent = make_agent(model, middleware, checkpointer=InMemorySaver())
        with ThreadPoolExecutor(2) as pool:
            runs = dict(zip(tasks, pool.map(lambda name: ask(agent, tasks[name], name), tasks), strict=True))
        builds = {name: engine.run(engine.store.builds(room=name, limit=1_000)) for name in tasks}
        answers = engine.run(engine.store.responses(limit=1_000))
    assert not model.refused
    assert [answer.usage.completion for answer in answers] == [20] * 400
    for name, task in tasks.items():
        assert len(runs[name]) == 400  # the task, 199 calls with their results, and the answer
        assert len(model.requests[task]) == len(builds[name]) == 200
        assert builds[name][0].left_out > 100
        for messages in model.requests[task]:
            assert [type(message) for message in messages[:2]] == [SystemMessage, HumanMessage]
            assert messages[1].text == task
            assert_whole(messages)


@pytest.mark.asyncio
async def test_an_async_agent_does_the_same(tmp_path):
    model = ScriptedModel(steps=40, parallel=2)
    async with brimful.Engine(f"sqlite:///{tmp_path}/chat.db", indexing=False) as engine:
        middleware = BrimfulMiddleware(engine=engine, window=model.window, completion=200)
        agent = make_agent(model, middleware, checkpointer=InMemorySaver())
        inputs = [{"messages": [("user", f"Task {name}")]} for name in "ab"]
        await asyncio.gather(*(agent.ainvoke(each, thread(name)) for each, name in zip(inputs, "ab", strict=True)))
        builds = [await engine.store.builds(room=name, limit=100) for name in "ab"]
    assert not model.refused
    assert [len(each) for each in builds] == [40, 40]
    for messages in model.requests["Task a"] + model.requests["Task b"]:
        assert_whole(messages)


def test_two_threads_at_once_are_as_each_alone():
    def sent(*names):
        model = ScriptedModel(steps=30)
        agent = make_agent(model, BrimfulMiddleware(window=2_000, completion=200), checkpointer=InMemorySaver())
        with ThreadPoolExecutor(len(names)) as pool:
            list(pool.map(lambda name: ask(agent, f"Task {name}", name), names))
        return {task: [[each.content for each in one] for one in all] for task, all in model.requests.items()}

    assert sent("a", "b") == sent("a") | sent("b")


def test_the_history_of_an_agent_is_not_changed():
    model = ScriptedModel(steps=30)
    agent = make_agent(model, BrimfulMiddleware(window=2_000, completion=200), checkpointer=InMemorySaver())
    ask(agent, "Task")
    stored = agent.get_state(thread("t")).values["messages"]
    assert len(stored) == 60
    assert len(model.requests["Task"][-1]) < 30
    results = [message.text for message in stored if isinstance(message, ToolMessage)]
    assert all(text.endswith("left at the door, ") for text in results)


def test_streamed_answers_and_their_usage(tmp_path):
    model = ScriptedModel(steps=20)
    with brimful.SyncEngine(f"sqlite:///{tmp_path}/chat.db", indexing=False) as engine:
        agent = make_agent(model, BrimfulMiddleware(engine=engine, window=2_000, completion=200))
        chunks = list(agent.stream({"messages": [("user", "Task")]}, thread("t"), stream_mode="messages"))
        answers = engine.run(engine.store.responses(room="t"))
    assert "All of them are fine." in "".join(chunk.text for chunk, _ in chunks)
    assert len(answers) == 20
    assert all(answer.usage.prompt for answer in answers)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_model_recalls_what_was_left_out(is_async):
    offered = []

    class Recalling(ScriptedModel):
        def answer(self, messages, tools):
            offered.append("recall" in [tool["function"]["name"] for tool in tools])
            answer = super().answer(messages, tools)
            call = {"name": "recall", "args": {"query": "W1-0"}, "id": "r"}
            return AIMessage("", tool_calls=[call]) if len(offered) == 19 else answer

    model = Recalling(steps=20, window=2_000)
    agent = make_agent(model, BrimfulMiddleware(window=2_000, completion=200, recall=True))
    if is_async:
        messages = asyncio.run(agent.ainvoke({"messages": [("user", "Task")]}, thread("t")))["messages"]
    else:
        messages = ask(agent, "Task")
    assert offered == sorted(offered)  # only when something is left out
    assert (offered[0], offered[-1]) == (False, True)
    assert messages[2].text in messages[-2].text
    assert all(messages[2].text not in message.text for message in model.requests["Task"][-2])
    assert not model.refused


def test_runs_in_one_thread_recall_their_own():
    """A subagent may run in the thread of its caller, at the same time as a recall of the caller."""

    def history(name):
        texts = [f"The secret is {name} {n}. " + "word " * 60 for n in range(30)]
        return {"messages": [HumanMessage(text, id=f"{name}-{n}") for n, text in enumerate(texts)]}

    middleware = BrimfulMiddleware(window=1_000, completion=100, recall=True)
    (recall,) = middleware.tools
    states = [history("kettle"), history("cello")]
    with set_config_context(thread("t")) as context:
        for state in states:
            context.run(run, request_for(state["messages"], state=state, tools=[recall]), middleware)
        found = [context.run(recall.func, SimpleNamespace(state=state), query="secret") for state in states]
    assert ["kettle" in found[0], "cello" in found[0]] == [True, False]
    assert ["kettle" in found[1], "cello" in found[1]] == [False, True]


# -- all adapters ------------------------------------------------------------------------------------------------------


def sender(options):
    middleware = BrimfulMiddleware(**options)

    def send(messages, conversation):
        with set_config_context(thread(conversation)) as context:
            return context.run(run, request_for(messages), middleware).messages

    return send


@given(chats(), chats())
@settings(max_examples=25)
def test_the_properties_of_adapters_hold(messages, other):
    check(Case(make=convert_to_messages, sender=sender, wire=to_openai), messages, other)


# -- what is sent ------------------------------------------------------------------------------------------------------


def test_a_request_that_fits_is_sent_as_it_is():
    request = request_for(chat(3), tools=[get_order], system_message=SystemMessage(SYSTEM))
    assert run(request, BrimfulMiddleware()) is request


def test_a_chat_is_trimmed_to_a_subsequence_of_the_same_objects():
    messages = chat(100)
    sent = run(request_for(messages), BrimfulMiddleware(window=2_000, completion=200)).messages
    places = [next(at for at, each in enumerate(messages) if each is message) for message in sent]
    assert places == list(range(places[0], len(messages)))
    assert 1_500 < token_counter(MODEL)(sent) <= 1_800


def test_the_system_prompt_and_tools_are_counted():
    messages, middleware = chat(100), BrimfulMiddleware(window=2_000, completion=200)
    plain = run(request_for(messages), middleware).messages
    long = SystemMessage([{"type": "text", "text": "Be kind. " * 200, "cache_control": {"type": "ephemeral"}}])
    sent = run(request_for(messages, tools=[get_order], system_message=long), middleware)
    assert sent.system_message is long
    assert len(sent.messages) < len(plain)
    assert token_counter(MODEL, tools=[get_order])([long, *sent.messages]) <= 1_800


def test_the_schema_of_a_structured_answer_is_counted():
    class Verdict(BaseModel):
        """Whether an order is broken, and why. This description is long enough to take a few dozen tokens."""

        order: str
        broken: bool

    messages, middleware = chat(100, words=3), BrimfulMiddleware(window=2_000, completion=200)
    plain = run(request_for(messages), middleware).messages
    for schema in (Verdict, ToolStrategy(Verdict), ProviderStrategy(Verdict), AutoStrategy(Verdict)):
        assert len(run(request_for(messages, response_format=schema), middleware).messages) < len(plain)


def test_large_results_are_shortened_in_a_copy():
    result = ToolMessage("word " * 5_000, tool_call_id="c", artifact={"rows": 5}, id="r", name="look")
    calls = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c"}])
    messages = [HumanMessage("Look."), calls, result]
    sent = run(request_for(messages), BrimfulMiddleware(window=2_000, completion=200)).messages
    assert sent[0] is messages[0]
    assert sent[1] is messages[1]
    assert len(sent[2].text) < len(result.text) == 25_000
    assert sent[2].model_dump(exclude={"content"}) == result.model_dump(exclude={"content"})


def test_blocks_that_are_not_shortened_stay_the_same_objects():
    image = {"type": "image", "base64": PNG, "mime_type": "image/png"}
    text = {"type": "text", "text": "word " * 5_000, "cache_control": {"type": "ephemeral"}}
    messages = [
        HumanMessage("Look."),
        AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c"}]),
        ToolMessage([text, image], tool_call_id="c"),
    ]
    sent = run(request_for(messages), BrimfulMiddleware(window=3_000, completion=200)).messages
    shorter, picture = sent[2].content
    assert shorter["cache_control"] == {"type": "ephemeral"}
    assert len(shorter["text"]) < 15_000
    assert picture is messages[2].content[1]


def test_results_in_a_message_of_the_user_are_kept_with_their_call():
    blocks = [{"type": "tool_use", "id": "c", "name": "look", "input": {"q": "tea"}}]
    result = {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "word " * 5_000}]}
    question = {"type": "text", "text": "And what now?"}
    messages = [HumanMessage("Look."), AIMessage(blocks), HumanMessage([result, question])]
    sent = run(request_for(messages), BrimfulMiddleware(window=2_000, completion=200)).messages
    assert sent[1] is messages[1]
    shorter, same = sent[2].content
    assert shorter["tool_use_id"] == "c"
    assert len(shorter["content"][0]["text"]) < 10_000
    assert same is messages[2].content[1]


def test_required_messages_that_are_too_long_are_an_error_with_the_numbers():
    request = request_for(chat(2), system_message=SystemMessage("word " * 5_000))
    with pytest.raises(BudgetExceeded, match="tokens"):
        run(request, BrimfulMiddleware(window=1_000, completion=200))


def test_a_request_without_messages_is_sent_as_it_is():
    request = request_for([])
    assert run(request, BrimfulMiddleware()) is request


# -- windows and overflows ---------------------------------------------------------------------------------------------


def test_the_window_of_an_unknown_model_is_that_of_its_profile():
    messages = chat(400)
    model = ScriptedModel(model_name="acme-1", profile={"max_input_tokens": 16_000})
    sent = run(request_for(messages, model), BrimfulMiddleware(completion=500))
    assert 10_000 < token_counter("acme-1")(sent.messages) <= 15_500
    assert len(run(request_for(messages, model), BrimfulMiddleware(window=2_000, completion=500)).messages) < 50


def test_the_length_of_the_answer_is_that_of_the_request():
    messages = chat(200)
    for limit in ({"max_tokens": 3_000}, {"num_predict": 3_000}):
        sent = run(request_for(messages, model_settings=limit), BrimfulMiddleware(window=4_000))
        assert token_counter(MODEL)(sent.messages) <= 1_000


def test_a_refused_request_is_sent_again_smaller_and_the_window_is_learned():
    model = ScriptedModel(window=2_000, steps=1)
    agent = create_agent(model, middleware=[BrimfulMiddleware(completion=200)], checkpointer=InMemorySaver())
    agent.invoke({"messages": chat(100)}, thread("t"))
    assert len(model.refused) == 1
    agent.invoke({"messages": chat(100)}, thread("u"))
    assert len(model.refused) == 1


@pytest.mark.asyncio
async def test_an_async_agent_learns_the_window_too(tmp_path):
    model = ScriptedModel(window=2_000, steps=1)
    async with brimful.Engine(f"sqlite:///{tmp_path}/chat.db", indexing=False) as engine:
        agent = create_agent(model, middleware=[BrimfulMiddleware(engine=engine, completion=200)])
        for _ in range(2):
            await agent.ainvoke({"messages": chat(100)})
    assert len(model.refused) == 1


def test_an_error_without_a_window_makes_the_request_a_quarter_smaller():
    sent = []

    def handler(request):
        sent.append(token_counter(MODEL)(request.messages))
        if len(sent) == 1:
            raise ContextOverflowError("Too much for me.")
        return ModelResponse(result=[AIMessage("Yes.")])

    BrimfulMiddleware(completion=200).wrap_model_call(request_for(chat(50)), handler)
    assert sent[1] < 0.8 * sent[0]


def test_a_second_refusal_is_raised():
    def refuse(_):
        raise ContextOverflowError("Too much for me.")

    with pytest.raises(ContextOverflowError):
        BrimfulMiddleware(completion=200).wrap_model_call(request_for(chat(50)), refuse)


@pytest.mark.parametrize(
    ("options", "field"), [({"windows": 5}, "windows"), ({"engine": "chat.db"}, "engine"), ({"window": -1}, "window")]
)
def test_wrong_options_are_named(options, field):
    with pytest.raises(InvalidValue, match=field):
        run(request_for(chat(2)), BrimfulMiddleware(**options))


@pytest.mark.asyncio
async def test_an_asynchronous_engine_in_a_synchronous_call_is_an_error_that_says_what_to_do():
    async with brimful.Engine("sqlite:///:memory:", indexing=False) as engine:
        with pytest.raises(InvalidValue, match="SyncEngine"):
            run(request_for(chat(2)), BrimfulMiddleware(engine=engine))


@pytest.mark.parametrize("more", [[], [{"type": "text", "text": "And now?"}]])
def test_shortened_results_in_a_users_message_stay_results(more):
    call = AIMessage([{"type": "tool_use", "id": "c1", "name": "get_order", "input": {"order": "W1"}}])
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "A long line of a log.\n" * 500}
    messages = [HumanMessage("Look."), call, HumanMessage([result, *more])]
    sent = run(request_for(messages), BrimfulMiddleware(max_prompt_tokens=900)).messages[-1]
    assert [block["type"] for block in sent.content] == ["tool_result", *(each["type"] for each in more)]
    assert sent.content[0]["tool_use_id"] == "c1"
    assert len(sent.content[0]["content"]) < len(result["content"])


# -- translation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (SystemMessage("Be brief."), [{"role": "system", "content": "Be brief."}]),
        (HumanMessage("Hi", name="ada"), [{"role": "user", "name": "ada", "content": "Hi"}]),
        (ChatMessage("No.", role="critic"), [{"role": "user", "content": "No."}]),
        (ChatMessage("No.", role="assistant"), [{"role": "assistant", "content": "No."}]),
        (FunctionMessage("5", name="add"), [{"role": "function", "name": "add", "content": "5"}]),
        (RemoveMessage(id="m1"), []),
        (
            ToolMessage("Not found", tool_call_id="c", name="look", status="error"),
            [{"role": "tool", "tool_call_id": "c", "content": "Not found"}],
        ),
        (
            HumanMessage([{"type": "tool_result", "tool_use_id": "c", "content": "tea"}]),
            [{"role": "tool", "tool_call_id": "c", "content": "tea"}],
        ),
        (
            HumanMessage([{"type": "tool_result", "tool_use_id": "c"}, "and", {"type": "text", "text": "now?"}]),
            [
                {"role": "tool", "tool_call_id": "c", "content": ""},
                {"role": "user", "content": [{"type": "text", "text": "and"}, {"type": "text", "text": "now?"}]},
            ],
        ),
    ],
)
def test_messages_are_translated(message, expected):
    assert to_openai(message) == expected


def test_calls_are_translated_once_and_invalid_ones_too():
    broken = {"name": "look", "args": '{"q": ', "id": "b", "error": "no JSON", "type": "invalid_tool_call"}
    message = AIMessage(
        [
            {"type": "thinking", "thinking": "Hmm.", "signature": "abc"},
            {"type": "tool_use", "id": "a", "name": "look", "input": {"q": "tea"}},
        ],
        tool_calls=[{"name": "look", "args": {"q": "tea"}, "id": "a"}],
        invalid_tool_calls=[broken],
    )
    (translated,) = to_openai(message)
    assert translated["content"] == [{"type": "thinking", "thinking": "Hmm.", "signature": "abc"}]
    assert [(call["id"], call["function"]["arguments"]) for call in translated["tool_calls"]] == [
        ("a", '{"q": "tea"}'),
        ("b", '{"q": '),
    ]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "image", "file_id": "f1"}, {"type": "image_url", "image_url": {"url": "f1"}}),
        ({"type": "image", "url": "http://x"}, {"type": "image_url", "image_url": {"url": "http://x"}}),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        ),
        (
            {"type": "media", "mime_type": "image/png", "data": PNG},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        ),
        (
            {"type": "audio", "base64": "UklG", "mime_type": "audio/wav"},
            {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
        ),
        ({"type": "audio", "url": "http://x"}, {"type": "audio_url", "audio_url": {"url": "http://x"}}),
        ({"type": "video", "url": "http://x"}, {"type": "video_url", "video_url": {"url": "http://x"}}),
        ({"type": "file", "file_id": "f1"}, {"type": "file", "file": {"file_data": "f1"}}),
        ({"type": "file", "file": {"file_id": "f1"}}, {"type": "file", "file": {"file_id": "f1"}}),
        (
            {"type": "file", "base64": "JVBE", "mime_type": "application/pdf"},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBE"}},
        ),
        ({"type": "text-plain", "mime_type": "text/plain", "text": "Hi"}, {"type": "text", "text": "Hi"}),
        ({"type": "non_standard", "value": {"a": "b"}}, {"type": "non_standard", "value": {"a": "b"}}),
        ({"type": "server_tool_call", "name": "web"}, {"type": "server_tool_call", "name": "web"}),
    ],
)
def test_blocks_are_translated(block, expected):
    (translated,) = to_openai(HumanMessage([block]))
    assert translated["content"] == [expected]


def test_every_kind_of_block_can_be_counted():
    count = token_counter(MODEL)
    blocks = [
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
        {"type": "reasoning", "reasoning": "Hmm, tea.", "extras": {"signature": "x" * 400}},
        {"type": "server_tool_result", "tool_call_id": "s", "status": "success", "output": [{"text": "found"}]},
        {"image": {"format": "png", "source": {"bytes": b"\x89PNG" + b"0" * 300}}},
        {"type": "refusal", "refusal": "No."},
        "plain",
    ]
    for block in blocks:
        assert count([HumanMessage([block])]) > count([HumanMessage("")])


# -- counting ----------------------------------------------------------------------------------------------------------


def test_counts_are_those_of_a_fitted_request():
    messages = [
        SystemMessage(SYSTEM),
        HumanMessage("Look."),
        AIMessage("", tool_calls=[{"name": "get_order", "args": {"order": "W1"}, "id": "c"}]),
        ToolMessage(get_order.invoke({"order": "W1"}), tool_call_id="c"),
    ]
    tools = [convert_to_openai_tool(get_order)]
    wire = [each for message in messages for each in to_openai(message)]
    expected = brimful.fit({"model": MODEL, "messages": wire, "tools": tools}).tokens
    assert token_counter(MODEL, tools=[get_order])(messages) == expected
    assert token_counter(ScriptedModel(), tools=tools, system=SYSTEM)(messages[1:]) == expected
    assert token_counter(MODEL)([]) == 0


def test_trim_messages_counts_exactly():
    count = token_counter(MODEL)
    trimmed = trim_messages(chat(100), max_tokens=1_000, token_counter=count, strategy="last", start_on="human")
    assert 900 < count(trimmed) <= 1_000


def test_middleware_of_langchain_counts_exactly():
    editing = ContextEditingMiddleware(token_counter=token_counter(MODEL))
    summing = SummarizationMiddleware(
        ScriptedModel(steps=1),
        trigger=("tokens", 1_000),
        keep=("messages", 4),
        token_counter=token_counter(MODEL, tools=[get_order], system=SYSTEM),
    )
    model = ScriptedModel(steps=20)
    messages = ask(make_agent(model, editing, summing), "Task")
    assert messages[-1].text == "All of them are fine."


# -- retriever ---------------------------------------------------------------------------------------------------------


FACTS = ["Mia likes green tea.", "Mia drinks tea at four.", "Tea is sold out.", "Mia's tea cup is blue.", "It rains."]


@pytest.fixture(scope="module")
def memories():
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        for fact in FACTS:
            engine.remember(fact, user="mia", at=1_700_000_000)
        engine.remember("Noah likes tea, too.", user="noah")
        engine.post(room="lounge", text="The tea is in the kitchen.", sender="mia")
        engine.wait_indexed()
        yield engine


@pytest.mark.asyncio
@pytest.mark.filterwarnings("ignore:The test")
class TestBrimfulRetriever(RetrieversIntegrationTests):
    """The suite of langchain-tests. One of its tests is asynchronous."""

    @pytest.fixture(autouse=True)
    def _engine(self, memories):
        self.engine = memories

    @property
    def retriever_constructor(self):
        return BrimfulRetriever

    @property
    def retriever_constructor_params(self):
        return {"engine": self.engine, "user": "mia"}

    @property
    def retriever_query_example(self):
        return "Which tea does Mia drink?"


def test_documents_have_the_id_and_relevance_of_their_record(memories):
    found = BrimfulRetriever(engine=memories, user="mia", room="lounge").invoke("Where is the tea?")
    assert "Noah likes tea, too." not in [document.page_content for document in found]
    said = next(each for each in found if each.page_content == "The tea is in the kitchen.")
    assert isinstance(said, Document)
    assert said.id
    assert (said.metadata["kind"], said.metadata["room"]) == ("message", "lounge")
    relevances = [document.metadata["relevance"] for document in found]
    assert relevances == sorted(relevances, reverse=True)
    assert {document.metadata["kind"] for document in found} == {"memory", "message"}


@pytest.mark.asyncio
async def test_the_retriever_of_an_asynchronous_engine():
    async with brimful.Engine("sqlite:///:memory:", indexing=False) as engine:
        await engine.remember("Mia likes green tea.")
        retriever = BrimfulRetriever(engine=engine)
        assert [each.page_content for each in await retriever.ainvoke("tea")] == ["Mia likes green tea."]
        with pytest.raises(InvalidValue, match="is asynchronous"):
            retriever.invoke("tea")


def test_a_long_text_is_found_by_its_passage():
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        engine.remember("\n\n".join([*(f"Paragraph {n} is about the weather. " * 30 for n in range(40)), FACTS[0]]))
        engine.wait_indexed()
        (document,) = BrimfulRetriever(engine=engine, k=1).invoke("Who likes green tea?")
    assert FACTS[0] in document.page_content
    assert len(document.page_content) < 10_000


def test_a_wrong_engine_is_an_error():
    with pytest.raises(ValidationError, match="Engine"):
        BrimfulRetriever(engine="chat.db")
