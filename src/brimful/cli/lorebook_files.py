"""`brimful lorebook import` and `export`: books as files of other programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.failure import Failure
from brimful.cli.opened import ask
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Tenant
from brimful.cli.progress import progress
from brimful.cli.source import STDIN, parse_json, read_text, source_name
from brimful.errors import InvalidValue, UnknownRecord
from brimful.lore.formats import Format, book_of, entries_of, exported, format_of
from brimful.records import Lorebook, LoreEntry

if TYPE_CHECKING:
    from brimful.engine import Engine

IMPORT_EXAMPLES: Final = """\
Examples:
  brimful lorebook import Eldoria.json
  brimful lorebook import Eldoria.json --id world --name "The world"
  brimful lorebook import card.json        # the book within a character card"""
EXPORT_EXAMPLES: Final = """\
Examples:
  brimful lorebook export world --out Eldoria.json
  brimful lorebook export world --format v3 > lorebook.json"""

_BATCH: Final = 500  # entries a transaction


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("import", epilog=IMPORT_EXAMPLES)(import_book)
    group.command("export", epilog=EXPORT_EXAMPLES)(export_book)


def import_book(
    *,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="World Info or a character's book. `-` is standard input.")
    ],
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The book's id. Default: the file's name.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="What people call the book.")] = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Bring in a lorebook: SillyTavern's World Info, or the book of a character card (V2, V3).

    Everything in the file is kept, and `export` gives it back. A file that
    was imported before replaces what it brought then.
    """
    where = source_name(file)
    data = _book_in(parse_json(read_text(file), where))
    book = id or ("lorebook" if file == STDIN else Path(where).stem)
    try:
        format = format_of(data)
        record = book_of(data, book, name or book)
        entries = entries_of(data, book)
    except InvalidValue as error:
        raise Failure(f"{where}: {error}") from None

    async def brought(engine: "Engine") -> int:
        before = {entry.id for entry in await engine.store.lore([book]) if entry.settings.get(format)}
        await engine.put(record)
        await _write(engine, entries, quiet=as_json)
        gone = before - {entry.id for entry in entries}
        for each in sorted(gone):
            await engine.store.remove_lore(each)
        return len(gone)

    removed = ask(brought, db=db, tenant=tenant, new=True)
    if as_json:
        output.show_json({"id": book, "format": format, "entries": len(entries), "removed": removed})
        return
    output.say(f"{output.one_line(book)}: {len(entries):,} entries ({format})")
    output.say(f"to use it: brimful room create ROOM --lorebook {output.one_line(book)}")


async def _write(engine: "Engine", entries: list[LoreEntry], *, quiet: bool) -> None:
    with progress("importing", max(1, len(entries)), quiet=quiet, unit="entries") as advance:
        for start in range(0, len(entries), _BATCH):
            await engine.write_lore(entries[start : start + _BATCH])
            advance(min(len(entries), start + _BATCH))


def export_book(
    *,
    book: Annotated[str, typer.Argument(metavar="BOOK", help="The book's id.")],
    format: Annotated[Format, typer.Option("--format", help="The form of the file.")] = "sillytavern",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Write to this file.")
    ] = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
) -> None:
    """Write a lorebook as a file of another program. What came from such a file is given back as it was."""

    async def read(engine: "Engine") -> dict[str, Any]:
        found = await engine.store.get(Lorebook, book)
        if found is None:
            raise UnknownRecord("lorebook", book)
        return exported(found, await engine.store.lore([book]), format)

    data = ask(read, db=db, tenant=tenant)
    if out is None:
        output.show_json(data)
    else:
        out.write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=4) + b"\n")


def _book_in(data: Any) -> Any:
    """Return the book of a character card, if that is what was given; else what was given."""
    match data:
        case {"spec": str(), "data": {"character_book": dict(book)}} | {"data": {"character_book": dict(book)}}:
            return book
        case {"spec": "chara_card_v2" | "chara_card_v3"}:
            raise Failure("the character card has no lorebook in it")
        case _:
            return data
