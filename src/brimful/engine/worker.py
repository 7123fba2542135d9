"""Do the background work of all tenants: embed, count tokens, clean up, summarize, delete old records, import files.

Jobs are rows of the store. A worker claims one for a limited time and renews the claim while it works, so several
workers share the work, and that of a killed one is taken up by another.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, assert_never

import msgspec

from brimful.engine.counts import prepare_tokenizer, store_counts
from brimful.engine.engine import Engine
from brimful.engine.events import Emitter, Hook
from brimful.engine.indexer import BATCH_DOCUMENTS, Indexer, wait_for_first
from brimful.engine.janitor import JanitorReport
from brimful.engine.own_calls import OwnCalls
from brimful.engine.retention import PRUNE_INTERVAL, parse_interval, parse_retention
from brimful.engine.transfer import ImportFile, import_file
from brimful.engine.writer import new_id
from brimful.errors import BrimfulError, SpendingLimitReached, StoreError, StoreUnavailable
from brimful.protocols import Embedder
from brimful.records.own_calls import SpendingLimit
from brimful.retrieval.breaker import Breaker
from brimful.retrieval.retriever import EMBED_SECONDS
from brimful.stores import Database
from brimful.stores.tables.jobs import Job, JobKind

LEASE: Final = 90.0  # seconds after which a job whose worker sends no heartbeat is free again
HEARTBEAT: Final = 20.0  # seconds between two heartbeats
CONCURRENCY: Final = 4  # jobs of a worker at once
POLL_SECONDS: Final = 2.0  # between two looks for jobs; a server that wrote something looks at once
_PAGE_JOBS: Final = 100  # jobs per read
_SLICE_BATCHES: Final = 32  # batches that a tenant embeds in a row; then other jobs get their turn
_MAX_OUTAGE_DELAY: Final = 30.0  # seconds between two attempts to reach the store; it begins with 1 second
_FIRST_RETRY: Final = 10.0  # seconds after the first failure; doubled with each further one
_LAST_RETRY: Final = 3_600.0  # seconds at most
_MAX_DOUBLINGS: Final = 16  # of a delay
_IDLE_ROUNDS: Final = 3  # doublings of the janitor's interval where it finds nothing to do

_NEARLY: Final = 0.25  # of the size from which there is a graph
_GRAPH_INTERVAL: Final = 3_600.0  # seconds between two looks at the size of such a tenant
_SMALL_GRAPH_INTERVAL: Final = 86_400.0  # … of a smaller one

Outcome = Literal["done", "failed", "postponed", "stopped", "lost"]
"""`postponed`: the janitor is at work on the tenant elsewhere, or own calls have reached their daily limit. `stopped`:
given back when the worker was stopped. `lost`: another worker has taken the job.
"""

_log = logging.getLogger("brimful")


class WorkReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker did with a job.

    `count` is the number of embedded documents, counted texts, collapsed floods, summaries, deleted records or imported
    records.
    """

    tenant: str
    kind: JobKind
    outcome: Outcome
    count: int = 0
    seconds: float = 0.0
    error: str = ""


class WorkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker does: which jobs, how often the janitor runs, and how long contexts and responses are kept.

    Without an embedder, interval, retention or folder of files to import, the jobs of that kind are left to other
    workers; so are those of other `kinds`, if any are named. The job `summarize` needs to be named, or an interval.
    With a `model`, it lets the model write the summaries.
    """

    kinds: frozenset[JobKind] = frozenset()
    embedder: Embedder | None = None
    janitor_interval: float | None = None
    retention: float | None = None
    model: str | None = None
    provider: str = ""
    focus: str = ""
    own_calls: SpendingLimit = SpendingLimit()
    import_folder: Path | None = None
    batch: int = BATCH_DOCUMENTS
    embed_seconds: float = EMBED_SECONDS

    def find_subjects(self) -> dict[JobKind, str | None]:
        """Return the kinds of jobs to do, each with the subject of these jobs, or None for any."""
        subjects: dict[JobKind, str | None] = {"count": None}
        if self.embedder is not None:
            subjects |= {"embed": self.embedder.id, "graph": self.embedder.id}
        if self.retention is not None:
            subjects["retention"] = ""
        if self.janitor_interval is not None:
            subjects |= {"janitor": "", "summarize": ""}
        if "summarize" in self.kinds:
            subjects["summarize"] = ""
        if self.import_folder is not None:
            subjects["import"] = None
        return {kind: subject for kind, subject in subjects.items() if not self.kinds or kind in self.kinds}


def work_settings(
    *, embedder: Embedder | None, janitor_interval: str | float | None, retention: str | float | None
) -> WorkSettings:
    """Return the settings of a worker, taken from the settings of a server."""
    return WorkSettings(
        embedder=embedder,
        janitor_interval=None if janitor_interval is None else parse_interval(janitor_interval, "janitor_interval"),
        retention=None if retention is None else parse_retention(retention),
    )


def retry_delay(attempts: int) -> float:
    """Return the seconds until a job is tried again after so many failures.

    >>> retry_delay(1), retry_delay(2), retry_delay(99)
    (10.0, 20.0, 3600.0)
    """
    return min(_LAST_RETRY, _FIRST_RETRY * 2.0 ** min(attempts - 1, _MAX_DOUBLINGS))


class _StoppedError(Exception):
    """The worker is stopping: the job is given back."""


class _PostponedError(Exception):
    """The job is tried again when it is `due`."""

    def __init__(self, due: float) -> None:
        super().__init__()
        self.due = due


class RejectedDocumentsError(Exception):
    """The embedder rejects some documents, though it works. They stay in the queue."""


OpenEngine = Callable[[str], Awaitable[Engine]]
"""Returns the open engine of a tenant, for the janitor and for imports."""
OnReport = Callable[[WorkReport], None]


class Worker:
    """Takes jobs of all tenants from a database, several at a time."""

    def __init__(
        self,
        database: Database,
        settings: WorkSettings,
        *,
        open_engine: OpenEngine,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        hooks: Sequence[Hook] = (),
        on_report: OnReport = lambda _: None,
        concurrency: int = CONCURRENCY,
    ) -> None:
        self._database = database
        self._settings = settings
        self._open_engine = open_engine
        self._clock = clock
        self._pause = sleep
        self._hooks = tuple(hooks)
        self._on_report = on_report
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._tenants: Counter[str] = Counter()  # the number of jobs that run
        self.name = new_id("worker")
        self._order = random.Random(self.name)  # noqa: S311 - so that workers do not all claim the same job first
        self._stopping = asyncio.Event()
        self._wake = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._lost: set[asyncio.Task[None]] = set()
        self._loop: asyncio.Task[None] | None = None

    @property
    def running(self) -> int:
        """The number of jobs that are being done."""
        return len(self._running)

    def start(self) -> None:
        """Work in the background until `stop`."""
        self._loop = asyncio.create_task(self.run(), name="brimful-worker")

    def wake(self) -> None:
        """Look for jobs now."""
        self._wake.set()

    async def open_store(self) -> None:
        """Open the database. While it cannot be reached, wait and try again, until `stop`."""
        failures = 0
        while not self._stopping.is_set():
            try:
                await self._database.open()
            except StoreUnavailable as error:
                if not error.retriable:
                    raise
                failures += 1
                await self._wait_out(error, failures)
            else:
                return

    async def run(self) -> None:
        """Work until `stop`. If the store fails, that is logged and retried."""
        failures = 0
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                await self.run_due()
            except BrimfulError as error:
                failures += 1
                await self._wait_out(error, failures)
            else:
                failures = 0
                await self._sleep(POLL_SECONDS)

    async def run_due(self) -> int:
        """Do all jobs that are due now, and return their number."""
        total = 0
        while not self._stopping.is_set():
            jobs = await self._list_due()
            if not jobs and not self._running:
                break
            self._order.shuffle(jobs)
            started = sum([await self._start(job) for job in jobs])
            total += started
            if self._running and not started:
                await self._wait_for_jobs()
        if self._running:
            await asyncio.wait(self._running)
        return total

    async def _wait_for_jobs(self) -> None:
        """Wait until a job ends, or until there may be new ones: they do not wait for all others to end."""
        ended = asyncio.wait(set(self._running), timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        await wait_for_first(ended, self._wake.wait())
        self._wake.clear()

    async def stop(self, grace: float = 10.0) -> None:
        """Stop after the batches in progress. Jobs that are still running after `grace` seconds are given back."""
        self._stopping.set()
        self._wake.set()
        if self._running:
            await asyncio.wait(self._running, timeout=grace)
        for task in set(self._running):
            task.cancel()
        loop, self._loop = self._loop, None
        await asyncio.gather(*self._running, *([loop] if loop is not None else []), return_exceptions=True)

    async def _wait_out(self, error: BrimfulError, failures: int) -> None:
        delay = min(_MAX_OUTAGE_DELAY, 2.0 ** min(failures - 1, _MAX_DOUBLINGS))
        _log.warning("no jobs can be read; trying again in %.0f seconds: %s", delay, error)
        await self._sleep(delay)

    async def _sleep(self, seconds: float) -> None:
        if not self._stopping.is_set():
            await wait_for_first(self._wake.wait(), self._pause(seconds))

    async def _list_due(self) -> list[Job]:
        now = self._clock()
        return [
            job
            for kind, subject in self._settings.find_subjects().items()
            for job in await self._database.due_jobs(kind, subject, now=now, limit=_PAGE_JOBS)
        ]

    async def _start(self, job: Job) -> bool:
        """Claim a job and work on it in the background, as soon as a slot is free. Returns whether it was claimed.

        The jobs of one tenant never take all slots, since they may last for hours.
        """
        await self._slots.acquire()
        if self._tenants[job.tenant] >= max(1, self._concurrency - 1):
            self._slots.release()
            return False
        claimed = False
        try:
            claimed = not self._stopping.is_set() and await self._database.jobs(job.tenant).claim(
                job, self.name, now=self._clock(), lease=LEASE
            )
        finally:
            if not claimed:
                self._slots.release()
        if claimed:
            task = asyncio.create_task(self._work(job), name=f"brimful-{job.kind}")
            self._running.add(task)
            self._tenants[job.tenant] += 1
            task.add_done_callback(partial(self._end, job.tenant))
        return claimed

    def _end(self, tenant: str, task: asyncio.Task[None]) -> None:
        self._tenants[tenant] -= 1
        self._tenants += Counter()  # drops the zeros
        self._running.discard(task)
        self._lost.discard(task)
        self._slots.release()

    async def _work(self, job: Job) -> None:
        """Do a job and note the outcome. A job that cannot be noted is free again when its lease ends."""
        started, jobs = self._clock(), self._database.jobs(job.tenant)
        outcome: Outcome = "done"
        count, failure = 0, ""
        try:
            try:
                async with self._heartbeat(job):
                    count = await self._perform(job)
            except (_StoppedError, asyncio.CancelledError):
                outcome = "lost" if asyncio.current_task() in self._lost else "stopped"
                await jobs.release(job, self.name)
            except _PostponedError as postponed:
                outcome = "postponed"
                await jobs.reschedule(job, self.name, due=postponed.due)
            except Exception as error:  # noqa: BLE001 - an embedder may be user code, and other jobs go on
                outcome, failure = "failed", type(error).__name__  # not its message, which may quote content
                _log.warning("the %s job of tenant %s failed and will be retried: %s", job.kind, job.tenant, failure)
                due = self._clock() + retry_delay(job.attempts + 1)
                await jobs.fail(job, self.name, error=failure, due=due)
        except BrimfulError as error:
            outcome, failure = "failed", type(error).__name__
            _log.warning("the outcome of a %s job of tenant %s was not saved: %s", job.kind, job.tenant, error)
        seconds = self._clock() - started
        self._on_report(
            WorkReport(tenant=job.tenant, kind=job.kind, outcome=outcome, count=count, seconds=seconds, error=failure)
        )
        events = Emitter(self._hooks, tenant=job.tenant, clock=self._clock)
        await events.emit("worked", None, kind=job.kind, outcome=outcome, count=count, seconds=seconds)

    async def _perform(self, job: Job) -> int:
        match job.kind:
            case "embed":
                work = self._embed
            case "count":
                work = self._count
            case "graph":
                work = self._update_graph
            case "janitor":
                work = self._clean_up
            case "summarize":
                work = self._summarize
            case "retention":
                work = self._prune
            case "import":
                work = self._import
            case _:
                assert_never(job.kind)
        return await work(job)

    async def _embed(self, job: Job) -> int:
        embedder = self._settings.embedder
        if embedder is None:
            return 0
        now, store = self._clock(), self._database.tenant(job.tenant)
        events = Emitter(self._hooks, tenant=job.tenant, clock=self._clock)
        own_calls = OwnCalls(store, self._settings.own_calls, clock=self._clock, events=events)
        indexer = Indexer(
            store,
            own_calls.meter(embedder) or embedder,
            breaker=Breaker(now=now, failures=1, cooldown=_FIRST_RETRY),
            clock=self._clock,
            batch=self._settings.batch,
            time_limit=self._settings.embed_seconds,
        )
        limit = _SLICE_BATCHES * self._settings.batch
        try:
            count = await indexer.embed_queued(self._check_stopped, limit=limit)
        except SpendingLimitReached as error:
            raise _PostponedError(error.until) from error
        if indexer.skipped:
            raise RejectedDocumentsError
        jobs = self._database.jobs(job.tenant)
        if count >= limit:
            await jobs.reschedule(job, self.name, due=self._clock())  # behind the jobs of others
        else:
            await jobs.finish_embedding(job, self.name)
        return count

    async def _count(self, job: Job) -> int:
        """Count the tokens of all contents without a count. One that has a count is not counted again."""
        store, count, after = self._database.tenant(job.tenant), 0, ""
        await prepare_tokenizer(job.subject)
        while page := await store.list_contents(after=after):
            count += await store_counts(store, job.subject, page.values())
            after = next(reversed(page))
            self._check_stopped()
        await self._database.jobs(job.tenant).finish(job, self.name)
        return count

    async def _update_graph(self, job: Job) -> int:
        """Build or drop the graph of a tenant's vectors. If that is not allowed, vectors are compared one by one."""
        try:
            share = await self._database.update_graph(job.tenant, job.subject)
        except StoreError as error:
            if isinstance(error, StoreUnavailable) and error.retriable:
                raise
            share = 0.0
            _log.warning("tenant %s is searched without an index, which cannot be built: %s", job.tenant, error)
        wait = _GRAPH_INTERVAL if share > _NEARLY else _SMALL_GRAPH_INTERVAL
        await self._database.jobs(job.tenant).reschedule(job, self.name, due=self._clock() + wait)
        return 0

    async def _clean_up(self, job: Job) -> int:
        """Collapse floods. If days, months or years are due for a summary, that is a separate job."""
        report = await self._run_janitor(await self._open_engine(job.tenant), summarize=False)
        if report.pending:
            await self._database.tenant(job.tenant).add_job("summarize")
        idle = report.run is None and not report.pending
        interval = self._settings.janitor_interval or 0.0
        due = self._clock() + interval * 2 ** (min(job.attempts, _IDLE_ROUNDS) if idle else 0)
        await self._database.jobs(job.tenant).reschedule(job, self.name, due=due, idle=idle)
        return report.facts["floods"]

    async def _summarize(self, job: Job) -> int:
        """Summarize the days that have no summary yet, each in a change of its own, and roll up months and years."""
        settings, engine = self._settings, await self._open_engine(job.tenant)
        summarizer = engine.make_summarizer(settings.model, provider=settings.provider) if settings.model else None
        report = await self._run_janitor(engine, summarizer=summarizer, focus=settings.focus)
        if report.postponed_until is not None:
            raise _PostponedError(report.postponed_until)
        await self._database.jobs(job.tenant).finish(job, self.name)
        return report.facts["summaries"]

    async def _run_janitor(self, engine: Engine, **options: Any) -> JanitorReport:
        try:
            return await engine.run_janitor(fallback=False, on_progress=lambda _: self._check_stopped(), **options)
        except StoreUnavailable as error:
            if error.retriable:
                raise _PostponedError(self._clock() + HEARTBEAT) from error
            raise

    async def _prune(self, job: Job) -> int:
        """Delete records that are too old. The next time is when the oldest remaining record expires."""
        store, keep, now = self._database.tenant(job.tenant), self._settings.retention or 0.0, self._clock()
        report = await store.prune(before=now - keep, on_progress=lambda _: self._check_stopped())
        oldest = await store.oldest_event()
        due = now + keep if oldest is None else max(now, oldest + keep) + PRUNE_INTERVAL
        await self._database.jobs(job.tenant).reschedule(job, self.name, due=due)
        return report.builds + report.answers

    async def _import(self, job: Job) -> int:
        """Import a file. If an earlier attempt was interrupted, what it imported is skipped."""
        file, folder = msgspec.json.decode(job.subject, type=ImportFile), self._settings.import_folder or Path()
        engine = await self._open_engine(job.tenant)
        report = await import_file(engine, file, folder, on_batch=self._check_stopped)
        await self._database.jobs(job.tenant).finish(job, self.name)
        return sum(report.records.values())

    def _check_stopped(self) -> None:
        if self._stopping.is_set():
            raise _StoppedError

    @asynccontextmanager
    async def _heartbeat(self, job: Job) -> AsyncIterator[None]:
        """Renew the claim of a job while it is done; cancel the work if another worker has taken the job."""
        work = asyncio.current_task()

        async def beat() -> None:
            while True:
                await asyncio.sleep(HEARTBEAT)
                with suppress(BrimfulError):  # the next one may succeed
                    held = await self._database.jobs(job.tenant).renew(job, self.name, now=self._clock(), lease=LEASE)
                    if not held and work is not None:
                        self._lost.add(work)
                        work.cancel()

        task = asyncio.create_task(beat(), name="brimful-heartbeat")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
