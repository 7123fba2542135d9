"""One request for an answer, as all of the server sees it."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from brimful.core.context import Context
from brimful.render.given import GivenWire
from brimful.replies import Finish, Reply
from brimful.server.upstreams import Line

LARGE: Final = 131_072  # bytes of a request whose messages are read and counted on another thread


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks: whose records they are, and by which key; without keys, whoever reaches the server."""

    tenant: str
    key: str = ""
    scopes: frozenset[str] = frozenset()


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request: as it came, as it is read, who sent it, and who will be asked.

    `withholds` says that its stream was asked for usage in the caller's place, who is not to see it.
    """

    wire: GivenWire
    raw: bytes
    body: dict[str, Any]
    headers: dict[str, str]
    query: str
    caller: Caller
    line: Line
    at: float
    withholds: bool = False

    @property
    def model(self) -> str:
        """The model that it names."""
        name = self.body.get("model")
        return name if isinstance(name, str) else ""

    @property
    def streams(self) -> bool:
        """Whether the answer is wanted piece by piece."""
        return self.body.get("stream") is True


P = ParamSpec("P")
T = TypeVar("T")


async def aside(asked: Asked, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Do some work on a request: at once, or on another thread if the request is so large that others would wait."""
    if len(asked.raw) < LARGE:
        return work(*args, **more)
    return await asyncio.to_thread(work, *args, **more)


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the answer as far as it came, why it ended, and how long it took."""

    context: Context
    reply: Reply | None
    finish: Finish
    seconds: float
