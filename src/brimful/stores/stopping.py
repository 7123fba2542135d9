"""Long work on another thread, which ends early when nobody waits for it any more."""

import asyncio
from collections.abc import Callable, Coroutine
from threading import Event
from typing import Any

GoOn = Callable[[], None]
"""Is asked now and then by the work, and ends it where nobody waits for it."""


class StoppedError(Exception):
    """Whoever waited for the work was cancelled."""


async def stoppable(work: Callable[[GoOn], Coroutine[Any, Any, None]]) -> None:
    """Wait for work. If the waiting is cancelled, the work ends at its next question, and has tidied up by then.

    A thread cannot be cancelled: without this, Ctrl-C would wait for the end of a copy, however large.
    """
    stop = Event()

    def go_on() -> None:
        if stop.is_set():
            raise StoppedError

    task = asyncio.ensure_future(work(go_on))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # nobody else asks for it
        raise
