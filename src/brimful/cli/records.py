"""Commands that every kind of record has in common: list, show, remove and export."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from brimful.cli import output
from brimful.cli.files import write_lines
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Tenant
from brimful.cli.store import with_engine
from brimful.errors import UnknownRecord
from brimful.records import Persona, Record, User

if TYPE_CHECKING:
    from brimful.engine import Engine


P = TypeVar("P", Persona, User)


def list_records(kind: type[P], *, limit: int, db: str, tenant: str) -> list[P]:
    """Return the first of them by id."""

    async def listed(engine: "Engine") -> list[P]:
        return await engine.store.list_records(kind, limit=limit)

    return with_engine(listed, db=db, tenant=tenant)


def get_record(kind: type[P], id: str, *, db: str, tenant: str) -> P:
    """Return the one of this id."""

    async def found(engine: "Engine") -> P:
        record = await engine.store.get(kind, id)
        if record is None:
            raise UnknownRecord(kind.__name__.lower(), id)
        return record

    return with_engine(found, db=db, tenant=tenant)


def remove_record(kind: type[Persona] | type[User], id: str, *, db: str, tenant: str, as_json: bool) -> None:
    """Remove the one of this id, and say so."""

    async def removed(engine: "Engine") -> None:
        if not await engine.store.remove(kind, id):
            raise UnknownRecord(kind.__name__.lower(), id)

    with_engine(removed, db=db, tenant=tenant)
    if as_json:
        output.show_json({"id": id, "removed": True})
    else:
        output.write(f"removed {output.one_line(id)}")


OutFile = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Write to this file.")
]


def add_export(group: typer.Typer, kind: type[Record], *, name: str, of: str | None = None) -> None:
    """Add the command `export` to a group, `of` that name, where it is not that of the records."""
    command = of or name
    examples = f"Examples:\n  brimful {command} export > all.jsonl\n  brimful {command} export --out all.jsonl"
    group.command("export", epilog=examples, help=f"Write every {name} of the tenant as JSON lines.")(
        _export_command(kind)
    )


def _export_command(kind: type[Record]) -> Callable[..., None]:
    def export(*, out: OutFile = None, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT) -> None:
        async def written(engine: "Engine") -> None:
            await write_lines(_filter_kind(kind, engine.store.export_records()), out)

        with_engine(written, db=db, tenant=tenant)

    return export


async def _filter_kind(kind: type[Record], records: AsyncIterator[Record]) -> AsyncIterator[Record]:
    async for record in records:
        if isinstance(record, kind):
            yield record
