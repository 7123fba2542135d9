"""`brimful janitor`: collapse floods, summarize old days, archive unused messages, and undo it."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from brimful.cli import output
from brimful.cli.options import (
    DEFAULT_EMBEDDER,
    DollarsPerDay,
    EmbedderSpec,
    Json,
    StoreOptions,
    SummaryFocus,
    SummaryProvider,
    TokensPerDay,
    read_duration,
)
from brimful.cli.output import Failure, Table, columns, progress
from brimful.cli.records import require_room
from brimful.cli.store import with_engine
from brimful.records.own_calls import SpendingLimit

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.engine.janitor import JanitorReport
    from brimful.records.runs import JanitorRun


EXAMPLES: Final = """\
Examples:
  brimful janitor run --dry-run
  brimful janitor run --room support
  brimful janitor undo"""
RUN_EXAMPLES: Final = """\
Examples:
  brimful janitor run --dry-run
  brimful janitor run --room support
  brimful janitor run --model gpt-4o-mini --focus "open orders"
  brimful janitor run --older-than 180d
  brimful janitor run --json | jq '.rooms[].floods'"""
STATUS_EXAMPLES: Final = """\
Examples:
  brimful janitor status
  brimful janitor status --json | jq .archived.messages"""
UNDO_EXAMPLES: Final = """\
Examples:
  brimful janitor undo
  brimful janitor undo --json | jq .undone.number"""

_ROOM_COLUMNS: Final = columns(
    *("room", "floods", "summaries", "archived", "notes"), right=["floods", "summaries", "archived"]
)
_RUN_COLUMNS: Final = columns(
    *("run", "kind", "state", "begun", "floods", "summaries", "messages", "memories"),
    right=["run", "floods", "summaries", "messages", "memories"],
)


def register(app: typer.Typer) -> None:
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
    room: Annotated[
        str | None, typer.Option("--room", metavar="ID", help="Only this room. Default: all rooms.")
    ] = None,
    older: Annotated[
        float | None,
        typer.Option(
            "--older-than",
            metavar="TIME",
            parser=read_duration,
            help="Also archive messages older than this (180d, 52w) that a summary covers and no stored context used.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done without doing it.")] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete what earlier runs archived. This cannot be undone.")
    ] = False,
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="NAME", help="Write summaries with this model.")
    ] = None,
    provider: SummaryProvider = "",
    focus: SummaryFocus = "",
    tokens_per_day: TokensPerDay = None,
    dollars_per_day: DollarsPerDay = None,
    target: StoreOptions,
    embedder: EmbedderSpec = DEFAULT_EMBEDDER,
    as_json: Json = False,
) -> None:
    """Collapse floods of messages, and summarize old days.

    A flood is ten or more near-identical messages with the same numbers in
    one day, or a hundred within 15 minutes, whatever their numbers. It is
    replaced by one line that says how many there were, from whom and when,
    and the messages are archived. The other messages of a day are summarized,
    later also by month and by year. Contexts use a summary if the messages
    themselves do not fit. Without --model, a summary consists of quotes.

    Nothing is deleted unless you use --purge: `brimful janitor undo` restores
    archived messages. Pinned messages are not touched. Rooms without new
    messages cost nothing.
    """
    if dry_run and purge:
        raise typer.BadParameter("cannot be combined with --dry-run", param_hint="'--purge'")

    async def clean(engine: "Engine") -> "JanitorReport":
        await require_room(engine.store, room)
        writer = engine.make_summarizer(model, provider=provider) if model and not dry_run else None
        with progress("janitor", 1, quiet=as_json) as advance:
            return await engine.run_janitor(
                room,
                older_than=older,
                dry_run=dry_run,
                purge=purge,
                summarizer=writer,
                focus=focus,
                on_progress=advance,
            )

    limit = SpendingLimit(tokens_per_day=tokens_per_day, dollars_per_day=dollars_per_day)
    done = with_engine(clean, target=target, embedder=embedder, own_calls=limit)
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
        output.write(f"{done.memories:,} duplicate memories")
    if done.purged:
        output.write(f"deleted {done.purged:,} archived records")
    if done.dry_run:
        output.write("nothing was changed: this is a dry run" if any(facts.values()) else "nothing to do")
    elif done.run is None:
        output.write("nothing to do")
    else:
        output.write(f"run {done.run} is done; to undo it, run `brimful janitor undo`")


def status(*, target: StoreOptions, as_json: Json = False) -> None:
    """Show past runs and how much is archived."""

    async def read(engine: "Engine") -> tuple[list["JanitorRun"], dict[str, int]]:
        return await engine.list_janitor_runs(), await engine.count_archived()

    runs, archived = with_engine(read, target=target)
    if as_json:
        output.show_json({"runs": runs, "archived": archived})
        return
    names = ("floods", "summaries", "messages", "memories")
    rows = [
        [
            str(run.number),
            run.kind,
            run.state,
            output.format_time(run.started),
            *(f"{run.facts.get(name, 0):,}" for name in names),
        ]
        for run in runs
    ]
    if rows:
        output.show_table(Table(_RUN_COLUMNS, rows))
    else:
        output.write("no runs yet")
    output.write(f"archived: {archived['messages']:,} messages, {archived['memories']:,} memories")


def undo(*, target: StoreOptions, as_json: Json = False) -> None:
    """Undo the last run. Repeat it to undo earlier runs."""

    async def undo_last(engine: "Engine") -> "JanitorRun | None":
        return await engine.undo_janitor()

    done = with_engine(undo_last, target=target)
    if done is None:
        raise Failure("there is no run to undo")
    output.show({"undone": done}, f"run {done.number} is undone", as_json=as_json)
