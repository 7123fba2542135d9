"""Records of contexts, written in quiet: with their answers if these come soon, and without them if not.

To write one down takes the interpreter for some milliseconds. While an upstream's first words are about to come, they
would have to wait for that. So a record waits for the answer, which is then written in the same transaction.
"""

import asyncio
from contextlib import suppress
from typing import Final

import msgspec

from brimful.records import Response, Snapshot
from brimful.server.tasks import Tasks
from brimful.server.tenants import Tenants

PATIENCE: Final = 0.25  # seconds for which a context waits for its answer before it is written without


class _Waiting(msgspec.Struct, frozen=True):
    answer: asyncio.Future[Response]
    written: asyncio.Task[None]


class Records:
    """Writes contexts and answers in the background."""

    def __init__(self, tenants: Tenants, tasks: Tasks, patience: float = PATIENCE) -> None:
        """Take where they are kept, and who waits for that when the server stops."""
        self._tenants = tenants
        self._tasks = tasks
        self._patience = patience
        self._waiting: dict[tuple[str, str], _Waiting] = {}

    def keep(self, tenant: str, snapshot: Snapshot) -> None:
        """Keep a context, before long. The first of an id stands."""
        key = (tenant, snapshot.id)
        if key in self._waiting:
            return
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        written = self._tasks.start(self._write(tenant, snapshot, answer), "keeping a context")
        self._waiting[key] = _Waiting(answer, written)
        written.add_done_callback(lambda _: self._waiting.pop(key))

    async def answered(self, tenant: str, response: Response) -> None:
        """Keep the answer to a context: with it, or after it, for it is counted with its context."""
        waiting = self._waiting.get((tenant, response.context))
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(response)
            return
        if waiting is not None:
            await asyncio.wait([waiting.written])
        await self._tenants.store(tenant).respond(response)

    async def _write(self, tenant: str, snapshot: Snapshot, answer: "asyncio.Future[Response]") -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                await answer  # one that comes later finds it cancelled, and is written by itself
        await self._tenants.store(tenant).save(snapshot, None if answer.cancelled() else answer.result())
