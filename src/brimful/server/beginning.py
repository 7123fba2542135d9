"""How a stream begins. Some upstreams tell only there that a prompt is too long, and some after a comment or two.

Comments say that somebody is at work. They are held back until the first event has come, for what was handed on cannot
be asked for once more; but not for long, since they are there for callers who would else hang up.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Final

from brimful.errors import ContextOverflow, ProviderError
from brimful.providers import Answering
from brimful.providers.dialect import Reader
from brimful.providers.frames import ServerEvents
from brimful.server.upstreams import Line

PATIENCE: Final = 5.0  # seconds after the first comment; what comes later is handed on at once, and all before it
MOST: Final = 65_536  # bytes without a whole event


async def begun(answering: Answering, line: Line, clock: Callable[[], float]) -> None:
    """Wait for the first event of a stream; raise `ContextOverflow` if it tells that."""
    reader, events = line.dialect.reader(line.route), ServerEvents()
    held: list[bytes] = []
    first = clock()
    async for chunk in answering.chunks:
        first = first if held else clock()
        held.append(chunk)
        if _speaks(chunk, reader, events) or sum(map(len, held)) > MOST or clock() - first > PATIENCE:
            break
    answering.chunks = _after(held, answering.chunks)


def _speaks(chunk: bytes, reader: Reader, events: ServerEvents) -> bool:
    """Say whether something was said by now that is no comment."""
    try:
        reader.feed(chunk)
    except ContextOverflow:
        raise
    except ProviderError:
        return True  # whatever else it says is the caller's
    return bool(events.feed(chunk))


async def _after(held: Sequence[bytes], rest: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    for chunk in held:
        yield chunk
    async for chunk in rest:
        yield chunk
