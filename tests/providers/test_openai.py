"""OpenAI's dialect, as OpenAI and compatible servers use it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful import Text, ToolCall
from brimful.errors import ContextOverflow, ProviderError, ProviderUnavailable
from brimful.records import Usage
from brimful.wires import find_wire
from brimful.wires.dialect import Dialect
from brimful.wires.wire import ServerTraits
from providers.streams import cuts_of, events, read_stream

OPENAI = Dialect(wire=find_wire("openai"))
TEXT = Dialect(wire=find_wire("text"))

WHOLE = {
    "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
    "object": "chat.completion",
    "created": 1741569952,
    "model": "gpt-5.4",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello! How can I assist you today?",
                "refusal": None,
                "annotations": [],
            },
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 1219,
        "completion_tokens": 110,
        "total_tokens": 1329,
        "prompt_tokens_details": {"cached_tokens": 1024, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 64, "audio_tokens": 0, "accepted_prediction_tokens": 0},
    },
    "service_tier": "default",
    "system_fingerprint": "fp_44709d6fcb",
}
CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"q": "tea"}'}},
    {"id": "call_2", "type": "function", "function": {"name": "now", "arguments": ""}},
]


def chunk(delta=None, finish=None, *, index=0, usage=None, **more):
    choice = {"index": index, "delta": delta or {}, "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-123",
        "object": "chat.completion.chunk",
        "created": 1694268190,
        "model": "gpt-5.4",
        "choices": [choice],
        "usage": usage,
        **more,
    }


LAST = chunk() | {
    "choices": [],
    "usage": {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21},
}
TALK = events(
    chunk({"role": "assistant", "content": "", "refusal": None}),
    chunk({"content": "Naïve "}),
    chunk({"content": "☕ and "}),
    chunk({"content": "🫖."}),
    chunk(finish="stop"),
    LAST,
    done=True,
)
CALLING = events(
    chunk({"role": "assistant", "content": None}),
    chunk(
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": ""}}]}
    ),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"q": '}}]}),
    chunk({"tool_calls": [{"index": 1, "id": "c2", "type": "function", "function": {"name": "now", "arguments": ""}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"tée"}'}}]}),
    chunk(finish="tool_calls"),
    done=True,
)


def stream(*said, cuts=(), done=True):
    return read_stream(OPENAI.reader("r"), events(*said, done=done), cuts)


# -- asking ------------------------------------------------------------------------------------------------------------

REQUEST = {"model": "m", "max_completion_tokens": 9, "new_field": {"a": [None]}, "messages": [{"role": "user"}]}


def test_all_fields_of_a_request_are_sent():
    assert json.loads(OPENAI.body(REQUEST, stream=False)) == REQUEST
    assert OPENAI.path(REQUEST, stream=False) == OPENAI.path(REQUEST, stream=True) == "/chat/completions"
    assert TEXT.path(REQUEST, stream=True) == "/completions"


def test_a_stream_requests_usage_and_keeps_other_stream_options():
    request = REQUEST | {"stream_options": {"include_obfuscation": False}}
    body = json.loads(OPENAI.body(request, stream=True))
    assert body == REQUEST | {
        "stream": True,
        "stream_options": {"include_obfuscation": False, "include_usage": True},
    }
    silent = Dialect(wire=find_wire("openai"), traits=ServerTraits(requests_usage=False))
    assert "stream_options" not in json.loads(silent.body(request, stream=True))


def test_the_stream_field_follows_how_the_request_is_sent():
    request = REQUEST | {"stream": True, "stream_options": {"include_usage": True}}
    assert json.loads(OPENAI.body(request, stream=False)) == REQUEST


def test_the_limit_is_renamed_in_place():
    older = Dialect(wire=find_wire("openai"), traits=ServerTraits(uses_max_tokens=True))
    body = json.loads(older.body(REQUEST, stream=False))
    assert list(body) == ["model", "max_tokens", "new_field", "messages"]


def test_the_key_is_a_bearer_token():
    assert OPENAI.headers("sk") == {"authorization": "Bearer sk"}
    assert OPENAI.headers("") == {}


# -- whole answers -----------------------------------------------------------------------------------------------------


def read(changed=None, **message):
    whole = json.loads(json.dumps(WHOLE)) | (changed or {})
    whole["choices"][0]["message"] |= message
    return OPENAI.read(json.dumps(whole).encode(), "r")


def test_a_complete_answer():
    reply = read()
    assert reply.parts == (Text(text="Hello! How can I assist you today?"),)
    assert (reply.finish, reply.model, reply.id) == ("stop", "gpt-5.4", "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT")
    assert reply.usage == Usage(prompt=1219, cached=1024, completion=110, reasoning=64)


def test_calls_follow_the_text():
    reply = read(content="Let me see.", tool_calls=CALLS)
    assert reply.parts == (
        Text(text="Let me see."),
        ToolCall(id="call_1", name="look_up", arguments='{"q": "tea"}'),
        ToolCall(id="call_2", name="now", arguments="{}"),
    )
    assert reply.finish == "tool-calls"  # though the server says `stop`


def test_arguments_that_are_not_a_string_are_encoded():
    call = {"id": "c", "function": {"name": "look", "arguments": {"q": "tea"}}}
    assert read(content=None, tool_calls=[call]).calls[0].arguments == '{"q":"tea"}'


def test_a_refusal_is_text_and_filtered():
    reply = read(content=None, refusal="I cannot help with that.")
    assert (reply.text, reply.finish) == ("I cannot help with that.", "filtered")


def test_the_first_choice_is_the_answer():
    choices = [
        {"index": at, "message": {"content": text}, "finish_reason": "stop"} for at, text in [(1, "B"), (0, "A")]
    ]
    assert OPENAI.read(json.dumps({"choices": choices}).encode()).text == "A"


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "filtered"),
        ("tool_calls", "tool-calls"),
        ("model_context_window_exceeded", "overflow"),
        ("abort", "other"),
        (None, "other"),
    ],
)
def test_finish_reasons(reason, finish):
    body = {"choices": [{"index": 0, "message": {"content": "Tea"}, "finish_reason": reason}]}
    assert OPENAI.read(json.dumps(body).encode()).finish == finish


def test_completions_without_messages_are_read_too():
    body = b'{"choices": [{"index": 0, "text": " Thursday.", "finish_reason": "stop"}]}'
    assert TEXT.read(body).text == " Thursday."


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ({"usage": {"prompt_tokens": 9}}, Usage(prompt=9)),
        (  # llama.cpp, without the usage that newer ones tell
            {"usage": None, "timings": {"cache_n": 24, "prompt_n": 8, "predicted_n": 3}},
            Usage(prompt=32, cached=24, completion=3),
        ),
        (  # llama.cpp, older: no details
            {"usage": {"prompt_tokens": 32, "completion_tokens": 3}, "timings": {"cache_n": 24, "prompt_n": 8}},
            Usage(prompt=32, cached=24, completion=3),
        ),
        (  # DeepSeek
            {"usage": {"prompt_tokens": 80, "completion_tokens": 5, "prompt_cache_hit_tokens": 64}},
            Usage(prompt=80, cached=64, completion=5),
        ),
        (  # Moonshot
            {"usage": {"prompt_tokens": 80, "completion_tokens": 5, "cached_tokens": 64}},
            Usage(prompt=80, cached=64, completion=5),
        ),
        (  # xAI: thoughts beside the completion
            {
                "usage": {
                    "prompt_tokens": 32,
                    "completion_tokens": 9,
                    "total_tokens": 135,
                    "completion_tokens_details": {"reasoning_tokens": 94},
                }
            },
            Usage(prompt=32, completion=103, reasoning=94),
        ),
        (
            {
                "usage": {
                    "prompt_tokens": -1,
                    "completion_tokens": "12",
                    "prompt_tokens_details": [],
                    "total_tokens": 1.5,
                }
            },
            Usage(),
        ),
        ({"usage": {}}, None),
        ({"usage": "much"}, None),
    ],
)
def test_usage_of_each_server(told, usage):
    assert read(told).usage == usage


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b'"hi"', b"{", b"\xff\xfe", b"[" * 100_000])
def test_an_unreadable_answer_is_an_error(body):
    with pytest.raises(ProviderError, match="cannot be read") as caught:
        OPENAI.read(body, "r")
    assert (caught.value.route, caught.value.body) == ("r", body)


@pytest.mark.parametrize("body", [b"{}", b'{"choices": []}', b'{"choices": null}', b'{"choices": [7]}', b'{"id": 3}'])
def test_an_answer_without_choices_is_an_error(body):
    with pytest.raises(ProviderError, match="empty or unreadable"):
        OPENAI.read(body)


def test_an_error_with_status_200_is_raised():
    error = {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 14429, "n_ctx": 8192}
    with pytest.raises(ContextOverflow) as caught:
        OPENAI.read(json.dumps({"error": error | {"message": "the request exceeds the context size."}}).encode())
    assert (caught.value.window, caught.value.prompt, caught.value.status) == (8192, 14429, 400)


# -- streams -----------------------------------------------------------------------------------------------------------


def test_a_stream():
    text, thought, reply = read_stream(OPENAI.reader("r"), TALK)
    assert (text, thought, reply.text) == ("Naïve ☕ and 🫖.", "", "Naïve ☕ and 🫖.")
    assert (reply.finish, reply.model, reply.id) == ("stop", "gpt-5.4", "chatcmpl-123")
    assert reply.usage == Usage(prompt=9, completion=12)


def test_fragments_of_calls_are_joined():
    _, _, reply = read_stream(OPENAI.reader("r"), CALLING)
    assert reply.parts == (
        ToolCall(id="c1", name="look", arguments='{"q": "tée"}'),
        ToolCall(id="c2", name="now", arguments="{}"),
    )
    assert reply.finish == "tool-calls"


@given(cuts_of(TALK), cuts_of(CALLING), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_a_stream_reads_the_same_however_it_is_split(talk_cuts, calling_cuts, end):
    for stream, cuts in ((TALK, talk_cuts), (CALLING, calling_cuts)):
        written = stream.replace(b"\n", end)
        assert read_stream(OPENAI.reader("r"), written, cuts) == read_stream(OPENAI.reader("r"), stream)


def test_byte_by_byte():
    assert read_stream(OPENAI.reader("r"), TALK, range(len(TALK))) == read_stream(OPENAI.reader("r"), TALK)


def test_a_later_event_without_usage_keeps_it():
    _, _, reply = stream(chunk({"content": "Tea."}, usage={"prompt_tokens": 9}), chunk(finish="stop"))
    assert reply.usage == Usage(prompt=9)


def test_the_first_choice_is_streamed():
    text, _, reply = stream(
        chunk({"content": "A"}), chunk({"content": "B"}, index=1), chunk(finish="length", index=1), chunk(finish="stop")
    )
    assert (text, reply.text, reply.finish) == ("A", "A", "stop")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_are_separate(field):
    text, thought, reply = stream(chunk({field: "Hm, "}), chunk({field: "tea."}), chunk({"content": "Tea."}, "stop"))
    assert (text, thought, reply.text) == ("Tea.", "Hm, tea.", "Tea.")


def test_mistral_s_blocks_of_thought_and_text():
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]
    text, thought, _ = stream(
        chunk({"content": thinking}), chunk({"content": [{"type": "text", "text": "Tea."}]}, "stop")
    )
    assert (text, thought) == ("Tea.", "Hm.")


def test_calls_with_the_same_index_are_distinguished_by_id():
    call = {"index": 0, "type": "function"}
    one, two = ({**call, "id": id, "function": {"name": "look", "arguments": f'"{id}"'}} for id in ("a", "b"))
    _, _, reply = stream(chunk({"tool_calls": [one]}), chunk({"tool_calls": [two]}), chunk(finish="stop"))
    assert [(call.id, call.arguments) for call in reply.calls] == [("a", '"a"'), ("b", '"b"')]


def test_calls_without_an_id_get_a_stable_one():
    call = {"index": 0, "function": {"name": "look", "arguments": "{}"}}
    ids = {stream(chunk({"tool_calls": [call]}), chunk(finish="stop"))[2].calls[0].id for _ in range(2)}
    other = stream(chunk({"tool_calls": [call]}, id="chatcmpl-124"), chunk(finish="stop"))[2].calls[0].id
    assert len(ids) == 1
    assert other not in ids
    assert other.startswith("call_")


def test_a_refusal_is_streamed():
    text, _, reply = stream(chunk({"refusal": "No."}), chunk(finish="stop"))
    assert (text, reply.finish) == ("No.", "filtered")


NOVELTIES = b"""\
: OPENROUTER PROCESSING

