"""Workers share the background work of all tenants, do nothing twice, and take up what others left."""

import asyncio
import json
import sys
import time
from collections import Counter

import msgspec
import numpy as np
import psycopg
import pytest

from brimful.core.content import content_hash
from brimful.engine import Engine
from brimful.engine.counts import store_counts
from brimful.engine.transfer import ImportFile
from brimful.engine.worker import HEARTBEAT, LEASE, POLL_SECONDS, Worker, WorkSettings
from brimful.errors import ProviderError, StoreError, StoreUnavailable
from brimful.records import Message, Room
from brimful.retrieval.documents import make_document
from brimful.stores import connect
from brimful.stores.admin.export import WRITE_RECORDS
from brimful.stores.tables.jobs import Job, add_job
from brimful.stores.tuning import Tuning
from brimful.testing import HashEmbedder
from databases import END_OTHERS

DAY = 86_400.0


@pytest.fixture(params=["sqlite", "postgres"])
def url(request):
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
def new_worker(clock):
    """Return a way to make workers, which report to a list."""

    def make(
        database, embedder=None, on_report=lambda _: None, sleep=asyncio.sleep, engine=Engine, concurrency=4, **settings
    ):
        async def open_engine(tenant):
            return await engine(database, tenant=tenant, embedder=embedder, indexing="elsewhere", clock=clock).open()

        reports = []
        chosen = WorkSettings(embedder=embedder, **settings)

        def report(each):
            reports.append(each)
            on_report(each)

        worker = Worker(
            database,
            chosen,
            open_engine=open_engine,
            clock=clock,
            sleep=sleep,
            on_report=report,
            concurrency=concurrency,
        )
        worker.reports = reports
        return worker

    return make


async def post(database, tenant, embedder, texts):
    async with Engine(database, tenant=tenant, embedder=embedder, indexing="elsewhere") as engine:
        await engine.post_many(
            [Message(id=f"{tenant}-{at}", room="den", content=text, at=float(at)) for at, text in enumerate(texts)]
        )


def embedded(*embedders):
    return Counter(text for embedder in embedders for texts, _ in embedder.calls for text in texts)


async def progress(database, embedder, *tenants):
    found = [await database.tenant(tenant).index_progress(embedder.id) for tenant in tenants]
    return sum(each.done for each in found), sum(each.waiting for each in found)


def test_two_workers_share_the_work_and_embed_nothing_twice(run, url, new_worker):
    tenants = [f"t{number}" for number in range(20)]

    async def story():
        async with connect(url) as database, connect(url) as other:
            first, second = HashEmbedder(), HashEmbedder()
            for tenant in tenants:
                await post(database, tenant, first, [f"{tenant} says {at}" for at in range(50)])
            workers = new_worker(database, first, batch=16), new_worker(other, second, batch=16)
            await asyncio.gather(*(worker.run_due() for worker in workers))
            return first, second, await progress(database, first, *tenants), await database.list_jobs(limit=999)

    first, second, done, jobs = run(story())
    assert done == (1_000, 0)
    counts = embedded(first, second)
    assert (len(counts), set(counts.values())) == (1_000, {1})
    assert {job.kind for job in jobs} - {"graph"} == {"janitor", "retention"}  # no job to embed is left


def test_messages_that_are_loaded_to_be_indexed_later_are_indexed_and_embedded(run, url, new_worker):
    async def story():
        async with connect(url) as database:
            embedder = HashEmbedder()
            await post(database, "acme", embedder, ["one"])
            worker = new_worker(database, embedder)
            await worker.run_due()
            before = await progress(database, embedder, "acme")
            loaded = [Message(id="later", room="den", content="two", at=9.0)]
            await database.tenant("acme").load_records(loaded, make_document, defer=True)
            await worker.run_due()
            jobs = {job.kind for job in await database.list_jobs()}
            return before, await progress(database, embedder, "acme"), jobs

    before, after, jobs = run(story())
    assert (before, after) == ((1, 0), (2, 0))
    assert "embed" not in jobs


def embed_reports(worker):
    """Return the reports on embedding alone: a worker of PostgreSQL also looks after the graphs of tenants."""
    return [report for report in worker.reports if report.kind == "embed"]


