"""`brimful db`: a store as a whole, brought up to date and written out."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from brimful.cli import db_keys, output
from brimful.cli.lines import write_records
from brimful.cli.opened import ask
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Tenant
from brimful.errors import MigrationError

if TYPE_CHECKING:
    from brimful.engine import Engine

EXAMPLES: Final = """\
Examples:
  brimful db migrate --db postgresql://ada@db.example.org/chat
  brimful db export --out everything.jsonl"""
MIGRATE_EXAMPLES: Final = """\
Examples:
  brimful db migrate
  brimful db migrate --db postgresql://ada@db.example.org/chat"""
EXPORT_EXAMPLES: Final = """\
Examples:
  brimful db export > everything.jsonl
  brimful db export --tenant acme --out acme.jsonl
  brimful db export | brimful import - --db postgresql://ada@db.example.org/chat"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, epilog=EXAMPLES, help="A store as a whole.")
    group.command("migrate", epilog=MIGRATE_EXAMPLES)(migrate)
    group.command("export", epilog=EXPORT_EXAMPLES)(export)
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


def export(
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Write to this file.")
    ] = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
) -> None:
    """Write all that a tenant has as JSON lines.

    Users, personas, lorebooks, rooms with their messages and summaries, and
    memories: each line is one record and says which (`record`). `brimful
    import` reads them again, into any store. Contexts and vectors stay behind.
    """

    async def written(engine: "Engine") -> None:
        from brimful.engine.outflow import records_of_tenant  # noqa: PLC0415 - the engine is open, and with it this

        await write_records(records_of_tenant(engine.store), out)

    ask(written, db=db, tenant=tenant)
