"""`brimful db`: a store as a whole, brought up to date, checked and copied."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeVar

import typer

from brimful.cli import db_keys, output
from brimful.cli.exports import add_export
from brimful.cli.failure import OPERATION, Failure
from brimful.cli.opened import want_store
from brimful.cli.options import DEFAULT_DB, Db, Json
from brimful.cli.progress import progress
from brimful.cli.table import Table, columns
from brimful.errors import MigrationError
from brimful.records import Record

if TYPE_CHECKING:
    from brimful.stores import Database

T = TypeVar("T")

EXAMPLES: Final = """\
Examples:
  brimful db check
  brimful db backup chat.backup
  brimful db restore chat.backup --db sqlite:///again.db"""
MIGRATE_EXAMPLES: Final = """\
Examples:
  brimful db migrate
  brimful db migrate --db postgresql://ada@db.example.org/chat"""
CHECK_EXAMPLES: Final = """\
Examples:
  brimful db check
  brimful db check --json | jq -r '.[].what'"""
BACKUP_EXAMPLES: Final = """\
Examples:
  brimful db backup chat.backup
  brimful db backup monday.backup --db postgresql://ada@db.example.org/chat"""
RESTORE_EXAMPLES: Final = """\
Examples:
  brimful db restore chat.backup --db sqlite:///again.db
  brimful db restore chat.backup --db postgresql://ada@db.example.org/new"""

_COLUMNS: Final = columns("level", "what")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, epilog=EXAMPLES, help="A store as a whole.")
    group.command("migrate", epilog=MIGRATE_EXAMPLES)(migrate)
    group.command("check", epilog=CHECK_EXAMPLES)(check)
    group.command("backup", epilog=BACKUP_EXAMPLES)(backup)
    group.command("restore", epilog=RESTORE_EXAMPLES)(restore)
    add_export(group, Record, name="record", of="db")
    db_keys.register(group)
    app.add_typer(group, name="db")


def migrate(*, db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """Make a store, or bring its tables up to date with this version.

    Every program that opens a store does so by itself; this does it ahead of
    time, or by a user who alone may change tables.
    """
    changed = asyncio.run(_migrated(db))
    if as_json:
        output.show_json({"migrated": changed})
    else:
        output.say("the tables are up to date now" if changed else "the tables were up to date")


async def _migrated(db: str) -> bool:
    from brimful.stores import connect  # noqa: PLC0415 - commands without a store start the faster for it

    try:
        async with connect(db, migrate=False):
            return False
    except MigrationError:  # … or it is of a newer version, which the next line says
        async with connect(db):
            return True


def check(*, db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """Check a store: the file, what rows refer to, and the totals of the index.

    The exit code is 1 if something is damaged. What is only odd is a warning.
    """
    want_store(db)
    found = asyncio.run(_with(db, lambda database: database.check()))
    if as_json:
        output.show_json(found)
    elif found:
        output.show_table(Table(_COLUMNS, [[finding.level, finding.what] for finding in found]))
    else:
        output.say("nothing is wrong")
    if any(finding.level == "error" for finding in found):
        raise typer.Exit(OPERATION)


def backup(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="Where to write the copy.")],
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Copy a store with all of its tenants to a file, while others write on.

    The copy is a store itself, sqlite:///FILE, whatever the store is. What is
    encrypted stays so. The file is there when it is whole.
    """
    want_store(db)
    if file.exists() and not force:
        raise Failure(f"{file}: is there already; --force writes over it")
    _copy(db, "backup", file, quiet=as_json)
    if as_json:
        output.show_json({"file": str(file), "bytes": file.stat().st_size})
    else:
        output.say(f"wrote {output.one_line(str(file))}, {file.stat().st_size:,} bytes")


def restore(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `brimful db backup` wrote.")],
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Take over everything of a backup into a store that is empty, or not there yet."""
    if not file.is_file():
        raise Failure(f"{file}: no such file")
    _copy(db, "restore", file, quiet=as_json)
    tenants = asyncio.run(_with(db, lambda database: database.tenants()))
    if as_json:
        output.show_json({"tenants": tenants})
    else:
        output.say(f"restored {output.one_line(str(file))}: {', '.join(map(output.one_line, tenants)) or 'no tenants'}")


def _copy(db: str, verb: Literal["backup", "restore"], file: Path, *, quiet: bool) -> None:
    with progress(verb, 1, quiet=quiet) as advance:

        def told(done: int, total: int) -> None:
            advance(done / max(1, total))

        async def copied(database: "Database") -> None:
            await (database.backup(file, told) if verb == "backup" else database.restore(file, told))

        asyncio.run(_with(db, copied))


async def _with(db: str, question: "Callable[[Database], Awaitable[T]]") -> T:
    from brimful.stores import connect  # noqa: PLC0415 - commands without a store start the faster for it

    async with connect(db) as database:
        return await question(database)
