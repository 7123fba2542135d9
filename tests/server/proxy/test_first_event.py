"""The start of a stream: comments are held back until the first event, but only briefly."""

import asyncio
import json

import pytest

from brimful.errors import ContextOverflow, ProviderUnavailable
from brimful.providers import HttpStream, make_dialect
from brimful.server.proxy.stream import MAX_HELD_BYTES, wait_for_first_event
from server.upstream import OVERFLOW, chat_events

COMMENT = b": OPENROUTER PROCESSING\n\n"
REFUSED = f"data: {json.dumps(OVERFLOW)}\n\n".encode()
FAILED = b'data: {"error": {"message": "overloaded", "code": 503}}\n\n'
STREAM = "".join(chat_events("Thursday.")).encode()


class Line:
    """As much of an upstream as is looked at."""

    dialect = make_dialect("openai", "http://127.0.0.1:1")
    route = "r"


def handed_on(*chunks, seconds=0.0):
    """Return what was read before anything is handed on, and all that is handed on; so many seconds are between two."""
    read = []

    async def coming():
        for chunk in chunks:
            if isinstance(chunk, Exception):
                raise chunk
            read.append(chunk)
            yield chunk

    async def begin():
        answering = HttpStream(200, {}, coming())
        await wait_for_first_event(answering, Line(), lambda: seconds * len(read))
        held = len(read)
        return held, [chunk async for chunk in answering.chunks]

    return asyncio.run(begin())


@pytest.mark.parametrize(
    "chunks",
    [(REFUSED,), (COMMENT, COMMENT, REFUSED), (COMMENT + REFUSED,), (REFUSED[:40], REFUSED[40:])],
)
def test_an_overflow_is_detected_in_any_chunking(chunks):
    with pytest.raises(ContextOverflow) as refused:
        handed_on(*chunks, STREAM)
    assert refused.value.window == 256


@pytest.mark.parametrize(
    ("chunks", "held"),
    [
        ((STREAM,), 1),
        ((COMMENT, STREAM, REFUSED), 2),
        ((COMMENT, FAILED, STREAM), 2),
        ((COMMENT, COMMENT), 2),
        ((b"x" * MAX_HELD_BYTES, b"x", STREAM), 2),
        ((), 0),
    ],
)
def test_everything_is_forwarded_after_the_first_event(chunks, held):
    assert handed_on(*chunks) == (held, list(chunks))


def test_comments_are_held_back_only_briefly():
    assert handed_on(*[COMMENT] * 9, STREAM, seconds=2.0) == (4, [*[COMMENT] * 9, STREAM])


def test_a_stream_that_breaks_before_the_first_event_is_an_error():
    with pytest.raises(ProviderUnavailable):
        handed_on(COMMENT, ProviderUnavailable("r", "the answer broke off"))
