"""`brimful context`: list, show, remove, export and prune stored contexts."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import msgspec
import typer

from brimful.cli import output
from brimful.cli.files import report_as
from brimful.cli.options import Json, Last, Limit, ModelFilter, PersonaFilter, RoomFilter, StoreOptions, read_duration
from brimful.cli.output import columns, progress
from brimful.cli.records import RecordKind, add_record_commands, require_room
from brimful.cli.store import with_store
from brimful.errors import MissingExtra, UnknownRecord
from brimful.private_files import open_private
from brimful.records import Snapshot
from brimful.records.contexts import Build, PruneReport
from brimful.views.explain import plural

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.stores import Store

EXAMPLES: Final = """\
Examples:
  brimful context list --last 24h
  brimful context show ctx-81c2f4d19a05b7e36c1f88aa
  brimful context remove ctx-81c2f4d19a05b7e36c1f88aa
  brimful context export --out contexts.jsonl
  brimful context prune --older-than 30d --dry-run"""
PRUNE_EXAMPLES: Final = """\
Examples:
  brimful context prune --older-than 30d --dry-run
  brimful context prune --older-than 30d
  brimful context prune --older-than 12h --json | jq .bytes"""
EXPORT_EXAMPLES: Final = """\
Examples:
  brimful context export --out contexts.jsonl
  brimful context export --out yesterday.parquet --last 24h
  brimful context export --out helper.jsonl --persona helper --room support"""

ContextId = Annotated[str, typer.Argument(metavar="ID", help="The context's id.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, epilog=EXAMPLES, help="Manage stored contexts.")
    add_record_commands(group, CONTEXTS)
    group.command("export", epilog=EXPORT_EXAMPLES)(export)
    group.command("prune", epilog=PRUNE_EXAMPLES)(prune)
    app.add_typer(group, name="context")


async def find_contexts(
    store: "Store",
    *,
    room: RoomFilter = None,
    persona: PersonaFilter = None,
    model: ModelFilter = None,
    last: Last = None,
    limit: Limit = 20,
) -> list[Build]:
    """List stored contexts, newest first."""
    since = None if last is None else time.time() - last
    builds = await store.builds(room=room, persona=persona, model=model, since=since, limit=limit)
    if not builds:
        await require_room(store, room)
    return builds


async def get_context(store: "Store", id: ContextId) -> Snapshot:
    """Show a stored context. For the reason behind each decision, use `brimful explain`."""
    snapshot = await store.snapshot(id)
    if snapshot is None:
        raise UnknownRecord("context", id)
    return snapshot


async def remove_context(engine: "Engine", id: ContextId) -> None:
    """Remove a context and its answers.

    Statistics are kept. Content that only this context uses is removed by
    the next `brimful context prune`.
    """
    if not await engine.store.remove_context(id):
        raise UnknownRecord("context", id)


def prune(
    *,
    older: Annotated[
        float,
        typer.Option("--older-than", metavar="TIME", parser=read_duration, help="Minimum age, such as 30d, 12h or 2w."),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed without removing it.")] = False,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Remove old contexts and answers, and content that only they use.

    Contexts are removed in units of full hours. Messages, memories and the
    statistics of `brimful stats` are kept.
    """
    before = time.time() - older

    async def remove(store: "Store") -> PruneReport:
        expected = await store.prune(before=before, dry_run=True)
        if dry_run:
            return expected
        total = max(1, expected.builds + expected.answers + expected.contents)
        with progress("pruning", total, quiet=as_json) as advance:
            return await store.prune(
                before=before, on_progress=lambda done: advance(done.builds + done.answers + done.contents)
            )

    report = with_store(remove, target=target)
    output.show(report, _prune_summary(report, dry_run=dry_run), as_json=as_json)


