"""A thread pool for CPU-bound work that runs the newest request of each tenant first.

Dragging a slider sends a new request before the last one is answered. The newest must not wait for outdated ones, and
one tenant must not hold up another.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

WORKERS: Final = 2  # threads; each holds the GIL most of the time

T = TypeVar("T")


class NewestFirstExecutor:
    """Runs work in threads of its own: tenants take turns, and the newest work of each comes first."""

    def __init__(self, workers: int = WORKERS) -> None:
        self._free = workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="brimful-what-if")
        self._waiting: OrderedDict[str, list[asyncio.Future[None]]] = OrderedDict()

    async def run(self, tenant: str, work: Callable[[], T]) -> T:
        """Run a function in a thread. If cancelled before it starts, it is dropped."""
        await self._enter(tenant)
        loop = asyncio.get_running_loop()
        job = self._pool.submit(work)

        def ended(_: Future[Any]) -> None:
            loop.call_soon_threadsafe(self._leave)

        job.add_done_callback(ended)
        return await asyncio.wrap_future(job)

    async def close(self) -> None:
        """Wait for running work."""
        await asyncio.to_thread(self._pool.shutdown)

    async def _enter(self, tenant: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, []).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was cancelled just as its turn came
                self._leave()
            raise

    def _leave(self) -> None:
        """Pass the slot to the newest work of the next tenant."""
        while self._waiting:
            tenant, turns = next(iter(self._waiting.items()))
            turn = turns.pop()
            self._waiting.move_to_end(tenant)
            if not turns:
                del self._waiting[tenant]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
