"""The jobs of one tenant, as workers claim and finish them."""

from collections.abc import Callable
from typing import TypeVar

from brimful.stores.session import Session
from brimful.stores.tables import jobs as _jobs
from brimful.stores.transactions import Transactions, WriteMethod

T = TypeVar("T")


class Jobs(Transactions):
    """The jobs of one tenant. A worker that is not the holder of a job changes nothing."""

    claim = WriteMethod(_jobs.claim_job)
    renew = WriteMethod(_jobs.renew_job)
    release = WriteMethod(_jobs.release_job)
    fail = WriteMethod(_jobs.fail_job)
    reschedule = WriteMethod(_jobs.reschedule_job)
    finish = WriteMethod(_jobs.finish_job)
    finish_embedding = WriteMethod(_jobs.finish_embedding)
    retry = WriteMethod(_jobs.retry_job)
    discard = WriteMethod(_jobs.discard_job)

    async def _write(self, function: Callable[[Session], T]) -> T:
        return await self._driver.write(self._tenant, function)  # no keys: a job has no content