def test_the_work_of_a_dead_worker_is_taken_up_after_its_lease(run, url, new_worker, clock):
    async def story():
        async with connect(url) as database:
            embedder = HashEmbedder()
            await post(database, "acme", embedder, ["one", "two", "three"])
            job = Job(tenant="acme", kind="embed", subject=embedder.id)
            await database.jobs("acme").claim(job, "dead", now=clock(), lease=LEASE)
            worker, found = new_worker(database, embedder), []
            for later in (0.0, LEASE - 1.0, LEASE):
                clock.now = 1_794_000_000.0 + later
                await worker.run_due()
                found.append(len(embed_reports(worker)))
            return found, await progress(database, embedder, "acme")

    assert run(story()) == ([0, 0, 1], (3, 0))


class ReportingEmbedder(HashEmbedder):
    """An embedder that calls a function before each batch, with the number of the batch."""

    def __init__(self, before):
        super().__init__()
        self.before = before

    async def embed(self, texts, purpose):
        await self.before(len(self.calls))
        return await super().embed(texts, purpose)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_tenant_with_much_to_embed_does_not_keep_others_waiting(run, url, new_worker, concurrency):
    async def story():
        async with connect(url) as database:

            async def before(batch):
                if batch == 10:
                    await post(database, "small", embedder, ["a late message"])

            embedder = ReportingEmbedder(before)
            await post(database, "large", embedder, [f"message {at}" for at in range(100)])
            worker = new_worker(database, embedder, batch=1, concurrency=concurrency)
            await worker.run_due()
            return [texts for texts, _ in embedder.calls], await progress(database, embedder, "large", "small")

    batches, done = run(story())
    assert 10 < batches.index(("a late message",)) < 100
    assert done == (101, 0)


def test_the_imports_of_one_tenant_leave_a_slot_to_others(run, sqlite_url, new_worker, tmp_path):
    write_chat(tmp_path, 30)

    async def story():
        async with connect(sqlite_url) as database:
            embedder, released, done = HashEmbedder(), asyncio.Event(), asyncio.Event()

            class Slow(Engine):
                async def load(self, records, *, defer=False):
                    await released.wait()
                    await super().load(records, defer=defer)

            for room in range(9):
                await queue_import(database, "large", path="chat.jsonl", room=f"den {room}")
            await post(database, "small", embedder, ["one"])

            def report(each):
                if (each.tenant, each.kind) == ("small", "embed"):
                    done.set()

            worker = new_worker(database, embedder, on_report=report, engine=Slow, import_folder=tmp_path)
            working = asyncio.create_task(worker.run_due())
            async with asyncio.timeout(120):
                await done.wait()
            early = [each for each in worker.reports if each.kind == "import"]
            released.set()
            await working
            return early, sum(each.kind == "import" for each in worker.reports)

    assert run(story()) == ([], 9)


def test_an_embedder_that_hangs_fails_its_jobs_and_others_are_done(run, sqlite_url, new_worker, clock):
    async def story():
        async with connect(sqlite_url) as database:
            embedder = HashEmbedder()
            for tenant in range(6):
                await post(database, f"t{tenant}", embedder, ["one"])
            embedder.hang = True
            worker = new_worker(database, embedder, retention=DAY, embed_seconds=0.01)
            async with asyncio.timeout(120):
                await worker.run_due()
            hung = [(each.kind, each.outcome, each.error) for each in worker.reports]
            embedder.hang = False
            clock.now += 3_600.0
            await worker.run_due()
            return hung, await progress(database, embedder, *(f"t{tenant}" for tenant in range(6)))

    hung, done = run(story())
    assert hung.count(("embed", "failed", "EmbeddingError")) == 6
    assert hung.count(("retention", "done", "")) == 6
    assert done == (6, 0)


KILLED = """
import asyncio, sys
from brimful.engine.worker import Worker, WorkSettings
from brimful.stores import connect
from brimful.testing import HashEmbedder

class Slow(HashEmbedder):
    async def embed(self, texts, purpose):
        if len(self.calls) == 2:
            print(len(self.calls), flush=True)
            await asyncio.Event().wait()
        return await super().embed(texts, purpose)

async def work():
    async with connect(sys.argv[1]) as database:
        await Worker(database, WorkSettings(embedder=Slow(), batch=100), open_engine=None).run_due()

asyncio.run(work())
"""


