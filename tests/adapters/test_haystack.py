"""Haystack: the generator fits what is sent and leaves the state whole; a compactor cuts it; records are documents."""

import asyncio
import base64
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, FileContent, ImageContent, ReasoningContent, TextContent, ToolCall
from haystack.hooks.compaction import CompactionHook
from haystack.token_counters import ApproximateTokenCounter
from haystack.tools import Tool, create_tool_from_function
from hypothesis import given, settings

import brimful
from adapter_properties import Case, chats, check
from brimful.adapters.haystack import BrimfulChatGenerator, BrimfulCompactor, BrimfulRetriever, to_openai
from brimful.errors import BudgetExceeded, InvalidValue
from brimful.testing import find_violations

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
Script = Callable[[list[ChatMessage]], str | ChatMessage]


class Recorder:
    """A script that remembers the requests, and refuses what is longer than a window."""

    def __init__(self, script: Script = lambda _: "Fine.", window: int = 4_000) -> None:
        self.script = script
        self.window = window
        self.requests: list[list[ChatMessage]] = []

    def __call__(self, messages: list[ChatMessage]) -> ChatMessage:
        self.requests.append(list(messages))
        used = count(messages)
        if used > self.window:
            raise RuntimeError(
                f"maximum context length is {self.window} tokens, your messages resulted in {used} tokens"
            )
        reply = self.script(messages)
        reply = ChatMessage.from_assistant(reply) if isinstance(reply, str) else reply
        reply.meta["usage"] = {"prompt_tokens": used, "completion_tokens": 5, "total_tokens": used + 5}
        return reply


def fitting(recorder: Recorder, **options: Any) -> BrimfulChatGenerator:
    options = {"window": 4_000, "completion": 500, "model": "gpt-4o", **options}
    return BrimfulChatGenerator(MockChatGenerator(response_fn=recorder), **options)


