"""The jobs of one tenant, as workers claim and finish them."""

from collections.abc import Callable
from typing import TypeVar

from brimful.stores.backends.driver import Driver
from brimful.stores.session import Session
from brimful.stores.tables import jobs as _jobs
from brimful.stores.tables.jobs import Job

T = TypeVar("T")


class Jobs:
    """The jobs of one tenant. A worker that is not the holder of a job changes nothing."""

    def __init__(self, driver: Driver, tenant: str) -> None:
        self._driver = driver
        self._tenant = tenant

    async def claim(self, job: Job, worker: str, *, now: float, lease: float) -> bool:
        """Claim a job for `lease` seconds, and return whether that succeeded."""
        return await self._write(lambda session: _jobs.claim_job(session, job, worker, now=now, lease=lease))

    async def renew(self, job: Job, worker: str, *, now: float, lease: float) -> bool:
        """Claim a job for `lease` seconds more. Returns False if another worker has taken it."""
        return await self._write(lambda session: _jobs.renew_job(session, job, worker, now=now, lease=lease))

    async def release(self, job: Job, worker: str) -> None:
        """Give back an unfinished job, so that any worker can claim it at once."""
        await self._write(lambda session: _jobs.release_job(session, job, worker))

    async def fail(self, job: Job, worker: str, *, error: str, due: float) -> None:
        """Note that a job failed, and when it is tried again."""
        await self._write(lambda session: _jobs.fail_job(session, job, worker, error=error, due=due))

    async def reschedule(self, job: Job, worker: str, *, due: float, idle: bool = False) -> None:
        """Note that a job is done, and when it is due again. If it was `idle`, there was nothing to do."""
        await self._write(lambda session: _jobs.reschedule_job(session, job, worker, due=due, idle=idle))

    async def finish(self, job: Job, worker: str) -> None:
        """Remove a job that is done."""
        await self._write(lambda session: _jobs.finish_job(session, job, worker))

    async def finish_embedding(self, job: Job, worker: str) -> None:
        """Remove a job that embeds, unless more was queued meanwhile, or written to be indexed later."""
        await self._write(lambda session: _jobs.finish_embedding(session, job, worker))

    async def retry(self, job: Job, *, now: float) -> bool:
        """Make a failed job due now, and return whether it waited."""
        return await self._write(lambda session: _jobs.retry_job(session, job, now=now))

    async def discard(self, job: Job) -> bool:
        """Remove a failed job that nobody works on, and return whether it was there."""
        return await self._write(lambda session: _jobs.discard_job(session, job))

    async def _write(self, function: Callable[[Session], T]) -> T:
        return await self._driver.write(self._tenant, function)