def test_another_process_finishes_the_jobs_of_a_killed_one_once(run, url, new_worker, clock):
    async def story():
        async with connect(url) as database:
            embedder = HashEmbedder()
            await post(database, "acme", embedder, [f"text {at}" for at in range(1_000)])
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", KILLED, url, stdout=asyncio.subprocess.PIPE
            )
            await process.stdout.readline()  # two batches are saved, and the third is on its way
            process.kill()
            await process.wait()
            half = await progress(database, embedder, "acme")
            clock.now = time.time() + LEASE + 1.0
            await new_worker(database, embedder).run_due()
            return half, await progress(database, embedder, "acme"), embedded(embedder)

    half, done, counts = run(story())
    assert (half, done) == ((200, 800), (1_000, 0))
    assert (len(counts), set(counts.values())) == (800, {1})


def test_a_failed_job_is_retried_later_and_does_not_stop_others(run, url, new_worker, clock):
    async def story():
        async with connect(url) as database:
            good, bad = HashEmbedder(), HashEmbedder(dims=16)
            bad.fail_with = TimeoutError("secret content")
            await post(database, "acme", bad, ["one"])
            await post(database, "beta", good, ["two"])
            worker, other = new_worker(database, bad), new_worker(database, good)
            await other.run_due()
            assert [report.outcome for report in embed_reports(other)] == ["done"]
            await worker.run_due()
            await worker.run_due()
            assert [report.outcome for report in embed_reports(worker)] == ["failed"]
            (failed,) = await database.list_jobs(failed=True)
            delays = [failed.due - clock()]
            clock.now = failed.due
            await worker.run_due()
            (failed,) = await database.list_jobs(failed=True)
            delays.append(failed.due - clock())
            clock.now, bad.fail_with = failed.due, None
            await worker.run_due()
            return failed, delays, await database.list_jobs(failed=True), await progress(database, bad, "acme")

    failed, delays, left, done = run(story())
    assert (failed.tenant, failed.error, failed.attempts) == ("acme", "TimeoutError", 2)
    assert delays == [10.0, 20.0]
    assert (left, done) == ([], (1, 0))


def test_a_rejected_document_is_a_failure_but_the_others_are_embedded(run, sqlite_url, new_worker):
    class Picky(HashEmbedder):
        async def embed(self, texts, purpose):
            if any("poison" in text for text in texts):
                raise ValueError("rejected")
            return await super().embed(texts, purpose)

    async def story():
        async with connect(sqlite_url) as database:
            embedder = Picky()
            await post(database, "acme", embedder, ["one", "poison", "three"])
            worker = new_worker(database, embedder)
            await worker.run_due()
            return worker.reports, await progress(database, embedder, "acme")

    (report,), done = run(story())
    assert (report.outcome, report.error, done) == ("failed", "RejectedDocumentsError", (2, 1))


def test_a_worker_that_stops_finishes_its_batch_and_gives_the_rest_back(run, url, new_worker):
    class Stopping(HashEmbedder):
        worker = None

        async def embed(self, texts, purpose):
            if self.worker is not None:
                stop, self.worker = self.worker.stop(), None
                self.stopped = asyncio.ensure_future(stop)
                await asyncio.sleep(0)
            return await super().embed(texts, purpose)

    async def story():
        async with connect(url) as database:
            embedder = Stopping()
            await post(database, "acme", embedder, [f"text {at}" for at in range(10)])
            worker = embedder.worker = new_worker(database, embedder, batch=4)
            await worker.run_due()
            await embedder.stopped
            half = await progress(database, embedder, "acme")
            await new_worker(database, embedder).run_due()
            return embed_reports(worker), half, await progress(database, embedder, "acme"), embedded(embedder)

    (report,), half, done, counts = run(story())
    assert (report.outcome, half, done) == ("stopped", (4, 6), (10, 0))
    assert set(counts.values()) == {1}


