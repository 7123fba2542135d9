"""Reasoning between tool calls is forwarded as it came and not stored."""

import asyncio

import pytest

from brimful.stores import connect
from server.upstream import chat_answer, message_answer

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
TALK = {"x-brimful-conversation": "trip"}
MARK = {"cache_control": {"type": "ephemeral"}}
THOUGHT = {"type": "thinking", "thinking": "Rain is likely. " * 30, "signature": "EqQBCgIYAg=="}
HIDDEN = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpP"}
SEARCH = {"type": "server_tool_use", "id": "srv-1", "name": "web_search", "input": {"query": "Paris"}}
TEXT_BLOCK = {"type": "text", "text": "Let me look."}
USE = {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Paris"}}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "rain"}]}
TOOLS = [{"name": "weather", "input_schema": {"type": "object"}}]
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}


@pytest.fixture
def client(start):
    return start(mode="remember")


@pytest.fixture
def room(tmp_path):
    async def read():
        async with connect(f"sqlite:///{tmp_path}/brimful.db") as database:
            return [entry.message for entry in reversed(await database.tenant("default").history("trip", limit=100))]

    return lambda: asyncio.run(read())


def ask(client, *messages, **more):
    request = {"model": "claude-sonnet-4-5", "max_tokens": 100, "tools": TOOLS, "messages": list(messages), **more}
    answer = client.post(MESSAGES, json=request, headers=TALK)
    assert answer.status_code == 200, answer.text
    return answer


def blocks_of(sent):
    """The blocks of a request, without our breakpoints."""
    found = [block for turn in sent["messages"] for block in turn["content"] if turn["role"] == "assistant"]
    return [{key: value for key, value in block.items() if key not in MARK} for block in found]


@pytest.mark.parametrize(
    "blocks", [[THOUGHT, USE], [THOUGHT, TEXT_BLOCK, HIDDEN, USE], [HIDDEN, TEXT_BLOCK, USE], [SEARCH, USE]]
)
def test_reasoning_before_a_call_is_forwarded_and_not_stored(client, upstream, room, blocks):
    kept = [block for block in blocks if block in (TEXT_BLOCK, USE)]
    upstream.answers = [message_answer() | {"content": blocks, "stop_reason": "tool_use"}, message_answer()]
    question = {"role": "user", "content": "How is the weather in Paris?"}
    ask(client, question)
    ask(client, question, {"role": "assistant", "content": blocks}, RESULT)
    assert blocks_of(upstream.bodies[-1]) == blocks
    stored = [message for message in room() if message.role == "assistant"]
    assert "likely" not in str(stored)
    ask(client, question, {"role": "assistant", "content": blocks}, RESULT, {"role": "assistant", "content": "Rain."},
        {"role": "user", "content": "Thanks."})  # fmt: skip
    assert blocks_of(upstream.bodies[-1])[: len(kept)] == kept
    assert "likely" not in str(upstream.bodies[-1])


def test_reasoning_is_counted_and_reported(client, upstream):
    question = {"role": "user", "content": "How is the weather in Paris?"}
    answer = ask(client, question, {"role": "assistant", "content": [THOUGHT, USE]}, RESULT)
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert "reasoning-reserve" in [warning["kind"] for warning in record["warnings"]]
    assert record["window"] < 8192 - 100
    assert blocks_of(upstream.bodies[0]) == [THOUGHT, USE]


def test_a_message_with_only_reasoning_is_not_stored(client, room):
    thought = {"role": "assistant", "content": [THOUGHT]}
    ask(client, {"role": "user", "content": "One?"}, thought, {"role": "user", "content": "Two?"})
    assert [message.content for message in room()] == ["One?", "Two?", "Thursday."]


@pytest.mark.parametrize(
    "step",
    [
        {"role": "assistant", "content": None, "reasoning_content": "Rain is likely.", "tool_calls": [CALL]},
        {"role": "assistant", "content": None, "tool_calls": [CALL | {"extra_content": {"google": {"sig": "x"}}}]},
    ],
)
def test_reasoning_in_openais_format(client, upstream, room, step):
    question, result = {"role": "user", "content": "Rain?"}, {"role": "tool", "tool_call_id": "c1", "content": "yes"}
    upstream.answers = [chat_answer()]
    request = {"model": "gpt-4o", "messages": [question, step, result]}
    assert client.post(CHAT, json=request, headers=TALK).status_code == 200
    assert upstream.bodies[0]["messages"] == [question, step, result]
    assert "likely" not in str(room())
    thanks = [question, step, result, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Thanks."}]
    client.post(CHAT, json=request | {"messages": thanks}, headers=TALK)
    assert "likely" not in str(upstream.bodies[-1])
