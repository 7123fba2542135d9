"""Whatever a server sends gives an answer or one of our errors."""

import json
from contextlib import suppress
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.errors import ProviderError
from brimful.providers import make_dialect
from providers import test_anthropic, test_gemini, test_ollama, test_openai

STREAMS = {
    "openai": test_openai.TALK + test_openai.CALLING,
    "anthropic": test_anthropic.STREAM,
    "gemini": test_gemini.STREAM,
    "ollama": test_ollama.STREAM,
}
WHOLE = {
    "openai": test_openai.WHOLE,
    "anthropic": test_anthropic.WHOLE,
    "gemini": test_gemini.make_reply(
        {"text": "a"}, {"functionCall": {"name": "b"}}, finish="STOP", usage=test_gemini.USAGE
    ),
    "ollama": test_ollama.make_reply("a", tool_calls=[{"function": {"name": "b"}}]) | test_ollama.END,
}
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def places(value, path=()):
    """Return the path to everything in some JSON data."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in children for place in places(child, (*path, key)))]


def changed(value, path, other):
    if not path:
        return other
    value = deepcopy(value)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = other
    return value


@pytest.mark.parametrize("wire", WHOLE)
@given(data=st.data())
def test_a_complete_answer_with_arbitrary_values(wire, data):
    path = data.draw(st.sampled_from(places(WHOLE[wire])))
    body = json.dumps(changed(WHOLE[wire], path, data.draw(values))).encode()
    with suppress(ProviderError):
        assert make_dialect(wire, "http://h").read(body, "r").finish


@pytest.mark.parametrize("wire", STREAMS)
@given(data=st.data())
def test_a_stream_with_arbitrary_values(wire, data):
    lines = STREAMS[wire].replace(b"\r\n", b"\n").split(b"\n")
    at = data.draw(st.sampled_from([at for at, line in enumerate(lines) if line.endswith(b"}")]))
    head, _, said = lines[at].rpartition(b"data: ")
    event = json.loads(said)
    other = changed(event, data.draw(st.sampled_from(places(event))), data.draw(values))
    lines[at] = head + (b"data: " if wire != "ollama" else b"") + json.dumps(other).encode()
    reader = make_dialect(wire, "http://h").reader("r")
    with suppress(ProviderError):
        read_all(reader, b"\n".join(lines))
    assert reader.partial_reply.finish


@pytest.mark.parametrize("wire", STREAMS)
@given(st.binary(max_size=200))
def test_a_stream_of_any_bytes(wire, stream):
    reader = make_dialect(wire, "http://h").reader("r")
    with pytest.raises(ProviderError):
        read_all(reader, stream)


def read_all(reader, stream):
    reader.feed(stream)
    reader.end()