def test_retention_deletes_and_waits_for_the_oldest_that_is_left(run, url, new_worker, clock):
    async def story():
        async with connect(url) as database:
            async with Engine(database, tenant="acme", embedder=None, model="gpt-4o", clock=clock) as engine:
                for at in (clock.now - 40 * DAY, clock.now - 10 * DAY):
                    await engine.assemble(room="den", message="hello", now=at)
            worker = new_worker(database, retention=30 * DAY)
            await worker.run_due()
            (job,) = [job for job in await database.list_jobs() if job.kind == "retention"]
            return worker.reports, len(await database.tenant("acme").builds()), job.due - clock.now

    (report,), builds, wait = run(story())
    assert (report.kind, report.outcome, report.count, builds) == ("retention", "done", 1, 1)
    assert wait == pytest.approx(20 * DAY, abs=2 * 3_600)


async def counted(database, tenant, texts, tokenizer="o200k_base"):
    return len(await database.tenant(tenant).counts(tokenizer, [content_hash(text) for text in texts]))


def test_after_a_change_of_models_a_worker_counts_what_the_first_build_did_not(run, url, new_worker):
    texts = [f"{at} in {url[:6]}" for at in range(700)]  # this process has counted none of them

    async def story():
        async with connect(url) as database:
            await post(database, "acme", None, texts)
            async with Engine(database, tenant="acme", embedder=None, model="gpt-4o") as engine:
                await engine.assemble(room="den", message="hello", max_prompt_tokens=2_000)
            before = await counted(database, "acme", texts)
            worker = new_worker(database)
            await worker.run_due()
            await worker.run_due()
            kinds = {job.kind for job in await database.list_jobs()}
            return before, worker.reports, await counted(database, "acme", texts), kinds

    before, (report,), after, kinds = run(story())
    assert 100 <= before < 700
    assert (report.kind, report.outcome, report.count, after) == ("count", "done", 700 - before, 700)
    assert "count" not in kinds


def test_a_build_that_counts_little_queues_nothing(run, sqlite_url):
    async def story():
        async with connect(sqlite_url) as database:
            await post(database, "acme", None, ["one", "two"])
            async with Engine(database, tenant="acme", embedder=None, model="gpt-4o") as engine:
                await engine.assemble(room="den", message="hello")
            return {job.kind for job in await database.list_jobs()}

    assert run(story()) == {"janitor", "retention"}


def test_counts_of_a_killed_worker_are_not_repeated(run, url, new_worker, clock):
    texts = [f"text {at}" for at in range(1_200)]

    async def story():
        async with connect(url) as database:
            await post(database, "acme", None, texts)
            store = database.tenant("acme")
            await store.add_job("count", "o200k_base")
            job = Job(tenant="acme", kind="count", subject="o200k_base")
            await database.jobs("acme").claim(job, "killed", now=clock(), lease=LEASE)
            page = await store.list_contents()  # as far as it came
            await store_counts(store, "o200k_base", page.values())
            clock.now += LEASE
            worker = new_worker(database)
            await worker.run_due()
            return len(page), worker.reports, await counted(database, "acme", texts)

    half, (report,), done = run(story())
    assert (half, report.count, done) == (500, 700, 1_200)


class Summaries:
    """A summarizer that returns or raises what it is given, and notes the texts of days."""

    incremental = False

    def __init__(self, *answers):
        self.answers = list(answers)
        self.days = []

    async def summarize(self, digest):
        if "message from" in digest.title:  # not a month or a year
            self.days.append(digest.topics[0][0].text)
        answer = self.answers.pop(0) if self.answers else "They spoke of tea."
        if isinstance(answer, Exception):
            raise answer
        return answer

    def engine(self, *args, **kwargs):
        """Return an engine that summarizes with this."""
        engine = Engine(*args, **kwargs)
        engine.make_summarizer = lambda *_, **__: self
        return engine


async def post_days(database, tenant, days, spam=0):
    """Write a message for each day, and on the day after these spam and the last message."""
    async with Engine(database, tenant=tenant, embedder=None, indexing="elsewhere") as engine:
        tea = [Message(id=f"m{day}", room="den", content=f"Tea {day}", at=day * DAY) for day in range(1, days + 1)]
        flood = [Message(id=f"f{at}", room="den", content="You won!", at=(days + 1) * DAY) for at in range(spam)]
        await engine.post_many([*tea, *flood, Message(id="end", room="den", content="Bye", at=(days + 1) * DAY)])


