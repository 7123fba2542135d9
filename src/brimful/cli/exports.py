"""`export` of a group: all records of one kind, as JSON lines that `brimful import` reads again."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brimful.cli.lines import write_lines
from brimful.cli.opened import ask
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Tenant
from brimful.records import Record

if TYPE_CHECKING:
    from brimful.engine import Engine

Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Write to this file.")]


def add_export(group: typer.Typer, kind: type[Record], *, name: str, of: str | None = None) -> None:
    """Add the command `export` to a group, `of` that name, where it is not that of the records."""
    command = of or name
    examples = f"Examples:\n  brimful {command} export > all.jsonl\n  brimful {command} export --out all.jsonl"
    group.command("export", epilog=examples, help=f"Write every {name} of the tenant as JSON lines.")(_export(kind))


def _export(kind: type[Record]) -> Callable[..., None]:
    def export(*, out: Out = None, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT) -> None:
        async def written(engine: "Engine") -> None:
            await write_lines(_only(kind, engine.store.records()), out)

        ask(written, db=db, tenant=tenant)

    return export


async def _only(kind: type[Record], records: AsyncIterator[Record]) -> AsyncIterator[Record]:
    async for record in records:
        if isinstance(record, kind):
            yield record
