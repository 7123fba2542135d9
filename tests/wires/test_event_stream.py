"""Events in arbitrary chunks."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brimful.wires.event_stream import JsonLinesDecoder, LineDecoder, ServerEventDecoder, StreamEvent

texts = st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\r\n", b"\xc3\xa9", b": ", b"data", b""]), max_size=30)


def fed(frames, chunks):
    return [each for chunk in chunks for each in frames.feed(chunk)] + frames.end()


@example([b"a\r\nb\r\n"], [2, 6])
@given(texts, st.lists(st.integers(0, 60), max_size=12))
def test_lines_are_the_same_however_the_bytes_are_split(pieces, cuts):
    whole = b"".join(pieces)
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    chunks = [whole[start:end] for start, end in pairwise(places)]
    *ended, rest = re.split(rb"\r\n|\n|\r", whole)
    assert fed(LineDecoder(), chunks) == [*ended, *([rest] if rest else [])]


@given(texts)
def test_events_are_the_same_byte_by_byte(pieces):
    whole = b"".join(pieces)
    assert fed(ServerEventDecoder(), [bytes([byte]) for byte in whole]) == fed(ServerEventDecoder(), [whole])


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\ndata:b\n\n", [StreamEvent(b"a\nb")]),
        (b"event: x\n\ndata: a\n\n", [StreamEvent(b"a")]),  # a name without data names nothing
        (b"event: x\ndata: a\n\ndata: b\n\n", [StreamEvent(b"a", "x"), StreamEvent(b"b")]),
        (b"\xef\xbb\xbfdata: a\n\n", [StreamEvent(b"a")]),
        (b": data: a\n\nid: 1\nretry: 9\n\n", []),
        (b"data\n\n", [StreamEvent(b"")]),
        (b"data:  a\n\n", [StreamEvent(b" a")]),
        (b"data: a", [StreamEvent(b"a")]),
        (b"\n\n\n", []),
    ],
)
def test_events_follow_the_standard_except_at_the_end(stream, expected):
    assert fed(ServerEventDecoder(), [stream]) == expected


def test_lines_of_json_are_events():
    assert fed(JsonLinesDecoder(), [b'{"a"', b":1}\r\n\n  \n{}"]) == [StreamEvent(b'{"a":1}'), StreamEvent(b"{}")]


def test_a_long_line_is_read_once():
    lines, chunk = LineDecoder(), b"x" * 1_000
    for _ in range(50_000):  # 50 MB: copying them anew with each chunk would move terabytes
        assert lines.feed(chunk) == []
    assert [len(line) for line in lines.feed(b"\n")] == [50_000_000]
