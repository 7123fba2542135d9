"""Gemini's dialect."""

import json

import pytest
from hypothesis import given

from brimful import Text, ToolCall
from brimful.errors import ContextOverflow, ProviderError, ProviderUnavailable
from brimful.records import Usage
from brimful.wires import find_wire
from brimful.wires.dialect import Dialect
from providers.streams import cuts_of, events, read_stream

GEMINI = Dialect(wire=find_wire("gemini"))

USAGE = {
    "promptTokenCount": 2500,
    "candidatesTokenCount": 40,
    "totalTokenCount": 2640,
    "cachedContentTokenCount": 2048,
    "thoughtsTokenCount": 100,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 2500}],
}


def make_reply(*parts, finish=None, usage=None, **more):
    candidate = {"content": {"parts": list(parts), "role": "model"}} | ({"finishReason": finish} if finish else {})
    return {
        "candidates": [candidate | more],
        "usageMetadata": usage or {"promptTokenCount": 2500, "totalTokenCount": 2500},
        "modelVersion": "gemini-3-pro",
        "responseId": "Il0taoSYJ5Cez7",
    }


STREAM = events(
    make_reply({"text": "Hm, tea?", "thought": True}),
    make_reply({"text": "Naïve "}),
    make_reply({"text": "☕🫖", "thoughtSignature": "EjQK"}),
    make_reply({"functionCall": {"name": "look", "args": {"q": "tée"}}, "thoughtSignature": "EjQK"}),
    make_reply({"functionCall": {"id": "f2", "name": "now"}}),
    make_reply({"text": ""}, finish="STOP", usage=USAGE),
    end="\r\n\r\n",
)


def read(body):
    return GEMINI.read(json.dumps(body).encode(), "r")


def test_request_path_headers_and_body():
    request = {"model": "models/gemini-3-pro", "contents": [], "generationConfig": {"new": 1}}
    assert json.loads(GEMINI.body(request, stream=True)) == {"contents": [], "generationConfig": {"new": 1}}
    assert GEMINI.path(request, stream=False) == "/models/gemini-3-pro:generateContent"
    assert GEMINI.path(request, stream=True) == "/models/gemini-3-pro:streamGenerateContent?alt=sse"
    assert GEMINI.path({"model": "my model?"}, stream=False) == "/models/my%20model%3F:generateContent"
    assert GEMINI.headers("k") == {"x-goog-api-key": "k"}
    assert GEMINI.headers("") == {}


def test_a_complete_answer():
    reply = read(make_reply({"text": "Hm.", "thought": True}, {"text": "Tea."}, finish="STOP", usage=USAGE, index=0))
    assert reply.parts == (Text(text="Tea."),)
    assert (reply.finish, reply.model, reply.id) == ("stop", "gemini-3-pro", "Il0taoSYJ5Cez7")
    assert reply.usage == Usage(prompt=2500, cached=2048, completion=140, reasoning=100)


def test_a_stream():
    text, thought, reply = read_stream(GEMINI.reader("r"), STREAM)
    assert (text, thought) == ("Naïve ☕🫖", "Hm, tea?")
    assert reply.text == text
    assert [(call.name, call.arguments) for call in reply.calls] == [("look", '{"q":"tée"}'), ("now", "{}")]
    assert reply.finish == "tool-calls"  # though the server says STOP
    assert reply.usage == Usage(prompt=2500, cached=2048, completion=140, reasoning=100)


def test_calls_without_an_id_get_a_stable_one():
    one, two = (read_stream(GEMINI.reader("r"), STREAM)[2].calls for _ in range(2))
    assert one == two
    assert one[0].id.startswith("call_")
    assert one[1].id == "f2"


@given(cuts_of(STREAM))
def test_a_stream_reads_the_same_however_it_is_split(cuts):
    assert read_stream(GEMINI.reader("r"), STREAM, cuts) == read_stream(GEMINI.reader("r"), STREAM)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "filtered"),
        ("RECITATION", "filtered"),
        ("PROHIBITED_CONTENT", "filtered"),
        ("MALFORMED_FUNCTION_CALL", "other"),
        ("LANGUAGE", "other"),
    ],
)
def test_finish_reasons(reason, finish):
    assert read(make_reply({"text": "Tea"}, finish=reason)).finish == finish


def test_a_blocked_prompt_is_filtered():
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}}
    reply = read(blocked)
    assert (reply.parts, reply.finish, reply.usage) == ((), "filtered", Usage(prompt=9))
    assert read_stream(GEMINI.reader("r"), events(blocked))[2] == reply


def test_the_first_candidate_is_the_answer():
    body = make_reply({"text": "A"}, finish="STOP")
    body["candidates"].append({"index": 1, "content": {"parts": [{"text": "B"}]}, "finishReason": "MAX_TOKENS"})
    assert (read(body).text, read(body).finish) == ("A", "stop")


def test_unknown_parts_are_ignored():
    reply = read(
        make_reply({"executableCode": {"code": "1"}}, {"text": "Tea"}, {"inlineData": {"data": "AA"}}, finish="STOP")
    )
    assert reply.parts == (Text(text="Tea"),)


def test_a_stream_that_ends_too_early_is_an_error():
    with pytest.raises(ProviderUnavailable, match="broke off"):
        read_stream(GEMINI.reader("r"), events(make_reply({"text": "Te"})))


def test_errors_come_as_an_object_or_in_a_list():
    message = "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."
    error = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    with pytest.raises(ContextOverflow) as caught:
        read_stream(GEMINI.reader("r"), events(error))
    overflow = caught.value
    assert (overflow.window, overflow.prompt, overflow.input_only, overflow.status) == (1048575, 1196265, True, 400)


@pytest.mark.parametrize("body", [{}, {"candidates": []}, {"usageMetadata": USAGE}])
def test_an_answer_without_candidates_is_an_error(body):
    with pytest.raises(ProviderError, match="empty or unreadable"):
        read(body)


def test_an_answer_without_parts_is_an_empty_one():
    reply = read({"candidates": [{"finishReason": "MAX_TOKENS", "content": {"role": "model"}}]})
    assert (reply.parts, reply.finish) == ((), "length")
    assert reply.calls == ()


def test_calls_are_calls():
    reply = read(make_reply({"functionCall": {"id": "x", "name": "look", "args": {"n": 1}}}, finish="STOP"))
    assert reply.parts == (ToolCall(id="x", name="look", arguments='{"n":1}'),)
