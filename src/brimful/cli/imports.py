"""`brimful import`: files of other programs into a store."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from brimful.cli import output
from brimful.cli.failure import Failure
from brimful.cli.opened import ask, has_store
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Tenant
from brimful.cli.progress import progress
from brimful.cli.source import source_name
from brimful.cli.table import Table, columns
from brimful.importers import Damage, Imported, Skipped, Walk, check, checked, importer_names

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
  brimful import half-downloaded.json --salvage
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
    salvage: Annotated[
        bool, typer.Option("--salvage", help="Bring what can be read of damaged files, and report the rest.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would come and what is there already.")] = False,
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
    again: after it has grown, or after an import that was interrupted.

    Everything is read through before anything is written. If some of it is
    damaged (cut off, no JSON, no UTF-8, a bomb), the command fails, and the
    store stays as it was; with --salvage it brings what can be read. What can
    be read, but is no message, is skipped and reported.
    """
    if format is not None and format not in importer_names():
        raise typer.BadParameter(f"{format!r} is none of {', '.join(importer_names())}", param_hint="'--format'")
    from brimful.engine.tally import Tally  # noqa: PLC0415 - with the engine, when one is opened

    tally = Tally()
    target = _Target(db=db, tenant=tenant, quiet=as_json)
    with Walk(paths, room=room, format=format) as walk:
        if dry_run:
            _look_through(walk, tally, target, salvage=salvage)
        else:
            _take_in(walk, tally, target, salvage=salvage)
    _show(tally.intake(), paths, dry_run=dry_run, as_json=as_json)


class _Target(NamedTuple):
    """Where records go, and whether to be silent about it."""

    db: str
    tenant: str
    quiet: bool


def _look_through(walk: Walk, tally: "Tally", target: _Target, *, salvage: bool) -> None:
    """Count what would come, and refuse what an import would."""
    from brimful.engine.intake import look_through  # noqa: PLC0415 - see above

    damage = Damage(walk)
    with progress("check", walk.total, quiet=target.quiet, unit="bytes") as advance:

        async def looked(engine: "Engine | None") -> None:
            store = engine.store if engine else None
            await look_through(store, damage.noted(), tally, told=lambda: advance(walk.done), where=lambda: walk.place)

        if has_store(target.db):
            ask(looked, db=target.db, tenant=target.tenant, indexing=False)
        else:
            asyncio.run(looked(None))
    if not salvage:
        damage.refuse()


def _take_in(walk: Walk, tally: "Tally", target: _Target, *, salvage: bool) -> None:
    """Check all there is, then write it."""
    from brimful.engine.intake import take_in  # noqa: PLC0415 - see above

    if not salvage:
        with progress("check", walk.total, quiet=target.quiet, unit="bytes") as advance:
            check(walk, told=lambda: advance(walk.done))
    found = walk.records() if salvage else checked(walk)
    first = _first_record(found, tally)  # where nothing can be read, no store is made
    with progress("import", walk.total, quiet=target.quiet, unit="bytes") as advance:

        async def taken(engine: "Engine") -> None:
            await take_in(engine, chain(first, found), tally, told=lambda: advance(walk.done), where=lambda: walk.place)

        if first:
            ask(taken, db=target.db, tenant=target.tenant, new=True)


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
