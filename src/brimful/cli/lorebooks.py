"""`brimful lorebook`: manage lorebooks and try out which entries a message activates."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
import typer

from brimful.cli import output
from brimful.cli.files import STDIN, parse_json, read_argument, read_text, source_name
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_EMBEDDER,
    DEFAULT_MODEL,
    DEFAULT_TENANT,
    Db,
    EmbedderSpec,
    Json,
    Limit,
    Model,
    Tenant,
    Window,
    resolve_model,
)
from brimful.cli.output import Failure
from brimful.cli.store import wait_for_index, with_engine
from brimful.cli.terminal import Table, columns, progress
from brimful.core.context import Context
from brimful.core.decision import Decision
from brimful.core.validation import preview
from brimful.errors import BrimfulError, InvalidValue, UnknownRecord
from brimful.formats.lorebooks import (
    LorebookFormat,
    detect_lorebook_format,
    read_lorebook,
    read_lorebook_entries,
    write_lorebook,
)
from brimful.records import Lorebook, LoreEntry, Persona, Room, User
from brimful.records.lorebook import Logic

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
    data = _extract_book(parse_json(read_text(file), where))
    book = id or ("lorebook" if file == STDIN else Path(where).stem)
    try:
        format = detect_lorebook_format(data)
        record = read_lorebook(data, book, name or book)
        entries = read_lorebook_entries(data, book)
    except InvalidValue as error:
        raise Failure(f"{where}: {error}") from None

    async def brought(engine: "Engine") -> int:
        before = {entry.id for entry in await engine.store.lore([book]) if entry.settings.get(format)}
        await engine.put(record)
        await _write_entries(engine, entries, quiet=as_json)
        gone = before - {entry.id for entry in entries}
        for each in sorted(gone):
            await engine.store.remove_lore(each)
        return len(gone)

    removed = with_engine(brought, db=db, tenant=tenant, new=True)
    if as_json:
        output.show_json({"id": book, "format": format, "entries": len(entries), "removed": removed})
        return
    output.write(f"{output.one_line(book)}: {len(entries):,} entries ({format})")
    output.write(f"to use it: brimful room create ROOM --lorebook {output.one_line(book)}")


async def _write_entries(engine: "Engine", entries: list[LoreEntry], *, quiet: bool) -> None:
    with progress("importing", max(1, len(entries)), quiet=quiet, unit="entries") as advance:
        for start in range(0, len(entries), _BATCH):
            await engine.write_lore(entries[start : start + _BATCH])
            advance(min(len(entries), start + _BATCH))


def export_book(
    *,
    book: Annotated[str, typer.Argument(metavar="BOOK", help="The book's id.")],
    format: Annotated[LorebookFormat, typer.Option("--format", help="The form of the file.")] = "sillytavern",
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
        return write_lorebook(found, await engine.store.lore([book]), format)

    data = with_engine(read, db=db, tenant=tenant)
    if out is None:
        output.show_json(data)
    else:
        out.write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=4) + b"\n")


def _extract_book(data: Any) -> Any:
    """Return the book of a character card, if that is what was given; else what was given."""
    match data:
        case {"spec": str(), "data": {"character_book": dict(book)}} | {"data": {"character_book": dict(book)}}:
            return book
        case {"spec": "chara_card_v2" | "chara_card_v3"}:
            raise Failure("the character card has no lorebook in it")
        case _:
            return data


TRY_EXAMPLES: Final = """\
Examples:
  brimful lorebook try --room tavern --message "Who lives in the tower?"
  brimful lorebook try --room tavern --persona nova --model gpt-4o --window 4096
  brimful lorebook try --room tavern --message "tower" --json | jq '.told[].why'"""

_TRY_COLUMNS: Final = columns("entry", "tokens", "why", right=["tokens"])


def try_message(  # noqa: PLR0913 - the options of a command
    *,
    room: Annotated[str, typer.Option("--room", metavar="ID", help="The room whose books are tried.")],
    message: Annotated[
        str | None,
        typer.Option("--message", metavar="TEXT", help="What is said. `-` is standard input. Default: the room's end."),
    ] = None,
    persona: Annotated[str | None, typer.Option("--persona", metavar="ID", help="Who answers.")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Who asks. Default: the room's own.")] = None,
    model: Model = DEFAULT_MODEL,
    window: Window = None,
    embedder: EmbedderSpec = DEFAULT_EMBEDDER,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Say which entries would be told if this were said now, and which not, and why.

    A context is built and thrown away: what the window has no room for is not
    told either. Entries that nothing spoke of are not listed.
    """
    asked = None if message is None else read_argument(message)
    info = resolve_model(model)

    async def build(engine: "Engine") -> Context:
        await _require_books(engine, room, persona, user)
        await wait_for_index(engine)
        return await engine.assemble(
            room=room, persona=persona, message=asked, user=user, model=info, window=window, save=False
        )

    context = with_engine(build, db=db, tenant=tenant, embedder=embedder)
    lore = [decision for decision in context.decisions if decision.kind == "lorebook"]
    told = [decision for decision in lore if decision.included]
    others = [decision for decision in lore if not decision.included]
    if as_json:
        output.show_json(_try_data(context, told, others))
        return
    _show_decisions("told", context, told)
    output.write()
    _show_decisions("not told", context, others)
    for notice in context.inputs.degraded:
        output.warn(notice.text)


