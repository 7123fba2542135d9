"""Joining the answers of several rounds, for streams as servers really send them."""

import json

import pytest

from brimful.wires import find_wire
from brimful.wires.anthropic import MessageAnswer
from brimful.wires.openai_chat import ChatAnswer
from brimful.wires.openai_responses import ResponsesAnswer

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
    assert answer.wants_recall
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
        if answer.wants_recall:
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
    assert answer.wants_recall
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


# -- OpenAI's Responses API ------------------------------------------------------------------------------------------


def reasoning(id="rs_1", **more):
    return {"type": "reasoning", "id": id, "summary": []} | more


def text_item(text="Green.", id="msg_1"):
    return {"type": "message", "id": id, "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def function_call(name="recall", call_id="call_1", **more):
    return {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": "{}"} | more


def response(*items, id="resp_1", status="completed", **more):
    usage = {"input_tokens": 10, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}}
    return {"id": id, "status": status, "output": list(items), "usage": usage} | more


def response_events(body):
    events = [{"type": f"response.{name}", "response": body | {"output": []}} for name in ("created", "in_progress")]
    for at, item in enumerate(body["output"]):
        events.append({"type": "response.output_item.added", "output_index": at, "item": item})
        events.append({"type": "response.output_text.delta", "output_index": at, "delta": "…"})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": f"response.{body['status']}", "response": body})
    numbered = [event | {"sequence_number": number} for number, event in enumerate(events)]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in numbered).encode()


def join_responses(*bodies, rounds=9):
    """Join responses, whole and as streams; return the final response, and the items and numbers of the stream."""
    whole, streamed, seen = ResponsesAnswer(), ResponsesAnswer(), b""
    for at, body in enumerate(bodies):
        whole.is_last = streamed.is_last = at >= rounds
        whole.add(body)
        seen += streamed.feed(response_events(body)) + streamed.end()
        assert whole.wants_recall == streamed.wants_recall
        if whole.wants_recall:
            whole.advance()
            streamed.advance()
    events = read_messages(seen)
    joined = whole.whole(bodies[-1])
    assert events[-1]["response"] == joined | {"id": bodies[0]["id"]}
    done = [event for event in events if event["type"] == "response.output_item.done"]
    assert [event["output_index"] for event in done] == list(range(len(done)))
    assert [event["item"] for event in done] == joined["output"]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events].count("response.created") == 1
    return joined


def test_responses_are_joined_without_the_reasoning_of_a_recall():
    first = response(reasoning("rs_0"), text_item("Wait.", "msg_0"), reasoning(), function_call())
    joined = join_responses(first, response(reasoning("rs_2"), text_item(), id="resp_2"))
    assert [item["id"] for item in joined["output"]] == ["rs_0", "msg_0", "rs_2", "msg_1"]
    assert joined["id"] == "resp_2"
    assert joined["usage"] == {
        "input_tokens": 20,
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 2},
    }


def test_responses_with_calls_of_the_client_pass_as_they_are():
    body = response(reasoning(), function_call("refund"), text_item())
    answer = ResponsesAnswer()
    assert answer.feed(response_events(body)) == response_events(body)
    assert answer.whole(body) is body
    assert join_responses(body) == body


@pytest.mark.parametrize("own", [(), (function_call("refund", "call_2"),)])
def test_a_recall_in_the_last_response_is_removed(own):
    last = response(reasoning("rs_2"), function_call(), *own, id="resp_2")
    joined = join_responses(response(function_call()), last, rounds=1)
    assert [item["id"] for item in joined["output"]] == (["rs_2", "fc_call_2"] if own else [])


@pytest.mark.parametrize(
    "body",
    [
        response(function_call(), status="incomplete"),
        response(function_call(), {"type": "computer_call", "id": "cu_1", "call_id": "call_3"}),
    ],
)
def test_a_recall_that_cannot_be_answered_is_removed(body):
    joined = join_responses(body)
    assert "recall" not in json.dumps(joined["output"])


def test_all_items_of_a_response_go_back_with_a_result_for_each_call():
    custom = {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_2", "name": "shell", "input": "ls"}
    body = response(reasoning(), function_call(), custom)
    answer = ResponsesAnswer()
    answer.add(body)
    assert answer.step(RESULT) == [
        *body["output"],
        {"type": "function_call_output", "call_id": "call_1", "output": "found"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "not run"},
    ]


def test_items_that_the_provider_does_not_store_go_back_without_ids():
    body = response(reasoning(), reasoning("rs_2", encrypted_content="abc"), function_call(), store=False)
    answer = ResponsesAnswer()
    answer.add(body)
    kinds = [(item["type"], "id" in item) for item in answer.step(RESULT)]
    assert kinds == [("reasoning", False), ("function_call", False), ("function_call_output", False)]


def test_a_response_that_breaks_off_is_shown_as_far_as_it_came():
    answer = ResponsesAnswer()
    cut = response_events(response(reasoning(), function_call())).partition(b"event: response.completed")[0]
    assert answer.feed(cut) + answer.end() == cut
    assert not answer.wants_recall


JSON = {"type": "json_object"}


@pytest.mark.parametrize(
    ("wire", "as_text", "as_json"),
    [
        ("openai", {"response_format": {"type": "text"}}, {"response_format": JSON}),
        ("anthropic", {"output_config": {"effort": "low"}}, {"output_config": {"format": JSON}}),
        ("anthropic", {}, {"output_format": JSON}),
        ("responses", {"text": {"format": {"type": "text"}}}, {"text": {"format": JSON}}),
        (
            "gemini",
            {"generationConfig": {"responseMimeType": "text/plain"}},
            {"generation_config": {"responseMimeType": "application/json"}},
        ),
        ("ollama", {"format": ""}, {"format": "json"}),
    ],
)
def test_answers_are_joined_if_they_are_text(wire, as_text, as_json):
    whole = False
    assert find_wire(wire).can_join(as_text, whole)
    assert not find_wire(wire).can_join(as_json, whole)