def export(
    *,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            dir_okay=False,
            help="FILE.jsonl or FILE.parquet (needs the extra `parquet`).",
        ),
    ],
    room: RoomFilter = None,
    persona: PersonaFilter = None,
    model: ModelFilter = None,
    last: Last = None,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Write contexts and their decisions to a file, one per line or row.

    Content is not included; to export it, use `brimful export`.
    """
    since = None if last is None else time.time() - last
    open_sink = sink_type(out)

    async def write(store: "Store") -> int:
        total = (await store.statistics(since=since, persona=persona, room=room))[0].contexts
        if not total:
            await require_room(store, room)
        with progress(out.name, max(1, total), quiet=as_json) as advance, report_as(out):
            return await write_contexts(
                store, open_sink(out), advance, room=room, persona=persona, model=model, since=since
            )

    count = with_store(write, target=target)
    size = out.stat().st_size
    text = f"wrote {out}: {plural(count, 'context')}, {size:,} bytes"
    output.show({"file": str(out), "contexts": count, "bytes": size}, text, as_json=as_json)


def _data(build: Build) -> dict[str, object]:
    data: dict[str, object] = msgspec.to_builtins(build)
    del data["history"], data["rules"]  # only the engine needs them
    return data


def _row(build: Build) -> list[str]:
    return [
        build.id,
        output.format_time(build.at),
        build.room,
        build.persona or "",
        build.model,
        build.policy,
        f"{build.tokens:,}",
        f"{100 * build.tokens / build.window:.1f} %",
        f"{build.left_out:,} of {build.candidates:,}",
        f"{len(build.warnings):,}",
    ]


def _fields(snapshot: Snapshot) -> list[tuple[str, str]]:
    context = snapshot.context
    return [
        ("context", snapshot.id),
        ("at", output.format_time(snapshot.at)),
        ("room", snapshot.room),
        ("persona", snapshot.persona or ""),
        ("model", context.budget.model),
        ("policy", context.budget.policy),
        ("tokens", f"{context.tokens:,}"),
        ("window", f"{context.budget.window:,}"),
        ("candidates", f"{context.offered:,}, {context.left_out:,} of them left out"),
    ]


def _prune_summary(report: PruneReport, *, dry_run: bool) -> str:
    when = output.format_time(report.before) or "1970-01-01 00:00:00"
    if not report.builds and not report.answers and not report.contents:
        return f"nothing is older than {when}"
    parts = [plural(report.builds, "context"), plural(report.answers, "answer"), plural(report.contents, "content")]
    verb = "would remove" if dry_run else "removed"
    return f"{verb} {', '.join(parts)} from before {when}: {report.bytes:,} bytes"


CONTEXTS: Final[RecordKind[Any]] = RecordKind(  # a build in a list, a snapshot when shown
    name="context",
    plural="contexts",
    columns=columns(
        *("context", "at", "room", "persona", "model", "policy", "tokens", "use", "left out", "warnings"),
        right=["tokens", "use", "left out", "warnings"],
        spare=["at", "tokens", "room", "use", "model", "left out", "warnings", "persona", "policy"],
    ),
    row=_row,
    fields=_fields,
    text=lambda snapshot: [snapshot.context.report()],
    data=lambda snapshot: snapshot.context,
    row_data=_data,
    find=find_contexts,
    get=get_context,
    remove=remove_context,
    examples={
        "list": """\
  brimful context list
  brimful context list --room support --persona helper --last 24h
  brimful context list --json | jq -r '.[].id'""",
        "show": """\
  brimful context show ctx-81c2f4d19a05b7e36c1f88aa
  brimful context show ctx-81c2f4d19a05b7e36c1f88aa --json > context.json""",
        "remove": "  brimful context remove ctx-81c2f4d19a05b7e36c1f88aa",
    },
)


EXPORT_PAGE: Final = 500  # contexts read at once; also the row group of a Parquet file

Advance = Callable[[float], None]
Rows = Sequence[dict[str, Any]]


class Sink(Protocol):
    """A file that receives rows, page by page."""

    def write(self, rows: Rows) -> None:
        """Write some rows."""

    def close(self) -> None:
        """Finish the file and move it into place."""

    def drop(self) -> None:
        """Remove the unfinished file."""


def sink_type(out: Path) -> Callable[[Path], Sink]:
    """Return the sink for a file name."""
    match out.suffix.lower():
        case ".jsonl":
            return _JsonLines
        case ".parquet":
            return _parquet()
        case _:
            raise typer.BadParameter(f"{out.name!r} must end in .jsonl or .parquet", param_hint="'--out'")


async def write_contexts(store: "Store", sink: Sink, advance: Advance, **filters: Any) -> int:
    """Write the selected contexts, newest first, and return how many there were."""
    count = 0
    try:
        async for rows in _pages(store, filters):
            sink.write(rows)
            count += len(rows)
            advance(count)
    except BaseException:
        sink.drop()
        raise
    sink.close()
    return count


async def _pages(store: "Store", filters: dict[str, Any]) -> AsyncIterator[Rows]:
    before = None
    while builds := await store.builds(**filters, before=before, limit=EXPORT_PAGE):
        before = builds[-1].number
        rows = [await _export_row(store, build) for build in builds]
        yield [row for row in rows if row is not None]


async def _export_row(store: "Store", build: Build) -> dict[str, Any] | None:
    """Return a build as plain data; None if it has been removed in the meantime. Not all have their decisions."""
    snapshot = await store.snapshot(build.id) if build.recorded else None
    if snapshot is None and build.recorded:
        return None
    row: dict[str, Any] = msgspec.to_builtins(build)
    del row["history"], row["rules"]  # only the engine needs them
    answers = await store.responses(context=build.id)
    return {
        **row,
        "decisions": [msgspec.to_builtins(each) for each in snapshot.context.decisions] if snapshot else [],
        "answers": [msgspec.to_builtins(each) for each in answers],
    }


class _JsonLines:
    """JSON lines. The file appears when it is complete."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._part = Path(f"{out}.part")
        self._file = open_private(self._part)

    def write(self, rows: Rows) -> None:
        for row in rows:
            self._file.write(msgspec.json.encode(row) + b"\n")

    def close(self) -> None:
        self._file.close()
        self._part.replace(self._out)

    def drop(self) -> None:
        with suppress(OSError):  # a full disk, which is being reported already
            self._file.close()
        self._part.unlink(missing_ok=True)


def _parquet() -> Callable[[Path], Sink]:
    try:
        from brimful.formats.parquet import ParquetFile  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("parquet", "a Parquet file") from error
    return ParquetFile