def done(worker):
    return [(report.kind, report.outcome, report.count) for report in worker.reports]


def test_one_worker_cleans_up_and_another_summarizes(run, url, new_worker, clock):
    model = Summaries()
    clock.now = 5 * DAY

    async def story():
        async with connect(url) as database:
            await post_days(database, "acme", 2, spam=60)
            cleaning = new_worker(database, janitor_interval=3_600.0, kinds=frozenset({"janitor"}))
            summing = new_worker(database, engine=model.engine, model="gpt-4o-mini", kinds=frozenset({"summarize"}))
            await summing.run_due()
            await cleaning.run_due()
            between = await database.tenant("acme").summaries("den")
            for worker in (summing, cleaning, summing):
                await worker.run_due()
            clock.now += 3_600.0
            await cleaning.run_due()
            await summing.run_due()
            return done(cleaning), done(summing), between, await database.tenant("acme").summaries("den")

    cleaned, summed, between, after = run(story())
    assert [summary.content[:23] for summary in between] == ["60 near-identical messa"]
    assert cleaned == [("janitor", "done", 1), ("janitor", "done", 0)]
    assert summed == [("summarize", "done", 2)]
    assert (len(after), model.days) == (3, ["Tea 1", "Tea 2"])


def test_a_model_that_fails_is_asked_again_later(run, url, new_worker, clock):
    model = Summaries(ProviderError("scripted", "is down"), "They spoke of tea.")

    async def story():
        async with connect(url) as database:
            await post(database, "acme", None, ["Tea at five?", "Yes, green tea."])
            worker = new_worker(database, engine=model.engine, janitor_interval=3_600.0, model="gpt-4o-mini")
            await worker.run_due()
            (failed,) = await database.list_jobs(failed=True)
            between = await database.tenant("acme").summaries("den")
            clock.now = failed.due
            await worker.run_due()
            return done(worker), failed, between, await database.tenant("acme").summaries("den")

    reports, failed, between, after = run(story())
    assert reports == [("janitor", "done", 0), ("summarize", "failed", 0), ("summarize", "done", 1)]
    assert (failed.kind, failed.error, failed.due - clock.now, between) == ("summarize", "ProviderError", 0.0, [])
    assert ["They spoke of tea." in summary.content for summary in after] == [True]


KILLED_SUMMARIES = """
import asyncio, sys
from brimful.engine import Engine
from brimful.engine.worker import Worker, WorkSettings
from brimful.stores import connect

class Stuck:
    incremental = False
    days = 0

    async def summarize(self, digest):
        self.days += 1
        if self.days == 3:
            print(self.days, flush=True)
            await asyncio.Event().wait()
        return "They spoke of tea."

class StuckEngine(Engine):
    def make_summarizer(self, *_, **__):
        return Stuck()

async def work():
    async with connect(sys.argv[1]) as database:
        async def open_engine(tenant):
            return await StuckEngine(database, tenant=tenant, embedder=None, indexing="elsewhere").open()
        settings = WorkSettings(kinds=frozenset({"summarize"}), model="gpt-4o-mini")
        await Worker(database, settings, open_engine=open_engine).run_due()

asyncio.run(work())
"""


def test_days_that_a_killed_worker_summarized_are_not_summarized_again(run, url, new_worker, clock):
    model = Summaries()

    async def story():
        async with connect(url) as database:
            await post_days(database, "acme", 4)
            await database.tenant("acme").add_job("summarize")
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", KILLED_SUMMARIES, url), stdout=asyncio.subprocess.PIPE
            )
            await process.stdout.readline()  # two days are saved, and the third is on its way
            process.kill()
            await process.wait()
            half = await database.tenant("acme").summaries("den")
            worker = new_worker(database, engine=model.engine, model="x", kinds=frozenset({"summarize"}))
            clock.now = time.time()
            await worker.run_due()
            early = done(worker)
            clock.now += LEASE + 1.0
            await worker.run_due()
            return half, early, done(worker), await database.list_jobs(failed=True)

    half, early, late, failed = run(story())
    assert (len(half), early, failed) == (2, [], [])
    assert [(kind, outcome) for kind, outcome, _ in late] == [("summarize", "done")]
    assert model.days == ["Tea 3", "Tea 4"]


