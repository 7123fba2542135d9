"""LlamaIndex: the LLM fits what is really sent, the memory keeps the whole history, the retriever finds records."""

import asyncio
import base64
import io
import itertools
import json
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    ChatMessage,
    ChatResponse,
    CitableBlock,
    CitationBlock,
    CompletionResponse,
    DocumentBlock,
    ImageBlock,
    LLMMetadata,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel, PrivateAttr

import brimful
from adapter_properties import Case, chats, check
from brimful.adapters.llama_index import BrimfulLLM, BrimfulMemory, BrimfulRetriever, to_openai
from brimful.errors import BudgetExceeded, InvalidValue
from brimful.testing import find_violations

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
Script = Callable[[Sequence[ChatMessage]], ChatMessage]


class ScriptedLLM(FunctionCallingLLM):
    """Answers by a script, reports usage, and refuses what is longer than its window."""

    window: int = 4_000
    real_window: int = 4_000
    name: str = "scripted"
    _script: Script = PrivateAttr()
    _requests: list[list[ChatMessage]] = PrivateAttr(default_factory=list)

    def __init__(self, script: Script | None = None, **fields: Any) -> None:
        super().__init__(**fields)
        self._script = script or (lambda _: ChatMessage(role="assistant", content="Fine."))

    @property
    def requests(self) -> list[list[ChatMessage]]:
        return self._requests

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            context_window=self.window, model_name=self.name, is_chat_model=True, is_function_calling_model=True
        )

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        self._requests.append(list(messages))
        used = count(messages)
        if used > self.real_window:
            text = f"maximum context length is {self.real_window} tokens, your messages resulted in {used} tokens"
            raise RuntimeError(text)
        usage = {"prompt_tokens": used, "completion_tokens": 5, "total_tokens": used + 5}
        return ChatResponse(message=self._script(messages), raw={"usage": usage}, delta="")

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self.chat(messages, **kwargs)

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        response = self.chat(messages, **kwargs)
        yield response.model_copy(update={"raw": None})
        yield response

    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        async def generate() -> Any:
            for response in self.stream_chat(messages, **kwargs):
                yield response

        return generate()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=prompt)

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=prompt)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        yield CompletionResponse(text=prompt, delta=prompt)

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        async def generate() -> Any:
            yield CompletionResponse(text=prompt, delta=prompt)

        return generate()

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        return {"messages": [*(chat_history or ()), *([user_msg] if user_msg else ())]}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        return [
            ToolSelection(tool_id=block.tool_call_id or "", tool_name=block.tool_name, tool_kwargs=block.tool_kwargs)
            for block in response.message.blocks
            if isinstance(block, ToolCallBlock)
        ]


def count(messages: Sequence[ChatMessage]) -> int:
    wire = [message for group in to_openai(messages) for message in group]
    return brimful.fit({"model": "gpt-4o", "messages": wire}, window=10**9, now=0).tokens


