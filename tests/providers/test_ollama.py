"""Ollama's dialect."""

import json

import pytest
from hypothesis import given

from brimful import Text, ToolCall
from brimful.core.prompt import Message, Prompt
from brimful.errors import ContextOverflow, ProviderError, ProviderUnavailable
from brimful.records import Usage
from brimful.wires import find_wire
from brimful.wires.dialect import Dialect
from providers.streams import cuts_of, lines, read_stream

OLLAMA = Dialect(wire=find_wire("ollama"))

END = {
    "done": True,
    "done_reason": "stop",
    "total_duration": 4883583458,
    "load_duration": 1334875,
    "prompt_eval_count": 26,
    "prompt_eval_duration": 342546000,
    "eval_count": 282,
    "eval_duration": 4535599000,
}


def make_reply(content="", *, at="2026-11-04T08:52:19.385406455Z", **message):
    return {
        "model": "qwen3",
        "created_at": at,
        "message": {"role": "assistant", "content": content, **message},
        "done": False,
    }


STREAM = lines(
    make_reply(thinking="Hm, "),
    make_reply(thinking="tea?"),
    make_reply("Naïve "),
    make_reply("☕🫖"),
    make_reply(tool_calls=[{"function": {"name": "look", "arguments": {"q": "tée"}}}]),
    make_reply(tool_calls=[{"id": "call_9", "function": {"index": 1, "name": "now", "arguments": {}}}]),
    make_reply() | END,
)


def read(body):
    return OLLAMA.read(json.dumps(body).encode(), "r")


def test_request_path_headers_and_body():
    request = {"model": "m", "stream": False, "options": {"num_ctx": 8192}, "messages": [], "keep_alive": "5m"}
    assert json.loads(OLLAMA.body(request, stream=False)) == request
    assert json.loads(OLLAMA.body(request, stream=True)) == request | {"stream": True}
    assert OLLAMA.path(request, stream=True) == OLLAMA.path(request, stream=False) == "/api/chat"
    assert OLLAMA.headers("") == {}
    assert OLLAMA.headers("k") == {"authorization": "Bearer k"}


def test_rendered_requests_set_the_window_and_disable_truncation():
    prompt = Prompt(model="qwen3", messages=(Message(role="user", parts=(Text(text="Hi"),)),), max_output=99)
    body = json.loads(OLLAMA.body(find_wire("ollama").render(prompt, window=8192), stream=True))
    assert body["options"] == {"num_ctx": 8192, "num_predict": 99}
    assert (body["truncate"], body["shift"], body["stream"]) == (False, False, True)


def test_a_complete_answer():
    reply = read(make_reply("Tea.", thinking="Hm.") | END)
    assert reply.parts == (Text(text="Tea."),)
    assert (reply.finish, reply.model, reply.id) == ("stop", "qwen3", "")
    assert reply.usage == Usage(prompt=26, completion=282)


def test_a_stream():
    text, thought, reply = read_stream(OLLAMA.reader("r"), STREAM)
    assert (text, thought) == ("Naïve ☕🫖", "Hm, tea?")
    assert reply.text == text
    assert [(call.name, call.arguments) for call in reply.calls] == [("look", '{"q":"tée"}'), ("now", "{}")]
    assert reply.calls[1].id == "call_9"
    assert (reply.finish, reply.usage) == ("tool-calls", Usage(prompt=26, completion=282))


def test_calls_without_ids_get_one_that_differs_from_answer_to_answer():
    call = {"tool_calls": [{"function": {"name": "look", "arguments": {}}}] * 2}
    one, again, other = (read(make_reply(at=at, **call) | END).calls for at in ("2026-1", "2026-1", "2026-2"))
    assert one == again
    assert len({call.id for call in (*one, *other)}) == 4


@given(cuts_of(STREAM))
def test_a_stream_reads_the_same_however_it_is_split(cuts):
    assert read_stream(OLLAMA.reader("r"), STREAM, cuts) == read_stream(OLLAMA.reader("r"), STREAM)


def test_an_unterminated_last_line_counts():
    assert read_stream(OLLAMA.reader("r"), STREAM.rstrip(b"\n")) == read_stream(OLLAMA.reader("r"), STREAM)


@pytest.mark.parametrize(
    ("told", "finish", "usage"),
    [
        ({"done": True, "done_reason": "length", "prompt_eval_count": 9}, "length", Usage(prompt=9)),
        ({"done": True, "done_reason": "unload"}, "other", None),
        ({"done": True}, "stop", None),  # before 0.1.40
        ({"done": True, "done_reason": "stop", "eval_count": 3}, "stop", Usage(completion=3)),  # all was cached
    ],
)
def test_finish_reasons_and_usage(told, finish, usage):
    reply = read(make_reply("Tea") | told)
    assert (reply.finish, reply.usage) == (finish, usage)


def test_a_stream_that_ends_too_early_is_an_error():
    with pytest.raises(ProviderUnavailable, match="broke off"):
        read_stream(OLLAMA.reader("r"), lines(make_reply("Te")) + b'{"model": "qw')


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("an error was encountered while running the model: unexpected EOF", ProviderError),
        ("the prompt is longer than the context length currently available to the model", ContextOverflow),
        ({"message": "llama runner process no longer running: 2", "code": 500}, ProviderUnavailable),
    ],
)
def test_an_error_in_a_stream_is_raised(error, kind):
    reader = OLLAMA.reader("r")
    reader.feed(lines(make_reply("Te")))
    with pytest.raises(ProviderError) as caught:
        reader.feed(lines({"error": error}))
    assert type(caught.value) is kind
    assert reader.partial_reply.text == "Te"


def test_calls_are_calls():
    call = {"id": "x", "function": {"name": "look", "arguments": {"n": 1}}}
    assert read(make_reply(tool_calls=[call]) | END).parts == (ToolCall(id="x", name="look", arguments='{"n":1}'),)


@pytest.mark.parametrize("body", [{}, {"done": True}, {"models": []}])
def test_an_answer_without_a_message_is_an_error(body):
    with pytest.raises(ProviderError, match="empty or unreadable"):
        read(body)
