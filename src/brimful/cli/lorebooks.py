"""`brimful lorebook`: books of lore, and what they would tell now."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
import typer

from brimful.cli import lorebook_files, lorebook_try, output
from brimful.cli.failure import Failure
from brimful.cli.messages import words
from brimful.cli.opened import ask
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Limit, Tenant
from brimful.cli.table import Table, columns
from brimful.core.check import shown
from brimful.errors import BrimfulError, UnknownRecord
from brimful.lorebook import Logic
from brimful.records import Lorebook, LoreEntry

if TYPE_CHECKING:
    from brimful.engine import Engine

EXAMPLES: Final = """\
Examples:
  brimful lorebook import Eldoria.json
  brimful lorebook add world "The tower fell in 1204." --key tower --key "old keep"
  brimful room create tavern --lorebook world
  brimful lorebook try --room tavern --message "Who lives in the tower?\""""
LIST_EXAMPLES: Final = """\
Examples:
  brimful lorebook list
  brimful lorebook list --json | jq -r '.[].id'"""
SHOW_EXAMPLES: Final = """\
Examples:
  brimful lorebook show world
  brimful lorebook show world world/tower
  brimful lorebook show world --json | jq '.entries[].keys'"""
ADD_EXAMPLES: Final = """\
Examples:
  brimful lorebook add world "The tower fell in 1204." --key tower --id world/tower
  brimful lorebook add world "Nobody lies here." --constant
  brimful lorebook add world "The queen is old." --key queen --secondary age --logic and-any
  brimful lorebook add world "A storm comes." --key '/storm|rain/i' --set sticky=4 --set probability=0.5"""
EDIT_EXAMPLES: Final = """\
Examples:
  brimful lorebook edit world --set scan_depth=10 --set budget=1200 --set recursion=3
  brimful lorebook edit world world/tower --set cooldown=6 --set 'groups=["places"]'
  brimful lorebook edit world world/tower --set enabled=false"""
REMOVE_EXAMPLES: Final = """\
Examples:
  brimful lorebook remove world world/tower
  brimful lorebook remove world"""

_BOOKS: Final = columns(
    *("book", "name", "entries", "depth", "recursion", "budget"),
    right=("entries", "depth", "recursion", "budget"),
    spare=("name", "recursion", "depth"),
)
_ENTRIES: Final = columns("id", "name", "told", "order", "text", right=["order"], spare=("name", "order"))
_HIDDEN: Final = ("content", "settings", "lorebook")

Book = Annotated[str, typer.Argument(metavar="BOOK", help="The book's id.")]
Entry = Annotated[str | None, typer.Argument(metavar="[ENTRY]", help="An entry's id.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Set one field, as in sticky=4. Repeatable."),
]

R = TypeVar("R", Lorebook, LoreEntry)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, epilog=EXAMPLES, help="Books of lore, told when they are spoken of.")
    group.command("list", epilog=LIST_EXAMPLES)(list_books)
    group.command("show", epilog=SHOW_EXAMPLES)(show)
    group.command("add", epilog=ADD_EXAMPLES)(add)
    group.command("edit", epilog=EDIT_EXAMPLES)(edit)
    group.command("remove", epilog=REMOVE_EXAMPLES)(remove)
    lorebook_files.register(group)
    lorebook_try.register(group)
    app.add_typer(group, name="lorebook")


def list_books(
    *,
    limit: Limit = 100,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """List the books by id, with their rules and how many entries they have."""

    async def listed(engine: "Engine") -> list[tuple[Lorebook, int]]:
        books = await engine.store.listed(Lorebook, limit=limit)
        return [(book, len(await engine.store.lore([book.id]))) for book in books]

    found = ask(listed, db=db, tenant=tenant)
    if as_json:
        output.show_json([{**msgspec.to_builtins(book), "entries": entries} for book, entries in found])
    else:
        output.show_table(Table(_BOOKS, [_book_row(book, entries) for book, entries in found]))


def show(
    *, book: Book, entry: Entry = None, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False
) -> None:
    """Show a book and its entries, or all of one entry."""

    async def shown(engine: "Engine") -> tuple[Lorebook, list[LoreEntry]]:
        found = await book_of(engine, book)
        return found, [await entry_of(engine, book, entry)] if entry else await engine.store.lore([book])

    found, entries = ask(shown, db=db, tenant=tenant)
    if entry is not None:
        _show_entry(entries[0], as_json=as_json)
    elif as_json:
        output.show_json({**msgspec.to_builtins(found), "entries": entries})
    else:
        output.show_facts(_facts(found, ("settings",)))
        output.say()
        output.show_table(Table(_ENTRIES, [_entry_row(each) for each in entries]))


def add(  # noqa: PLR0913 - the options of a command
    *,
    book: Annotated[str, typer.Argument(metavar="BOOK", help="The book's id; a new one is made.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is told. `-` is standard input.")],
    keys: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="TEXT", help="Told when this is spoken of, or /matched/i. Repeatable."),
    ] = None,
    secondary: Annotated[
        list[str] | None, typer.Option("--secondary", metavar="TEXT", help="A key that has a say, too. Repeatable.")
    ] = None,
    logic: Annotated[Logic, typer.Option("--logic", help="What secondary keys have to say.")] = "and-any",
    constant: Annotated[bool, typer.Option("--constant", help="Told always.")] = False,
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="What its author calls it.")] = "",
    order: Annotated[
        int, typer.Option("--order", metavar="N", help="Its place among others; the higher, the later.")
    ] = 100,
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Its id: takes the place of the entry that has it.")
    ] = None,
    changes: Changes = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Add an entry to a book, and print its id."""
    told = words(text)
    given: dict[str, Any] = {"keys": keys or [], "secondary": secondary or [], "logic": logic, "constant": constant}
    given |= {"name": name, "order": order, **_settings(changes)}

    async def added(engine: "Engine") -> LoreEntry:
        from brimful.engine.writing import new_id  # noqa: PLC0415 - the engine is open, and with it this module

        entry = LoreEntry(id=id or new_id("lore"), lorebook=book, content=told)
        if id is not None and any(each.lorebook != book for each in await engine.store.lore(ids=[id])):
            raise Failure(f"{shown(id)} is an entry of another book")
        entry = _changed(entry, given)
        await engine.write_lore([entry])
        return entry

    entry = ask(added, db=db, tenant=tenant, new=True)
    if as_json:
        output.show_json(entry)
    else:
        output.say(output.one_line(entry.id))


def edit(
    *,
    book: Book,
    entry: Entry = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="What the entry tells. `-` is standard input.")
    ] = None,
    changes: Changes = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Change the rules of a book, or an entry: what is not said stays as it is."""
    given = _settings(changes)
    if text is not None:
        if entry is None:
            raise typer.BadParameter("a book has no text; name an entry", param_hint="'--text'")
        given["content"] = words(text)
    if not given:
        raise typer.BadParameter("say what to change", param_hint="'--set' / '--text'")

    async def changed(engine: "Engine") -> Lorebook | LoreEntry:
        if entry is None:
            rules = _changed(await book_of(engine, book), given)
            await engine.put(rules)
            return rules
        told = _changed(await entry_of(engine, book, entry), given)
        await engine.write_lore([told])
        return told

    record = ask(changed, db=db, tenant=tenant)
    if as_json:
        output.show_json(record)
    else:
        output.show_facts(_facts(record, _HIDDEN))