def test_while_the_janitor_is_at_work_elsewhere_a_job_waits(run, url, new_worker, clock):
    async def story():
        async with connect(url) as database:
            await post_days(database, "acme", 2)
            other = database.janitor("acme")
            at_work = await other.begin(holder="by hand", now=clock(), lease=LEASE)
            worker = new_worker(database, janitor_interval=3_600.0)
            await worker.run_due()
            waiting = [job for job in await database.list_jobs() if job.kind == "janitor"]
            await other.end(at_work, {}, now=clock())
            clock.now += HEARTBEAT
            await worker.run_due()
            return done(worker), waiting, clock.now

    reports, (waiting,), now = run(story())
    assert reports[:2] == [("janitor", "postponed", 0), ("janitor", "done", 0)]
    assert (waiting.due, waiting.error, waiting.attempts) == (now, "", 0)


def test_a_worker_that_stops_finishes_the_day_and_gives_the_rest_back(run, sqlite_url, new_worker):
    model = Summaries()

    async def story():
        async with connect(sqlite_url) as database:
            await post_days(database, "acme", 4)
            await database.tenant("acme").add_job("summarize")
            worker = new_worker(database, engine=model.engine, model="x", kinds=frozenset({"summarize"}))
            summarize, stops = model.summarize, []

            async def stop_and_summarize(digest):
                stops.append(asyncio.ensure_future(worker.stop()))
                await asyncio.sleep(0)
                return await summarize(digest)

            model.summarize = stop_and_summarize
            await worker.run_due()
            await asyncio.gather(*stops)
            half = await database.tenant("acme").summaries("den")
            model.summarize = summarize
            other = new_worker(database, engine=model.engine, model="x", kinds=frozenset({"summarize"}))
            await other.run_due()
            return done(worker), half, done(other)

    stopped, half, rest = run(story())
    assert (stopped, len(half)) == ([("summarize", "stopped", 0)], 1)
    assert [(kind, outcome) for kind, outcome, _ in rest] == [("summarize", "done")]
    assert model.days == ["Tea 1", "Tea 2", "Tea 3", "Tea 4"]


def write_chat(folder, count):
    lines = (json.dumps({"role": "user", "content": f"line {at}"}) for at in range(count))
    (folder / "chat.jsonl").write_text("\n".join(lines), encoding="utf-8")


async def count_messages(store):
    return (await store.count_messages(["den"]))["den"]


async def queue_import(database, tenant="acme", **file):
    await database.tenant(tenant).add_job("import", msgspec.json.encode(ImportFile(**file)).decode())


def test_a_queued_file_is_imported_and_embedded(run, url, new_worker, tmp_path):
    write_chat(tmp_path, 30)

    async def story():
        async with connect(url) as database:
            await queue_import(database, path="chat.jsonl", room="den")
            embedder = HashEmbedder()
            other = new_worker(database, embedder)  # it has no such folder
            await other.run_due()
            worker = new_worker(database, embedder, import_folder=tmp_path)
            await worker.run_due()
            await worker.run_due()
            done = await count_messages(database.tenant("acme")), await progress(database, embedder, "acme")
            return [report.kind for report in other.reports], worker.reports, done

    left, reports, done = run(story())
    assert "import" not in left
    assert [(report.outcome, report.count) for report in reports if report.kind == "import"] == [("done", 30)]
    assert done == (30, (30, 0))


KILLED_IMPORT = """
import asyncio, sys
from pathlib import Path
from brimful.engine import Engine
from brimful.engine.worker import Worker, WorkSettings
from brimful.stores import connect

class Stuck(Engine):
    async def load(self, records, *, defer=False):
        await super().load(records, defer=defer)
        if len(records) > 1:
            print(len(records), flush=True)
            await asyncio.Event().wait()

async def work():
    async with connect(sys.argv[1]) as database:
        async def open_engine(tenant):
            return await Stuck(database, tenant=tenant, embedder=None, indexing="elsewhere").open()
        await Worker(database, WorkSettings(import_folder=Path(sys.argv[2])), open_engine=open_engine).run_due()

asyncio.run(work())
"""


