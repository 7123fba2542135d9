"""`brimful janitor`: collapse floods, summarize old days, archive unused messages, and undo it."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from brimful.cli import output
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_EMBEDDER,
    DEFAULT_TENANT,
    Db,
    EmbedderSpec,
    Json,
    Tenant,
    read_duration,
)
from brimful.cli.output import Failure
from brimful.cli.store import with_engine
from brimful.cli.terminal import Table, columns, progress

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.engine.janitor import JanitorReport
    from brimful.records.janitor import JanitorRun


EXAMPLES: Final = """\
Examples:
  brimful janitor run --dry-run
  brimful janitor run --room support
  brimful janitor undo"""
RUN_EXAMPLES: Final = """\
Examples:
  brimful janitor run --dry-run
  brimful janitor run --room support
  brimful janitor run --model gpt-4o-mini
  brimful janitor run --older 180d
  brimful janitor run --json | jq '.rooms[].floods'"""
STATUS_EXAMPLES: Final = """\
Examples:
  brimful janitor status
  brimful janitor status --json | jq .aside.messages"""
UNDO_EXAMPLES: Final = """\
Examples:
  brimful janitor undo
  brimful janitor undo --json | jq .undone.number"""

_ROOM_COLUMNS: Final = columns(
    *("room", "floods", "summaries", "set aside", "notes"), right=["floods", "summaries", "set aside"]
)
_RUN_COLUMNS: Final = columns(
    *("run", "state", "begun", "floods", "summaries", "messages", "memories"),
    right=["run", "floods", "summaries", "messages", "memories"],
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True,
        epilog=EXAMPLES,
        help="Collapse floods, summarize old days, archive unused messages (undoable).",
    )
    group.command("run", epilog=RUN_EXAMPLES)(run)
    group.command("status", epilog=STATUS_EXAMPLES)(status)
    group.command("undo", epilog=UNDO_EXAMPLES)(undo)
    app.add_typer(group, name="janitor")


def run(  # noqa: PLR0913 - the options of a command
    *,
    room: Annotated[str | None, typer.Option("--room", metavar="ID", help="Only this room; all without it.")] = None,
    older: Annotated[
        float | None,
        typer.Option(
            "--older",
            metavar="TIME",
            parser=read_duration,
            help="Also set aside what is older than 180d, 52w, covered by a summary, and was in no context on record.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Let go for good of what earlier runs set aside. This cannot be undone.")
    ] = False,
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="NAME", help="Let this model write the summaries.")
    ] = None,
    provider: Annotated[
        str, typer.Option("--provider", metavar="SPEC", help="Where that model runs, if not at its maker's.")
    ] = "",
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    embedder: EmbedderSpec = DEFAULT_EMBEDDER,
    as_json: Json = False,
) -> None:
    """Put rooms in order: floods become a line, days, months and years a summary.

    Ten or more nearly equal messages of a day with the same numbers are a
    flood, and whatever their numbers, a hundred within a quarter of an hour: a
    line says how many they were, from whom and when, and they are set aside.
    All else of a day is told by a summary, which stands in a context for what
    the window does not hold. Without --model, a summary quotes what was said.

    Nothing is deleted: what is set aside is in the store, and `brimful janitor
    undo` gives it back. What is pinned is never touched. What is unchanged
    since the last run costs nothing.
    """
    if dry_run and purge:
        raise typer.BadParameter("one or the other", param_hint="'--dry-run' / '--purge'")

    async def tidied(engine: "Engine") -> "JanitorReport":
        writer = engine.make_summarizer(model, provider=provider) if model and not dry_run else None
        with progress("tidying", 1, quiet=as_json) as told:
            return await engine.run_janitor(
                room, older_than=older, dry_run=dry_run, purge=purge, summarizer=writer, on_progress=told
            )

    done = with_engine(tidied, db=db, tenant=tenant, embedder=embedder)
    if as_json:
        output.show_json(done)
    else:
        _show(done)


def _show(done: "JanitorReport") -> None:
    facts = done.facts
    if done.rooms:
        rows = [
            [each.room, f"{len(each.floods):,}", f"{each.summaries:,}", f"{each.messages:,}", "; ".join(each.notes)]
            for each in done.rooms
        ]
        output.show_table(Table(_ROOM_COLUMNS, rows))
        for line in (line for each in done.rooms for line in each.floods):
            output.write(f"  {output.one_line(line)}")
    if done.memories:
        output.write(f"{done.memories:,} memories that say the same twice")
    if done.purged:
        output.write(f"let go of {done.purged:,} records that earlier runs had set aside")
    if done.dry_run:
        output.write("this is what a run would do" if any(facts.values()) else "there is nothing to do")
    elif done.run is None:
        output.write("there was nothing to do")
    else:
        output.write(f"run {done.run} is done; `brimful janitor undo` gives everything back")


def status(*, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Show what runs did, and how much is set aside."""

    async def told(engine: "Engine") -> tuple[list["JanitorRun"], dict[str, int]]:
        return await engine.list_janitor_runs(), await engine.count_archived()

    runs, aside = with_engine(told, db=db, tenant=tenant)
    if as_json:
        output.show_json({"runs": runs, "aside": aside})
        return
    names = ("floods", "summaries", "messages", "memories")
    rows = [
        [str(run.number), run.state, output.format_time(run.begun), *(f"{run.facts.get(name, 0):,}" for name in names)]
        for run in runs
    ]
    if rows:
        output.show_table(Table(_RUN_COLUMNS, rows))
    else:
        output.write("the janitor was never here")
    output.write(f"set aside: {aside['messages']:,} messages, {aside['memories']:,} memories")


def undo(*, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Undo the last run: everything is again as it was before. Done again, it goes further back."""

    async def undone(engine: "Engine") -> "JanitorRun | None":
        return await engine.undo_janitor()

    done = with_engine(undone, db=db, tenant=tenant)
    if done is None:
        raise Failure("there is no run that could be undone")
    if as_json:
        output.show_json({"undone": done})
    else:
        output.write(f"run {done.number} is undone")
