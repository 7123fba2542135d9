"""`brimful work`: do the background work of all tenants, beside servers that only serve."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, get_args

import msgspec
import typer

from brimful.cli import output
from brimful.cli.app import FAILED
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_EMBEDDER,
    Db,
    DollarsPerDay,
    EmbedderSpec,
    Json,
    SummaryFocus,
    SummaryProvider,
    TokensPerDay,
)
from brimful.cli.output import columns
from brimful.cli.store import require_store, with_database
from brimful.errors import MissingExtra
from brimful.views.explain import plural

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.engine.worker import WorkReport, WorkSettings
    from brimful.stores import Database
    from brimful.stores.tables.jobs import Job, JobKind

EXAMPLES: Final = """\
Examples:
  brimful work --db postgresql://ada@db.example.org/chat
  brimful work --janitor-interval 6h --retention 30d
  brimful work --janitor-interval 6h --model gpt-4o-mini
  brimful work --kinds summarize --model gpt-4o-mini
  brimful work --import-folder /srv/exports
  brimful work --once --json
  brimful work --failed
  brimful work --retry"""

_BEAT_SECONDS: Final = 10.0  # between two touches of the heartbeat file
_MAX_JOBS: Final = 1_000  # listed, or retried per read
_NEEDED_OPTIONS: Final = {
    "embed": "--embedder",
    "graph": "--embedder",
    "janitor": "--janitor-interval",
    "retention": "--retention",
    "import": "--import-folder",
}
_COLUMNS: Final = columns("tenant", "kind", "subject", "attempts", "error", "next try", right=["attempts"])


def register(app: typer.Typer) -> None:
    app.command("work", epilog=EXAMPLES)(work)


def work(  # noqa: PLR0913 - one argument per option
    *,
    kinds: Annotated[
        str,
        typer.Option("--kinds", metavar="KIND,…", help="Do only jobs of these kinds, such as summarize. Default: all."),
    ] = "",
    embedder: EmbedderSpec = DEFAULT_EMBEDDER,
    janitor_interval: Annotated[
        str | None,
        typer.Option("--janitor-interval", metavar="DURATION", help="How often to run the janitor, such as 6h."),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option("--retention", metavar="DURATION", help="Delete contexts and responses after this time."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="NAME", help="Let this model write summaries.")
    ] = None,
    provider: SummaryProvider = "",
    focus: SummaryFocus = "",
    tokens_per_day: TokensPerDay = None,
    dollars_per_day: DollarsPerDay = None,
    import_folder: Annotated[
        Path | None,
        typer.Option(
            "--import-folder", metavar="DIR", exists=True, file_okay=False, help="Import queued files of this folder."
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, max=256, metavar="N", help="Number of concurrent jobs.")
    ] = 4,
    heartbeat: Annotated[
        Path | None,
        typer.Option("--heartbeat", metavar="FILE", help="Touch this file every 10 seconds, for liveness probes."),
    ] = None,
    log_format: Annotated[
        Literal["text", "json"],
        typer.Option("--log-format", help="Write the log as text, or as JSON to standard output."),
    ] = "text",
    once: Annotated[bool, typer.Option("--once", help="Do the jobs that are due now, and exit.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="List failed jobs, and exit.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Make failed jobs due now, and exit.")] = False,
    discard: Annotated[bool, typer.Option("--discard", help="Remove failed imports from the queue, and exit.")] = False,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Run the background jobs of all tenants.

    Embeds new records, counts their tokens, runs the janitor, writes summaries,
    deletes old records and imports files. Several workers share the work. Stop
    it with Ctrl-C or SIGTERM: unfinished jobs go back to the queue. With --once,
    the exit code is 1 if a job failed.

    Kinds of jobs: embed, count, graph, janitor, summarize, retention, import.
    """
    if sum((once, failed, retry, discard)) > 1:
        raise typer.BadParameter("cannot be combined", param_hint="'--once' / '--failed' / '--retry' / '--discard'")
    require_store(db)
    if failed:
        jobs = with_database(_list_failed, db)
        output.show_rows(jobs, _COLUMNS, _row, empty="no job has failed", as_json=as_json)
        return
    if retry:
        count = with_database(_retry, db)
        output.show({"retried": count}, f"{plural(count, 'job')} due now", as_json=as_json)
        return
    if discard:
        count = with_database(_discard, db)
        output.show({"discarded": count}, f"{plural(count, 'failed import')} removed", as_json=as_json)
        return
    from brimful.assembly.arguments import resolve_model  # noqa: PLC0415 - see above
    from brimful.embedding import embedder_for  # noqa: PLC0415 - other commands start faster
    from brimful.engine.own_calls import check_prices, find_billed_model  # noqa: PLC0415 - see above
    from brimful.engine.worker import work_settings  # noqa: PLC0415 - see above
    from brimful.records.own_calls import SpendingLimit  # noqa: PLC0415 - see above

    settings = msgspec.structs.replace(
        work_settings(embedder=embedder_for(embedder), janitor_interval=janitor_interval, retention=retention),
        kinds=_read_kinds(kinds),
        model=model,
        provider=provider,
        focus=focus,
        own_calls=SpendingLimit(tokens_per_day=tokens_per_day, dollars_per_day=dollars_per_day),
        import_folder=import_folder,
    )
    check_prices(
        settings.own_calls,
        resolve_model(model) if model and provider != "ollama" else None,
        find_billed_model(settings.embedder),
    )
    _check_kinds(settings)
    if heartbeat is not None:
        _check_heartbeat(heartbeat)
    if log_format == "json":
        _log_json()
    total, failures = asyncio.run(
        _work(db, settings, concurrency=concurrency, heartbeat=heartbeat, once=once, as_json=as_json)
    )
    if once and not as_json:
        output.write(f"{plural(total - failures, 'job')} done" + (f", {failures:,} failed" if failures else ""))
    if failures:
        raise typer.Exit(FAILED)


