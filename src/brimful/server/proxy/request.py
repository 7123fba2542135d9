"""An incoming request to be proxied."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from brimful.core.context import Context
from brimful.records.reply import FinishReason, Reply
from brimful.render.incoming import IncomingWire
from brimful.server.proxy.upstreams import Upstream

LARGE_REQUEST: Final = 131_072  # bytes of a request whose messages are read and counted on another thread


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks: whose records they are, and by which key; without keys, whoever reaches the server."""

    tenant: str
    key: str = ""
    scopes: frozenset[str] = frozenset()


class ProxyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request: as it came, as it is read, who sent it, and who will be asked.

    `withholds` says that its stream was asked for usage in the caller's place, who is not to see it.
    """

    wire: IncomingWire
    raw: bytes
    body: dict[str, Any]
    headers: dict[str, str]
    query: str
    caller: Client
    line: Upstream
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


async def run_in_thread_if_large(asked: ProxyRequest, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Do some work on a request: at once, or on another thread if the request is so large that others would wait."""
    if len(asked.raw) < LARGE_REQUEST:
        return work(*args, **more)
    return await asyncio.to_thread(work, *args, **more)


class ProxyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the answer as far as it came, why it ended, and how long it took."""

    context: Context
    reply: Reply | None
    finish: FinishReason
    seconds: float
