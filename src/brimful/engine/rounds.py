"""Work that is done again and again in the background, so long apart."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from brimful.errors import BrimfulError

_log = logging.getLogger("brimful")


class Rounds:
    """Does a piece of work at once, and then every so many seconds. A failure is told as `trouble`."""

    def __init__(self, work: Callable[[], Awaitable[None]], every: float, trouble: str) -> None:
        """Take what to do, how long to wait between two rounds, and what to say of one that failed."""
        self._work = work
        self._every = every
        self._trouble = trouble
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop, in the middle of a round if need be."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            try:
                await self._work()
            except BrimfulError as error:
                _log.warning("%s: %s", self._trouble, error)
            await asyncio.sleep(self._every)