def wire_of(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    return [message for group in to_openai(messages) for message in group]


def count(messages: Sequence[ChatMessage]) -> int:
    return brimful.fit({"model": "gpt-4o", "messages": wire_of(messages)}, window=10**9, now=0).tokens


def chat_of(turns: int) -> list[ChatMessage]:
    messages = [ChatMessage.from_system("Be brief.")]
    for n in range(turns):
        messages.append(ChatMessage.from_user(f"Question {n}?"))
        messages.append(ChatMessage.from_assistant(f"Answer {n}. " + "It is a long story. " * 30))
    return [*messages, ChatMessage.from_user("And now?")]


def call(id: str | None, **arguments: Any) -> ToolCall:
    return ToolCall(tool_name="get_order", arguments=arguments, id=id)


def run_of(steps: int) -> list[ChatMessage]:
    messages = [ChatMessage.from_user("Which of my orders are broken? I am mia_li_3668.")]
    for n in range(steps):
        messages.append(ChatMessage.from_assistant(tool_calls=[call(f"c{n}", number=n)]))
        messages.append(ChatMessage.from_tool(get_order(n), origin=call(f"c{n}", number=n)))
    return messages


def get_order(number: int) -> str:
    """Look up an order."""
    if number % 7 == 3:
        return json.dumps({"error": f"order {number} is locked"})
    return json.dumps({"order": number, "state": "fine", "note": "Left at the door. " * 20})


def broken_order(number: int) -> str:
    """Look up an order."""
    if number % 7 == 3:
        raise ValueError(f"order {number} is locked")
    return get_order(number)


# -- translation -------------------------------------------------------------------------------------------------------


def test_texts_calls_and_results_are_translated():
    assert wire_of([ChatMessage.from_user("Hi", name="mia")]) == [{"role": "user", "content": "Hi", "name": "mia"}]
    asked, answered = wire_of(run_of(1)[1:])
    function = {"name": "get_order", "arguments": '{"number": 0}'}
    assert asked["tool_calls"] == [{"id": "c0", "type": "function", "function": function}]
    assert answered == {"role": "tool", "tool_call_id": "c0", "content": get_order(0)}


def test_calls_without_an_id_are_paired_by_name():
    asked = ChatMessage.from_assistant(tool_calls=[call(None)])
    first, second = wire_of([asked, ChatMessage.from_tool("fine", origin=call(None))])
    assert first["tool_calls"][0]["id"] == second["tool_call_id"] == "get_order"


def test_every_part_is_counted():
    text = "A fact about tea. " * 20
    plain = count([ChatMessage.from_assistant("Hi"), ChatMessage.from_user("Go on.")])
    messages = [
        ChatMessage.from_assistant("Hi", reasoning=ReasoningContent(reasoning_text=text, extra={"signature": "s"})),
        ChatMessage.from_assistant("Hi", meta={"refusal": text}),
        ChatMessage.from_user(content_parts=["Hi", TextContent(text=text)]),
        ChatMessage.from_user(content_parts=["Hi", ImageContent(base64_image=PNG)]),
        ChatMessage.from_user(content_parts=["Hi", FileContent(base64_data=base64.b64encode(b"%PDF-1.4").decode())]),
    ]
    for message in messages:
        assert count([message, ChatMessage.from_user("Go on.")]) > plain + 60, message


def test_results_with_images_are_counted():
    parts = [TextContent(text="Look:"), ImageContent(base64_image=PNG)]
    (wire,) = wire_of([ChatMessage.from_tool(parts, origin=call("c1"))])
    assert [block["type"] for block in wire["content"]] == ["text", "image_url"]


def test_a_message_with_several_results_stays_whole():
    both = [call("a", number=1), call("b", number=2)]
    first, second = (ChatMessage.from_tool("fine " * 5, origin=each) for each in both)
    merged = ChatMessage(_role=first.role, _content=[*first.tool_call_results, *second.tool_call_results])
    assert [message["tool_call_id"] for message in wire_of([merged])] == ["a", "b"]


# -- the generator -----------------------------------------------------------------------------------------------------


def test_a_request_that_fits_is_sent_as_it_is():
    recorder, messages = Recorder(), chat_of(2)
    assert fitting(recorder).run(messages)["replies"][0].text == "Fine."
    assert all(sent is own for sent, own in zip(recorder.requests[0], messages, strict=True))


def test_a_string_is_a_message():
    assert fitting(Recorder()).run("Hi")["replies"][0].text == "Fine."


def test_a_long_chat_is_cut_and_its_messages_are_the_own_objects():
    recorder, messages = Recorder(), chat_of(100)
    generator = fitting(recorder)
    generator.run(messages)
    asyncio.run(generator.run_async(messages))
    for sent in recorder.requests:
        assert (sent[0], sent[-1]) == (messages[0], messages[-1])
        assert {id(message) for message in sent} < {id(message) for message in messages}
        assert count(sent) <= 3_500
    assert len(messages) == 202


def test_tools_and_the_length_of_the_answer_are_counted():
    tool = Tool("note", "Write a note. " * 100, {"type": "object", "properties": {}}, function=print)
    recorder, messages = Recorder(), chat_of(100)
    generator = fitting(recorder, completion=None)
    generator.run(messages, generation_kwargs={"max_tokens": 100})
    generator.run(messages, generation_kwargs={"max_tokens": 100}, tools=[tool])
    generator.run(messages, generation_kwargs={"max_tokens": 2_000})
    plain, with_tool, long_answer = map(count, recorder.requests)
    assert with_tool < plain - 200
    assert long_answer <= 2_000 < plain


def test_a_large_result_is_shortened_in_a_copy():
    recorder = Recorder()
    origin = call("c1", number=1)
    parts = [TextContent(text="Line of a log.\n" * 2_000), ImageContent(base64_image=PNG)]
    for result in ("Line of a log.\n" * 2_000, parts):
        messages = [
            ChatMessage.from_user("Look."),
            ChatMessage.from_assistant(tool_calls=[origin]),
            ChatMessage.from_tool(result, origin=origin, meta={"a": 1}),
        ]
        fitting(recorder).run(messages)
        assert messages[2].tool_call_result.result is result
    text, mixed = (sent[2] for sent in recorder.requests)
    assert len(text.tool_call_result.result) < 20_000
    assert (text.tool_call_result.origin, text.meta) == (origin, {"a": 1})
    assert mixed.tool_call_result.result[-1] is parts[1]


def test_old_steps_become_a_ledger_or_go():
    recorder, messages = Recorder(), run_of(40)
    fitting(recorder).run(messages)
    fitting(recorder, policy="fit").run(messages)
    ledger, plain = recorder.requests
    assert ledger[0] is messages[0]
    assert "get_order(number=16)" in ledger[1].text
    assert all(any(message is own for own in messages) for message in plain)
    for sent in recorder.requests:
        assert find_violations({"model": "gpt-4o", "messages": wire_of(sent)}, "openai") == []


def test_a_refused_request_is_fitted_again_and_sent_once_more():
    recorder = Recorder(window=2_000)
    assert fitting(recorder, window=8_000).run(chat_of(100))["replies"][0].text == "Fine."
    assert asyncio.run(fitting(recorder, window=8_000).run_async(chat_of(100)))["replies"][0].text == "Fine."
    assert len(recorder.requests) == 4


def test_other_errors_than_overflows_are_not_retried():
    def fail(_: Any) -> str:
        raise RuntimeError("rate limit: 10 tokens per minute")

    recorder = Recorder(fail)
    with pytest.raises(RuntimeError, match="rate limit"):
        fitting(recorder).run("Hi")
    with pytest.raises(RuntimeError, match="rate limit"):
        asyncio.run(fitting(recorder).run_async("Hi"))
    assert len(recorder.requests) == 2


def test_chunks_are_streamed():
    chunks: list[str] = []
    fitting(Recorder()).run("Hi", streaming_callback=lambda chunk: chunks.append(chunk.content))

    async def receive(chunk: Any) -> None:
        chunks.append(chunk.content)

    asyncio.run(fitting(Recorder()).run_async("Hi", streaming_callback=receive))
    assert chunks == ["Fine."] * 2


def test_usage_is_recorded_with_the_context():
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        generator = fitting(Recorder(), engine=engine, conversation="thread-7")
        generator.run(chat_of(3))
        asyncio.run(generator.run_async(chat_of(3)))
        generator.run("Hi", conversation="thread-8")
        stored = [engine.run(engine.store.responses(room=room)) for room in ("thread-7", "thread-8")]
    assert [response.usage.prompt for response in stored[0]] == [count(chat_of(3))] * 2
    assert [response.finish for response in stored[1]] == ["stop"]


def test_a_generator_without_usage_or_async_works():
    class Plain:
        def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
            return {"replies": [ChatMessage.from_assistant("Fine.", meta={"usage": {}})]}

    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        generator = BrimfulChatGenerator(Plain(), engine=engine, model="gpt-4o")
        assert generator.run("Hi")["replies"][0].text == "Fine."
        assert asyncio.run(generator.run_async("Hi"))["replies"][0].text == "Fine."
        assert [response.usage for response in engine.run(engine.store.responses(room="fit"))] == [None, None]


def test_threads_share_a_generator():
    recorder, messages = Recorder(), chat_of(60)
    generator = fitting(recorder)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: generator.run(messages)["replies"][0].text, range(8)))
    assert answers == ["Fine."] * 8
    assert len({count(sent) for sent in recorder.requests}) == 1


