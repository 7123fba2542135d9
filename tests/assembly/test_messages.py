"""Messages as SDKs return them are accepted, and sent back as plain dicts."""

import asyncio
import json
from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message as AnthropicMessage
from anthropic.types import RawMessageStreamEvent
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ParsedFunctionToolCall
from pydantic import BaseModel, TypeAdapter

import brimful
from brimful.core.content import Text, ToolCall, ToolResult
from brimful.errors import InvalidRequest, InvalidValue
from brimful.records import Usage

NOW = 1_700_000_000
HI = {"role": "user", "content": "Hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"q": null}'}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "42"}
COMPLETION = ChatCompletion.model_validate(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": NOW,
        "model": "gpt-4o",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "logprobs": None,
                "message": {"role": "assistant", "content": None, "refusal": None, "tool_calls": [CALL]},
            }
        ],
        "usage": {
            "prompt_tokens": 30,
            "completion_tokens": 5,
            "total_tokens": 35,
            "prompt_tokens_details": {"cached_tokens": 20},
        },
    }
)
ANSWER = AnthropicMessage.model_validate(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [
            {"type": "text", "text": "I look.", "citations": None},
            {"type": "tool_use", "id": "t1", "name": "look_up", "input": {"q": None}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 20},
    }
)
BLOCKS = [
    {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "t1", "name": "look_up", "input": {"q": None}},
]


class LangChainMessage(BaseModel):
    """The fields of a `BaseMessage` of langchain-core 1.7, which needs too much to be installed for a test."""

    content: str | list[Any]
    additional_kwargs: dict[str, Any] = {}
    response_metadata: dict[str, Any] = {}
    type: str
    name: str | None = None
    id: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None


CHAIN = [
    LangChainMessage(type="system", content="Be brief."),
    LangChainMessage(type="human", content="Hi", name="Ada", id="h1"),
    LangChainMessage(
        type="ai",
        content=[{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "c1", "name": "f", "input": {}}],
        tool_calls=[{"name": "f", "args": {"q": 1}, "id": "c1", "type": "tool_call"}],
        response_metadata={"model_name": "gpt-4o"},
    ),
    LangChainMessage(type="tool", content="42", tool_call_id="c1"),
    LangChainMessage(type="AIMessageChunk", content="It is 42.", id="run-1"),
]


def sent(messages, *, model="gpt-4o", **options):
    request = brimful.fit({"model": model, "max_tokens": 9, "messages": messages}, now=NOW, **options).request
    assert json.loads(json.dumps(request)) == request  # ready to send
    return request["messages"]


def test_an_answer_of_the_openai_sdk_is_appended_as_in_every_tutorial():
    message = COMPLETION.choices[0].message
    assert sent([HI, message, RESULT]) == [HI, {"role": "assistant", "tool_calls": [CALL]}, RESULT]
    assert sent([HI, {"role": "assistant", "tool_calls": message.tool_calls}, RESULT])[1]["tool_calls"] == [CALL]


def test_answers_of_the_anthropic_sdk_are_taken_whole_or_as_their_content():
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "42"}]}
    for message in (ANSWER, {"role": "assistant", "content": ANSWER.content}):
        messages = sent([HI, message, answer], model="claude-sonnet-4-5", wire="anthropic")
        assert messages == [HI, {"role": "assistant", "content": BLOCKS}, answer]


def test_a_streamed_answer_of_the_openai_sdk_has_no_fields_of_the_stream():
    state = ChatCompletionStreamState()
    function = {"name": "look_up", "arguments": '{"q": null}'}
    deltas = [
        {"role": "assistant"},
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]},
    ]
    for delta in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        rest = {"id": "c", "object": "chat.completion.chunk", "created": NOW, "model": "gpt-4o"}
        state.handle_chunk(ChatCompletionChunk.model_validate({**rest, "choices": [choice]}))
    message = state.current_completion_snapshot.choices[0].message
    assert sent([HI, message, RESULT])[1] == {"role": "assistant", "tool_calls": [CALL]}
    assert sent([HI, {"role": "assistant", "tool_calls": message.tool_calls}, RESULT])[1]["tool_calls"] == [CALL]
    parsed = ParsedFunctionToolCall.model_validate({**CALL, "function": {**function, "parsed_arguments": {"q": None}}})
    assert sent([HI, {"role": "assistant", "tool_calls": [parsed]}, RESULT])[1]["tool_calls"] == [CALL]


def test_a_streamed_answer_of_the_anthropic_sdk_keeps_its_thinking():
    start = {**ANSWER.model_dump(), "content": []}
    thinking = {"type": "thinking", "thinking": "I should look.", "signature": "c2ln"}
    use = BLOCKS[1]
    events = [{"type": "message_start", "message": start}]
    for at, block in enumerate((thinking, BLOCKS[0], {**use, "input": {}})):
        events.append({"type": "content_block_start", "index": at, "content_block": block})
    arguments = {"type": "input_json_delta", "partial_json": '{"q": null}'}
    events.append({"type": "content_block_delta", "index": 2, "delta": arguments})
    message, buffers = None, {}
    for event in map(TypeAdapter(RawMessageStreamEvent).validate_python, events):
        message = accumulate_event(event=event, current_snapshot=message, json_bufs=buffers)
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "42"}]}
    written = sent([HI, message, answer], model="claude-sonnet-4-5", wire="anthropic")
    assert written == [HI, {"role": "assistant", "content": [thinking, *BLOCKS]}, answer]


