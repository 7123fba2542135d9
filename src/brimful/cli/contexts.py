"""`brimful context`: the builds of a store, listed, written out, and let go when they are old."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from brimful.answers import Build, Pruned
from brimful.cli import output
from brimful.cli.lines import naming
from brimful.cli.opened import ask_store
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_TENANT,
    Db,
    Json,
    Last,
    Limit,
    OfModel,
    OfPersona,
    OfRoom,
    Tenant,
    read_duration,
)
from brimful.cli.progress import progress
from brimful.cli.table import Table, columns
from brimful.core.explain import plural

if TYPE_CHECKING:
    from brimful.protocols import Store

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
    group = typer.Typer(no_args_is_help=True, epilog=EXAMPLES, help="Contexts that were built, and what came of them.")
    group.command("list", epilog=LIST_EXAMPLES)(list_contexts)
    group.command("prune", epilog=PRUNE_EXAMPLES)(prune)
    group.command("export", epilog=EXPORT_EXAMPLES)(export)
    app.add_typer(group, name="context")


def list_contexts(
    *,
    room: OfRoom = None,
    persona: OfPersona = None,
    model: OfModel = None,
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

    found = ask_store(listed, db=db, tenant=tenant)
    if as_json:
        output.show_json([_data(build) for build in found])
    elif not found:
        output.say("no context was built that fits")
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

    async def pruned(store: "Store") -> Pruned:
        foreseen = await store.prune(before=before, dry_run=True)
        if dry_run:
            return foreseen
        whole = max(1, foreseen.builds + foreseen.answers + foreseen.contents)
        with progress("pruning", whole, quiet=as_json) as advance:
            return await store.prune(
                before=before, told=lambda done: advance(done.builds + done.answers + done.contents)
            )

    gone = ask_store(pruned, db=db, tenant=tenant)
    if as_json:
        output.show_json(gone)
    else:
        output.say(_told(gone, dry_run=dry_run))


def export(
    *,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="FILE.jsonl, or FILE.parquet (an extra)."),
    ],
    room: OfRoom = None,
    persona: OfPersona = None,
    model: OfModel = None,
    last: Last = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Write contexts to a file, one a line or row, each with its decisions.

    What was said is not in it: `brimful export` writes all of it.
    """
    from brimful.cli.export_contexts import sink_for, written  # noqa: PLC0415 - only where something is written

    since = None if last is None else time.time() - last
    opened = sink_for(out)

    async def exported(store: "Store") -> int:
        every = (await store.statistics(since=since, persona=persona, room=room))[0].contexts
        with progress(out.name, max(1, every), quiet=as_json) as advance, naming(out):
            return await written(store, opened(out), advance, room=room, persona=persona, model=model, since=since)

    count = ask_store(exported, db=db, tenant=tenant)
    if as_json:
        output.show_json({"file": str(out), "contexts": count, "bytes": out.stat().st_size})
    else:
        output.say(f"wrote {out}: {plural(count, 'context')}, {out.stat().st_size:,} bytes")


def _data(build: Build) -> dict[str, object]:
    data: dict[str, object] = msgspec.to_builtins(build)
    del data["history"], data["rules"]  # for the engine alone
    return data


def _row(build: Build) -> list[str]:
    return [
        build.id,
        output.moment(build.at),
        build.room,
        build.persona or "",
        build.model,
        build.policy,
        f"{build.tokens:,}",
        f"{100 * build.tokens / build.window:.1f} %",
        f"{build.left_out:,} of {build.candidates:,}",
        f"{len(build.warnings):,}",
    ]


def _told(gone: Pruned, *, dry_run: bool) -> str:
    when = output.moment(gone.before) or "1970-01-01 00:00:00"
    if not gone.builds and not gone.answers and not gone.contents:
        return f"nothing is older than {when}"
    what = [plural(gone.builds, "context"), plural(gone.answers, "answer"), plural(gone.contents, "text")]
    verb = "would remove" if dry_run else "removed"
    return f"{verb} {', '.join(what)} from before {when}: {gone.bytes:,} bytes"