def test_the_import_of_a_killed_process_is_finished_by_another(run, url, new_worker, clock, tmp_path):
    total = 2 * WRITE_RECORDS
    write_chat(tmp_path, total)

    async def story():
        async with connect(url) as database:
            await queue_import(database, path="chat.jsonl", room="den")
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", KILLED_IMPORT, url, str(tmp_path)), stdout=asyncio.subprocess.PIPE
            )
            first = int(await process.stdout.readline())  # of these, all are saved
            process.kill()
            await process.wait()
            store, worker = database.tenant("acme"), new_worker(database, import_folder=tmp_path)
            half = await count_messages(store)
            clock.now = time.time() + LEASE + 1.0
            await worker.run_due()
            return first, half, worker.reports, await count_messages(store)

    first, half, (report,), done = run(story())
    assert 0 < first == half < total
    assert (report.outcome, report.count, done) == ("done", total - half, total)


@pytest.mark.parametrize("path", ["none.jsonl", "../chat.jsonl", "/etc/passwd", "damaged.jsonl"])
def test_a_file_that_cannot_be_imported_is_a_failure_that_can_be_discarded(run, sqlite_url, new_worker, tmp_path, path):
    write_chat(tmp_path, 3)
    folder = tmp_path / "exports"
    folder.mkdir()
    (folder / "damaged.jsonl").write_text('{"role": "user", "content": "Hi"}\n{"role": "us', encoding="utf-8")

    async def story():
        async with connect(sqlite_url) as database:
            await queue_import(database, path=path)
            worker = new_worker(database, import_folder=folder)
            await worker.run_due()
            (failed,) = await database.list_jobs(failed=True)
            rooms = await database.tenant("acme").list_records(Room)
            discarded = await database.jobs("acme").discard(failed)
            return worker.reports, rooms, discarded, await database.list_jobs(failed=True)

    (report,), rooms, discarded, left = run(story())
    assert (report.kind, report.outcome, rooms) == ("import", "failed", [])
    assert (discarded, left) == (True, [])


@pytest.mark.parametrize(("texts", "wait"), [(["one"], 800.0), (["one", "two"], 100.0)])
def test_the_janitor_comes_less_often_where_it_finds_nothing(run, sqlite_url, new_worker, clock, texts, wait):
    async def story():
        async with connect(sqlite_url) as database:
            await post(database, "acme", None, texts)
            worker, waits = new_worker(database, janitor_interval=100.0, kinds=frozenset({"janitor"})), []
            for _ in range(6):
                await worker.run_due()
                (job,) = [job for job in await database.list_jobs() if job.kind == "janitor"]
                waits.append(job.due - clock.now)
                clock.now = job.due
            return waits

    assert run(story())[-1] == wait  # of two messages, the first is left to summarize


def test_a_worker_in_the_background_starts_when_it_is_woken(run, sqlite_url, new_worker):
    async def story():
        async with connect(sqlite_url) as database:
            embedder = HashEmbedder()
            done = asyncio.Event()
            worker = new_worker(database, embedder, on_report=lambda _: done.set())
            worker.start()
            await post(database, "acme", embedder, ["one"])
            worker.wake()
            await done.wait()
            await worker.stop()
            return worker.running, await progress(database, embedder, "acme")

    assert run(story()) == (0, (1, 0))


@pytest.fixture
def outage(postgres_url, directly, tmp_path):
    """Return the address of a store that cannot be reached, and a way to end and begin the outage."""
    address = directly(postgres_url)  # a pooler would hide the outage
    parts = psycopg.conninfo.conninfo_to_dict(address)
    socket = f".s.PGSQL.{parts.get('port', '5432')}"
    if not parts["host"].startswith("/"):
        pytest.skip("the server of the tests has no socket")

    def end():
        (tmp_path / socket).symlink_to(f"{parts['host']}/{socket}")

    def begin():
        (tmp_path / socket).unlink()
        with psycopg.connect(address) as connection:
            connection.execute(END_OTHERS)

    return f"{address.replace(parts['host'], str(tmp_path))}&wait=1", end, begin


