"""`brimful context`: list, export and prune stored contexts."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import msgspec
import typer

from brimful.cli import output
from brimful.cli.files import report_as
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_TENANT,
    Db,
    Json,
    Last,
    Limit,
    ModelFilter,
    PersonaFilter,
    RoomFilter,
    Tenant,
    read_duration,
)
from brimful.cli.store import with_store
from brimful.cli.terminal import Table, columns, progress
from brimful.errors import MissingExtra
from brimful.records.search import Build, PruneReport
from brimful.views.explain import plural

if TYPE_CHECKING:
    from brimful.stores import Store


EXAMPLES: Final = """\
Examples:
  brimful context list --last 24h
  brimful context export --out contexts.jsonl
  brimful context prune --older 30d --dry-run"""
LIST_EXAMPLES: Final = """\
Examples:
  brimful context list
  brimful context list --room support --persona helper --last 24h
  brimful context list --json | jq -r '.[].id'"""
PRUNE_EXAMPLES: Final = """\
Examples:
  brimful context prune --older 30d --dry-run
  brimful context prune --older 30d
  brimful context prune --older 12h --json | jq .bytes"""
EXPORT_EXAMPLES: Final = """\
Examples:
  brimful context export --out contexts.jsonl
  brimful context export --out yesterday.parquet --last 24h
  brimful context export --out helper.jsonl --persona helper --room support"""

_COLUMNS: Final = columns(
    *("context", "at", "room", "persona", "model", "policy", "tokens", "use", "left out", "warnings"),
    right=["tokens", "use", "left out", "warnings"],
    spare=["at", "tokens", "room", "use", "model", "left out", "warnings", "persona", "policy"],
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, epilog=EXAMPLES, help="List, export and prune stored contexts.")
    group.command("list", epilog=LIST_EXAMPLES)(list_contexts)
    group.command("prune", epilog=PRUNE_EXAMPLES)(prune)
    group.command("export", epilog=EXPORT_EXAMPLES)(export)
    app.add_typer(group, name="context")


def list_contexts(
    *,
    room: RoomFilter = None,
    persona: PersonaFilter = None,
    model: ModelFilter = None,
    last: Last = None,
    limit: Limit = 20,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """List contexts, newest first.

    USE is the share of the window, LEFT OUT what the model did not see. All
    about one of them: brimful explain CONTEXT.
    """
    since = None if last is None else time.time() - last

    async def listed(store: "Store") -> list[Build]:
        return await store.builds(room=room, persona=persona, model=model, since=since, limit=limit)

    found = with_store(listed, db=db, tenant=tenant)
    if as_json:
        output.show_json([_data(build) for build in found])
    elif not found:
        output.write("no context was built that fits")
    else:
        output.show_table(Table(_COLUMNS, [_row(build) for build in found]))


def prune(
    *,
    older: Annotated[
        float,
        typer.Option("--older", metavar="TIME", parser=read_duration, help="What is older than 30d, 12h, 2w goes."),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; nothing does.")] = False,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Remove contexts and answers that are old, and texts that only they held.

    Whole hours go. Messages and memories stay, and so do the figures that
    `brimful stats` shows.
    """
    before = time.time() - older

    async def pruned(store: "Store") -> PruneReport:
        foreseen = await store.prune(before=before, dry_run=True)
        if dry_run:
            return foreseen
        whole = max(1, foreseen.builds + foreseen.answers + foreseen.contents)
        with progress("pruning", whole, quiet=as_json) as advance:
            return await store.prune(
                before=before, on_progress=lambda done: advance(done.builds + done.answers + done.contents)
            )

    gone = with_store(pruned, db=db, tenant=tenant)
    if as_json:
        output.show_json(gone)
    else:
        output.write(_prune_summary(gone, dry_run=dry_run))


