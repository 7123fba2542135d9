"""A request goes to its upstream, and the answer comes back, whole or piece by piece."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.responses import Response

from brimful.errors import ContextOverflow, ProviderError
from brimful.providers import Answering
from brimful.server.asked import Asked
from brimful.server.beginning import begun
from brimful.server.mode import Mode, Prepared
from brimful.server.relayed import Relayed
from brimful.server.streaming import Streamed
from brimful.server.tasks import Tasks
from brimful.server.upstreams import PATHS, hiding_our_key
from brimful.server.watching import Watch


class Relay:
    """Sends requests on. `stopping` ends the streams that are still under way when it is set."""

    def __init__(self, *, tasks: Tasks, stopping: asyncio.Event, watch: Watch, clock: Callable[[], float]) -> None:
        """Take who keeps what came of them, and what tells the time, and the end of it."""
        self._tasks = tasks
        self._watch = watch
        self._stopping = stopping
        self._clock = clock

    async def answer(self, asked: Asked, mode: Mode) -> Response:
        """Return the upstream's answer. A prompt that it finds too long is made smaller, and sent once more."""
        prepared = await mode.prepare(asked)
        seconds = max(0.0, self._clock() - asked.at)
        await self._watch.tell("sent", asked.caller.tenant, mode=mode.name, route=asked.line.route, seconds=seconds)
        try:
            return await self._sent(asked, mode, prepared)
        except ContextOverflow as refused:
            context = await prepared.context
            smaller = None if context is None else await mode.smaller(asked, context, refused)
            if smaller is None:
                raise
            return await self._sent(asked, mode, smaller)
        finally:
            if not prepared.context.done():
                prepared.context.cancel()

    async def _sent(self, asked: Asked, mode: Mode, prepared: Prepared) -> Response:
        async with AsyncExitStack() as held:
            answering = await held.enter_async_context(_asking(asked, prepared))
            in_events = _comes_in_events(answering)
            if in_events:
                await begun(answering, asked.line, self._clock)
            relayed = Relayed(
                asked=asked,
                context=await prepared.context,
                mode=mode,
                tasks=self._tasks,
                stopping=self._stopping,
                clock=self._clock,
            )
            if in_events:
                return Streamed(answering, held.pop_all(), relayed, mode.listen(asked), asked.wire)
            return await _whole(await answering.read(), answering, relayed)


@asynccontextmanager
async def _asking(asked: Asked, prepared: Prepared) -> AsyncGenerator[Answering, None]:
    line, path = asked.line, PATHS[asked.wire] + (f"?{asked.query}" if asked.query else "")
    headers = line.headers(asked.headers)
    with hiding_our_key(line):
        async with line.connection.stream(path, prepared.payload, headers=headers, sent=prepared.sent) as answering:
            yield answering


def _comes_in_events(answering: Answering) -> bool:
    return answering.headers.get("content-type", "").startswith("text/event-stream")


async def _whole(body: bytes, answering: Answering, relayed: Relayed) -> Response:
    line = relayed.asked.line
    try:
        reply = line.dialect.read(body, line.route)
    except ProviderError:
        await relayed.came(None)
        if relayed.mode.waits:
            raise
        return Response(body, status_code=answering.status, headers=relayed.headers(answering))
    await relayed.came(reply)
    return Response(body, status_code=answering.status, headers=relayed.headers(answering))