def test_two_conversations_do_not_share_their_prefix():
    def sizes_of(order: Sequence[int]) -> dict[int, list[int]]:
        recorder = Recorder()
        generator, talks = fitting(recorder), [chat_of(60), run_of(60)]
        sizes: dict[int, list[int]] = {0: [], 1: []}
        for which in order:
            generator.run(talks[which][: 41 + 2 * len(sizes[which])], conversation=f"thread-{which}")
            sizes[which].append(count(recorder.requests[-1]))
        return sizes

    assert sizes_of([0, 1] * 8) == {0: sizes_of([0] * 8)[0], 1: sizes_of([1] * 8)[1]}


def answer(messages: list[ChatMessage]) -> str:
    return f"{len(messages)} messages"


def restored(pipeline: Pipeline) -> Pipeline:
    return Pipeline.loads(pipeline.dumps(), allowed_modules=["brimful.adapters.haystack", __name__])


def test_the_generator_is_serialized_in_a_pipeline_and_an_agent(tmp_path):
    url = f"sqlite:///{tmp_path}/requests.db"
    options = {"engine": url, "conversation": "a", "model": "gpt-4o", "window": 4_000}
    pipeline = Pipeline()
    pipeline.add_component("llm", BrimfulChatGenerator(MockChatGenerator(response_fn=answer), **options))
    wrapped = BrimfulChatGenerator(MockChatGenerator(response_fn=answer), **options)
    pipeline.add_component("agent", Agent(chat_generator=wrapped))
    pipeline = restored(pipeline)
    result = pipeline.run({"llm": {"messages": chat_of(100)}, "agent": {"messages": chat_of(3)}})
    assert result["llm"]["replies"][0].text != "202 messages"
    assert result["agent"]["last_message"].text == "8 messages"
    for name in ("llm", "agent"):
        pipeline.get_component(name).close()
    with brimful.SyncEngine(url) as engine:
        assert len(engine.run(engine.store.responses(room="a"))) == 2


