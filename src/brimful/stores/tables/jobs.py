"""Jobs: work to do in the background, claimed by workers for a limited time.

A job is found by a plain read over all tenants, and claimed by an update of one tenant's row. So finding work does not
walk through the tenants, and no statement locks rows of several of them, which a distributed database refuses.
"""

from typing import Final, Literal

import msgspec

from brimful.stores.session import Row, Session

JobKind = Literal["embed", "count", "graph", "janitor", "summarize", "retention", "import"]

_READ: Final = "SELECT tenant, kind, subject, due, worker, lease, attempts, error FROM jobs"
_DUE: Final = "AND due <= :now AND lease <= :now ORDER BY due LIMIT :limit"
DUE_JOBS: Final = f"{_READ} WHERE kind = :kind AND subject = :subject {_DUE}"
DUE_JOBS_OF_KIND: Final = f"{_READ} WHERE kind = :kind {_DUE}"
ALL_JOBS: Final = f"{_READ} ORDER BY due, tenant LIMIT :limit"
WAITING_JOBS: Final = "SELECT kind, count(*) FROM jobs WHERE due <= :now AND lease <= :now GROUP BY kind"
FAILED_JOBS_BY_KIND: Final = "SELECT kind, count(*) FROM jobs WHERE error <> '' GROUP BY kind"
FAILED_JOBS: Final = f"{_READ} WHERE error <> '' ORDER BY due, tenant LIMIT :limit"
_ADD: Final = """
INSERT INTO jobs (tenant, kind, subject, due) VALUES (:tenant, :kind, :subject, 0) ON CONFLICT DO NOTHING
"""
_CLAIM: Final = """
UPDATE jobs SET worker = :worker, lease = :lease, attempts = attempts + 1
WHERE tenant = :tenant AND kind = :kind AND subject = :subject AND due <= :now AND lease <= :now
"""
_OWN: Final = "WHERE tenant = :tenant AND kind = :kind AND subject = :subject AND worker = :worker AND lease > 0"
_RENEW: Final = f"UPDATE jobs SET lease = :lease {_OWN}"  # noqa: S608 - as below
_RELEASE: Final = f"UPDATE jobs SET lease = 0, attempts = attempts - 1 {_OWN}"  # noqa: S608 - as below
_FAIL: Final = f"UPDATE jobs SET lease = 0, due = :due, error = :error {_OWN}"  # noqa: S608 - as below
_RESCHEDULE: Final = f"UPDATE jobs SET lease = 0, due = :due, attempts = attempts * :idle, error = '' {_OWN}"  # noqa: S608 - as below
_DISCARD: Final = """
DELETE FROM jobs WHERE tenant = :tenant AND kind = :kind AND subject = :subject AND error <> '' AND lease = 0
"""
_DELETE: Final = f"DELETE FROM jobs {_OWN}"  # noqa: S608 - our own condition
_QUEUED: Final = """
SELECT 1 FROM embedding_queue WHERE tenant = :tenant AND embedder = :embedder
UNION ALL SELECT 1 FROM rooms WHERE tenant = :tenant AND unindexed IS NOT NULL LIMIT 1
"""
_RETRY: Final = """
UPDATE jobs SET due = :now
WHERE tenant = :tenant AND kind = :kind AND subject = :subject AND due > :now AND error <> ''
"""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Work to do for a tenant.

    `subject` is the embedder of a job on vectors, the tokenizer to count with, or the file to import. `worker` has
    claimed it until `lease`. A job that failed has an `error`, the type of the exception, and is tried again when it is
    `due`. `attempts` are those since something was done.
    """

    tenant: str
    kind: JobKind
    subject: str = ""
    due: float = 0.0
    worker: str = ""
    lease: float = 0.0
    attempts: int = 0
    error: str = ""


def decode_job(row: Row) -> Job:
    """Return the job of a row, whose columns are in the order of the fields."""
    return Job(**dict(zip(Job.__struct_fields__, row, strict=True)))


def add_job(session: Session, kind: JobKind, subject: str = "") -> bool:
    """Add a job that is due now, unless there is one. Returns whether it was added."""
    return bool(session.run(_ADD, kind=kind, subject=subject))


def claim_job(session: Session, job: Job, worker: str, *, now: float, lease: float) -> bool:
    """Claim a job for `lease` seconds, and return whether that succeeded."""
    return bool(session.run(_CLAIM, kind=job.kind, subject=job.subject, worker=worker, now=now, lease=now + lease))


def renew_job(session: Session, job: Job, worker: str, *, now: float, lease: float) -> bool:
    """Claim a job for `lease` seconds more. Returns False if another worker has taken it."""
    return bool(session.run(_RENEW, kind=job.kind, subject=job.subject, worker=worker, lease=now + lease))


def release_job(session: Session, job: Job, worker: str) -> None:
    """Give back an unfinished job, so that any worker can claim it at once."""
    session.run(_RELEASE, kind=job.kind, subject=job.subject, worker=worker)


def fail_job(session: Session, job: Job, worker: str, *, error: str, due: float) -> None:
    """Note that a job failed, and when it is tried again."""
    session.run(_FAIL, kind=job.kind, subject=job.subject, worker=worker, error=error, due=due)


def reschedule_job(session: Session, job: Job, worker: str, *, due: float, idle: bool = False) -> None:
    """Note that a job is done, and when it is due again. If it was `idle`, there was nothing to do."""
    session.run(_RESCHEDULE, kind=job.kind, subject=job.subject, worker=worker, due=due, idle=int(idle))


def finish_job(session: Session, job: Job, worker: str) -> None:
    """Remove a job that is done."""
    session.run(_DELETE, kind=job.kind, subject=job.subject, worker=worker)


def finish_embedding(session: Session, job: Job, worker: str) -> None:
    """Remove a job that embeds, unless more was queued meanwhile, or written to be indexed later."""
    session.dialect.lock(session, "embedders")  # whoever queues documents holds it, and finds or adds the job
    if session.row(_QUEUED, embedder=job.subject):
        reschedule_job(session, job, worker, due=0.0)
    else:
        finish_job(session, job, worker)


def retry_job(session: Session, job: Job, *, now: float) -> bool:
    """Make a failed job due now, and return whether it waited."""
    return bool(session.run(_RETRY, kind=job.kind, subject=job.subject, now=now))


def discard_job(session: Session, job: Job) -> bool:
    """Remove a failed job that nobody works on, and return whether it was there."""
    return bool(session.run(_DISCARD, kind=job.kind, subject=job.subject))
