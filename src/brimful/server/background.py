"""Background tasks that outlive their request. The server waits for them when it stops."""

import asyncio
import logging
import traceback
from collections.abc import Coroutine
from typing import Any, Final

MAX_TASKS: Final = 512  # pieces of work; beyond that, new requests wait for old ones to be kept

_log = logging.getLogger("brimful.server")


class BackgroundTasks:
    """Runs work in the background. What fails is logged, and harms nobody else."""

    def __init__(self, most: int = MAX_TASKS) -> None:
        """Begin with nothing to do."""
        self._most = most
        self._running: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return how much is under way."""
        return len(self._running)

    def start(self, work: Coroutine[Any, Any, object], what: str) -> asyncio.Task[None]:
        """Begin a piece of work."""
        task = asyncio.create_task(_run_logged(work, what))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def room(self) -> None:
        """Wait until there is room for more: memory is not to grow with a store that is slow."""
        while len(self._running) >= self._most:
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)

    async def settle(self, patience: float) -> None:
        """Wait for what is under way now, so many seconds at the most."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=patience)

    async def drain(self) -> None:
        """Wait until all is done, what was begun meanwhile included."""
        while self._running:
            await asyncio.wait(self._running)


async def _run_logged(work: Coroutine[Any, Any, object], what: str) -> None:
    try:
        await work
    except Exception as error:  # noqa: BLE001 - nobody waits for it, so that it can only be told here
        log_failure(what, error)


def log_failure(what: str, error: Exception) -> None:
    """Tell where something failed. Messages of errors stay out: they may quote what was said."""
    places = "".join(traceback.format_tb(error.__traceback__))
    _log.error("%s failed: %s\n%s", what, type(error).__name__, places)