def test_bad_arguments_say_what_to_do():
    with pytest.raises(InvalidValue, match="must be a chat generator, not str"):
        BrimfulChatGenerator("gpt-4o")
    with pytest.raises(InvalidValue, match="tokens: is not an option"):
        BrimfulChatGenerator(MockChatGenerator(), tokens=100)
    with pytest.raises(InvalidValue, match="not int"):
        BrimfulChatGenerator(MockChatGenerator(), engine=3)
    with pytest.raises(InvalidValue, match="must be a string or a list of ChatMessage"):
        fitting(Recorder()).run([{"role": "user", "content": "Hi"}])
    with pytest.raises(BudgetExceeded):
        fitting(Recorder(), max_prompt_tokens=10).run("A long question. " * 50)
    with brimful.SyncEngine("sqlite:///:memory:") as engine, pytest.raises(InvalidValue, match="pass the URL"):
        BrimfulChatGenerator(MockChatGenerator(), engine=engine).to_dict()


def from_openai(messages: list[dict[str, Any]]) -> list[ChatMessage]:
    made, calls = [], {}
    for message in messages:
        for each in message.get("tool_calls") or ():
            arguments = json.loads(each["function"]["arguments"])
            calls[each["id"]] = ToolCall(tool_name="look", arguments=arguments, id=each["id"])
        match message:
            case {"role": "tool", "tool_call_id": id, "content": text}:
                made.append(ChatMessage.from_tool(text, origin=calls[id]))
            case {"role": "user", "content": text}:
                made.append(ChatMessage.from_user(text))
            case {"content": text, **rest}:
                made.append(
                    ChatMessage.from_assistant(
                        text, tool_calls=[calls[each["id"]] for each in rest.get("tool_calls", ())]
                    )
                )
    return made


def sender(options: dict[str, Any]) -> Callable[[list[ChatMessage], str], list[ChatMessage]]:
    recorder = Recorder(window=10**9)
    generator = fitting(recorder, **options)

    def send(messages: list[ChatMessage], conversation: str) -> list[ChatMessage]:
        generator.run(messages, conversation=conversation)
        return recorder.requests[-1]

    return send


@given(chats(), chats())
@settings(deadline=None, derandomize=True, max_examples=30)
def test_haystack_keeps_the_rules_of_all_adapters(messages, other):
    check(Case(make=from_openai, sender=sender, wire=lambda message: wire_of([message])), messages, other)


# -- runs of an agent --------------------------------------------------------------------------------------------------

TASK = "Which of my orders are broken? I am mia_li_3668."


def scripted_run(steps: int) -> Script:
    numbers = iter(range(steps))

    def answer(_: list[ChatMessage]) -> str | ChatMessage:
        number = next(numbers, None)
        if number is None:
            return "None of them is broken."
        calls = [call(f"c{number}", number=number)]
        if number % 10 == 0:  # parallel calls
            calls.append(call(f"d{number}", number=-number))
        return ChatMessage.from_assistant(tool_calls=calls, reasoning="Next.")

    return answer


def agent_with(generator: Any, **options: Any) -> Agent:
    tool = create_tool_from_function(broken_order, name="get_order")
    return Agent(
        chat_generator=generator, tools=[tool], system_prompt="You work in a shop.", max_agent_steps=300, **options
    )