def user(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


def assistant(text: str) -> ChatMessage:
    return ChatMessage(role="assistant", content=text)


def chat_of(turns: int) -> list[ChatMessage]:
    talk = ((user(f"Question {n}?"), assistant(f"Answer {n}. " + "It is a long story. " * 30)) for n in range(turns))
    return [ChatMessage(role="system", content="Be brief."), *itertools.chain(*talk), user("And now?")]


def call(id: str, **arguments: Any) -> ToolCallBlock:
    return ToolCallBlock(tool_call_id=id, tool_name="get_order", tool_kwargs=arguments)


def result(id: str, text: str) -> ChatMessage:
    return ChatMessage(role="tool", content=text, additional_kwargs={"tool_call_id": id})


def run_of(steps: int) -> list[ChatMessage]:
    messages = [user("Which of my orders are broken? I am mia_li_3668.")]
    for n in range(steps):
        messages.append(ChatMessage(role="assistant", blocks=[call(f"c{n}", number=n)]))
        messages.append(result(f"c{n}", json.dumps({"order": n, "state": "fine", "note": "Left at the door. " * 20})))
    return messages


def wire_of(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    return [message for group in to_openai(messages) for message in group]


# -- translation -------------------------------------------------------------------------------------------------------


def test_text_is_translated_as_a_string():
    assert wire_of([user("Hi")]) == [{"role": "user", "content": "Hi"}]


def test_roles_of_other_providers_are_those_of_openai():
    roles = [MessageRole.CHATBOT, MessageRole.MODEL, MessageRole.DEVELOPER, MessageRole.SYSTEM]
    wire = wire_of([ChatMessage(role=role, content="x") for role in roles])
    assert [message["role"] for message in wire] == ["assistant", "assistant", "developer", "system"]


def test_media_are_counted_by_their_data(tmp_path):
    path = tmp_path / "cat.png"
    path.write_bytes(PNG)
    file = io.BytesIO(PNG)
    file.seek(7)
    blocks = [
        ImageBlock(image=PNG, detail="low"),
        ImageBlock(path=path),
        ImageBlock(image=file),
        ImageBlock(url="https://example.org/cat.png"),
        AudioBlock(audio=b"RIFF0000WAVEfmt ", format="wav"),
        VideoBlock(video=b"\x00\x00\x00\x18ftypmp42", video_mimetype="video/mp4"),
        DocumentBlock(data=b"%PDF-1.4", document_mimetype="application/pdf", title="Terms"),
    ]
    (message,) = wire_of([ChatMessage(role="user", blocks=blocks)])
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert [part["type"] for part in message["content"]] == [*["image_url"] * 4, "audio_url", "video_url", "file"]
    assert message["content"][0]["image_url"] == {"url": url, "detail": "low"}
    assert message["content"][1]["image_url"]["url"] == message["content"][2]["image_url"]["url"] == url
    assert message["content"][3]["image_url"]["url"] == "https://example.org/cat.png"
    assert message["content"][6]["file"]["file_data"].startswith("data:application/pdf;base64,")
    assert file.tell() == 7


def test_every_block_is_counted_but_cache_points():
    text = "A fact about tea. " * 20
    source = {"title": "Tea", "source": "tea.md"}
    blocks = [
        CitableBlock(**source, content=[TextBlock(text=text)]),
        CitationBlock(**source, cited_content=TextBlock(text=text), additional_location_info={}),
        ThinkingBlock(content=text),
        ToolCallBlock(tool_name="note", tool_kwargs={"text": text}),
    ]
    plain = count([assistant("Hi"), user("Go on.")])
    for block in blocks:
        message = ChatMessage(role="assistant", blocks=[TextBlock(text="Hi"), block])
        assert count([message, user("Go on.")]) > plain + 60, block
    marked = ChatMessage(
        role="assistant", blocks=[TextBlock(text="Hi"), CachePoint(cache_control=CacheControl(type="ephemeral"))]
    )
    assert count([marked, user("Go on.")]) == plain


@pytest.mark.parametrize(
    "raw",
    [
        {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"number": 1}'}},
        {"id": "c1", "type": "tool_use", "name": "get_order", "input": {"number": 1}},
        {"toolUseId": "c1", "name": "get_order", "input": {"number": 1}},
        ToolSelection(tool_id="c1", tool_name="get_order", tool_kwargs={"number": 1}),
    ],
)
def test_calls_in_additional_kwargs_are_paired(raw):
    asked = ChatMessage(role="assistant", additional_kwargs={"tool_calls": [raw]})
    first, second = wire_of([asked, result("c1", "fine")])
    function = {"name": "get_order", "arguments": '{"number": 1}'}
    assert first["tool_calls"] == [{"id": "c1", "type": "function", "function": function}]
    assert second == {"role": "tool", "content": "fine", "tool_call_id": "c1"}


def test_calls_that_stand_twice_are_translated_once():
    raw = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": "{}"}}
    twice = ChatMessage(role="assistant", blocks=[call("c1")], additional_kwargs={"tool_calls": [raw]})
    assert len(wire_of([twice])[0]["tool_calls"]) == 1


def test_results_without_an_id_answer_the_oldest_open_call():
    asked = ChatMessage(role="assistant", blocks=[call("a"), call("b")])
    answers = [ChatMessage(role="tool", content="1"), ChatMessage(role="function", content="2")]
    assert [message["tool_call_id"] for message in wire_of([asked, *answers])[1:]] == ["a", "b"]
    assert wire_of([ChatMessage(role="tool", content="nobody asked")])[0]["tool_call_id"] == ""


def test_a_call_without_an_id_is_known_by_its_name():
    asked = ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_name="get_order")])
    named = ChatMessage(role="tool", content="fine", additional_kwargs={"name": "get_order"})
    first, second = wire_of([asked, named])
    assert first["tool_calls"][0]["id"] == second["tool_call_id"] == "get_order"


