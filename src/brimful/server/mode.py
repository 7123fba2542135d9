"""What a server may do with a request before it is sent: a mode prepares it, and keeps what came of it."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from brimful.core.context import Context
from brimful.errors import ContextOverflow
from brimful.server.asked import Answered, Asked
from brimful.server.tee import Tee


class Prepared:
    """A request as it goes out, and its context, which may still be in the making while the upstream works.

    `sent` is called once the request is on its way.
    """

    def __init__(
        self, payload: bytes, context: "asyncio.Future[Context | None]", sent: Callable[[], None] = lambda: None
    ) -> None:
        """Take all of it."""
        self.payload = payload
        self.context = context
        self.sent = sent


class Mode(Protocol):
    """Prepares requests."""

    @property
    def name(self) -> str:
        """What callers call it."""
        ...

    @property
    def waits(self) -> bool:
        """Whether an answer that came at once is handed on only when it is kept; what is no answer is refused then."""
        ...

    async def prepare(self, asked: Asked) -> Prepared:
        """Return the request that is to be sent."""
        ...

    async def smaller(self, asked: Asked, context: Context, refused: ContextOverflow) -> Prepared | None:
        """Learn from a refusal, and return a request that the upstream should take; None if there is no smaller one."""
        ...

    def listen(self, asked: Asked) -> Tee:
        """Return what is to be told of the answer as it comes."""
        ...

    async def keep(self, asked: Asked, answered: Answered) -> None:
        """Keep what came of it."""
        ...


def done(context: Context) -> "asyncio.Future[Context | None]":
    """Return a context that is there already as one that may be waited for."""
    future: asyncio.Future[Context | None] = asyncio.get_running_loop().create_future()
    future.set_result(context)
    return future
