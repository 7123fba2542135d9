"""Jobs: found without walking through tenants, and claimed by one worker at a time."""

import asyncio
from threading import Event

import numpy as np
import psycopg

from brimful.records import Message
from brimful.retrieval.documents import make_document
from brimful.stores.tables.jobs import Job
from stores.samples import make_message

JOB = Job(tenant="acme", kind="embed", subject="e")


async def queue(database, *tenants):
    for tenant in tenants:
        store = database.tenant(tenant)
        await store.use_embedder("e")
        await store.post([make_message("m1", "tea for two")])


async def due(database, now=100.0):
    return sorted(job.tenant for job in await database.due_jobs("embed", "e", now=now))


def test_a_message_that_waits_for_a_vector_is_a_job(database, run):
    run(queue(database, "acme", "beta"))
    assert run(due(database)) == ["acme", "beta"]
    assert run(database.due_jobs("embed", "another", now=100.0)) == []
    run(database.tenant("acme").post([make_message("m2", "again")]))
    assert run(due(database)) == ["acme", "beta"]  # one job at most
    run(database.tenant("acme").drop_embedder("e"))
    assert run(due(database)) == ["beta"]


def test_every_tenant_has_a_janitor_and_a_retention_job(database, run):
    run(queue(database, "acme"))
    assert {job.kind for job in run(database.list_jobs())} - {"graph"} == {"embed", "janitor", "retention"}


def test_a_job_belongs_to_one_worker_until_its_lease_ends(database, run):
    run(queue(database, "acme"))
    jobs = database.jobs("acme")
    assert run(jobs.claim(JOB, "one", now=100.0, lease=90.0))
    assert not run(jobs.claim(JOB, "two", now=189.0, lease=90.0))
    assert run(due(database, now=189.0)) == []
    assert run(jobs.renew(JOB, "one", now=180.0, lease=90.0))
    assert run(due(database, now=269.0)) == []
    assert run(jobs.claim(JOB, "two", now=270.0, lease=90.0))
    assert not run(jobs.renew(JOB, "one", now=271.0, lease=90.0))
    run(jobs.fail(JOB, "one", error="TimeoutError", due=999.0))  # too late: it is no longer its job
    assert run(database.list_jobs(failed=True)) == []
    assert not run(database.jobs("beta").claim(JOB, "three", now=1e9, lease=90.0))  # another tenant has no such job


def test_a_released_job_can_be_claimed_at_once(database, run):
    run(queue(database, "acme"))
    jobs = database.jobs("acme")
    run(jobs.claim(JOB, "one", now=100.0, lease=90.0))
    run(jobs.release(JOB, "one"))
    assert run(jobs.claim(JOB, "two", now=100.0, lease=90.0))
    run(jobs.release(JOB, "one"))
    assert not run(jobs.claim(JOB, "three", now=100.0, lease=90.0))


def test_a_failed_job_waits_and_can_be_retried(database, run):
    run(queue(database, "acme"))
    jobs = database.jobs("acme")
    run(jobs.claim(JOB, "one", now=100.0, lease=90.0))
    run(jobs.fail(JOB, "one", error="TimeoutError", due=500.0))
    (failed,) = run(database.list_jobs(failed=True))
    assert (failed.tenant, failed.error, failed.attempts, failed.due) == ("acme", "TimeoutError", 1, 500.0)
    assert run(due(database, now=499.0)) == []
    assert run(jobs.retry(failed, now=200.0))
    assert not run(jobs.retry(failed, now=200.0))
    assert run(due(database, now=200.0)) == ["acme"]


def test_a_job_is_removed_when_the_queue_is_empty(database, run):
    run(queue(database, "acme"))
    store, jobs = database.tenant("acme"), database.jobs("acme")
    run(jobs.claim(JOB, "one", now=100.0, lease=90.0))
    run(jobs.finish_embedding(JOB, "one"))  # a document was queued meanwhile
    assert run(due(database)) == ["acme"]
    run(jobs.claim(JOB, "one", now=100.0, lease=90.0))
    documents = run(store.backlog("e"))
    run(store.save_vectors("e", [each.doc for each in documents], np.ones((len(documents), 8), dtype=np.float32)))
    run(jobs.finish_embedding(JOB, "one"))
    assert run(due(database)) == []
    run(store.post([make_message("m2", "again")]))
    assert run(due(database)) == ["acme"]


def test_a_job_stays_while_messages_are_to_be_indexed(database, run):
    store, jobs = database.tenant("acme"), database.jobs("acme")
    run(store.use_embedder("e"))
    assert run(jobs.claim(JOB, "one", now=0.0, lease=90.0))
    run(store.load_records([Message(id="m", room="r", content="Tea.")], make_document, defer=True))
    run(jobs.finish_embedding(JOB, "one"))
    assert run(due(database)) == ["acme"]


def test_an_idle_job_remembers_its_rounds(database, run):
    run(queue(database, "acme"))
    job, jobs = Job(tenant="acme", kind="janitor"), database.jobs("acme")

    async def rounds(*, idle):
        (found,) = await database.due_jobs("janitor", now=100.0)
        await jobs.claim(job, "one", now=100.0, lease=90.0)
        await jobs.reschedule(job, "one", due=100.0, idle=idle)
        return found.attempts

    assert [run(rounds(idle=idle)) for idle in (True, True, False, True)] == [0, 1, 2, 0]


def test_due_jobs_are_read_from_an_index(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        connection.execute(
            "INSERT INTO jobs (tenant, kind, subject, due) "
            "SELECT 't' || n, 'embed', 'e', n FROM generate_series(1, 20000) n"
        )
        connection.execute("ANALYZE jobs")
        plan = connection.execute(
            "EXPLAIN SELECT tenant FROM jobs WHERE kind = 'embed' AND subject = 'e' AND due <= 9 AND lease <= 9 "
            "ORDER BY due LIMIT 100"
        ).fetchall()
        connection.rollback()
    assert "jobs_by_due" in str(plan)


def test_waiting_jobs_are_counted_over_all_tenants(database, run):
    run(queue(database, "acme", "beta"))
    assert run(database.count_jobs(now=100.0))["embed"] == 2
    run(database.jobs("acme").claim(JOB, "one", now=100.0, lease=90.0))
    assert run(database.count_jobs(now=100.0))["embed"] == 1
    run(database.jobs("acme").fail(JOB, "one", error="TimeoutError", due=999.0))
    assert run(database.count_jobs(now=998.0))["embed"] == 1
    assert run(database.count_jobs(now=999.0))["embed"] == 2
    assert run(database.count_jobs(now=0.0, failed=True)) == {"embed": 1}


def test_calls_that_run_or_wait_are_counted(database, run):
    blocked, entered = Event(), Event()

    def wait(session):
        entered.set()
        blocked.wait(60)
        return session.tenant

    async def story():
        before = database.use
        calls = [asyncio.create_task(database.driver.read("acme", wait)) for _ in range(before.size + 3)]
        await asyncio.to_thread(entered.wait, 60)
        during = database.use
        blocked.set()
        await asyncio.gather(*calls)
        return before, during, database.use

    before, during, after = run(story())
    assert (before.in_use, before.waiting) == (after.in_use, after.waiting) == (0, 0)
    assert during.size == before.size > 1
    assert during.in_use + during.waiting == before.size + 3
    assert during.waiting >= 3