def remove(
    *, book: Book, entry: Entry = None, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False
) -> None:
    """Remove an entry, or a book with all of its entries."""

    async def removed(engine: "Engine") -> None:
        if entry is None:
            await book_of(engine, book)
            await engine.store.remove(Lorebook, book)
        else:
            await entry_of(engine, book, entry)
            await engine.store.remove_lore(entry)

    ask(removed, db=db, tenant=tenant)
    if as_json:
        output.show_json({"id": entry or book, "removed": True})
    else:
        output.say(f"removed {output.one_line(entry or book)}")


async def book_of(engine: "Engine", id: str) -> Lorebook:
    """Return a book."""
    book = await engine.store.get(Lorebook, id)
    if book is None:
        raise UnknownRecord("lorebook", id)
    return book


async def entry_of(engine: "Engine", book: str, id: str) -> LoreEntry:
    """Return an entry of a book, by its id or by what follows the book's in it."""
    await book_of(engine, book)
    found = [each for each in await engine.store.lore(ids=[id]) if each.lorebook == book]
    if not found:
        raise UnknownRecord("lore entry", id)
    return found[0]


# -- fields ----------------------------------------------------------------------------------------------------------


def _settings(changes: Sequence[str] | None) -> dict[str, Any]:
    """Return fields and their values. A value is JSON where it can be read as such, else a text.

    >>> _settings(["sticky=4", "name=Tower"])
    {'sticky': 4, 'name': 'Tower'}
    """
    return dict(map(_setting, changes or ()))


def _setting(text: str) -> tuple[str, Any]:
    field, equals, value = text.partition("=")
    if not field or not equals:
        raise typer.BadParameter(f"{text!r} is not of the form FIELD=VALUE", param_hint="'--set'")
    try:
        return field, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return field, value


def _changed(record: R, given: dict[str, Any]) -> R:
    known = [field for field in type(record).__struct_fields__ if field not in ("id", "lorebook")]
    for field in given:
        if field not in known:
            raise Failure(f"{field!r} is no field of it; known: {', '.join(known)}")
    try:
        return msgspec.convert({**msgspec.to_builtins(record), **given}, type(record))
    except msgspec.ValidationError as error:
        raise Failure(str(error).removesuffix(" - at `$`")) from None
    except BrimfulError as error:
        raise Failure(str(error)) from None


def _book_row(book: Lorebook, entries: int) -> list[str]:
    numbers = (entries, book.scan_depth, book.recursion, book.budget)
    return [book.id, book.name, *map(output.number, numbers)]


def _entry_row(entry: LoreEntry) -> list[str]:
    told = "always" if entry.constant else ", ".join(entry.keys) or "when found"
    return [entry.id, entry.name, told if entry.enabled else "off", f"{entry.order}", output.preview(entry.content)]


def _show_entry(entry: LoreEntry, *, as_json: bool) -> None:
    if as_json:
        output.show_json(entry)
        return
    output.show_facts(_facts(entry, _HIDDEN))
    output.say()
    output.say(output.lines(entry.content))


def _facts(record: Lorebook | LoreEntry, hidden: Sequence[str]) -> list[tuple[str, str]]:
    """Return what is set: the id, and whatever is not as it is by default."""
    fields = msgspec.structs.fields(type(record))
    said = [(field.name, getattr(record, field.name)) for field in fields if field.name not in hidden]
    usual = {field.name: field.default for field in fields}
    always = ("id", "keys", *(usual if isinstance(record, Lorebook) else ()))
    return [(name, _written(value)) for name, value in said if name in always or value != usual[name]]


def _written(value: object) -> str:
    match value:
        case tuple():
            return ", ".join(map(str, value))
        case bool():
            return "yes" if value else "no"
        case float() | int() | None:
            return output.number(value)
        case _:
            return str(value)