def export(
    *,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="FILE.jsonl, or FILE.parquet (an extra)."),
    ],
    room: RoomFilter = None,
    persona: PersonaFilter = None,
    model: ModelFilter = None,
    last: Last = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Write contexts to a file, one a line or row, each with its decisions.

    What was said is not in it: `brimful export` writes all of it.
    """
    since = None if last is None else time.time() - last
    opened = sink_type(out)

    async def exported(store: "Store") -> int:
        every = (await store.statistics(since=since, persona=persona, room=room))[0].contexts
        with progress(out.name, max(1, every), quiet=as_json) as advance, report_as(out):
            return await write_contexts(
                store, opened(out), advance, room=room, persona=persona, model=model, since=since
            )

    count = with_store(exported, db=db, tenant=tenant)
    if as_json:
        output.show_json({"file": str(out), "contexts": count, "bytes": out.stat().st_size})
    else:
        output.write(f"wrote {out}: {plural(count, 'context')}, {out.stat().st_size:,} bytes")


def _data(build: Build) -> dict[str, object]:
    data: dict[str, object] = msgspec.to_builtins(build)
    del data["history"], data["rules"]  # for the engine alone
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


def _prune_summary(gone: PruneReport, *, dry_run: bool) -> str:
    when = output.format_time(gone.before) or "1970-01-01 00:00:00"
    if not gone.builds and not gone.answers and not gone.contents:
        return f"nothing is older than {when}"
    what = [plural(gone.builds, "context"), plural(gone.answers, "answer"), plural(gone.contents, "text")]
    verb = "would remove" if dry_run else "removed"
    return f"{verb} {', '.join(what)} from before {when}: {gone.bytes:,} bytes"


EXPORT_PAGE: Final = 500  # contexts at once: a row group of a Parquet file

Advance = Callable[[float], None]
Rows = Sequence[dict[str, Any]]


class Sink(Protocol):
    """A file that rows are written to, page by page."""

    def write(self, rows: Rows) -> None:
        """Write some rows."""
        ...

    def close(self) -> None:
        """Say that this was all: the file stands where it should."""
        ...

    def drop(self) -> None:
        """Leave nothing behind."""
        ...


def sink_type(out: Path) -> Callable[[Path], Sink]:
    """Return what opens a file of that name."""
    match out.suffix.lower():
        case ".jsonl":
            return _JsonLines
        case ".parquet":
            return _parquet()
        case _:
            raise typer.BadParameter(f"{out.name} ends neither in .jsonl nor in .parquet", param_hint="--out")


async def write_contexts(store: "Store", sink: Sink, advance: Advance, **chosen: Any) -> int:
    """Write all chosen contexts, newest first, and return how many there were."""
    count = 0
    try:
        async for rows in _pages(store, chosen):
            sink.write(rows)
            count += len(rows)
            advance(count)
    except BaseException:
        sink.drop()
        raise
    sink.close()
    return count


async def _pages(store: "Store", chosen: dict[str, Any]) -> AsyncIterator[Rows]:
    before = None
    while builds := await store.builds(**chosen, before=before, limit=EXPORT_PAGE):
        before = builds[-1].number
        rows = [await _export_row(store, build) for build in builds]
        yield [row for row in rows if row is not None]


async def _export_row(store: "Store", build: Build) -> dict[str, Any] | None:
    """Return a build as plain data; None if it was removed meanwhile."""
    snapshot = await store.snapshot(build.id)
    if snapshot is None:
        return None
    row: dict[str, Any] = msgspec.to_builtins(build)
    del row["history"], row["rules"]  # for the engine alone
    answers = await store.responses(context=build.id)
    return {
        **row,
        "decisions": [msgspec.to_builtins(each) for each in snapshot.context.decisions],
        "answers": [msgspec.to_builtins(each) for each in answers],
    }


class _JsonLines:
    """JSON lines. The file is there when it is whole."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._part = Path(f"{out}.part")
        self._file = self._part.open("wb")

    def write(self, rows: Rows) -> None:
        for row in rows:
            self._file.write(msgspec.json.encode(row) + b"\n")

    def close(self) -> None:
        self._file.close()
        self._part.replace(self._out)

    def drop(self) -> None:
        with suppress(OSError):  # a full disk, which is what is being told already
            self._file.close()
        self._part.unlink(missing_ok=True)


def _parquet() -> Callable[[Path], Sink]:
    try:
        from brimful.formats.parquet import ParquetFile  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("parquet", "a Parquet file") from error
    return ParquetFile
