"""Streams as servers send them, and ways to cut them."""

import json
from itertools import pairwise

from hypothesis import strategies as st


def events(*said, names=(), end="\n\n", done=False):
    """Write server-sent events."""
    lines = []
    for at, data in enumerate(said):
        name = f"event: {names[at]}\n" if names else ""
        lines.append(f"{name}data: {data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)}{end}")
    return "".join([*lines, f"data: [DONE]{end}" if done else ""]).encode()


def named(*said, end="\n\n"):
    """Write server-sent events that bear their type as a name."""
    return events(*said, names=[each["type"] for each in said], end=end)


def lines(*said):
    """Write a JSON value a line."""
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in said).encode()


def read_stream(reader, stream, cuts=()):
    """Feed a stream, cut at these places; return text, thought and the reply."""
    places = [0, *sorted(cuts), len(stream)]
    pieces = [piece for start, end in pairwise(places) for piece in reader.feed(stream[start:end])]
    reply = reader.end()
    return "".join(piece.text for piece in pieces), "".join(piece.thought for piece in pieces), reply


def cuts_of(stream):
    return st.lists(st.integers(0, len(stream)), max_size=40)
