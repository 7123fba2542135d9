"""Lines as a person types them, without holding up what goes on meanwhile."""

import asyncio
import contextlib
import io
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def next_line(prompt: str) -> str:
    """Wait for a line; raise `EOFError` where there is none to come.

    The thread that waits is left behind if we are interrupted: nobody can wake it but the person at the keys.
    """
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def settle(done: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if typed.done() else done())

    def read() -> None:
        try:
            line = input(prompt)
        except EOFError as end:
            ended = end  # the name in the clause is gone by the time it is told
            settle(lambda: typed.set_exception(ended))
        else:
            settle(lambda: typed.set_result(line))

    threading.Thread(target=read, daemon=True).start()
    return await typed


async def breakable(work: Awaitable[T]) -> T:
    """Wait for something that Ctrl-C cancels, and nothing else with it, where the platform can."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError):
        loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        return await task
    finally:
        with contextlib.suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGINT)


def recall_lines() -> None:
    """Let the arrow keys bring earlier lines back, where the platform can. What is no text spoils only itself."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - importing it is what changes `input`
