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
from brimful.server.tee import Tee

CONTEXT_HEADER: Final = "x-brimful-context"
_OURS: Final = ("date", "server")  # told by our own server of itself


class Relayed(msgspec.Struct, frozen=True, kw_only=True):
    """An exchange: who asked, what was sent, and when."""

    asked: Asked
    context: Context | None
    mode: Mode
    stopping: asyncio.Event
    clock: Callable[[], float]

    def headers(self, answering: Answering) -> dict[str, str]:
        """Return the headers of the answer, and the name of its context."""
        named = {} if self.context is None else {CONTEXT_HEADER: self.context.id}
        return {name: value for name, value in answering.headers.items() if name not in _OURS} | named

    def ended(self, tee: Tee, *, ended: bool) -> None:
        """Keep what was heard of a stream. One that did not come to its end was broken off."""
        reply = tee.reply()
        self.keep(reply, reply.finish if reply and ended and tee.whole else "broken-off")

    def keep(self, reply: Reply | None, finish: Finish) -> None:
        """Keep what came of it."""
        if self.context is not None:
            seconds = max(0.0, self.clock() - self.asked.at)
            self.mode.keep(self.asked, Answered(context=self.context, reply=reply, finish=finish, seconds=seconds))
