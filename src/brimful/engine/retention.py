"""Delete old contexts and responses periodically in the background."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from brimful.core.validation import preview, to_finite_float
from brimful.errors import BrimfulError, InvalidValue
from brimful.protocols import Store
from brimful.records.base import parse_duration
from brimful.records.search import PruneReport

_log = logging.getLogger("brimful")


class PeriodicTask:
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


PRUNE_INTERVAL: Final = 3_600.0  # seconds between two looks: whole hours go

StoreLister = Callable[[], Awaitable[Sequence[Store]]]
PruneCallback = Callable[[PruneReport], Awaitable[None]]


def parse_retention(keep: str | float) -> float:
    """Return for how many seconds builds are kept.

    >>> parse_retention("30d"), parse_retention(3600)
    (2592000.0, 3600.0)
    """
    seconds = parse_duration(keep, "keep") if isinstance(keep, str) else to_finite_float(keep)
    if seconds is None or seconds <= 0:
        raise InvalidValue(
            "keep", f"must be a time such as '30d', or a positive number of seconds, not {preview(keep)}"
        )
    return seconds


async def _ignore_report(gone: PruneReport) -> None:
    """Tell nobody."""
    del gone


class Retention:
    """Looks through stores and lets go what is old. It reads its clock, and whoever tests it says what time it is."""

    def __init__(
        self,
        stores: StoreLister,
        keep: str | float,
        *,
        clock: Callable[[], float],
        tell: PruneCallback = _ignore_report,
    ) -> None:
        """Keep what is younger than `keep`. `tell` is told what went, if anything did."""
        self._stores = stores
        self._keep = parse_retention(keep)
        self._tell = tell
        self._rounds = PeriodicTask(lambda: self.prune(clock()), PRUNE_INTERVAL, "nothing is pruned for now")

    async def prune(self, now: float) -> None:
        """Let go what is old by now. A store that fails spoils it for no other, and is looked at again later."""
        for store in await self._stores():
            try:
                gone = await store.prune(before=now - self._keep)
            except BrimfulError as error:
                _log.warning("what is old in the store of %s stays for now: %s", store.tenant, error)
                continue
            if gone.builds or gone.answers or gone.contents:
                await self._tell(gone)

    def start(self) -> None:
        """Begin to look, at once and then every hour."""
        self._rounds.start()

    async def stop(self) -> None:
        """Stop looking; what is being removed at this moment is removed."""
        await self._rounds.stop()
