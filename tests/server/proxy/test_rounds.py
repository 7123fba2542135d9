"""Joining the answers of several rounds, for streams as servers really send them."""

import json

import pytest

from brimful.server.proxy.rounds import ChatAnswer, MessageAnswer, wants_recall

RESULT = {"call_1": "found", "call_2": "not run", "toolu_1": "found"}


def chat(*deltas, finish="tool_calls", done=True, id="chatcmpl-1", end="\n\n"):
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices += [{"index": 0, "delta": {}, "finish_reason": finish}] if finish else []
    chunks = [{"id": id, "created": 1, "choices": [choice]} for choice in choices]
    lines = [f"data: {json.dumps(chunk)}{end}" for chunk in chunks]
    return "".join([*lines, *([f"data: [DONE]{end}"] if done else [])]).encode()


def tool_call(index=0, id="call_1", name="recall", arguments='{"query": "tea"}', **more):
    return {"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}, **more}]}


def read_chat(data):
    events = [line.removeprefix("data: ") for line in data.decode().split("\n\n") if line]
    return [json.loads(event) for event in events if event != "[DONE]"]


def message(*blocks, stop="tool_use", start="msg_1"):
    """The events of a message; a block is its start and its deltas."""
    usage = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5}
    events = [{"type": "message_start", "message": {"id": start, "content": [], "usage": usage}}]
    for at, (block, *deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": at, "content_block": block})
        events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": at})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}})
    events.append({"type": "message_stop"})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def read_messages(data):
    return [json.loads(line.partition("data: ")[2]) for line in data.decode().split("\n\n") if line]


TOOL_USE = (
    {"type": "tool_use", "id": "toolu_1", "name": "recall", "input": {}},
    {"type": "input_json_delta", "partial_json": '{"query":'},
    {"type": "input_json_delta", "partial_json": ' "tea"}'},
)
TEXT = ({"type": "text", "text": ""}, {"type": "text_delta", "text": "Green."})
FIRST_CHAT = chat({"role": "assistant", "content": "Wait."}, tool_call())
LAST_CHAT = chat({"role": "assistant", "content": ""}, {"content": "Green."}, finish="stop", id="chatcmpl-2")


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n"])
def test_a_chat_stream_may_come_in_any_pieces(size, end):
    answer = ChatAnswer()
    first = chat({"role": "assistant", "content": "Wait."}, tool_call(), end=end)
    seen = b"".join(answer.feed(first[at : at + size]) for at in range(0, len(first), size)) + answer.end()
    assert [chunk["choices"][0]["delta"] for chunk in read_chat(seen.replace(b"\r\n", b"\n"))] == [
        {"role": "assistant", "content": "Wait."}
    ]
    assert wants_recall(answer)
    answer.advance()
    seen = b"".join(answer.feed(LAST_CHAT[at : at + size]) for at in range(0, len(LAST_CHAT), size)) + answer.end()
    chunks = read_chat(seen)
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [{"content": "\n\nGreen."}, {}]
    assert {chunk["id"] for chunk in chunks} == {"chatcmpl-1"}
    assert seen.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_message_stream_may_come_in_any_pieces(size):
    answer, seen = MessageAnswer(), b""
    for stream in (message(TEXT, TOOL_USE), message(TEXT, stop="end_turn")):
        seen += b"".join(answer.feed(stream[at : at + size]) for at in range(0, len(stream), size)) + answer.end()
        if wants_recall(answer):
            answer.advance()
    events = read_messages(seen)
    assert [event["index"] for event in events if "index" in event] == [0, 0, 0, 1, 1, 1]
    assert events[-2]["usage"] == {"input_tokens": 20, "output_tokens": 14, "cache_read_input_tokens": 10}


def test_comments_and_pings_pass_while_calls_are_held_back():
    answer = ChatAnswer()
    answer.feed(chat(tool_call(), finish=None, done=False))
    assert answer.feed(b": waiting\n\n") == b": waiting\n\n"
    other = MessageAnswer()
    other.feed(message(TOOL_USE)[:400])
    assert b"ping" in other.feed(b'\n\nevent: ping\ndata: {"type": "ping"}\n\n')


def test_an_error_passes_while_calls_are_held_back():
    answer = MessageAnswer()
    answer.feed(message(TOOL_USE).partition(b"event: message_delta")[0])
    assert b"overloaded" in answer.feed(
        b'event: error\ndata: {"type": "error", "error": {"message": "overloaded"}}\n\n'
    )


def test_calls_of_one_index_are_told_apart_by_their_ids():
    answer = ChatAnswer()
    answer.feed(chat(tool_call(), tool_call(id="call_2", name="refund", arguments={"n": 1})))
    assert [(call.id, call.name, json.loads(call.arguments)) for call in answer.calls] == [
        ("call_1", "recall", {"query": "tea"}),
        ("call_2", "refund", {"n": 1}),
    ]


def test_a_call_without_index_and_id_gets_an_id():
    answer = ChatAnswer()
    answer.feed(chat({"tool_calls": [{"function": {"name": "recall", "arguments": {"query": "tea"}}}]}))
    [call] = answer.calls
    assert call.id
    called, result = answer.step({call.id: "found"})
    assert called["tool_calls"][0]["id"] == result["tool_call_id"] == call.id


def test_a_server_that_never_names_a_finish_is_understood():
    answer = ChatAnswer()
    assert answer.feed(chat(tool_call(), finish=None)) == b""
    assert wants_recall(answer)
    own = chat(tool_call(name="refund"), finish=None)
    assert ChatAnswer().feed(own) == own
    cut = chat(tool_call(name="refund"), finish=None, done=False)
    other = ChatAnswer()
    assert other.feed(cut) + other.end() == cut


def test_reasoning_and_signatures_go_back_to_the_model():
    answer = ChatAnswer()
    signed = tool_call(extra_content={"google": {"thought_signature": "abc"}})
    thoughts = ({"reasoning_content": "Think"}, {"reasoning_content": "ing."}, {"reasoning_details": [{"type": "x"}]})
    answer.feed(chat(*thoughts, signed))
    called, _ = answer.step(RESULT)
    assert (called["reasoning_content"], called["reasoning_details"]) == ("Thinking.", [{"type": "x"}])
    assert called["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "abc"}}
    assert "index" not in called["tool_calls"][0]

    thinking = (
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Thinking."},
        {"type": "signature_delta", "signature": "abc"},
    )
    cited = (*TEXT, {"type": "citations_delta", "citation": {"url": "x"}})
    other = MessageAnswer()
    other.feed(message(thinking, cited, TOOL_USE))
    called, result = other.step(RESULT)
    assert called["content"] == [
        {"type": "thinking", "thinking": "Thinking.", "signature": "abc"},
        {"type": "text", "text": "Green.", "citations": [{"url": "x"}]},
        {"type": "tool_use", "id": "toolu_1", "name": "recall", "input": {"query": "tea"}},
    ]
    assert result["content"] == [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "found"}]


def test_an_empty_text_does_not_go_back():
    answer = MessageAnswer()
    answer.feed(message(({"type": "text", "text": ""},), TOOL_USE))
    assert [block["type"] for block in answer.step(RESULT)[0]["content"]] == ["tool_use"]