async def _require_books(engine: "Engine", room: str, persona: str | None, user: str | None) -> None:
    """Refuse to look into no book at all: nobody would know why nothing is told."""
    place = await engine.store.get(Room, room)
    persona, user = persona or (place.persona if place else None), user or (place.user if place else None)
    who = None if persona is None else await engine.store.get(Persona, persona)
    asker = None if user is None else await engine.store.get(User, user)
    if not any(each and each.lorebooks for each in (place, who, asker)):
        raise Failure(f"room {room!r} has no lorebook; `brimful room create ROOM --lorebook BOOK` gives it one")


def _show_decisions(title: str, context: Context, decisions: list[Decision]) -> None:
    if not decisions:
        output.write(f"{title}: nothing")
        return
    tokens = sum(decision.cost or decision.tokens for decision in decisions)
    output.write(f"{title}: {len(decisions):,} {'entry' if len(decisions) == 1 else 'entries'}, {tokens:,} tokens")
    rows = [[each.id, f"{each.cost or each.tokens:,}", _why(context, each)] for each in decisions]
    output.show_table(Table(_TRY_COLUMNS, rows))


def _why(context: Context, decision: Decision) -> str:
    """Say why an entry is told, or why not."""
    if decision.included:
        return context.whys.get(decision.id, "")
    return context.explain(decision.id).removeprefix("dropped: ").removeprefix("excluded, ")


def _try_data(context: Context, told: list[Decision], others: list[Decision]) -> dict[str, Any]:
    found = {package.id: package.metadata.get("lore", {}) for package in context.inputs.packages}

    def row(decision: Decision) -> dict[str, Any]:
        facts = {"id": decision.id, "outcome": decision.outcome, "reason": decision.reason}
        tokens = decision.cost or decision.tokens
        return {**facts, "tokens": tokens, "why": _why(context, decision), "lore": found.get(decision.id, {})}

    return {"told": [row(each) for each in told], "not_told": [row(each) for each in others]}


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

_BOOK_COLUMNS: Final = columns(
    *("book", "name", "entries", "depth", "recursion", "budget"),
    right=("entries", "depth", "recursion", "budget"),
    spare=("name", "recursion", "depth"),
)
_ENTRY_COLUMNS: Final = columns("id", "name", "told", "order", "text", right=["order"], spare=("name", "order"))
_HIDDEN_FIELDS: Final = ("content", "settings", "lorebook")

BookId = Annotated[str, typer.Argument(metavar="BOOK", help="The book's id.")]
EntryId = Annotated[str | None, typer.Argument(metavar="[ENTRY]", help="An entry's id.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Set one field, as in sticky=4. Repeatable."),
]

R = TypeVar("R", Lorebook, LoreEntry)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True, epilog=EXAMPLES, help="Manage lorebooks (entries added when their keywords appear)."
    )
    group.command("list", epilog=LIST_EXAMPLES)(list_books)
    group.command("show", epilog=SHOW_EXAMPLES)(show)
    group.command("add", epilog=ADD_EXAMPLES)(add)
    group.command("edit", epilog=EDIT_EXAMPLES)(edit)
    group.command("remove", epilog=REMOVE_EXAMPLES)(remove)
    group.command("import", epilog=IMPORT_EXAMPLES)(import_book)
    group.command("export", epilog=EXPORT_EXAMPLES)(export_book)
    group.command("try", epilog=TRY_EXAMPLES)(try_message)
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
        books = await engine.store.list_records(Lorebook, limit=limit)
        return [(book, len(await engine.store.lore([book.id]))) for book in books]

    found = with_engine(listed, db=db, tenant=tenant)
    if as_json:
        output.show_json([{**msgspec.to_builtins(book), "entries": entries} for book, entries in found])
    else:
        output.show_table(Table(_BOOK_COLUMNS, [_book_row(book, entries) for book, entries in found]))


def show(
    *, book: BookId, entry: EntryId = None, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False
) -> None:
    """Show a book and its entries, or all of one entry."""

    async def shown(engine: "Engine") -> tuple[Lorebook, list[LoreEntry]]:
        found = await get_book(engine, book)
        return found, [await get_entry(engine, book, entry)] if entry else await engine.store.lore([book])

    found, entries = with_engine(shown, db=db, tenant=tenant)
    if entry is not None:
        _show_entry(entries[0], as_json=as_json)
    elif as_json:
        output.show_json({**msgspec.to_builtins(found), "entries": entries})
    else:
        output.show_fields(_fields(found, ("settings",)))
        output.write()
        output.show_table(Table(_ENTRY_COLUMNS, [_entry_row(each) for each in entries]))


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
    told = read_argument(text)
    given: dict[str, Any] = {"keys": keys or [], "secondary": secondary or [], "logic": logic, "constant": constant}
    given |= {"name": name, "order": order, **_read_changes(changes)}

    async def added(engine: "Engine") -> LoreEntry:
        from brimful.engine.writer import new_id  # noqa: PLC0415 - the engine is open, and with it this module

        entry = LoreEntry(id=id or new_id("lore"), lorebook=book, content=told)
        if id is not None and any(each.lorebook != book for each in await engine.store.lore(ids=[id])):
            raise Failure(f"{preview(id)} is an entry of another book")
        entry = _apply_changes(entry, given)
        await engine.write_lore([entry])
        return entry

    entry = with_engine(added, db=db, tenant=tenant, new=True)
    if as_json:
        output.show_json(entry)
    else:
        output.write(output.one_line(entry.id))


