"""`brimful import`: files of other programs into a store."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Final

import typer

from brimful.cli import output
from brimful.cli.failure import Failure
from brimful.cli.opened import ask
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Tenant
from brimful.cli.progress import progress
from brimful.cli.source import source_name
from brimful.cli.table import Table, columns
from brimful.importers import Imported, Skipped, Walk, importer_names

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.engine.tally import Intake, Tally

EXAMPLES: Final = """\
Examples:
  brimful import chat.jsonl
  brimful import chatgpt-export.zip
  brimful import ~/SillyTavern/data/default-user
  brimful import export.json --room support --db sqlite:///chat.db
  brimful import train-*.jsonl.gz --dry-run
  brimful import chat.jsonl --json | jq .skipped"""

_COLUMNS: Final = columns("skipped", "reason", "first at", right=["skipped"])


def complete_format(incomplete: str) -> list[str]:
    """Complete the name of a format in a shell."""
    return [name for name in importer_names() if name.startswith(incomplete)]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("import", epilog=EXAMPLES)(import_files)


def import_files(
    *,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files, folders or zip archives. `-` is standard input.")
    ],
    room: Annotated[
        str | None, typer.Option("--room", metavar="NAME", help="Where messages go. Default: the name of the file.")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="What the files are. Default: told by their beginning.",
            autocompletion=complete_format,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read everything, write nothing.")] = False,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Bring conversations of other programs into a store.

    Reads exports of ChatGPT, Claude, Slack and Discord; chats, character cards
    and lorebooks of SillyTavern, or its whole folder; messages of OpenAI,
    LangChain and LlamaIndex; and what `brimful export` wrote. Which it is,
    is told by the beginning of a file; --format names it where that fails.

    What is there already stays as it is, so the same file can be imported
    again: after it has grown, or after an import that was interrupted. What
    cannot be read is skipped and reported; the command fails only if nothing
    could be read at all.
    """
    if format is not None and format not in importer_names():
        raise typer.BadParameter(f"{format!r} is none of {', '.join(importer_names())}", param_hint="'--format'")
    from brimful.engine.intake import look_through, take_in  # noqa: PLC0415 - with the engine, when one is opened
    from brimful.engine.tally import Tally  # noqa: PLC0415

    tally = Tally()
    walk = Walk(paths, room=room, format=format)
    found = walk.records()
    first = _first_record(found, tally)  # where nothing can be read, no store is made
    with progress("import", walk.total, quiet=as_json, unit="bytes") as advance:

        def told() -> None:
            advance(walk.done)

        async def taken(engine: "Engine") -> None:
            await take_in(engine, chain(first, found), tally, told=told, where=lambda: walk.place)

        if dry_run:
            look_through(chain(first, found), tally, told=told)
        elif first:
            ask(taken, db=db, tenant=tenant, new=True)
    _show(tally.intake(), paths, dry_run=dry_run, as_json=as_json)


def _first_record(found: Iterator[Imported | Skipped], tally: "Tally") -> list[Imported]:
    """Return the first record, if there is one; count what is skipped before it."""
    for record in found:
        if not isinstance(record, Skipped):
            return [record]
        tally.skip(record)
    return []


def _show(intake: "Intake", paths: Sequence[str], *, dry_run: bool, as_json: bool) -> None:
    if not intake.read:
        raise Failure(_nothing(intake, paths))
    if as_json:
        output.show_json(intake)
        return
    output.show_facts(_facts(intake, dry_run=dry_run))
    if intake.skipped:
        output.say()
        rows = [[f"{skips.count:,}", skips.reason, ", ".join(skips.places)] for skips in intake.skipped]
        output.show_table(Table(_COLUMNS, rows))


def _nothing(intake: "Intake", paths: Sequence[str]) -> str:
    """Say why nothing came of it: by the reason that came most often."""
    if not intake.skipped:
        return f"{', '.join(map(source_name, paths))}: there is nothing in it to import"
    skips = intake.skipped[0]
    more = sum(each.count for each in intake.skipped) - 1
    return f"{skips.places[0]}: {skips.reason}{f'; skipped for this and other reasons: {more:,} more' if more else ''}"


def _facts(intake: "Intake", *, dry_run: bool) -> Iterator[tuple[str, str]]:
    yield ("would import" if dry_run else "imported"), ", ".join(_brought(intake)) or "nothing new"
    yield "rooms", f"{intake.rooms:,}"
    yield "already there", f"{intake.known:,}" if intake.known else ""
    yield "skipped", f"{sum(skips.count for skips in intake.skipped):,}" if intake.skipped else ""


def _brought(intake: "Intake") -> Iterator[str]:
    roles = ", ".join(f"{count:,} {role}" for role, count in intake.roles.items())
    for kind, count in intake.records.items():
        yield f"{count:,} {plural(kind, count)}{f' ({roles})' if kind == 'message' else ''}"


def plural(kind: str, count: int) -> str:
    """Return what so many records are called.

    >>> plural("memory", 2), plural("lore-entry", 2), plural("room", 1)
    ('memories', 'lore entries', 'room')
    """
    name = kind.replace("-", " ")
    if count == 1:
        return name
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