# -- the LLM -----------------------------------------------------------------------------------------------------------


def test_a_request_that_fits_is_sent_as_it_is():
    llm, messages = ScriptedLLM(), chat_of(2)
    assert BrimfulLLM(llm).chat(messages).message.content == "Fine."
    assert all(sent is own for sent, own in zip(llm.requests[0], messages, strict=True))


def test_a_long_chat_is_cut_and_its_messages_are_the_own_objects():
    llm, messages = ScriptedLLM(real_window=3_000), chat_of(100)
    BrimfulLLM(llm, completion=1_000).chat(messages)
    (sent,) = llm.requests
    own = {id(message) for message in messages}
    assert sent[0] is messages[0]
    assert sent[-1] is messages[-1]
    assert {id(message) for message in sent} < own
    assert len(messages) == 202


async def in_every_way(make: Callable[[], BrimfulLLM], messages: list[ChatMessage]) -> list[str | None]:
    tool = FunctionTool.from_defaults(lambda number: "fine", name="get_order", description="Look up an order.")
    with_tools = {"tools": [tool], "chat_history": messages[:-1], "user_msg": messages[-1]}
    answers = [
        make().chat(messages),
        await make().achat(messages),
        list(make().stream_chat(messages))[-1],
        [response async for response in await make().astream_chat(messages)][-1],
        make().chat_with_tools(**with_tools),
        await make().achat_with_tools(**with_tools),
        list(make().stream_chat_with_tools(**with_tools))[-1],
        [response async for response in await make().astream_chat_with_tools(**with_tools)][-1],
    ]
    return [answer.message.content for answer in answers]


def test_every_way_to_chat_is_fitted():
    scripted = ScriptedLLM(real_window=3_000)
    assert asyncio.run(in_every_way(lambda: BrimfulLLM(scripted, completion=1_000), chat_of(100))) == ["Fine."] * 8
    assert len(scripted.requests) == 8
    assert {sent[-1].content for sent in scripted.requests} == {"And now?"}


def test_tools_are_counted():
    scripted, messages = ScriptedLLM(), chat_of(100)
    tool = FunctionTool.from_defaults(lambda number: "", name="get_order", description="Look up an order. " * 100)
    llm = BrimfulLLM(scripted, completion=1_000)
    llm.chat(messages)
    llm.chat_with_tools([tool], chat_history=messages)
    assert count(scripted.requests[1]) < count(scripted.requests[0]) - 300


def test_a_large_result_is_shortened_in_a_copy():
    scripted = ScriptedLLM()
    messages = [
        user("Look."),
        ChatMessage(role="assistant", blocks=[call("c1")]),
        result("c1", "Line of a log.\n" * 2_000),
    ]
    messages[2].blocks.append(ImageBlock(image=PNG))
    before = messages[2].model_copy(deep=True)
    BrimfulLLM(scripted, completion=500).chat(messages)
    (sent,) = scripted.requests
    assert sent[:2] == messages[:2]
    assert len(sent[2].content) < 20_000
    assert sent[2].additional_kwargs == {"tool_call_id": "c1"}
    assert sent[2].blocks[-1] is messages[2].blocks[-1]
    assert messages[2] == before


def test_old_steps_become_a_ledger_or_go():
    scripted, messages = ScriptedLLM(), run_of(40)
    BrimfulLLM(scripted, completion=500).chat(messages)
    BrimfulLLM(scripted, completion=500, policy="fit").chat(messages)
    ledger, plain = scripted.requests
    assert ledger[0] is messages[0]
    assert "get_order(number=0)" in ledger[1].content
    assert all(any(message is own for own in messages) for message in plain)
    for sent in scripted.requests:
        assert find_violations({"model": "gpt-4o", "messages": wire_of(sent)}, "openai") == []


def test_a_refused_request_is_fitted_again_and_sent_once_more():
    scripted = ScriptedLLM(window=8_000, real_window=2_000)
    assert asyncio.run(in_every_way(lambda: BrimfulLLM(scripted, completion=500), chat_of(100))) == ["Fine."] * 8
    assert len(scripted.requests) == 16