retry: 3
id: 7

event: novelty
data: {"a": 1}

what: now

data: {"choices": null, "usage": null}

data: {"choices": [{"index": null, "delta": null}]}

"""


def test_unknown_fields_are_ignored():
    assert read_stream(OPENAI.reader("r"), NOVELTIES + TALK)[2].text == "Naïve ☕ and 🫖."


@pytest.mark.parametrize("done", [True, False])
def test_an_end_marker_or_a_finish_reason_completes_an_answer(done):
    last = chunk({"content": "Tea."}) if done else chunk({"content": "Tea."}, "stop")
    assert stream(last, done=done)[2].finish == ("other" if done else "stop")


def test_an_unterminated_last_event_counts():
    whole = events(chunk({"content": "Tea."}), chunk(finish="stop")).rstrip(b"\n")
    assert read_stream(OPENAI.reader("r"), whole)[2].finish == "stop"


@pytest.mark.parametrize("stream", [b"", b"data: ", b"data: [DONE]\n\n", TALK[:300], events(chunk({"content": "Te"}))])
def test_a_stream_that_ends_too_early_is_an_error(stream):
    reader = OPENAI.reader("r")
    reader.feed(stream)
    with pytest.raises(ProviderUnavailable, match="broke off"):
        reader.end()


def test_the_partial_reply_is_available():
    reader = OPENAI.reader("r")
    reader.feed(events(chunk({"content": "Te"})))
    assert (reader.partial_reply.text, reader.partial_reply.finish, reader.partial_reply.usage) == (
        "Te",
        "broken-off",
        None,
    )


@pytest.mark.parametrize(
    ("event", "kind", "status"),
    [
        (
            b'data: {"error": {"message": "Overloaded", "type": "server_error", "code": null}}\n\n',
            ProviderUnavailable,
            None,
        ),
        (b'data: {"error": {"code": 502, "message": "Upstream error"}, "choices": []}\n\n', ProviderUnavailable, 502),
        (b'event: error\ndata: {"message": "odd", "code": "bad"}\n\n', ProviderError, None),
        (b"event: error\ndata: down for today\n\n", ProviderError, None),
        (b'error: {"code": 500, "message": "failed"}\n\n', ProviderUnavailable, 500),
        (b'data: {"error": "no such model"}\n\n', ProviderError, None),
        (
            b'event: error\ndata: {"error": {"code": "context_length_exceeded", "message": "Your input is long."}}\n\n',
            ContextOverflow,
            None,
        ),
        (b"data: {broken\n\n", ProviderError, None),
        (b"data: 7\n\n", ProviderError, None),
    ],
)
def test_an_error_in_a_stream_is_raised(event, kind, status):
    reader = OPENAI.reader("r")
    assert reader.feed(events(chunk({"content": "Te"})))[0].text == "Te"
    with pytest.raises(ProviderError) as caught:
        reader.feed(event)
    assert (type(caught.value), caught.value.status, caught.value.route) == (kind, status, "r")
    assert reader.partial_reply.text == "Te"


def test_lone_surrogates_are_replaced():
    stream = b'data: {"choices": [{"delta": {"content": "a\\ud800b"}, "finish_reason": "stop"}]}\n\n'
    assert read_stream(OPENAI.reader("r"), stream)[2].text == "a\N{REPLACEMENT CHARACTER}b"