@pytest.mark.parametrize("is_async", [False, True])
def test_an_agent_goes_200_steps_past_its_window(is_async):
    recorder = Recorder(scripted_run(200))
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        agent = agent_with(fitting(recorder, engine=engine, conversation="orders"))
        messages = [ChatMessage.from_user(TASK)]
        result = asyncio.run(agent.run_async(messages=messages)) if is_async else agent.run(messages=messages)
        responses = engine.run(engine.store.responses(room="orders", limit=1_000))
    assert result["last_message"].text == "None of them is broken."
    assert len(result["messages"]) == 2 + 2 * 200 + 20 + 1
    assert len(recorder.requests) == len(responses) == 201
    assert all(response.usage is not None for response in responses)
    for sent in recorder.requests:
        assert count(sent) <= 3_500
        assert [sent[0].text, sent[1].text] == ["You work in a shop.", TASK]
        assert find_violations({"model": "gpt-4o", "messages": wire_of(sent)}, "openai") == []


@pytest.mark.parametrize("is_async", [False, True])
def test_a_compactor_cuts_the_state(is_async):
    recorder = Recorder(scripted_run(200))
    hook = CompactionHook(BrimfulCompactor(model="gpt-4o"), context_window=4_000, compact_at=0.7, compact_to=0.5)
    agent = agent_with(MockChatGenerator(response_fn=recorder), hooks={"before_llm": [hook]})
    messages = [ChatMessage.from_user(TASK)]
    result = asyncio.run(agent.run_async(messages=messages)) if is_async else agent.run(messages=messages)
    assert result["last_message"].text == "None of them is broken."
    assert len(result["messages"]) < 60
    for sent in recorder.requests:
        assert [sent[0].text, sent[1].text] == ["You work in a shop.", TASK]
        assert find_violations({"model": "gpt-4o", "messages": wire_of(sent)}, "openai") == []


def test_a_compactor_is_serialized():
    compactor = BrimfulCompactor(model="gpt-4o", policy="fit")
    assert BrimfulCompactor.from_dict(compactor.to_dict()).options == {"model": "gpt-4o", "policy": "fit"}


def test_a_compactor_returns_nothing_if_nothing_gets_smaller():
    compactor, counter = BrimfulCompactor(model="gpt-4o"), ApproximateTokenCounter()
    assert compactor.compact(chat_of(2), 3_000, counter) is None
    assert compactor.compact([ChatMessage.from_user("A long question. " * 500)], 10, counter) is None
    messages = chat_of(60)
    shorter = compactor.compact(messages, 3_000, counter)
    assert len(shorter) < len(messages) == 122


# -- the retriever -----------------------------------------------------------------------------------------------------


def test_records_become_documents(tmp_path):
    url = f"sqlite:///{tmp_path}/chat.db"
    with brimful.SyncEngine(url) as engine:
        engine.remember("Mia likes tea.", user="mia")
        engine.post(room="kitchen", text="The tea is in the cupboard.", sender="Ada")
        documents = BrimfulRetriever(engine, room="kitchen", user="mia").run("Where is the tea?")["documents"]
        with pytest.raises(InvalidValue, match="pass the URL"):
            BrimfulRetriever(engine).to_dict()
    found = {document.content: document for document in documents}
    assert found["Mia likes tea."].meta["kind"] == "memory"
    assert found["The tea is in the cupboard."].meta["sender"] == "Ada"
    pipeline = Pipeline()
    pipeline.add_component("retriever", BrimfulRetriever(url, room="kitchen", top_k=1))
    pipeline = restored(pipeline)
    (only,) = pipeline.run({"retriever": {"query": "Where is the tea?"}})["retriever"]["documents"]
    assert only.score > 0
    pipeline.get_component("retriever").close()


def test_a_retriever_of_an_asynchronous_engine():
    async def run():
        async with brimful.Engine("sqlite:///:memory:", indexing=False) as engine:
            await engine.remember("Mia likes tea.")
            retriever = BrimfulRetriever(engine)
            with pytest.raises(InvalidValue, match="is asynchronous"):
                retriever.run("tea")
            return await retriever.run_async("tea")

    assert [each.content for each in asyncio.run(run())["documents"]] == ["Mia likes tea."]


def test_a_retriever_needs_an_engine():
    with pytest.raises(InvalidValue, match=r"must be a brimful\.Engine"):
        BrimfulRetriever(None).run("tea")
