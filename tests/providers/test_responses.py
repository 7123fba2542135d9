"""The dialect of OpenAI's Responses API: whole answers, streams, usage and errors."""

import json

import pytest

from brimful.core.content import Text, ToolCall
from brimful.errors import ContextOverflow, ProviderError, ProviderUnavailable
from brimful.providers import make_dialect
from brimful.records import Usage
from brimful.server.proxy.stream import WholeEventListener

DIALECT = make_dialect("responses", "https://api.openai.com/v1")
USAGE = {
    "input_tokens": 36,
    "input_tokens_details": {"cached_tokens": 20},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 45,
}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look_up", "arguments": '{"q":"tea"}'}
SHOUT = {"type": "custom_tool_call", "id": "ct_1", "call_id": "c2", "name": "shout", "input": "TEA"}


def message(**block):
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [block]}


def response(*output, status="completed", **more):
    whole = {"id": "resp_1", "object": "response", "model": "gpt-5", "status": status, "error": None, "usage": USAGE}
    return whole | {"output": list(output)} | more


def event(kind, **data):
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | data)}\n\n".encode()


def read(body):
    return DIALECT.read(json.dumps(body).encode(), "r")


def stream(*events):
    reader = DIALECT.reader("r")
    pieces = [piece for each in events for piece in reader.feed(each)]
    return reader.end(), pieces


def test_a_whole_answer():
    reply = read(response({"type": "reasoning", "id": "rs_1"}, message(type="output_text", text="Green."), CALL, SHOUT))
    assert reply.parts == (
        Text(text="Green."),
        ToolCall(id="c1", name="look_up", arguments='{"q":"tea"}'),
        ToolCall(id="c2", name="shout", arguments="TEA"),
    )
    assert (reply.finish, reply.model, reply.id) == ("tool-calls", "gpt-5", "resp_1")
    assert reply.usage == Usage(prompt=36, cached=20, completion=9, reasoning=4)


@pytest.mark.parametrize(
    ("body", "finish"),
    [
        (response(message(type="output_text", text="Hi")), "stop"),
        (response(message(type="refusal", refusal="No.")), "filtered"),
        (response(status="incomplete", incomplete_details={"reason": "max_output_tokens"}), "length"),
        (response(status="incomplete", incomplete_details={"reason": "content_filter"}), "filtered"),
        (response(status="incomplete"), "other"),
    ],
)
def test_why_an_answer_ended(body, finish):
    assert read(body).finish == finish
    assert stream(event(f"response.{body['status']}", response=body))[0].finish == finish


def test_a_stream():
    reply, pieces = stream(
        event("response.created", response=response(status="in_progress", usage=None)),
        event("response.reasoning_summary_text.delta", delta="Hm."),
        event("response.output_text.delta", delta="Gre", output_index=0),
        event("response.output_text.delta", delta="en.", output_index=0),
        event("response.output_item.added", output_index=1, item=CALL | {"arguments": ""}),
        event("response.function_call_arguments.delta", output_index=1, delta='{"q":'),
        event("response.function_call_arguments.delta", output_index=1, delta='"tea"}'),
        event("response.completed", response=response(message(type="output_text", text="Green."), CALL)),
    )
    assert reply == read(response(message(type="output_text", text="Green."), CALL))
    assert "".join(piece.text for piece in pieces) == "Green."
    assert pieces[0].thought == "Hm."


def test_a_stream_that_breaks_off_is_an_error():
    with pytest.raises(ProviderUnavailable, match="broke off"):
        stream(event("response.output_text.delta", delta="Gre"))


ERROR = {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}


@pytest.mark.parametrize(
    "failed",
    [
        event("response.failed", response=response(status="failed", error=ERROR)),
        event("error", **ERROR, param="input"),
        event("error", error=ERROR),
        f"data: {json.dumps({'type': 'error'} | ERROR)}\n\n".encode(),
    ],
)
def test_an_overflow_in_a_stream(failed):
    with pytest.raises(ContextOverflow):
        stream(event("response.created", response=response(status="in_progress")), failed)


def test_instructions_in_a_failed_response_are_no_reason():
    body = response(status="failed", instructions="Never exceed the context window.", error={"code": "server_error"})
    with pytest.raises(ProviderError) as failed:
        stream(event("response.failed", response=body))
    assert not isinstance(failed.value, ContextOverflow)


def test_requests():
    request = {"model": "gpt-5", "input": "Hi", "store": False}
    assert DIALECT.path(request, stream=True) == "/responses"
    assert json.loads(DIALECT.body(request, stream=True)) == request | {"stream": True}
    assert json.loads(DIALECT.body(request, stream=False)) == request
    [way] = DIALECT.count_requests(request)
    assert (way.path, way.body) == ("/responses/input_tokens", {"model": "gpt-5", "input": "Hi"})
    assert make_dialect("responses", "https://x.openai.azure.com/v1").headers("k") == {"api-key": "k"}


@pytest.mark.parametrize("named", [True, False])
def test_a_listener_reads_the_last_event_only(named):
    long = response(message(type="output_text", text="word " * 50_000), instructions="kind " * 50_000)
    events = [event("response.output_text.delta", delta="word "), event("response.completed", response=long)]
    listener = WholeEventListener(DIALECT, "r")
    for each in events:
        data = each if named else each.partition(b"\n")[2]
        for at in range(0, len(data), 10_000):
            listener.feed(data[at : at + 10_000])
    reply = listener.reply()
    assert reply.usage == Usage(prompt=36, cached=20, completion=9, reasoning=4)
    assert (listener.complete, listener.interrupted) == (True, False)


def test_a_listener_notices_a_stream_that_breaks_off():
    listener = WholeEventListener(DIALECT, "r")
    listener.feed(event("response.output_text.delta", delta="word "))
    listener.reply()
    assert (listener.complete, listener.interrupted) == (False, True)