def test_other_errors_than_overflows_are_not_retried():
    def fail(_: Any) -> ChatMessage:
        raise RuntimeError("rate limit: 10 tokens per minute")

    scripted = ScriptedLLM(fail)
    llm = BrimfulLLM(scripted)
    with pytest.raises(RuntimeError, match="rate limit"):
        llm.chat(chat_of(1))
    with pytest.raises(RuntimeError, match="rate limit"):
        list(llm.stream_chat(chat_of(1)))
    with pytest.raises(RuntimeError, match="rate limit"):
        asyncio.run(llm.achat(chat_of(1)))
    assert len(scripted.requests) == 3


def test_usage_is_recorded_with_the_context():
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        llm = BrimfulLLM(ScriptedLLM(), engine=engine, conversation="thread-7")
        asyncio.run(in_every_way(lambda: llm, chat_of(3)))
        responses = engine.run(engine.store.responses(room="thread-7"))
    assert [response.usage.prompt for response in responses] == [count(chat_of(3))] * 8


@pytest.mark.parametrize(
    ("fields", "prompt"),
    [
        ({"raw": {"usage": {"prompt_tokens": 7, "completion_tokens": 1}}}, 7),
        ({"raw": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 1}}}, 9),
        ({"additional_kwargs": {"prompt_tokens": 7, "completion_tokens": 1}}, 7),
        ({"additional_kwargs": {"usage": {"input_tokens": 7, "output_tokens": 1}}}, 7),
        ({"raw": "nothing"}, None),
    ],
)
def test_usage_is_found_where_integrations_put_it(fields, prompt):
    class Reporting(ScriptedLLM):
        def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
            return ChatResponse(message=assistant("Fine."), **fields)

    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        BrimfulLLM(Reporting(), engine=engine).chat(chat_of(1))
        (response,) = engine.run(engine.store.responses(room="fit"))
    assert (response.usage and response.usage.prompt) == prompt


def test_two_conversations_do_not_share_their_prefix():
    def sent_of(order: Sequence[int]) -> dict[int, list[int]]:
        scripted = ScriptedLLM()
        shared = BrimfulLLM(scripted, completion=500)
        llms = [shared.model_copy(update={"conversation": f"thread-{n}"}) for n in range(2)]
        talks = [chat_of(60), run_of(60)]
        sizes: dict[int, list[int]] = {0: [], 1: []}
        for step, which in enumerate(order):
            llms[which].chat(talks[which][: 40 + 2 * len(sizes[which]) + 1])
            sizes[which].append(count(scripted.requests[step]))
        return sizes

    mixed, alone = sent_of([0, 1] * 8), (sent_of([0] * 8), sent_of([1] * 8))
    assert mixed == {0: alone[0][0], 1: alone[1][1]}


def test_threads_share_an_llm():
    scripted, messages = ScriptedLLM(), chat_of(60)
    llm = BrimfulLLM(scripted, completion=500)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: llm.chat(messages).message.content, range(8)))
    assert answers == ["Fine."] * 8
    assert len({count(sent) for sent in scripted.requests}) == 1


def test_metadata_callbacks_and_prompts_are_those_of_the_wrapped_llm():
    manager = CallbackManager([TokenCountingHandler(tokenizer=str.split)])
    scripted = ScriptedLLM(callback_manager=manager, system_prompt="Be brief.", name="gpt-4o")
    llm = BrimfulLLM(scripted)
    assert (llm.metadata, llm.callback_manager, llm.system_prompt) == (scripted.metadata, manager, "Be brief.")
    assert llm.predict(PromptTemplate("Who is {name}?"), name="Mia") == "Fine."
    assert [message.content for message in scripted.requests[0]] == ["Be brief.", "Who is Mia?"]


def test_prompts_of_complete_are_passed_through():
    llm = BrimfulLLM(ScriptedLLM())

    async def all_ways() -> list[str]:
        return [
            llm.complete("Once").text,
            (await llm.acomplete("Once")).text,
            list(llm.stream_complete("Once"))[-1].text,
            [response async for response in await llm.astream_complete("Once")][-1].text,
        ]

    assert asyncio.run(all_ways()) == ["Once"] * 4


class Order(BaseModel):
    number: int
    state: str


