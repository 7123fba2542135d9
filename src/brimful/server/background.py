"""Background tasks that outlive their request, for which the server waits when it stops, and the shutdown itself."""

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from traceback import walk_tb
from typing import Any, Final

from brimful.server.work import Share
from brimful.threads import get_threads, use_threads

MAX_TASKS: Final = 512  # beyond that, new requests wait
_LOGGED_CALLS: Final = 8  # innermost calls of an error

_log = logging.getLogger("brimful.server")


class Shutdown:
    """Shutdown events: `started` when no more requests are accepted, `forced` when running answers are cut off."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.forced = asyncio.Event()


class BackgroundTasks:
    """Runs tasks in the background. Failures are logged."""

    def __init__(self, limit: int = MAX_TASKS) -> None:
        self._limit = limit
        self._running: set[asyncio.Task[bool]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def start(self, work: Coroutine[Any, Any, object], what: str) -> asyncio.Task[bool]:
        """Start a task that returns whether the work succeeded. `what` names it in the log.

        It may use as much processor time as the request that started it.
        """
        threads = get_threads()
        with use_threads(threads.renew() if isinstance(threads, Share) else threads):
            task = asyncio.create_task(_run_logged(work, what))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def wait_for_capacity(self) -> None:
        """Wait until there is capacity for another task, so that a slow store does not fill the memory."""
        while len(self._running) >= self._limit:
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)

    async def wait(self, seconds: float) -> None:
        """Wait for the current tasks, up to this many seconds."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=seconds)

    async def drain(self) -> None:
        """Wait until all tasks are done, including those started meanwhile."""
        while self._running:
            await asyncio.wait(self._running)


async def _run_logged(work: Coroutine[Any, Any, object], what: str) -> bool:
    try:
        await work
    except Exception as error:  # noqa: BLE001 - nobody awaits the task, so its failure is logged here
        log_failure(what, error)
        return False
    return True


def log_failure(what: str, error: Exception) -> None:
    """Log an error in one line, without its message, which may quote content."""
    calls = [f"{Path(frame.f_code.co_filename).name}:{line}" for frame, line in walk_tb(error.__traceback__)]
    _log.error("%s failed: %s at %s", what, type(error).__name__, " > ".join(calls[-_LOGGED_CALLS:]))
