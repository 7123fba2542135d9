"""Stream listeners."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.providers import make_dialect
from brimful.server.proxy.stream import EdgeListener, FullListener
from server.upstream import chat_events, message_events

URL = "http://127.0.0.1:1"


def fed(tee, data, size=97):
    for start in range(0, len(data), size):
        tee.feed(data[start : start + size])
    return tee


@pytest.mark.parametrize(("wire", "events"), [("openai", chat_events), ("anthropic", message_events)])
@pytest.mark.parametrize("pieces", [1, 3, 400])
def test_the_edges_of_a_stream_contain_finish_and_usage(wire, events, pieces):
    data = "".join(events(*["word "] * pieces)).encode()
    dialect = make_dialect(wire, URL)
    ends, all_of_it = fed(EdgeListener(dialect, "r", limit=1500), data), fed(FullListener(dialect, "r"), data)
    heard, whole = ends.reply(), all_of_it.reply()
    assert whole.text == "word " * pieces
    assert (heard.finish, heard.usage, heard.model) == (whole.finish, whole.usage, whole.model)
    assert ends.complete
    assert all_of_it.complete


@pytest.mark.parametrize("kind", [EdgeListener, FullListener])
def test_an_interrupted_stream_is_not_complete(kind):
    data = "".join(chat_events("Thurs", "day.")).encode()
    tee = fed(kind(make_dialect("openai", URL), "r"), data[: len(data) // 2])
    assert tee.reply() is not None
    assert not tee.complete


@pytest.mark.parametrize("kind", [EdgeListener, FullListener])
@given(chunks=st.lists(st.binary(max_size=200) | st.sampled_from([b"data: ", b"{}\n\n", b"\n\n", b"data: 7\n\n"])))
def test_no_input_breaks_a_listener(kind, chunks):
    tee = kind(make_dialect("openai", URL), "r")
    for chunk in chunks:
        tee.feed(chunk)
    tee.reply()


def test_a_listener_stops_at_its_limit():
    tee = fed(
        FullListener(make_dialect("openai", URL), "r", limit=5_000),
        b"".join(event.encode() for event in chat_events(*["word "] * 100)),
    )
    assert 0 < len(tee.reply().text) < 500
    assert not tee.complete


def test_a_long_stream_takes_little_memory():
    ends = EdgeListener(make_dialect("openai", URL), "r")
    for _ in range(5000):
        ends.feed(b"data: {}\n\n" * 100)
    assert len(ends) < 200_000
