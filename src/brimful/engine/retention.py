"""Delete old contexts and responses periodically in the background."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Final

from brimful.core.validation import preview, to_finite_float
from brimful.errors import BrimfulError, InvalidValue
from brimful.records.base import parse_duration
from brimful.records.contexts import PruneReport
from brimful.stores import Store

PRUNE_INTERVAL: Final = 3_600.0  # seconds; whole hours are deleted

StoreLister = Callable[[], AsyncIterator[Store]]
PruneCallback = Callable[[PruneReport], Awaitable[None]]

_log = logging.getLogger("brimful")


def parse_interval(interval: str | float, field: str) -> float:
    """Return a positive duration in seconds.

    >>> parse_interval("15m", "janitor_interval"), parse_interval(10, "janitor_interval")
    (900.0, 10.0)
    """
    seconds = parse_duration(interval, field) if isinstance(interval, str) else to_finite_float(interval)
    if seconds is None or seconds <= 0:
        allowed = "a duration such as '30d' or a positive number of seconds"
        raise InvalidValue(field, f"must be {allowed}, not {preview(interval)}")
    return seconds


def parse_retention(retention: str | float) -> float:
    """Return a retention time in seconds. It is at least an hour, since whole hours are deleted.

    >>> parse_retention("30d"), parse_retention(3600)
    (2592000.0, 3600.0)
    """
    seconds = parse_interval(retention, "retention")
    if seconds < PRUNE_INTERVAL:
        raise InvalidValue(
            "retention", f"must be at least '1h', since records are deleted by the hour, not {preview(retention)}"
        )
    return seconds


async def _ignore_report(report: PruneReport) -> None:
    del report


class Retention:
    """Deletes contexts and responses that are older than the retention time from all stores."""

    def __init__(
        self,
        stores: StoreLister,
        retention: str | float,
        *,
        clock: Callable[[], float],
        on_pruned: PruneCallback = _ignore_report,
    ) -> None:
        self._stores = stores
        self._seconds = parse_retention(retention)
        self._on_pruned = on_pruned
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    async def prune(self, now: float) -> None:
        """Delete records that are too old. If a store fails, the others are still pruned."""
        async for store in self._stores():
            try:
                report = await store.prune(before=now - self._seconds)
            except BrimfulError as error:
                _log.warning("pruning the store of %s failed and will be retried: %s", store.tenant, error)
                continue
            if report.builds or report.answers or report.contents:
                await self._on_pruned(report)

    def start(self) -> None:
        """Prune now and then every hour."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop, even while records are pruned."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            try:
                await self.prune(self._clock())
            except BrimfulError as error:
                _log.warning("pruning failed and will be retried: %s", error)
            await asyncio.sleep(PRUNE_INTERVAL)