def test_langchain_messages_are_translated():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"q": 1}'}}
    assert sent(CHAIN) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "name": "Ada", "content": "Hi"},
        {"role": "assistant", "tool_calls": [call], "content": [{"type": "text", "text": "I look."}]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "assistant", "content": "It is 42."},
    ]
    with pytest.raises(InvalidValue, match=r"messages\[0\]: is a LangChain message"):
        sent(CHAIN, wire="anthropic")


def test_a_conversation_takes_the_same_objects():
    packages = brimful.conversation([HI, COMPLETION.choices[0].message, RESULT, *CHAIN[4:]], model="gpt-4o")
    assert [package.kind for package in packages] == ["message-recent", "tool-call", "tool-result", "message-recent"]
    nested = brimful.conversation([{"role": "user", "content": [{"type": "text", "text": "a"}]}, HI], model="gpt-4o")
    assert nested[0].text == "a"


def test_lone_surrogates_in_objects_are_replaced():
    assert sent([LangChainMessage(type="human", content="a\ud800")]) == [{"role": "user", "content": "a\ufffd"}]
    block = ANSWER.content[0].model_copy(update={"text": "a\ud800"})
    assert sent([{"role": "user", "content": [block]}])[0]["content"][0]["text"] == "a\ufffd"


class Reply(BaseModel):
    text: str = "Hi"


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (COMPLETION, "ChatCompletion"),
        (COMPLETION.choices[0], "Choice"),
        (Reply(), "Reply"),
        (Reply, "ModelMetaclass"),
        (object(), "object"),
        (LangChainMessage(type="remove", content="", id="4"), "LangChainMessage"),
    ],
)
def test_anything_else_is_one_error_with_its_position_and_type(message, name):
    for take in (sent, lambda messages: brimful.conversation(messages, model="gpt-4o")):
        with pytest.raises(InvalidValue, match=r"^messages\[1\]: must be a message: .*, not " + name + "$") as caught:
            take([HI, message])
        assert caught.value.field == "messages[1]"


@pytest.mark.parametrize("message", ["Hi", None, 7, []])
def test_json_that_is_no_message_breaks_a_rule_of_the_provider(message):
    for take in (sent, lambda messages: brimful.conversation(messages, model="gpt-4o")):
        with pytest.raises(InvalidRequest, match=r"messages\[1\]: must be an object"):
            take([HI, message])


def test_assemble_says_how_messages_become_packages():
    with pytest.raises(
        InvalidValue, match=r"packages\[0\]: must be a ContentPackage, not dict; .*brimful.conversation"
    ):
        brimful.assemble([HI], model="gpt-4o")


def with_engine(tmp_path, story):
    async def run():
        async with brimful.Engine(f"sqlite:///{tmp_path}/chat.db", embedder="none", clock=lambda: NOW) as engine:
            return await story(engine)

    return asyncio.run(run())


def post(tmp_path, *contents, **options):
    async def story(engine):
        return [await engine.post(room="r", content=content, **options) for content in contents]

    return with_engine(tmp_path, story)


def test_the_engine_posts_them_with_their_roles(tmp_path):
    posted = post(
        tmp_path, COMPLETION.choices[0].message, RESULT, ANSWER, *CHAIN[:2], [{"type": "text", "text": "a"}], HI
    )
    assert [(message.role, message.content) for message in posted] == [
        ("assistant", (ToolCall(id="c1", name="look_up", arguments='{"q": null}'),)),
        ("tool", (ToolResult(id="c1", content="42"),)),
        ("assistant", (Text(text="I look."), ToolCall(id="t1", name="look_up", arguments='{"q":null}'))),
        ("system", "Be brief."),
        ("user", "Hi"),
        ("user", "a"),
        ("user", "Hi"),
    ]
    assert post(tmp_path, HI, role="assistant")[0].role == "assistant"


@pytest.mark.parametrize("content", [7, object(), {"content": "no role"}, [object()], {"role": "user"}, float("nan")])
def test_the_engine_refuses_what_is_no_message(tmp_path, content):
    with pytest.raises(InvalidValue, match=r"^content: "):
        post(tmp_path, content)


def test_an_answer_of_an_sdk_is_recorded_with_its_usage(tmp_path):
    async def story(engine):
        context = await engine.assemble(room="r", message=HI, model="gpt-4o")
        message = COMPLETION.choices[0].message
        response = await engine.record_response(context, content=message, usage=COMPLETION.usage)
        assert response.usage == Usage(prompt=30, cached=20, completion=5)
        other = await engine.record_response(context, content=ANSWER, usage=ANSWER.usage)
        assert other.usage == Usage(prompt=30, cached=20, completion=5)
        with pytest.raises(InvalidValue, match=r"^usage: "):
            await engine.record_response(context, "x", usage=object())

    with_engine(tmp_path, story)