def test_structured_output_is_fitted():
    block = ToolCallBlock(tool_call_id="c1", tool_name="Order", tool_kwargs={"number": 3, "state": "fine"})
    scripted = ScriptedLLM(lambda _: ChatMessage(role="assistant", blocks=[block]))
    llm = BrimfulLLM(scripted, completion=500)
    structured = llm.as_structured_llm(Order)
    messages = [*chat_of(60)[:-1], user('And now? {"a": 1}')]
    assert structured.chat(messages).raw == Order(number=3, state="fine")
    assert asyncio.run(structured.achat(messages)).raw == Order(number=3, state="fine")
    for sent in scripted.requests:
        assert (sent[0].content, sent[-1].content) == ("Be brief.", 'And now? {"a": 1}')
        assert len(sent) < len(messages)


def test_an_llm_survives_pickling():
    llm = pickle.loads(  # noqa: S301 - our own bytes
        pickle.dumps(BrimfulLLM(MockLLM(max_tokens=3, is_chat_model=True), window=2_000, conversation="a"))
    )
    assert (llm.conversation, llm.options) == ("a", {"window": 2_000})
    assert llm.chat([user("Hi")]).message.content == "text text text"


def test_bad_arguments_say_what_to_do():
    with pytest.raises(InvalidValue, match="must be an LLM of LlamaIndex, not str"):
        BrimfulLLM("gpt-4o")
    with pytest.raises(InvalidValue, match="tokens: is not an option"):
        BrimfulLLM(ScriptedLLM(), tokens=100)
    with pytest.raises(InvalidValue, match="must be a FunctionCallingLLM to call tools, not MockLLM"):
        BrimfulLLM(MockLLM()).chat_with_tools([], "Hi")
    with pytest.raises(BudgetExceeded):
        BrimfulLLM(ScriptedLLM(), max_prompt_tokens=10).chat([user("A long question. " * 50)])


def from_openai(messages: list[dict[str, Any]]) -> list[ChatMessage]:
    made = []
    for message in messages:
        calls = [
            ToolCallBlock(
                tool_call_id=each["id"], tool_name="look", tool_kwargs=json.loads(each["function"]["arguments"])
            )
            for each in message.get("tool_calls") or ()
        ]
        text = [TextBlock(text=message["content"])] if message["content"] is not None else []
        extra = {"tool_call_id": message["tool_call_id"]} if message["role"] == "tool" else {}
        made.append(ChatMessage(role=message["role"], blocks=[*text, *calls], additional_kwargs=extra))
    return made


def llm_sender(options: dict[str, Any]) -> Callable[[list[ChatMessage], str], list[ChatMessage]]:
    scripted = ScriptedLLM(real_window=10**9)
    llm = BrimfulLLM(scripted, **options)

    def send(messages: list[ChatMessage], conversation: str) -> list[ChatMessage]:
        llm.model_copy(update={"conversation": conversation}).chat(messages)
        return scripted.requests[-1]

    return send


def memory_sender(options: dict[str, Any]) -> Callable[[list[ChatMessage], str], list[ChatMessage]]:
    memories: dict[str, BrimfulMemory] = {}

    def send(messages: list[ChatMessage], conversation: str) -> list[ChatMessage]:
        memory = memories.setdefault(conversation, BrimfulMemory(**options, room=conversation))
        memory.reset()
        memory.put_messages(messages)
        return memory.get()

    return send


@given(chats(), chats())
@settings(deadline=None, derandomize=True, max_examples=30)
def test_the_llm_keeps_the_rules_of_all_adapters(messages, other):
    check(Case(make=from_openai, sender=llm_sender, wire=lambda message: wire_of([message])), messages, other)


@given(chats(), chats())
@settings(deadline=None, derandomize=True, max_examples=30)
def test_the_memory_keeps_the_rules_of_all_adapters(messages, other):
    check(Case(make=from_openai, sender=memory_sender, wire=lambda message: wire_of([message])), messages, other)


# -- a run of an agent ---------------------------------------------------------------------------------------------


def scripted_run(steps: int) -> Script:
    numbers = iter(range(steps))

    def answer(_: Sequence[ChatMessage]) -> ChatMessage:
        number = next(numbers, None)
        if number is None:
            return assistant("None of them is broken.")
        blocks = [ThinkingBlock(content="Next."), call(f"c{number}", number=number)]
        if number % 10 == 0:  # parallel calls
            blocks.append(call(f"d{number}", number=-number))
        return ChatMessage(role="assistant", blocks=blocks)

    return answer


