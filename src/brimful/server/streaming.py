"""An answer on its way from an upstream to a caller, piece by piece, untouched."""

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from brimful.errors import BrimfulError, ProviderError
from brimful.providers import Answering
from brimful.server.errors import Refusal, Tongue, refusal_of, told
from brimful.server.relayed import Relayed
from brimful.server.tee import Tee
from brimful.server.usage import Withheld


class Streamed(Response):
    """Hands on what comes, as it comes.

    The upstream's connection is let go however it ends. A caller who leaves ends it, and so does the server when it
    stops and its grace is over; a caller who is still there is told then, as of an upstream that broke off.
    """

    def __init__(self, answering: Answering, held: AsyncExitStack, relayed: Relayed, tee: Tee, tongue: Tongue) -> None:
        """Take an answer that has begun, and what holds its connection."""
        super().__init__(status_code=answering.status, headers=relayed.headers(answering))
        self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"]
        self._answering = answering
        self._held = held
        self._relayed = relayed
        self._tee = tee
        self._tongue = tongue
        self._withheld = Withheld() if relayed.asked.withholds else None
        self._kept = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        del scope
        ended = False
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            ended = await self._until_ended(receive, send)
        finally:
            with suppress(BrimfulError):
                await self._held.aclose()
            if not self._kept:
                self._relayed.ended(self._tee, ended=ended)

    async def _until_ended(self, receive: Receive, send: Send) -> bool:
        pump = asyncio.create_task(self._pump(send))
        gone = asyncio.create_task(until_gone(receive))
        cut = asyncio.create_task(self._relayed.stopping.wait())
        try:
            await asyncio.wait({pump, gone, cut}, return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                error = pump.exception()
                if isinstance(error, ProviderError):
                    await self._say(send, refusal_of(error, self._tongue))
                elif error is not None:
                    raise error
                else:
                    await self._end(send)
                return error is None
            if cut.done():
                pump.cancel()
                with suppress(asyncio.CancelledError, ProviderError):
                    await pump
                await self._say(send, Refusal("stopping", "the server is stopping: the answer is not complete"))
            return False
        finally:
            for task in (pump, gone, cut):
                task.cancel()
            await asyncio.gather(pump, gone, cut, return_exceptions=True)

    async def _pump(self, send: Send) -> None:
        async for chunk in self._answering.chunks:
            self._tee.feed(chunk)
            if self._tee.over and not self._kept:
                self._kept = True
                await self._relayed.said(self._tee)
            shown = chunk if self._withheld is None else self._withheld.feed(chunk)
            if shown:
                await send({"type": "http.response.body", "body": shown, "more_body": True})

    async def _end(self, send: Send) -> None:
        """End a stream; if the upstream ended it before the answer was whole, say so."""
        self._tee.reply()
        if self._tee.cut:
            await self._say(send, Refusal("upstream", "the answer broke off: the stream ended before it was whole"))
        else:
            await send({"type": "http.response.body", "body": self._rest(), "more_body": False})

    async def _say(self, send: Send, refusal: Refusal) -> None:
        """End a stream with an error, in the form that it has within streams."""
        said = told(refusal, self._tongue)
        name = b"event: error\n" if self._tongue == "anthropic" else b""
        last = self._rest() + b"\n\n" + name + b"data: " + said + b"\n\n"
        await send({"type": "http.response.body", "body": last, "more_body": False})

    def _rest(self) -> bytes:
        return b"" if self._withheld is None else self._withheld.end()


async def until_gone(receive: Receive) -> None:
    """Wait until the caller has left."""
    message: Any = {}
    while message.get("type") != "http.disconnect":
        message = await receive()