def _log_json() -> None:
    """Write the whole log as `brimful serve` does."""
    try:
        from brimful.server.config import TelemetryConfig  # noqa: PLC0415 - an extra
        from brimful.server.logs import configure_logging  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtra("server", "`brimful work --log-format json`") from error
    configure_logging(TelemetryConfig(log_format="json"))


def _read_kinds(text: str) -> "frozenset[JobKind]":
    from brimful.stores.tables.jobs import JobKind  # noqa: PLC0415 - see above

    names = {word.strip() for word in text.split(",")} if text else set()
    if wrong := sorted(names.difference(get_args(JobKind))):
        reason = f"{wrong[0]!r} is not a kind of jobs; kinds are {', '.join(get_args(JobKind))}"
        raise typer.BadParameter(reason, param_hint="'--kinds'")
    return frozenset(kind for kind in get_args(JobKind) if kind in names)


def _check_kinds(settings: "WorkSettings") -> None:
    """Reject kinds without the option that they need, and options without the kind that uses them."""
    possible = settings.find_subjects()
    if missing := sorted(settings.kinds - possible.keys()):
        reason = f"jobs of the kind {missing[0]} need {_NEEDED_OPTIONS[missing[0]]}"
        raise typer.BadParameter(reason, param_hint="'--kinds'")
    if (settings.model or settings.provider or settings.focus) and "summarize" not in possible:
        reason = "needs --janitor-interval or --kinds summarize"
        raise typer.BadParameter(reason, param_hint="'--model' / '--provider' / '--focus'")


def _check_heartbeat(file: Path) -> None:
    """Reject a file that cannot be touched. It does not exist before the worker is ready."""
    try:
        file.touch()
        file.unlink()
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be written: {error.strerror}", param_hint="'--heartbeat'") from None


async def _work(
    db: str, settings: "WorkSettings", *, concurrency: int, heartbeat: Path | None, once: bool, as_json: bool
) -> tuple[int, int]:
    """Work until nothing is due or a stop signal comes. Returns the number of jobs, and how many of them failed."""
    from brimful.engine.worker import Worker  # noqa: PLC0415 - see above
    from brimful.stores import connect  # noqa: PLC0415 - see above

    reports: list[WorkReport] = []

    def report(done: "WorkReport") -> None:
        if once:
            reports.append(done)
        if as_json:
            output.write(msgspec.json.encode(done).decode())

    database = connect(db)
    worker = Worker(
        database, settings, open_engine=_engine_opener(database, settings), on_report=report, concurrency=concurrency
    )
    loop = asyncio.get_running_loop()
    stops: list[asyncio.Task[None]] = []
    beating: asyncio.Task[None] | None = None
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # on Windows, where Ctrl-C just interrupts
            loop.add_signal_handler(number, lambda: stops.append(loop.create_task(worker.stop())))
    try:
        if once:
            await database.open()
            await worker.run_due()
        else:
            output.warn("working; Ctrl-C stops")
            await worker.open_store()
            beating = None if heartbeat is None else loop.create_task(_beat(heartbeat))
            await worker.run()
        await worker.stop()
    finally:
        if beating is not None:
            beating.cancel()
        await database.close()
    return len(reports), sum(each.outcome == "failed" for each in reports)


async def _beat(file: Path) -> None:
    """Touch a file as long as the event loop runs."""
    while True:
        await asyncio.to_thread(file.touch)
        await asyncio.sleep(_BEAT_SECONDS)


def _engine_opener(database: "Database", settings: "WorkSettings") -> "Callable[[str], Awaitable[Engine]]":
    async def open_engine(tenant: str) -> "Engine":
        from brimful.engine import Engine  # noqa: PLC0415 - see above

        return await Engine(
            database, tenant=tenant, embedder=settings.embedder, own_calls=settings.own_calls, indexing="elsewhere"
        ).open()

    return open_engine


async def _list_failed(database: "Database") -> "list[Job]":
    return await database.list_jobs(failed=True, limit=_MAX_JOBS)


async def _retry(database: "Database") -> int:
    count, now = 0, time.time()
    while waiting := [job for job in await _list_failed(database) if job.due > now]:
        count += sum([await database.jobs(job.tenant).retry(job, now=now) for job in waiting])
    return count


async def _discard(database: "Database") -> int:
    failed = [job for job in await _list_failed(database) if job.kind == "import"]
    return sum([await database.jobs(job.tenant).discard(job) for job in failed])


def _row(job: "Job") -> list[str]:
    return [job.tenant, job.kind, job.subject, str(job.attempts), job.error, output.format_time(job.due)]