def get_order(number: int) -> str:
    """Look up an order."""
    if number % 7 == 3:
        raise ValueError(f"order {number} is locked")
    return json.dumps({"order": number, "state": "fine", "note": "Left at the door. " * 20})


@pytest.mark.parametrize("streaming", [True, False])
def test_an_agent_goes_200_steps_past_its_window(streaming):
    scripted = ScriptedLLM(scripted_run(200))
    task = "Which of my orders are broken? I am mia_li_3668."
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        llm = BrimfulLLM(scripted, engine=engine, conversation="orders", completion=500)
        memory = BrimfulMemory.from_defaults(llm=llm, engine=engine, room="orders-history")
        agent = FunctionAgent(tools=[get_order], llm=llm, system_prompt="You work in a shop.", streaming=streaming)

        async def run() -> str:
            return str(await agent.run(task, memory=memory, max_iterations=300))

        assert asyncio.run(run()) == "None of them is broken."
        responses = engine.run(engine.store.responses(room="orders", limit=1_000))
    assert len(scripted.requests) == len(responses) == 201
    for sent, response in zip(scripted.requests, sorted(responses, key=lambda each: each.at), strict=True):
        assert count(sent) <= 3_500
        assert [sent[0].content, sent[1].content] == ["You work in a shop.", task]
        assert find_violations({"model": "gpt-4o", "messages": wire_of(sent)}, "openai") == []
        assert response.usage is not None
    assert "get_order(number=188)" in scripted.requests[-1][2].content  # in the ledger
    assert len(memory.get_all()) == 1 + 2 * 200 + 20 + 1


# -- the memory --------------------------------------------------------------------------------------------------------


def test_the_memory_returns_what_fits_and_has_all():
    memory, messages = BrimfulMemory.from_defaults(llm=ScriptedLLM(), chat_history=chat_of(100)), chat_of(100)
    kept = memory.get()
    assert memory.get_all() == messages
    assert count(kept) <= 3_000 < count(messages)
    assert all(any(message is own for own in memory.get_all()) for message in kept)
    assert asyncio.run(memory.aget()) == kept


def test_tokens_that_an_engine_adds_are_left_free():
    memory = BrimfulMemory.from_defaults(llm=ScriptedLLM(), chat_history=chat_of(100))
    assert count(memory.get(initial_token_count=2_000)) <= 1_000


def test_pairs_stay_whole():
    memory = BrimfulMemory.from_defaults(max_prompt_tokens=1_500, policy="fit", chat_history=run_of(50))
    kept = memory.get()
    assert len(kept) < 101
    assert find_violations({"model": "gpt-4o", "messages": wire_of(kept)}, "openai") == []


def test_a_fitting_llm_gets_the_whole_history():
    memory = BrimfulMemory.from_defaults(llm=BrimfulLLM(ScriptedLLM()), chat_history=chat_of(100))
    assert memory.get() == memory.get_all()


def test_history_is_appended_replaced_and_deleted():
    memory = BrimfulMemory.from_defaults(max_prompt_tokens=1_000)
    assert memory.get() == []
    memory.put(user("Hi"))
    asyncio.run(memory.aput_messages([assistant("Hello"), user("Bye")]))
    assert [message.content for message in memory.get_all()] == ["Hi", "Hello", "Bye"]
    memory.set([user("Hi"), assistant("Good day")])
    assert [message.content for message in memory.get_all()] == ["Hi", "Good day"]
    memory.reset()
    assert memory.get_all() == []


def test_history_survives_a_restart(tmp_path):
    url = f"sqlite:///{tmp_path}/chat.db"
    messages = [
        *run_of(3),
        ChatMessage(role="user", blocks=[TextBlock(text="Look:"), ImageBlock(image=PNG)]),
        ChatMessage(role="user", blocks=[ImageBlock(image=PNG)]),
        ChatMessage(
            role="assistant",
            blocks=[ThinkingBlock(content="Hm.", additional_information={"signature": "s"}), TextBlock(text="A cat.")],
        ),
        ChatMessage(role="assistant", content="Well.", additional_kwargs={"refusal": None}),
        ChatMessage(role="system", content="Be brief."),
        user(""),
    ]
    with brimful.SyncEngine(url) as engine:
        memory = BrimfulMemory.from_defaults(max_prompt_tokens=1_000, engine=engine, room="mia", chat_history=messages)
        engine.post(room="other", text="Not here.")
    with brimful.SyncEngine(url) as engine:
        memory = BrimfulMemory.from_defaults(max_prompt_tokens=1_000, engine=engine, room="mia")
        assert memory.get_all() == messages
        memory.set([*messages[:2], user("Changed.")])
        memory.put(assistant("Yes."))
        engine.post(room="mia", text="Posted by somebody else.")
    with brimful.SyncEngine(url) as engine:
        memory = BrimfulMemory.from_defaults(max_prompt_tokens=1_000, engine=engine, room="mia")
        changed = ["Changed.", "Yes.", "Posted by somebody else."]
        assert memory.get_all() == [*messages[:2], user(changed[0]), assistant(changed[1]), user(changed[2])]
        assert engine.search("somebody", room="mia")[0].record.room == "mia"
        memory.reset()
        assert BrimfulMemory.from_defaults(max_prompt_tokens=1_000, engine=engine, room="mia").get_all() == []


