"""Run CPU-bound work in a thread, so that it does not block the event loop.

The server decides for each request which threads its work may use. Elsewhere, work runs in asyncio's own threads.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Final, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads(Protocol):
    """Threads that work may use."""

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function in one of the threads. If cancelled, its result is not needed anymore."""


class _DefaultThreads:
    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, work)


_DEFAULT: Final = _DefaultThreads()
_threads: Final[ContextVar[Threads]] = ContextVar("brimful_threads", default=_DEFAULT)


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a thread, like `asyncio.to_thread`, and return its result.

    >>> asyncio.run(run_in_thread(sorted, "cab", reverse=True))
    ['c', 'b', 'a']
    """
    return await _threads.get().run(partial(copy_context().run, work, *args, **kwargs))


def get_threads() -> Threads:
    """Return the threads for the work of the current task."""
    return _threads.get()


@contextmanager
def use_threads(threads: Threads) -> Iterator[None]:
    """Run work in these threads, in the current task and in tasks started by it."""
    token = _threads.set(threads)
    try:
        yield
    finally:
        _threads.reset(token)