async def post_when_reachable(database, embedder):
    """Post as soon as the pool is connected again: it waits longer after each attempt that failed."""
    while True:
        try:
            return await post(database, "acme", embedder, ["one"])
        except StoreUnavailable:  # after the second that the address allows
            continue


def test_a_worker_waits_for_the_store_at_the_start_and_later(run, outage, new_worker, caplog):
    url, end, begin = outage
    embedder, delays = HashEmbedder(), []

    async def story():
        database = connect(url)

        async def sleep(seconds):
            delays.append(seconds)
            match len(delays):
                case 3:
                    end()
                case 4:  # it polls
                    begin()
                case 6:
                    end()
                    await post_when_reachable(database, embedder)
                case 7:
                    await worker.stop()

        worker = new_worker(database, embedder, sleep=sleep)
        await worker.open_store()
        await worker.run()
        done = embed_reports(worker), await progress(database, embedder, "acme")
        await database.close()
        return done

    (report,), done = run(story())
    assert (report.outcome, done) == ("done", (1, 0))
    assert delays == [1.0, 2.0, 4.0, POLL_SECONDS, 1.0, 2.0, POLL_SECONDS]
    assert "trying again in 4 seconds" in caplog.text


def test_a_store_that_cannot_be_opened_at_all_is_an_error(run, tmp_path, new_worker):
    (tmp_path / "no.db").write_text("not a store, but a text that is long enough to be looked at as one " * 9)

    async def story():
        await new_worker(connect(f"sqlite:///{tmp_path}/no.db")).open_store()

    with pytest.raises(StoreError):
        run(story())


def test_a_claim_on_a_queue_that_is_empty_removes_the_job(run, sqlite_url, new_worker):
    async def story():
        async with connect(sqlite_url) as database:
            embedder = HashEmbedder()
            await post(database, "acme", embedder, ["one"])
            store = database.tenant("acme")  # an engine that embeds by itself leaves the job
            (document,) = await store.backlog(embedder.id)
            await store.save_vectors(embedder.id, [document.doc], np.ones((1, 32), dtype=np.float32))
            worker = new_worker(database, embedder)
            await worker.run_due()
            return worker.reports[0].count, [job.kind for job in await database.list_jobs() if job.kind == "embed"]

    assert run(story()) == (0, [])


def test_a_large_tenant_gets_a_graph(run, postgres_url, new_worker, clock, caplog):
    async def story():
        async with connect(postgres_url, tuning=Tuning(hnsw_threshold=20)) as database:
            embedder = HashEmbedder()
            await post(database, "acme", embedder, [f"text {at}" for at in range(30)])
            await post(database, "beta", embedder, ["one"])
            worker = new_worker(database, embedder)
            await worker.run_due()
            due = {job.tenant: job.due - clock.now for job in await database.list_jobs() if job.kind == "graph"}
            clock.now += 2 * DAY
            await worker.run_due()
            return due, {report.outcome for report in worker.reports}

    due, outcomes = run(story())
    assert (due["beta"], outcomes) == (DAY, {"done"})
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute("SELECT indexdef FROM pg_indexes WHERE indexname LIKE 'vectors_near_%'").fetchall()
    assert len(found) == 1
    assert "'acme'" in found[0][0]
    assert "without an index" not in caplog.text


def test_search_goes_on_if_no_graph_can_be_built(run, sqlite_url, new_worker, caplog):
    async def story():
        async with connect(sqlite_url) as database:  # which refuses it as a role without rights would
            embedder = HashEmbedder()
            await post(database, "acme", embedder, ["one"])
            await database.driver.write("acme", lambda session: add_job(session, "graph", embedder.id))
            worker = new_worker(database, embedder)
            await worker.run_due()
            return {report.kind: report.outcome for report in worker.reports}

    assert run(story()) == {"embed": "done", "graph": "done"}
    assert "tenant acme is searched without an index" in caplog.text