def test_long_histories_are_read_in_pages(tmp_path):
    with brimful.SyncEngine(f"sqlite:///{tmp_path}/chat.db", embedder="none") as engine:
        records = [
            brimful.engine.engine.Message(id=f"m{n}", room="mia", content=f"Line {n}", at=float(n))
            for n in range(2_100)
        ]
        engine.post_many(records)
        memory = BrimfulMemory.from_defaults(max_prompt_tokens=1_000, engine=engine, room="mia")
    assert [message.content for message in memory.get_all()] == [f"Line {n}" for n in range(2_100)]


def test_a_chat_engine_works_with_it():
    scripted = ScriptedLLM()
    memory = BrimfulMemory.from_defaults(llm=scripted, chat_history=chat_of(60)[1:-1])
    engine = SimpleChatEngine.from_defaults(llm=scripted, memory=memory, system_prompt="Be brief.")
    assert str(engine.chat("And now?")) == "Fine."
    assert len(memory.get_all()) == 122
    assert count(scripted.requests[0]) <= 3_100


def test_a_memory_is_restored_from_json():
    memory = BrimfulMemory.from_defaults(llm=ScriptedLLM(), chat_history=chat_of(60), room="mia")
    restored = BrimfulMemory.from_dict(json.loads(memory.to_json()))
    assert restored.get_all() == memory.get_all()
    assert (restored.get(), restored.room) == (memory.get(), "mia")


def test_bad_memories_say_what_to_do():
    with pytest.raises(InvalidValue, match="pass the LLM that the messages are for, or max_prompt_tokens"):
        BrimfulMemory.from_defaults()
    with pytest.raises(InvalidValue, match="token_limit: is not an option"):
        BrimfulMemory.from_defaults(llm=ScriptedLLM(), token_limit=3_000)
    with pytest.raises(InvalidValue, match=r"must be a brimful\.SyncEngine"):
        BrimfulMemory.from_defaults(max_prompt_tokens=100, engine=brimful.Engine("sqlite:///:memory:"))


# -- the retriever -----------------------------------------------------------------------------------------------------


def test_records_become_nodes():
    with brimful.SyncEngine("sqlite:///:memory:") as engine:
        engine.remember("Mia likes tea.", user="mia")
        engine.post(room="kitchen", text="The tea is in the cupboard.", sender="Ada")
        retriever = BrimfulRetriever(engine, room="kitchen", user="mia")
        nodes = retriever.retrieve("Where is the tea?")
        assert [node.node_id for node in asyncio.run(retriever.aretrieve("Where is the tea?"))] == [
            node.node_id for node in nodes
        ]
    found = {node.text: node for node in nodes}
    assert found["Mia likes tea."].metadata["kind"] == "memory"
    assert found["The tea is in the cupboard."].metadata["sender"] == "Ada"
    assert all(node.score > 0 for node in nodes)


def test_an_asynchronous_engine_is_awaited():
    async def search() -> list[str]:
        async with brimful.Engine("sqlite:///:memory:") as engine:
            await engine.remember("Mia likes tea.")
            retriever = BrimfulRetriever(engine)
            with pytest.raises(InvalidValue, match="use the asynchronous methods"):
                retriever.retrieve("tea")
            return [node.text for node in await retriever.aretrieve("What does Mia like?")]

    assert asyncio.run(search()) == ["Mia likes tea."]
    with pytest.raises(InvalidValue, match="not str"):
        BrimfulRetriever("chat.db")
