"""`brimful export`: all that a store holds, or a part of it, as files that can be read again."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from brimful.cli.lines import write_lines
from brimful.cli.opened import ask
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Tenant
from brimful.records import Lorebook, Persona, Room

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.protocols import Store

EXAMPLES: Final = """\
Examples:
  brimful export > everything.jsonl
  brimful export --tenant acme --out acme.jsonl
  brimful export | brimful import - --db postgresql://ada@db.example.org/chat
  brimful export --room support --format openai --out support.jsonl
  brimful export --persona nova --format card --out nova.json"""

FORMATS: Final = {
    "records": ("room", "persona", "lorebook", ""),
    "openai": ("room",),
    "sillytavern": ("room",),
    "card": ("persona",),
}
"""The formats, and what can be written in each; everything is the empty name."""

_KINDS: Final[dict[str, type[Any]]] = {"room": Room, "persona": Persona, "lorebook": Lorebook}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export", epilog=EXAMPLES)(export)


def complete_format(incomplete: str) -> list[str]:
    """Complete the name of a format in a shell."""
    return [name for name in FORMATS if name.startswith(incomplete)]


def export(
    *,
    room: Annotated[str | None, typer.Option("--room", metavar="ID", help="A room with all that was said.")] = None,
    persona: Annotated[
        str | None, typer.Option("--persona", metavar="ID", help="A persona with its lorebooks.")
    ] = None,
    lorebook: Annotated[
        str | None, typer.Option("--lorebook", metavar="ID", help="A lorebook with its entries.")
    ] = None,
    format: Annotated[
        str,
        typer.Option("--format", metavar="NAME", help=f"One of {', '.join(FORMATS)}.", autocompletion=complete_format),
    ] = "records",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Write to this file.")
    ] = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
) -> None:
    """Write all records of a tenant as JSON lines, or one room, persona or lorebook.

    Users, personas, lorebooks, rooms, messages, summaries, contexts, answers,
    observations and memories: each line is one record and says which
    (`record`). `brimful import` reads them again, into any store. Vectors
    stay behind. Other formats are for other programs; what was imported from
    one of them says again all that it said. `brimful lorebook export` writes
    lorebooks for others.
    """
    chosen = {"room": room, "persona": persona, "lorebook": lorebook}
    named = [(kind, id) for kind, id in chosen.items() if id is not None]
    if len(named) > 1:
        raise typer.BadParameter("name one of them", param_hint="'--room' / '--persona' / '--lorebook'")
    kind, id = named[0] if named else ("", "")
    if format not in FORMATS:
        raise typer.BadParameter(f"{format!r} is none of {', '.join(FORMATS)}", param_hint="'--format'")
    if kind not in FORMATS[format]:
        needed = " or ".join(f"--{each}" for each in FORMATS[format] if each)
        raise typer.BadParameter(f"{format} is a format of {needed}", param_hint="'--format'")

    async def written(engine: "Engine") -> None:
        await write_lines(await _lines(engine.store, kind, id, format), out)

    ask(written, db=db, tenant=tenant)


async def _lines(store: "Store", kind: str, id: str, format: str) -> AsyncIterator[Any]:
    """Return what is to be written. What is not there is said before a file is touched."""
    from brimful.engine import outflow  # noqa: PLC0415 - the engine is open, and with it this

    if not kind:
        return store.records()
    record: Any = await outflow.wanted(store, _KINDS[kind], id)
    listed: dict[tuple[str, str], Callable[..., AsyncIterator[Any]]] = {
        ("room", "records"): outflow.records_of_room,
        ("room", "sillytavern"): outflow.chat_lines,
        ("persona", "records"): outflow.records_of_persona,
        ("lorebook", "records"): outflow.records_of_book,
    }
    if (kind, format) in listed:
        return listed[kind, format](store, record)
    whole: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
        "room": outflow.conversation,
        "persona": outflow.card,
    }
    return _one(await whole[kind](store, record))


async def _one(data: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    yield data
