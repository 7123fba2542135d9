"""What is told and kept of one exchange while it goes on."""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from brimful.core.context import Context
from brimful.providers import Answering
from brimful.replies import Finish, Reply
from brimful.server.asked import Answered, Asked
from brimful.server.mode import Mode
from brimful.server.tasks import Tasks
from brimful.server.tee import Tee

CONTEXT_HEADER: Final = "x-brimful-context"
_OURS: Final = ("date", "server")  # told by our own server of itself


class Relayed(msgspec.Struct, frozen=True, kw_only=True):
    """An exchange: who asked, what was sent, and when."""

    asked: Asked
    context: Context | None
    mode: Mode
    tasks: Tasks
    stopping: asyncio.Event
    clock: Callable[[], float]

    def headers(self, answering: Answering) -> dict[str, str]:
        """Return the headers of the answer, and the name of its context."""
        named = {} if self.context is None else {CONTEXT_HEADER: self.context.id}
        return {name: value for name, value in answering.headers.items() if name not in _OURS} | named

    def ended(self, tee: Tee, *, ended: bool) -> None:
        """Keep what was heard of a stream. One that did not come to its end was broken off."""
        reply = tee.reply()
        self._keep(reply, reply.finish if reply and ended and tee.whole else "broken-off")

    async def said(self, tee: Tee) -> None:
        """Keep a stream that is all said, before its end is handed on: who has heard it may go on at once."""
        await self.came(tee.reply())

    async def came(self, reply: Reply | None) -> None:
        """Keep an answer that came at once."""
        kept = self._keep(reply, reply.finish if reply else "other")
        if kept is not None and self.mode.waits:
            await asyncio.shield(kept)

    def _keep(self, reply: Reply | None, finish: Finish) -> asyncio.Task[None] | None:
        if self.context is None:
            return None
        seconds = max(0.0, self.clock() - self.asked.at)
        answered = Answered(context=self.context, reply=reply, finish=finish, seconds=seconds)
        return self.tasks.start(self.mode.keep(self.asked, answered), "keeping an answer")