def edit(
    *,
    book: BookId,
    entry: EntryId = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="What the entry tells. `-` is standard input.")
    ] = None,
    changes: Changes = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Change the rules of a book, or an entry: what is not said stays as it is."""
    given = _read_changes(changes)
    if text is not None:
        if entry is None:
            raise typer.BadParameter("a book has no text; name an entry", param_hint="'--text'")
        given["content"] = read_argument(text)
    if not given:
        raise typer.BadParameter("say what to change", param_hint="'--set' / '--text'")

    async def changed(engine: "Engine") -> Lorebook | LoreEntry:
        if entry is None:
            rules = _apply_changes(await get_book(engine, book), given)
            await engine.put(rules)
            return rules
        told = _apply_changes(await get_entry(engine, book, entry), given)
        await engine.write_lore([told])
        return told

    record = with_engine(changed, db=db, tenant=tenant)
    if as_json:
        output.show_json(record)
    else:
        output.show_fields(_fields(record, _HIDDEN_FIELDS))


def remove(
    *, book: BookId, entry: EntryId = None, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False
) -> None:
    """Remove an entry, or a book with all of its entries."""

    async def removed(engine: "Engine") -> None:
        if entry is None:
            await get_book(engine, book)
            await engine.store.remove(Lorebook, book)
        else:
            await get_entry(engine, book, entry)
            await engine.store.remove_lore(entry)

    with_engine(removed, db=db, tenant=tenant)
    if as_json:
        output.show_json({"id": entry or book, "removed": True})
    else:
        output.write(f"removed {output.one_line(entry or book)}")


async def get_book(engine: "Engine", id: str) -> Lorebook:
    """Return a book."""
    book = await engine.store.get(Lorebook, id)
    if book is None:
        raise UnknownRecord("lorebook", id)
    return book


async def get_entry(engine: "Engine", book: str, id: str) -> LoreEntry:
    """Return an entry of a book, by its id or by what follows the book's in it."""
    await get_book(engine, book)
    found = [each for each in await engine.store.lore(ids=[id]) if each.lorebook == book]
    if not found:
        raise UnknownRecord("lore entry", id)
    return found[0]


# -- fields ----------------------------------------------------------------------------------------------------------


def _read_changes(changes: Sequence[str] | None) -> dict[str, Any]:
    """Return fields and their values. A value is JSON where it can be read as such, else a text.

    >>> _read_changes(["sticky=4", "name=Tower"])
    {'sticky': 4, 'name': 'Tower'}
    """
    return dict(map(_read_change, changes or ()))


def _read_change(text: str) -> tuple[str, Any]:
    field, equals, value = text.partition("=")
    if not field or not equals:
        raise typer.BadParameter(f"{text!r} is not of the form FIELD=VALUE", param_hint="'--set'")
    try:
        return field, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return field, value


def _apply_changes(record: R, given: dict[str, Any]) -> R:
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
    return [book.id, book.name, *map(output.format_number, numbers)]


def _entry_row(entry: LoreEntry) -> list[str]:
    told = "always" if entry.constant else ", ".join(entry.keys) or "when found"
    return [entry.id, entry.name, told if entry.enabled else "off", f"{entry.order}", output.preview(entry.content)]


def _show_entry(entry: LoreEntry, *, as_json: bool) -> None:
    if as_json:
        output.show_json(entry)
        return
    output.show_fields(_fields(entry, _HIDDEN_FIELDS))
    output.write()
    output.write(output.printable(entry.content))


def _fields(record: Lorebook | LoreEntry, hidden: Sequence[str]) -> list[tuple[str, str]]:
    """Return what is set: the id, and whatever is not as it is by default."""
    fields = msgspec.structs.fields(type(record))
    said = [(field.name, getattr(record, field.name)) for field in fields if field.name not in hidden]
    usual = {field.name: field.default for field in fields}
    always = ("id", "keys", *(usual if isinstance(record, Lorebook) else ()))
    return [(name, _format_value(value)) for name, value in said if name in always or value != usual[name]]


def _format_value(value: object) -> str:
    match value:
        case tuple():
            return ", ".join(map(str, value))
        case bool():
            return "yes" if value else "no"
        case float() | int() | None:
            return output.format_number(value)
        case _:
            return str(value)
