"""Anthropic's dialect."""

import json

import pytest
from hypothesis import given

from brimful import Text, ToolCall
from brimful.errors import ContextOverflow, ProviderError, ProviderUnavailable
from brimful.records import Usage
from brimful.wires import find_wire
from brimful.wires.dialect import Dialect
from providers.streams import cuts_of, named, read_stream

ANTHROPIC = Dialect(wire=find_wire("anthropic"))

WHOLE = {
    "id": "msg_013Zva2CMHLNnXjNJJKqJ2EF",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4-8",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
        {"type": "text", "text": "I'll look. ", "citations": None},
        {"type": "tool_use", "id": "toolu_01A", "name": "get_weather", "input": {"location": "Paris"}},
        {"type": "tool_use", "id": "toolu_01B", "name": "now", "input": {}},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 2095,
        "cache_creation_input_tokens": 300,
        "cache_read_input_tokens": 1800,
        "output_tokens": 503,
        "output_tokens_details": {"thinking_tokens": 400},
        "service_tier": "standard",
    },
}


def start(**usage):
    data = {"input_tokens": 25, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude-opus-4-8"}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": data | usage}
    return {"type": "message_start", "message": message}


def block(index, **content):
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(index, kind, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index):
    return {"type": "content_block_stop", "index": index}


def ended(reason="end_turn", **usage):
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": 15, **usage},
    }


STREAM = named(
    start(),
    block(0, type="thinking", thinking="", signature=""),
    {"type": "ping"},
    delta(0, "thinking_delta", thinking="Hm, "),
    delta(0, "thinking_delta", thinking="tea?"),
    delta(0, "signature_delta", signature="EqQB"),
    stop(0),
    block(1, type="text", text=""),
    delta(1, "text_delta", text="Naïve "),
    delta(1, "text_delta", text="☕🫖"),
    delta(1, "citations_delta", citation={}),
    stop(1),
    block(2, type="tool_use", id="toolu_1", name="get_weather", input={}),
    delta(2, "input_json_delta", partial_json=""),
    delta(2, "input_json_delta", partial_json='{"location": "San'),
    delta(2, "input_json_delta", partial_json=' Francisco"}'),
    stop(2),
    block(3, type="tool_use", id="toolu_2", name="now", input={}),
    stop(3),
    ended("tool_use"),
    {"type": "message_stop"},
)


def read(**changed):
    return ANTHROPIC.read(json.dumps(WHOLE | changed).encode(), "r")


def stream(*said):
    return read_stream(ANTHROPIC.reader("r"), named(*said))


def test_request_path_headers_and_body():
    request = {"model": "m", "max_tokens": 9, "stream": True, "thinking": {"type": "enabled"}, "messages": []}
    whole = json.loads(ANTHROPIC.body(request, stream=False))
    assert whole == {key: value for key, value in request.items() if key != "stream"}
    assert json.loads(ANTHROPIC.body(whole, stream=True)) == whole | {"stream": True}
    assert ANTHROPIC.path(request, stream=True) == ANTHROPIC.path(request, stream=False) == "/v1/messages"
    assert ANTHROPIC.headers("sk") == {"anthropic-version": "2023-06-01", "x-api-key": "sk"}
    assert ANTHROPIC.headers("") == {"anthropic-version": "2023-06-01"}


def test_a_complete_answer():
    reply = read()
    assert reply.parts == (
        Text(text="I'll look. "),
        ToolCall(id="toolu_01A", name="get_weather", arguments='{"location":"Paris"}'),
        ToolCall(id="toolu_01B", name="now", arguments="{}"),
    )
    assert (reply.finish, reply.model, reply.id) == ("tool-calls", "claude-opus-4-8", "msg_013Zva2CMHLNnXjNJJKqJ2EF")


def test_the_prompt_includes_tokens_read_from_and_written_to_the_cache():
    assert read().usage == Usage(prompt=2095 + 300 + 1800, cached=1800, completion=503, reasoning=400)
    assert read(usage={"input_tokens": 7, "output_tokens": 1}).usage == Usage(prompt=7, completion=1)
    assert read(usage=None).usage is None


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("refusal", "filtered"),
        ("model_context_window_exceeded", "overflow"),
        ("pause_turn", "other"),
        (None, "other"),
    ],
)
def test_finish_reasons(reason, finish):
    assert read(stop_reason=reason, content=[{"type": "text", "text": "Tea"}]).finish == finish
    if reason:
        assert stream(start(), ended(reason))[2].finish == finish


def test_a_stream():
    text, thought, reply = read_stream(ANTHROPIC.reader("r"), STREAM)
    assert (text, thought) == ("Naïve ☕🫖", "Hm, tea?")
    assert reply.parts == (
        Text(text="Naïve ☕🫖"),
        ToolCall(id="toolu_1", name="get_weather", arguments='{"location": "San Francisco"}'),
        ToolCall(id="toolu_2", name="now", arguments="{}"),
    )
    assert (reply.finish, reply.model, reply.id) == ("tool-calls", "claude-opus-4-8", "msg_1")
    assert reply.usage == Usage(prompt=40, cached=5, completion=15)


@given(cuts_of(STREAM))
def test_a_stream_reads_the_same_however_it_is_split(cuts):
    assert read_stream(ANTHROPIC.reader("r"), STREAM, cuts) == read_stream(ANTHROPIC.reader("r"), STREAM)


def test_later_usage_replaces_earlier_usage():
    later = ended(input_tokens=100, cache_read_input_tokens=None, output_tokens_details={"thinking_tokens": 9})
    assert stream(start(), later)[2].usage == Usage(prompt=115, cached=5, completion=15, reasoning=9)


def test_the_order_of_texts_and_calls_is_kept():
    said = stream(
        start(),
        block(0, type="text", text="One. "),
        block(1, type="tool_use", id="t", name="now", input={}),
        block(2, type="text", text=""),
        delta(2, "text_delta", text="Two."),
        ended(),
    )
    assert [type(part).__name__ for part in said[2].parts] == ["Text", "ToolCall", "Text"]
    assert said[0] == said[2].text == "One. Two."


def test_unknown_events_blocks_and_deltas_are_ignored():
    text, _, reply = stream(
        {"type": "novelty", "index": 0},
        start(),
        block(0, type="hologram", data="x"),
        delta(0, "hologram_delta", data="y"),
        block(1, type="text", text="Tea."),
        ended(),
    )
    assert (text, reply.parts) == ("Tea.", (Text(text="Tea."),))


def test_a_stream_that_ends_too_early_is_an_error():
    with pytest.raises(ProviderUnavailable, match="broke off"):
        stream(start(), block(0, type="text", text="Te"))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, ProviderUnavailable),
        ({"type": "api_error", "message": "Internal server error"}, ProviderUnavailable),
        ({"type": "invalid_request_error", "message": "messages: at least one is required"}, ProviderError),
        (
            {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"},
            ContextOverflow,
        ),
    ],
)
def test_an_error_in_a_stream_is_raised(error, kind):
    with pytest.raises(ProviderError) as caught:
        stream(start(), {"type": "error", "error": error})
    assert type(caught.value) is kind
    assert error["message"] in caught.value.reason
    assert caught.value.status is None


@pytest.mark.parametrize("body", [b"{}", b'{"type": "completion"}', b'{"content": []}'])
def test_an_answer_without_a_message_is_an_error(body):
    with pytest.raises(ProviderError, match="empty or unreadable"):
        ANTHROPIC.read(body)
